"""Sums of models at several sites, added: the model of all rows, also through files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import squeak
from squeak import KernelRidge
from squeak.kernels import RBF

X = np.random.default_rng(0).standard_normal((900, 2))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] + 3.0])
MODEL = KernelRidge(RBF(1.0), alpha=0.3, dictionary=X[:30])


@pytest.mark.parametrize("y", [Y[:, 0], Y], ids=["one output", "two"])
def test_merged_sums_are_those_of_all_rows(y, tmp_path):
    paths = [tmp_path / f"{number}.sqk" for number in range(3)]
    for number, path in enumerate(paths):
        clone(MODEL).fit(X[number::3], y[number::3]).save(path)
    first, *others = [squeak.load(path) for path in paths]
    merged, whole = first.merge(*others), clone(MODEL).fit(X, y)
    np.testing.assert_allclose(merged.predict(X), whole.predict(X), atol=1e-8)
    np.testing.assert_allclose(merged.noise_, whole.noise_, rtol=1e-6)
    np.testing.assert_allclose(merged.predict(X[:9], return_std=True)[1], whole.predict(X[:9], return_std=True)[1])
    with pytest.raises(ValueError, match="not known"):
        merged.predict_interval(X)
    merged.save(tmp_path / "merged.sqk")
    more = squeak.load(tmp_path / "merged.sqk").merge(first)
    twice = clone(MODEL).fit(np.vstack([X, X[::3]]), np.concatenate([y, y[::3]]))
    np.testing.assert_allclose(more.predict(X), twice.predict(X), atol=1e-7)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 0.4}, "argument 1 has the alpha 0.4"),
        ({"dictionary": X[1:31]}, "argument 1 has other atoms"),
        ({"kernel": RBF(2.0)}, "argument 1 has other atoms"),
        ({"fit_intercept": True}, "or an intercept"),
        ({"solver": "falkon"}, "holds no sums"),
    ],
)
def test_models_that_do_not_fit_together_are_refused(changes, words):
    first = clone(MODEL).fit(X, Y[:, 1])
    other = clone(MODEL).set_params(**changes).fit(X, Y[:, 1])
    before = first.dual_coef_.copy()
    with pytest.raises(ValueError, match=words):
        first.merge(other)
    assert np.array_equal(first.dual_coef_, before)


def test_other_kinds_outputs_and_intercepts_are_refused():
    first = clone(MODEL).fit(X, Y[:, 1])
    with pytest.raises(ValueError, match="other outputs"):
        first.merge(clone(MODEL).fit(X, Y))
    with pytest.raises(TypeError, match="is a KernelRidgeCV"):
        first.merge(squeak.KernelRidgeCV(alphas=[0.3], dictionary=X[:30]).fit(X, Y[:, 1]))
    with pytest.raises(ValueError, match="with an intercept"):
        clone(MODEL).set_params(fit_intercept=True).fit(X, Y[:, 1]).merge(first)


def test_models_of_rows_that_were_prepared_differently_are_refused():
    """Sites that scale or name their columns in ways of their own have other rows behind the same atoms."""
    rng = np.random.default_rng(1)
    tables = [pd.DataFrame(rng.normal(c, 1.0, (300, 2)), columns=["a", "b"]) for c in (0.0, 10.0)]
    atoms, targets = rng.uniform(-3, 3, (20, 2)), [table["a"] for table in tables]
    model = KernelRidge(RBF(1.0), alpha=0.01, dictionary=atoms)

    def fitted(table, y, **choices):
        return clone(model).fit(squeak.rows(table.assign(y=y), target="y", **choices))

    here, there = (fitted(*pair, scale="standard") for pair in zip(tables, targets, strict=True))
    with pytest.raises(ValueError, match="argument 1 were preprocessed in another way"):
        here.merge(there)
    common = here.dictionary_.preprocessing
    merged = here.merge(fitted(tables[1], targets[1], preprocessing=common))
    assert merged.feature_names_in_.tolist() == ["a", "b"]
    named, turned = clone(model).fit(tables[0], targets[0]), clone(model).fit(tables[0][["b", "a"]], targets[0])
    with pytest.raises(ValueError, match="other columns than this model, or in another order"):
        named.merge(turned)
    with pytest.raises(NotFittedError, match="not fitted"):
        here.merge(clone(model))
