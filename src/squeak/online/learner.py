"""The core of PROS-N-KONS, CON-KONS and B-KONS: Newton heads over a space that grows as rows come.

Two heads may stand side by side, one for a steady stream and one for a drifting one; the better one speaks. With
the curvature of each step, A grows as fast as the rows come: best when rows are exchangeable, slow to forget. With
the worst case's curvature A grows with the errors only, so a learner that is rarely wrong keeps taking large steps
and follows a target that moves. Which one fits is seen from their recent losses.
"""

from __future__ import annotations

from bisect import bisect_left
from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from squeak.core import engine
from squeak.core.advice import unlike_rows
from squeak.core.kernels import gradients
from squeak.core.kernels.registry import check_stored
from squeak.core.leverage import WeightedFactor
from squeak.core.nystrom import GrowingFeatures
from squeak.core.rows import n_rows, take
from squeak.core.saved import Layout, RowsPiece
from squeak.core.seeds import coin, coins
from squeak.core.state import LEAST, number, numbers, seed, whole, wholes
from squeak.core.types import Array, Rows
from squeak.online.newton import NewtonHead, StepRule
from squeak.online.space import Space
from squeak.online.stored import Columns, FactorPiece, Stored

MEMORY = 100.0
"""Rounds that the comparison of the two looks back on."""


class GuardedHead(Stored):
    """An adaptive and a worst-case head; each round the one with the smaller discounted loss so far predicts.

    Both learn from every row. The discount is 1 − 1/100: the choice follows a change within some hundred rows.

    ``rule``: its curvature is replaced by each head's own.
    """

    _state: ClassVar[Layout] = {"lead": number()}
    _inner: ClassVar[tuple[str, str]] = ("heads", "{}_")

    def __init__(self, rule: StepRule, alpha: float, *, restarts: bool, half_life: float | None = None) -> None:
        bound = None if rule.grows else rule.bound
        rules = (StepRule(rule.loss, bound, curvature, rule.step) for curvature in ("adaptive", "worst"))
        self.heads = [NewtonHead(one, alpha, restarts=restarts, half_life=half_life) for one in rules]
        self.lead = 0.0
        """The discounted sum of the adaptive head's losses less the other's."""

    @property
    def rule(self) -> StepRule:
        """The rule of the head that speaks."""
        return self._speaker.rule

    @property
    def _speaker(self) -> NewtonHead:
        return self.heads[1 if self.lead > 0.0 else 0]

    @property
    def weights(self) -> Array:
        """The weights of the head that speaks."""
        return self._speaker.weights

    @property
    def gain(self) -> float:
        """Σ gᵀA⁻¹g of the head that speaks."""
        return self._speaker.gain

    def copy(self) -> GuardedHead:
        """Return a pair of its own in the same state."""
        pair = GuardedHead.__new__(GuardedHead)
        pair.heads, pair.lead = [head.copy() for head in self.heads], self.lead
        return pair

    def turned(self, sign: float) -> GuardedHead:
        """Return a copy; with a sign of −1, as if all targets had had the other sign."""
        pair = self.copy()
        pair.heads = [head.turned(sign) for head in self.heads]
        return pair

    def extend(self, size: int) -> None:
        """Go on in a space of ``size`` coordinates."""
        for head in self.heads:
            head.extend(size)

    def scores(self, features: Array) -> Array:
        """Return the clipped predictions of the head that speaks."""
        return self._speaker.scores(features)

    def score_row(self, phi: Array) -> float:
        """Return the clipped prediction of one row."""
        return self._speaker.score_row(phi)

    def learn_row(self, phi: Array, y: float) -> float:
        """Predict one row, then learn from its target; returns the prediction."""
        chosen = 1 if self.lead > 0.0 else 0
        said = [head.learn_row(phi, y) for head in self.heads]
        loss = self.heads[0].rule.loss
        gap = float(loss.value(y, said[0]) - loss.value(y, said[1]))
        self.lead = (1.0 - 1.0 / MEMORY) * self.lead + gap
        return said[chosen]

    def learn_block(self, features: Array, y: Array) -> Array:
        """Predict and learn from some rows, one after the other; returns the predictions, shape (n,)."""
        said = [head.learn_block(features, y) for head in self.heads]
        loss = self.heads[0].rule.loss
        gaps = loss.value(y, said[0]) - loss.value(y, said[1])
        second = np.empty(len(y), dtype=bool)
        for i, gap in enumerate(gaps.tolist()):
            second[i] = self.lead > 0.0
            self.lead = (1.0 - 1.0 / MEMORY) * self.lead + gap
        return np.where(second, said[1], said[0])


Head: TypeAlias = NewtonHead | GuardedHead

SMALLEST_PART, LARGEST_PART = 64, 2048
"""Rows whose entry is decided together: as many as were seen, within these; a matter of speed only."""

BLOCK = 96
"""Rows learned together; a matter of speed only."""

GUARD_ROWS = 2000
"""From so many rows on, a space without a limit that holds more than half of them is refused."""


@dataclass(frozen=True)
class NewtonPlan:
    """The parameters of a Newton learner, checked and in numbers."""

    alpha: float
    restarts: bool
    guarded: bool
    rule: StepRule
    half_lives: tuple[float | None, ...] = (None,)

    def heads(self, n_outputs: int) -> list[Head]:
        """Return heads in their first state: those of all outputs for one half-life, then for the next."""
        maker = GuardedHead if self.guarded else NewtonHead
        return [
            maker(self.rule.copy(), self.alpha, restarts=self.restarts, half_life=half_life)
            for half_life in self.half_lives
            for _ in range(n_outputs)
        ]


class NewtonLearner(Stored):
    """Predict, then learn, in the span of atoms that KORS chooses; a head for every half-life and output.

    A row is first predicted and learned in the present space and then offered to KORS: an atom counts from the
    next row on. Between calls every head has as many coordinates as the space.

    Source: Thesis, algorithm 14; the theory page, "Online learning".
    """

    _state: ClassVar[Layout] = {
        "atoms": RowsPiece(size="m"),
        "atom_factor": FactorPiece("m"),
        "factor": FactorPiece("j"),
        "atom_weights": numbers("m", low=LEAST),
        "members": wholes("j"),
        "n_seen": whole(),
        "growths": whole(),
        "seed": seed(),
    }
    _inner: ClassVar[tuple[str, str]] = ("heads", "head{}_")

    def __init__(self, plan: NewtonPlan, space: Space, n_outputs: int, seed: int) -> None:
        self.plan, self.space, self.seed, self.n_outputs = plan, space, seed, n_outputs
        self.heads = plan.heads(n_outputs)
        for head in self.heads:
            head.extend(space.size)
        self.n_seen = 0
        self.growths = 0

    @property
    def n_heads(self) -> int:
        """How many predictions a row has."""
        return len(self.heads)

    @property
    def facts(self) -> dict[str, int]:
        """Atoms, coordinates, and how often the space grew (for PROS-N-KONS: restarts)."""
        return {"atoms": self.space.n_atoms, "coordinates": self.space.size, "growths": self.growths}

    def scores(self, X: Rows) -> Array:
        """Return the predictions of rows, shape (n, half-lives·outputs)."""
        out = np.empty((n_rows(X), len(self.heads)))

        def fill(tile: slice) -> None:
            features = self.space.features.block(take(X, tile))
            for column, head in enumerate(self.heads):
                out[tile, column] = head.scores(features)

        engine.map_ordered(fill, engine.tiles(n_rows(X), 1024))
        return out

    def score_row(self, x: Rows) -> list[float]:
        """Return the predictions of one row."""
        phi = self.space.features.single(x)[1]
        return [head.score_row(phi) for head in self.heads]

    def gradient_squares(self, X: Rows, shares: Array | None = None) -> Array:
        """Return the mean of (∂f/∂x_j)² over rows for each column, summed over heads by their ``shares``."""
        features = self.space.features
        if not features.rank:
            return np.zeros(np.shape(X)[1])
        coef = features.mixing @ np.column_stack([head.weights for head in self.heads])
        slopes = gradients(features.kernel, X, features.atoms, coef)
        return np.asarray((slopes**2).mean(axis=0) @ (np.ones(len(self.heads)) if shares is None else shares))

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions, shape (n, half-lives·outputs).

        What was learned before an interrupt stays: the state moves on part by part.
        """
        n, at, predictions = n_rows(X), 0, np.empty((n_rows(X), len(self.heads)))
        with engine.single_blas():
            while at < n:
                size = min(max(SMALLEST_PART, self.n_seen), LARGEST_PART, n - at)
                part = slice(at, at + size)
                predictions[part] = self._learn_part(take(X, part), targets[part])
                at += size
        return predictions

    def _learn_part(self, X: Rows, targets: Array) -> Array:
        n = n_rows(X)
        space, growths = self.space, list[int]()
        if not space.frozen:
            space, growths = space.enter(X, coins(self.seed, self.n_seen, n))
        _guard(space, self.n_seen + n)
        heads = [head.copy() for head in self.heads]
        predictions = np.empty((n, len(heads)))
        first, size = 0, self.space.size
        for tile in engine.even_tiles(n, BLOCK):
            last = bisect_left(growths, tile.stop)
            grown = [row - tile.start for row in growths[first:last]]
            features = space.features.block(take(X, tile))[:, : size + len(grown)]
            learn = _learn_restarting if self.plan.restarts else _learn_going_on
            for column, head in enumerate(heads):
                predictions[tile, column] = learn(head, features, targets[tile, column % self.n_outputs], grown)
            first, size = last, size + len(grown)
        after = {"space": space, "heads": heads, "n_seen": self.n_seen + n, "growths": self.growths + len(growths)}
        self.__dict__.update(after)  # at once: an interrupt leaves the part learned or not
        return predictions

    def copy(self) -> NewtonLearner:
        """Return a learner of its own in the same state."""
        other = copy(self)
        other.heads = [head.copy() for head in self.heads]
        return other

    def with_outputs(self, columns: Columns) -> NewtonLearner:
        """Return a learner with other outputs; a new one has learned that no atom is of its class."""
        other = copy(self)
        other.heads, other.n_outputs = self.plan.heads(len(columns)), len(columns)
        features = np.ascontiguousarray(self.space.features.block(self.space.scorer.atoms))
        for i, head in enumerate(other.heads):
            spell, column = divmod(i, len(columns))
            came = columns[column]
            if came is None:
                head.extend(self.space.size)
                head.learn_block(features, np.full(len(features), -1.0))
            else:
                other.heads[i] = self.heads[spell * self.n_outputs + came[0]].turned(came[1])
        return other

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it; the fast path for rows that come singly."""
        space = self.space
        columns, phi = space.features.single(x)
        grown = space
        if not space.frozen:  # whatever is refused is refused before anything is learned
            grown = space.enter_row(x, columns, coin(self.seed, self.n_seen))
            _guard(grown, self.n_seen + 1)
        pairs = zip(self.heads, targets * len(self.plan.half_lives), strict=True)
        if len(phi):
            said = [head.learn_row(phi, y) for head, y in pairs]
        else:
            nothing = np.zeros((1, 0))
            said = [float(head.learn_block(nothing, np.array([y]))[0]) for head, y in pairs]
        if grown is not space and grown.size > space.size:
            self.growths += 1
            for head in self.heads:
                head.extend(grown.size)
        self.space = grown
        self.n_seen += 1
        return said

    def _source(self) -> Any:
        scorer, features = self.space.scorer, self.space.features
        own = {"atoms": scorer.atoms, "atom_factor": scorer.factor, "atom_weights": scorer.weights}
        return SimpleNamespace(**vars(self), **own, factor=features.factor, members=features.members)

    def _inner_sizes(self) -> dict[str, int]:
        return {"size": self.space.size}

    def _take(self, found: dict[str, Any]) -> None:
        atoms, members, space = found.pop("atoms"), found.pop("members"), self.space
        kernel, weights = space.scorer.kernel, found.pop("atom_weights")
        if n_rows(atoms):  # there are none right after an alarm
            check_stored(kernel, atoms)
        factor, inner = found.pop("atom_factor"), found.pop("factor")
        if len(factor) != n_rows(atoms) or np.any(np.diff(members) <= 0) or np.any(members >= n_rows(atoms)):
            raise ValueError("the atoms' numbers are not those of a space")
        scorer = WeightedFactor(kernel, atoms, weights, space.scorer.ridge, factor)
        features = GrowingFeatures(kernel, atoms, inner, members)
        super()._take({**found, "space": Space(scorer, features, space.oversampling, space.max_atoms)})


def _learn_restarting(head: Head, features: Array, y: Array, grown: list[int]) -> Array:
    """Learn a tile; after each row in ``grown`` the head begins anew with one coordinate more."""
    said, start, size = np.empty(len(y)), 0, features.shape[1] - len(grown)
    for end in [*(row + 1 for row in grown), len(y)]:
        if end > start:
            part = np.ascontiguousarray(features[start:end, :size])
            said[start:end] = head.learn_block(part, y[start:end])
        if size < features.shape[1]:
            size += 1
            head.extend(size)
        start = end
    return said


def _learn_going_on(head: Head, features: Array, y: Array, grown: list[int]) -> Array:
    """Learn a tile; after each row in ``grown`` one coordinate more counts, the others stay as they are.

    A coordinate in which every row so far was 0 has weight 0 and curvature alpha: just as if it were new.
    """
    features = np.ascontiguousarray(features)
    size = features.shape[1] - len(grown)
    for i, row in enumerate(grown):
        features[: row + 1, size + i] = 0.0
    if grown:
        head.extend(features.shape[1])
    return head.learn_block(features, y)


def _guard(space: Space, rows: int) -> None:
    """Stop where rows hardly resemble each other, before the space eats the memory."""
    if space.max_atoms is None and rows >= GUARD_ROWS and 2 * space.n_atoms > rows:
        raise unlike_rows(space.n_atoms, rows, space.scorer.kernel, space.scorer.ridge)
