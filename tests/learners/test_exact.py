"""Every row an atom: solutions against dense ones, weights as repeated rows, walks that only go down."""

import numpy as np
import pytest

from squeak import KernelBlend
from squeak.kernels import RBF, Laplacian, Matern, Metric
from squeak.learners import blend, exact
from squeak.learners.exact import exactly, shift_of, solved
from squeak.learners.metric import ALPHAS, Held, widened


@pytest.fixture
def held(rng):
    X = rng.standard_normal((200, 3))
    y = np.sin(2 * X[:, :1]) + 0.1 * rng.standard_normal((200, 2))
    return Held.split(X, y, None, 200, np.random.default_rng(0))


@pytest.mark.parametrize("alpha", [1e-14, 1e-7, 1e-3, 10.0])
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_solutions_are_those_of_the_dense_system(rng, alpha, repeated, unit):
    X = np.repeat(rng.standard_normal((40, 2)), 2 if repeated else 1, axis=0)
    K, y = RBF(0.7)(X, X), unit * rng.standard_normal((len(X), 2))
    if repeated:
        y[1::2] = y[::2]  # equal rows with unequal targets and no penalty to speak of have no stable solution
    shift = alpha * rng.uniform(0.5, 2.0, len(X))
    c, _ = solved(K, shift, y)
    np.testing.assert_allclose((K @ c + shift[:, None] * c) / unit, y / unit, atol=1e-7)


def test_where_float32_does_not_settle_float64_solves(monkeypatch, rng):
    X = rng.standard_normal((60, 2))
    K, y, shift = Laplacian(2.0)(X, X), rng.standard_normal((60, 1)), np.full(60, 1e-3)
    expected = np.linalg.solve(K + np.diag(shift), y)
    np.testing.assert_allclose(solved(K, shift, y)[0], expected, rtol=1e-7)
    monkeypatch.setattr(exact, "REFINEMENTS", 1)
    np.testing.assert_allclose(solved(K, shift, y)[0], expected, rtol=1e-9)
    # the twin: nothing is refined
    assert not np.allclose(solved(K, shift, y, precise=np.inf)[0], expected, rtol=1e-3)


def test_weights_count_rows(rng):
    X, y = rng.standard_normal((30, 2)), rng.standard_normal((30, 1))
    times = rng.integers(1, 4, 30)
    many, kernel = np.repeat(X, times, axis=0), RBF(1.0)
    c, _ = solved(kernel(X, X), shift_of(1e-2, times.sum(), 30, times.astype(float)), y)
    all_c, _ = solved(kernel(many, many), shift_of(1e-2, len(many), len(many), None), np.repeat(y, times, axis=0))
    new = rng.standard_normal((5, 2))
    np.testing.assert_allclose(kernel(new, X) @ c, kernel(new, many) @ all_c, atol=1e-7)


@pytest.mark.parametrize("alpha", [1e-14, 1e-4, 1e-1])
def test_one_factor_tells_what_a_fit_without_the_last_rows_says_of_them(rng, alpha):
    X, y = rng.standard_normal((90, 2)), rng.standard_normal((90, 2))
    K, shift = Laplacian(2.0)(X, X), alpha * rng.uniform(0.5, 2.0, 90)
    _, said = solved(K, shift, y, back=20)
    without = np.linalg.solve(K[:70, :70] + np.diag(shift[:70]), y[:70])
    np.testing.assert_allclose(said, K[70:, :70] @ without, atol=1e-4)
    y[70:] += 1.0  # the targets of the rows kept back play no part
    np.testing.assert_array_equal(solved(K, shift, y, back=20)[1], said)


@pytest.mark.parametrize(
    "kernel", [RBF(1.0), Laplacian(np.array([1.0, 5.0, 5.0])), Metric(Matern(1.0, nu=0.5), np.eye(3)), Matern(1.0)]
)
@pytest.mark.parametrize("learn", [False, True])
def test_the_model_is_the_dense_one_and_the_walk_ends_no_higher_than_it_began(held, kernel, learn, monkeypatch):
    monkeypatch.setattr(exact, "ENOUGH", 50)
    some = int(exact.PART * len(held.X))  # the rows to choose by, of 170
    first = held.at(kernel)
    found = exactly(first, held, learn=learn)
    errors = []
    for tried, alpha in ((widened(first.kernel, 0.7), first.alpha), (found.kernel, found.alpha)):
        few = held.X[:some]
        c = np.linalg.solve(tried(few, few) + alpha * 170 * np.eye(some), held.y[:some])
        errors.append(np.mean(np.square(held.y_back - tried(held.X_back, few) @ c).sum(axis=1)))
    assert errors[1] <= errors[0] * (1 + 1e-4)
    assert found.alpha in ALPHAS
    n, shift = len(held.X), found.alpha * len(held.X)
    without = np.linalg.solve(found.kernel(held.X, held.X) + shift * np.eye(n), held.y)
    np.testing.assert_allclose(found.back, found.kernel(held.X_back, held.X) @ without, atol=1e-4)
    atoms, y = held.all_rows()
    np.testing.assert_allclose((found.kernel(atoms, atoms) + shift * np.eye(200)) @ found.coef, y, atol=1e-7)


@pytest.mark.parametrize("kernel", [Laplacian(np.full(3, 3.0)), Metric(RBF(2.0), np.eye(3))])
def test_slopes_of_all_atoms_shorten_the_columns_that_tell_nothing(held, kernel, monkeypatch):
    """Only the first column matters: with its metric learned again the error falls by a tenth at least."""
    monkeypatch.setattr(exact, "ENOUGH", 50)
    first = held.at(kernel)
    plain, found = (exactly(first, held, learn=learn) for learn in (False, True))
    assert found.error < 0.9 * plain.error
    T = found.kernel.T if isinstance(kernel, Metric) else np.diag(1.0 / found.kernel.length_scale)
    sizes = np.linalg.norm(T, axis=0)
    assert sizes[0] > 3 * sizes[1:].max()
    if not isinstance(kernel, Metric):
        grouped = exactly(first, held, np.array([0, 1, 0])).kernel.length_scale
        assert grouped[0] == grouped[2] != grouped[1]


def test_a_blend_of_no_rounds_keeps_the_metric_and_one_round_learns_it(held):
    X, y = held.all_rows()
    kernel = Metric(RBF(2.0), np.eye(3))
    for rounds in (0, 1):
        T = KernelBlend([kernel], rounds=rounds, random_state=0).fit(X, y).kernel_.T
        assert np.array_equal(T, np.eye(3)) == (rounds == 0)


@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_slopes_of_all_atoms_are_taken_where_few_atoms_explain_half_of_the_variance(rng, noise, monkeypatch):
    """And not where targets are mostly noise, which models with so many atoms follow."""
    asked = []
    monkeypatch.setattr(blend, "exactly", lambda *given, learn: asked.append(learn) or exactly(*given, learn=learn))
    X = rng.standard_normal((300, 3))
    y = np.sin(2 * X[:, 0]) + noise * rng.standard_normal(300)
    KernelBlend([Metric(RBF(2.0), np.eye(3))], rounds=1, random_state=0).fit(X, y)
    assert asked == [noise < 1.0]


@pytest.mark.parametrize("kernel", [RBF([1.0, 2.0]), Laplacian([1.0, 2.0]), Matern(2.0, nu=0.5), Matern(2.0)])
def test_distances_serve_every_width(rng, kernel):
    X, Y = rng.standard_normal((150, 2)), rng.standard_normal((20, 2))
    kernel = Metric(kernel, rng.standard_normal((2, 2)))
    for rows in (X, Y):  # the kernel of rows with themselves is held up to the diagonal, and is of float32
        dtype, close, held = (np.float32, 2e-6, np.tril) if rows is X else (np.float64, 1e-7, np.asarray)
        values = exact._at_widths(kernel, X, rows, *np.empty((2, len(X), len(rows)), dtype=dtype))
        for factor in (0.5, 3.0):
            np.testing.assert_allclose(held(values(factor)), held(widened(kernel, factor)(X, rows)), atol=close)


def test_a_blend_with_as_many_atoms_as_rows_has_every_row(rng):
    X = rng.standard_normal((120, 2))
    y = np.sin(3 * X[:, 0])
    model = KernelBlend([RBF("learned"), Laplacian("learned")], max_atoms=120, rounds=1, random_state=0).fit(X, y)
    for part in model.expansions_:
        np.testing.assert_array_equal(np.sort(part.atoms, axis=0), np.sort(X, axis=0))
    assert len({id(part.atoms) for part in model.expansions_}) == 1
    by_itself = KernelBlend([RBF("learned")], rounds=1, random_state=0).fit(X, y)
    assert len(by_itself.expansions_[0].atoms) == 120
    few = KernelBlend([RBF("learned"), Laplacian("learned")], max_atoms=20, rounds=1, random_state=0).fit(X, y)
    assert all(len(part.atoms) == 20 for part in few.expansions_)
