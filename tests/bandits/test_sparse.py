"""BKB: a full dictionary is the exact posterior, DTC is a sum that does not starve, the sandwich of the theorem."""

import pickle

import numpy as np
import pytest

from squeak.bandits import BKB, GPUCB, BatchBKB, bkb_oversampling
from squeak.bandits.sparse import SparsePosterior
from squeak.kernels import RBF, Linear
from tests.bandits.oracles import dense_dtc, dense_posterior


@pytest.fixture
def arms(rng):
    return rng.random((150, 2))


def counted(pulls, rewards):
    pulled, counts = np.unique(pulls, return_counts=True)
    return pulled, counts.astype(float), np.bincount(pulls, weights=rewards)[pulled]


def built(kernel, arms, ridge, members, pulls, rewards):
    model = SparsePosterior(kernel, arms, ridge)
    pulled, counts, sums = counted(pulls, rewards)
    members = np.sort(members)
    model.update(members, np.ones(len(members), dtype=bool), pulled, counts, sums, pulled, counts)
    return model


def test_a_full_dictionary_is_the_exact_posterior_at_every_arm(arms, rng):
    pulls, rewards = rng.integers(0, 60, 120), rng.standard_normal(120)
    model = built(RBF(0.2), arms, 0.05, np.unique(pulls), pulls, rewards)
    mean, variance, _ = dense_posterior(RBF(0.2)(arms), pulls, rewards, 0.05)
    np.testing.assert_allclose(model.mean, mean, atol=1e-6)
    np.testing.assert_allclose(model.variance, variance, atol=1e-7)


def test_counts_are_repeated_rows_and_the_two_terms_are_those_of_the_dense_form(arms, rng):
    pulls, rewards = rng.integers(0, 60, 120), rng.standard_normal(120)
    members = np.array([3, 8, 20, 31, 44])
    model = built(RBF(0.3), arms, 0.1, members, pulls, rewards)
    mean, residual, signal = dense_dtc(RBF(0.3)(arms), members, pulls, rewards, 0.1)
    np.testing.assert_allclose(model.mean, mean, atol=1e-9)
    np.testing.assert_allclose(model.residual, residual, atol=1e-9)
    np.testing.assert_allclose(model.signal, signal, rtol=1e-8)


def test_the_sum_is_the_difference_that_the_thesis_prints(arms, rng):
    pulls = rng.integers(0, 60, 120)
    members, ridge, K = np.array([3, 8, 20, 31, 44]), 0.1, RBF(0.3)(arms)
    model = built(RBF(0.3), arms, ridge, members, pulls, np.zeros(120))
    Z = K[:, members] @ np.linalg.inv(np.linalg.cholesky(K[np.ix_(members, members)])).T
    ZtZ = Z[pulls].T @ Z[pulls]
    V = ZtZ + ridge * np.eye(5)
    difference = (K.diagonal() - np.einsum("ij,jk,ik->i", Z, ZtZ @ np.linalg.inv(V), Z)) / ridge
    np.testing.assert_allclose(model.leverage, difference, rtol=1e-9)
    assert (model.residual >= 0).all()
    assert (model.signal >= 0).all()


def test_updates_from_step_to_step_are_a_build_from_scratch(arms, rng):
    """The dictionary grows, shrinks and flickers.

    The core is kept or made anew; every state equals the dense one.
    """
    K, ridge = RBF(0.25)(arms), 0.05
    model = SparsePosterior(RBF(0.25), arms, ridge)
    pulls, rewards = [int(i) for i in rng.integers(0, 30, 5)], rng.standard_normal(5).tolist()
    told = np.array(pulls)
    for step in range(120):
        pulled, counts, sums = counted(pulls, rewards)
        sure = rng.random(len(pulled)) < 0.9 if step % 30 == 29 else pulled % 3 != 0
        stays = sure | (rng.random(len(pulled)) < 0.5)
        stays[0] = True
        distinct, times = np.unique(told, return_counts=True)
        model.update(pulled[stays], sure[stays], pulled, counts, sums, distinct, times.astype(float))
        mean, residual, signal = dense_dtc(K, pulled[stays], np.array(pulls), np.array(rewards), ridge)
        np.testing.assert_allclose(model.mean, mean, atol=1e-5)
        np.testing.assert_allclose(model.residual, residual, atol=1e-6)
        np.testing.assert_allclose(model.signal, signal, atol=1e-6)
        mean, variance = model.predict(arms)
        np.testing.assert_allclose(mean, model.mean, atol=1e-6)
        np.testing.assert_allclose(variance, model.variance, atol=1e-6)
        told = rng.integers(0, 60, 1 if step % 7 else 9)
        pulls += told.tolist()
        rewards += rng.standard_normal(len(told)).tolist()


@pytest.mark.parametrize("kernel", [RBF(0.25), Linear()])
def test_atoms_that_were_sure_leave_without_a_new_beginning(kernel, arms, rng, monkeypatch):
    """The first, the last, or four go in a step; arms that come twice, or lie in a span, take their place."""
    arms = np.vstack([arms[:40], arms[:3], arms[40:]])  # three of them come twice
    K, ridge, model = kernel(arms), 0.05, SparsePosterior(kernel, arms, 0.05)
    begun = []
    embed = SparsePosterior._embed
    monkeypatch.setattr(SparsePosterior, "_embed", lambda self, new: (begun.append(len(new)), embed(self, new)))
    pulls, rewards = list(range(45)), rng.standard_normal(45).tolist()
    told, members, left = np.arange(45), np.arange(45), 0
    for step in range(60):
        pulled, counts, sums = counted(pulls, rewards)
        distinct, times = np.unique(told, return_counts=True)
        sure = members % 7 != 6
        model.update(members, sure, pulled, counts, sums, distinct, times.astype(float))
        mean, residual, signal = dense_dtc(K, members, np.array(pulls), np.array(rewards), ridge)
        np.testing.assert_allclose(model.mean, mean, atol=1e-5)
        np.testing.assert_allclose(model.residual, residual, atol=1e-6)
        np.testing.assert_allclose(model.signal, signal, atol=1e-6)
        known, variance = model.predict(arms)
        np.testing.assert_allclose(known, model.mean, atol=1e-6)
        np.testing.assert_allclose(variance, model.variance, atol=1e-6)
        core = np.intersect1d(members[sure], model._basis)
        gone = [core[:1], core[-1:], rng.choice(core, min(4, len(core)), replace=False)][step % 3]
        left += len(gone)
        back = rng.choice(np.setdiff1d(pulled, members), min(2, len(pulled) - len(members)), replace=False)
        members = np.union1d(np.setdiff1d(members, gone), back)
        told = rng.integers(0, 60, 1 + step % 5)
        pulls += told.tolist()
        rewards += rng.standard_normal(len(told)).tolist()
    assert left >= 80
    assert begun == [39]  # of the first 45 arms every seventh was not sure


def test_atoms_in_the_span_of_others_change_nothing(rng):
    arms = np.vstack([np.eye(3), rng.standard_normal((40, 3))])
    pulls, rewards = rng.integers(0, 43, 100), rng.standard_normal(100)
    model = built(Linear(), arms, 0.5, np.arange(43), pulls, rewards)
    mean, variance, _ = dense_posterior(arms @ arms.T, pulls, rewards, 0.5)
    assert len(model.features) == 3
    np.testing.assert_allclose(model.mean, mean, atol=1e-9)
    np.testing.assert_allclose(model.variance, variance, atol=1e-9)


def test_new_atoms_in_the_span_of_others_change_nothing_from_step_to_step(rng):
    arms = np.vstack([np.eye(3), rng.standard_normal((40, 3))])
    model = SparsePosterior(Linear(), arms, 0.5)
    pulls, rewards = [], []
    for step in range(30):
        told = np.arange(step, step + 1 + step % 4)  # more and more arms, of which three span the rest
        pulls, rewards = pulls + told.tolist(), rewards + rng.standard_normal(len(told)).tolist()
        pulled, counts, sums = counted(pulls, rewards)
        sure = pulled % 4 != 3
        model.update(pulled, sure, pulled, counts, sums, told, np.ones(len(told)))
        mean, variance, _ = dense_posterior(arms @ arms.T, pulls, rewards, 0.5)
        np.testing.assert_allclose(model.mean, mean, atol=1e-9)
        np.testing.assert_allclose(model.variance, variance, atol=1e-9)
    assert len(model.features) == 3


def test_a_copy_by_pickle_goes_on_alike(arms):
    bandit = BatchBKB(arms, RBF(0.2), noise=0.1, random_state=0).run(lambda i: float(arms[i, 0]), 40)
    copy = pickle.loads(pickle.dumps(bandit))
    for each in (bandit, copy):
        each.run(lambda i: float(arms[i, 0]), 20)
    assert np.array_equal(bandit.pulls_, copy.pulls_)


@pytest.mark.parametrize("n", [6, 63, 215])
def test_sor_starves_and_dtc_does_not(n):
    """Figure 7.1: points in the left half only; the interval on the right must stay as wide as the prior's."""
    rng = np.random.default_rng(n)
    arms = np.linspace(0, 1, 400).reshape(-1, 1)
    kernel, ridge = RBF(1 / np.sqrt(200)), 0.01
    pulls = rng.integers(0, 200, n)
    model = built(
        kernel, arms, ridge, rng.choice(np.unique(pulls), min(20, len(np.unique(pulls))), False), pulls, np.zeros(n)
    )
    right = arms[:, 0] > 0.75
    exact = dense_posterior(kernel(arms), pulls, np.zeros(n), ridge)[1][right]
    assert (model.variance[right] > 0.99 * exact).all()
    assert (ridge * model.signal[right] < 0.01 * exact).all()  # SoR: the residual left out


def test_at_the_theorems_oversampling_variances_are_within_the_factor():
    """ε = ½, a = 3: σ²/3 ≤ σ̃² ≤ 3σ² at all arms and steps. One copy a hundredth as large breaks it."""

    def worst(oversampling):
        rng = np.random.default_rng(5)
        arms = rng.random((80, 2))
        f = np.sin(6 * arms[:, 0])
        bandit = BKB(arms, RBF(0.3), noise=0.3, oversampling=oversampling, random_state=5)
        ratio = 1.0
        for _ in range(150):
            arm = bandit.ask()
            bandit.tell(arm, f[arm] + 0.3 * rng.standard_normal())
            exact = dense_posterior(RBF(0.3)(arms), bandit.pulls_, bandit.rewards_, 0.09)[1]
            each = bandit.posterior()[1] ** 2 / exact
            ratio = max(ratio, each.max(), (1 / each).max())
        return ratio

    assert worst(bkb_oversampling(0.5, 0.1, 150)) <= 3.0
    assert worst(0.05) > 3.0


def test_with_theory_the_dictionary_is_every_arm_pulled_and_the_pulls_are_the_exact_ones(rng):
    arms = rng.random((100, 2))
    f = np.sin(5 * arms[:, 0]) * arms[:, 1]
    noise = 0.1 * rng.standard_normal(100)
    runs = []
    for bandit in (
        GPUCB(arms, RBF(0.4), noise=0.1, random_state=0),
        BKB(arms, RBF(0.4), noise=0.1, oversampling=bkb_oversampling(0.5, 0.1, 100), random_state=0),
    ):
        bandit.run(lambda i, b=bandit: f[i] + noise[b.n_told_], 100)
        runs.append(bandit.pulls_)
    assert np.array_equal(runs[0], runs[1])


def test_the_running_log_determinant_bounds_that_of_the_exact_posterior(rng):
    arms = rng.random((100, 2))
    bandit = BKB(arms, RBF(0.3), noise=0.2, random_state=0).run(lambda i: float(arms[i, 0]), 80)
    exact = dense_posterior(RBF(0.3)(arms), bandit.pulls_, bandit.rewards_, 0.04)[2]
    assert bandit._log_sum == pytest.approx(exact, rel=0.1)
    assert bandit._model.log_determinant(*counted(bandit.pulls_, bandit.rewards_)[:2]) >= exact - 1e-6


def test_inclusion_probabilities_are_oversampling_times_counts_times_variance():
    """4,000 draws of 20 arms, each frequency within 5 standard errors: a false alarm below 1e-4.

    A factor ½ is caught.
    """
    rng = np.random.default_rng(0)
    arms = rng.random((20, 1))
    bandit = BKB(arms, RBF(0.5), noise=0.5, oversampling=1.0, random_state=0)
    bandit.tell(np.repeat(np.arange(20), 3), np.zeros(60))
    bandit.tell([0], [0.0])
    pulled, counts = np.arange(20), bandit.counts_.astype(float)
    frozen = bandit._model.leverage.copy()
    hits = np.zeros(20)
    for _ in range(4000):
        bandit._model.signal, bandit._model.residual = frozen, np.zeros(20)
        bandit._resample(pulled[:0], np.zeros(0, dtype=int))
        hits[bandit.dictionary_.indices] += 1
    p = np.minimum(1, counts * frozen)
    error = np.sqrt(p * (1 - p) / 4000) + 1e-9
    assert (np.abs(hits / 4000 - p) < 5 * error).all()
    assert (np.abs(hits / 4000 - p / 2) > 5 * error).any()


@pytest.mark.parametrize("cls", [BKB, BatchBKB])
def test_a_dictionary_without_a_coordinate_is_silent(cls, capfd):
    """The kernel is zero at every arm: LAPACK used to complain on the standard error stream."""
    bandit = cls(np.zeros((3, 2)), Linear(), random_state=0).run(float, 5)
    assert bandit.n_told_ == 5
    assert capfd.readouterr() == ("", "")


def test_an_arm_and_one_in_its_span_leave_together():
    """The second gave no coordinate; when the first leaves, those in the span are looked at anew."""
    arms = np.array([[0.0], [0.0], [1.0], [2.0]])
    model = SparsePosterior(RBF(0.7), arms, 0.25)
    every, nothing = np.arange(4), np.zeros(0)
    told = (every, np.ones(4), np.arange(4.0))
    model.update(every, np.ones(4, dtype=bool), *told, every, np.ones(4))
    model.update(every[2:], np.ones(2, dtype=bool), *told, every[:0], nothing)
    fresh = SparsePosterior(RBF(0.7), arms, 0.25)
    fresh.update(every[2:], np.ones(2, dtype=bool), *told, every, np.ones(4))
    np.testing.assert_allclose(model.mean, fresh.mean, atol=1e-9)
    np.testing.assert_allclose(model.leverage, fresh.leverage, atol=1e-9)
