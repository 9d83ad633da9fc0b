"""Where tasks run: in the place that is used, on a Dask cluster whose client is active, else on threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from squeak.core.dask_cluster import Cluster
from squeak.core.executors import Threads
from squeak.core.tasks import Place

_used: list[Place] = []


@contextmanager
def use(where: Place) -> Iterator[Place]:
    """Let samplers and learners run their tasks in a place, from entry to exit, on every thread of this process.

    Parameters
    ----------
    where : Place
        :class:`Processes`, :class:`Threads`, :class:`Executors`, :class:`Cluster`, or one of your own. It is
        entered, so that a pool of processes serves all that is fitted in the body.

    Returns
    -------
    context manager
        Of the place.

    References
    ----------
    The guide to clusters, "Run on another engine".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Disqueak
    >>> from squeak.kernels import RBF
    >>> from squeak.places import Threads, use
    >>> X = np.random.default_rng(0).standard_normal((2000, 2))
    >>> with use(Threads()):  # or use(Processes(2))
    ...     len(Disqueak(RBF(1.0), ridge=5.0, n_leaves=4, random_state=0).fit(X).nodes_)
    7
    """
    with where:
        _used.append(where)
        try:
            yield where
        finally:
            _used.remove(where)


def cluster() -> Cluster | None:
    """Return the Dask cluster whose client is active here, if there is one; dask is never imported for it.

    Within a task there is none: a task that waited for tasks of its own cluster would keep its worker from them.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    with suppress(ValueError):
        distributed.get_worker()
        return None
    with suppress(ValueError):
        return Cluster(distributed.get_client())
    return None


def elsewhere() -> Place | None:
    """Return the place that is used or the Dask cluster that is active, if its tasks run in other processes."""
    found = _used[-1] if _used else cluster()
    return found if found is not None and found.remote else None


def place() -> AbstractContextManager[Place]:
    """Return where tasks run: in the place that is used, on the Dask cluster that is active, else on threads.

    Returns
    -------
    context manager
        To be entered before tasks are submitted.

    Examples
    --------
    >>> from squeak.core import places
    >>> with places.place() as here:
    ...     two = here.submit(sum, [1, 1])
    ...     here.gathered([here.submit(pow, 10, two)])
    [100]
    """
    return nullcontext(_used[-1]) if _used else cluster() or Threads()
