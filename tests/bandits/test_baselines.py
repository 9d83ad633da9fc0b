"""What bandits are compared with, against dense formulas."""

import numpy as np
import pytest
from scipy.stats import norm

from squeak.bandits import (
    GPBUCB,
    DictionaryThompson,
    ExpectedImprovement,
    ProbabilityOfImprovement,
    RandomFeatureUCB,
    UniformArms,
    baselines,
)
from squeak.kernels import RBF
from tests.bandits.oracles import dense_posterior

NOISE = 0.3


@pytest.fixture
def told(rng):
    """Return a function that makes a bandit of 30 arms which was told 12 rewards, and those."""
    arms = rng.random((30, 2))
    pulls = rng.integers(0, 30, 12)
    rewards = np.sin(5 * arms[pulls, 0]) + NOISE * rng.standard_normal(12)

    def make(cls, **params):
        bandit = cls(arms, RBF(0.4), noise=NOISE, random_state=0, **params)
        bandit.tell(pulls, rewards)
        return bandit

    return make, RBF(0.4)(arms), pulls, rewards


def moments(K, pulls, rewards):
    M = K[np.ix_(pulls, pulls)] + NOISE**2 * np.eye(len(pulls))
    mean = K[:, pulls] @ np.linalg.solve(M, rewards)
    return mean, np.sqrt(np.diag(K - K[:, pulls] @ np.linalg.solve(M, K[pulls])))


def test_the_arm_of_the_largest_improvement_is_pulled(told):
    make, K, pulls, rewards = told
    mean, std = moments(K, pulls, rewards)
    best = mean[np.unique(pulls)].max()
    z = (mean - best) / std
    assert make(ExpectedImprovement).ask() == np.argmax(std * (z * norm.cdf(z) + norm.pdf(z)))
    assert make(ProbabilityOfImprovement).ask() == np.argmax(norm.cdf((mean - best - 0.1 * NOISE) / std))


def test_a_batch_of_gp_bucb_is_the_greedy_one_with_hallucinated_means(told):
    make, K, pulls, rewards = told
    bandit = make(GPBUCB, batch_size=5, beta=2.0)
    mean, _ = moments(K, pulls, rewards)
    chosen = []
    for _ in range(5):
        everything = np.concatenate([pulls, chosen]).astype(int)
        chosen.append(int(np.argmax(mean + 2.0 * moments(K, everything, np.zeros(len(everything)))[1])))
    assert bandit.ask().tolist() == chosen


def test_random_features_are_bayesian_linear_regression(told):
    make, _, pulls, rewards = told
    bandit = make(RandomFeatureUCB, n_features=40)
    Z = bandit._model.features.T
    V = Z[pulls].T @ Z[pulls] + NOISE**2 * np.eye(40)
    mean, std = bandit.posterior()
    np.testing.assert_allclose(mean, Z @ np.linalg.solve(V, Z[pulls].T @ rewards), atol=1e-8)
    variance = NOISE**2 * np.einsum("ij,ij->i", Z @ np.linalg.inv(V), Z)
    np.testing.assert_allclose(std, np.sqrt(variance), atol=1e-8)


def test_draws_on_a_dictionary_have_the_moments_of_dtc(told, monkeypatch):
    """2,000 draws at 30 arms, mean and variance within 5 standard errors: a false alarm below 1e-4."""
    make, K, pulls, rewards = told
    bandit = make(DictionaryThompson, oversampling=1e6)  # every arm pulled is in the dictionary: DTC is exact
    mean, variance = dense_posterior(K, pulls, rewards, NOISE**2)[:2]
    seen = []
    monkeypatch.setattr(baselines, "highest", lambda sample, active: seen.append(sample) or 0)
    for _ in range(2000):
        bandit._choose(None)
    draws = np.array(seen)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / 2000)).all()
    assert (np.abs(draws.var(axis=0) - variance) < 5 * variance * np.sqrt(2 / 2000)).all()


@pytest.mark.filterwarnings("ignore:the first rewards are")
def test_uniform_arms_are_uniform():
    bandit = UniformArms(np.eye(8), random_state=0).run(lambda arm: float(arm), 800)
    assert (np.abs(np.bincount(bandit.pulls_, minlength=8) - 100) < 5 * np.sqrt(100 * 7 / 8)).all()
