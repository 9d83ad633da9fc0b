"""Files that are data, never code: ``.sqk``, an uncompressed zip of ``.npy`` arrays and ``meta.json``.

``meta.json`` names the kind of object, the format's version, the versions of the libraries that wrote it, and
the size and SHA-256 of every array. A reader checks all of that against the file before it allocates an
array, and hands the plain arrays to the kind's own reader, taken from a fixed list. A file is written whole
or not at all.

Reading allocates at most :data:`META_COST` and four times the size of the file, whatever the file says.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import re
import struct
import zipfile
from typing import Any, BinaryIO

import numpy as np

from squeak._version import __version__
from squeak.core.outputs import replacing

VERSION = 2
"""Version 2 added preprocessing and checkpoints; files of version 1 are read as they are."""

META = "meta.json"
META_LIMIT = 4 * 2**20
META_COST = 128 * 2**20
"""What the largest meta.json may cost once it is parsed: 30 times its size."""

DEEPEST = 100
"""How deep lists and dicts may lie within each other in meta.json."""

MEMBER_LIMIT = 4096
LARGEST_FILE = 2**32 - 2**20
"""Beyond this a zip needs fields that we neither write nor read."""

DTYPES = ("<f8", "<f4", "<i8", "<i4", "|u1", "|b1")
_HEADER = re.compile(
    rb"\{'descr': '([<|][a-z]\d)', 'fortran_order': False, "
    rb"'shape': \((|\d{1,18},|\d{1,18}(?:, \d{1,18}){1,3})\), \} *\n"
)


class StorageError(ValueError):
    """The file cannot be read as a squeak object: it is damaged, cut short, hostile or of a newer format."""


class NotStoredError(ValueError):
    """The file is whole, but a part of the object is code and must be given anew."""


class CheckpointError(OSError):
    """A checkpoint could not be written; the one before it is whole, and the sampler has lost nothing."""


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write an object's parts to a file of its kind."""
    write(path, obj.kind, *obj.to_parts())


def load(cls: Any, path: str | os.PathLike[str], kernel: Any = None) -> Any:
    """Read an object of one kind; see :func:`squeak.load`, which reads any.

    ``cls``: what is asked for: a file of another kind is refused. ``kernel``: needed for an object that was learned
    with a kernel that is code.
    """
    _, arrays, content = read(path, cls.kind)
    return made(cls, os.fspath(path), arrays, content, kernel)


def made(cls: Any, where: str, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
    """Return the object that a class makes of a file's parts, or a :class:`StorageError` that names the file."""
    with reading(where):
        obj = cls.from_parts(arrays, content, kernel=kernel)
        results = {name: value for name, value in vars(obj).items() if name.endswith("_")}
        for name, value in results.items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
                raise ValueError(f"{name} comes out as infinite or NaN")
        return obj


DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, RecursionError)
"""What a reader of damaged content may run into."""


@contextlib.contextmanager
def reading(where: str) -> Any:
    """Turn whatever damaged content leads to into a :class:`StorageError` that names the file."""
    try:
        yield
    except NotStoredError as error:
        raise NotStoredError(f"{where}: {error}") from None
    except DAMAGED as error:
        raise StorageError(f"{where}: its content is damaged: {_one_line(error)}") from None


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def write(path: str | os.PathLike[str], kind: str, arrays: dict[str, Any], content: dict[str, Any]) -> None:
    """Write one object's parts; the file at ``path`` is replaced only once the new one is safely on disk."""
    members = {f"{name}.npy": _npy_bytes(array) for name, array in arrays.items()}
    meta = {
        "format": "squeak",
        "version": VERSION,
        "kind": kind,
        "libraries": {"squeak": __version__, "numpy": np.__version__},
        "members": {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in members.items()
        },
        "content": content,
    }
    text = json.dumps(meta, indent=1, allow_nan=False)
    if len(text) > META_LIMIT:  # more than anyone reads: without blanks it may fit
        text = json.dumps(meta, separators=(",", ":"), allow_nan=False)
    if len(text) > META_LIMIT:
        raise ValueError(
            f"the object's description takes {len(text):,} bytes, and a file has room for {META_LIMIT:,}: names of "
            "columns, categories and classes are written there; are some of them very long?"
        )
    if sum(map(len, members.values())) > LARGEST_FILE:
        raise ValueError("the object is too large for a file: its arrays exceed 4 GB")
    with replacing(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(META), text)
        for name, data in members.items():
            archive.writestr(_entry(name), data)


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # the same object, the same bytes


def _npy_bytes(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return stream.getvalue()


def read(path: str | os.PathLike[str], kind: str | None = None) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the kind, the arrays and the content of one object, or a :class:`StorageError` that says why not."""
    where = os.fspath(path)
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size and stream.read(2) != b"PK"[:size]:
                raise StorageError("it is not a squeak file")
            _check_directory(stream, size)
            with zipfile.ZipFile(stream) as archive:
                return _read_archive(archive, size, kind)
    except StorageError as error:
        raise StorageError(f"{where}: {error}") from None
    except OSError as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise StorageError(f"{where} is not a whole squeak file: {_one_line(error)}") from None
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, LookupError, EOFError, struct.error) as error:
        raise StorageError(f"{where} is not a whole squeak file: {_one_line(error)}") from None
    except (RecursionError, NotImplementedError, RuntimeError, MemoryError, OverflowError) as error:
        raise StorageError(f"{where} is not a squeak file: {type(error).__name__}") from None


def _check_directory(stream: BinaryIO, size: int) -> None:
    """Refuse a zip whose list of members is not as small as ours, before anything parses it."""
    if size > LARGEST_FILE + META_LIMIT:
        raise StorageError("it is larger than any squeak file")
    tail = 42
    stream.seek(max(0, size - tail))
    end = stream.read(tail)
    stream.seek(0)
    if len(end) < 22 or end[-22:-18] != b"PK\x05\x06":
        raise zipfile.BadZipFile("its end is missing")
    _, disk, first_disk, here, entries, length, offset, comment = struct.unpack("<4s4H2LH", end[-22:])
    if end[:4] == b"PK\x06\x07" or disk or first_disk or comment or here != entries:
        raise StorageError("it is a zip of a form that squeak does not write")
    if not 1 <= entries <= MEMBER_LIMIT or length > MEMBER_LIMIT * 512 or offset + length != size - 22:
        raise StorageError("its list of members is not that of a squeak file")


def _read_archive(
    archive: zipfile.ZipFile, size: int, kind: str | None
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    entries = {entry.filename: entry for entry in archive.infolist()}
    if len(entries) != len(archive.infolist()) or META not in entries:
        raise StorageError("its list of members is not that of a squeak file")
    for entry in entries.values():
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise StorageError(f"member {entry.filename!r} is compressed")
    if sum(entry.file_size for entry in entries.values()) > size or entries[META].file_size > META_LIMIT:
        raise StorageError("its members claim to be larger than the file")
    meta = json.loads(archive.read(META), parse_float=_finite, parse_constant=_finite)
    _check_depth(meta)
    if not isinstance(meta, dict) or meta.get("format") != "squeak":
        raise StorageError("it is not a squeak file")
    version = meta.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise StorageError(f"it has format version {version!r}; this squeak reads up to {VERSION}: update squeak")
    found = meta.get("kind")
    if not isinstance(found, str) or (kind is not None and found != kind):
        raise StorageError(f"it holds a {found!r}, not a {kind!r}")
    listed, content = meta.get("members"), meta.get("content")
    if not isinstance(listed, dict) or not isinstance(content, dict) or set(listed) != set(entries) - {META}:
        raise StorageError("its members are not the ones it lists")
    arrays = {}
    for name, facts in listed.items():
        if not isinstance(facts, dict) or facts.get("size") != entries[name].file_size:
            raise StorageError(f"member {name!r} has another size than listed")
        data = archive.read(name)
        if hashlib.sha256(data).hexdigest() != facts.get("sha256"):
            raise StorageError(f"member {name!r} was altered")
        arrays[name.removesuffix(".npy")] = _npy_array(name, data)
    return found, arrays, content


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise StorageError(f"it holds the number {text[:20]}, which no squeak file has")
    return number


def _check_depth(meta: Any) -> None:
    """Refuse lists and dicts nested deeper than any object needs: readers of them may call themselves."""
    level = [meta]
    for _ in range(DEEPEST):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise StorageError(f"its description is nested more than {DEEPEST} deep")


def _npy_array(name: str, data: bytes) -> Any:
    """Return the array in ``data``; its header must agree with the bytes that are there.

    The header is read by a pattern, not by numpy's parser, which would compile it.
    """
    if data[:8] != b"\x93NUMPY\x01\x00" or len(data) < 10:
        raise StorageError(f"member {name!r} is not an npy array of version 1.0")
    start = 10 + int.from_bytes(data[8:10], "little")
    header = _HEADER.fullmatch(data, 10, start)
    if header is None or header[1].decode() not in DTYPES:
        raise StorageError(f"member {name!r} holds an array that no squeak object has")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(length) for length in header[2].decode().split(",") if length)
    count = 1
    for length in shape:
        count *= length
    if count * dtype.itemsize != len(data) - start:
        raise StorageError(f"member {name!r} says shape {shape}, its bytes do not")
    return np.frombuffer(data, dtype=dtype, offset=start).reshape(shape)
