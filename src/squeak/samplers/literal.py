"""SQUEAK as it is printed: every row or block expands, then the whole dictionary shrinks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from squeak.core.checks import check_between, check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import diagonal, gram
from squeak.core.leverage import dictionary_scores
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.thinning import thin
from squeak.core.types import Array, IntArray, Rows
from squeak.samplers.base import Plan
from squeak.samplers.batch import BatchSampler, Choice
from squeak.samplers.theory import squeak_oversampling, squeak_oversampling_aistats
from squeak.trees.tree import Tree, TreeShaped

PAPERS = ("thesis", "aistats")
ESTIMATES = ("under", "over")


@dataclass(frozen=True)
class _Node:
    """The dictionary of a node: rows in ascending order, and Σ k(x, x) over all rows that it stands for."""

    rows: IntArray
    probabilities: Array
    counts: IntArray
    trace: float


@parameters
class LiteralSqueak(TreeShaped, BatchSampler):
    """SQUEAK by the letter of its listing, for readers of the papers; for work take :class:`Squeak`.

    Rows are cut into leaves, each with p = 1 and ``copies`` coins a row. A merge unites the dictionaries of its two
    children (EXPAND), scores every atom within the union,

        τ̃ = (1 − ε)·φᵀ(ΦSSᵀΦᵀ + (1 + ε)·ridge·Π)⁻¹φ,

    and thins it, p' = min(τ̃, p), counts' ~ Binomial(counts, p'/p) (SHRINK); the weight is counts/(copies·p).
    :class:`Squeak` differs from it: rows enter by a coin, and atoms are scored anew only when the dictionary has
    grown by half, at the ridge itself. A merge costs O(m³) here, a run with leaves of one row O(n·m³): for some
    hundreds of rows.

    Parameters
    ----------
    kernel, ridge, source, random_state
        As in :class:`Squeak`; the ridge is a number.
    copies : int
        q̄.
    eps : float
        The ε of the estimator, from 0 up to but not including 1; 0 leaves its factors out.
    leaf_rows : int
        Rows of a leaf.
    tree : "sequential", "balanced", Tree or nested tuples
        Which dictionaries meet which. With a single leaf nothing is merged, and all its rows stay.
    paper : {"thesis", "aistats"}
        "aistats" is the conference's sequential listing: the first leaf is thinned too, and a new leaf, being
        exact, needs no larger ridge, τ̃ = (1 − ε)·φᵀ(ΦSSᵀΦᵀ + ridge·Π)⁻¹φ. With another tree than the sequential
        one the two papers agree.
    estimates : {"under", "over"}
        "over" multiplies τ̃ by ρ = (1 + 3ε)/(1 − ε) (sequentially in "aistats", (1 + ε)/(1 − ε)) and cuts at 1, so
        that τ ≤ p ≤ min(1, ρ·τ) where the children are accurate.
    clip : bool
        Raise τ̃ to k(x, x)/(Σ k + ridge), Σ over all rows of the node, below which no score lies.

    Attributes
    ----------
    dictionary_ : Dictionary
    tree_ : Tree

    References
    ----------
    Thesis, algorithm 10, theorem 3.16 and section 3.3.4; Calandriello, Lazaric, Valko, "Distributed Adaptive
    Sampling for Kernel Matrix Approximation", AISTATS 2017, algorithms 1 and 2; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import LiteralSqueak
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> s = LiteralSqueak(RBF(2.0), 1.0, copies=8, eps=0.3, leaf_rows=10, random_state=0).fit(X)
    >>> len(s.dictionary_) < 100, s.tree_.n_leaves
    (True, 30)
    """

    copies: int = 50
    eps: float = 0.5
    leaf_rows: int = 1
    tree: str | Tree | Any = "sequential"
    paper: str = "thesis"
    estimates: str = "under"
    clip: bool = False

    tree_: Tree = field(init=False)

    @classmethod
    def from_paper(cls, eps: float, delta: float, n: int, paper: str = "thesis", **params: Any) -> LiteralSqueak:
        """Return the sampler with a theorem's number of copies: every dictionary is (eps, ridge)-accurate.

        Parameters
        ----------
        eps, delta : float
            Accuracy and probability of failure.
        n : int
            The number of rows to come.
        paper : {"thesis", "aistats"}
            26·ρ·log(3n/δ)/ε², or 39·α·log(2n/δ)/ε² for a ridge above 1 and a unit diagonal.
        **params
            The sampler's other parameters. With ``estimates="over"`` the same number is more than enough.

        Returns
        -------
        LiteralSqueak
        """
        if _one_of("paper", paper, PAPERS) == "thesis":
            copies = squeak_oversampling(eps, delta, n)
        else:
            sequential = params.get("tree", "sequential") == "sequential"
            copies = squeak_oversampling_aistats(eps, delta, n, distributed=not sequential)
        return cls(copies=copies, eps=eps, paper=paper, **params)

    def _make_plan(self, first_rows: Rows, kernel: Any) -> Plan:
        plan = super()._make_plan(first_rows, kernel)
        eps = check_between("eps", self.eps, 0.0, 1.0)
        if eps == 1.0:
            raise ValueError("eps must lie below 1: the estimator's factor 1 − eps would be 0")
        return replace(plan, oversampling=float(plan.copies), eps=eps)

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        starts = range(0, n_rows(X), check_whole("leaf_rows", self.leaf_rows))
        tree = self._tree_of(len(starts))
        update = _one_of("paper", self.paper, PAPERS) == "aistats" and self.tree == "sequential"
        over, k = _one_of("estimates", self.estimates, ESTIMATES) == "over", tree.n_leaves
        diag = diagonal(plan.kernel, X)
        nodes = {}
        for leaf, start in enumerate(starts):
            rows = np.arange(start, min(start + starts.step, n_rows(X)))
            nodes[leaf] = _Node(rows, np.ones(len(rows)), np.full(len(rows), plan.copies), float(diag[rows].sum()))
        merges = [(0,), *((k + i - 1, i) for i in range(1, k))] if update else tree.merges
        for number, children in enumerate(merges, start=k):
            joined = _united([nodes.pop(child) for child in children])
            scores = self._scores(joined, take(X, joined.rows), plan, 1 if update else len(children), over)
            rng = generator_at(seed, SAMPLE, number)
            probabilities, counts = thin(joined.probabilities, joined.counts, scores, rng)
            alive = counts > 0
            nodes[number] = _Node(joined.rows[alive], probabilities[alive], counts[alive], joined.trace)
        (root,) = nodes.values()
        self._facts = {"tree_": tree}
        found = Choice(root.rows, root.probabilities, root.counts, plan.copies, plan.ridge, plan.oversampling)
        return [found], 1.0

    def _scores(self, node: _Node, atoms: Rows, plan: Plan, inexact: int, over: bool) -> Array:
        """Return the estimate for every atom of a union of so many inexact dictionaries, at most 1."""
        if node.rows.size == 0:
            return np.zeros(0)
        K = gram(plan.kernel, atoms)
        weights = node.counts / (plan.copies * node.probabilities)
        scores = dictionary_scores(K, weights, (1.0 + (inexact - 1) * plan.eps) * plan.ridge, plan.shrink)
        if over:
            scores = (1.0 + (2 * inexact - 1) * plan.eps) / (1.0 - plan.eps) * scores
        if self.clip:
            scores = np.maximum(scores, K.diagonal() / (node.trace + plan.ridge))
        return np.minimum(scores, 1.0)


def _united(nodes: list[_Node]) -> _Node:
    rows = np.concatenate([node.rows for node in nodes])
    order = np.argsort(rows)  # coins are tossed in the order of the rows, whatever the tree
    probabilities = np.concatenate([node.probabilities for node in nodes])[order]
    counts = np.concatenate([node.counts for node in nodes])[order]
    return _Node(rows[order], probabilities, counts, sum(node.trace for node in nodes))


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}; it is {value!r}")
    return value
