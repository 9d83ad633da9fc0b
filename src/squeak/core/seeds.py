"""Randomness from ``random_state`` only: one 128-bit seed at fit, and a generator for each place.

A place is a tuple of whole numbers that names where in the computation a draw happens (the coins of the
stream, the thinning after row 1,000, a node of a tree). Generators are keyed by place, so a result
does not depend on what ran before, on which worker, or how often it was tried.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np

RandomState: TypeAlias = int | np.integer | np.random.RandomState | np.random.Generator | None

COINS, SHRINK, READ, SAMPLE, MERGE, PROBE, ORDER, NODE, FEATURES, FADE = range(10)
"""The first number of a place: which kind of draw it is."""

DRAWN = 1024
"""Numbers drawn at a time for rows that come singly."""


def draw_seed(random_state: RandomState) -> int:
    """Return a 128-bit seed: the same for the same int, the next one for a generator.

    ``random_state``: None asks the operating system for entropy.
    """
    if random_state is None:
        words = np.random.SeedSequence().generate_state(4)
    elif isinstance(random_state, np.random.Generator):
        words = random_state.integers(0, 2**32, size=4, dtype=np.uint32)
    elif isinstance(random_state, np.random.RandomState):
        words = random_state.randint(0, 2**32, size=4, dtype=np.uint32)
    elif isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative; it is {random_state}")
        words = np.random.SeedSequence(int(random_state)).generate_state(4)
    else:
        raise TypeError(
            "random_state must be None, an int, a numpy RandomState or a numpy Generator; "
            f"it is {type(random_state).__name__}"
        )
    return sum(int(word) << (32 * i) for i, word in enumerate(words))


def generator_at(seed: int, *place: int) -> np.random.Generator:
    """Return the generator of one place: the same bits for the same seed and place, always."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=place)))


def coins(seed: int, first_row: int, n: int, kind: int = COINS) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the uniform numbers of rows ``first_row`` to ``first_row + n - 1`` of a stream.

    Row t always gets the same number, however the stream is cut into blocks. ``kind``: what they decide; numbers of
    another kind are independent.
    """
    bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(kind,)))
    return np.random.Generator(bits.advance(first_row)).random(n)


def coin(seed: int, row: int, kind: int = COINS) -> float:
    """Return the uniform number of one row, as :func:`coins` does; those of the rows beside it are kept at hand."""
    part, place = divmod(row, DRAWN)
    return _drawn(seed, part, kind)[place]


@lru_cache(maxsize=128)
def _drawn(seed: int, part: int, kind: int) -> list[float]:
    return [float(number) for number in coins(seed, part * DRAWN, DRAWN, kind)]
