"""GP-UCB on counts is the dense Gaussian process, whatever the order and number of the pulls."""

import numpy as np
import pytest

from squeak.bandits import GPUCB
from squeak.bandits.exact import ExactPosterior
from squeak.kernels import RBF, Matern
from tests.bandits.oracles import dense_posterior, spec_incremental
from tests.conftest import real_rows


@pytest.fixture
def arms(rng):
    return rng.random((120, 2))


@pytest.mark.parametrize("ridge", [1e-2, 1.0])
@pytest.mark.parametrize("kernel", [RBF(0.3), 4.0 * Matern(0.5, nu=2.5)])
def test_incremental_is_dense_at_every_step(arms, rng, kernel, ridge):
    K = kernel(arms)
    model = ExactPosterior(kernel, arms, ridge)
    pulls, rewards = rng.integers(0, 25, 80), rng.standard_normal(80)  # 25 arms: many repeats
    for t in range(80):
        model.observe(int(pulls[t]), float(rewards[t]))
        mean, variance, logdet = dense_posterior(K, pulls[: t + 1], rewards[: t + 1], ridge)
        np.testing.assert_allclose(model.mean, mean, atol=1e-10)
        np.testing.assert_allclose(model.variance, variance, atol=1e-11)
        assert model.logdet == pytest.approx(logdet, rel=1e-11)
    assert model.size == len(np.unique(pulls))


def test_counts_are_the_specifications_update_with_a_vector_a_pull(arms, rng):
    pulls, rewards = rng.integers(0, 40, 200), rng.standard_normal(200)
    model = ExactPosterior(RBF(0.2), arms, 0.05)
    for i, y in zip(pulls, rewards, strict=True):
        model.observe(int(i), float(y))
    mean, variance, logdet = spec_incremental(RBF(0.2)(arms), pulls, rewards, 0.05)
    np.testing.assert_allclose(model.mean, mean, atol=1e-10)
    np.testing.assert_allclose(model.variance, variance, atol=1e-11)
    assert model.logdet == pytest.approx(logdet, rel=1e-11)


def test_rounding_does_not_add_up_over_thousands_of_pulls(arms, rng):
    pulls, rewards = rng.integers(0, 60, 3000), rng.standard_normal(3000)
    model = ExactPosterior(RBF(0.3), arms, 0.01)
    for i, y in zip(pulls, rewards, strict=True):
        model.observe(int(i), float(y))
    again = ExactPosterior(RBF(0.3), arms, 0.01)
    distinct, counts = np.unique(pulls, return_counts=True)
    again.rebuild(distinct, counts.astype(float), np.bincount(pulls, weights=rewards)[distinct])
    np.testing.assert_allclose(model.mean, again.mean, atol=1e-8)
    np.testing.assert_allclose(model.variance, again.variance, rtol=1e-6, atol=1e-11)
    assert model.logdet == pytest.approx(again.logdet, rel=1e-10)


def test_many_at_once_is_one_by_one(arms, rng):
    pulls, rewards = rng.integers(0, 120, 300), rng.standard_normal(300)
    one, many = (GPUCB(arms, RBF(0.3), noise=0.2, prior_mean=0.5, random_state=0) for _ in range(2))
    for i, y in zip(pulls, rewards, strict=True):
        one.tell(i, y)
    many.tell(pulls, rewards)
    for a, b in zip(one.posterior(), many.posterior(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    assert one.beta_ == pytest.approx(many.beta_, rel=1e-9)


def test_posterior_elsewhere_is_the_posterior_of_an_arm_there(arms, rng):
    bandit = GPUCB(arms, RBF(0.3), noise=0.1, prior_mean=1.0, random_state=0)
    bandit.tell(rng.integers(0, 120, 40), rng.standard_normal(40))
    for at_arms, anywhere in zip(bandit.posterior(), bandit.posterior(arms), strict=True):
        np.testing.assert_allclose(at_arms, anywhere, atol=1e-7)


def test_asked_arms_are_the_argmax_of_the_dense_bound(arms, rng):
    f, K, noise = np.sin(5 * arms[:, 0]) + arms[:, 1], RBF(0.3)(arms), 0.1
    bandit = GPUCB(arms, RBF(0.3), noise=noise, norm=2.0, delta=0.05, beta="logdet", random_state=3)
    for t in range(60):
        arm = bandit.ask()
        if t:
            mean, variance, logdet = dense_posterior(K, bandit.pulls_, bandit.rewards_, noise**2)
            beta = noise * 2.0 + noise * np.sqrt(logdet + 2 * np.log(1 / 0.05))  # ridge-leverage units
            assert beta / noise == pytest.approx(bandit.beta_, rel=1e-9)
            bound = mean + beta * np.sqrt(variance / noise**2)
            assert bound[arm] == pytest.approx(bound.max(), abs=1e-7)
        bandit.tell(arm, f[arm] + noise * rng.standard_normal())


def test_pending_pulls_lower_the_variance_as_if_they_were_told(arms, rng):
    bandit = GPUCB(arms, RBF(0.3), noise=0.1, random_state=0)
    bandit.tell(rng.integers(0, 120, 10), rng.standard_normal(10))
    asked = [bandit.ask() for _ in range(6)]
    K = RBF(0.3)(arms)
    pulls = bandit.pulls_
    for n in range(1, 6):
        _, variance, _ = dense_posterior(K, np.append(pulls, asked[:n]), np.zeros(len(pulls) + n), 0.01)
        mean, _ = bandit.posterior()
        bound = mean + bandit.beta_ * np.sqrt(variance)
        assert bound[asked[n]] == pytest.approx(bound.max(), abs=1e-8)
    for arm in reversed(asked):
        bandit.tell(arm, 0.0)
    assert len(bandit.pending_) == 0


def test_variance_is_right_where_it_is_tiny_and_where_it_is_large():
    arms = np.array([[0.0], [1e-4], [50.0]])
    bandit = GPUCB(arms, RBF(1.0), noise=1e-3, random_state=0)
    bandit.tell([0] * 50, np.ones(50))
    _, std = bandit.posterior()
    assert std[0] == pytest.approx(1e-3 / np.sqrt(50), rel=1e-4)
    assert std[2] == 1.0


def test_on_abalone_the_posterior_after_300_steps_is_dense():
    X = real_rows("abalone")
    f = np.sin(X).sum(axis=1) / 3
    rng = np.random.default_rng(0)
    bandit = GPUCB(X, RBF(3.0), noise=0.1, random_state=0).run(lambda i: f[i] + 0.1 * rng.standard_normal(), 300)
    some = np.unique(np.concatenate([bandit.pulls_, np.arange(0, len(X), 40)]))
    place = {arm: j for j, arm in enumerate(some)}
    K = RBF(3.0)(X[some])
    pulls = np.array([place[i] for i in bandit.pulls_])
    mean, variance, _ = dense_posterior(K, pulls, bandit.rewards_, 0.01)
    got_mean, got_std = bandit.posterior()
    np.testing.assert_allclose(got_mean[some], mean, atol=1e-7)
    np.testing.assert_allclose(got_std[some] ** 2, variance, atol=1e-8)


def test_intervals_cover_f_for_all_arms_and_steps():
    """200 runs at δ = 0.1: more than 20 + 4.2·√18 = 38 bad runs has probability below 1e-4.

    A tenth of the width is caught.
    """

    def bad_runs(factor):
        bad = 0
        for seed in range(200):
            rng = np.random.default_rng(seed)
            arms = rng.random((40, 1))
            K = RBF(0.2)(arms)
            coefficients = rng.standard_normal(40)
            f = K @ coefficients
            norm = np.sqrt(coefficients @ f)
            bandit = GPUCB(arms, RBF(0.2), noise=0.5, norm=norm, delta=0.1, beta="logdet", random_state=seed)
            covered = True
            for _ in range(25):
                arm = bandit.ask()
                bandit.tell(arm, f[arm] + 0.5 * rng.standard_normal())
                mean, std = bandit.posterior()
                covered &= bool(np.all(np.abs(f - mean) <= factor * bandit.beta_ * std + 1e-9))
            bad += not covered
        return bad

    assert bad_runs(1.0) <= 38
    assert bad_runs(0.1) > 150
