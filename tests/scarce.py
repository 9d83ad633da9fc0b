"""Disks that are really full and memory that is really short, in processes of the tests' own."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

MOUNT = ("mount",)
PAGE = 4096
ENOUGH = 64 * 2**20
"""Bytes of a disk on which all that is written here has room."""

NEEDED, LEFT = 2**31, 2**28
"""Bytes that a task asks for where its process may have so many more: messages to and fro still have room."""


class Disk:
    """A small file system of its own; where none may be mounted, a limit on the size of this process's files."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self.path = path
        mount = [*MOUNT, "-t", "tmpfs", "-o", f"size={ENOUGH}", "squeak", str(path)]
        try:
            self.mounted = subprocess.run(mount, capture_output=True).returncode == 0
        except OSError:
            self.mounted = False

    def has(self, room: int) -> None:
        """Let the disk have so many bytes in all; without a disk of our own, no file may have more of them."""
        if self.mounted:
            size = -(-room // PAGE) * PAGE
            subprocess.run(["mount", "-o", f"remount,size={size}", str(self.path)], check=True, capture_output=True)
        else:
            limit(resource.RLIMIT_FSIZE, room)

    def fill(self) -> None:
        """Write until nothing more can be written; without a disk of our own there is no room for a byte."""
        if not self.mounted:
            self.has(0)
            return
        with open(self.path / "filled", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(PAGE))
            except OSError:
                return

    def make_room(self) -> None:
        """Let everything have room again."""
        self.has(ENOUGH)
        (self.path / "filled").unlink(missing_ok=True)

    def close(self) -> None:
        """Take the disk away."""
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.path)], check=True, capture_output=True)
        else:
            limit(resource.RLIMIT_FSIZE, None)


@contextmanager
def disk(path: Path):
    """Have a small disk at a place that does not exist yet."""
    found = Disk(path)
    try:
        yield found
    finally:
        found.close()


def limit(which: int, most: int | None) -> None:
    """Limit a resource of this process; None: to what the system allows."""
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (hard if most is None else most, hard))


def in_use() -> int:
    """Return the bytes of this process's addresses."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * PAGE


def ask_for_too_much() -> None:
    """Ask for more memory than this process may have from here on; a task that ends so leaves no limit behind."""
    limit(resource.RLIMIT_AS, in_use() + LEFT)
    try:
        np.ones(NEEDED // 8)
    finally:
        limit(resource.RLIMIT_AS, None)


def take_too_much() -> None:
    """Take more memory than a nanny lets its worker have, and wait for the end of it."""
    held = np.ones(NEEDED // 16)
    time.sleep(600.0)
    held.sum()


def write_there(path: Path) -> None:
    """Write to a disk; fail where it is full."""
    with open(path / f"part-{os.getpid()}", "wb") as file:
        file.write(bytes(2 * PAGE))
        os.fsync(file.fileno())
