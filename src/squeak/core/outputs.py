"""Files that are written whole or not at all, whatever stops the process that writes them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]


def check_place(path: Path, words: str = "") -> None:
    """Fail before any work is done where a file could not be written; ``words`` are put before its name."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"{words}{path} is a folder; name a file")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{words}{path} cannot be written there")


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
