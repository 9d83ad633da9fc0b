"""Files that are data, never code: ``.sqk``, an uncompressed zip of ``.npy`` arrays and ``meta.json``.

``meta.json`` names the kind of object, the format's version, the versions of the libraries that wrote it, and
the size and SHA-256 of every array. A reader checks all of that against the file before it allocates an
array, and hands the plain arrays to the kind's own reader, taken from a fixed list. A file is written whole
or not at all.

Reading allocates at most :data:`META_COST` and four times the size of the file, whatever the file says.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import io
import json
import math
import os
import re
import secrets
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from squeak._version import __version__

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

VERSION = 2
"""Version 2 added preprocessing and checkpoints; files of version 1 are read as they are."""

META = "meta.json"
META_LIMIT = 4 * 2**20
META_COST = 128 * 2**20
"""What the largest meta.json may cost once it is parsed: 30 times its size."""

DEEPEST = 100
"""How deep lists and dicts may lie within each other in meta.json."""

MEMBER_LIMIT = 64
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


class Storable(Protocol):
    """An object that can be written as arrays and JSON data, and made from them."""

    kind: str

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the object's arrays and the rest as JSON data."""

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
        """Return the object; anything unexpected may raise."""


KINDS: dict[str, type[Storable]] = {}
"""Every kind of object that a file may hold."""


ROOMS = ("squeak.learners", "squeak.online", "squeak.graphs.sample", "squeak.bandits", "squeak.dpp")
"""Where more kinds are, imported when a file holds one not known yet: a fixed list, whatever the file says."""


def register(cls: Any) -> Any:
    """Add a class to the kinds that files may hold; used as a decorator."""
    KINDS[cls.kind] = cls
    return cls


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write an object to a ``.sqk`` file; data only, replaced whole or not at all.

    Parameters
    ----------
    obj : Dictionary, Preprocessing, or a Squeak or Kors that has read rows
    path : path
        The folder must exist; an older file of that name is replaced once the new one is safely on disk.

    Examples
    --------
    >>> import numpy as np, squeak, tempfile
    >>> s = squeak.Squeak(ridge=1.0, random_state=0).fit(np.random.default_rng(0).random((500, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     squeak.save(s, folder + "/stream.sqk")
    ...     again = squeak.load(folder + "/stream.sqk")
    >>> again.dictionary_ == s.dictionary_
    True
    """
    if KINDS.get(getattr(obj, "kind", "")) is None or isinstance(obj, type):
        hint = ": save its dictionary_" if hasattr(obj, "dictionary_") else ""
        raise TypeError(f"a {type(obj).__name__} cannot be saved{hint}; {', '.join(sorted(KINDS))} can")
    arrays, content = obj.to_parts()
    write(path, obj.kind, arrays, content)


def load(path: str | os.PathLike[str], kernel: Any = None, kind: str | None = None) -> Any:
    """Read any object that :func:`save` wrote.

    Parameters
    ----------
    path : path
    kernel : kernel, optional
        Needed for an object that was learned with a kernel that is code.
    kind : str, optional
        Refuse any other kind.

    Raises
    ------
    StorageError
        The file is damaged, cut short, hostile, or of a newer squeak. It is never run and never trusted: at most
        128 MiB and four times its size are allocated.

    Examples
    --------
    >>> import numpy as np, squeak, tempfile
    >>> d = squeak.Squeak(ridge=1.0, random_state=0).fit(np.random.default_rng(0).random((500, 2))).dictionary_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     squeak.save(d, folder + "/d.sqk")
    ...     squeak.load(folder + "/d.sqk") == d
    True
    """
    where = os.fspath(path)
    found, arrays, content = read(path, kind)
    for room in ROOMS:
        if found not in KINDS:
            importlib.import_module(room)
    if found not in KINDS:
        raise StorageError(f"{where}: it holds a {found!r}, which this squeak does not know")
    with reading(where):
        return KINDS[found].from_parts(arrays, content, kernel=kernel)


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
    if len(text) > META_LIMIT:
        raise ValueError(f"the object's description is too large for a file: {len(text):,} bytes")
    if sum(map(len, members.values())) > LARGEST_FILE:
        raise ValueError("the object is too large for a file: its arrays exceed 4 GB")
    with replacing(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(META), text)
        for name, data in members.items():
            archive.writestr(_entry(name), data)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Any:
    """Open a new file beside ``path`` that takes its place at the end, durably; on an error nothing changes.

    What a killed process left half-written beside ``path`` is removed first.
    """
    target = Path(path)
    remove_leftovers(target)
    temporary, handle, lock = _new_beside(target)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        nameless = isinstance(error, OSError) and error.filename is None and error.errno in _FULL
        if nameless or getattr(error, "filename", None) == str(temporary):
            error.filename = str(target)  # type: ignore[attr-defined]
        raise
    finally:
        if lock is not None:
            os.close(lock)


_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
"""What a write says where there is no room; the system does not say in which file."""


def _new_beside(target: Path) -> tuple[Path, int, int | None]:
    """Return a new hidden file, its descriptor, and one that keeps it locked, by which others know that we live."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
        try:
            handle = os.open(temporary, flags, 0o666)
        except OSError as error:
            error.filename = str(target)
            raise
        if fcntl is None:
            return temporary, handle, None
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_nlink:  # nobody took it for a leftover before it was locked
            return temporary, handle, os.dup(handle)
        os.close(handle)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the half-written files that a killed process left beside ``path``; never those of a living one."""
    target = Path(path)
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{12}}\.tmp")
    with contextlib.suppress(OSError):  # a folder that cannot be listed, or a file that another process removed
        for entry in target.parent.iterdir():
            if pattern.fullmatch(entry.name):
                _remove_if_left(entry)


def _remove_if_left(path: Path) -> None:
    """Remove a file that no process holds a lock on; where there are no locks, the system guards open files."""
    if fcntl is None:
        with contextlib.suppress(OSError):
            path.unlink()
        return
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system has folders to sync."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
