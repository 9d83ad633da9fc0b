"""KONS and SKETCHED-KONS against explicit online Newton steps; the regret inequality of every stream."""

import numpy as np
import pytest

from squeak.core.seeds import coins
from squeak.kernels import RBF, Linear, Polynomial
from squeak.online.kons import Chances, KonsLearner
from squeak.online.losses import LOSSES
from squeak.online.newton import StepRule
from tests.online.oracles import exact_features, explicit_newton
from tests.oracles import binomial_from_uniform

CASES = [
    ("squared", "adaptive", 1.0),
    ("squared", "worst", 0.5),
    ("logistic", "adaptive", 1.0),
    ("squared_hinge", "adaptive", 1.0),
    ("squared_hinge", "worst", 0.5),
    ("hinge", "worst", 1.0),
]


def stream(loss, n=120, d=4, bound=0.8, seed=0):
    """Return rows and targets with clipped rounds and rounds whose derivative is 0 among them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)
    y = np.sign(y) if LOSSES[loss].for_labels else np.clip(y, -bound, bound)
    return X, y


def run(X, y, loss, curvature, step, *, alpha=0.7, bound=0.8, sketch=None, kernel=None, seed=1):
    rule = StepRule(LOSSES[loss], bound, curvature, step)
    learner = KonsLearner(kernel or Linear(), rule, alpha, sketch and Chances(*sketch), 1, seed)
    return learner, learner.learn(X, y[:, None])[:, 0]


def eta_of(loss, curvature, step, bound):
    """Return η_t by a fresh rule, for the oracle."""
    rule = StepRule(LOSSES[loss], bound, curvature, step)

    def eta(t, y, prediction):
        rule.round = t + 1
        return rule.eta(y, prediction)

    return eta


@pytest.mark.parametrize(("loss", "curvature", "step"), CASES)
def test_kons_is_the_online_newton_step(loss, curvature, step):
    X, y = stream(loss)
    _, fast = run(X, y, loss, curvature, step)
    slow, record = explicit_newton(X, y, LOSSES[loss], 0.7, 0.8, eta_of(loss, curvature, step, 0.8))
    np.testing.assert_allclose(fast, slow, atol=1e-11)
    assert sum(r["clipped"] for r in record) > 5, "the stream must have clipped rounds"
    if loss == "squared":
        assert any(not r["g"].any() for r in record), "and rounds whose derivative is 0"


@pytest.mark.parametrize("kernel", [RBF(1.5), Polynomial(degree=2)])
def test_kons_is_the_online_newton_step_in_any_kernel_space(kernel):
    X, y = stream("squared", n=60)
    _, fast = run(X, y, "squared", "worst", 1.0, kernel=kernel)
    slow, _ = explicit_newton(
        exact_features(kernel, X), y, LOSSES["squared"], 0.7, 0.8, eta_of("squared", "worst", 1.0, 0.8)
    )
    np.testing.assert_allclose(fast, slow, atol=1e-8)


def test_the_comparison_tells_a_wrong_clipping_apart():
    X, y = stream("squared")
    _, fast = run(X, y, "squared", "worst", 1.0)
    wrong, _ = explicit_newton(X, y, LOSSES["squared"], 0.7, 0.9, eta_of("squared", "worst", 1.0, 0.9))
    assert np.abs(fast - wrong).max() > 1e-3


def entered(learner, n):
    include = np.zeros(n, dtype=bool)
    include[learner.heads[0].rows] = True
    return include


@pytest.mark.parametrize(("loss", "curvature", "step"), CASES[:5])
def test_sketched_kons_is_the_newton_step_without_the_directions_left_out(loss, curvature, step):
    X, y = stream(loss)
    learner, fast = run(X, y, loss, curvature, step, sketch=(0.5, 0.1))
    include = entered(learner, len(y))
    assert 5 < include.sum() < 100
    slow, _ = explicit_newton(X, y, LOSSES[loss], 0.7, 0.8, eta_of(loss, curvature, step, 0.8), include)
    np.testing.assert_allclose(fast, slow, atol=1e-10)
    whole, _ = explicit_newton(X, y, LOSSES[loss], 0.7, 0.8, eta_of(loss, curvature, step, 0.8))
    assert np.abs(fast - whole).max() > 1e-3


def test_sketched_kons_that_takes_in_all_is_kons():
    X, y = stream("squared")
    learner, sketched = run(X, y, "squared", "worst", 0.5, sketch=(1.0, 1.0))
    _, plain = run(X, y, "squared", "worst", 0.5)
    np.testing.assert_allclose(sketched, plain, atol=1e-12)
    slopes = [2 * (p - t) for p, t in zip(plain, y, strict=True)]
    assert entered(learner, len(y)).sum() == np.count_nonzero(slopes)


def test_the_sketch_is_kors_on_the_scaled_features():
    X, y = stream("squared", n=80)
    learner, _ = run(X, y, "squared", "worst", 0.5, sketch=(0.8, 0.05), kernel=RBF(1.5), seed=3)
    _, record = explicit_newton(
        exact_features(RBF(1.5), X),
        y,
        LOSSES["squared"],
        0.7,
        0.8,
        eta_of("squared", "worst", 0.5, 0.8),
        entered(learner, 80),
    )
    u = coins(3, 0, 80)
    bars = np.array([np.sqrt(r["eta"]) * r["g"] for r in record])
    kept, weights = [], []
    for t, bar in enumerate(bars):  # τ̃ from the weighted dictionary with the row itself added at weight 1
        if not bar.any():
            continue
        S = sum((w * np.outer(bars[i], bars[i]) for i, w in zip(kept, weights, strict=True)), np.outer(bar, bar))
        tau = bar @ np.linalg.solve(S + 0.7 * np.eye(80), bar)
        p = min(1.0, 0.8 * max(tau, 0.05))
        if u[t] < p:
            kept.append(t)
            weights.append(1 / p)
    assert kept == learner.heads[0].rows.tolist()


def sketched_listing(Phi, y, alpha, bound, eta, u, *, copies, eps, smallest, parted=True):
    """Algorithm 13 on explicit features: A += η(q/q̄)ggᵀ, q ~ B(max(τ̃, β), q̄), τ̃ of equation 3.4 on φ̄ = ġ√η·φ."""
    n = len(y)
    A, S, w, g, out = alpha * np.eye(n), alpha * np.eye(n), np.zeros(n), np.zeros(n), []
    for t, phi in enumerate(Phi):
        step = w - np.linalg.solve(A, g)
        h = np.sign(phi @ step) * max(abs(phi @ step) - bound, 0.0)
        w = step - (h / (phi @ np.linalg.solve(A, phi)) * np.linalg.solve(A, phi) if h else 0.0)
        out.append(phi @ w)
        slope = LOSSES["squared"].derivative(y[t], out[-1])
        g = slope * phi
        if not slope:
            continue
        bar = np.sqrt(eta(t, y[t], out[-1])) * g
        p = max((1 - eps) * bar @ np.linalg.solve(S + np.outer(bar, bar), bar), smallest)
        q = binomial_from_uniform(u[t], p, copies)
        A += (q / copies if parted else q > 0) * np.outer(bar, bar)
        S += q / (copies * p) * np.outer(bar, bar)
    return np.array(out)


def test_sketched_kons_with_copies_is_the_listing():
    X, y = stream("squared", n=60)
    kernel, eta, u = RBF(1.5), eta_of("squared", "worst", 0.5, 0.8), coins(3, 0, 60)
    sketch = Chances(5.0, 0.1, copies=5, shrink=0.7)
    learner, fast = run(X, y, "squared", "worst", 0.5, alpha=0.05, sketch=sketch, kernel=kernel, seed=3)
    assert 5 < len(learner.heads[0].rows) < 55
    form = {"copies": 5, "eps": 0.3, "smallest": 0.1}
    slow = sketched_listing(exact_features(kernel, X), y, 0.05, 0.8, eta, u, **form)
    np.testing.assert_allclose(fast, slow, atol=1e-7)
    whole = sketched_listing(exact_features(kernel, X), y, 0.05, 0.8, eta, u, **form, parted=False)
    assert np.abs(fast - whole).max() > 1e-3, "directions that enter wholly must be told apart"


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize("curvature", ["adaptive", "worst"])
def test_regret_is_below_its_bound_for_every_comparator(loss, curvature):
    bound, alpha = 2.0, 0.7
    X, y = stream(loss, n=200, bound=bound)
    learner, said = run(X, y, loss, curvature, 1.0, bound=bound)
    _, record = explicit_newton(X, y, LOSSES[loss], alpha, bound, eta_of(loss, curvature, 1.0, bound))
    gain = sum(r["g"] @ np.linalg.solve(r["A"], r["g"]) for r in record)
    assert learner.heads[0].gain == pytest.approx(gain, rel=1e-8)
    rng = np.random.default_rng(5)
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    excess = []
    for w in [np.zeros(4), *(best * scale for scale in (0.3, 1.0, 3.0)), *rng.standard_normal((20, 4))]:
        w = w * min(1.0, bound / max(np.abs(X @ w).max(), 1e-300))
        theirs = float(LOSSES[loss].value(y, X @ w).sum())
        right = 0.5 * (alpha * w @ w + gain)  # η = σ: the third sum is 0
        assert float(LOSSES[loss].value(y, said).sum()) - theirs <= right + 1e-9
        excess.append(float(LOSSES[loss].value(y, -said).sum()) - theirs - right)
    assert max(excess) > 0, "predictions of the wrong sign must break the bound"
