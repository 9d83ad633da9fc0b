"""SQUEAK: one pass, one dictionary, atoms dropped again as better ones come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from squeak.core.constructors import parameters
from squeak.core.leverage import check_ridge
from squeak.core.seeds import READ, SHRINK, generator_at
from squeak.core.thinning import keep_probability
from squeak.samplers.base import Plan
from squeak.samplers.stream import StreamSampler
from squeak.samplers.stream_state import State
from squeak.samplers.theory import squeak_oversampling

GROWTH = 1.5
"""The dictionary is shrunk each time it has grown by this factor: a number of times logarithmic in n."""

SMALLEST = 64


@parameters
class Squeak(StreamSampler):
    """Choose a small weighted set of rows, a dictionary, in one pass over a stream.

    A row that the rows kept so far already explain is likely to be dropped, and a row unlike all others is kept.
    Every row that is kept, an atom, has a weight: the number of rows that it stands for.

    Each row is scored against the dictionary with itself added: τ̃ = s/(1 + s), s = (k(x, x) − ‖v(x)‖²)/ridge. Each
    of its coins keeps it with probability p = min(1, (oversampling/copies)·τ̃), and its weight is
    counts/(copies·p). Whenever the dictionary has grown by half, all atoms are scored again and thinned: p' =
    min(p, score), counts' ~ Binomial(counts, p'/p). So the size follows oversampling·d_eff, whatever the length of
    the stream, and weights stay exactly unbiased. With a ``half_life`` the weights fade too, and all atoms are
    thinned by their faded scores after every eighth of it.

    Parameters
    ----------
    kernel : kernel, optional
        How similar two rows are: one of :mod:`squeak.kernels` or of scikit-learn's Gaussian-process kernels. The
        default is ``RBF("median")``.
    ridge : float, callable or None
        Directions of the data with eigenvalues well above the ridge are kept. A callable is a schedule: it gets the
        number of rows seen and returns the ridge; where it falls, the largest value so far counts. None means 1e-3
        of the mean diagonal of the kernel.
    oversampling : float or "theory"
        The factor between a leverage score and the expected number of copies kept. The dictionary has about
        oversampling·d_eff atoms and an accuracy of about 2/√oversampling. "theory" takes the theorem's number, from
        ``eps``, ``delta`` and ``n``.
    copies : int
        How many coins are tossed for a row. One coin is the most accurate at equal size. As many as
        ``oversampling`` are the papers' form.
    half_life : float, optional
        The dictionary stands for a stream that fades: after so many rows a row counts half, after twice as many a
        quarter. Old atoms leave, and weights stay unbiased for Σ 2^(−age/half_life) φφᵀ.
    max_atoms : int, optional
        A limit on the number of atoms, which also bounds the memory. The ridge is raised to keep the limit. It is
        raised ahead of time, up to twice as far as the rows so far ask for. Once the limit has been met, the
        dictionary has exactly so many atoms.
    eps, delta, n : optional
        The accuracy, the probability of failure and the number of rows for ``oversampling="theory"``.
    source : str, optional
        The name of this part of the data, for merging. By default it is derived from the first rows.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.
    verbose : int
        1 shows a progress bar with rows per second, atoms and the estimated effective dimension.

    Attributes
    ----------
    dictionary_ : Dictionary
        The dictionary of the rows so far; it is there after every block, and reading it changes nothing.
    history_ : list of dict
        Rows, atoms, effective dimension and ridge, each time the dictionary has changed much.
    n_seen_ : int
        The number of rows seen.

    Notes
    -----
    With probability 1 − δ every dictionary is (ε, ridge)-accurate with at most 3·q̄·d_eff atoms, in the
    papers' form (:meth:`from_paper`). In practice choose ``oversampling`` from 5 to 100 and measure
    the accuracy with :func:`squeak.leverage.accuracy` or :func:`squeak.leverage.estimate_accuracy`.

    References
    ----------
    Thesis, section 3.3 and algorithm 10; Calandriello, Lazaric, Valko, "Distributed Adaptive Sampling for Kernel
    Matrix Approximation", AISTATS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Squeak
    >>> from squeak.kernels import RBF
    >>> s = Squeak(kernel=RBF(2.0), ridge=1.0, oversampling=10, random_state=0)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(20):
    ...     s = s.partial_fit(rng.standard_normal((500, 2)))
    >>> s.dictionary_
    Dictionary(...)
    """

    _theory = staticmethod(squeak_oversampling)
    _takes_schedule = True

    max_atoms: int | None = None

    def _next_shrink(self, plan: Plan, size: int) -> int:
        grown = max(SMALLEST, int(GROWTH * size) + 1)
        return grown if plan.max_atoms is None else min(grown, int(GROWTH * plan.max_atoms) + 1)

    def _ridge_due(self, state: State) -> float:
        """Return the ridge for the rows seen; it never falls."""
        if state.plan.schedule is None:
            return state.scorer.ridge
        return max(state.scorer.ridge, check_ridge(state.plan.schedule(state.n_seen)))

    def _thinned(self, state: State, rng: np.random.Generator, grown: float | None = None) -> State:
        plan = state.plan
        order = np.argsort(state.indices)  # not the factor's order, which rounding may turn
        ridge = self._ridge_due(state)
        known = ridge == state.scorer.ridge and plan.half_life is None
        scores = state.scorer.atom_scores(plan.shrink)[order] if known else None
        if scores is not None and (plan.max_atoms is None or state.size <= plan.max_atoms):
            chances = keep_probability(scores, plan.oversampling, plan.copies)
            if np.all(chances >= state.probabilities[order]):  # no probability falls: the atoms and factor stay
                return replace(state, shrink_at=self._next_shrink(plan, state.size))
        left = state.thinned(rng, ridge, max_atoms=plan.max_atoms, scores=scores, grown=grown)
        return replace(left, shrink_at=self._next_shrink(plan, left.size))

    def _shrink(self, state: State) -> State:
        return self._thinned(state, generator_at(state.seed, SHRINK, state.n_seen), GROWTH)

    def _finished(self, state: State) -> State:
        """Thin a copy where the limit or a growing ridge asks for it; the stream itself goes on unthinned."""
        limit = state.plan.max_atoms
        over = limit is not None and state.size > limit
        if over or self._ridge_due(state) > state.scorer.ridge:
            return self._thinned(state, generator_at(state.seed, READ, state.n_seen))
        return state
