"""DICT-MERGE: dictionaries of disjoint data become one dictionary of all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from squeak.core import engine
from squeak.core.checks import check_whole
from squeak.core.leverage import check_ridge
from squeak.core.rows import check_same_kind, join, take, width_of
from squeak.core.seeds import MERGE, RandomState, draw_seed, generator_at
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.record import Record
from squeak.samplers.shrinking import shrink


def merge(
    *dictionaries: Dictionary,
    random_state: RandomState = None,
    max_atoms: int | None = None,
    ridge: float | None = None,
) -> Dictionary:
    """Merge dictionaries of disjoint data into one that stands for all of it.

    Unites the atoms, scores each within the union, τ̃ = (1 − ε)·φᵀ(ΦSSᵀΦᵀ + (1 + (j − 1)ε)·ridge·Π)⁻¹φ with j the
    number of inexact dictionaries (at least 1) and ε = 0 unless the papers' form, and thins to it. The ridge is
    the largest of theirs.

    Parameters
    ----------
    *dictionaries : Dictionary
        Two or more, with equal kernel, copies, oversampling and eps, and different sources.
    random_state : None, int, RandomState or Generator
    max_atoms : int, optional
        Raise the ridge as far as needed to leave at most so many.
    ridge : float, optional
        A larger ridge than any of theirs; it may grow on the way up a tree, never shrink.

    Returns
    -------
    Dictionary

    References
    ----------
    Thesis, algorithm 10 (DICT-MERGE) and equations 3.3, 3.5; the theory page.

    Examples
    --------
    >>> import numpy as np, squeak
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> parts = [rng.standard_normal((1000, 2)) for _ in range(3)]
    >>> learn = squeak.Squeak(kernel=RBF(2.0), ridge=1.0, random_state=0)
    >>> d = squeak.merge(*[learn.fit(part).dictionary_ for part in parts], random_state=0)
    >>> d.n_seen, len(d.sources)
    (3000, 3)
    """
    merged, dimension = merge_and_measure(dictionaries, random_state, max_atoms, ridge)
    given = {"random_state": random_state, "max_atoms": max_atoms, "ridge": ridge}
    return replace(merged, record=Record.of_merge(dictionaries, merged, dimension, given))


def merge_and_measure(
    dictionaries: Sequence[Dictionary], random_state: RandomState, max_atoms: int | None, ridge: float | None
) -> tuple[Dictionary, float]:
    """Return the merged dictionary and its effective dimension, which its factor gives for nothing."""
    dictionaries = tuple(dictionaries)
    _check_mergeable(dictionaries)
    if any(d.half_life is not None for d in dictionaries):
        raise ValueError("dictionaries of streams that fade cannot be merged: their rows have no common order")
    if max_atoms is not None:
        max_atoms = check_whole("max_atoms", max_atoms)
    first = dictionaries[0]
    assert first.oversampling is not None
    largest = max(d.ridge for d in dictionaries)
    ridge = largest if ridge is None else check_ridge(ridge)
    if ridge < largest:
        raise ValueError(
            f"the ridge of a merge cannot be below {largest:g}, that of its dictionaries; it is {ridge:g}"
        )
    inexact = max(1, sum(not d.exact for d in dictionaries))
    atoms = first.atoms
    for other in dictionaries[1:]:
        atoms = join(atoms, other.atoms)
    offsets = np.cumsum([0] + [len(d.sources) for d in dictionaries[:-1]])
    source_numbers = np.concatenate(
        [d.source_numbers + offset for d, offset in zip(dictionaries, offsets, strict=True)]
    )
    with engine.single_blas():
        left = shrink(
            first.kernel,
            atoms,
            np.concatenate([d.probabilities for d in dictionaries]),
            np.concatenate([d.counts for d in dictionaries]),
            ridge=ridge,
            score_ridge=(1.0 + (inexact - 1) * first.eps) * ridge,
            oversampling=first.oversampling,
            copies=first.copies,
            factor=1.0 - first.eps,
            rng=generator_at(draw_seed(random_state), MERGE),
            max_atoms=max_atoms,
        )
    order = np.argsort(left.kept)
    kept = left.kept[order]
    if kept.size == 0:
        raise ValueError("no atom was left by the merge: raise oversampling or lower the ridge")
    indices = np.concatenate([d.indices for d in dictionaries])
    merged = Dictionary(
        kernel=first.kernel,
        atoms=take(atoms, kept),
        indices=indices[kept],
        probabilities=left.probabilities[order],
        counts=left.counts[order],
        copies=first.copies,
        oversampling=first.oversampling,
        ridge=left.scorer.ridge,
        n_seen=sum(d.n_seen for d in dictionaries),
        sources=tuple(source for d in dictionaries for source in d.sources),
        source_numbers=source_numbers[kept],
        eps=first.eps,
        preprocessing=first.preprocessing,
    )
    return merged, left.scorer.effective_dimension()


def _check_mergeable(dictionaries: tuple[Dictionary, ...]) -> None:
    if len(dictionaries) < 2:
        raise ValueError("merge takes two dictionaries or more: merge(d1, d2, ...)")
    for number, d in enumerate(dictionaries):
        if not isinstance(d, Dictionary):
            raise TypeError(f"argument {number + 1} of merge is a {type(d).__name__}, not a Dictionary")
    first = dictionaries[0]
    for d in dictionaries:
        if not d.calibrated or d.oversampling is None:
            raise ValueError(
                "only dictionaries of coins by leverage scores can be merged (Squeak, Kors, BlessR, …)"
            )
    for d in dictionaries[1:]:
        for name in ("kernel", "copies", "oversampling", "eps"):
            if getattr(d, name) != getattr(first, name):
                raise ValueError(
                    f"dictionaries with different {name} cannot be merged: "
                    f"{getattr(first, name)!r} and {getattr(d, name)!r}"
                )
        if d.preprocessing != first.preprocessing:
            raise ValueError(
                "dictionaries whose rows were preprocessed in different ways cannot be merged: learn each from "
                "squeak.rows(..., preprocessing=first.preprocessing)"
            )
        if width_of(d.atoms) != width_of(first.atoms):
            raise ValueError(
                f"dictionaries of {width_of(first.atoms)} and of {width_of(d.atoms)} columns cannot be merged"
            )
        check_same_kind(first.atoms, d.atoms)
    names = [name for d in dictionaries for name, _ in d.sources]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"the source {twice[0]!r} is in two of the dictionaries: merged data must be disjoint. "
            "If these are different data, give each sampler its own name: Squeak(source=...)"
        )
