"""Tasks on anything with the interface of :mod:`concurrent.futures`: threads, or other processes that run here."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from functools import partial
from typing import Any, ClassVar, Self

from squeak.core import engine
from squeak.core.checks import check_whole
from squeak.core.tasks import KEPT, ClusterError, K, Place, R, T, out_of_memory


class _Task(Future[Any]):
    """Stands for a result; ``begun`` is what the executor gave for it, while it is there."""

    begun: Future[Any] | None = None

    def cancel(self) -> bool:
        """Give the task up if it has not begun, or waits in the executor's queue."""
        begun = self.begun
        return (begun is None or begun.cancel()) and super().cancel()


class Executors(Place):
    """Tasks on whatever has the interface of ``concurrent.futures.Executor``; results come here.

    Parameters
    ----------
    make : callable
        Returns an executor, when the place is entered and whenever workers were lost: then all that was not
        finished is begun anew.
    attempts : int
        How often a task may be begun. After so many losses of workers a :class:`ClusterError` is raised.

    Examples
    --------
    The executors of joblib start faster again than those of Python, and closures may be defined in the script:

    >>> from joblib.externals.loky import get_reusable_executor
    >>> from squeak.places import Executors, use
    >>> joblib = Executors(lambda: get_reusable_executor(max_workers=2))

    Threads do for an example:

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with use(Executors(lambda: ThreadPoolExecutor(2))) as here:
    ...     here.map_ordered(abs, [-1, -2])
    [1, 2]
    """

    def __init__(self, make: Callable[[], Executor], attempts: int = 4) -> None:
        self.make, self.attempts = make, check_whole("attempts", attempts)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._executor = self.make()
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(wait=True)

    def submit(self, function: Callable[..., Any], *args: Any, name: str = "task") -> Future[Any]:
        """Begin a task once its arguments are there; no thread or process waits for them.

        Parameters
        ----------
        function : callable
        *args : objects
        name : str

        Returns
        -------
        Future
        """
        task = _Task()
        held = list(args)
        needed = [arg for arg in _flat(args) if isinstance(arg, Future)]
        left = len(needed) or 1

        def one_is_there(_: Any = None) -> None:
            nonlocal left
            with self._lock:
                left -= 1
                waits = left > 0  # looked at here: of two that end at once only one begins the task
            if waits or task.cancelled():
                return
            try:
                call = self._packed(function, [_resolved(arg) for arg in held])
            except BaseException as error:
                self._end(task, error=error)
            else:
                self._begin(task, call, self.attempts)
            held.clear()  # results that nobody else holds are let go

        for other in needed:
            other.add_done_callback(one_is_there)
        if not needed:
            one_is_there()
        return task

    def _packed(self, function: Callable[..., Any], values: list[Any]) -> Callable[[], Any]:
        """Return a call that can be pickled even where the function is a closure."""
        from joblib import wrap_non_picklable_objects

        packed: Callable[[], Any] = wrap_non_picklable_objects(partial(function, *values))
        return packed

    def _begin(self, task: _Task, call: Callable[[], Any], attempts: int) -> None:
        executor = self._executor
        try:
            begun = executor.submit(call)
        except BrokenExecutor as error:
            self._lost(task, call, attempts, executor, error)
            return
        except Exception as error:  # no process or thread can be started: nobody hears of it but by the task
            self._end(task, error=error)
            return
        task.begun = begun
        begun.add_done_callback(partial(self._ended, task, call, attempts, executor))

    def _ended(self, task: _Task, call: Callable[[], Any], attempts: int, executor: Executor, begun: Any) -> None:
        task.begun = None
        if begun.cancelled():
            task.cancel()  # whoever gave it up, nobody shall wait for it
            return
        error = begun.exception()
        if isinstance(error, BrokenExecutor):
            self._lost(task, call, attempts, executor, error)
        else:
            if self.remote and isinstance(error, MemoryError):
                error = out_of_memory(error)
            self._end(task, None if error else begun.result(), error)

    def _lost(
        self, task: _Task, call: Callable[[], Any], attempts: int, executor: Executor, error: BaseException
    ) -> None:
        """Begin a task again on new workers, or end it with an error after so many losses."""
        if attempts > 1:
            try:
                with self._lock:
                    if self._executor is executor:
                        executor.shutdown(wait=False)
                        self._executor = self.make()
            except Exception as failed:
                failed.__cause__ = error
                self._end(task, error=failed)
                return
            self._begin(task, call, attempts - 1)
            return
        lost = ClusterError(
            f"workers were lost {self.attempts} times while a task ran or waited: they may have been killed, or "
            f"have run out of memory. Call again ({KEPT}), with smaller parts or fewer workers"
        )
        lost.__cause__ = error
        self._end(task, error=lost)

    def _end(self, task: _Task, result: Any = None, error: BaseException | None = None) -> None:
        if not task.set_running_or_notify_cancel():
            return
        if error is None:
            task.set_result(result)
        else:
            task.set_exception(error)

    def completed(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the tasks as they are completed.

        Parameters
        ----------
        tasks : sequence of Future

        Returns
        -------
        iterator of Future
        """
        return as_completed(tasks)

    def gathered(self, tasks: Sequence[Any]) -> list[Any]:
        """Return the results of tasks in their order.

        Parameters
        ----------
        tasks : sequence of Future

        Returns
        -------
        list
        """
        return [task.result() for task in tasks]

    def rescued(self, tasks: Mapping[K, Any]) -> Iterator[tuple[K, Any]]:
        """Yield what is finished, and what is running once it is; tasks that have not begun are dropped.

        Parameters
        ----------
        tasks : dict of Future
        """
        self.cancel(tasks.values())
        for name, task in tasks.items():
            if not task.cancelled() and task.exception() is None:
                yield name, task.result()

    def cancel(self, tasks: Iterable[Any]) -> None:
        """Drop what has not begun, the last first, and wait for what has.

        Parameters
        ----------
        tasks : iterable of Future
        """
        wait([task for task in reversed(list(tasks)) if not task.cancel()])


class Processes(Executors):
    """Tasks on processes of this machine, without a cluster: Python's own process pool.

    Parameters
    ----------
    workers : int, optional
        How many processes; as many as there are cores by default.
    attempts : int
        How often a task may be begun; a process that dies loses all tasks that the pool has not finished.

    Notes
    -----
    A script that starts processes needs ``if __name__ == "__main__":`` around what it does.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Disqueak
    >>> from squeak.kernels import RBF
    >>> from squeak.places import Processes, use
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> made = Disqueak(RBF(1.0), ridge=5.0, n_leaves=3, random_state=0)
    >>> here = made.fit(X).dictionary_
    >>> with use(Processes(1)):
    ...     made.fit(X).dictionary_ == here
    True
    """

    def __init__(self, workers: int | None = None, attempts: int = 4) -> None:
        self.workers = engine.thread_count() if workers is None else check_whole("workers", workers)
        spawn = multiprocessing.get_context("spawn")  # a forked child would have our locks, but not our threads
        super().__init__(partial(ProcessPoolExecutor, self.workers, mp_context=spawn), attempts)


class Threads(Executors):
    """Tasks on a pool of threads of this process, with BLAS held to one thread from entry to exit.

    Examples
    --------
    With ``use(Threads())`` a run stays here although a Dask client is active:

    >>> from squeak.places import Threads, use
    >>> with use(Threads()) as here:
    ...     here.gathered([here.submit(sum, [1, 1])])
    [2]
    """

    remote: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(lambda: ThreadPoolExecutor(engine.thread_count(), thread_name_prefix="squeak-tasks"))

    def __enter__(self) -> Self:
        self._blas = engine.single_blas()
        self._blas.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._blas.__exit__(None, None, None)

    def _packed(self, function: Callable[..., Any], values: list[Any]) -> Callable[[], Any]:
        return partial(function, *values)

    def map_ordered(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return function(item) for all items in their order, computed on threads of this process.

        Parameters
        ----------
        function : callable
        items : sequence

        Returns
        -------
        list
        """
        return engine.map_ordered(function, items)


def _flat(args: Iterable[Any]) -> Iterator[Any]:
    for arg in args:
        yield from arg if isinstance(arg, list) else [arg]


def _resolved(arg: Any) -> Any:
    if isinstance(arg, list):
        return [_resolved(inner) for inner in arg]
    return arg.result() if isinstance(arg, Future) else arg
