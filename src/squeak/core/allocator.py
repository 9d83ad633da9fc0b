"""Freed memory kept for the next array, in processes that were told to hand it back at once.

A Dask nanny starts its workers with ``MALLOC_TRIM_THRESHOLD_=65536``: every temporary array is then mapped afresh
and its pages are zeroed by the kernel, which made our leaves twice as slow (benchmarks/cluster). While a task of
ours runs we raise glibc's thresholds; when the last one ends they are set back and free memory is returned.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ASKED_FOR = "MALLOC_TRIM_THRESHOLD_"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT, MAPPED = 1 << 28, 1 << 25
"""Bytes that may stay free at the top of the heap, and from which on an array is mapped apart."""

DEFAULT_MAPPED = 1 << 17

_lock = threading.Lock()
_depth = 0


def _libc() -> ctypes.CDLL | None:
    """Return glibc where this process was told to trim its heap, else None."""
    if not os.environ.get(ASKED_FOR, "").isdigit():
        return None
    try:
        libc = ctypes.CDLL(None)
        return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
    except (OSError, TypeError):  # not glibc
        return None


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory for reuse while the body runs; may be nested, and entered on many threads.

    Does nothing in a process that was not told to trim: glibc adapts by itself there.
    """
    global _depth
    libc = _libc()
    if libc is None:
        yield
        return
    with _lock:
        _depth += 1
        if _depth == 1:
            libc.mallopt(M_MMAP_THRESHOLD, MAPPED)
            libc.mallopt(M_TRIM_THRESHOLD, KEPT)
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                libc.mallopt(M_MMAP_THRESHOLD, DEFAULT_MAPPED)
                libc.mallopt(M_TRIM_THRESHOLD, min(int(os.environ[ASKED_FOR]), 2**31 - 1))
                libc.malloc_trim(0)
