"""Places of two workers, of every kind of engine: what holds on one holds on all."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from squeak.places import Executors, Processes, use


@dataclass(frozen=True)
class Workers:
    """A place that is used, the ids of its workers' processes, and a Dask client where it has one."""

    place: Any
    pids: Callable[[], list[int]]
    client: Any = None


@contextmanager
def cluster_of(workers: int, failures: int = 100, connect: str = "120s", memory: str = "auto") -> Iterator[Any]:
    """Have a client of worker processes with nannies, on loopback, that may take their time to come back.

    For the time ``connect`` the others try to reach a worker that is gone; a busy machine starts processes slowly.
    A nanny ends a worker that takes more than 95% of ``memory``.
    """
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    settings = {
        "distributed.scheduler.allowed-failures": failures,
        "distributed.comm.timeouts.connect": connect,
        "distributed.deploy.lost-worker-timeout": "600s",
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=memory,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        if workers:
            client.wait_for_workers(workers, timeout=300)
        yield client


@contextmanager
def dask_workers(connect: str = "120s") -> Iterator[Workers]:
    """Have a Dask cluster, found by its active client."""
    from squeak.core.places import cluster

    with cluster_of(2, connect=connect) as client:
        yield Workers(cluster(), lambda: list(client.run(os.getpid).values()), client)


@contextmanager
def executor_workers(place: Any) -> Iterator[Workers]:
    """Have a place of executors, whose processes are in a table of theirs."""
    with use(place) as where:
        yield Workers(where, lambda: list(where._executor._processes or ()))


def joblib_workers() -> Any:
    """Have the processes that joblib uses."""
    loky = pytest.importorskip("joblib.externals.loky")
    return executor_workers(Executors(lambda: loky.get_reusable_executor(max_workers=2), attempts=100))


@contextmanager
def ray_workers() -> Iterator[Workers]:
    """Have a Ray of this machine; its processes are left alone."""
    ray = pytest.importorskip("ray")
    from squeak.adapters.ray import Ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with use(Ray()) as where:
            yield Workers(where, list)
    finally:
        ray.shutdown()


ENGINES: dict[str, Callable[[], Any]] = {
    "dask": dask_workers,
    "processes": lambda: executor_workers(Processes(2, attempts=100)),
    "joblib": joblib_workers,
    "ray": ray_workers,
}
BRIEF = [pytest.param(name, marks=[] if name == "dask" else [pytest.mark.slow]) for name in ENGINES]
"""All engines, but in `make test` only the first: the example of Processes is run there too."""


def is_gone(pid: int) -> bool:
    """Wait until a process that was killed is gone."""
    for _ in range(2_000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.005)
    return False


def deadly(part: Any, folder: Any) -> tuple[Callable[[], Any], threading.Thread]:
    """Return a loader of a part whose first worker waits to be killed, and a thread that kills it and notes so."""
    mine, note = os.getpid(), folder / "worker"

    def load() -> Any:
        if os.getpid() != mine and not note.exists():
            (folder / "new").write_text(str(os.getpid()))
            (folder / "new").rename(note)
            time.sleep(600)
        return part

    def kill() -> None:
        deadline = time.monotonic() + 120
        while not note.exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        pid = int(note.read_text())
        os.kill(pid, signal.SIGKILL)
        if is_gone(pid):
            (folder / "killed").touch()

    return load, threading.Thread(target=kill)
