"""Runs in processes of their own, for tests that kill them; imported by those processes."""

import os
import resource
import signal
from pathlib import Path

from squeak import Kors, Squeak, rows, save
from squeak.core import storage
from squeak.data import blocks as sources
from squeak.kernels import RBF

SMALL_BLOCKS = 2**16
"""Bytes in a block of these runs: about a thousand rows, so that there are many moments to be killed at."""


def make(name):
    if name == "squeak":
        return Squeak(kernel=RBF("median"), ridge=3.0, oversampling=5, random_state=7)
    if name == "max_atoms":
        return Squeak(kernel=RBF("median"), max_atoms=80, copies=2, random_state=7)
    return Kors(kernel=RBF("median"), ridge=3.0, oversampling=3, random_state=7)


def open_rows(data):
    return rows(data, scale="standard", on_bad_rows="skip", shuffle=True, random_state=3)


def run(name, data, checkpoint, result, kill_at=None):
    """Run to the end, or until killed: from outside, or by itself at one step of one write."""
    sources.BLOCK_BYTES = SMALL_BLOCKS
    if kill_at is not None:
        kill_at_step_of_write(*kill_at)
    sampler = make(name).fit(open_rows(Path(data)), checkpoint=checkpoint, every=0)
    save(sampler, result)


def kill_at_step_of_write(write, step):
    """Kill this process in its nth write: 0 when begun, 1 half written, 2 before, 3 after the replacement."""
    count = {"writes": 0}
    fsync, replace, opened = os.fsync, os.replace, os.open

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def counting_open(path, flags, *args, **kwargs):
        handle = opened(path, flags, *args, **kwargs)
        if str(path).endswith(".tmp") and flags & os.O_CREAT:  # not a look at what another process left
            count["writes"] += 1
            if count["writes"] == write and step == 0:
                die()
        return handle

    def half_written(handle):
        if count["writes"] == write and step == 1:
            os.truncate(handle, os.fstat(handle).st_size // 2)
            die()
        fsync(handle)

    def replaced(source, target):
        if count["writes"] == write and step == 2:
            die()
        replace(source, target)
        if count["writes"] == write and step == 3:
            die()

    storage.os.open, storage.os.fsync, storage.os.replace = counting_open, half_written, replaced


def run_with_small_disk(name, data, checkpoint, report, limit):
    """Run where no file may grow beyond ``limit`` bytes, as on a full disk; report the error and the state left."""
    sources.BLOCK_BYTES = SMALL_BLOCKS
    sampler = make(name)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        sampler.fit(open_rows(Path(data)), checkpoint=checkpoint, every=0)
        message = "no error"
    except OSError as error:
        message = f"{type(error).__name__}: {error}"
    Path(report).write_text(f"{sampler.n_seen_}\n{message}")
