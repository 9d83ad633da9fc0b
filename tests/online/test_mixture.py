"""Mixtures of experts: the weights against a sum over all sequences, and the bound against the best one."""

import itertools
import math

import numpy as np
import pytest

import squeak
from squeak.kernels import RBF, Linear, Matern, PairwiseKernel
from squeak.online import ConKonsRegressor, MixedKonsClassifier, MixedKonsRegressor
from squeak.online.experts import PreviousTarget
from squeak.online.mixture import MixedLearner, stretched
from squeak.online.weights import SharedWeights


class Saying:
    """An expert that says what it was given, row after row."""

    def __init__(self, said):
        self.said, self.at, self.n_heads = said, 0, 1
        self.facts = {"atoms": 0, "coordinates": 0, "growths": 0}

    def copy(self):
        other = Saying(self.said)
        other.at = self.at
        return other

    def learn(self, X, targets):
        self.at += len(targets)
        return self.said[self.at - len(targets) : self.at]


def mixed(said, y, share=0.05, bound=1.0):
    """Return the predictions of a mixture of experts that say (experts, n), and its weights after the rows."""
    learner = MixedLearner([Saying(one[:, None]) for one in said], 1, share, bound)
    return learner.learn(np.zeros((len(y), 1)), y[:, None])[:, 0], learner.weights[:, 0]


def best_sequence(losses, switches):
    """Return the least sum of losses, shape (experts, n), of a sequence with so many switches at most."""
    best = np.full((switches + 1, len(losses)), np.inf)
    best[0] = losses[:, 0]
    best[1:] = losses[:, 0]
    for now in losses.T[1:]:
        moved = np.vstack([np.full(len(losses), np.inf), np.repeat(best[:-1].min(axis=1)[:, None], len(losses), 1)])
        best = np.minimum(best, moved) + now
    return best[-1].min()


def test_the_weights_are_those_of_a_sum_over_all_sequences():
    rng = np.random.default_rng(0)
    n, experts, share = 6, 3, 0.2
    said, y = rng.uniform(-1, 1, (experts, n)), rng.uniform(-1, 1, n)
    chances = np.zeros((n + 1, experts))
    for t in range(n + 1):
        for path in itertools.product(range(experts), repeat=t + 1):
            weight = 1 / experts
            for before, after in itertools.pairwise(path):
                weight *= share / experts + (1 - share) * (before == after)
            weight *= math.exp(-sum((said[i, s] - y[s]) ** 2 for s, i in enumerate(path[:t])) / 8)
            chances[t, path[-1]] += weight
    chances /= chances.sum(axis=1, keepdims=True)
    predictions, weights = mixed(said, y, share)
    np.testing.assert_allclose(predictions, (chances[:n] * said.T).sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(weights, chances[n], atol=1e-12)


def gap(said, y, share, switches, bound=1.0):
    """Return how much of the bound the mixture used against the best sequence with so many switches."""
    predictions, _ = mixed(said, y, share, bound)
    lost = np.sum((predictions - y) ** 2) - best_sequence((said - y) ** 2, switches)
    n, rounds = len(said), len(y)
    stay = -math.log(1 - share + share / n)
    allowed = math.log(n) + switches * math.log(n / share) + (rounds - 1 - switches) * stay
    return lost / (8 * bound**2 * allowed)


@pytest.mark.parametrize("share", [0.002, 0.05])
@pytest.mark.parametrize("switches", [0, 1, 4])
def test_the_loss_is_within_the_bound_of_the_best_sequence(share, switches):
    rng = np.random.default_rng(switches)
    n = 800
    y = rng.choice([-1.0, 1.0], n)
    right = np.arange(n) * (switches + 1) // n % 3  # each expert is right in its stretches, and wrong elsewhere
    said = np.where(np.arange(3)[:, None] == right, y, -y)
    noisy = np.clip(y + rng.standard_normal((3, n)), -1, 1)
    for words in (said, noisy, rng.uniform(-1, 1, (3, n))):
        assert gap(words, y, share, switches) <= 1.0


def test_rounds_after_others_have_a_bound_of_their_own():
    """As after a restart that learns rows again: then the other expert is right; even weights would cost less."""
    n, share = 400, 0.003
    y = np.where(np.arange(n) < n // 2, -1.0, 1.0)
    said, last = np.array([-np.ones(n), np.ones(n)]), slice(n // 2, n)
    lost = np.sum((mixed(said, y, share)[0] - y)[last] ** 2)
    later = -(n // 2 - 1) * math.log(1 - share + share / 2)
    assert 8 * (math.log(2) + later) < lost <= 8 * (math.log(2 / share) + later)


def test_a_mixture_that_does_not_share_breaks_the_bound(monkeypatch):
    """The mutated twin: weights that are never shared out do not find back to an expert that was poor for long."""
    n = 4000
    y = np.ones(n)
    said = np.where(np.arange(n) < n // 2, [[1.0], [-1.0]], [[-1.0], [1.0]])
    assert gap(said, y, 0.01, 1) <= 1.0
    honest = MixedLearner.learn_rounds

    def selfish(self, said, y):
        self.share = 0.0
        return honest(self, said, y)

    monkeypatch.setattr(MixedLearner, "learn_rounds", selfish)
    assert gap(said, y, 0.01, 1) > 10.0


def test_the_bound_that_a_learner_tells_holds_for_its_experts():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 2))
    y = np.clip(np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(500), -1, 1)
    options = {"max_atoms": 20, "bound": 1.0, "random_state": 0}
    model = MixedKonsRegressor(RBF(0.5), widths=(0.5, 1.0, 2.0), **options)
    said = model.test_then_train(X, y)
    lost = np.sum((said - y) ** 2)
    alone = [
        np.sum((ConKonsRegressor(RBF(width), curvature="auto", **options).test_then_train(X, y) - y) ** 2)
        for width in (0.25, 0.5, 1.0)
    ]
    assert lost <= min(alone) + model.switching_bound()
    assert lost < 1.1 * min(alone)  # it does far better than it must
    assert model.switching_bound(3) > model.switching_bound() > 0
    wide = MixedKonsRegressor(RBF(0.5), widths=(1.0, 2.0), share=0.1, **(options | {"bound": 3.0})).fit(X, y)
    n, stay = len(wide.expert_weights_), 1 - 0.1 + 0.1 / len(wide.expert_weights_)
    for k in (0, 4):
        cost = np.log(n) + k * np.log(n / 0.1) - (499 - k) * np.log(stay)
        assert wide.switching_bound(k) == pytest.approx(8 * 3.0**2 * cost)
    assert MixedKonsRegressor(random_state=0).fit(X, y).switching_bound() is None


def test_the_bound_after_rows_were_learned_again_does_not_take_weights_for_even():
    """A column that has become ten times as wide begins the mixture anew, with the rows that it remembers."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (900, 2))
    X[150:] *= 10.0
    model = MixedKonsRegressor(bound=1.0, widths=(1.0,), max_atoms=10, alarm_rate=None, random_state=0)
    model.fit(X, np.sin(X[:, 0]))
    n, rounds, share = len(model.expert_weights_), model.learner_.n_seen, 0.003
    assert rounds > 900 - model.history_[-1]["rows"]
    cost = math.log(n / share) - (rounds - 1) * math.log(1 - share + share / n)
    assert model.switching_bound() == pytest.approx(8 * cost)


def test_labels_that_come_in_runs_are_not_missed():
    """Rows say nothing; the label before is all there is."""
    rng = np.random.default_rng(0)
    y = np.repeat(rng.choice(["a", "b", "c"], 40), 20)
    X = rng.standard_normal((len(y), 3))
    runs, rows = (
        MixedKonsClassifier(max_atoms=10, half_lives=(None,), linear=False, previous=previous, random_state=0)
        for previous in (True, False)
    )
    wrong = [np.mean(model.test_then_train(X, y) != y) for model in (runs, rows)]
    before = np.mean(y[1:] != y[:-1])
    assert wrong[0] < before + 0.05
    assert wrong[1] > 0.15
    assert runs.expert_weights_.shape == (4, 3)


def test_rows_singly_in_blocks_and_saved_are_alike(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2)) * [1.0, 100.0]
    y = np.sin(X[:, 0])
    whole, singly = (MixedKonsRegressor(max_atoms=15, previous=True, random_state=0) for _ in range(2))
    said = whole.test_then_train(X, y)
    quick = [singly.test_then_train_one(x, target) for x, target in zip(X, y, strict=True)]
    np.testing.assert_allclose(quick, said, atol=1e-7)
    whole.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    assert repr(again) == repr(whole)
    np.testing.assert_array_equal(again.test_then_train(X, y), whole.test_then_train(X, y))


def test_weights_learn_rounds_singly_as_at_once():
    rng = np.random.default_rng(0)
    said, targets = rng.uniform(-1, 1, (200, 5, 2)), rng.uniform(-1, 1, (200, 2))
    said[:, 3] = targets
    judged = said.clip(-0.5, 0.5)
    at_once, singly = (SharedWeights(5, 2, 0.01, 1.0) for _ in range(2))
    predictions = at_once.learn_rounds(said, targets, judged)
    quick = [singly.learn_round(*one) for one in zip(said, targets, judged, strict=True)]
    np.testing.assert_allclose(quick, predictions, atol=1e-14)
    np.testing.assert_allclose(singly.weights, at_once.weights, atol=1e-14)
    assert singly.n_seen == at_once.n_seen == 200
    assert (at_once.weights.argmax(axis=0) == 3).all()


def test_a_learner_of_many_classes_can_be_loaded(tmp_path):
    """Each class has arrays of its own: files once had too few places for more than fourteen."""
    X = np.random.default_rng(0).standard_normal((80, 2))
    y = np.arange(80) % 26
    model = MixedKonsClassifier(RBF(1.0), max_atoms=3, random_state=0).fit(X, y)
    model.save(tmp_path / "m.sqk")
    np.testing.assert_array_equal(squeak.load(tmp_path / "m.sqk").predict(X), model.predict(X))


def test_the_target_before_is_what_it_predicts():
    learner, targets = PreviousTarget(1), np.arange(5.0)[:, None]
    assert learner.learn(np.zeros((3, 1)), targets[:3])[:, 0].tolist() == [0.0, 0.0, 1.0]
    assert learner.learn_row(np.zeros((1, 1)), [3.0]) == [2.0]
    assert learner.scores(np.zeros((2, 1))).tolist() == [[3.0], [3.0]]


def test_widths_are_multiplied_where_there_are_some():
    assert stretched(RBF(2.0), 0.5) == RBF(1.0)
    assert stretched(Matern([1.0, 2.0]), 2.0) == Matern([2.0, 4.0])
    assert stretched(Linear(), 1.0) == Linear()
    with pytest.raises(ValueError, match=r"widths=\(1.0,\)"):
        stretched(PairwiseKernel(lambda a, b: 1.0), 2.0)
    for bad in ((), "wide", (0.0,)):
        with pytest.raises(ValueError, match="widths"):
            MixedKonsRegressor(widths=bad).fit(np.eye(3), np.ones(3))
    with pytest.raises(ValueError, match="share"):
        MixedKonsRegressor(share=2.0).fit(np.eye(3), np.ones(3))
