"""The model of residuals' sizes: in any order of the rows, and scores in the units of what is predicted."""

import numpy as np

from squeak.kernels import RBF
from squeak.learners.spread import LEAST_SPREAD, floored, spread_of


def test_the_order_of_the_rows_tells_nothing():
    """A table may be sorted by the column on which the noise depends: its first rows are of one kind then."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 1.0, (2_000, 1)), axis=0)
    residual = (0.1 + X) * rng.standard_normal((2_000, 1))
    new = np.linspace(0.1, 1.0, 50)[:, None]
    truth = np.sqrt(2.0 / np.pi) * (0.1 + new)
    spread, _ = spread_of(RBF(0.1), X, residual, 0)
    np.testing.assert_allclose(spread.values(new), truth, rtol=0.25)
    assert spread.atoms.max() > 0.95


def test_scores_are_in_the_units_of_predictions_where_the_spread_is_least():
    """Here the spread is drawn towards its mean; what is least of it is a part of the mean all the same."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (600, 2))
    residual = np.where(X[:, :1] < 0.85, 0.05, 1.0) * rng.standard_t(3, (600, 1))
    spread, scores = spread_of(RBF(0.3), X, residual, 0)
    quiet = X[:, 0] < 0.6
    units, least = np.abs(residual / scores)[quiet], LEAST_SPREAD * np.abs(residual).mean()
    predicted = floored(spread.values(X), spread.intercept)[quiet]
    np.testing.assert_allclose(np.median(units), np.median(predicted), rtol=0.02)
    np.testing.assert_allclose(units.min(), least)
    np.testing.assert_allclose(predicted.min(), least)
