"""Tasks on the workers of a Dask cluster.

Workers that die may come back: Dask then runs their tasks again. Where none is at work for :data:`WORKER_WAIT`
seconds, a :class:`ClusterError` ends the wait, for Dask itself would wait for ever.

Dask reads a message into one piece of memory and lets arrays be views of it that may begin at any byte. NumPy
multiplies such arrays as copies, in an order of its own, so that last digits would depend on which worker had
computed what. All that travels is therefore a :class:`_Sent`, whose arrays begin where numbers may.
"""

from __future__ import annotations

import math
import os
import pickle
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import numpy as np

from squeak.core.tasks import KEPT, ClusterError, K, Place, out_of_memory

WORKER_WAIT = 300.0
"""Seconds without a worker at work after which a run on a Dask cluster ends; ``SQUEAK_WORKER_WAIT`` sets others."""

LOOK = 1.0
"""Seconds between two looks at the workers while nothing is completed."""

EARLY = ("add", "merge", "facts")
"""Tasks of these names run before others that wait, and these in the order in which they were submitted, so that
few results wait. Dask would run what was submitted within 100 ms in any order, and additions at the end."""

POLL = 0.01
ALIGNMENT = 16
"""Bytes that the address of an array is a multiple of, as those that NumPy makes are."""

AT_WORK = ("finished", "pending", "lost")
"""States of tasks whose results are there, or come again where they were lost with a worker."""

FIRST_TRANSFER = 30.0
"""Seconds that results may take to come here at first; twice as many at each new try."""

GONE = (
    "the connection to the scheduler of the Dask cluster is lost, and with it what its workers held: call again "
    f"when it is back ({KEPT})"
)


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
                f"again ({KEPT}), or set SQUEAK_WORKER_WAIT to wait longer"
            )

    def _workers(self) -> dict[str, Any]:
        """Return the tasks of every worker; none where the scheduler does not answer."""
        try:
            tasks = self._client.sync(self._client.scheduler.processing, workers=None, callback_timeout=10)
        except (OSError, TimeoutError, ValueError):
            return {}
        return dict(tasks)


class _Sent:
    """An argument or a result of a task; unpickled, all its arrays are aligned."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        import cloudpickle

        buffers: list[pickle.PickleBuffer] = []
        apart = buffers.append if protocol >= 5 else None  # below, arrays are copied into the bytes and out of them
        return _received, (cloudpickle.dumps(self.value, protocol=5, buffer_callback=apart), *buffers)

    def __sizeof__(self) -> int:
        """Return the bytes of the value, by which Dask's workers spill and move results."""
        return bytes_of(self.value)


def bytes_of(value: Any, seen: set[int] | None = None) -> int:
    """Return about how many bytes a value holds: those of all arrays within it, each counted once.

    Dask itself counts the arrays in lists and dictionaries, but not those that an object of ours has.
    """
    from dask.sizeof import sizeof

    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, list | tuple | set):
        return sum(bytes_of(inner, seen) for inner in value) + 8 * len(value)
    if isinstance(value, dict):
        return sum(bytes_of(inner, seen) for inner in value.values()) + 16 * len(value)
    if type(value).__module__.startswith("squeak.") and hasattr(value, "__dict__"):
        return bytes_of(vars(value), seen)
    return int(sizeof(value))


def _received(pickled: bytes, *buffers: Any) -> _Sent:
    return _Sent(pickle.loads(pickled, buffers=[_aligned(buffer) for buffer in buffers]))


def _aligned(buffer: Any) -> Any:
    """Return the buffer, or a copy if it begins where no number may."""
    given = np.frombuffer(buffer, dtype=np.uint8)
    if given.ctypes.data % ALIGNMENT == 0:
        return buffer
    copy = given.copy()
    copy.flags.writeable = given.flags.writeable
    return copy.data


def _value(arg: Any) -> Any:
    """Return what was sent; in a list, of each."""
    if isinstance(arg, list):
        return [_value(inner) for inner in arg]
    return arg.value if isinstance(arg, _Sent) else arg


def _run(function: _Sent, *args: Any) -> _Sent:
    """Return the result of a task, ready to travel."""
    return _Sent(function.value(*map(_value, args)))


class Cluster(Place):
    """Tasks on the workers of a Dask cluster; results stay there until they are gathered.

    A worker that dies takes its tasks with it; Dask runs them again elsewhere, or once workers are back. Where a
    Dask client is active, this is the place that is used unless another one is.

    Parameters
    ----------
    client : distributed.Client

    Examples
    --------
    >>> from distributed import Client, LocalCluster
    >>> from squeak.places import Cluster, use
    >>> local = LocalCluster(n_workers=1, processes=False, dashboard_address=":0")
    >>> with local, Client(local, set_as_default=False) as client, use(Cluster(client)) as there:
    ...     there.map_ordered(abs, [-1, -2])
    [1, 2]
    """

    keeps: ClassVar[bool] = True

    def __init__(self, client: Any) -> None:
        self.client = client

    def submit(self, function: Callable[..., Any], *args: Any, name: str = "task") -> Any:
        """Begin a task; its key is one that no other has, for Dask takes equal keys for equal results.

        Parameters
        ----------
        function : callable
        *args : objects
        name : str

        Returns
        -------
        distributed.Future
        """
        if self.client.status in ("closing", "closed"):
            raise ClusterError(GONE)
        import distributed

        def sent(arg: Any) -> Any:
            if isinstance(arg, list):
                return [sent(inner) for inner in arg]
            return arg if isinstance(arg, distributed.Future) else _Sent(arg)

        key = f"squeak-{name}-{secrets.token_hex(8)}"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            order = {"priority": int(name in EARLY), "fifo_timeout": 0}
            return self.client.submit(_run, _Sent(function), *map(sent, args), key=key, pure=False, **order)

    def completed(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the tasks as they are completed; raise a :class:`ClusterError` where no worker is at work.

        Parameters
        ----------
        tasks : sequence of distributed.Future
        """
        import distributed

        waiting: Any = distributed.as_completed(list(tasks), loop=self.client.loop)
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
        """Return the results of tasks in their order; what was lost on the way is waited for again.

        Parameters
        ----------
        tasks : sequence of distributed.Future

        Returns
        -------
        list
        """
        from distributed.comm import CommClosedError

        seconds = FIRST_TRANSFER
        while True:
            for task in self.completed(tasks):
                if task.status not in AT_WORK:
                    _raise_error_of(task)
            try:
                return [task.result(timeout=seconds).value for task in tasks]
            except (CancelledError, CommClosedError):
                raise ClusterError(GONE) from None
            except Exception as error:
                for task in tasks:  # a result was lost with its worker, and its task failed when it ran again
                    if task.status not in AT_WORK:
                        _raise_error_of(task)
                if not isinstance(error, TimeoutError):
                    raise
                seconds *= 2.0

    def rescued(self, tasks: Mapping[K, Any]) -> Iterator[tuple[K, Any]]:
        """Yield what is finished and can still be reached.

        Parameters
        ----------
        tasks : dict of distributed.Future
        """
        from distributed.comm import CommClosedError

        for name, task in tasks.items():
            if task.status == "finished":
                with suppress(TimeoutError, CancelledError, CommClosedError):  # its worker is gone too
                    yield name, task.result(timeout=FIRST_TRANSFER).value

    def cancel(self, tasks: Iterable[Any]) -> None:
        """Give up the tasks; a scheduler that does not answer has none.

        Parameters
        ----------
        tasks : iterable of distributed.Future
        """
        if self.client.status == "running":
            given_up = partial(self.client.cancel, list(tasks), asynchronous=True)
            with suppress(OSError, TimeoutError):
                self.client.sync(given_up, callback_timeout=10)


def _raise_error_of(task: Any) -> None:
    """Raise the error of a task that failed, in words of our own where it is the cluster's and not the task's."""
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        task.result(timeout=FIRST_TRANSFER)
    except (CancelledError, CommClosedError):
        raise ClusterError(GONE) from None
    except MemoryError as error:
        raise out_of_memory(error) from None
    except KilledWorker as error:
        raise ClusterError(
            "every worker of the Dask cluster that was given a task died of it, the last at "
            f"{error.last_worker.address}: it may need more memory than a worker has. Use smaller parts "
            f"(n_leaves), or give workers more memory ({KEPT})"
        ) from None
