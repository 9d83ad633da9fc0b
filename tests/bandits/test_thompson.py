"""Exact Thompson sampling draws from the posterior; a coin for each pull gives the printed chance of inclusion.

Moments of 3,000 draws over 8 arms, 8 + 36 comparisons at 5 standard errors; 1,500 dictionaries of 12 arms likewise:
false alarms below 1e-4 together.
"""

import numpy as np
import pytest

from squeak.bandits import BKB, ThompsonSampling
from squeak.core.kernels import gram
from squeak.kernels import RBF

RUNS = 3000


@pytest.fixture
def told():
    arms = np.linspace(0, 1, 8).reshape(-1, 1)
    bandit = ThompsonSampling(arms, RBF(0.3), noise=0.4, prior_mean=0.5, random_state=0)
    bandit.tell([1, 1, 1, 4, 6], [0.3, 0.7, 0.4, -0.2, 1.0])
    return bandit


def posterior(K, pulls, rewards, noise):
    """The Gaussian process by its definition, one row for every pull."""
    M = K[np.ix_(pulls, pulls)] + noise**2 * np.eye(len(pulls))
    return K[:, pulls] @ np.linalg.solve(M, rewards), K - K[:, pulls] @ np.linalg.solve(M, K[pulls])


def off(draws, mean, covariance):
    """Tell whether the draws' moments are not those given."""
    error = np.sqrt(np.diag(covariance) / RUNS)
    found = np.cov(draws.T)
    spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / RUNS)
    return (np.abs(draws.mean(axis=0) - mean) > 5 * error).any() or (np.abs(found - covariance) > 5 * spread).any()


def test_draws_have_the_posteriors_mean_and_covariance(told, monkeypatch):
    K = gram(RBF(0.3), told.arms_)
    dense = posterior(K, told.pulls_, told.rewards_ - 0.5, 0.4)
    assert not off(np.array([told._draw() for _ in range(RUNS)]), *dense)
    monkeypatch.setattr(told._model, "ridge", 0.0)  # the twin: the noise of the rewards is left out of the draw
    assert off(np.array([told._draw() for _ in range(RUNS)]), *dense)


def test_the_arm_pulled_is_the_best_of_a_draw_and_new_arms_join(told):
    arms = [told._choose(None)[0] for _ in range(300)]
    assert len(set(arms)) > 4
    told.add_arms(np.array([[2.0], [3.0]]))
    assert len(told._draw()) == 10
    told.retire(np.arange(9))
    assert told.ask() == 9


def test_a_coin_for_each_pull_is_the_printed_chance(monkeypatch):
    arms = np.random.default_rng(0).random((12, 1))
    bandit = BKB(arms, RBF(0.5), noise=0.5, oversampling=1.0, coins="pull", random_state=0)
    bandit.tell(np.repeat(np.arange(12), np.arange(1, 13)), np.zeros(78))
    counts, frozen = bandit.counts_, bandit._model.leverage.copy()
    hits = np.zeros(12)
    monkeypatch.setattr(bandit, "_update", lambda members, *_: np.add.at(hits, members, 1))
    for _ in range(1500):
        bandit._resample(np.arange(0), np.zeros(0, dtype=int))
    p = 1 - (1 - np.minimum(1, frozen)) ** counts
    error = np.sqrt(p * (1 - p) / 1500) + 1e-9
    assert (np.abs(hits / 1500 - p) < 5 * error).all()
    by_arm = np.minimum(1, counts * frozen)  # the twin: one coin an arm
    assert (p <= by_arm + 1e-12).all()
    assert (np.abs(hits / 1500 - by_arm) > 5 * error).any()
    with pytest.raises(ValueError, match="coins must be"):
        BKB(arms, RBF(0.5), coins="two")
