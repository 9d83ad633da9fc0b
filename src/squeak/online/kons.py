"""KONS and SKETCHED-KONS: online Newton steps in the whole kernel space, every row kept.

For reference and for short streams: O(t²) time and memory at row t. The state is the c-form, A_{t−1}u_t = Σ_{s<t}
c_s φ_s, which also stands where a derivative is 0 (the printed b-form divides by it).
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.cholesky import GrowingCholesky
from squeak.core.kernels import block, diagonal
from squeak.core.rows import copy_rows, join, n_rows, rows_from_arrays, rows_to_arrays, take
from squeak.core.screening import entry_score
from squeak.core.seeds import RandomState, coins
from squeak.core.state import checked, number, numbers, parts, seed, whole, wholes
from squeak.core.types import Array, Rows
from squeak.online.base import OnlineEstimator, check_positive
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.newton import StepRule
from squeak.online.pros_n_kons import check_rule


class Sketch:
    """Which directions enter A: KORS on the features scaled by ġ√η, each kept one unweighted.

    References
    ----------
    Thesis, algorithm 13; the theory page, "Online learning".
    """

    def __init__(self, oversampling: float, smallest_chance: float) -> None:
        self.oversampling, self.smallest_chance = oversampling, smallest_chance
        self.factor = GrowingCholesky()
        """Of the scaled Gram matrix plus alpha/weight: what the scores come from."""

    def chance(self, scaled: Array, diag: float, alpha: float) -> tuple[float, Array]:
        """Return the probability to enter, and the projection that the factor needs if it does."""
        projected = self.factor.project(scaled.reshape(1, -1))
        left = max(diag - float(np.sum(projected**2)), 0.0)
        score = entry_score(left, alpha)
        return min(1.0, self.oversampling * max(score, self.smallest_chance)), projected

    def add(self, projected: Array, diag: float, alpha: float, p: float) -> None:
        """Take a direction in with weight 1/p."""
        left = max(diag - float(np.sum(projected**2)), 0.0)
        self.factor = self.factor.append(projected, np.array([[left + alpha * p]]))


class KonsHead:
    """The c-form of one output; between calls ``q`` = L⁻¹ D (K c) over the rows whose direction is in A.

    With M = DKD + alpha·I = L Lᵀ: ȳ = (kᵀc − (L⁻¹Dk)ᵀq)/alpha and ρ = φᵀA⁻¹φ = (k(x, x) − ‖L⁻¹Dk‖²)/alpha.

    References
    ----------
    Thesis, algorithm 12 as corrected in the theory page, "Online learning".
    """

    def __init__(self, rule: StepRule, alpha: float, sketch: Sketch | None) -> None:
        self.rule, self.alpha, self.sketch = rule, alpha, sketch
        self.c: list[float] = []
        self.rows: list[int] = []
        self.D: list[float] = []
        self.q = np.zeros(0)
        self.factor = GrowingCholesky()
        self.gain = 0.0

    def copy(self) -> KonsHead:
        """Return a head of its own in the same state; arrays are shared, for none is changed in place."""
        head = copy(self)
        head.rule, head.sketch = copy(self.rule), copy(self.sketch)
        head.c, head.rows, head.D = list(self.c), list(self.rows), list(self.D)
        return head

    def expansion(self) -> Array:
        """Return θ with u = Σ θ_s φ_s, the weights before the next round."""
        theta = np.array(self.c)
        theta[self.rows] -= np.array(self.D) * (self.factor.inverse.T @ self.q)
        return theta / self.alpha

    def learn(self, k: Array, diag: float, y: float, uniform: float) -> float:
        """Predict the row whose kernel column with the rows before is ``k``, then learn from its target."""
        kb = np.array(self.D) * k[self.rows]
        l = self.factor.project(kb.reshape(1, -1))[0]  # noqa: E741
        kc = float(k @ np.array(self.c)) if self.c else 0.0
        rho = (diag - float(l @ l)) / self.alpha
        z = (kc - float(l @ self.q)) / self.alpha
        cut, prediction, slope, weight = self.rule(y, z)
        scale = np.sign(slope) * np.sqrt(weight)  # ġ√η
        entered = slope != 0.0
        p, scaled = 1.0, np.zeros((1, 0))
        if entered and self.sketch is not None:
            p, scaled = self.sketch.chance(scale * kb, weight * diag, self.alpha)
            entered = uniform < p
        c = (weight * (z - cut) if entered else 0.0) - slope - (cut / rho if cut != 0.0 else 0.0)
        self.q = self.q + c * l
        self.c.append(float(c))
        self.gain += slope * slope * rho / (1.0 + (weight * rho if entered else 0.0))
        if entered:
            new = float(scale) * l
            pivot = max(self.alpha + weight * diag - float(new @ new), self.alpha)
            self.q = np.append(self.q, (float(scale) * (kc + diag * c) - float(new @ self.q)) / np.sqrt(pivot))
            self.factor = self.factor.append(new.reshape(1, -1), np.array([[pivot]]))
            self.rows.append(len(self.c) - 1)
            self.D.append(float(scale))
            if self.sketch is not None:
                self.sketch.add(scaled, weight * diag, self.alpha, p)
        return prediction


class KonsLearner:
    """KONS over rows that are all kept; one head for every output."""

    def __init__(
        self,
        kernel: Any,
        rule: StepRule,
        alpha: float,
        sketch: tuple[float, float] | None,
        n_outputs: int,
        seed: int,
    ) -> None:
        self.kernel, self.seed = kernel, seed
        self.heads = [
            KonsHead(rule.copy(), alpha, None if sketch is None else Sketch(*sketch)) for _ in range(n_outputs)
        ]
        self.rows: Rows = None
        self.n_seen = 0

    @property
    def facts(self) -> dict[str, int]:
        """All rows are atoms; coordinates are the directions in A."""
        return {"atoms": self.n_seen, "coordinates": max(len(head.rows) for head in self.heads), "growths": 0}

    def _column(self, X: Rows) -> Array:
        return np.zeros((n_rows(X), 0)) if self.rows is None else block(self.kernel, X, self.rows)

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
        rows = copy_rows(x) if self.rows is None else join(self.rows, x)
        self.__dict__.update(heads=heads, rows=rows, n_seen=self.n_seen + 1)  # at once: learned or not
        return said

    def copy(self) -> KonsLearner:
        """Return a learner of its own in the same state; heads are shared, for rows replace them."""
        return copy(self)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the rest as JSON data."""
        arrays, contents = rows_to_arrays(self.rows), []
        for i, head in enumerate(self.heads):
            values = {
                "c": np.array(head.c),
                "rows": np.array(head.rows, dtype=np.int64),
                "D": np.array(head.D),
                "q": head.q,
                "factor": head.factor.inverse,
                "sketch": None if head.sketch is None else head.sketch.factor.inverse,
                "bound": head.rule.bound,
                "round": head.rule.round,
                "gain": head.gain,
            }
            some, content = parts(HEAD, values, f"head{i}_")
            arrays.update(some)
            contents.append(content)
        return arrays, {**parts(STATE, vars(self))[1], "heads": contents}

    def set_parts(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take over the state that :meth:`to_parts` took apart, or raise what does not fit."""
        rows = rows_from_arrays(arrays)
        facts = checked(STATE, arrays, content)
        if n_rows(rows) != facts["n_seen"] or len(content["heads"]) != len(self.heads):
            raise ValueError("the learner's arrays do not fit each other")
        for i, head in enumerate(self.heads):
            found = checked(HEAD, arrays, content["heads"][i], f"head{i}_", n=facts["n_seen"])
            if np.any(found["rows"] >= facts["n_seen"]):
                raise ValueError("the learner's row numbers are damaged")
            head.c, head.D, head.rows = found["c"].tolist(), found["D"].tolist(), found["rows"].tolist()
            head.q, head.factor = found["q"].copy(), GrowingCholesky(found["factor"].copy())
            if head.sketch is not None:
                head.sketch.factor = GrowingCholesky(found["sketch"].copy())
            head.gain, head.rule.bound, head.rule.round = found["gain"], found["bound"], found["round"]
        self.rows, self.n_seen, self.seed = rows, facts["n_seen"], facts["seed"]


STATE = {"n_seen": whole(), "seed": seed()}
HEAD = {
    "rows": wholes("m"),
    "c": numbers("n"),
    "D": numbers("m"),
    "q": numbers("m"),
    "factor": numbers("m", "m"),
    "sketch": numbers("m", "m", optional=True),
    "gain": number(),
    "bound": number(low=0.0),
    "round": whole(),
}


class _Kons(OnlineEstimator):
    """The shared part of KONS and SKETCHED-KONS."""

    def __init__(
        self,
        kernel: Any = None,
        loss: str = "squared",
        alpha: float = 0.1,
        bound: float | None = None,
        curvature: str = "adaptive",
        step: float = 1.0,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.alpha = alpha
        self.bound = bound
        self.curvature = curvature
        self.step = step
        self.random_state = random_state

    def _sketch(self) -> tuple[float, float] | None:
        return None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_rule(self)
        check_positive("alpha", self.alpha)
        if self.curvature == "auto":
            raise ValueError("curvature='auto' is for ConKons, ProsNKons and BudgetKons; use 'adaptive' or 'worst'")

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> KonsLearner:
        return KonsLearner(kernel, check_rule(self), float(self.alpha), self._sketch(), n_outputs, seed)


class KonsRegressor(_Kons, OnlineRegressor):
    """KONS: the online Newton step in the whole kernel space; O(t²) time and memory at row t.

    Its regret against any w with ``|f_w(x_t)| ≤ bound`` is at most ½(alpha‖w‖² + Σ gᵀA⁻¹g), logarithmic in T for
    curved losses.

    Parameters
    ----------
    kernel, loss, alpha, bound, curvature, step, random_state
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


class KonsClassifier(_Kons, OnlineClassifier):
    """KONS for labels: see :class:`KonsRegressor`.

    Parameters
    ----------
    kernel, loss, alpha, bound, curvature, step, random_state
        As in :class:`ConKonsClassifier`; curvature is "adaptive" or "worst".

    References
    ----------
    Thesis, algorithm 12, with the corrections of the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import KonsClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> KonsClassifier().fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        loss: str = "squared_hinge",
        alpha: float = 0.1,
        bound: float = 10.0,
        curvature: str = "adaptive",
        step: float = 1.0,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(kernel, loss, alpha, bound, curvature, step, random_state)
