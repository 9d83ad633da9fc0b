"""Where to look next in a box: points over all of it and around the best, then refinement of the most promising."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from squeak.bandits.space import Space
from squeak.core.types import Array, IntArray

SOBOL = 1024
"""Points over the whole box that are looked at in each step."""

LOCAL = 256
"""Points around the best ones so far."""

ROUNDS = 8
"""Rounds of refinement, each half as wide as the one before."""

JUMP = 0.3
"""The chance that a point around the best ones has another value of a category."""

STARTS = 32
"""The most points that are refined in a step: the four best, and the best one of each value of a category."""

FEW = 20
"""Points around the best ones differ from them in about so many columns at most."""

LENGTH, DOUBLED, HALVED = 0.4, 2, 5
"""The region of trust begins with this length, and is doubled or halved so often at most."""

IN_A_ROW, PATIENCE = 3, 4
"""So many rises of the best value in a row double it; so many trials without one, at least, halve it."""


def candidates(space: Space, sobol: Array, leaders: Array, rng: np.random.Generator) -> Array:
    """Return rows to look at: the Sobol points, moved by a random shift, and points around the leaders."""
    width = space.width
    shifted = space.spread((sobol + rng.random(len(space.sides))) % 1.0)
    scales = np.array([0.2, 0.05, 0.0125, 0.003])[rng.integers(0, 4, LOCAL)]
    steps = scales[:, None] * rng.standard_normal((LOCAL, width))
    steps *= rng.random((LOCAL, width)) < min(max(0.5, 2.0 / width), FEW / width)
    around = space.jumped(leaders[rng.integers(0, len(leaders), LOCAL)] + steps, JUMP, rng)
    return np.vstack([shifted, space.snap(around)])


def trusted(values: Array, first: int, least: float, sides: int) -> float:
    """Return the length of the region of trust that the values made, in the order they were told.

    What counts is whether the best value rises by more than ``least``, after the ``first`` values. A region
    that was halved more often than ``HALVED`` begins anew.
    """
    top = np.maximum.accumulate(values)
    rises = np.flatnonzero(values[first:] > top[first - 1 : -1] + least).tolist()
    patience, halved, row, last = max(PATIENCE, sides), 0, 0, -1
    end = max(len(values) - first, 0)  # where trials fail, there may be fewer values than the first ones
    for at in [*rises, end]:
        halved += (at - last - 1) // patience
        halved = halved if halved <= HALVED else (halved - HALVED - 1) % (HALVED + 1)
        row = row + 1 if at == last + 1 else 1
        if row == IN_A_ROW and at < end:
            halved, row = max(halved - 1, -DOUBLED), 0
        last = at
    return float(LENGTH * 2.0**-halved)


def nearby(space: Space, sobol: Array, centre: Array, half: Array, rng: np.random.Generator) -> Array:
    """Return rows at most ``half`` from a row in each column: spread evenly, and closer to it."""
    width = space.width
    units = (sobol[: SOBOL // 2, np.arange(width) % sobol.shape[1]] + rng.random(width)) % 1.0
    moved = rng.random(units.shape) < min(1.0, FEW / width)
    moved[np.arange(len(units)), rng.integers(0, width, len(units))] = True
    scales = np.array([0.5, 0.125, 0.03])[rng.integers(0, 3, LOCAL)]
    steps = np.clip(scales[:, None] * rng.standard_normal((LOCAL, width)), -1.0, 1.0)
    steps *= rng.random((LOCAL, width)) < min(max(0.5, 2.0 / width), FEW / width)
    return space.snap(centre + half * np.vstack([(2.0 * units - 1.0) * moved, steps]))


def due(space: Space, rows: Array, tried: Array) -> Array:
    """Return the rows with a category's value tried fewer than 3·√t/k times in t trials, else all rows.

    k is how many values the category has, so that this takes at most about 3·√t of the trials. A Gaussian
    process judges point by point, and gives a value that was unlucky in its first trials no other chance.
    """
    for part in space.categories:
        counts = (tried[:, part] > 0).sum(axis=0)
        least, asked = int(np.argmin(counts)), 3.0 * math.sqrt(int(counts.sum())) / len(counts)
        there = rows[:, part.start + least] > 0
        if counts[least] < math.floor(asked) and there.any():
            return np.asarray(rows[there])
    return rows


def starts(space: Space, rows: Array, scores: Array) -> IntArray:
    """Return the rows to refine: the four best, and the best one of each value of a category.

    Refinement moves by small steps and never leaves a category, so every category must be looked at.
    """
    order = np.argsort(-scores, kind="stable")
    firsts = [order[np.argmax(rows[order][:, part] > 0, axis=0)] for part in space.categories]
    found = np.unique(np.concatenate([order[:4], *firsts]))
    return np.asarray(found[np.argsort(-scores[found], kind="stable")][:STARTS])


def refined(
    space: Space,
    rows: Array,
    scores: Array,
    score: Callable[[Array], Array],
    rng: np.random.Generator,
    reach: float = 0.1,
    within: tuple[Any, Any] = (-np.inf, np.inf),
) -> Array:
    """Return the row with the largest score after rounds of random moves that shrink.

    ``reach`` is the spread of the first moves, and ``within`` the least and the largest row that they may lead to.
    """
    best = starts(space, rows, scores)
    rows, scores, width = rows[best], scores[best], space.width
    each, chance = np.arange(len(rows)), min(1.0, FEW / width)
    for _ in range(ROUNDS):
        moves = reach * rng.standard_normal((len(rows), 24, width))
        if chance < 1.0:
            moves *= rng.random(moves.shape) < chance
        tries = space.snap(np.clip((rows[:, None, :] + moves).reshape(-1, width), *within))
        found = score(tries).reshape(len(rows), 24)
        pick = found.argmax(axis=1)
        better = found[each, pick] > scores
        rows = np.where(better[:, None], tries.reshape(len(rows), 24, width)[each, pick], rows)
        scores = np.maximum(scores, found[each, pick])
        reach *= 0.5
    return np.asarray(rows[int(np.argmax(scores))])
