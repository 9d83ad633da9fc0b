"""Online Newton steps in a space of a few coordinates: row by row, or a block at once with the same result.

With P = A⁻¹, v the weights before the round, s = Pφ and ρ = φᵀs, one round is two updates of rank one:

    z = φᵀv,   ŷ = z − h(z),   c = η·ġ²
    v ← v − (h(z)/ρ + ġ/(1 + cρ))·s,      P ← P − c/(1 + cρ)·s sᵀ.

In a block everything that the rounds exchange is S = ΦPΦᵀ and z = Φv, one small matrix and one vector: the rounds
run on these, and v and P follow by matrix products (BLAS 3).

**Forgetting.** With a half-life h the row of i rounds ago counts 2^(−i/h) in A. Within a spell of ⌈h⌉ rounds A is
kept in units that shrink with time: the row of round i counts 2^(i/h), which is φ ← 2^(i/(2h))·φ in the rounds
above. At its end A ← s·A + (1 − s)·alpha·I, with s = 2^(−spell/h): rows decay exactly, and the regularisation is
never below alpha/2, so that nothing winds up in directions that no longer come. The weights v stay.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from squeak.core.saved import Layout
from squeak.core.state import number, numbers, whole
from squeak.core.types import Array
from squeak.online.losses import SMALLEST_ERROR, Loss, SquaredLoss, clipped_part
from squeak.online.stored import Stored

_dot, _symv, _syr, _symm, _syrk, _trsm, _ger = get_blas_funcs(
    ("dot", "symv", "syr", "symm", "syrk", "trsm", "ger"), dtype=np.float64
)
_potrf, _potri, _trtrs = get_lapack_funcs(("potrf", "potri", "trtrs"), dtype=np.float64)

REFRESH = 1024
"""After so many rounds P is computed anew from A, so that rounding does not pile up."""


PATCH = 8
"""Rows learned round by round where a block's least squares meet a round of another weight."""


class StepRule:
    """What a prediction and its target give: ŷ, ġ and the weight η·ġ² of the new direction in A.

    ``bound``: predictions are clipped to [−bound, bound]; None: to the largest absolute target seen so far.
    ``curvature``: η = step·σ with the curvature of this very step, or with the worst case. ``step``: 1, or the
    papers' 1/2.
    """

    def __init__(self, loss: Loss, bound: float | None, curvature: str, step: float) -> None:
        self.loss, self.curvature, self.step = loss, curvature, step
        self.grows = bound is None
        self.bound = 0.0 if bound is None else bound
        self.round = 0

    @property
    def closed_form(self) -> bool:
        """Whether η·ġ² is the same in all rounds, so that a block is one least-squares problem."""
        return isinstance(self.loss, SquaredLoss) and self.curvature == "adaptive" and self.step == 1.0

    def copy(self) -> StepRule:
        """Return a rule of its own in the same state."""
        rule = StepRule(self.loss, None if self.grows else self.bound, self.curvature, self.step)
        rule.bound, rule.round = self.bound, self.round
        return rule

    def eta(self, y: float, prediction: float) -> float:
        """Return η_t for a round whose derivative is not 0."""
        if self.curvature == "adaptive":
            sigma = self.loss.curvature(y, prediction, self.bound)
        else:
            sigma = self.loss.worst_curvature(self.bound)
        if sigma > 0.0:
            return self.step * sigma
        return 1.0 / (self.loss.lipschitz(self.bound) * self.bound * math.sqrt(self.round))

    def __call__(self, y: float, z: float) -> tuple[float, float, float, float]:
        """Return h(z), ŷ, ġ and η·ġ², and count the round.

        A bound that grows clips the prediction as it is before the target is known, and the step as it is after:
        a target that is larger than all before it must not push the weights back.
        """
        cut = clipped_part(z, self.bound)
        prediction = z - cut
        self.round += 1
        if self.grows and abs(y) > self.bound:
            self.bound = abs(y)
            cut = clipped_part(z, self.bound)
        slope = self.loss.derivative(y, z - cut)
        weight = 0.0 if slope == 0.0 else self.eta(y, z - cut) * slope * slope
        return cut, prediction, slope, weight


class NewtonHead(Stored):
    """The state of online Newton steps for one output; between calls P = A⁻¹, both lower triangles only.

    Source: Thesis, algorithm 14; the theory page, "Online learning".

    ``alpha``: A begins as alpha·I. ``restarts``: what a new coordinate does: begin anew in the larger space
    (PROS-N-KONS), or go on (CON-KONS). ``half_life``: rounds after which a row counts half in A; None: for ever.
    """

    _state: ClassVar[Layout] = {
        "weights": numbers("size"),
        "P": numbers("size", "size"),
        "A": numbers("size", "size"),
        "pending": numbers("pending", "size"),
        "gain": number(),
        "rule.bound": number(low=0.0),
        "rule.round": whole(),
    }

    def __init__(self, rule: StepRule, alpha: float, *, restarts: bool, half_life: float | None = None) -> None:
        self.rule, self.alpha, self.restarts, self.half_life = rule, alpha, restarts, half_life
        self.spell = 0 if half_life is None else math.ceil(half_life)
        self.weights: Array = np.zeros(0)
        self.P: Array = np.zeros((0, 0), order="F")
        self.A: Array = np.zeros((0, 0), order="F")
        self.directions: list[Array] = []
        """New directions of A that are not in it yet."""
        self.n_pending = 0
        self.gain = 0.0
        """Σ gᵀA⁻¹g since the beginning: twice the regret's part that the steps cost."""

    def copy(self) -> NewtonHead:
        """Return a head of its own in the same state."""
        head = NewtonHead(self.rule.copy(), self.alpha, restarts=self.restarts, half_life=self.half_life)
        head.weights, head.gain = self.weights.copy(), self.gain
        head.P, head.A = self.P.copy(order="F"), self.A.copy(order="F")
        head.directions, head.n_pending = list(self.directions), self.n_pending
        return head

    def turned(self, sign: float) -> NewtonHead:
        """Return a copy; with a sign of −1, as if all targets had had the other sign."""
        head = self.copy()
        head.weights *= sign
        return head

    def extend(self, size: int) -> None:
        """Go on in a space of ``size`` coordinates, the first of which are the present ones."""
        j = len(self.weights)
        weights, P, A = np.zeros(size), np.zeros((size, size), order="F"), np.zeros((size, size), order="F")
        new = np.arange(0 if self.restarts else j, size)
        if not self.restarts:
            self._fold()
            weights[:j], P[:j, :j], A[:j, :j] = self.weights, self.P, self.A
        P[new, new], A[new, new] = 1.0 / self.alpha, self.alpha
        self.weights, self.P, self.A, self.directions, self.n_pending = weights, P, A, [], 0

    def scores(self, features: Array) -> Array:
        """Return the clipped predictions of rows, shape (n,)."""
        return np.clip(features @ self.weights, -self.rule.bound, self.rule.bound)

    def learn_row(self, phi: Array, y: float) -> float:
        """Predict one row, then learn from its target; returns the prediction."""
        unit, first = 1.0, self.rule.round
        cut, prediction, slope, weight = self.rule(y, _dot(phi, self.weights))
        if slope != 0.0 or cut != 0.0:  # otherwise the weights and A stay as they are
            if self.half_life is not None:
                unit = float(np.exp2(first % self.spell / (2.0 * self.half_life)))
                phi = unit * phi
            s = _symv(1.0, self.P, phi, lower=1)
            rho = _dot(phi, s)
            change, shrink = _round(rho, cut, slope, weight)
            if change != 0.0:
                self.weights += unit * change * s
            if shrink > 0.0:
                self.P = _syr(-shrink, s, lower=1, a=self.P, overwrite_a=1)
                self.gain += slope * slope * rho / (1.0 + weight * rho)
                self._remember((math.sqrt(weight) * phi)[None])
        if self.spell and not self.rule.round % self.spell:
            self._forget()
        return prediction

    def score_row(self, phi: Array) -> float:
        """Return the clipped prediction of one row."""
        z = _dot(phi, self.weights) if len(phi) else 0.0
        return float(z - clipped_part(z, self.rule.bound))

    def learn_block(self, features: Array, y: Array) -> Array:
        """Predict and learn from some rows, one after the other; returns the predictions, shape (n,).

        ``features`` has shape (n, coordinates) in C order.
        """
        if len(self.weights) == 0:
            return np.array([self.rule(target, 0.0)[1] for target in y.tolist()])
        if self.half_life is None:
            return self._learn_spell(features, y)
        said, at = np.empty(len(y)), 0
        while at < len(y):
            part = slice(at, min(len(y), at + self.spell - self.rule.round % self.spell))
            units = self._units(part.stop - at)
            said[part] = self._learn_spell(units[:, None] * features[part], y[part], units)
            if not self.rule.round % self.spell:
                self._forget()
            at = part.stop
        return said

    def _learn_spell(self, features: Array, y: Array, units: Array | None = None) -> Array:
        """Predict and learn rows of one spell; features come multiplied by the units."""
        if not self.rule.closed_form:
            return self._rounds(features, y, units)
        parts, at = [], 0
        while at < len(y):
            some = None if units is None else units[at:]
            parts.append(self._least_squares(features[at:], y[at:], some))
            at += len(parts[-1])
            if at < len(y):  # a round was clipped or exact
                patch = slice(at, at + PATCH)
                some = None if units is None else units[patch]
                parts.append(self._rounds(features[patch], y[patch], some))
                at += PATCH
        return np.concatenate(parts)

    def _units(self, n: int) -> Array:
        """Return by what the next rows of the spell are multiplied, shape (n,)."""
        assert self.half_life is not None
        return np.asarray(np.exp2((self.rule.round % self.spell + np.arange(n)) / (2.0 * self.half_life)))

    def _forget(self) -> None:
        """Set the units of A right, for a spell has just ended."""
        assert self.half_life is not None
        self._fold()
        kept = 2.0 ** (-self.spell / self.half_life)
        self.A *= kept
        self.A.reshape(-1, order="F")[:: len(self.A) + 1] += (1.0 - kept) * self.alpha
        self._invert()

    def _against(self, features: Array) -> tuple[Array, Array, Array]:
        """Return G = PΦᵀ, S = ΦPΦᵀ and z = Φv for the rows Φ of a block."""
        G = _symm(1.0, self.P, features.T, side=0, lower=1)  # (coordinates, n)
        return G, features @ G, features @ self.weights

    def _least_squares(self, features: Array, y: Array, units: Array | None) -> Array:
        """Learn the leading rows of a block in which η·ġ² = 2, as many as there are; returns their predictions.

        A round that is clipped or exact has another weight. With I/2 + S = L Lᵀ the rounds' errors are diag(L)·w,
        L w = y − z: forward substitution is the sequence of rounds, and what leads L belongs to the leading rows.
        """
        G, S, z = self._against(features)
        shifted = S.T  # symmetric, and in the order that LAPACK writes in
        shifted.reshape(-1, order="F")[:: len(y) + 1] += 0.5
        L, info = _potrf(shifted, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            return np.zeros(0)
        w = _trtrs(L, (y if units is None else units * y) - z, lower=1)[0]
        pivots = L.diagonal()
        errors = pivots * w if units is None else pivots * w / units
        raw: Array = y - errors
        rule = self.rule
        reach = np.full(len(y), rule.bound)  # the bound at the end of each round
        if rule.grows:
            np.maximum(rule.bound, np.maximum.accumulate(np.abs(y)), out=reach)
        before = np.concatenate([[rule.bound], reach[:-1]])
        other = (np.abs(raw) > reach) | (np.abs(errors) < 2.0 * SMALLEST_ERROR * reach)
        n = int(np.argmax(other)) if other.any() else len(y)
        if n == 0:
            return np.zeros(0)
        if n < len(y):
            L, G, w, pivots, errors = L[:n, :n], G[:, :n], w[:n], pivots[:n], errors[:n]
        H = _trsm(1.0, L, G, side=1, lower=1, trans_a=1, overwrite_b=1)
        self.weights = self.weights + H @ w
        self.P = _syrk(-1.0, H, beta=1.0, c=self.P, lower=1, overwrite_c=1)
        self.gain += float(np.sum(4.0 * errors**2 * (pivots**2 - 0.5) / (2.0 * pivots**2)))
        rule.round += n
        rule.bound = float(reach[n - 1])
        self._remember(math.sqrt(2.0) * features[:n])
        return np.clip(raw[:n], -before[:n], before[:n])

    def _rounds(self, features: Array, y: Array, units: Array | None) -> Array:
        """Learn a block of any loss: the rounds one after the other on S and z, then v and P at once."""
        n = len(y)
        G, S, z = self._against(features)
        state = np.empty((n, n + 1), order="F")  # S and z of this round
        state[:, :n], state[:, n] = S, z
        columns = np.zeros((n, n), order="F")  # column i: S at round i
        row = np.empty(n + 1)
        changes, shrinks, weights = np.zeros(n), np.zeros(n), np.zeros(n)
        predictions = np.empty(n)
        rule, read = self.rule, state.item
        unit = [1.0] * n if units is None else units.tolist()
        for i, target in enumerate(y.tolist()):
            rho = read(i, i)
            cut, predictions[i], slope, weight = rule(target, read(i, n) / unit[i])
            change, shrink = _round(rho, cut, slope, weight)
            if change == 0.0 and shrink == 0.0:
                continue
            change *= unit[i]
            s = columns[:, i]
            s[:] = state[:, i]
            changes[i], shrinks[i], weights[i] = change, shrink, weight
            self.gain += slope * slope * rho / (1.0 + weight * rho)
            np.multiply(s, -shrink, out=row[:n])
            row[n] = change
            state = _ger(1.0, s, row, a=state, overwrite_a=1)
        used = np.flatnonzero((changes != 0.0) | (shrinks > 0.0))
        if used.size:
            if used.size < n:
                G, columns = np.asfortranarray(G[:, used]), columns[np.ix_(used, used)]
            # s_i = P_i φ_i = G_i − Σ_{k<i} shrink_k s_k (s_kᵀφ_i): a unit upper triangular system
            unit_upper = np.asfortranarray(shrinks[used][:, None] * columns.T)
            steps = _trsm(1.0, unit_upper, G, side=1, lower=0, diag=1, overwrite_b=1)
            self.weights = self.weights + steps @ changes[used]
            steps *= np.sqrt(shrinks[used])
            self.P = _syrk(-1.0, steps, beta=1.0, c=self.P, lower=1, overwrite_c=1)
            self._remember(np.sqrt(weights[used])[:, None] * features[used])
        return predictions

    def _remember(self, directions: Array) -> None:
        """Note the new directions of A; after enough of them compute P anew."""
        self.directions.append(directions)
        self.n_pending += len(directions)
        if self.n_pending >= REFRESH:
            self._fold()
            self._invert()

    def _invert(self) -> None:
        """Compute P anew from A."""
        lower, _ = _potrf(self.A, lower=1, clean=0)
        self.P, _ = _potri(lower, lower=1, overwrite_c=1)

    def _fold(self) -> None:
        """Add the noted directions to A."""
        if self.directions:
            self.A = _syrk(1.0, self.pending.T, beta=1.0, c=self.A, lower=1, overwrite_c=1)
            self.directions, self.n_pending = [], 0

    @property
    def pending(self) -> Array:
        """The new directions of A that are not in it yet, a row each."""
        if len(self.directions) == 1:
            return self.directions[0]
        return np.concatenate([*self.directions, np.zeros((0, len(self.weights)))])

    def _take(self, found: dict[str, Any]) -> None:
        pending = found.pop("pending")
        if len(pending) >= REFRESH:
            raise ValueError("the learner's arrays do not fit each other")
        super()._take(found)
        self.P, self.A = np.asfortranarray(self.P), np.asfortranarray(self.A)
        self.directions, self.n_pending = ([pending] if len(pending) else []), len(pending)


def _round(rho: float, cut: float, slope: float, weight: float) -> tuple[float, float]:
    """Return the factors of s in v and of −s sᵀ in P."""
    if rho <= 0.0:  # the row has no coordinates: nothing to learn in this space
        return 0.0, 0.0
    change = -slope / (1.0 + weight * rho)
    if cut != 0.0:
        change -= cut / rho
    return change, weight / (1.0 + weight * rho)
