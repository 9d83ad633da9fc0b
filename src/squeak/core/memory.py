"""How much memory new arrays may take: what the system has left, and what a container or a Dask worker allows."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
"""Where Linux says what a group of processes, such as a container, may take."""

LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""Files with the limit of a group and what it has taken, in the second and the first form of such groups."""


def free_memory() -> float:
    """Return how many bytes new arrays may take, as far as anybody says; without bound where nobody does."""
    return min(_left_of_machine(), _left_of_groups())


def _left_of_machine() -> float:
    try:
        with open("/proc/meminfo") as file:
            found = dict(line.split(":", 1) for line in file)
        return 1024.0 * float(found["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def _left_of_groups() -> float:
    """Return what is left of the limits of the groups that this process is in; cached files do not count."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return float("inf")
    folders = set()
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers in ("", "memory"):
            inner = GROUPS / controllers / path.lstrip("/")
            folders |= {folder for folder in (inner, *inner.parents) if folder.is_relative_to(GROUPS)}
    left = float("inf")
    for folder in folders:
        for limit, taken in LIMITS:
            with suppress(OSError, ValueError):  # "max": there is no limit
                free = float((folder / limit).read_text()) - float((folder / taken).read_text())
                left = min(left, max(0.0, free + _cached_files(folder)))
    return left


def _cached_files(folder: Path) -> float:
    """Return the bytes of files that are in a group's memory, and leave it where others need it."""
    with suppress(OSError, ValueError):
        found = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return float(found.get("inactive_file", 0.0))
    return 0.0


def limit_of_worker() -> float:
    """Return how many bytes a Dask worker may take, within a task of it; dask is never imported for it."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with suppress(ValueError, AttributeError, TypeError):
            return float(distributed.get_worker().memory_manager.memory_limit)
    return float("inf")
