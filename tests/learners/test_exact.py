"""Every row an atom: solutions against dense ones, weights as repeated rows, walks that only go down."""

import numpy as np
import pytest

from squeak import KernelBlend
from squeak.kernels import RBF, Laplacian, Metric
from squeak.learners import exact
from squeak.learners.exact import exact_whole, exactly, shift_of, solved
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
    c = solved(K, shift, y)
    np.testing.assert_allclose((K @ c + shift[:, None] * c) / unit, y / unit, atol=1e-7)


def test_where_float32_does_not_settle_float64_solves(monkeypatch, rng):
    X = rng.standard_normal((60, 2))
    K, y, shift = Laplacian(2.0)(X, X), rng.standard_normal((60, 1)), np.full(60, 1e-3)
    expected = np.linalg.solve(K + np.diag(shift), y)
    np.testing.assert_allclose(solved(K, shift, y), expected, rtol=1e-7)
    monkeypatch.setattr(exact, "REFINEMENTS", 1)
    np.testing.assert_allclose(solved(K, shift, y), expected, rtol=1e-9)
    monkeypatch.setattr(exact, "PRECISE", np.inf)  # the twin: nothing is refined
    assert not np.allclose(solved(K, shift, y), expected, rtol=1e-3)


def test_weights_count_rows(rng):
    X, y = rng.standard_normal((30, 2)), rng.standard_normal((30, 1))
    times = rng.integers(1, 4, 30)
    many, kernel = np.repeat(X, times, axis=0), RBF(1.0)
    c = solved(kernel(X, X), shift_of(1e-2, 30, times.astype(float)), y)
    all_c = solved(kernel(many, many), shift_of(1e-2, len(many), None), np.repeat(y, times, axis=0))
    new = rng.standard_normal((5, 2))
    np.testing.assert_allclose(kernel(new, X) @ c, kernel(new, many) @ all_c, atol=1e-7)


@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(np.array([1.0, 5.0, 5.0])), Metric(RBF(1.0), np.eye(3))])
def test_the_walk_ends_no_higher_than_it_began(held, kernel):
    first = held.at(kernel)
    found = exactly(first, held)
    K = widened(first.kernel, 0.7)
    begin = np.linalg.solve(K(held.X, held.X) + first.alpha * len(held.X) * np.eye(len(held.X)), held.y)
    error = np.mean(np.square(held.y_back - K(held.X_back, held.X) @ begin).sum(axis=1))
    assert found.error <= error * (1 + 1e-9)
    np.testing.assert_allclose(found.back, found.kernel(held.X_back, held.X) @ found.coef, atol=1e-9)
    assert found.alpha in ALPHAS
    ((atoms, coef),) = exact_whole([found], held)
    assert len(atoms) == 200
    dense = found.kernel(atoms, atoms) + found.alpha * 200 * np.eye(200)
    np.testing.assert_allclose(dense @ coef, np.concatenate([held.y, held.y_back]), atol=1e-7)


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
