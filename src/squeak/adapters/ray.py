"""Tasks on the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from squeak.core.tasks import ClusterError, Place, out_of_memory


class Ray(Place):
    """Tasks on the workers of a Ray cluster; results stay in its object store until they are gathered.

    ``ray.init`` is called before. Ray runs the tasks of a worker that died again, three times unless
    ``max_retries`` says otherwise.

    Parameters
    ----------
    **options
        What ``ray.remote`` takes for a task: ``num_cpus``, ``max_retries``, ``resources``, ….

    References
    ----------
    Moritz et al., "Ray: A distributed framework for emerging AI applications", OSDI 2018.

    Examples
    --------
    >>> import ray  # doctest: +SKIP
    >>> from squeak.adapters.ray import Ray  # doctest: +SKIP
    >>> from squeak.places import use  # doctest: +SKIP
    >>> ray.init(num_cpus=2)  # doctest: +SKIP
    >>> with use(Ray()) as there:  # doctest: +SKIP
    ...     there.map_ordered(abs, [-1, -2])
    [1, 2]
    """

    keeps: ClassVar[bool] = True

    def __init__(self, **options: Any) -> None:
        self.options = options

    def submit(self, function: Callable[..., Any], *args: Any, name: str = "task") -> Any:
        """Begin a task once its arguments are there.

        Parameters
        ----------
        function : callable
        *args : objects
        name : str

        Returns
        -------
        ray.ObjectRef
        """
        import ray

        sizes = [len(arg) if isinstance(arg, list) else None for arg in args]
        flat = [inner for arg in args for inner in (arg if isinstance(arg, list) else [arg])]
        task: Any = ray.remote(**self.options, name=f"squeak-{name}") if self.options else ray.remote
        return task(_call).remote(function, sizes, *flat)

    def completed(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the tasks as they are completed.

        Parameters
        ----------
        tasks : sequence of ray.ObjectRef
        """
        import ray

        left = list(tasks)
        while left:
            ready, left = ray.wait(left, num_returns=1, fetch_local=False)
            yield from ready

    def gathered(self, tasks: Sequence[Any]) -> list[Any]:
        """Return the results of tasks in their order.

        Parameters
        ----------
        tasks : sequence of ray.ObjectRef

        Returns
        -------
        list
        """
        import ray

        lost = (ray.exceptions.WorkerCrashedError, ray.exceptions.ObjectLostError, ray.exceptions.NodeDiedError)
        try:
            return list(ray.get(list(tasks)))
        except ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, BaseException) else error
            raise (out_of_memory(cause) if isinstance(cause, MemoryError) else cause) from None
        except ray.exceptions.OutOfMemoryError as error:
            raise out_of_memory(MemoryError(str(error))) from None
        except lost as error:
            raise ClusterError(f"workers of the Ray cluster were lost too often: {error}") from None

    def cancel(self, tasks: Iterable[Any]) -> None:
        """Give up the tasks that have not begun.

        Parameters
        ----------
        tasks : iterable of ray.ObjectRef
        """
        import ray

        for task in tasks:
            ray.cancel(task)


def _call(function: Callable[..., Any], sizes: list[int | None], *flat: Any) -> Any:
    """Call a function with its arguments put into their lists again: Ray gives results only for bare arguments."""
    values = iter(flat)
    return function(*[next(values) if size is None else [next(values) for _ in range(size)] for size in sizes])
