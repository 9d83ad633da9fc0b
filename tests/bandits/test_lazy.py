"""Most arms' updates may be put off: the arm chosen is the same."""

import numpy as np
import pytest

from squeak.bandits import GPUCB
from squeak.bandits.exact import ExactPosterior
from squeak.bandits.lazy import LIMIT, LazyPosterior
from squeak.kernels import RBF


@pytest.fixture
def arms():
    return np.random.default_rng(0).random((3_000, 2))


def play(model, twin, arms, steps, *, beta=3.0, surprise=1.0):
    """Pull what the lazy model asks for; return how far each choice is below the best of its dense twin."""
    rng = np.random.default_rng(1)
    active = np.ones(len(arms), dtype=bool)
    active[rng.choice(len(arms), 500, replace=False)] = False
    truth = np.sin(7 * arms).sum(axis=1)
    gaps, settled = [], 0
    for _ in range(steps):
        before = model._n
        arm = model.best(beta * np.sqrt(model.ridge), active, [])
        settled += model._n < before
        scores = np.where(active, twin.mean + beta * np.sqrt(twin.variance), -np.inf)
        gaps.append(float(scores.max() - scores[arm]))
        reward = truth[arm] + surprise * rng.standard_normal()
        model.observe(arm, reward)
        twin.observe(arm, reward)
    return np.array(gaps), settled


@pytest.mark.parametrize("surprise", [0.1, 3.0])
def test_the_arm_chosen_is_the_best_of_all(arms, surprise):
    model, twin = LazyPosterior(RBF(0.15), arms, 0.01), ExactPosterior(RBF(0.15), arms, 0.01)
    gaps, _ = play(model, twin, arms, 300, surprise=surprise)
    assert gaps.max() < 1e-8
    np.testing.assert_allclose(model.mean, twin.mean, atol=1e-7)
    np.testing.assert_allclose(model.variance, twin.variance, atol=1e-8)
    assert model.logdet == pytest.approx(twin.logdet)


def test_a_bound_without_the_rewards_surprise_would_choose_wrongly(arms, monkeypatch):
    """The twin of the test above: with ρ = 0 the bound does not hold."""
    model, twin = LazyPosterior(RBF(0.15), arms, 0.01), ExactPosterior(RBF(0.15), arms, 0.01)
    plain = LazyPosterior.observe

    def forgetful(self, *pull):
        plain(self, *pull)
        self._rho = 0.0

    monkeypatch.setattr(LazyPosterior, "observe", forgetful)
    gaps, _ = play(model, twin, arms, 300, beta=1.0, surprise=3.0)
    assert gaps.max() > 0.01


def test_most_steps_need_no_look_at_all_arms(arms):
    model, twin = LazyPosterior(RBF(0.15), arms, 0.01), ExactPosterior(RBF(0.15), arms, 0.01)
    _, settled = play(model, twin, arms, 300, surprise=0.1)
    assert settled <= 150


def test_reading_the_posterior_changes_nothing(arms):
    truth = np.sin(7 * arms).sum(axis=1)
    bandits = [GPUCB(arms, RBF(0.15), noise=0.1, random_state=0) for _ in range(2)]
    for step in range(3 * LIMIT):
        asked = [bandit.ask() for bandit in bandits]
        assert asked[0] == asked[1]
        for bandit in bandits:
            bandit.tell(asked[0], truth[asked[0]])
        if step % 5 == 0:
            bandits[0].posterior()
            bandits[0].posterior(arms[:3])
    np.testing.assert_array_equal(bandits[0].posterior()[0], bandits[1].posterior()[0])


def test_saved_with_pulls_put_off_it_goes_on_in_the_same_bits(arms, tmp_path):
    truth = np.sin(7 * arms).sum(axis=1)
    bandit = GPUCB(arms, RBF(0.15), noise=0.1, random_state=0).run(lambda i: truth[i], LIMIT + 7)
    assert bandit._model._n > 0
    bandit.save(tmp_path / "b.sqk")
    again = GPUCB.load(tmp_path / "b.sqk")
    for model in (bandit, again):
        model.run(lambda i: truth[i], 2 * LIMIT)
    np.testing.assert_array_equal(bandit.pulls_, again.pulls_)
    np.testing.assert_array_equal(bandit.posterior()[0], again.posterior()[0])


def test_a_tiny_ridge_is_still_the_posterior():
    arms = np.random.default_rng(2).random((600, 1))
    model, fresh = LazyPosterior(RBF(0.3), arms, 1e-8), ExactPosterior(RBF(0.3), arms, 1e-8)
    active = np.ones(600, dtype=bool)
    for _ in range(60):
        arm = model.best(2e-4, active, [])
        model.observe(arm, float(np.sin(5 * arms[arm, 0])))
    fresh.rebuild(model.pulled, model.counts, model.sums)
    np.testing.assert_allclose(model.mean, fresh.mean, atol=1e-4)
    np.testing.assert_allclose(model.variance, fresh.variance, atol=1e-6)
