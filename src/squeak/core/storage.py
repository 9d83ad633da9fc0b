"""Files that are data, never code: ``.sqk``, an uncompressed zip of ``.npy`` arrays and ``meta.json``.

``meta.json`` names the kind of object, the format's version, the versions of the libraries that wrote it, and
the size and SHA-256 of every array. A reader checks all of that against the file before it allocates an
array, and hands the plain arrays to the kind's own reader. A file is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from squeak._version import __version__

VERSION = 1
META = "meta.json"
META_LIMIT = 16 * 2**20
MEMBER_LIMIT = 64
DTYPES = ("<f8", "<f4", "<i8", "<i4", "|u1", "|b1")


class StorageError(ValueError):
    """The file cannot be read as a squeak object: it is damaged, cut short, hostile or of a newer format."""


def write(path: str | os.PathLike[str], kind: str, arrays: dict[str, Any], content: dict[str, Any]) -> None:
    """Write one object; the file at ``path`` is replaced only once the new one is safely on disk."""
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
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr(_entry(META), json.dumps(meta, indent=1, allow_nan=False))
                for name, data in members.items():
                    archive.writestr(_entry(name), data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays and the content of one object, or raise a :class:`StorageError` that says why."""
    where = os.fspath(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_archive(archive, os.path.getsize(path), kind)
    except StorageError as error:
        raise StorageError(f"{where}: {error}") from None
    except OSError:
        raise
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, KeyError, EOFError) as error:
        raise StorageError(f"{where} is not a whole squeak file: {error}") from None
    except (RecursionError, NotImplementedError, RuntimeError, MemoryError, OverflowError) as error:
        raise StorageError(f"{where} is not a squeak file: {type(error).__name__}") from None


def _read_archive(archive: zipfile.ZipFile, size: int, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    entries = {entry.filename: entry for entry in archive.infolist()}
    if len(entries) != len(archive.infolist()) or len(entries) > MEMBER_LIMIT or META not in entries:
        raise StorageError("its list of members is not that of a squeak file")
    for entry in entries.values():
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise StorageError(f"member {entry.filename!r} is compressed")
    if sum(entry.file_size for entry in entries.values()) > size or entries[META].file_size > META_LIMIT:
        raise StorageError("its members claim to be larger than the file")
    meta = json.loads(archive.read(META))
    if not isinstance(meta, dict) or meta.get("format") != "squeak":
        raise StorageError("it is not a squeak file")
    if not isinstance(meta.get("version"), int) or not 1 <= meta["version"] <= VERSION:
        raise StorageError(
            f"it has format version {meta.get('version')!r}; this squeak reads up to {VERSION}: update squeak"
        )
    if meta.get("kind") != kind:
        raise StorageError(f"it holds a {meta.get('kind')!r}, not a {kind!r}")
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
    return arrays, content


def _npy_array(name: str, data: bytes) -> Any:
    """Return the array in ``data``; its header must agree with the bytes that are there."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise StorageError(f"member {name!r} has another npy version than 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.str not in DTYPES or fortran:
        raise StorageError(f"member {name!r} holds {dtype}, which no squeak object has")
    start = stream.tell()
    count = 1
    for length in shape:
        count *= int(length)
    if any(length < 0 for length in shape) or count * dtype.itemsize != len(data) - start:
        raise StorageError(f"member {name!r} says shape {shape}, its bytes do not")
    return np.frombuffer(data, dtype=dtype, offset=start).reshape(shape)
