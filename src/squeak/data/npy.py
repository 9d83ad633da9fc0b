"""Rows of a ``.npy`` file, read as they are asked for; a file that changes meanwhile is an error, never a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from squeak.data.files import Unchanged


class NpyFile:
    """An array in a file, of which slices of rows are read.

    A memory map would end the process when the file becomes shorter; here that is an error.
    """

    def __init__(self, path: Path) -> None:
        self._watched = Unchanged([path], {path: path.name})
        self._path = path.resolve()
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, TypeError) as error:
            raise ValueError(f"{path.name} is cut short or not an array of numbers: {error}") from None
        self.shape, self.dtype, self.ndim = mapped.shape, mapped.dtype, mapped.ndim
        self._offset = int(getattr(mapped, "offset", 0))
        self._by_columns = not mapped.flags.c_contiguous

    def __getitem__(self, rows: slice) -> Any:
        """Return some consecutive rows, in memory."""
        first, stop, _ = rows.indices(self.shape[0])
        n, width = stop - first, self.shape[1]
        self._watched.check()
        with open(self._path, "rb", buffering=0) as file:
            if not self._by_columns:
                return self._read(file, first * width, n * width).reshape(n, width)
            out = np.empty((n, width), dtype=self.dtype)
            for column in range(width):
                out[:, column] = self._read(file, column * self.shape[0] + first, n)
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
