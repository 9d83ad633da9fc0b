"""Arrays in ``.npy`` files, read block by block."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

from squeak.data.files import Unchanged


class NpyFile:
    """An array in a file, of which slices of rows are read.

    A memory map would end the process when the file becomes shorter; here that is an error.
    """

    def __init__(self, path: Path) -> None:
        self.watched = Unchanged([path], {path: path.name})
        self._path = path.resolve()
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, TypeError) as error:
            raise ValueError(f"{path.name} is cut short or not an array of numbers: {error}") from None
        self.shape, self.dtype, self.ndim = mapped.shape, mapped.dtype, mapped.ndim
        self._offset = int(getattr(mapped, "offset", 0))
        self._by_columns = not mapped.flags.c_contiguous
        self._first, self._rows = 0, self.shape[0]

    def part(self, rows: slice) -> NpyFile:
        """Return some consecutive rows as an array of their own in the same file."""
        found, (first, stop, _) = copy.copy(self), rows.indices(self.shape[0])
        found._first, found.shape = self._first + first, (stop - first, self.shape[1])
        return found

    def __getitem__(self, rows: slice) -> Any:
        """Return some consecutive rows, in memory."""
        first, stop, _ = rows.indices(self.shape[0])
        n, width, first = stop - first, self.shape[1], self._first + first
        self.watched.check()
        with open(self._path, "rb", buffering=0) as file:
            if not self._by_columns:
                return self._read(file, first * width, n * width).reshape(n, width)
            out = np.empty((n, width), dtype=self.dtype)
            for column in range(width):
                out[:, column] = self._read(file, column * self._rows + first, n)
        return out

    def _read(self, file: Any, start: int, count: int) -> Any:
        out = np.empty(count, dtype=self.dtype)
        room, got = memoryview(out.view(np.uint8).data), 0
        file.seek(self._offset + start * self.dtype.itemsize)
        while got < len(room):
            read = file.readinto(room[got:])
            if not read:
                raise ValueError(f"{self._path.name} was cut short while it was read")
            got += read
        return out
