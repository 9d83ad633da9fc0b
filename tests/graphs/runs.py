"""Runs of sparsifiers in processes of their own, for tests that kill them; imported by those processes."""

from squeak import save
from squeak.data import blocks as sources
from squeak.graphs import OnlineSparsifier, StreamSparsifier
from tests.samplers.runs import kill_at_step_of_write

SMALL_BLOCKS = 2**15
"""Bytes in a block of these runs: about 1,400 edges, so that there are many moments to be killed at."""


def make(name):
    if name == "stream":
        return StreamSparsifier(6.0, random_state=7)
    if name == "copies":
        return StreamSparsifier(4.0, ridge=2.0, copies=4, random_state=7)
    return OnlineSparsifier(1.0, random_state=7)


def run(name, data, checkpoint, result, kill_at=None):
    """Run to the end, or until this process kills itself at one step of one write."""
    sources.BLOCK_BYTES = SMALL_BLOCKS
    if kill_at is not None:
        kill_at_step_of_write(*kill_at)
    sparsifier = make(name).fit(str(data), checkpoint=checkpoint, every=0)
    save(sparsifier.sample_, result)
