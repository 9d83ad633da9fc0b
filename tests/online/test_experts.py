"""The linear experts: against fading ridge regressions in closed form, in blocks and singly, and in the mixture."""

import numpy as np
import pytest

import squeak
from squeak.kernels import RBF
from squeak.online import MixedKonsClassifier, MixedKonsRegressor
from squeak.online.experts import LARGEST_VALUE, LinearLearner
from squeak.online.learner import NewtonPlan
from squeak.online.losses import LOSSES
from squeak.online.newton import StepRule
from tests.online.oracles import explicit_newton


def linear(loss="squared", half_lives=(None,), alpha=0.1, bound=100.0, n_outputs=1, width=3):
    """Return a linear learner that has seen nothing."""
    plan = NewtonPlan(alpha, False, False, StepRule(LOSSES[loss], bound, "adaptive", 1.0), half_lives)
    return LinearLearner(plan, width, n_outputs)


def rows(n=200, width=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, width))
    return X, X @ np.arange(1.0, width + 1) + 0.5 + 0.3 * rng.standard_normal(n)


def closed_form(X, y, weight, ridge):
    """Return what ridge regression of all rows before says of each row, row i of t counting weight^(t − 1 − i)."""
    Phi, said = np.column_stack([X, np.ones(len(X))]), np.zeros(len(y))
    for t in range(1, len(y)):
        W = weight ** np.arange(t - 1, -1, -1.0)
        A = (Phi[:t] * W[:, None]).T @ Phi[:t] + ridge * np.eye(Phi.shape[1])
        said[t] = Phi[t] @ np.linalg.solve(A, Phi[:t].T @ (W * y[:t]))
    return said


def test_without_a_half_life_it_is_ridge_regression():
    X, y = rows()
    said = linear(alpha=0.8).learn(X, y[:, None])[:, 0]
    np.testing.assert_allclose(said, closed_form(X, y, 1.0, 0.4), atol=1e-9)


@pytest.mark.parametrize("half_life", [7.5, 30.0])
def test_with_a_half_life_it_is_ridge_regression_of_rows_that_fade(half_life):
    """Over many half-lives. Within one of them the ridge fades with the rows, so it is too small to be seen."""
    X, y = rows()
    X[100:, 0] *= -1.0  # the target turns
    said = linear(alpha=1e-7, half_lives=(half_life,)).learn(X, y[:, None])[:, 0]
    fading = closed_form(X, y, 2.0 ** (-1.0 / half_life), 0.5e-7)
    np.testing.assert_allclose(said[10:], fading[10:], atol=1e-5)
    steady = closed_form(X, y, 1.0, 0.5e-7)
    assert np.abs(said - steady)[120:].max() > 1.0  # rows that do not fade are noticed


def test_logistic_scores_are_told_as_means_of_labels():
    X, y = rows()
    labels = np.where(y > 0.5, 1.0, -1.0)
    learner, rule = linear("logistic", bound=10.0), StepRule(LOSSES["logistic"], 10.0, "adaptive", 1.0)
    Phi = np.column_stack([X, np.ones(len(X))])
    scores, _ = explicit_newton(
        Phi, labels, LOSSES["logistic"], 0.1, 10.0, lambda t, target, z: rule.eta(target, z)
    )
    said = learner.learn(X, labels[:, None])[:, 0]
    np.testing.assert_allclose(said, np.tanh(np.asarray(scores) / 2.0), atol=1e-6)
    assert np.mean((said - labels)[50:] ** 2) < 0.2
    assert np.abs(learner.scores(X)).max() <= 1.0


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_slopes_are_those_of_differences(loss):
    X, y = rows()
    learner = linear(loss, half_lives=(None, 20.0))
    learner.learn(X, np.where(y > 0.5, 1.0, -1.0)[:, None])
    shares, step = np.array([0.3, 0.7]), 1e-6
    found = [
        (((learner.scores(X + e) - learner.scores(X - e)) / (2 * step)) ** 2).mean(axis=0) @ shares
        for e in step * np.eye(3)
    ]
    np.testing.assert_allclose(learner.gradient_squares(X, shares), found, rtol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_rows_singly_and_in_blocks_are_alike(loss):
    X, y = rows()
    targets = np.column_stack([np.sign(y), -np.sign(y)])
    blocks, singly = (linear(loss, (None, 30.0), bound=10.0, n_outputs=2) for _ in range(2))
    said = np.concatenate([blocks.learn(X[part], targets[part]) for part in (slice(0, 77), slice(77, 200))])
    quick = [singly.learn_row(x[None], target.tolist()) for x, target in zip(X, targets, strict=True)]
    np.testing.assert_allclose(quick, said, atol=1e-9)
    np.testing.assert_allclose([blocks.score_row(x[None]) for x in X], blocks.scores(X), atol=1e-12)
    assert blocks.n_seen == singly.n_seen == 200


def test_huge_values_do_no_harm():
    X, y = rows()
    wild, tame = X.copy(), X.copy()
    wild[50, 1], tame[50, 1] = 1e300, LARGEST_VALUE
    said = [linear(half_lives=(3000.0,)).learn(rows, y[:, None]) for rows in (wild, tame)]
    np.testing.assert_array_equal(*said)
    assert np.isfinite(said[0]).all()


def test_a_class_that_joins_is_not_predicted_for_the_rows_before_it():
    X, y = rows()
    learner = linear("squared_hinge", bound=10.0, n_outputs=3)
    learner.learn(X, np.where(np.arange(3) == np.digitize(y, [-1.0, 2.0])[:, None], 1.0, -1.0))
    more = learner.with_outputs([(0, 1.0), None, (1, -1.0), (2, 1.0)])
    before, after = learner.scores(X), more.scores(X)
    np.testing.assert_array_equal(after[:, [0, 2, 3]], before * [1.0, -1.0, 1.0])
    assert after[:, 1].max() < -0.9
    assert more.n_seen == learner.n_seen


def test_linear_concepts_are_not_lost_to_a_linear_learner():
    """Labels of a half-space in twenty columns that turns slowly, 5% of them wrong; the kernel has few atoms."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 20))
    turn = np.linspace(0, 1, len(X))
    signs = np.sign((1 - turn) * X[:, 0] + turn * X[:, 1] + X[:, 2:].sum(axis=1))
    signs[rng.random(len(X)) < 0.05] *= -1.0
    with_linear, without = (
        np.mean(MixedKonsClassifier(linear=one, max_atoms=15, random_state=0).test_then_train(X, signs) != signs)
        for one in (True, False)
    )
    alone = linear("logistic", (3000.0,), bound=10.0, width=20).learn(X, signs[:, None])[:, 0]
    assert with_linear < 0.75 * without
    assert with_linear < 1.3 * np.mean(np.sign(alone) != signs)


def test_the_bound_of_a_mixture_holds_for_its_linear_experts():
    X, y = rows(500)
    y = np.clip(y / 8.0, -1, 1)
    options = {"scale": None, "bound": 1.0, "max_atoms": 10, "random_state": 0}
    model = MixedKonsRegressor(RBF(0.5), widths=(1.0,), half_lives=(None,), **options)
    lost = np.sum((model.test_then_train(X, y) - y) ** 2)
    alone = linear(half_lives=(3000.0, 30.0), bound=1.0).learn(X, y[:, None])
    least = np.sum((alone - y[:, None]) ** 2, axis=0).min()
    kernel_only = MixedKonsRegressor(RBF(0.5), widths=(1.0,), half_lives=(None,), linear=False, **options)
    assert lost <= least + model.switching_bound()
    assert lost < 0.5 * np.sum((kernel_only.test_then_train(X, y) - y) ** 2)
    assert len(model.expert_weights_) == 3


def test_linear_experts_are_where_rows_are_dense_and_not_too_wide():
    sparse = pytest.importorskip("scipy.sparse")
    X, y = rows(40, 201)
    for given, count in ((X[:, :200], 3), (X, 1), (sparse.csr_matrix(X[:, :3]), 1)):
        model = MixedKonsRegressor(RBF(5.0), widths=(1.0,), half_lives=(None,), max_atoms=5, random_state=0)
        assert len(model.fit(given, y).expert_weights_) == count


def test_a_mixture_of_three_classes_one_of_them_late_goes_on_from_a_file_and_row_by_row(tmp_path):
    X, y = rows(260)
    y = np.array(["low", "middle", "high"])[np.digitize(y, [-1.0, 2.0])]
    y[:40][y[:40] == "high"] = "low"
    first = slice(0, 40)
    whole, singly = (
        MixedKonsClassifier(max_atoms=10, random_state=0).partial_fit(X[first], y[first]) for _ in "ab"
    )
    said = whole.test_then_train(X[40:], y[40:])
    quick = [singly.test_then_train_one(x, label) for x, label in zip(X[40:], y[40:], strict=True)]
    np.testing.assert_array_equal(quick, said)
    np.testing.assert_allclose(singly.decision_function(X), whole.decision_function(X), atol=1e-6)
    assert whole.classes_.tolist() == ["high", "low", "middle"]
    cut = MixedKonsClassifier(max_atoms=10, random_state=0).partial_fit(X[:130], y[:130])
    cut.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    np.testing.assert_array_equal(again.test_then_train(X[130:], y[130:]), cut.test_then_train(X[130:], y[130:]))
    np.testing.assert_array_equal(again.decision_function(X), cut.decision_function(X))
