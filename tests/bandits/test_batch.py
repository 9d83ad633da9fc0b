"""Batched BKB: the chain of ratios, lazy refresh, single pulls as the factor goes to 1."""

import numpy as np
import pytest

from squeak.bandits import BKB, GPBUCB, GPUCB, AutoUCB, BatchBKB, baselines, batch_bkb, regret
from squeak.bandits.batch_bkb import Batch
from squeak.kernels import RBF
from tests.bandits.oracles import dense_posterior


@pytest.fixture
def problem(rng):
    arms = rng.random((300, 2))
    return arms, np.sin(6 * arms[:, 0]) + np.cos(5 * arms[:, 1])


def started(problem, seed=0, **params):
    arms, f = problem
    bandit = BatchBKB(arms, RBF(0.25), noise=0.1, random_state=seed, **{"max_batch": 10_000, **params})
    some = np.random.default_rng(seed).integers(0, len(arms), 30)
    bandit.tell(some, f[some])
    return bandit


def full_refresh(bandit, active):
    """Return a batch by the global rule, every variance made anew after every arm."""
    width = bandit.beta_ * bandit.noise_  # it also brings the dictionary up to date
    model = bandit._model
    Z, at_feedback = model.features, model.leverage
    V, total, chosen, ratios = np.linalg.inv(model.solver), 1.0, [], []
    while total <= bandit.batch_factor:
        variance = model.residual + np.einsum("ij,ij->j", Z, np.linalg.solve(V, Z))
        ratios.append((at_feedback / variance, total))
        arm = int(np.argmax(np.where(active, model.mean + width * np.sqrt(variance), -np.inf)))
        chosen.append(arm)
        total += at_feedback[arm]
        V += np.outer(Z[:, arm], Z[:, arm])
    return chosen, ratios


@pytest.mark.parametrize("factor", [1.3, 2.0, 3.0])
def test_lazy_refresh_picks_the_arms_of_a_full_refresh(problem, factor, rng):
    _, f = problem
    bandit = started(problem, batch_factor=factor)
    bandit.retire([5, 6, 7])
    sizes = []
    while bandit.n_told_ < 500 and len(sizes) < 40:
        expected, _ = full_refresh(bandit, bandit.active_)
        batch = bandit.ask()
        assert batch.tolist() == expected
        sizes.append(len(batch))
        bandit.tell(batch, f[batch] + 0.1 * rng.standard_normal(len(batch)))
    assert max(sizes) > 2 or factor < 2


def test_the_chain_of_ratios_holds_for_exact_variances(problem, rng):
    """σ²_fb/σ²_t ≤ 1 + Σ k_fb(x, x_s)²/σ²_fb(x) ≤ 1 + Σ σ²_fb(x_s) ≤ Π(1 + σ²_{s−1}(x_s)), at every arm."""
    arms, _ = problem
    K, ridge = RBF(0.25)(arms), 0.1
    for seed in range(20):
        draw = np.random.default_rng(seed)
        before, batch = draw.integers(0, 300, 20), draw.integers(0, 300, 8)
        inverse = np.linalg.inv(K[np.ix_(before, before)] + ridge * np.eye(20))
        covariance = (K - K[:, before] @ inverse @ K[before]) / ridge
        at_feedback = covariance.diagonal()
        now = dense_posterior(K, np.append(before, batch), np.zeros(28), ridge)[1] / ridge
        local = 1 + (covariance[:, batch] ** 2).sum(axis=1) / at_feedback
        total = 1 + at_feedback[batch].sum()
        product = np.linalg.det(np.eye(8) + covariance[np.ix_(batch, batch)])
        assert (at_feedback / now <= local * (1 + 1e-9)).all()
        assert (local <= total * (1 + 1e-9)).all()
        assert total <= product * (1 + 1e-9)
        assert (at_feedback / now).max() > 1.01  # something fell


def test_variances_of_a_batch_never_fall_by_more_than_the_sum_says(problem):
    bandit = started(problem, batch_factor=3.0)
    _, ratios = full_refresh(bandit, bandit.active_)
    for ratio, total in ratios:
        assert ratio.max() <= total * (1 + 1e-9)


def test_the_local_bound_is_tighter_and_its_batches_larger(problem):
    bandit = started(problem)
    batch = bandit.ask()
    state = Batch(bandit._model, 1.0, bandit.active_)
    for arm in batch:
        state.add(int(arm))
    assert 1.0 < state.largest_ratio(batch.tolist()) <= state.sum
    assert len(started(problem, stopping="local").ask()) >= len(batch)


def test_as_the_factor_goes_to_one_batches_are_single_pulls_of_bkb(problem):
    _, f = problem
    batched, single = started(problem, batch_factor=1 + 1e-9), BKB(problem[0], RBF(0.25), noise=0.1, random_state=0)
    some = np.random.default_rng(0).integers(0, 300, 30)
    single.tell(some, f[some])
    batched.posterior()  # draws a dictionary, as the other did after its rewards
    for _ in range(40):
        one = batched.ask()
        assert len(one) == 1
        assert one[0] == single.ask()
        batched.tell(one, f[one])
        batched.posterior()
        single.tell(one[0], f[one[0]])


def test_the_number_of_batches_is_bounded_by_the_sum_of_variances(problem, rng):
    _, f = problem
    bandit, total = started(problem), 0.0
    batches = 0
    while bandit.n_told_ < 400:
        variance = bandit.posterior()[1] ** 2 / bandit.ridge_
        batch = bandit.ask()
        total += variance[batch].sum()
        batches += 1
        bandit.tell(batch, f[batch] + 0.1 * rng.standard_normal(len(batch)))
    assert batches <= 1 + total / (bandit.batch_factor - 1)
    assert batches == bandit.n_batches_
    assert batches < 200


def test_max_batch_and_the_steps_of_run_are_kept(problem):
    _, f = problem
    bandit = started(problem, batch_factor=1000.0, max_batch=3)
    assert len(bandit.ask()) == 3
    other = started(problem, batch_factor=1000.0)
    assert other.run(lambda i: f[i], 7).n_told_ == 37


def test_by_default_batches_are_bounded_and_their_regret_is_that_of_single_pulls():
    """Three seeds of 400 pulls beside BKB; batches without the limit, the mutated twin, are of hundreds."""
    draw = np.random.default_rng(0)
    arms = draw.random((200, 2))
    f = np.linalg.cholesky(RBF(0.2)(arms) + 1e-8 * np.eye(200)) @ draw.standard_normal(200)

    def run(make):
        lost, largest = [], []
        for seed in range(3):
            rng, bandit, sizes = np.random.default_rng(seed), make(seed), []
            while bandit.n_told_ < 400:
                told, batch = bandit.n_told_, np.atleast_1d(bandit.ask())
                sizes.append(len(batch) / max(8, told / 10))
                bandit.tell(batch, f[batch] + 0.3 * rng.standard_normal(len(batch)))
            lost.append(regret(f, bandit.pulls_[:400]).cumulative[-1])
            largest.append(max(sizes))
        return np.mean(lost), max(largest)

    single = run(lambda seed: BKB(arms, RBF(0.2), noise=0.3, random_state=seed))[0]
    batched, largest = run(lambda seed: BatchBKB(arms, RBF(0.2), noise=0.3, random_state=seed))
    assert largest <= 1
    assert batched < 1.25 * single
    assert run(lambda seed: BatchBKB(arms, RBF(0.2), noise=0.3, max_batch=10_000, random_state=seed))[1] > 3


def test_asking_again_counts_what_is_pending(problem):
    bandit = started(problem, batch_factor=4.0)
    first = bandit.ask()
    again = bandit.ask()
    assert len(again) == 1  # the batch is full: one more, for a machine that is idle
    assert len(bandit.pending_) == len(first) + 1
    bandit.tell(again, np.zeros(1))
    bandit.forget(first)
    assert len(bandit.pending_) == 0


def test_regret_of_batches_is_that_of_the_exact_algorithm(problem):
    """Four seeds of 300 steps; the medians within 10%; one coin for each unit of score is caught."""
    _, f = problem

    def median(make):
        found = []
        for seed in range(4):
            rng = np.random.default_rng(seed)
            bandit = make(seed).run(lambda i, rng=rng: f[i] + 0.1 * rng.standard_normal(), 300)
            found.append(regret(f, bandit.pulls_).relative)
        return np.median(found)

    arms, shared = problem[0], {"noise": 0.1, "beta": "logdet"}
    exact = median(lambda s: GPUCB(arms, RBF(0.25), random_state=s, **shared))
    batched = median(lambda s: BatchBKB(arms, RBF(0.25), random_state=s, **shared))
    auto = median(lambda s: AutoUCB(arms, RBF(0.25), crossover=30, repeats=1, random_state=s, **shared))
    poor = median(lambda s: BatchBKB(arms, RBF(0.25), oversampling=0.1, random_state=s, **shared))
    assert batched <= 1.1 * exact
    assert auto <= 1.1 * exact
    assert poor > 1.1 * exact


@pytest.fixture
def forty_arms():
    return np.random.default_rng(0).random((40, 2))


@pytest.mark.parametrize(
    "make", [lambda X: BatchBKB(X, RBF(0.3), batch_factor=50.0), lambda X: GPBUCB(X, RBF(0.3))]
)
@pytest.mark.parametrize("bad", [None, "x", 1e300, [1.0, 2.0]], ids=str)
def test_one_bad_reward_in_a_batch_does_not_take_the_good_ones_with_it(forty_arms, make, bad):
    bandit = make(forty_arms)
    bandit.tell(np.arange(40), np.zeros(40))
    calls = []

    def reward(arm):
        calls.append(arm)
        return bad if len(calls) == 5 else 0.5

    with pytest.raises((TypeError, ValueError)):
        bandit.run(reward, 20)
    assert bandit.n_told_ == 44
    assert bandit.pulls_[40:].tolist() == calls[:4]
    assert len(bandit.pending_) == 0


@pytest.mark.parametrize(
    ("cls", "params"), [(GPBUCB, {"batch_size": 2**31}), (BatchBKB, {"max_batch": 2**31, "batch_factor": 1e100})]
)
def test_a_batch_ends_whatever_a_file_asks_for(cls, params, problem, monkeypatch, tmp_path):
    for room in (batch_bkb, baselines):
        monkeypatch.setattr(room, "MOST_AT_ONCE", 7)
    cls(problem[0], RBF(0.25), noise=0.1, random_state=0, **params).save(tmp_path / "b.sqk")
    bandit = cls.load(tmp_path / "b.sqk")
    bandit.tell(bandit.ask(), [0.0])
    assert len(bandit.ask()) == 7
