"""What is written to a disk that becomes full: one clear error, whole files, the same bits when there is room."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import squeak
from squeak import KernelRidge
from squeak.cli.outputs import TableWriter
from squeak.core.outputs import replacing
from squeak.kernels import RBF
from squeak.places import Threads, use
from tests import chaos, scarce


def nodes(folder):
    """Keep the nodes of a tree, which workers compute."""
    return chaos.learner().fit(chaos.X, checkpoint=folder / "run").dictionary_.weights


def fit(folder):
    """Keep a fit of two passes as it goes on."""
    model = KernelRidge(RBF(1.0), alpha=1.0, max_atoms=60, random_state=0)
    source = squeak.rows(folder.parent / "rows", "y", drop=["kind"])
    with use(Threads()):
        return model.fit(source, checkpoint=folder / "fit.sqk", every=0).dual_coef_


def predictions(folder):
    """Write predictions over those of before."""
    with replacing(folder / "p.parquet") as stream:
        writer = TableWriter(stream, ".parquet")
        for batch in chaos.fitted().predict_arrow(squeak.rows(chaos.X)):
            writer.write(batch)
        writer.close()
    return pq.read_table(folder / "p.parquet")["prediction"].to_numpy()


def model(folder):
    """Save a model."""
    chaos.fitted().save(folder / "m.sqk")
    return squeak.load(folder / "m.sqk").dual_coef_


WRITERS = {"nodes": nodes, "fit": fit, "predictions": predictions, "model": model}
FULL = ("No space left on device", "File too large")


def files(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def whole(path):
    """Read a file that squeak wrote, or fail."""
    if path.suffix == ".sqk":
        squeak.load(path)
    elif path.suffix == ".parquet":
        pq.read_table(path)


def disk_full(rng, name, folder, log):
    """Let a disk be full at some moment of what is written; what is there then must be whole and go on."""
    write = WRITERS[name]
    folder.mkdir(exist_ok=True)
    chaos.write_rows(folder)
    with scarce.disk(folder / "disk") as disk:
        expected = chaos.bounded(partial(write, disk.path))
        sizes = [path.stat().st_size for path in files(disk.path)]
        empty(disk.path, kept=name == "predictions")
        there = {path: path.read_bytes() for path in files(disk.path)}
        part = rng.uniform(0.1, 0.8)
        disk.has(sum(map(len, there.values())) + int(part * sum(sizes)) if disk.mounted else max(sizes) - 1)

        def run():
            try:
                return write(disk.path)
            except OSError as error:
                words = str(error)
                assert any(full in words for full in FULL), words
                assert str(disk.path) in words, words
                raise OSError("full and named") from error
            finally:
                if not disk.mounted:
                    disk.make_room()  # the log is written by this process too

        log.judged(f"full disk, {name}", run, None, OSError, "full and named")
        left = files(disk.path)
        assert not [path for path in left if re.search(r"\.tmp$", path.name)], "half a file was left"
        for path in left:
            whole(path)
        assert all(path.read_bytes() == before for path, before in there.items()), "what was there has changed"
        disk.make_room()
        assert np.array_equal(chaos.bounded(partial(write, disk.path)), expected), "other bits when there was room"


def empty(folder, kept):
    """Remove what was written; but for predictions of before, where they are to stay."""
    for path in [] if kept else files(folder):
        path.unlink()
    for path in Path(folder).iterdir():
        with suppress(OSError):
            path.rmdir()
