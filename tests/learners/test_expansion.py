"""Sums of kernel functions: against the formula, through files, and from damaged ones."""

import numpy as np
import pytest

from squeak import KernelClassifier, KernelRidge
from squeak.core.saved import Given
from squeak.kernels import RBF, Laplacian, Matern, Metric, PairwiseKernel
from squeak.learners.expansion import Expansion, ExpansionsPiece, total

PIECE = ExpansionsPiece()


@pytest.fixture
def some(rng):
    """Return functions of three columns: widths by column, a map, and different numbers of atoms."""
    kernels = [
        RBF(1.5),
        Laplacian(np.array([1.0, 2.0, 0.5])),
        Metric(RBF(2.0), rng.standard_normal((2, 3))),
        Metric(Matern(np.array([1.0, 3.0]), nu=0.5), rng.standard_normal((2, 3))),
    ]
    sizes = [5, 1, 4, 7]
    return [
        Expansion(k, rng.standard_normal((m, 3)), rng.standard_normal((m, 2)), rng.standard_normal(2))
        for k, m in zip(kernels, sizes, strict=True)
    ]


def put_back(arrays, content):
    return PIECE.give("f", Given(arrays, content, None, {}))


def test_values_are_those_of_the_formula(some, rng):
    X = rng.standard_normal((20, 3))
    for one in some:
        np.testing.assert_allclose(one.values(X), one.kernel(X, one.atoms) @ one.coef + one.intercept, atol=1e-12)
        np.testing.assert_allclose(one.times(0.3).values(X), 0.3 * one.values(X), atol=1e-12)
    np.testing.assert_allclose(total(some, X), sum(one.values(X) for one in some), atol=1e-12)
    assert total(some, X[:0]).shape == (0, 2)


def test_a_fitted_model_is_its_expansion(rng):
    X = rng.standard_normal((60, 3))
    y = np.c_[X[:, 0], X[:, 1] ** 2]
    for targets in (y, y[:, 0]):
        model = KernelRidge(RBF(1.0), 0.1, max_atoms=20, fit_intercept=True, random_state=0).fit(X, targets)
        np.testing.assert_allclose(
            Expansion.of(model).values(X).reshape(targets.shape), model.predict(X), atol=1e-9
        )
    for classes in (X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5])):
        decided = KernelClassifier(RBF(1.0), max_atoms=20, random_state=0).fit(X, classes)
        values = Expansion.of(decided).values(X)
        np.testing.assert_allclose(
            values.reshape(decided.decision_function(X).shape), decided.decision_function(X), atol=1e-9
        )


def test_they_come_back_from_a_file_in_the_same_bits(some, rng):
    X = rng.standard_normal((20, 3))
    again = put_back(*PIECE.take("f", some))
    assert len(again) == len(some)
    for one, two in zip(some, again, strict=True):
        assert type(one.kernel) is type(two.kernel)
        np.testing.assert_array_equal(two.values(X), one.values(X))


def test_a_kernel_that_is_code_cannot_be_saved():
    code = Expansion(PairwiseKernel(lambda a, b: 1.0), np.ones((1, 1)), np.ones((1, 1)), np.zeros(1))
    with pytest.raises(TypeError, match="code"):
        PIECE.take("f", [code])


def without(name):
    return lambda arrays, content: arrays.pop(name)


def put(name, change):
    return lambda arrays, content: arrays.update({name: change(arrays[name])})


def kernels(change):
    return lambda arrays, content: content.update(f=change(content["f"]))


def place(**values):
    """Return a change of where the widths of the second kernel lie among the numbers of all."""

    def change(found):
        found[1]["params"]["length_scale"] = {**found[1]["params"]["length_scale"], **values}
        return found

    return kernels(change)


DAMAGES = {
    "no sizes": without("f_sizes"),
    "no atoms": without("f_atoms"),
    "no coefficients": without("f_coef"),
    "no intercepts": without("f_intercepts"),
    "no numbers": without("f_numbers"),
    "sizes that do not add up": put("f_sizes", lambda x: x + 1),
    "a part without atoms": put("f_sizes", lambda x: x - x.min()),
    "negative sizes": put("f_sizes", lambda x: -x),
    "huge sizes": put("f_sizes", lambda x: x + 2**62),
    "fewer sizes": put("f_sizes", lambda x: x[:-1]),
    "fewer coefficients": put("f_coef", lambda x: x[:-1]),
    "other outputs": put("f_intercepts", lambda x: x[:, :1]),
    "coefficients that are no numbers": put("f_coef", lambda x: x * np.nan),
    "other columns": put("f_atoms", lambda x: x[:, :2]),
    "fewer numbers": put("f_numbers", lambda x: x[:-1]),
    "widths of nought": put("f_numbers", lambda x: 0 * x),
    "no kernels": kernels(lambda found: []),
    "kernels of another form": kernels(lambda found: "RBF"),
    "fewer kernels": kernels(lambda found: found[:-1]),
    "no kernel": kernels(lambda found: [None, *found[1:]]),
    "begins before": place(begin=-1),
    "begins behind": place(begin=10**9),
    "begins nowhere": place(begin="0"),
    "a huge shape": place(shape=[2**40, 2**40]),
    "a negative shape": place(shape=[-1, -3]),
    "a shape of truth values": place(shape=[True, 3]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_ones_are_refused(some, damage):
    arrays, content = PIECE.take("f", some)
    DAMAGES[damage](arrays, content)
    with pytest.raises((ValueError, TypeError, KeyError)):
        put_back(arrays, content)
