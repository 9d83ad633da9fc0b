"""KernelRidge against the dense formulas, scikit-learn, and itself solved in other ways."""

import contextlib
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as their_kernels
from sklearn.kernel_ridge import KernelRidge as Theirs

import squeak
from squeak import KernelRidge, KernelRidgeCV, Squeak
from squeak.core.nystrom import TriangularFeatures
from squeak.kernels import RBF, Linear, PairwiseKernel
from squeak.learners import normal, one_pass
from squeak.samplers import BlessR, RPCholesky, Uniform


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 3))
    return X, np.sin(X.sum(axis=1)) + 0.1 * rng.standard_normal(700), rng.standard_normal((60, 3))


def dense(kernel, X, y, atoms, alpha, weight=None):
    """Return the coefficients of Σ w (y − f)² + alpha·‖f‖² over the span of the atoms, by eigenvectors."""
    weight = np.ones(len(X)) if weight is None else weight
    values, U = np.linalg.eigh(kernel(atoms))
    keep = values > 1e-12 * values[-1]
    M = U[:, keep] / np.sqrt(values[keep])
    Z = kernel(X, atoms) @ M
    return M @ np.linalg.solve(
        (Z * weight[:, None]).T @ Z + alpha * np.eye(Z.shape[1]), (Z * weight[:, None]).T @ y
    )


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_with_all_rows_as_atoms_it_is_scikit_learns(alpha, data):
    X, y, T = data
    theirs = Theirs(kernel="rbf", gamma=1 / (2 * 1.5**2), alpha=alpha).fit(X, y)
    ours = KernelRidge(RBF(1.5), alpha=alpha, dictionary=X).fit(X, y)
    assert ours.solver_ == "exact"
    assert np.abs(ours.predict(T) - theirs.predict(T)).max() < 1e-8
    assert np.allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-6, atol=1e-8)
    w = np.random.default_rng(1).uniform(0.1, 3.0, len(X))
    theirs, ours = theirs.fit(X, y, sample_weight=w), ours.fit(X, y, sample_weight=w)
    assert np.abs(ours.predict(T) - theirs.predict(T)).max() < 1e-8


@pytest.mark.parametrize("solver", ["direct", "falkon"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_solver_gives_the_dense_solution(solver, weighted, data):
    X, y, T = data
    w = np.random.default_rng(2).uniform(0.2, 2.0, len(X)) if weighted else None
    model = KernelRidge(
        RBF(1.5), alpha=0.3, sampler=BlessR(max_atoms=80), solver=solver, tol=1e-11, max_iter=200, random_state=0
    )
    model.fit(X, y, sample_weight=w)
    expected = RBF(1.5)(T, model.dictionary_.atoms) @ dense(RBF(1.5), X, y, model.dictionary_.atoms, 0.3, w)
    assert model.solver_ == solver
    assert np.abs(model.predict(T) - expected).max() < 1e-7


def test_the_normal_equations_hold(data):
    """Spec 1: ‖K_nMᵀ(K_nM c − y) + alpha·K_MM c‖ ≈ 0."""
    X, y, _ = data
    model = KernelRidge(RBF(1.0), alpha=0.5, max_atoms=60, random_state=0).fit(X, y)
    K, c = RBF(1.0)(X, model.dictionary_.atoms), model.dual_coef_
    left = K.T @ (K @ c - y) + 0.5 * RBF(1.0)(model.dictionary_.atoms) @ c
    assert np.abs(left).max() < 1e-8 * np.abs(K.T @ y).max()


def test_large_problems_are_summed_with_leading_directions_apart(monkeypatch):
    """Σ k kᵀ in place of Σ z zᵀ: the same predictions to 1e-5, and refused where rounding would reach alpha."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6_000, 5))
    y = np.cos(X[:, 0] * X[:, 1]) + 0.1 * rng.standard_normal(len(X))
    w = rng.uniform(0.5, 2.0, len(X))
    model = KernelRidge(RBF(2.0), alpha=1.0, sampler=Uniform(max_atoms=300), random_state=0)
    asked = []
    choose = normal.leading_directions
    monkeypatch.setattr(normal, "leading_directions", lambda *args: asked.append(choose(*args)) or asked[-1])
    careful = model.fit(X, y, w).predict(X)
    assert asked.pop() is None
    monkeypatch.setattr(normal, "SMALL", 0.0)
    fast = model.fit(X, y, w).predict(X)
    assert asked.pop().shape in {(300, 2), (300, 4), (300, 9)}
    assert np.abs(fast - careful).max() < 1e-5 * np.abs(careful).max()
    KernelRidge(RBF(2.0), alpha=1e-9, sampler=Uniform(max_atoms=300), random_state=0).fit(X, y)
    assert asked.pop() is None
    wide = KernelRidge(RBF(6.0), alpha=1.0, sampler=Uniform(max_atoms=300), random_state=0)
    monkeypatch.setattr(normal, "leading_directions", lambda *args: None)
    right = wide.fit(X, y, w).predict(X)
    monkeypatch.setattr(normal, "leading_directions", lambda *args: np.zeros((300, 1)))  # nothing is kept apart
    with contextlib.suppress(ValueError):  # rounding may even cost the sums their definiteness, as it falls
        assert np.abs(wide.fit(X, y, w).predict(X) - right).max() > 1e-5


def test_regularised_features_give_the_woodbury_form(data):
    """Spec 6.2: ω̃ = (y − C(CᵀC + λ(W + γI))⁻¹Cᵀy)/λ and K̃ω̃ = y − λω̃, with the square that the print leaves out."""
    X, y, _ = data
    d = Squeak(RBF(1.0), ridge=2.0, random_state=0).fit(X).dictionary_
    alpha, root = 0.7, np.sqrt(d.weights)
    C = RBF(1.0)(X, d.atoms) * root
    W = root[:, None] * RBF(1.0)(d.atoms) * root
    omega = (y - C @ np.linalg.solve(C.T @ C + alpha * (W + d.ridge * np.eye(len(d))), C.T @ y)) / alpha
    model = KernelRidge(alpha=alpha, dictionary=d, regularised=True).fit(X, y)
    assert np.abs(model.predict(X) - (y - alpha * omega)).max() < 1e-9


def test_the_risk_bound_holds(data):
    """Spec 6.2: R(ω̃) ≤ (1 + ‖K − K̃‖/λ)²·R(ω̂), fixed design, for plain features."""
    X, _, _ = data
    X = X[:300]
    f, noise, alpha = np.sin(X.sum(axis=1)), 0.2, 1.0
    K = RBF(1.0)(X)
    d = Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(X).dictionary_
    Z = TriangularFeatures(RBF(1.0), d.atoms).transform(X)

    def risk(K):
        inverse = np.linalg.inv(K + alpha * np.eye(len(K)))
        return alpha**2 * np.sum((inverse @ f) ** 2) + noise**2 * np.trace(K @ inverse @ inverse @ K)

    gap = np.linalg.norm(K - Z @ Z.T, 2)
    assert risk(Z @ Z.T) <= (1 + gap / alpha) ** 2 * risk(K)


def test_the_standard_deviation_is_the_gaussian_processs(data):
    X, y, T = data
    X, y = X[:250], y[:250]
    theirs = GaussianProcessRegressor(their_kernels.RBF(1.5), alpha=0.1, optimizer=None).fit(X, y)
    mean, std = KernelRidge(RBF(1.5), alpha=0.1, dictionary=X).fit(X, y).predict(T, return_std=True)
    expected = theirs.predict(T, return_std=True)
    assert np.abs(mean - expected[0]).max() < 1e-8
    model = KernelRidge(RBF(1.5), alpha=0.1, dictionary=X).fit(X, y)
    of_f = np.sqrt(std**2 - model.noise_**2) * np.sqrt(0.1) / model.noise_  # theirs is on the kernel's scale
    assert np.abs(of_f - expected[1]).max() < 1e-6
    few = KernelRidge(RBF(1.5), alpha=0.1, max_atoms=40, random_state=0).fit(X, y)
    far = few.noise_[0] * np.sqrt(1 + 1 / 0.1)  # from all rows: the prior, and the noise
    assert few.predict(T + 100.0, return_std=True)[1] == pytest.approx(far)


def test_partial_fit_on_a_dictionary_is_one_fit(data):
    X, y, T = data
    Y = np.column_stack([y, 3 * y - 1])
    d = Uniform(RBF(1.5), 60, random_state=0).fit(X).dictionary_
    once = KernelRidge(alpha=0.5, dictionary=d).fit(X, Y)
    pieces = KernelRidge(alpha=0.5, dictionary=d)
    for start in range(0, 700, 97):
        pieces.partial_fit(X[start : start + 97], Y[start : start + 97])
    assert np.allclose(pieces.predict(T), once.predict(T), rtol=1e-9, atol=1e-11)


def test_one_pass_comes_near_two(data):
    """Old rows are replaced by their projection on the dictionary of the end; in random order little is lost."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((6_000, 2))
    f = np.sin(2 * X[:, 0]) * X[:, 1]
    y = f + 0.3 * rng.standard_normal(6_000)
    T = rng.standard_normal((1_000, 2))
    truth = np.sin(2 * T[:, 0]) * T[:, 1]
    one = KernelRidge(RBF(1.0), alpha=0.3, max_atoms=120, random_state=0)
    for start in range(0, 6_000, 500):
        one.partial_fit(X[start : start + 500], y[start : start + 500])
    two = KernelRidge(alpha=0.3, dictionary=one.dictionary_).fit(X, y)
    errors = [np.sqrt(np.mean((model.predict(T) - truth) ** 2)) for model in (one, two)]
    assert errors[0] < 1.15 * errors[1] + 0.01
    assert errors[0] < 0.1


def test_sums_move_to_other_atoms_only_where_many_are_new(monkeypatch):
    """Each move loses a part of the rows so far; the twin goes over to every dictionary that the sampler shows."""
    rng = np.random.default_rng(4)
    X, T = rng.standard_normal((30_000, 8)), rng.standard_normal((1_000, 8))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.3 * rng.standard_normal(30_000)
    truth = np.sin(T[:, 0]) * T[:, 1]

    def run() -> tuple[int, float]:
        moves = []
        real = normal.NormalEquations.moved_to
        with monkeypatch.context() as patch:
            patch.setattr(normal.NormalEquations, "moved_to", lambda *one: moves.append(one) or real(*one))
            model = KernelRidge(RBF(4.0), alpha=0.3, max_atoms=80, random_state=0)
            for start in range(0, 30_000, 1_000):
                model.partial_fit(X[start : start + 1_000], y[start : start + 1_000])
        return len(moves), float(np.sqrt(np.mean((model.predict(T) - truth) ** 2)))

    few, error = run()
    monkeypatch.setattr(one_pass, "NEW", -1.0)
    many, worse = run()
    assert 0 < few < 20
    assert many == 29
    assert error < 0.95 * worse


def test_large_blocks_of_a_stream_are_summed_as_small_ones_but_for_rounding(monkeypatch):
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((9_000, 8)), rng.standard_normal(9_000)

    def predictions() -> np.ndarray:
        return KernelRidge(RBF(2.0), alpha=0.3, max_atoms=100, random_state=0).partial_fit(X, y).predict(X[:500])

    raw = predictions()
    found, real = [], one_pass.leading_directions
    monkeypatch.setattr(one_pass, "leading_directions", lambda *one: found.append(real(*one)) or found[-1])
    assert np.array_equal(predictions(), raw)
    assert found[0] is not None
    monkeypatch.setattr(one_pass, "LARGE", 1_000)
    assert np.abs(predictions() - raw).max() < 1e-6
    assert len(found) == 1


def test_moved_equations_are_those_of_projected_rows(data):
    X, y, _ = data
    old, new = TriangularFeatures(RBF(1.0), X[:50]), TriangularFeatures(RBF(1.0), X[30:90])
    before = normal.NormalEquations.of(normal.NormalTerm(old), normal.NormalTerm(old)(X, (y, None)))
    moved = before.moved_to(new)
    T = new.mixing.T @ RBF(1.0)(X[30:90], X[:50]) @ old.mixing
    Z = old.transform(X) @ T.T
    assert np.allclose(moved.gram, Z.T @ Z, atol=1e-8)
    assert np.allclose(moved.moment[:, 0], Z.T @ y, atol=1e-8)


def test_a_failing_block_changes_nothing(data):
    X, y, T = data
    model = KernelRidge(RBF(1.5), alpha=0.5, max_atoms=40, random_state=0).partial_fit(X[:300], y[:300])
    before = model.predict(T)
    bad = X[300:400].copy()
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match="row 7, column 1 is nan"):
        model.partial_fit(bad, y[300:400])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[300:400, :2], y[300:400])
    with pytest.raises(ValueError, match="dimensions"):
        model.partial_fit(X[300:400], np.column_stack([y[300:400]] * 2))
    assert np.array_equal(model.predict(T), before)


def test_leave_one_out_errors_are_those_of_refits(data):
    X, y, _ = data
    X, y = X[:120], y[:120]
    w = np.random.default_rng(5).uniform(0.5, 2.0, 120)
    model = KernelRidgeCV(RBF(1.0), alphas=[0.01, 1.0, 30.0], max_atoms=40, random_state=0).fit(X, y, w)
    for alpha, found, coef in zip([0.01, 1.0, 30.0], model.errors_, model.coef_path_, strict=True):
        total = 0.0
        for i in range(120):
            rest = np.arange(120) != i
            c = dense(RBF(1.0), X[rest], y[rest], model.dictionary_.atoms, alpha, w[rest])
            total += w[i] * (y[i] - RBF(1.0)(X[[i]], model.dictionary_.atoms) @ c)[0] ** 2
        assert found == pytest.approx(total / w.sum(), rel=1e-6)
        assert np.allclose(
            RBF(1.0)(X, model.dictionary_.atoms) @ coef,
            RBF(1.0)(X, model.dictionary_.atoms) @ dense(RBF(1.0), X, y, model.dictionary_.atoms, alpha, w),
        )
    assert model.alpha_ == [0.01, 1.0, 30.0][int(np.argmin(model.errors_))]


def test_the_path_of_alpha_is_that_of_single_fits(data):
    X, y, T = data
    path = KernelRidgeCV(RBF(1.5), alphas=[0.1, 2.0], max_atoms=50, random_state=0).fit(X, y)
    for alpha, coef in zip([0.1, 2.0], path.coef_path_, strict=True):
        single = KernelRidge(alpha=alpha, dictionary=path.dictionary_).fit(X, y)
        assert np.abs(RBF(1.5)(T, path.dictionary_.atoms) @ coef - single.predict(T)).max() < 1e-8


def test_gcv_and_residuals_come_from_the_sums(data):
    X, y, _ = data
    features = TriangularFeatures(RBF(1.0), X[:80])
    term = normal.NormalTerm(features)
    equations = normal.NormalEquations.of(term, term(X, (y, None)))
    Z = features.transform(X)
    H = Z @ np.linalg.solve(Z.T @ Z + 0.3 * np.eye(Z.shape[1]), Z.T)
    spectrum = equations.spectrum()
    assert spectrum.freedom(0.3) == pytest.approx(np.trace(H), rel=1e-9)
    assert spectrum.residual(0.3)[0] == pytest.approx(np.sum((y - H @ y) ** 2), rel=1e-6)
    gcv = np.mean((y - H @ y) ** 2) / (1 - np.trace(H) / 700) ** 2
    assert spectrum.gcv(0.3) == pytest.approx(gcv, rel=1e-6)


def test_rows_of_any_kind(data):
    X, y, T = data
    dense_model = KernelRidge(RBF(1.5), alpha=0.5, dictionary=X[:60]).fit(X, y)
    sparse = KernelRidge(RBF(1.5), alpha=0.5, dictionary=sp.csr_array(X[:60])).fit(sp.csr_array(X), y)
    assert np.allclose(sparse.predict(sp.csr_array(T)), dense_model.predict(T), atol=1e-8)
    words = ["ab", "abc", "b", "ca", "cab", "bb", "acb"] * 5
    kernel = PairwiseKernel(lambda a, b: float(len(set(a) & set(b))) + (a == b))
    texts = KernelRidge(kernel, alpha=0.1, max_atoms=7, random_state=0).fit(words, [len(word) for word in words])
    assert np.abs(texts.predict(["ab", "acb"]) - [2, 3]).max() < 0.2


def test_float32_rows_far_from_zero_predict_the_same(data):
    """Spec 9.6: float32 rows shifted by 1e3 change predictions by no more than 1e-3."""
    X, y, T = data
    near = KernelRidge(RBF(1.5), alpha=0.5, dictionary=X[:60]).fit(X, y).predict(T)
    shifted = [(rows + 1e3).astype(np.float32) for rows in (X, X[:60], T)]
    far = KernelRidge(RBF(1.5), alpha=0.5, dictionary=shifted[1]).fit(shifted[0], y).predict(shifted[2])
    assert np.abs(far - near).max() < 1e-3


@pytest.mark.parametrize("solver", ["direct", "falkon"])
def test_a_singular_gram_matrix_is_no_matter(solver, data):
    """Spec 9.5: repeated atoms, a linear kernel with more atoms than columns, a width without end."""
    X, y, T = data
    twice = np.vstack([X[:60], X[:20]])
    once = KernelRidge(RBF(1.5), alpha=0.5, dictionary=X[:60], solver=solver, tol=1e-10).fit(X, y).predict(T)
    again = KernelRidge(RBF(1.5), alpha=0.5, dictionary=twice, solver=solver, tol=1e-10).fit(X, y).predict(T)
    assert np.abs(once - again).max() < 1e-7
    line = KernelRidge(Linear(), alpha=0.5, dictionary=X[:60], solver=solver, tol=1e-10).fit(X, y)
    assert line.rank_ == 3
    exact = np.linalg.solve(X.T @ X + 0.5 * np.eye(3), X.T @ y)
    assert np.abs(line.predict(T) - T @ exact).max() < 1e-7
    flat = KernelRidge(RBF(1e6), alpha=0.5, dictionary=X[:60], solver=solver, random_state=0).fit(X, y)
    assert np.abs(flat.predict(T) - y.sum() / (700 + 0.5)).max() < 1e-2


def test_a_model_stands_alone(data, tmp_path):
    """Spec 9.13: the training array may change, the model may go through a file."""
    X, y, T = data
    mine = X.copy()
    model = KernelRidge(RBF(1.5), alpha=0.5, dictionary=mine[:60], fit_intercept=True).fit(mine, y)
    before = model.predict(T, return_std=True)
    mine[:] = 7.0
    assert np.array_equal(model.predict(T), before[0])
    model.save(tmp_path / "model.sqk")
    again = squeak.load(tmp_path / "model.sqk")
    for one, two in zip(again.predict(T, return_std=True), before, strict=True):
        assert np.array_equal(one, two)
    assert isinstance(again, KernelRidge)
    assert again.alpha_ == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0.0}, "alpha must be positive"),
        ({"alpha": "much"}, "alpha must be a positive number"),
        ({"solver": "best"}, "solver must be"),
        ({"max_atoms": 5, "sampler": Squeak()}, "give one of sampler"),
        ({"sampler": Squeak}, "sampler must be a sampler"),
        ({"preconditioner": "none"}, "preconditioner must be"),
        ({"alpha": "auto", "solver": "falkon"}, "alpha='auto'"),
        ({"kernel": RBF(2.0), "dictionary": "fitted"}, "leave kernel out"),
    ],
)
def test_bad_parameters_get_one_clear_error(changes, message, data):
    X, y, _ = data
    if changes.get("dictionary") == "fitted":
        changes = {**changes, "dictionary": Uniform(RBF(1.0), 20, random_state=0).fit(X).dictionary_}
    with pytest.raises((ValueError, TypeError), match=message):
        KernelRidge(**changes).fit(X, y)


def test_what_a_sampler_leaves_open_comes_from_the_learner(data):
    X, y, _ = data
    model = KernelRidge(RBF(1.5), alpha=2.0, sampler=Squeak(), random_state=3).fit(X, y)
    assert model.dictionary_.ridge == 2.0
    assert model.dictionary_.kernel == RBF(1.5)
    assert model.dictionary_ == Squeak(RBF(1.5), ridge=2.0, random_state=3).fit(X).dictionary_
    assert len(KernelRidge(RBF(1.5), sampler=RPCholesky(max_atoms=25), random_state=0).fit(X, y).dictionary_) == 25


def test_a_width_far_too_small_is_said_and_a_good_one_is_not(rng, recwarn):
    X = rng.random((400, 5))
    KernelRidge(RBF("median"), max_atoms=40, random_state=0).fit(X, X[:, 0])
    KernelRidge(Linear(), max_atoms=40, random_state=0).fit(X, X[:, 0])
    assert not [w for w in recwarn if "resembles" in str(w.message)]
    with pytest.warns(UserWarning, match="hardly any of the 40 atoms resembles another.*larger length_scale"):
        KernelRidge(RBF(1e-4), max_atoms=40, random_state=0).fit(X, X[:, 0])


def test_text_is_for_classifiers(rng):
    X = rng.random((50, 2))
    for y in (["low", "high"] * 25, np.array(["low", "high"] * 25), np.array(["low", 1.0] * 25, dtype=object)):
        with pytest.raises(ValueError, match=r"'low', which is not a number.*KernelClassifier"):
            KernelRidge(random_state=0).fit(X, y)
        with pytest.raises(ValueError, match=r"'low', which is not a number.*KernelClassifier"):
            KernelRidge(random_state=0).fit(squeak.rows(X, y))


@pytest.mark.parametrize("alpha", np.geomspace(1e-1, 1e-5, 9))
def test_an_exact_solution_near_rounding_is_right_or_falls_back(alpha):
    """Columns of 500 to 4,000, 1e5 to 1e6 and 1950 to 2020, a linear kernel: K's rounding reaches alpha."""
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.uniform(500, 4000, 80), rng.uniform(1e5, 1e6, 80), rng.uniform(1950, 2020, 80)])
    y = 100 * X[:, 0] + 0.05 * X[:, 1] + 500 * (X[:, 2] - 1980) + 5000 * rng.standard_normal(80)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        predicted = KernelRidge(Linear(), alpha=alpha).fit(X, y).predict(X)
    size = np.linalg.norm(X, axis=0)
    tall = np.vstack([X, np.sqrt(alpha) * np.eye(3)]) / size
    exact = X @ (np.linalg.lstsq(tall, np.append(y, np.zeros(3)), rcond=None)[0] / size)
    assert np.abs(predicted - exact).max() < 1e-9 * np.abs(exact).max()
    assert bool(found) == (alpha < 1e-2)
    assert all("lost in the rounding" in str(warning.message) for warning in found)


def test_auto_follows_the_scale_of_weights(waves):
    X, y = waves
    found = [
        KernelRidge(RBF(1.0), alpha="auto", max_atoms=50, random_state=0).fit(X, y, np.full(200, s)).alpha_ / s
        for s in (1e-6, 1.0, 1e6)
    ]
    assert np.allclose(found, found[1], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_targets_of_other_types_are_summed_as_doubles(dtype, waves):
    X, _ = waves
    y = (1e6 * X[:, 0]).astype(dtype)
    one, two = (
        KernelRidge(RBF(1.0), max_atoms=20, alpha="auto", random_state=0).fit(X, v).alpha_
        for v in (y, y.astype(float))
    )
    assert one == two


def test_repeated_rows_with_a_tiny_alpha_are_solved_on_their_span(waves):
    X, y = waves
    model = KernelRidge(RBF(1.0), alpha=1e-14).fit(np.r_[X[:20], X[:20]], np.r_[y[:20], y[:20]])
    assert np.abs(model.predict(X[:20]) - y[:20]).max() < 1e-3
