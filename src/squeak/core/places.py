"""Where tasks run: on threads of this process, or on the workers of a Dask cluster.

:class:`Threads` and :class:`Cluster` do the same things: tasks that wait for each other are submitted, completed
and gathered, and a function is mapped over items in their order; :func:`place` chooses between them. On a cluster,
workers that die may come back: Dask then runs their tasks again. Where none is at work for :data:`WORKER_WAIT`
seconds, a :class:`ClusterError` ends the wait, for Dask itself would wait for ever.
"""

from __future__ import annotations

import math
import os
import secrets
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from squeak.core import engine
from squeak.core.allocator import freed_memory_kept

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")

WORKER_WAIT = 300.0
"""Seconds without a worker at work after which a run on a Dask cluster ends; ``SQUEAK_WORKER_WAIT`` sets others."""

LOOK = 1.0
"""Seconds between two looks at the workers while nothing is completed."""

POLL = 0.01
FIRST_TRANSFER = 30.0
"""Seconds that results may take to come here at first; twice as many at each new try."""


class ClusterError(RuntimeError):
    """No worker of a Dask cluster has been at work for too long."""


def worker_wait() -> float:
    """Return how many seconds a cluster may be without a worker at work: ``SQUEAK_WORKER_WAIT``, else 300."""
    asked = os.environ.get("SQUEAK_WORKER_WAIT", "")
    try:
        seconds = float(asked) if asked else WORKER_WAIT
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise ValueError(f"SQUEAK_WORKER_WAIT must be a positive number of seconds; it is {asked!r}")
    return seconds


class _Patience:
    """Watches a Dask cluster while its results are waited for."""

    def __init__(self, client: Any, expected: int) -> None:
        self._client, self._expected, self._limit = client, expected, worker_wait()
        self._idle_since: float | None = None
        self._looked = time.monotonic()

    def check(self, left: int) -> None:
        """Look whether any worker is at work, now and then; raise where none has been for too long."""
        now = time.monotonic()
        if now - self._looked < min(LOOK, self._limit / 4.0):
            return
        self._looked = now
        workers = self._workers()
        if any(workers.values()):
            self._idle_since = None
            return
        if self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since >= self._limit:
            raise ClusterError(
                f"no worker of the Dask cluster has been at work for {self._limit:g} seconds ({len(workers)} are "
                f"there), and {left:,} of {self._expected:,} results are still to come: start workers and call "
                "again (with a checkpoint, what was finished is kept), or set SQUEAK_WORKER_WAIT to wait longer"
            )

    def _workers(self) -> dict[str, Any]:
        """Return the tasks of every worker; none where the scheduler does not answer."""
        try:
            tasks = self._client.sync(self._client.scheduler.processing, workers=None, callback_timeout=10)
        except (OSError, TimeoutError, ValueError):
            return {}
        return dict(tasks)


class Place(Protocol):
    """Where tasks run; what :meth:`submit` returns may be an argument of a later task, or be in a list of them."""

    remote: bool
    """Whether tasks run in other processes, so that what they need travels and stays there."""

    def submit(self, function: Callable[..., Any], *args: Any, name: str = "") -> Any:
        """Begin a task once its arguments are there; return what stands for its result."""

    def completed(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the tasks as they are completed, with or without success."""

    def gathered(self, tasks: Sequence[Any]) -> list[Any]:
        """Return the results of tasks in their order; the error of a task is raised."""

    def map_ordered(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results of a function of every item, in the order of the items."""

    def rescued(self, tasks: Mapping[K, Any]) -> Iterator[tuple[K, Any]]:
        """Yield the results that are there, by the tasks' names, where a run has failed."""

    def cancel(self, tasks: Iterable[Any]) -> None:
        """Give up tasks that are no longer needed."""


class Threads:
    """Tasks on a pool of threads of their own, with BLAS held to one thread from entry to exit."""

    remote = False

    def __enter__(self) -> Threads:
        self._blas = engine.single_blas()
        self._blas.__enter__()
        self._pool = ThreadPoolExecutor(engine.thread_count(), thread_name_prefix="squeak-tasks")
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=True)
        self._blas.__exit__(None, None, None)

    def submit(self, function: Callable[..., Any], *args: Any, name: str = "") -> Future[Any]:
        """Begin a task once its arguments are there; no thread waits for them."""
        task: Future[Any] = Future()
        held, lock = list(args), threading.Lock()
        needed = [arg for arg in _flat(args) if isinstance(arg, Future)]
        left = len(needed)

        def run() -> None:
            if not task.set_running_or_notify_cancel():
                return
            try:
                values = [_resolved(arg) for arg in held]
                held.clear()  # results that nobody else holds are let go
                task.set_result(function(*values))
            except BaseException as error:
                task.set_exception(error)

        def one_is_there(_: Any = None) -> None:
            nonlocal left
            with lock:
                left -= 1
            if left == 0 and not task.cancelled():
                self._pool.submit(run)

        if not needed:
            self._pool.submit(run)
        for other in needed:
            other.add_done_callback(one_is_there)
        return task

    def completed(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the tasks as they are completed."""
        return as_completed(tasks)

    def gathered(self, tasks: Sequence[Any]) -> list[Any]:
        """Return the results of tasks in their order."""
        return [task.result() for task in tasks]

    def map_ordered(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return what :func:`squeak.core.engine.map_ordered` does."""
        return engine.map_ordered(function, items)

    def rescued(self, tasks: Mapping[K, Any]) -> Iterator[tuple[K, Any]]:
        """Yield what is finished, and what is running once it is; tasks that have not begun are dropped."""
        self.cancel(tasks.values())
        for name, task in tasks.items():
            if not task.cancelled() and task.exception() is None:
                yield name, task.result()

    def cancel(self, tasks: Iterable[Any]) -> None:
        """Drop what has not begun, the last first, and wait for what has."""
        wait([task for task in reversed(list(tasks)) if not task.cancel()])


class Cluster:
    """Tasks on the workers of a Dask cluster; results stay there until they are gathered.

    A worker that dies takes its tasks with it; Dask runs them again elsewhere, or once workers are back.
    """

    remote = True

    def __init__(self, client: Any) -> None:
        self.client = client

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def submit(self, function: Callable[..., Any], *args: Any, name: str = "task") -> Any:
        """Begin a task; its key is one that no other has, for Dask takes equal keys for equal results."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.client.submit(function, *args, key=f"squeak-{name}-{secrets.token_hex(8)}", pure=False)

    def completed(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the tasks as they are completed; raise a :class:`ClusterError` where no worker is at work."""
        import distributed

        waiting: Any = distributed.as_completed(list(tasks))
        patience = _Patience(self.client, len(tasks))
        left = len(tasks)
        while left:
            if waiting.has_ready():
                yield next(waiting)
                left -= 1
                patience = _Patience(self.client, len(tasks))
            else:
                time.sleep(POLL)
                patience.check(left)

    def gathered(self, tasks: Sequence[Any]) -> list[Any]:
        """Return the results of tasks in their order; what was lost on the way is waited for again."""
        seconds = FIRST_TRANSFER
        while True:
            if any(task.status != "finished" for task in self.completed(tasks)):
                seconds = math.inf  # the error of a task that failed is here already
            try:
                return [task.result(timeout=None if math.isinf(seconds) else seconds) for task in tasks]
            except TimeoutError:
                seconds *= 2.0

    def map_ordered(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results of a function of every item, each computed by one worker."""
        return self.gathered([self.submit(_by_itself, function, item) for item in items])

    def rescued(self, tasks: Mapping[K, Any]) -> Iterator[tuple[K, Any]]:
        """Yield what is finished and can still be reached."""
        for name, task in tasks.items():
            if task.status == "finished":
                with suppress(TimeoutError):  # its worker is gone too
                    yield name, task.result(timeout=FIRST_TRANSFER)

    def cancel(self, tasks: Iterable[Any]) -> None:
        """Give up the tasks."""
        self.client.cancel(list(tasks))


def cluster() -> Cluster | None:
    """Return the Dask cluster whose client is active here, if there is one; dask is never imported for it."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return Cluster(distributed.get_client())
    except ValueError:
        return None


def place() -> Threads | Cluster:
    """Return where tasks run: on the Dask cluster that is active, else on threads of this process.

    Returns
    -------
    Threads or Cluster
        A context manager, to be entered before tasks are submitted.

    Examples
    --------
    >>> from squeak.core import places
    >>> with places.place() as here:
    ...     two = here.submit(sum, [1, 1])
    ...     here.gathered([here.submit(pow, 10, two)])
    [100]
    """
    return cluster() or Threads()


def _by_itself(function: Callable[[T], R], item: T) -> R:
    with engine.serial(), freed_memory_kept():
        return function(item)


def _flat(args: Iterable[Any]) -> Iterator[Any]:
    for arg in args:
        yield from arg if isinstance(arg, list) else [arg]


def _resolved(arg: Any) -> Any:
    if isinstance(arg, list):
        return [_resolved(inner) for inner in arg]
    return arg.result() if isinstance(arg, Future) else arg
