"""KernelClassifier: squared loss is ridge regression on ±1, logistic loss is what a general optimiser finds."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

import squeak
from squeak import KernelClassifier, KernelRidge
from squeak.core.nystrom import TriangularFeatures
from squeak.kernels import RBF
from squeak.learners.data import ArrayTraining
from squeak.learners.logistic import GradientTerm, HessianTerm, losses, probabilities
from squeak.samplers import RPCholesky


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 2))
    two = rng.random(800) < expit(3 * np.sin(2 * X[:, 0]))
    three = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(800), [-0.5, 0.5])
    return X, two, np.array(["low", "middle", "up"])[three]


def test_squared_loss_is_ridge_regression_on_signs(data):
    X, y, _ = data
    model = KernelClassifier(RBF(1.0), alpha=0.5, max_atoms=50, random_state=0).fit(X, y)
    sign = np.where(y, 1.0, -1.0)
    ridge = KernelRidge(alpha=0.5, dictionary=model.dictionary_).fit(X, sign - sign.mean())
    assert np.allclose(model.decision_function(X), ridge.predict(X) + sign.mean())
    assert np.array_equal(model.predict(X), model.decision_function(X) > 0)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_logistic_loss_finds_the_minimum_of_a_general_optimiser(data):
    X, y, _ = data
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    model = KernelClassifier(RBF(1.0), alpha=0.5, loss="logistic", max_atoms=40, tol=1e-10, random_state=0).fit(
        X, y, w
    )
    Z = TriangularFeatures(model.kernel_, model.dictionary_.atoms).transform(X)
    offset = float(model.intercept_[0])
    assert offset == pytest.approx(np.log(w @ y / (w @ ~y)))

    def objective(b):
        f = Z @ b + offset
        return w @ (np.logaddexp(0, f) - y * f) + 0.25 * b @ b, Z.T @ (w * (expit(f) - y)) + 0.5 * b

    best = minimize(
        objective, np.zeros(Z.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-9}
    )
    assert np.abs(model.decision_function(X) - Z @ best.x - offset).max() < 1e-4
    p = model.predict_proba(X)
    assert np.allclose(p.sum(axis=1), 1.0)
    assert np.allclose(p[:, 1], expit(model.decision_function(X)))


def test_several_classes_find_the_minimum_of_the_softmax_loss(data):
    X, _, y = data
    model = KernelClassifier(RBF(1.0), alpha=0.5, loss="logistic", max_atoms=30, tol=1e-9, random_state=0).fit(X, y)
    Z = TriangularFeatures(model.kernel_, model.dictionary_.atoms).transform(X)
    Y = (y[:, None] == model.classes_).astype(float)
    assert np.allclose(model.intercept_, np.log(Y.mean(axis=0)))

    def objective(b):
        B = b.reshape(Z.shape[1], 3)
        F = Z @ B + model.intercept_
        P = probabilities(F)
        return -np.sum(Y * log_softmax(F, axis=1)) + 0.25 * np.sum(B**2), (Z.T @ (P - Y) + 0.5 * B).ravel()

    start = np.zeros(3 * Z.shape[1])
    best = minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-9, "maxiter": 9999}
    )
    expected = probabilities(Z @ best.x.reshape(-1, 3) + model.intercept_)
    assert np.abs(model.predict_proba(X) - expected).max() < 1e-4
    assert np.array_equal(model.predict(X), model.classes_[expected.argmax(axis=1)])


@pytest.mark.parametrize("outputs", [1, 3])
def test_gradient_and_hessian_are_those_of_the_loss(outputs, data):
    X, two, three = data
    X = X[:60]
    features = TriangularFeatures(RBF(1.0), X[:12])
    Z = features.transform(X)
    Y = two[:60, None].astype(float) if outputs == 1 else (three[:60, None] == np.unique(three)).astype(float)
    rng = np.random.default_rng(0)
    B, V, offset = (
        rng.standard_normal((features.rank, outputs)),
        rng.standard_normal((features.rank, outputs)),
        np.ones(outputs),
    )
    rows = ArrayTraining(X, Y, None)

    def value(B):
        return losses(Z @ B + offset, Y).sum()

    gradient, total = rows.sum(GradientTerm(features, B, offset))
    (product,) = rows.sum(HessianTerm(features, B, offset, V))
    h = 1e-5
    slope = (value(B + h * V) - value(B - h * V)) / (2 * h)
    bend = (value(B + h * V) - 2 * value(B) + value(B - h * V)) / h**2
    assert float(total[0]) == pytest.approx(value(B), rel=1e-9)
    assert float(np.sum(gradient * V)) == pytest.approx(slope, rel=1e-6)
    assert float(np.sum(product * V)) == pytest.approx(bend, rel=1e-3)


def test_huge_outputs_do_not_overflow():
    """Spec 9.15: |f| > 1e3."""
    F = np.array([[1e4], [-1e4], [0.0]])
    assert losses(F, np.array([[1.0], [1.0], [0.0]])) == pytest.approx([0.0, 1e4, np.log(2)])
    assert probabilities(F).ravel().tolist() == [1.0, 0.0, 0.5]
    wide = np.array([[1e4, -1e4, 0.0]])
    assert losses(wide, np.array([[0.0, 1.0, 0.0]])) == pytest.approx([2e4])
    X = np.linspace(-1, 1, 200)[:, None]
    model = KernelClassifier(RBF(0.05), alpha=1e-9, loss="logistic", max_atoms=60, random_state=0)
    with np.errstate(over="raise", invalid="raise"):
        p = model.fit(X, X[:, 0] > 0).predict_proba(X)
    assert np.isfinite(p).all()
    assert model.score(X, X[:, 0] > 0) == 1.0


def test_centres_without_weights_serve_too(data):
    X, y, _ = data
    model = KernelClassifier(RBF(1.0), alpha=0.5, loss="logistic", sampler=RPCholesky(max_atoms=40), random_state=0)
    assert model.fit(X, y).score(X, y) > 0.8


def test_class_weights_are_sample_weights(data):
    X, y, _ = data
    weighted = KernelClassifier(RBF(1.0), dictionary=X[:40], class_weight={True: 3.0, False: 1.0}).fit(X, y)
    sample = KernelClassifier(RBF(1.0), dictionary=X[:40]).fit(X, y, np.where(y, 3.0, 1.0))
    assert np.allclose(weighted.decision_function(X), sample.decision_function(X))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("labels", ["text", "numbers", "truth"])
def test_models_go_through_files(loss, labels, data, tmp_path):
    X, two, three = data
    y = {"text": three, "numbers": np.where(two, 7, -2), "truth": two}[labels]
    model = KernelClassifier(RBF(1.0), alpha=0.5, loss=loss, max_atoms=30, random_state=0).fit(X, y)
    model.save(tmp_path / "model.sqk")
    again = squeak.load(tmp_path / "model.sqk")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.predict(X).dtype == model.predict(X).dtype
    if loss == "logistic":
        assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "hinge"}, "loss must be"),
    ],
)
def test_bad_parameters_get_one_clear_error(changes, message, data):
    with pytest.raises(ValueError, match=message):
        KernelClassifier(**changes).fit(data[0], data[1])
    with pytest.raises(ValueError, match="only one class"):
        KernelClassifier().fit(data[0], np.ones(len(data[0])))


def test_numbers_by_the_thousand_are_no_classes(rng):
    X = rng.random((4000, 2))
    y = np.arange(4000) % 1500
    for given in ((X, y), (squeak.rows(X, y),)):
        with pytest.raises(ValueError, match=r"1,500 or more different numbers.*KernelRidge predict numbers"):
            KernelClassifier(random_state=0).fit(*given)


def test_columns_of_text_are_named_with_their_cure(rng):
    table = pd.DataFrame({"a": rng.random(40), "kind": ["x", "y"] * 20})
    with pytest.raises(ValueError, match=r"could not convert string.*squeak\.rows\(X, y\) makes numbers"):
        KernelClassifier(random_state=0).fit(table, np.arange(40) % 2)


def test_class_weights_may_be_zero_but_not_negative(waves):
    X, y = waves
    c = (y > 0).astype(int) + (X[:, 1] > 0)
    model = KernelClassifier(RBF(1.0), class_weight={0: 0, 1: 1, 2: 1}).fit(X[:50], c[:50])
    assert 0 not in model.predict(X[:50])
    for weights in ({0: -1, 1: 1}, {0: 0, 1: 0}):
        with pytest.raises(ValueError, match="class_weight must not be negative"):
            KernelClassifier(RBF(1.0), class_weight=weights, max_atoms=20).fit(X, (y > 0) * 1)


def test_probabilities_belong_to_the_fit(waves):
    X, y = waves
    model = KernelClassifier(RBF(1.0), max_atoms=20).fit(X, y > 0)
    before = model.predict_proba(X)
    assert np.array_equal(model.set_params(loss="logistic").predict_proba(X), before)
    assert not np.allclose(model.fit(X, y > 0).predict_proba(X), before)
