"""KONS and SKETCHED-KONS: online Newton steps in the whole kernel space, every row kept.

For reference and for short streams: O(t²) time and memory at row t. The state is the c-form, A_{t−1}u_t = Σ_{s<t}
c_s φ_s, which also stands where a derivative is 0 (the printed b-form divides by it).
"""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, NamedTuple

import numpy as np

from squeak.core import engine
from squeak.core.cholesky import GrowingCholesky
from squeak.core.constructors import parameters
from squeak.core.kernels import block, diagonal
from squeak.core.rows import copy_rows, join, n_rows, take
from squeak.core.saved import Layout, RowsPiece
from squeak.core.screening import entry_score
from squeak.core.seeds import coins
from squeak.core.state import number, numbers, seed, whole, wholes
from squeak.core.thinning import count_from_uniform, keep_probability
from squeak.core.types import Array, Rows
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.newton import StepRule
from squeak.online.second_order import SecondOrder
from squeak.online.stored import FactorPiece, Stored


class Chances(NamedTuple):
    """How a sketch draws: q ~ Binomial(copies, min(1, (oversampling/copies)·max(shrink·τ̃, smallest)))."""

    oversampling: float
    smallest: float
    copies: int = 1
    shrink: float = 1.0


class KonsHead(Stored):
    """The c-form of one output; between calls ``q`` = L⁻¹ D (K c) over the rows whose direction is in A.

    With M = DKD + alpha·I = L Lᵀ: ȳ = (kᵀc − (L⁻¹Dk)ᵀq)/alpha and ρ = φᵀA⁻¹φ = (k(x, x) − ‖L⁻¹Dk‖²)/alpha.

    ``chances``: of a sketch: which directions enter A is then decided by KORS on the features scaled by ġ√η. One
    with q of its coins left enters with the part q/copies of its weight: wholly, where there is one coin.

    Source: Thesis, algorithm 12 as corrected in the theory page, "Online learning", and algorithm 13.
    """

    _state: ClassVar[Layout] = {
        "factor": FactorPiece("m"),
        "sketch": FactorPiece("", optional=True),
        "rows": wholes("m"),
        "c": numbers("n"),
        "D": numbers("m"),
        "q": numbers("m"),
        "gain": number(),
        "rule.bound": number(low=0.0),
        "rule.round": whole(),
    }

    def __init__(self, rule: StepRule, alpha: float, chances: Chances | None) -> None:
        self.rule, self.alpha, self.chances = rule, alpha, chances
        self.c, self.D, self.q = np.zeros(0), np.zeros(0), np.zeros(0)
        self.rows = np.zeros(0, dtype=np.int64)
        self.factor = GrowingCholesky()
        self.sketch = None if chances is None else GrowingCholesky()
        """Of the scaled Gram matrix plus alpha/weight: what the scores come from."""
        self.gain = 0.0

    def copy(self) -> KonsHead:
        """Return a head of its own in the same state; arrays are shared, for none is changed in place."""
        head = copy(self)
        head.rule = copy(self.rule)
        return head

    def expansion(self) -> Array:
        """Return θ with u = Σ θ_s φ_s, the weights before the next round."""
        theta = self.c.copy()
        theta[self.rows] -= self.D * (self.factor.inverse.T @ self.q)
        return theta / self.alpha

    def learn(self, k: Array, diag: float, y: float, uniform: float) -> float:
        """Predict the row whose kernel column with the rows before is ``k``, then learn from its target."""
        kb = self.D * k[self.rows]
        l = self.factor.project(kb.reshape(1, -1))[0]  # noqa: E741
        kc = float(k @ self.c)
        rho = (diag - float(l @ l)) / self.alpha
        z = (kc - float(l @ self.q)) / self.alpha
        cut, prediction, slope, weight = self.rule(y, z)
        scale = float(np.sign(slope) * np.sqrt(weight))  # ġ√η
        sketch, part = self.sketch, 1.0 if slope != 0.0 else 0.0
        if part > 0.0 and sketch is not None:
            sketch, part = self._sketched(sketch, scale * kb, weight * diag, uniform)
        scale, weight = scale * np.sqrt(part), weight * part
        c = (weight * (z - cut) if part > 0.0 else 0.0) - slope - (cut / rho if cut != 0.0 else 0.0)
        self.q = self.q + c * l
        self.c = np.append(self.c, c)
        self.gain += slope * slope * rho / (1.0 + weight * rho)
        if part > 0.0:
            new = scale * l
            pivot = max(self.alpha + weight * diag - float(new @ new), self.alpha)
            self.q = np.append(self.q, (scale * (kc + diag * c) - float(new @ self.q)) / np.sqrt(pivot))
            self.factor = self.factor.append(new.reshape(1, -1), np.array([[pivot]]))
            self.rows, self.D, self.sketch = np.append(self.rows, len(self.c) - 1), np.append(self.D, scale), sketch
        return prediction

    def _sketched(
        self, sketch: GrowingCholesky, scaled: Array, diag: float, uniform: float
    ) -> tuple[GrowingCholesky, float]:
        """Return the sketch with a direction, and the part of it that enters A; itself and 0 where it stays out.

        The direction has weight part/p in the sketch, whose rows are scaled by √part as those of A are.
        """
        assert self.chances is not None
        oversampling, smallest, copies, shrink = self.chances
        projected = sketch.project(scaled.reshape(1, -1))
        left = max(diag - float(np.sum(projected**2)), 0.0)
        p = float(keep_probability(max(shrink * entry_score(left, self.alpha), smallest), oversampling, copies))
        part = count_from_uniform(uniform, p, copies) / copies
        if part == 0.0:
            return sketch, 0.0
        return sketch.append(np.sqrt(part) * projected, np.array([[part * left + self.alpha * p]])), part

    def _take(self, found: dict[str, Any]) -> None:
        sketch = found["sketch"]
        if np.any(found["rows"] >= len(found["c"])) or (sketch is None) != (self.sketch is None):
            raise ValueError("the learner's row numbers are damaged")
        if sketch is not None and len(sketch) != len(found["rows"]):
            raise ValueError("the learner's sketch does not fit")
        super()._take(found)


class KonsLearner(Stored):
    """KONS over rows that are all kept; one head for every output."""

    _state: ClassVar[Layout] = {"atoms": RowsPiece(size="n"), "n_seen": whole(), "seed": seed()}
    _inner: ClassVar[tuple[str, str]] = ("heads", "head{}_")

    def __init__(
        self, kernel: Any, rule: StepRule, alpha: float, chances: Chances | None, n_outputs: int, seed: int
    ) -> None:
        self.kernel, self.seed = kernel, seed
        self.heads = [KonsHead(rule.copy(), alpha, chances) for _ in range(n_outputs)]
        self.atoms: Rows = None
        self.n_seen = 0

    @property
    def facts(self) -> dict[str, int]:
        """All rows are atoms; coordinates are the directions in A."""
        return {"atoms": self.n_seen, "coordinates": max(len(head.rows) for head in self.heads), "growths": 0}

    def _column(self, X: Rows) -> Array:
        return np.zeros((n_rows(X), 0)) if self.atoms is None else block(self.kernel, X, self.atoms)

    def scores(self, X: Rows) -> Array:
        """Return the predictions of rows, shape (n, outputs)."""
        expansions = np.column_stack([head.expansion() for head in self.heads])
        bounds = np.array([head.rule.bound for head in self.heads])
        out = np.empty((n_rows(X), len(self.heads)))

        def fill(tile: slice) -> None:
            out[tile] = np.clip(self._column(take(X, tile)) @ expansions, -bounds, bounds)

        engine.map_ordered(fill, engine.tiles(n_rows(X), 1024))
        return out

    def score_row(self, x: Rows) -> list[float]:
        """Return the predictions of one row."""
        return [float(value) for value in self.scores(x)[0]]

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions, shape (n, outputs)."""
        with engine.single_blas():
            said = [self.learn_row(take(X, slice(i, i + 1)), targets[i].tolist()) for i in range(n_rows(X))]
        return np.array(said)

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it."""
        column, diag = self._column(x)[0], float(diagonal(self.kernel, x)[0])
        uniform = float(coins(self.seed, self.n_seen, 1)[0])
        heads = [head.copy() for head in self.heads]
        said = [head.learn(column, diag, y, uniform) for head, y in zip(heads, targets, strict=True)]
        atoms = copy_rows(x) if self.atoms is None else join(self.atoms, x)
        self.__dict__.update(heads=heads, atoms=atoms, n_seen=self.n_seen + 1)  # at once: learned or not
        return said

    def copy(self) -> KonsLearner:
        """Return a learner of its own in the same state; heads are shared, for rows replace them."""
        return copy(self)

    def _inner_sizes(self) -> dict[str, int]:
        return {"n": self.n_seen}

    def _take(self, found: dict[str, Any]) -> None:
        if n_rows(found["atoms"]) != found["n_seen"]:
            raise ValueError("the learner's arrays do not fit each other")
        super()._take(found)


class _Kons(SecondOrder):
    """The shared part of KONS and SKETCHED-KONS."""

    def _chances(self) -> Chances | None:
        return None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.curvature == "auto":
            raise ValueError("curvature='auto' is for ConKons, ProsNKons and BudgetKons; use 'adaptive' or 'worst'")

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> KonsLearner:
        return KonsLearner(kernel, self._rule(), float(self.alpha), self._chances(), n_outputs, seed)


class KonsRegressor(_Kons, OnlineRegressor):
    """KONS: the online Newton step in the whole kernel space; O(t²) time and memory at row t.

    Its regret against any w with ``|f_w(x_t)| ≤ bound`` is at most ½(alpha‖w‖² + Σ gᵀA⁻¹g), logarithmic in T for
    curved losses.

    Parameters
    ----------
    kernel, loss, alpha, bound, curvature, step, scale, random_state
        As in :class:`ConKonsRegressor`; curvature is "adaptive" or "worst".

    References
    ----------
    Thesis, algorithm 12 and theorem 5.4, with the corrections of the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import KonsRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (300, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(np.mean((KonsRegressor().fit(X, y).predict(X) - y) ** 2) < 0.01)
    True
    """


@parameters
class KonsClassifier(_Kons, OnlineClassifier):
    """KONS for labels: see :class:`KonsRegressor`.

    Parameters
    ----------
    kernel, loss, alpha, bound, curvature, step, scale, random_state
        As in :class:`ConKonsClassifier`; curvature is "adaptive" or "worst".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import KonsClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> KonsClassifier().fit(X, y).score(X, y) > 0.95
    True
    """

    loss: str = "squared_hinge"
    bound: float = 10.0
