"""FALKON: its preconditioner in all forms, conjugate gradients' guarantees, the traps of the spec's section 9."""

import numpy as np
import pytest

import squeak
from squeak import KernelClassifier, KernelRidge, KernelRidgeCV, Squeak
from squeak.core.nystrom import TriangularFeatures
from squeak.kernels import RBF
from squeak.learners.base import landmarks
from squeak.learners.data import ArrayTraining
from squeak.learners.falkon import (
    Preconditioner,
    ProductTerm,
    VoronoiTerm,
    conjugate_gradient,
    preconditioner,
    weighted_preconditioner,
)
from squeak.samplers import BlessR, GreedyCholesky, RPCholesky, Uniform

KERNEL, ALPHA = RBF(1.5), 0.2
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 4))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(900)


@pytest.fixture(scope="module")
def d(data):
    return BlessR(KERNEL, ridge=5.0, oversampling=3, random_state=0).fit(data[0]).dictionary_


def system(X, d, alpha=ALPHA):
    """Return the features, Z, and the preconditioned matrix W = R⁻¹(ZᵀZ + alpha·I)R⁻ᵀ, in full."""
    features = TriangularFeatures(d.kernel, d.atoms)
    P = weighted_preconditioner(features, d.weights, alpha)
    Z = features.transform(X)
    inner = P.half(Z.T @ Z + alpha * np.eye(features.rank))
    return features, P, Z, P.half(inner.T)


def test_the_preconditioner_inverts_the_dictionarys_own_system(d):
    """Spec 3.4.1: Bᵀ[K diag(1/π) K + λnK]B = I with B = M R⁻ᵀ."""
    features = TriangularFeatures(d.kernel, d.atoms)
    P = weighted_preconditioner(features, d.weights, ALPHA)
    K = KERNEL(d.atoms)
    B = features.mixing @ P.back(np.eye(features.rank))
    assert np.abs(B.T @ (K * d.weights @ K + ALPHA * K) @ B - np.eye(features.rank)).max() < 1e-8


def test_the_d_form_and_the_middle_form_agree(data, d):
    """Spec 3.1: D K D = TᵀT, RᵀR = TTᵀ/M + λI, B = n^(−½) D T⁻¹R⁻¹ has the same cond(W) as the middle form."""
    X, _ = data
    n, m = len(X), len(d)
    lam = ALPHA / n
    D = np.sqrt(m * d.weights / n)
    K = KERNEL(d.atoms)
    T = np.linalg.cholesky(D[:, None] * K * D + 1e-13 * np.eye(m)).T
    R = np.linalg.cholesky(T @ T.T / m + lam * np.eye(m)).T
    B = D[:, None] * np.linalg.inv(T) @ np.linalg.inv(R) / np.sqrt(n)
    C = KERNEL(X, d.atoms)
    H = C.T @ C + lam * n * K
    W = system(X, d)[3]
    assert np.linalg.cond(B.T @ H @ B) == pytest.approx(np.linalg.cond(W), rel=1e-4)
    without = np.linalg.inv(T) @ np.linalg.inv(R) / np.sqrt(n)  # the printed algorithm never applies D
    assert np.linalg.cond(without.T @ H @ without) > 3 * np.linalg.cond(W)


@pytest.mark.parametrize("kind", ["falkon", "auto"])
@pytest.mark.parametrize("sample_weight", [None, 3.0])
def test_the_preconditioner_has_the_dictionarys_weights_in_it(data, kind, sample_weight):
    X, y = data
    d = BlessR(KERNEL, ridge=20.0, oversampling=1, random_state=0).fit(X).dictionary_
    assert d.weights.max() > 2 * d.weights.min(), "weights of ones must be another preconditioner"
    w = None if sample_weight is None else np.full(len(X), sample_weight)
    features = TriangularFeatures(d.kernel, d.atoms)
    found = preconditioner(ArrayTraining(X, y, w), features, d, ALPHA, kind, 0)
    Z = KERNEL(d.atoms) @ features.mixing
    expected = (Z.T * d.weights) @ Z * (sample_weight or 1.0)
    assert np.allclose(found.S, expected, rtol=1e-10, atol=1e-10)
    assert np.allclose(found.factor @ found.factor.T, expected + ALPHA * np.eye(features.rank), atol=1e-9)


def test_with_all_rows_as_centres_one_step_is_enough(data):
    """Spec 3.4.2: C = X, π = 1: W = I."""
    X, y = data
    d = Squeak(KERNEL, ridge=1e-6, oversampling=1e6, random_state=0).fit(X[:200]).dictionary_
    assert d.exact
    model = KernelRidge(alpha=1.0, dictionary=d, solver="falkon", preconditioner="falkon", tol=1e-8)
    model.fit(X[:200], y[:200])
    assert model.n_iter_ == 1


def test_the_error_falls_as_the_theorem_says(data, d):
    """Spec 3.4.4: ‖W^½(β_t − β∞)‖ ≤ 2e^(−νt)‖W^½β∞‖, ν = log((√c + 1)/(√c − 1)), c = cond(W)."""
    X, y = data
    _, P, Z, W = system(X, d)
    c = np.linalg.cond(W)
    root = np.linalg.cholesky(W).T
    rate = np.log((np.sqrt(c) + 1) / (np.sqrt(c) - 1))
    right = (Z.T @ y)[:, None]
    limit = np.linalg.solve(W, P.half(right))
    assert np.linalg.norm(root @ limit) <= np.linalg.norm(y)
    errors = []
    conjugate_gradient(
        lambda v: Z.T @ (Z @ v),
        right,
        P,
        12,
        0.0,
        callback=lambda _, beta: errors.append(np.linalg.norm(root @ (P.factor.T @ beta - limit))) and None,
    )
    for t, error in enumerate(errors, start=1):
        assert error <= 2 * np.exp(-rate * t) * np.linalg.norm(root @ limit) * (1 + 1e-9)
    assert errors[-1] < 0.05 * errors[0]


def test_the_condition_number_is_read_from_the_iterations(data, d):
    X, y = data
    W = system(X, d)[3]
    model = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon", tol=1e-10).fit(X, y)
    assert 0.8 * np.linalg.cond(W) <= model.condition_ <= 1.001 * np.linalg.cond(W)


def test_each_output_converges_by_itself(data, d):
    """Spec 9.7 and 9.8: three outputs of scales 1, 1e3 and 1e-3 as single solves; y·1e6 gives c·1e6."""
    X, y = data
    Y = np.column_stack([y, 1e3 * X[:, 0], 1e-3 * np.cos(X[:, 1])])
    together = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon", tol=1e-9).fit(X, Y).dual_coef_
    for column in range(3):
        alone = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon", tol=1e-9).fit(X, Y[:, column])
        values = KERNEL(X, d.atoms)
        expected = values @ alone.dual_coef_
        assert np.abs(values @ together[:, column] - expected).max() < 1e-6 * np.abs(expected).max()
    large = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon", tol=1e-9).fit(X, 1e6 * y)
    small = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon", tol=1e-9).fit(X, y)
    assert large.n_iter_ == small.n_iter_
    assert np.abs(large.predict(X) - 1e6 * small.predict(X)).max() < 1e-9 * np.abs(large.predict(X)).max()


def test_the_result_does_not_depend_on_blocks_or_the_order_of_rows(data, d, monkeypatch):
    from squeak.learners import cached

    X, y = data
    whole = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon", tol=1e-11).fit(X, y).predict(X)
    order = np.random.default_rng(1).permutation(len(X))
    mixed = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon", tol=1e-11).fit(X[order], y[order]).predict(X)
    monkeypatch.setattr(cached, "TILE_BYTES", 1)
    tiled = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon", tol=1e-11).fit(X, y).predict(X)
    for other in (mixed, tiled):
        assert np.abs(other - whole).max() < 1e-7


def test_kernel_values_in_memory_change_nothing(data, d):
    X, y = data
    kept = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon").fit(X, y)
    streamed = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon", memory_budget=0).fit(X, y)
    assert np.array_equal(kept.dual_coef_, streamed.dual_coef_)


def outliers():
    """Return a bulk and six tight clusters far from it, where centres without weights precondition badly."""
    rng = np.random.default_rng(0)
    centres = 8 * rng.standard_normal((6, 3))
    bulk = rng.standard_normal((3_000, 3))
    tight = np.vstack([centre + 0.02 * rng.standard_normal((5, 3)) for centre in centres])
    X = np.vstack([bulk, tight])
    return X, np.sin(X[:, 0])


@pytest.mark.parametrize("sampler", [RPCholesky(max_atoms=150), GreedyCholesky(max_atoms=150)])
@pytest.mark.parametrize("kind", ["voronoi", "krill", "auto"])
def test_centres_without_weights_get_some(sampler, kind):
    """Spec 9.11: cond(W) < 100 on six tight outlier clusters and a bulk."""
    X, y = outliers()
    model = KernelRidge(
        RBF(1.5), alpha=0.03, sampler=sampler, solver="falkon", preconditioner=kind, tol=1e-9, random_state=0
    ).fit(X, y)
    assert model.condition_ < 100
    plain = TriangularFeatures(model.kernel_, model.dictionary_.atoms)
    P = weighted_preconditioner(plain, np.ones(len(model.dictionary_)), 0.03)  # weights 1: what it would be
    Z = plain.transform(X)
    W = P.half(P.half(Z.T @ Z + 0.03 * np.eye(plain.rank)).T)
    assert np.linalg.cond(W) > 100


def test_voronoi_weights_count_the_nearest_rows(data):
    X, _ = data
    features = TriangularFeatures(KERNEL, X[:20])
    (counts,) = ArrayTraining(X).sum(VoronoiTerm(features))
    assert np.array_equal(counts, np.bincount(KERNEL(X, X[:20]).argmax(axis=1), minlength=20))
    with pytest.raises(ValueError, match="without weights"):
        preconditioner(ArrayTraining(X), features, landmarks(X[:20], KERNEL), 1.0, "falkon", 0)


def test_leverage_scores_precondition_better_than_uniform():
    """Spec 5: the weights of coins by leverage scores give a smaller condition number than uniform centres."""
    X, y = outliers()
    condition = {}
    for name, sampler in {"bless": BlessR(max_atoms=200), "uniform": Uniform(max_atoms=200)}.items():
        found = [
            KernelRidge(RBF(1.5), alpha=0.03, sampler=sampler, solver="falkon", tol=1e-9, random_state=seed)
            .fit(X, y)
            .condition_
            for seed in range(3)
        ]
        condition[name] = np.median(found)
    assert condition["bless"] < condition["uniform"]


def test_a_path_of_alpha_starts_warm(data, d):
    X, y = data
    warm = KernelRidge(dictionary=d, solver="falkon", warm_start=True, tol=1e-6)
    passes = []
    for alpha in (0.3, 0.25, 0.2):
        warm.set_params(alpha=alpha).fit(X, y)
        passes.append(warm.n_iter_)
    cold = KernelRidge(dictionary=d, solver="falkon", alpha=0.2, tol=1e-6).fit(X, y)
    assert passes[-1] < cold.n_iter_
    assert np.abs(warm.predict(X) - cold.predict(X)).max() < 1e-4


def test_a_callback_may_end_the_iterations(data, d):
    X, y = data
    seen = []

    def stop(step, coef):
        seen.append(coef.shape)
        return step == 3

    model = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon", tol=0.0, callback=stop).fit(X, y)
    assert model.n_iter_ == 3
    assert seen == [(len(d), 1)] * 3


def test_constant_targets_and_zero_targets_end_at_once(data, d):
    X, _ = data
    model = KernelRidge(alpha=ALPHA, dictionary=d, solver="falkon").fit(X, np.zeros(len(X)))
    assert model.n_iter_ == 0 or model.n_iter_ == 1
    assert np.array_equal(model.predict(X[:5]), np.zeros(5))


def test_the_product_is_that_of_the_dense_matrices(data, d):
    X, y = data
    features = TriangularFeatures(d.kernel, d.atoms)
    Z, v = features.transform(X), np.random.default_rng(0).standard_normal((features.rank, 2))
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    (found,) = ArrayTraining(X, y, w).sum(ProductTerm(features, v))
    assert np.allclose(found, Z.T @ (w[:, None] * (Z @ v)), rtol=1e-7, atol=1e-7)
    (right,) = ArrayTraining(X, y, w).sum(ProductTerm(features, None, targets=True))
    assert np.allclose(right[:, 0], Z.T @ (w * y), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("preconditioner", ["krill", "voronoi"])
@pytest.mark.parametrize("weights", ["sample", "class"])
def test_weights_leave_the_kernel_values_in_memory_alone(weights, preconditioner):
    """Centres without weights: the pass for the preconditioner and the iterations see the same values."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1500, 2))
    y = np.sin(3 * X[:, 0])
    w = 10.0 ** rng.uniform(-2, 2, len(X))
    if weights == "sample":
        model = KernelRidge(RBF(0.5), alpha=1.0, dictionary=X[:150], preconditioner=preconditioner, random_state=0)
        fit, value = (X, y, w), lambda fitted: fitted.predict(X)
    else:
        model = KernelClassifier(RBF(0.5), dictionary=X[:150], preconditioner=preconditioner, random_state=0)
        model.set_params(class_weight={0: 9.0, 1: 0.5})
        fit, value = (X, (y > 0.5).astype(int)), lambda fitted: fitted.decision_function(X)
    direct = value(model.set_params(solver="direct").fit(*fit))
    model.set_params(solver="falkon", tol=1e-10, max_iter=200)
    kept = value(model.fit(*fit))
    anew = value(model.set_params(memory_budget=0).fit(*fit))
    assert np.abs(kept - direct).max() < 1e-6 * np.abs(direct).max()
    assert np.array_equal(kept, anew)


def test_kept_kernel_values_cannot_be_written_to():
    from squeak.core.nystrom import TriangularFeatures
    from squeak.learners.cached import kept_in_memory
    from squeak.learners.data import ArrayTraining

    X = np.random.default_rng(0).standard_normal((50, 2))
    data, _ = kept_in_memory(ArrayTraining(X), TriangularFeatures(RBF(1.0), X[:10]), None)
    with pytest.raises(ValueError, match="read-only"):
        data.X[:5] *= 2.0


def test_the_deviation_after_falkon_is_that_of_the_direct_solution(monkeypatch, tmp_path):
    """Where the sums take long it is an estimate, and a warning says so, from a file as well."""
    from squeak.learners import ridge

    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1000, 2))
    y, w = np.sin(3 * X[:, 0]), rng.exponential(size=1000)
    model = KernelRidge(RBF(0.5), alpha=0.05, dictionary=X[:150], random_state=0)
    direct = model.set_params(solver="direct").fit(X, y, w).predict(X, return_std=True)[1]
    model.set_params(solver="falkon").fit(X, y, w)
    assert np.allclose(model.predict(X, return_std=True)[1], direct, rtol=1e-9)
    model.save(tmp_path / "m.sqk")
    assert np.allclose(squeak.load(tmp_path / "m.sqk").predict(X, return_std=True)[1], direct, rtol=1e-9)
    monkeypatch.setattr(ridge, "SMALL", 0.0)
    model.fit(X, y, w).save(tmp_path / "m.sqk")
    for fitted in (model, squeak.load(tmp_path / "m.sqk")):
        with pytest.warns(UserWarning, match="may be some percent off"):
            estimate = fitted.predict(X, return_std=True)[1]
        assert np.allclose(estimate, direct, rtol=0.5)


def test_a_tolerance_below_rounding_keeps_the_best_iterate():
    """Past the least residual conjugacy is lost and errors grow: hundreds of passes must not undo a solution."""
    from tests.learners.test_oracle_table import RIDGE_CASES, check_ridge

    wanted = {"kernel": "tiny", "form": "csr", "dtype": "float32", "scale": 1e6, "size": 1e-9, "weight": "wild"}
    wanted.update(solver="falkon", preconditioner="krill", atoms="learned")
    for case in RIDGE_CASES:
        if wanted.items() <= case.items():
            check_ridge(case)


@pytest.mark.parametrize("size", [2.0**-660, 2.0**660])
def test_falkon_solves_targets_of_any_size_in_their_own_units(waves, size):
    X, y = waves
    model = KernelRidge(RBF(1.0), alpha=0.1, max_atoms=20, solver="falkon", random_state=0)
    right = model.fit(X, y).predict(X)
    assert np.abs(model.fit(X, y * size).predict(X) / size - right).max() < 1e-12


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_a_search_refuses_targets_whose_squares_are_no_numbers(waves, size):
    X, y = waves
    for model in (KernelRidge(RBF(1.0), alpha="auto", max_atoms=20), KernelRidgeCV(RBF(1.0), max_atoms=20)):
        with pytest.raises(ValueError, match="scale the targets"):
            model.fit(X, y * size)


def test_outputs_of_unlike_difficulty_end_each_at_its_own_time():
    """One output needs a single step, one needs none, one needs as many as the system has eigenvalues."""
    values, n = np.array([1.0, 2.0, 5.0, 9.0, 30.0]), 5
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    G = Q @ np.diag(values) @ Q.T
    P = Preconditioner.from_gram(np.zeros((n, n)), 1.0)  # no preconditioner: the system is G + I
    right = np.column_stack([Q[:, 2], np.zeros(n), Q.sum(axis=1)])
    dense = np.linalg.solve(G + np.eye(n), right)
    found = conjugate_gradient(lambda v: G @ v, right, P, 50, 1e-10)
    assert found.converged
    assert found.n_iter == 5
    np.testing.assert_allclose(found.beta, dense, atol=1e-12)
    early = conjugate_gradient(lambda v: G @ v, right, P, 2, 1e-10)
    assert not early.converged
    assert early.n_iter == 2
    np.testing.assert_allclose(early.beta[:, :2], dense[:, :2], atol=1e-12)
    missed = right - (G + np.eye(n)) @ early.beta
    assert early.residuals[-1] == pytest.approx(np.linalg.norm(missed[:, 2]) / np.sqrt(n), rel=1e-9)
    square = np.einsum("ij,ij->j", right, dense) + np.array([1.0, 1.0, 1.0])  # J = 1 at the solution
    halted = conjugate_gradient(lambda v: G @ v, right, P, 50, 1e-10, square=square, gain=1e-8)
    assert halted.converged
    np.testing.assert_allclose(halted.objective, 1.0, rtol=1e-9)
    np.testing.assert_allclose(halted.beta, dense, atol=1e-3)


@pytest.mark.parametrize("values", [(3.0, 7.0), (2.0, 4.0, 8.0)], ids=str)
def test_as_many_steps_as_there_are_eigenvalues_show_both_ends(values):
    G = np.diag(values) - np.eye(len(values))
    P = Preconditioner.from_gram(np.zeros_like(G), 1.0)
    found = conjugate_gradient(lambda v: G @ v, np.ones((len(G), 1)), P, len(G), 0.0)
    assert found.lowest == pytest.approx(values[0], rel=1e-10)
    assert found.condition == pytest.approx(values[-1] / values[0], rel=1e-10)


def test_one_step_shows_no_end():
    P = Preconditioner.from_gram(np.zeros((2, 2)), 1.0)
    found = conjugate_gradient(lambda v: 4.0 * v, np.ones((2, 1)), P, 9, 1e-12)
    assert (found.n_iter, found.lowest, found.condition) == (1, 1.0, 1.0)


def test_the_objective_is_known_from_any_start():
    G, right = np.diag([1.0, 4.0, 9.0]), np.ones((3, 1))
    P = Preconditioner.from_gram(np.zeros((3, 3)), 1.0)
    dense = np.linalg.solve(G + np.eye(3), right)
    square = np.einsum("ij,ij->j", right, dense) + 1.0  # J = 1 at the solution
    begun = conjugate_gradient(lambda v: G @ v, right, P, 1, 0.0, dense + 0.5, square=square)
    gap = begun.beta - dense
    assert begun.objective[0] == pytest.approx(1.0 + np.sum(gap * ((G + np.eye(3)) @ gap)), rel=1e-12)


def test_iterations_that_go_astray_end_at_the_best_that_was_seen():
    """From the ninth product on the operator is another one, as if rounding had taken over."""
    rng, n, calls = np.random.default_rng(1), 6, []
    G = np.diag(np.arange(1.0, n + 1))
    right = rng.standard_normal((n, 1))
    P = Preconditioner.from_gram(np.zeros((n, n)), 1.0)

    def product(v):
        calls.append(len(calls))
        return G @ v if len(calls) < 9 else -3.0 * np.flip(G @ v, axis=0) + 9.0 * v

    found = conjugate_gradient(product, right, P, 18, 0.0)
    assert len(calls) > 9
    np.testing.assert_allclose(found.beta, np.linalg.solve(G + np.eye(n), right), atol=1e-9)
