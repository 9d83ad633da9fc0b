"""Tasks that wait for each other: what a place must do so that they run there.

A :class:`Place` begins tasks, says when they are completed, gathers results in order and gives tasks up: four
methods, and all else follows from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from squeak.core import engine
from squeak.core.allocator import freed_memory_kept

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")


KEPT = "with a checkpoint, what was finished is kept"


class ClusterError(RuntimeError):
    """Workers are gone, or have not been at work for too long: results cannot come.

    Examples
    --------
    >>> from squeak.places import ClusterError
    >>> issubclass(ClusterError, RuntimeError)
    True
    """


def out_of_memory(error: MemoryError) -> ClusterError:
    """Return the error of a task for which its worker had too little memory, and what helps."""
    return ClusterError(
        f"a task needs more memory than its worker has ({error or 'MemoryError'}): use smaller parts or fewer "
        f"atoms, or give workers more memory ({KEPT})"
    )


class Place(ABC):
    """Where tasks run. Derive from it and write four methods to run squeak on an engine of your own.

    What :meth:`submit` returns stands for a result: it may be an argument of a later task, or be in a list that is
    one. A task is a function of its arguments alone, so that a place may run it again where a worker was lost.
    Functions and arguments may be closures: a place of other processes has to pickle them by value, as cloudpickle
    does.

    Attributes
    ----------
    remote : bool
        Whether tasks run in other processes, so that what they need travels.
    keeps : bool
        Whether results stay with the workers until they are gathered, so that the rows of a learner of many passes
        can be held there. Otherwise every result comes here, and goes from here to the tasks that need it.

    References
    ----------
    The guide to clusters, "Run on another engine".

    Examples
    --------
    >>> from squeak.places import Place, use
    >>> class Here(Place):
    ...     remote = False
    ...
    ...     def submit(self, function, *args, name=""):
    ...         return function(*args)
    ...
    ...     def completed(self, tasks):
    ...         return iter(tasks)
    ...
    ...     def gathered(self, tasks):
    ...         return list(tasks)
    ...
    ...     def cancel(self, tasks):
    ...         pass
    >>> with use(Here()) as here:
    ...     here.gathered([here.submit(pow, 10, here.submit(sum, [1, 1]))])
    [100]
    """

    remote: ClassVar[bool] = True
    keeps: ClassVar[bool] = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return

    @abstractmethod
    def submit(self, function: Callable[..., Any], *args: Any, name: str = "task") -> Any:
        """Begin a task once its arguments are there.

        Parameters
        ----------
        function : callable
        *args : objects
            Those that stand for results, by themselves or in a list, are given to the function as results.
        name : str
            A word for the task.

        Returns
        -------
        object
            What stands for its result.
        """

    @abstractmethod
    def completed(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield tasks as they are completed, with or without success.

        Parameters
        ----------
        tasks : sequence of what :meth:`submit` returned
        """

    @abstractmethod
    def gathered(self, tasks: Sequence[Any]) -> list[Any]:
        """Return the results of tasks in their order; the error of a task is raised.

        Parameters
        ----------
        tasks : sequence of what :meth:`submit` returned

        Returns
        -------
        list
        """

    @abstractmethod
    def cancel(self, tasks: Iterable[Any]) -> None:
        """Give up tasks that are no longer needed, if they have not begun.

        Parameters
        ----------
        tasks : iterable of what :meth:`submit` returned
        """

    def map_ordered(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results of a function of every item, in the order of the items.

        Parameters
        ----------
        function : callable
        items : sequence

        Returns
        -------
        list
        """
        tasks = [self.submit(by_itself, function, item) for item in items]
        try:
            return self.gathered(tasks)
        except BaseException:
            self.cancel(tasks)
            raise

    def rescued(self, tasks: Mapping[K, Any]) -> Iterator[tuple[K, Any]]:
        """Yield the results that are there, by the tasks' names, where a run has failed; none if a place cannot.

        Parameters
        ----------
        tasks : dict
            What :meth:`submit` returned, by names.
        """
        return iter(())


def by_itself(function: Callable[[T], R], item: T) -> R:
    """Return the function of an item, computed on one thread of a worker."""
    with engine.serial(), freed_memory_kept():
        return function(item)
