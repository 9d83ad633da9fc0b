"""What a fit warns of: columns that one width cannot serve, and searches that end at the edge of their grid."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import AutoRegressor, KernelClassifier, KernelPCA, KernelRidge
from squeak.kernels import RBF, Laplacian, Linear
from squeak.learners.tuning import alpha_grid

UNEVEN = "column 'income' spreads .* times as far as column 'age'.*one width for all.*scale the columns"


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 70, 500),
            "income": rng.gamma(2.0, 2e4, 500),
            "children": rng.integers(0, 4, 500).astype(float),
        }
    )
    frame["age"] /= 10
    return frame.drop(columns="children"), np.sin(frame["age"]).to_numpy()


@pytest.mark.parametrize("model", [KernelRidge, KernelClassifier, KernelPCA])
def test_uneven_columns_are_named_once_with_the_cure(model, people):
    X, y = people
    targets = (y > 0).astype(int) if model is KernelClassifier else y
    learner = model(kernel=RBF("median"), max_atoms=50, random_state=0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        learner.fit(X) if model is KernelPCA else learner.fit(X, targets)
    told = [warning for warning in found if "one width for all" in str(warning.message)]
    assert len(told) == 1
    with pytest.warns(UserWarning, match=UNEVEN):
        warnings.warn(told[0].message, stacklevel=1)
    assert told[0].filename == __file__  # it points at the user's line


@pytest.mark.parametrize(
    "kernel", [RBF([1.0, 1e4]), RBF("learned"), Linear()], ids=["a width for each", "learned", "no distance"]
)
def test_no_word_where_columns_have_widths_of_their_own(kernel, people):
    X, y = people
    KernelRidge(kernel, alpha=1.0, max_atoms=50, random_state=0).fit(X, y)


def test_automatic_models_tell_of_sources_that_nobody_scaled(people):
    X, y = people
    model = AutoRegressor(max_atoms=10, random_state=0)
    with pytest.warns(UserWarning, match="'income' spreads .* rows of a source are learned as they come") as found:
        model.fit(squeak.rows(X, y))
    assert [warning.filename for warning in found] == [__file__]
    model.fit(squeak.rows(X, y, scale="robust"))
    model.fit(X, y)


@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_no_word_where_rows_are_scaled(scale, people):
    X, y = people
    KernelRidge(RBF("median"), max_atoms=50, random_state=0).fit(squeak.rows(X, y, scale=scale))
    with pytest.warns(UserWarning, match=UNEVEN):
        KernelRidge(RBF("median"), max_atoms=50, random_state=0).fit(squeak.rows(X, y))


def test_constant_and_rare_columns_are_not_narrow():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.uniform(0, 255, 800), np.zeros(800), np.arange(800) % 200 == 0])
    KernelRidge(RBF("median"), max_atoms=60, random_state=0).fit(X, X[:, 0])


def test_a_target_of_noise_ends_at_the_largest_alpha():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((600, 3)), rng.standard_normal(600)
    model = KernelRidge(RBF(1.0), alpha="auto", max_atoms=60, random_state=0)
    with pytest.warns(UserWarning, match="alpha='auto' ended at the largest of its grid"):
        model.fit(X, y)
    np.testing.assert_allclose(model.alpha_, alpha_grid(1.0, 600)[-1])


def test_too_few_atoms_for_a_rough_target_end_at_the_smallest_alpha():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (2_000, 1))
    rough = KernelRidge(RBF(1.0), alpha="auto", max_atoms=8, random_state=0)
    with pytest.warns(UserWarning, match="alpha='auto' ended at the smallest of its grid.*More atoms"):
        rough.fit(X, np.sin(20 * X[:, 0]))
    KernelRidge(RBF(0.5), alpha="auto", max_atoms=60, random_state=0).fit(X, np.sin(X[:, 0]))  # nothing is left


def test_few_atoms_that_suffice_need_no_penalty_and_no_word():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (20_000, 1))
    model = KernelRidge(RBF(0.5), alpha="auto", max_atoms=40, random_state=0)
    model.fit(X, np.sin(3 * X[:, 0]) + 0.5 * rng.standard_normal(20_000))  # the error that is left is noise
    assert model.noise_[0] == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize("source", [False, True])
def test_widths_at_either_edge_are_told(source):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (2_000, 1))

    def fit(kernel, y, X=X):
        rows = (squeak.rows(X, y),) if source else (X, y)
        return KernelRidge(kernel, alpha=1e-3, max_atoms=50, random_state=0).fit(*rows)

    with pytest.warns(UserWarning, match="length_scale='auto' ended at the smallest width"):
        fit(
            RBF("auto"),
            np.sin(8 * X[:, 0]) + 0.1 * rng.standard_normal(2_000),
            X + rng.integers(0, 8, (2_000, 1)) * 9,
        )
    with pytest.warns(UserWarning, match="length_scale='auto' ended at the largest width"):
        fit(Laplacian("auto"), X[:, 0] + 0.3 * rng.standard_normal(2_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(RBF("auto"), np.sin(4 * X[:, 0]) + 0.1 * rng.standard_normal(2_000))
