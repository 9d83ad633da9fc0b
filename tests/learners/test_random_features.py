"""Random features against the kernels they stand for, SGD against literal loops, and gradient descent."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import squeak
from squeak import RandomFeatureClassifier, RandomFeatureRegressor, RandomFeatures
from squeak.core import seeds
from squeak.core.fourier import FourierFeatures, cosine_of_turns
from squeak.kernels import RBF, Laplacian, Linear, Matern
from squeak.learners import KernelGradientDescent, QuadratureFeatures
from squeak.learners.sgd import Logistic, Squared

FULL_BATCH = {"batch_size": 10**6, "validation_fraction": 0.0}
ESTIMATORS = [
    RandomFeatures(RBF(1.0), n_features=20),
    QuadratureFeatures(RBF(1.0), n_features=1024),
    RandomFeatureRegressor(RBF(4.0), n_features=100, step=2.0, max_iter=80, **FULL_BATCH),
    RandomFeatureClassifier(RBF(1.0), n_features=50, step=1.0, **FULL_BATCH),
    RandomFeatureRegressor(RBF(4.0)),
    RandomFeatureClassifier(RBF(1.0), loss="logistic"),
    KernelGradientDescent(RBF(4.0), max_iter=500),
]
ORDER = "batches are of rows, so a row of weight 2 is not two rows; all rows in one batch are, and pass"


def expected_failures(estimator):
    if getattr(estimator, "batch_size", 1) is None:
        names = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
        return dict.fromkeys(names, ORDER)
    return {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learns_contract(estimator, check):
    check(estimator)


KERNELS = [
    RBF(2.0),
    RBF(np.array([0.5, 2.0, 4.0])),
    3.0 * RBF(2.0),
    Laplacian(3.0),
    Matern(2.0, nu=0.5),
    Matern(2.0, nu=1.5),
    Matern(2.0, nu=2.5),
]


def largest_gap(kernel, features, X):
    Z = features.transform(X)
    return np.abs(Z @ Z.T - kernel(X)).max() / kernel.diag(X)[0]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_inner_products_are_the_kernels_on_average(kernel, rng):
    """Hoeffding: a mean of 20,000 terms in ±2 is off by 0.085 with probability 2·exp(−18); 7·465 of them: 1e-4."""
    X = 2.0 * rng.standard_normal((30, 3))
    features = FourierFeatures.draw(kernel, 3, 20_000, seed=5)
    assert largest_gap(kernel, features, X) < 0.085
    assert features.bound == pytest.approx(2.0 * kernel.diag(X)[0])
    assert (features.transform(X) ** 2).sum(axis=1).max() <= features.bound


def test_the_printed_forms_are_caught_by_the_test_above(rng):
    """Variance σ² in place of 1/σ²; no √2; one Cauchy denominator for all columns, or one a column for Matérn."""
    X = 2.0 * rng.standard_normal((30, 3))
    right = FourierFeatures.draw(RBF(2.0), 3, 20_000, seed=5)
    width = FourierFeatures(RBF(2.0), right.frequencies * 4.0, right.offsets, right.height)
    height = FourierFeatures(RBF(2.0), right.frequencies, right.offsets, right.height / np.sqrt(2))
    unscaled = FourierFeatures(RBF(2.0), right.frequencies, right.offsets, 1.0)
    for wrong in (width, height, unscaled):
        assert largest_gap(RBF(2.0), wrong, X) > 0.2
    assert largest_gap(Laplacian(2.0), FourierFeatures.draw(Matern(2.0, nu=0.5), 3, 20_000, seed=5), X) > 0.085
    assert largest_gap(Matern(2.0, nu=0.5), FourierFeatures.draw(Laplacian(2.0), 3, 20_000, seed=5), X) > 0.085


def test_the_error_falls_like_one_over_the_root(rng):
    X = rng.standard_normal((40, 2))

    def error(m):
        gaps = []
        for seed in range(20):
            Z = FourierFeatures.draw(RBF(1.0), 2, m, seed).transform(X)
            gaps.append(np.mean((Z @ Z.T - RBF(1.0)(X)) ** 2))
        return np.sqrt(np.mean(gaps))

    assert error(100) / error(6400) == pytest.approx(8.0, rel=0.25)


def test_cosines_of_turns_are_exact(rng):
    u = np.concatenate([rng.uniform(-3, 3, 5000), [0.0, 0.25, -0.5, 1e6 + 0.125]])
    expected = np.cos(2 * np.pi * (u - np.rint(u)))
    cosine_of_turns(u)
    np.testing.assert_allclose(u, expected, atol=3e-15)


def test_the_transformer_keeps_what_it_drew(rng, tmp_path):
    pandas = pytest.importorskip("pandas")
    X = rng.standard_normal((100, 3))
    made = RandomFeatures(RBF(1.0), random_state=3).fit(X)
    assert made.transform(X).shape == (100, 47)  # ⌈√100·log 100⌉
    np.testing.assert_array_equal(made.transform(X), made.transform(X))
    np.testing.assert_allclose(made.transform(sp.csr_array(X)), made.transform(X), atol=1e-12)
    made.save(tmp_path / "f.sqk")
    np.testing.assert_array_equal(squeak.load(tmp_path / "f.sqk").transform(X), made.transform(X))
    frame = pandas.DataFrame(X, columns=list("abc"))
    table = (
        RandomFeatures(RBF(1.0), n_features=5, random_state=3).set_output(transform="pandas").fit_transform(frame)
    )
    assert list(table.columns) == [f"randomfeatures{j}" for j in range(5)]
    with pytest.raises(TypeError, match="random features are known for RBF"):
        RandomFeatures(Linear()).fit(X)
    with pytest.raises(ValueError, match="n_features"):
        RandomFeatures(RBF(1.0), n_features=0).fit(X)


@pytest.fixture
def task(rng):
    X = rng.standard_normal((400, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(400)


def literal_sgd(features, X, y, batch, step, decay, passes, tail):
    """The spec's loop, row after row, with no factor 2; returns the last iterate and the mean of the tail."""
    w, t, intercept = np.zeros(features.rank), 0, y.mean()
    steps = -(-len(X) // batch)
    for _ in range(passes):
        iterates = []
        for start in range(0, len(X), batch):
            t += 1
            gradient = np.zeros_like(w)
            for x, target in zip(X[start : start + batch], y[start : start + batch], strict=True):
                phi = features.height * np.cos(x @ features.frequencies + features.offsets)
                gradient += phi * (phi @ w + intercept - target)
            w = w - step / features.bound * t**-decay / batch * gradient
            iterates.append(w)
    return w, np.mean(iterates[steps - int(np.ceil(tail * steps)) :], axis=0) if tail else w


@pytest.mark.parametrize(
    ("batch", "decay", "tail"), [(1, 0.0, 0.0), (30, 0.0, 0.5), (64, 0.5, 1.0), (400, 0.0, 0.0)]
)
def test_it_is_the_literal_loop(task, batch, decay, tail):
    X, y = task
    model = RandomFeatureRegressor(
        RBF(1.5),
        n_features=60,
        batch_size=batch,
        step=0.5,
        decay=decay,
        max_iter=2,
        validation_fraction=0,
        tail=tail,
        shuffle=False,
    )
    model.set_params(random_state=0).fit(X, y)
    _, expected = literal_sgd(model.features_, X, y, batch, 0.5, decay, 2, tail)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-11)
    assert model.n_steps_ == 2 * -(-400 // batch)


@pytest.mark.parametrize("fraction", [0.0, 0.2])
def test_with_replacement_it_is_the_literal_loop_over_independent_draws(task, fraction):
    """Carratino's algorithm: every batch anew from all rows, a row maybe twice; rows held out are never drawn."""
    X, y = task
    model = RandomFeatureRegressor(
        RBF(1.5),
        n_features=40,
        batch_size=20,
        step=0.5,
        max_iter=1,
        validation_fraction=fraction,
        replacement=True,
        random_state=0,
    ).fit(X, y)
    seed = seeds.draw_seed(0)
    rows = np.flatnonzero(seeds.coins(seed, 0, 400) >= fraction)
    drawn = seeds.generator_at(seed, seeds.ORDER, 1, 0).choice(rows, len(rows))
    assert len(np.unique(drawn)) < 0.75 * len(rows)
    w = np.zeros(40)
    for start in range(0, len(drawn), 20):
        batch = drawn[start : start + 20]
        Z = model.features_.transform(X[batch])
        w = w - 0.5 / model.features_.bound / 20 * Z.T @ (Z @ w + y.mean() - y[batch])
    np.testing.assert_allclose(model.coef_, w, atol=1e-11)


def test_all_rows_in_a_batch_are_gradient_descent(task):
    """Regime c4 is Landweber's iteration on the kernel of the features."""
    X, y = task
    sgd = RandomFeatureRegressor(
        RBF(1.5), n_features=60, batch_size=400, step=1.0, max_iter=25, validation_fraction=0, random_state=0
    )
    Z = sgd.fit(X, y).features_.transform(X)
    scale = (Z**2).sum(axis=1).max() / sgd.features_.bound  # there, steps are in units of the largest k(x, x)
    descent = KernelGradientDescent(Linear(), step=scale, max_iter=25).fit(Z, y - y.mean())
    np.testing.assert_allclose(sgd.predict(X) - y.mean(), descent.predict(Z), atol=1e-10)


def test_regimes_agree_at_equal_step_times_steps(rng):
    """One row, √n rows or all rows a step: the same error within 5% at γT = √n; with twice the step not."""
    n, d, side = 2500, 5, 50
    X, Xt = rng.standard_normal((n, d)), rng.standard_normal((1000, d))

    def truth(X):
        return np.sin(X[:, 0]) + np.cos(X[:, 1] * X[:, 2])

    y = truth(X) + 0.1 * rng.standard_normal(n)
    y -= y.mean()

    def excess(batch, step, passes):
        model = RandomFeatureRegressor(
            RBF(2.0),
            n_features=391,
            batch_size=batch,
            step=step,
            max_iter=passes,
            validation_fraction=0,
            random_state=0,
        )
        return np.mean((model.fit(X, y).predict(Xt) - truth(Xt) + truth(X).mean()) ** 2)

    c2, c3, c4 = excess(1, 1 / side, 1), excess(side, 1.0, 1), excess(n, 1.0, side)
    assert max(c2, c3, c4) / min(c2, c3, c4) < 1.05
    assert c2 / excess(1, 2 / side, 1) > 1.05


def test_early_stopping_keeps_the_best_pass(task):
    X, y = task
    made = {"n_features": 400, "batch_size": 20, "random_state": 1, "validation_fraction": 0.25}
    long = RandomFeatureRegressor(RBF(0.3), max_iter=60, patience=3, **made).fit(X, y)
    errors = long.validation_errors_
    best = int(np.argmin(errors)) + 1
    assert len(errors) == long.n_passes_ < 60
    again = RandomFeatureRegressor(RBF(0.3), max_iter=best, patience=60, **made).fit(X, y)
    np.testing.assert_array_equal(again.coef_, long.coef_)
    endless = RandomFeatureRegressor(RBF(0.3), max_iter=40, patience=60, **made).fit(X, y)
    assert endless.validation_errors_[-1] > errors.min()


def test_the_automatic_step_is_longer_and_safe(task):
    X, y = task
    model = RandomFeatureRegressor(
        RBF(3.0), n_features=200, batch_size=400, max_iter=30, validation_fraction=0, random_state=0
    ).fit(X, y)
    Z = model.features_.transform(X)
    top = np.linalg.eigvalsh(Z.T @ Z / len(X))[-1]
    assert 1.0 < model.step_ / model.features_.bound * top / 0.9 < 2.0 / 0.9
    one = RandomFeatureRegressor(
        RBF(3.0), n_features=200, batch_size=400, step=1.0, max_iter=30, validation_fraction=0, random_state=0
    )
    assert model.score(X, y) > one.fit(X, y).score(X, y)
    assert RandomFeatureRegressor(RBF(3.0), n_features=200, batch_size=1, random_state=0).fit(
        X, y
    ).step_ == pytest.approx(1.0)
    with pytest.raises(ValueError, match="the steps diverge"):
        RandomFeatureRegressor(
            RBF(3.0), n_features=200, batch_size=400, step=1e3, max_iter=400, random_state=0
        ).fit(X, y)


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=["squared", "logistic"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_slopes_are_those_of_the_losses(loss, outputs, rng):
    F = rng.standard_normal((6, outputs))
    Y = np.eye(3)[rng.integers(0, 3, 6)][:, :outputs]
    for j in range(outputs):
        up, down = F.copy(), F.copy()
        up[:, j] += 1e-6
        down[:, j] -= 1e-6
        slope = (loss.value(up, Y) - loss.value(down, Y)) / 2e-6
        expected = loss.slope(F, Y)[:, j]
        if outputs == 3 and isinstance(loss, Logistic):
            assert np.all(Y.sum(axis=1) == 1)
        np.testing.assert_allclose(slope, expected, atol=1e-8)


def test_the_logistic_loss_does_not_overflow():
    for outputs in (1, 3):
        F = np.full((2, outputs), 5e3) * np.array([[1.0], [-1.0]])
        Y = np.eye(3)[[0, 1]][:, :outputs]
        assert np.isfinite(Logistic().value(F, Y)).all()
        assert np.isfinite(Logistic().slope(F, Y)).all()


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_classes_of_two_and_of_many(loss, rng):
    centres = np.array([[0, 0], [3, 0], [0, 3], [3, 3]])
    place = rng.integers(0, 4, 1200)
    X = centres[place] + 0.5 * rng.standard_normal((1200, 2))
    many = np.array(["north", "south", "east", "west"])[place]
    model = make_pipeline(StandardScaler(), RandomFeatureClassifier(RBF(1.0), loss=loss, random_state=0)).fit(
        X, many
    )
    assert model.score(X, many) > 0.97
    assert model.decision_function(X).shape == (1200, 4)
    two = RandomFeatureClassifier(RBF(1.5), loss=loss, random_state=0).fit(X, place % 2 == 1)
    assert two.score(X, place % 2 == 1) > 0.97
    assert two.classes_.dtype == bool
    assert hasattr(two, "predict_proba") == (loss == "logistic")
    if loss == "logistic":
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        np.testing.assert_allclose(two.predict_proba(X)[:, 1], expit(two.decision_function(X)), rtol=1e-9)


def test_probabilities_are_calibrated_where_the_truth_is_known(rng):
    X = rng.uniform(-3, 3, (6000, 1))
    p = expit(2 * np.sin(2 * X[:, 0]))
    y = rng.random(6000) < p
    model = RandomFeatureClassifier(RBF(0.7), loss="logistic", n_features=200, max_iter=40, random_state=0).fit(
        X, y
    )
    assert np.abs(model.predict_proba(X)[:, 1] - p).mean() < 0.05


def test_streams_go_on_and_files_keep_them(task, tmp_path):
    X, y = task
    two = np.column_stack([y, -3 * y])
    model = RandomFeatureRegressor(RBF(1.5), n_features=60, batch_size=20, random_state=0).partial_fit(
        X[:200], two[:200]
    )
    expected = literal_sgd(model.features_, X[:200], y[:200], 20, model.step_, 0.0, 1, 0.0)[0]
    np.testing.assert_allclose(model.coef_[:, 0], expected, atol=1e-10)
    model.save(tmp_path / "r.sqk")
    again = squeak.load(tmp_path / "r.sqk")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        again.partial_fit(X[200:], two[200:]).predict(X), model.partial_fit(X[200:], two[200:]).predict(X)
    )
    with pytest.raises(ValueError, match="1 outputs; it had 2"):
        model.partial_fit(X, y)
    sorter = RandomFeatureClassifier(RBF(1.5), loss="logistic", n_features=60, random_state=0)
    with pytest.raises(ValueError, match="must name all classes"):
        sorter.partial_fit(X, y > 0)
    names = np.where(y > 0, "up", "down")
    sorter.partial_fit(X[:200], names[:200], classes=["down", "up"]).partial_fit(X[200:], names[200:])
    with pytest.raises(ValueError, match="not named"):
        sorter.partial_fit(X[:5], ["sideways"] * 5)
    sorter.save(tmp_path / "c.sqk")
    np.testing.assert_array_equal(squeak.load(tmp_path / "c.sqk").predict(X), sorter.predict(X))
    np.testing.assert_array_equal(squeak.load(tmp_path / "c.sqk").predict_proba(X), sorter.predict_proba(X))


def test_classes_keep_their_type_and_hostile_ones_are_refused(task, tmp_path):
    from squeak.core.state import labels

    X, y = task
    for names in (y > 0, np.where(y > 0, 3, 1).astype(np.int32), np.where(y > 0, "b", "a").astype(object)):
        model = RandomFeatureClassifier(RBF(1.5), n_features=20, max_iter=1, random_state=0).fit(X, names)
        model.save(tmp_path / "c.sqk")
        again = squeak.load(tmp_path / "c.sqk")
        assert again.classes_.dtype == model.classes_.dtype == names.dtype
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    for kind in ("<V900000000", "<M8[s]", "", "<f16"):
        with pytest.raises(ValueError, match="cannot be of the type"):
            labels([1, 2], kind)


BAD = [
    ({"step": 0.0}, "step must be"),
    ({"step": "long"}, "step must be"),
    ({"decay": -1.0}, "decay must lie"),
    ({"tail": 2.0}, "tail must lie"),
    ({"validation_fraction": 1.0}, "validation_fraction must lie"),
    ({"batch_size": 0}, "batch_size must be"),
    ({"max_iter": 1.5}, "max_iter must be"),
]


@pytest.mark.parametrize(("params", "message"), BAD, ids=str)
def test_bad_parameters_get_one_clear_error(task, params, message):
    X, y = task
    for model in (RandomFeatureRegressor(RBF(1.0)), RandomFeatureClassifier(RBF(1.0))):
        with pytest.raises((TypeError, ValueError), match=message):
            model.set_params(**params).fit(X, y > 0)
    with pytest.raises(ValueError, match="only one class"):
        RandomFeatureClassifier(RBF(1.0)).fit(X, np.ones(400))


def test_gradient_descent_is_its_spectral_filter(task, rng):
    """c_t = Σ_{i<t} η(I − ηK)^i y, and each eigenvalue comes 1 − (1 − ηλ)^t of its way."""
    X, y = task
    model = KernelGradientDescent(RBF(1.5), step=0.7, max_iter=40).fit(X, y)
    K, eta = RBF(1.5)(X), 0.7 / 400
    c, term = np.zeros(400), eta * y
    for _ in range(40):
        c, term = c + term, term - eta * K @ term
    np.testing.assert_allclose(model.dual_coef_, c, atol=1e-12)
    values, U = np.linalg.eigh(K)
    np.testing.assert_allclose(model.predict(X), U @ ((1 - (1 - eta * values) ** 40) * (U.T @ y)), atol=1e-9)
    with_one_k_too_many = np.zeros(400)  # the printed form, at the same step
    for _ in range(40):
        with_one_k_too_many -= eta * K @ (K @ with_one_k_too_many - y)
    assert not np.abs(with_one_k_too_many).max() < 1e6


def test_gradient_descent_stops_where_rows_held_out_say(task):
    X, y = task
    y = y + 0.8 * np.random.default_rng(1).standard_normal(400)
    model = KernelGradientDescent(RBF(0.3), max_iter=3000, validation_fraction=0.3, random_state=0).fit(X, y)
    assert model.n_iter_ == np.argmin(model.validation_errors_) + 1 < 3000
    assert model.validation_errors_[-1] > model.validation_errors_.min()
    assert len(model.dictionary_) + 120 == pytest.approx(400, abs=40)
    short = KernelGradientDescent(RBF(0.3), max_iter=model.n_iter_, validation_fraction=0.3, random_state=0).fit(
        X, y
    )
    np.testing.assert_array_equal(short.dual_coef_, model.dual_coef_)
    assert KernelGradientDescent(RBF(1.0)).fit(X, y).n_iter_ == 20
    with pytest.raises(ValueError, match=r"step must lie in \(0, 1\]"):
        KernelGradientDescent(RBF(1.0), step=1.5).fit(X, y)


@pytest.mark.parametrize(("columns", "nodes"), [(1, 8), (1, 9), (2, 8), (3, 5)])
def test_quadrature_features_are_the_gauss_hermite_rule(columns, nodes):
    """Inner products are Σ p·cos(ω·(x − y)) over the whole grid, with a factor and a width for each column."""
    rng = np.random.default_rng(0)
    X, widths = rng.uniform(0, 1, (12, columns)), rng.uniform(0.5, 1.5, columns)
    model = QuadratureFeatures(2.5 * RBF(widths), n_features=nodes**columns).fit(X)
    h, w = np.polynomial.hermite.hermgauss(nodes)
    expected = np.zeros((12, 12))
    for place in np.ndindex(*(nodes,) * columns):
        phases = X @ (np.sqrt(2) * h[list(place)] / widths)
        expected += 2.5 * np.prod(w[list(place)] / np.sqrt(np.pi)) * np.cos(phases[:, None] - phases)
    Z = model.transform(X)
    assert Z.shape == (12, nodes**columns)
    assert model.n_nodes_ == nodes
    np.testing.assert_allclose(Z @ Z.T, expected, atol=1e-12)


def test_the_error_of_quadrature_falls_faster_than_that_of_draws():
    X = np.random.default_rng(0).uniform(0, 1, (60, 2))
    K = RBF(0.4)(X)
    errors = []
    for nodes in (4, 8, 16):
        Z = QuadratureFeatures(RBF(0.4), n_features=nodes**2 + nodes).fit_transform(X)  # not enough for one more
        errors.append(np.abs(Z @ Z.T - K).max())
    drawn = RandomFeatures(RBF(0.4), n_features=256, random_state=0).fit_transform(X)
    assert errors[1] < 1e-2 * errors[0]
    assert errors[2] < 1e-8 < np.abs(drawn @ drawn.T - K).max() / 1e5


def test_quadrature_refuses_what_it_has_no_nodes_for():
    X = np.random.default_rng(0).uniform(0, 1, (60, 9))
    with pytest.raises(ValueError, match="9 columns with two nodes each are more than 500 features"):
        QuadratureFeatures(RBF(1.0), n_features=500).fit(X)
    with pytest.raises(TypeError, match="quadrature features are known for RBF"):
        QuadratureFeatures(Laplacian(1.0), n_features=100).fit(X[:, :1])


@pytest.mark.parametrize("kernel", [RBF(0.7), 3.0 * Laplacian(1.5)])
def test_pairs_of_cosine_and_sine_have_the_length_of_the_kernel_exactly(kernel):
    X = np.random.default_rng(0).standard_normal((20, 2))
    made = FourierFeatures.pairs(kernel, 2, 15, np.random.default_rng(1))
    Z, size = made.transform(X), kernel(X[:1])[0, 0]
    assert Z.shape == (20, 30)
    np.testing.assert_allclose((Z**2).sum(axis=1), size, rtol=1e-12)
    phases = X @ made.frequencies[:, :15]
    np.testing.assert_allclose(Z @ Z.T, size * np.cos(phases[:, None] - phases).mean(axis=2), atol=1e-12)
    assert made.bound == pytest.approx(2 * size)
