"""Shrink: re-score all atoms and thin them, raising the ridge where a limit on their number asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from squeak.core.kernels import gram
from squeak.core.leverage import WeightedFactor, dictionary_scores
from squeak.core.rows import take
from squeak.core.thinning import expected_survivors, keep_probability, thin, thin_to
from squeak.core.types import Array, IntArray, Rows

FEW = 4
"""One atom in so many tells how their number falls with the ridge, at a part FEW⁻³ of the cost."""

SMALLEST_MANY = 384
"""Below this number of atoms all of them are asked."""

BEHIND = 2.0
"""Known scores are scaled to fit the limit where the ridge needed is at most so many times the present one."""


@dataclass(frozen=True)
class Thinned:
    """What a shrink leaves: the numbers of the atoms kept, their state, and the factor they were built into."""

    kept: IntArray
    probabilities: Array
    counts: IntArray
    scorer: WeightedFactor


@dataclass(frozen=True)
class _Atoms:
    """The atoms before a shrink, and how many of them would survive it at any ridge."""

    kernel: Any
    rows: Rows
    probabilities: Array
    counts: IntArray
    oversampling: float
    copies: int
    factor: float
    shift: float
    fading: Array | float = 1.0
    """How much each row still counts."""

    @cached_property
    def K(self) -> Array:
        """The kernel matrix, computed where it is needed."""
        return gram(self.kernel, self.rows)

    def chances_at(self, ridge: float) -> Array:
        """Return the probabilities that the atoms would have at a ridge."""
        weights = self.fading * self.counts / (self.copies * self.probabilities)
        scores = dictionary_scores(self.K, weights, self.shift * ridge, self.factor)
        return keep_probability(self.fading * scores, self.oversampling, self.copies)

    def survivors(self, chances: Array) -> float:
        """Return the mean number of atoms that chances leave."""
        return expected_survivors(self.probabilities, self.counts, chances)

    def slope(self, ridge: float) -> float:
        """Return s where the number of survivors falls like ridge^(−s), measured from here to twice the ridge."""
        now, later = (self.survivors(self.chances_at(trial)) for trial in (ridge, 2.0 * ridge))
        return float(np.clip(np.log2(now / later), 0.05, 1.0))

    def few(self) -> _Atoms:
        """Return one atom in :data:`FEW`, each standing for as many: their number falls with the ridge alike.

        A weight FEW times as large is a ridge FEW times smaller and scores FEW times larger.
        """
        if len(self.counts) < SMALLEST_MANY:
            return self
        some = slice(0, None, FEW)
        oversampling, shift = self.oversampling / FEW, self.shift / FEW
        rows = take(self.rows, np.arange(len(self.counts))[some])
        p, counts = self.probabilities[some], self.counts[some]
        fading = self.fading[some] if isinstance(self.fading, np.ndarray) else self.fading
        return _Atoms(self.kernel, rows, p, counts, oversampling, self.copies, self.factor, shift, fading)


def shrink(
    kernel: Any,
    atoms: Rows,
    probabilities: Array,
    counts: IntArray,
    *,
    ridge: float,
    oversampling: float,
    copies: int,
    factor: float,
    rng: np.random.Generator,
    max_atoms: int | None = None,
    scores: Array | None = None,
    score_ridge: float | None = None,
    grown: float | None = None,
    fading: Array | None = None,
) -> Thinned:
    """Lower every probability to the atom's score within the dictionary, thin, and factor what is left.

    p' = min(p, (oversampling/copies)·τ̃), counts' ~ Binomial(counts, p'/p). Where there are more than ``max_atoms``,
    the ridge is raised just so far that no more are to be expected, and exactly ``max_atoms`` are left
    (:func:`squeak.core.thinning.thin_to`); nothing is ever drawn anew, so weights stay unbiased. Coins are tossed
    in the order of the atoms as given: hand them over in the order of the stream, for the same draws from the same
    seed.

    Parameters
    ----------
    ridge : float
        At least the ridge of the dictionary so far.
    factor : float
        The papers' 1 − ε; 1 in practice.
    scores : array, optional
        The atoms' scores at ``ridge`` where they are known already.
    score_ridge : float, optional
        The ridge that scores are computed with where it is not ``ridge``: the papers' (1 + (j − 1)ε)·ridge.
    grown : float, optional
        More rows will come, until there are ``grown·max_atoms`` atoms: where there are too many, raise the ridge to
        what it will have to be then (:func:`lead`). At that time its scores are the right ones and are known,
        so no ridge need be tried out.
    fading : array, optional
        How much each row still counts, d: its weight is d·counts/(copies·p), and its score d·τ̃.

    References
    ----------
    Thesis, algorithm 10 (DICT-MERGE) and section 3.3.4 (a ridge that grows); the theory page.
    """
    shift = 1.0 if score_ridge is None else score_ridge / ridge
    faded = 1.0 if fading is None else fading
    all_atoms = _Atoms(kernel, atoms, probabilities, counts, oversampling, copies, factor, shift, faded)
    chances = all_atoms.chances_at(ridge) if scores is None else keep_probability(scores, oversampling, copies)
    if max_atoms is not None and len(counts) > max_atoms:
        if grown is None:
            ridge, chances = _fitting_ridge(ridge, chances, all_atoms, max_atoms)
        else:
            ridge, chances = _ridge_ahead(ridge, chances, all_atoms, max_atoms, grown)
        probabilities, counts = thin_to(probabilities, counts, chances, max_atoms, rng)
    else:
        probabilities, counts = thin(probabilities, counts, chances, rng)
    kept = np.flatnonzero(counts)
    probabilities, counts = probabilities[kept], counts[kept]
    weights = (1.0 if fading is None else fading[kept]) * counts / (copies * probabilities)
    known = all_atoms.__dict__.pop("K", None)
    values = None if known is None else known[np.ix_(kept, kept)]
    del known
    room = 0 if grown is None else int(grown * len(kept)) + 1
    rebuilt, order = WeightedFactor.build(kernel, take(atoms, kept), weights, ridge, values, room)
    return Thinned(kept[order], probabilities[order], counts[order], rebuilt)


def _ridge_ahead(ridge: float, chances: Array, atoms: _Atoms, max_atoms: int, grown: float) -> tuple[float, Array]:
    """Return the ridge for the rows to come, and the probabilities to thin by now.

    These are the known ones where the ridge needed now is near the present one, as it is once it was raised ahead.
    If not, it is sought with few atoms, and only if it is still far from there with all.
    """
    few = atoms.few()
    fullness, slope = atoms.survivors(chances) / max_atoms, few.slope(ridge)
    if fullness ** (1.0 / slope) > BEHIND:
        first = few.chances_at(ridge)
        ridge, _ = _fitting_ridge(ridge, first, few, few.survivors(first) / fullness)
        chances = atoms.chances_at(ridge)
        fullness, slope = atoms.survivors(chances) / max_atoms, few.slope(ridge)
    if fullness ** (1.0 / slope) > BEHIND:
        ridge, chances = _fitting_ridge(ridge, chances, atoms, max_atoms)
        fullness, slope = atoms.survivors(chances) / max_atoms, few.slope(ridge)
    return ridge * max(1.0, lead(slope, grown) * fullness ** (1.0 / slope)), chances


def lead(slope: float, grown: float) -> float:
    """Return the factor f by which to raise the ridge ahead: to what is needed when the dictionary is full again.

    Of rows from one law the effective dimension depends on ridge/n alone, so it grows with the rows as it falls
    with the ridge: E ~ (n/ridge)^s. At a ridge f times what is needed now, E·f^(−s)·(g^s − 1)/s atoms come in while
    the rows grow by a factor g. They are (grown − 1)·E at the time when g = f and the ridge is the one needed if
    f = (1 − s·(grown − 1))^(−1/s).

    Parameters
    ----------
    slope : float
        s, from 0 to 1.
    grown : float
        The factor by which a dictionary grows before it is shrunk, below 2.
    """
    return float((1.0 - slope * (grown - 1.0)) ** (-1.0 / slope))


def _fitting_ridge(ridge: float, chances: Array, atoms: _Atoms, max_atoms: float) -> tuple[float, Array]:
    """Return the ridge, raised just so far that the survivors fit, and the probabilities at it.

    They fit when their mean number is at most ``max_atoms``; 5% less is near enough, for the rest is filled up. The
    number falls smoothly with the ridge, so a secant on the logarithms finds it in a few factorisations.
    """
    low, low_expected, slope = ridge, atoms.survivors(chances), -0.5
    if low_expected <= max_atoms:
        return ridge, chances
    high, high_expected, high_chances = np.inf, 0.0, chances
    while high == np.inf or (high_expected < 0.95 * max_atoms and high > 1.01 * low):
        wanted = np.log(0.975 * max_atoms / low_expected) / slope
        step = np.clip(wanted, np.log(1.005), np.log(16.0))
        if high < np.inf:
            step = np.clip(step, 0.1 * np.log(high / low), 0.9 * np.log(high / low))
        trial = float(low * np.exp(step))
        chances = atoms.chances_at(trial)
        expected = atoms.survivors(chances)
        slope = min(-0.05, (np.log(max(expected, 1e-3)) - np.log(low_expected)) / step)
        if expected > max_atoms:
            low, low_expected = trial, expected
        else:
            high, high_expected, high_chances = trial, expected, chances
    return high, high_chances
