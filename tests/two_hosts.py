"""Two hosts on one machine: network namespaces joined by a cable, and a relay that delays and cuts what passes.

The kernel's own way to do so (``tc netem``) is not in every kernel; a relay in Python is everywhere.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from tests import chaos

HOSTS = ("192.0.2.1", "192.0.2.2")
"""Addresses of a range that is kept for documentation; they exist in the namespaces alone."""

SCHEDULER, WORKERS, DOORS = 7000, (4001, 4002), (6000, 6001, 6002)
"""Ports; the doors are those of the relay, on the first host, to the scheduler and to each worker."""


class Relay:
    """Passes bytes on, each chunk after 5 to 30 ms by a seeded generator, and now and then cuts a connection."""

    def __init__(self, seed: int, cut: float, log: Path) -> None:
        self.rng, self.cut, self.log = random.Random(seed), cut, log
        self.counts = {"connections": 0, "chunks": 0, "cuts": 0}

    async def serve(self, doors: dict[int, tuple[str, int]]) -> None:
        for door, target in doors.items():
            await asyncio.start_server(lambda *ends, to=target: self.joined(*ends, to), HOSTS[0], door)
        while True:
            self.log.with_suffix(".new").write_text(json.dumps(self.counts))
            self.log.with_suffix(".new").replace(self.log)
            await asyncio.sleep(0.1)

    async def joined(self, reader, writer, target) -> None:
        self.counts["connections"] += 1
        try:
            there, back = await asyncio.open_connection(*target)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(self.carried(reader, back, writer), self.carried(there, writer, back))

    async def carried(self, reader, writer, other) -> None:
        with suppress(OSError):
            while chunk := await reader.read(65_536):
                self.counts["chunks"] += 1
                await asyncio.sleep(self.rng.uniform(0.005, 0.03))
                if self.rng.random() < self.cut:
                    self.counts["cuts"] += 1
                    writer.transport.abort()
                    other.transport.abort()
                    return
                writer.write(chunk)
                await writer.drain()
        writer.close()


def ip(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=True)


@contextmanager
def namespaces() -> Iterator[tuple[str, str]]:
    """Have two network namespaces that see each other alone; they are removed in any case."""
    names = tuple(f"squeak-{os.getpid()}-{side}" for side in "ab")
    cards = tuple(f"sq{os.getpid()}{side}" for side in "ab")
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", cards[0], "netns", names[0], "type", "veth", "peer", "name", cards[1], "netns", names[1])
        for name, card, host in zip(names, cards, HOSTS, strict=True):
            ip("-n", name, "addr", "add", f"{host}/24", "dev", card)
            for device in ("lo", card):
                ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names:
            with suppress(subprocess.CalledProcessError):
                ip("netns", "del", name)


@contextmanager
def kept_alive(namespace: str, *words: str) -> Iterator[None]:
    """Have a process in a namespace, started again whenever it ends, and killed by its id at last."""
    over = threading.Event()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    def start():
        line = ["ip", "netns", "exec", namespace, sys.executable, "-m", *words]
        return subprocess.Popen(line, cwd=chaos.ROOT, env=chaos.environment(), **quiet)

    def keep(process):
        try:
            while not over.wait(0.1):
                if process.poll() is not None:
                    process = start()
        finally:
            process.kill()
            process.wait()

    keeper = threading.Thread(target=keep, args=[start()])
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()


def worker(host: int, scheduler: str) -> tuple[str, ...]:
    """Return the command of the worker on a host, which is reached through its door."""
    listen, contact = f"tcp://{HOSTS[host]}:{WORKERS[host]}", f"tcp://{HOSTS[0]}:{DOORS[1 + host]}"
    one = ("--no-nanny", "--nthreads", "1", "--no-dashboard")
    return "distributed.cli.dask_worker", scheduler, "--listen-address", listen, "--contact-address", contact, *one


def client(address: str, folder: Path, runs: int, seconds: float) -> None:
    """Run jobs on the cluster at an address, one after the other, and write how each ended."""
    import dask

    from squeak.places import ClusterError, Threads, use

    dask.config.set({"distributed.comm.timeouts.connect": "10s"})
    chaos.write_rows(folder)
    chaos.wait_for((folder / "relay.json").exists, seconds)
    with use(Threads()):
        alone = {name: chaos.JOBS[name](folder) for name in ("dictionary", "sparsifier", "ridge", "falkon")}
    for name in alone:  # workers start and import what it takes, which on a busy machine may take minutes
        with suppress(ClusterError):
            chaos.bounded(lambda job=name: on_cluster(address, chaos.JOBS[job], folder, workers=2), 4.0 * seconds)
    for number in range(runs):
        name = list(alone)[number % len(alone)]
        start, cuts = time.monotonic(), cuts_so_far(folder)
        try:
            found, error = chaos.ended(lambda job=name: on_cluster(address, chaos.JOBS[job], folder), seconds)
            end = f"{type(error).__name__}: {error}"
            if error is None:
                end = "same bits" if np.array_equal(found, alone[name]) else "other bits"
            elif isinstance(error, ClusterError):
                end = "clear error"
        except AssertionError:
            end = "hang"
        cuts = cuts_so_far(folder) - cuts
        line = {"job": name, "end": end, "seconds": round(time.monotonic() - start, 3), "cuts": cuts}
        with (folder / "ends.jsonl").open("a") as stream:
            stream.write(json.dumps(line) + "\n")


def cuts_so_far(folder: Path) -> int:
    return json.loads((folder / "relay.json").read_text())["cuts"]


def on_cluster(address, job, folder, workers=0):
    """Run a job on a cluster; a connection that is cut before the job begins is made again."""
    import distributed

    for _ in range(10):
        with suppress(OSError, TimeoutError):
            there = distributed.Client(address, timeout="20s")
            break
    with there:
        if workers:
            there.wait_for_workers(workers, timeout=300)
        return job(folder)


def main(what: str, *words: str) -> None:
    if what == "relay":
        seed, cut, log = words
        targets = ((HOSTS[0], SCHEDULER), *zip(HOSTS, WORKERS, strict=True))
        relay = Relay(int(seed), float(cut), Path(log))
        asyncio.run(relay.serve(dict(zip(DOORS, targets, strict=True))))
    else:
        address, folder, runs, seconds = words
        client(address, Path(folder), int(runs), float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
