"""Threads of this process, with BLAS held to one thread while they work; :mod:`squeak.core.places` has tasks.

numpy's matrix product and ``exp`` release the interpreter lock, so tiles of rows go to a small thread
pool. BLAS's own threads would fight with that pool and would make rounding depend on their number:
the owner of the work holds BLAS to one thread for as long as the work lasts. Tiles are cut by the
data alone, never by the number of threads, so the same rows give the same bits on one thread or many.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeVar

import scipy.linalg  # noqa: F401  (loads scipy's BLAS before the controller looks for it)
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


def thread_count() -> int:
    """Return how many threads tiles are spread over: ``SQUEAK_NUM_THREADS``, else the cores we may use."""
    asked = os.environ.get("SQUEAK_NUM_THREADS", "")
    if asked:
        if not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"SQUEAK_NUM_THREADS must be a whole number from 1 on; it is {asked!r}")
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _BlasHold:
    """Counts who needs BLAS held to one thread; the first sets the limit, the last lifts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._controller: ThreadpoolController | None = None
        self._limiter: object | None = None

    def enter(self) -> None:
        with self._lock:
            if self._depth == 0:
                if self._controller is None:
                    self._controller = ThreadpoolController()
                self._take_control()
                self._limiter = self._controller.limit(limits=1, user_api="blas")
            self._depth += 1

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._limiter is not None:
                self._take_control()
                self._limiter.restore_original_limits()  # type: ignore[attr-defined]
                self._take_control()
                self._limiter = None

    def _take_control(self) -> None:
        """Let this thread, and then any other, set the limit.

        From threadpoolctl 3.8 on only the first thread that ever set it could, and others silently would not.
        """
        for library in self._controller.lib_controllers if self._controller is not None else ():
            clear = getattr(library, "clear_controlling_thread", None)
            if clear is not None:
                clear(force=True)


_hold = _BlasHold()
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()
_inside = threading.local()


@contextmanager
def single_blas() -> Iterator[None]:
    """Hold BLAS to one thread for the whole process while the body runs; may be nested."""
    _hold.enter()
    try:
        yield
    finally:
        _hold.leave()


def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the pool of this process; a forked child makes its own, for threads do not survive a fork."""
    with _pools_lock:
        key = (os.getpid(), threads)
        if key not in _pools:
            _pools[key] = ThreadPoolExecutor(threads, thread_name_prefix="squeak")
        return _pools[key]


def tiles(n: int, size: int) -> list[slice]:
    """Cut ``range(n)`` into slices of ``size``; depends on ``n`` and ``size`` only."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def even_tiles(n: int, size: int) -> list[slice]:
    """Cut ``range(n)`` into slices of about ``size``, none of them a small rest."""
    count = max(1, round(n / size))
    edges = [n * i // count for i in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def map_ordered(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Apply ``function`` to every item on the thread pool and return the results in the items' order.

    Called from inside a pool thread it runs there and then, so nested calls cannot lock up. If one
    item fails or the user interrupts, the items not yet begun are dropped and the error is raised.
    """
    threads = min(thread_count(), len(items))
    if threads <= 1 or getattr(_inside, "worker", False):
        with single_blas():
            return [function(item) for item in items]

    def run(item: T) -> R:
        _inside.worker = True
        return function(item)

    with single_blas():
        futures = [_pool(thread_count()).submit(run, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise


@contextmanager
def beside(function: Callable[[Callable[[], bool]], R]) -> Iterator[Callable[[], R]]:
    """Run ``function`` on a thread of the pool while the body runs on the others; the body asks for its result.

    With one thread, and inside of a pool thread, it runs before the body. If the body ends with an error, the
    function is dropped if it has not begun; else it can ask, by what it is given, whether the body has ended.
    """
    if thread_count() <= 1 or getattr(_inside, "worker", False):
        result = map_ordered(function, [lambda: False])[0]
        yield lambda: result
        return

    ended = threading.Event()

    def run() -> R:
        _inside.worker = True
        return function(ended.is_set)

    with single_blas():
        future = _pool(thread_count()).submit(run)
        try:
            yield future.result
        finally:
            ended.set()
            future.cancel()


@contextmanager
def serial() -> Iterator[None]:
    """Let everything in the body run on this thread: for tasks that are spread over threads themselves."""
    before = getattr(_inside, "worker", False)
    _inside.worker = True
    try:
        with single_blas():
            yield
    finally:
        _inside.worker = before


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items in order while the next one is made on a thread of its own; errors come where they belong.

    In the body of :func:`serial`, the thread that asks for an item makes it: code of users may hang on it.
    """
    if getattr(_inside, "worker", False):
        yield from items
        return
    maker = ThreadPoolExecutor(1, thread_name_prefix="squeak-ahead")
    end = object()
    try:
        upcoming = maker.submit(next, items, end)
        while (item := upcoming.result()) is not end:
            upcoming = maker.submit(next, items, end)
            yield item  # type: ignore[misc]
    finally:
        maker.shutdown(wait=True, cancel_futures=True)
        close = getattr(items, "close", None)
        if close is not None:
            close()
