"""FALKON on float32 kernel values: the dense float64 solution to what is promised, or a fallback that says so."""

import numpy as np
import pytest

import squeak
from squeak import KernelClassifier, KernelRidge
from squeak.core.kernels import against32
from squeak.core.nystrom import TriangularFeatures
from squeak.kernels import RBF, Laplacian, Linear, Metric, PairwiseKernel, Polynomial
from squeak.learners.cached import KernelValues
from squeak.learners.choice import Costs, faster_solver
from squeak.learners.data import ArrayTraining
from squeak.learners.falkon import ProductTerm
from squeak.learners.rounding import ACCEPTED, LOST, outlook
from squeak.learners.sampled import GAIN, SampledTerm
from squeak.samplers import BlessR

N, M = 3_000, 120
PROMISED = LOST + 2 * ACCEPTED + 4 * GAIN
"""Of the objective: features that were dropped, rounded values and what is left to gain."""


def rows_and_targets():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    return X, np.sin(2 * X[:, 0]) + np.tanh(X[:, 1]) + 0.2 * rng.standard_normal(N)


@pytest.fixture(scope="module")
def data():
    return rows_and_targets()


def objective(kernel, atoms, X, Y, w, alpha, coef):
    """Return Σ w (y − Kc)² + alpha·cᵀK_MM c for every output, in float64 and in full."""
    values, K = kernel(X, atoms), kernel(atoms)
    return w @ np.square(Y - values @ coef) + alpha * np.einsum("ij,ij->j", coef, K @ coef)


def gap(model, X, Y, w=None, kernel=None):
    """Return by how much the objective is above its least value, as a part of that: from stable dense features."""
    atoms, kernel = model.dictionary_.atoms, model.dictionary_.kernel if kernel is None else kernel
    w = np.ones(len(X)) if w is None else w
    Y, coef = Y.reshape(len(X), -1), model.dual_coef_.reshape(len(atoms), -1)
    Z = TriangularFeatures(kernel, atoms).transform(X) * np.sqrt(w)[:, None]
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    inside = U.T @ (np.sqrt(w)[:, None] * Y)
    least = w @ np.square(Y) - (s**2 / (s**2 + model.alpha_)) @ inside**2
    return np.max(objective(kernel, atoms, X, Y, w, model.alpha_, coef) / least - 1)


def kept(**options):
    return KernelRidge(solver="kept", random_state=0, **options)


@pytest.mark.parametrize("power", range(-8, 1))
@pytest.mark.parametrize("width", [0.3, 1.0, 4.0, 30.0])
def test_every_alpha_and_width_is_solved_to_what_is_promised(data, power, width):
    """alpha from 1e-8·n to n, widths from lonely atoms to a K_MM of rank 20."""
    X, y = data
    model = kept(kernel=RBF(width), alpha=10.0**power * N, dictionary=X[:M]).fit(X, y)
    assert gap(model, X, y) <= PROMISED
    if model.solver_ != "kept":
        assert "so float64 was used" in model.solver_reason_


def test_tiny_alphas_fall_back_and_large_ones_do_not(data):
    X, y = data
    large = kept(kernel=RBF(4.0), alpha=1.0, dictionary=X[:M]).fit(X, y)
    small = kept(kernel=RBF(4.0), alpha=1e-7, dictionary=X[:M]).fit(X, y)
    assert (large.solver_, small.solver_) == ("kept", "direct")
    assert "too small for float32" in small.solver_reason_
    assert large.rank_ < small.rank_  # the last pivots are noise in float32


HOSTILE = {
    "offset": lambda X: (X + 1e6, 1.0),
    "scale": lambda X: (X * 1e-6, 1e-6),
    "outliers": lambda X: (np.vstack([X[:-5], 40.0 + X[:5]]), 1.0),
    "far atoms": lambda X: (np.vstack([X[:5] + 30.0, X[5:]]), 1.0),
    "repeated": lambda X: (np.vstack([X[:40], X[:40], X[:40], X[120:]]), 1.0),
    "float32": lambda X: (X.astype(np.float32), 1.0),
    "columns": lambda X: (np.asfortranarray(X), 1.0),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_rows_are_solved_in_float32(data, name):
    X, width = HOSTILE[name](data[0])
    y = np.sin(2 * (X[:, 0] - X[:, 0].mean()) / width)
    y = y + 0.2 * np.random.default_rng(1).standard_normal(N)
    model = kept(kernel=RBF(width), alpha=1.0, dictionary=X[:M]).fit(X, y)
    assert model.solver_ == "kept"
    assert gap(model, X, y) <= PROMISED


@pytest.mark.parametrize("power", [-8, -5, -2, 0])
@pytest.mark.parametrize("name", ["offset", "repeated", "weights"])
def test_hostile_rows_at_every_alpha(data, name, power):
    """alpha from 1e-8·n to n: what is promised, or float64 and a word of it."""
    X = data[0] if name == "weights" else HOSTILE[name](data[0])[0]
    y = np.sin(2 * (X[:, 0] - X[:, 0].mean())) + 0.2 * np.random.default_rng(1).standard_normal(N)
    w = 10.0 ** np.random.default_rng(2).uniform(-3, 3, N) if name == "weights" else None
    model = kept(kernel=RBF(1.0), alpha=10.0**power * N, dictionary=X[:M]).fit(X, y, w)
    assert gap(model, X, y, w) <= PROMISED
    assert model.solver_ == "kept" or "so float64 was used" in model.solver_reason_


METRIC = Metric(RBF(1.0), np.diag([2.0, 1.0, 0.1]))


@pytest.mark.parametrize("kernel", [Laplacian(2.0), METRIC, 3.0 * RBF(1.0), Linear()])
def test_other_kernels_are_kept_too(data, kernel):
    X, y = data
    model = kept(kernel=kernel, alpha=1.0, dictionary=X[:M]).fit(X, y)
    assert model.solver_ == "kept"
    assert gap(model, X, y) <= PROMISED


def test_values_beyond_float32_fall_back(data):
    X, y = data
    model = kept(kernel=Polynomial(degree=9), alpha=1.0, dictionary=1e3 * X[:M]).fit(1e3 * X, y)
    assert model.solver_ == "direct"
    assert "too large" in model.solver_reason_


@pytest.mark.parametrize("preconditioner", ["auto", "voronoi", "krill"])
def test_weights_over_six_orders_and_outputs_of_three_scales(data, preconditioner):
    X, y = data
    Y = np.column_stack([y, 1e6 * X[:, 0] + 1e5 * y, 1e-6 * np.cos(X[:, 1]) + 1e-7 * y])
    w = 10.0 ** np.random.default_rng(2).uniform(-3, 3, N)
    model = kept(kernel=RBF(1.0), alpha=10.0, dictionary=X[:M], preconditioner=preconditioner).fit(X, Y, w)
    assert gap(model, X, Y, w) <= PROMISED
    assert model.solver_ == "kept" or "passes left" in model.solver_reason_
    huge = kept(kernel=RBF(1.0), alpha=10.0, dictionary=X[:M]).fit(X, 2.0**600 * y)
    small = kept(kernel=RBF(1.0), alpha=10.0, dictionary=X[:M]).fit(X, y)
    assert np.array_equal(huge.predict(X[:50]), 2.0**600 * small.predict(X[:50]))


def test_targets_that_are_learned_to_the_last_digit_are_looked_at_in_float64(data):
    X, _ = data
    y = RBF(1.0)(X, X[:3]).sum(axis=1)  # in the span, and without noise
    model = kept(kernel=RBF(1.0), alpha=1e-2, dictionary=X[:M]).fit(X, y)
    assert gap(model, X, y) <= PROMISED
    assert "float64" in model.solver_reason_


def test_the_deviation_is_that_of_the_direct_solution(data):
    X, y = data
    std = [
        KernelRidge(RBF(1.0), alpha=1.0, dictionary=X[:M], solver=solver, random_state=0)
        .fit(X, y)
        .predict(X[:100], return_std=True)[1]
        for solver in ("direct", "kept")
    ]
    assert np.allclose(*std, rtol=1e-3)


def test_bits_do_not_depend_on_threads_or_on_free_memory(data, monkeypatch, tmp_path):
    """A budget that is asked for is a parameter: it decides from how many rows the preconditioner is."""
    X, y = data
    monkeypatch.setattr("squeak.learners.cached.TILE_BYTES", 2**16)
    found = {}
    for budget in (None, 0, 4 * N * M / 3):
        for threads, free in (("1", 1e12), ("2", 1e12), ("2", 4 * N * M)):
            monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
            monkeypatch.setattr("squeak.learners.cached.free_memory", lambda free=free: free)
            model = kept(kernel=RBF(1.0), alpha=1.0, dictionary=X[:M], memory_budget=budget).fit(X, y)
            assert model.solver_ == ("kept" if budget is None and free > 4 * N * M else "streamed")
            found.setdefault(budget, []).append(model.dual_coef_)
        assert all(np.array_equal(coef, found[budget][0]) for coef in found[budget])
        assert gap(model, X, y) <= PROMISED
    model.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    assert again.solver_ == "streamed"
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_warm_start_takes_fewer_passes_and_a_callback_ends_them(data):
    X, y = data
    d = BlessR(RBF(1.0), ridge=5.0, random_state=0).fit(X).dictionary_
    model = KernelRidge(dictionary=d, solver="kept", warm_start=True, random_state=0)
    passes = [model.set_params(alpha=alpha).fit(X, y).n_iter_ for alpha in (1.0, 0.99)]
    assert passes[1] < passes[0]
    assert gap(model, X, y) <= PROMISED
    seen = []
    model = kept(alpha=1.0, dictionary=d, callback=lambda step, coef: seen.append(coef.shape) or step == 2)
    assert model.fit(X, y).n_iter_ == 2
    assert seen == [(len(d), 1)] * 2


def test_classes_by_the_squared_loss(data):
    X, y = data
    labels = np.digitize(y, [-0.5, 0.5])
    direct, found = (
        KernelClassifier(RBF(1.0), alpha=1.0, dictionary=X[:M], solver=solver, random_state=0).fit(X, labels)
        for solver in ("direct", "kept")
    )
    assert found.solver_ == "kept"
    assert np.abs(found.decision_function(X) - direct.decision_function(X)).max() < 0.02
    assert np.abs(found.predict_proba(X) - direct.predict_proba(X)).max() < 0.02


def test_rows_of_a_source_are_read_into_memory_where_they_fit(data):
    X, y = data
    array = kept(kernel=RBF(1.0), alpha=1.0, dictionary=X[:M], fit_intercept=True).fit(X, y)
    source = kept(kernel=RBF(1.0), alpha=1.0, dictionary=X[:M], fit_intercept=True).fit(squeak.rows(X, target=y))
    assert (source.solver_, array.solver_) == ("kept", "kept")
    assert "read into memory" in source.solver_reason_
    assert np.allclose(source.predict(X), array.predict(X), atol=1e-3)
    read = kept(kernel=RBF(1.0), alpha=1.0, dictionary=X[:M], memory_budget=1000, fit_intercept=True).fit(
        squeak.rows(X, target=y)
    )
    assert read.solver_ == "falkon"
    assert "do not fit in memory" in read.solver_reason_
    assert np.allclose(read.predict(X), array.predict(X), atol=1e-2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_alpha_is_chosen_as_by_the_normal_equations(data, outputs, weighted):
    X, y = data
    Y = y if outputs == 1 else np.column_stack([y, 100.0 * y + X[:, 2], np.cos(X[:, 1])])
    w = np.random.default_rng(3).exponential(size=N) if weighted else None
    direct, found = (
        KernelRidge(RBF(1.0), alpha="auto", dictionary=X[:M], solver=solver, random_state=0).fit(X, Y, w)
        for solver in ("direct", "kept")
    )
    assert found.solver_ == "kept"
    assert abs(np.log10(found.alpha_ / direct.alpha_)) < 0.5  # a step of the grid at most: it is flat there
    assert gap(found, X, Y, w) <= PROMISED
    again = KernelRidge(RBF(1.0), alpha=found.alpha_, dictionary=X[:M], solver="kept", random_state=0).fit(X, Y, w)
    assert np.allclose(again.predict(X), found.predict(X), atol=2e-3 * np.abs(Y).max())


def test_a_best_alpha_that_float32_cannot_serve_is_found_in_float64(data):
    X, _ = data
    y = RBF(4.0)(X, X[:3]).sum(axis=1)
    model = kept(kernel=RBF(4.0), alpha="auto", dictionary=X[:M]).fit(X, y)
    assert model.solver_ == "direct"
    assert "too small for float32" in model.solver_reason_


# -- the parts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_kernel_values_in_float32(data, name):
    X, width = HOSTILE[name](data[0])
    for kernel in (RBF(width), RBF(np.full(3, width)), Metric(RBF(1.0), np.eye(3) / width)):
        values = against32(kernel, X[:M])(X[-500:])
        assert values.dtype == np.float32
        assert np.abs(values - kernel(X[-500:].astype(float), X[:M].astype(float))).max() < 5e-6
    out = np.full((500, M), np.nan, dtype=np.float32)
    assert against32(kernel, X[:M])(X[-500:], out) is out
    assert np.array_equal(out, values)


def test_small_values_are_never_denormal():
    X = np.array([[0.0], [7.0], [15.0], [40.0]])
    values = against32(RBF(1.0), X)(X)
    assert values.min() > 1e-30
    assert np.abs(values - RBF(1.0)(X)).max() < 1e-6


def test_a_product_in_float32_is_that_of_the_dense_matrices(data):
    X, y = data
    features = TriangularFeatures(RBF(1.0), X[:20])
    w = 10.0 ** np.random.default_rng(1).uniform(-3, 3, N)
    values = KernelValues(X, features, 1e9, single=True)
    Z, v = features.transform(X), np.random.default_rng(0).standard_normal((20, 2)) * [1.0, 1e30]
    from squeak.learners.cached import GivenFeatures

    (found,) = ArrayTraining(values, y, w).sum(ProductTerm(GivenFeatures(features.mixing), v))
    expected = Z.T @ (w[:, None] * (Z @ v))
    assert np.abs(found - expected).max(axis=0) / np.abs(expected).max(axis=0) == pytest.approx(0.0, abs=1e-4)
    with pytest.raises(ValueError, match="read-only"):
        values[slice(0, 5)] *= 2.0


def test_the_sampled_gram_is_that_of_the_rows(data):
    X, y = data
    features, w = TriangularFeatures(RBF(1.0), X[:60]), np.random.default_rng(1).exponential(size=N)
    Z = features.transform(X)
    (found, moment), expected = SampledTerm(features)(X, (y[:, None], w)), (Z * w[:, None]).T @ Z
    assert np.abs(moment[:, 0] - Z.T @ (w * y)).max() < 1e-4 * np.abs(moment).max()
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert (np.abs(found - expected) / size).max() < 1e-3


def test_the_outlook_tells_what_float32_costs(data):
    """The exact solution of the rounded problem is within a small factor of what was predicted."""
    X, y = data
    features = TriangularFeatures(RBF(3.0), X[:M])
    Z = features.transform(X)
    for alpha in (1e-3, 1e-1):
        view = outlook(ArrayTraining(X, y), features, alpha, 0)
        rounded = against32(RBF(3.0), X[:M])(X).astype(float) @ features.mixing[:, : view.rank]
        near = np.zeros(features.rank)
        near[: view.rank] = np.linalg.solve(rounded.T @ rounded + alpha * np.eye(view.rank), rounded.T @ y)
        A = Z.T @ Z + alpha * np.eye(features.rank)
        best = np.linalg.solve(A, Z.T @ y)
        found = (near - best) @ A @ (near - best) / (y @ y - best @ Z.T @ y)
        assert found < 5 * view.cost + 1e-9


def test_the_choice_is_by_sizes_alone():
    X = np.zeros((10, 3))
    assert faster_solver(X, 5, RBF(1.0), None)[0] == "direct"
    unknown = PairwiseKernel(lambda a, b: 1.0)
    assert [faster_solver(["a"] * 10, m, unknown, None)[0] for m in (10, 5000)] == ["direct", "falkon"]
    wide = np.broadcast_to(np.zeros(7), (300_000, 7))
    assert faster_solver(wide, 1000, RBF(1.0), None)[0] == "kept"
    assert faster_solver(wide, 1000, RBF(1.0), 0)[0] == "kept"
    assert faster_solver(wide[:40_000], 1000, RBF(1.0), None)[0] == "direct"
    for n, m in ((10**5, 2000), (10**6, 1000), (10**6, 10_000)):
        costs = Costs.of(n, m, 10, True, 1e9)
        assert costs.kept <= Costs.of(n, m, 10, False, 1e9).kept
        assert Costs.of(n, m, 10, True, 4.0 * n * m).kept <= costs.kept < costs.direct


def test_newton_on_float32_values_ends_where_float64_does(data):
    X, y = data
    for labels in (y > 0, np.digitize(y, [-0.5, 0.5])):
        exact, found = (
            KernelClassifier(RBF(1.0), alpha=1.0, loss="logistic", dictionary=X[:M], solver=solver, random_state=0)
            .fit(X, labels)
            .predict_proba(X)
            for solver in ("direct", "kept")
        )
        assert np.abs(exact - found).max() < 2e-3
