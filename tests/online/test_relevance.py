"""The metric learned on the way: gradients against differences, and columns that matter little made short."""

import numpy as np
import pytest

import squeak
from squeak.kernels import RBF
from squeak.online import ConKonsRegressor, MixedKonsClassifier, MixedKonsRegressor
from squeak.online.scaling import REMEMBERED, Memory


def few_that_matter(n=1500, d=8):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    return X * 10.0 ** rng.integers(-2, 3, d), np.sin(3 * X[:, 0]) * X[:, 3]


@pytest.mark.parametrize("maker", [ConKonsRegressor, MixedKonsRegressor, MixedKonsClassifier])
def test_the_squared_gradients_are_those_of_differences(maker):
    X, y = few_that_matter(300)
    three = maker is MixedKonsClassifier
    model = maker(RBF("median"), max_atoms=15, random_state=0).fit(X, np.digitize(y, [-0.3, 0.3]) if three else y)
    learner, Z, step = model.learner_, np.random.default_rng(1).standard_normal((5, 8)), 1e-5
    found = np.zeros(8)
    inner = getattr(learner, "learners", [learner])
    shares = learner.weights.reshape(-1) if hasattr(learner, "learners") else np.ones(1)
    for expert in inner:
        n = getattr(expert, "n_heads", 1)
        own, shares = shares[:n], shares[n:]
        for head in getattr(expert, "heads", []):
            head.rule.bound = np.inf  # gradients are those before predictions are clipped
        for j, e in enumerate(step * np.eye(8)):
            slopes = (expert.scores(Z + e) - expert.scores(Z - e)) / (2 * step)
            found[j] += (slopes**2).mean(axis=0) @ own
    np.testing.assert_allclose(learner.gradient_squares(Z), found, rtol=1e-4, atol=1e-9)


def test_columns_that_matter_little_are_made_short_and_the_error_falls(tmp_path):
    X, y = few_that_matter()
    learned, plain = (ConKonsRegressor(kernel, random_state=0) for kernel in (RBF("learned"), RBF("median")))
    errors = [np.mean((model.test_then_train(X, y) - y)[1100:] ** 2) for model in (learned, plain)]
    assert errors[0] < 0.5 * errors[1]
    entry = learned.history_[-1]
    assert entry["rows"] == 1024
    relevance = np.array(entry["relevance"])
    assert min(relevance[[0, 3]]) > 2 * max(np.delete(relevance, [0, 3]))
    assert all("relevance" not in entry for entry in plain.history_)
    singly = ConKonsRegressor(RBF("learned"), random_state=0).partial_fit(X[:1020], y[:1020])
    for x, target in zip(X[1020:], y[1020:], strict=True):
        singly.learn_one(x, target)
    np.testing.assert_allclose(singly.predict(X[:50]), learned.predict(X[:50]), atol=1e-6)
    learned.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    assert again.history_ == learned.history_
    np.testing.assert_array_equal(again.test_then_train(X, y), learned.test_then_train(X, y))


def another_matters(n=4000, change=2200, d=8):
    """Column 0 matters, and after the change column 5 instead."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (n, d))
    column = np.where(np.arange(n) < change, 0, 5)
    return X, np.sin(4 * X[np.arange(n), column])


def test_after_a_drift_it_is_learned_anew_which_columns_matter(monkeypatch, tmp_path):
    X, y = another_matters()

    def run():
        model = ConKonsRegressor(RBF("learned"), alarm_rate=0.01, random_state=0)
        return model, model.test_then_train(X, y)

    whole, said = run()
    told = whole.history_
    alarm = next(i for i, entry in enumerate(told) if "losses" in entry)
    assert 2200 < told[alarm]["rows"] < 2400
    assert np.argmax(told[alarm - 1]["relevance"]) == 0
    first = told[alarm]["rows"] - min(told[alarm]["after"], REMEMBERED)
    assert told[-1]["rows"] == first + 1024
    assert np.argmax(told[-1]["relevance"]) == 5
    assert max(np.delete(told[-1]["relevance"], 5)) < 0.5
    # row by row, and from a file between the alarm and the next look
    cut, rows = ConKonsRegressor(RBF("learned"), alarm_rate=0.01, random_state=0), told[alarm]["rows"] + 300
    cut.partial_fit(X[:2150], y[:2150])
    for x, target in zip(X[2150:rows], y[2150:rows], strict=True):
        cut.learn_one(x, target)
    cut.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    rest = again.test_then_train(X[rows:], y[rows:])
    np.testing.assert_array_equal(rest, cut.test_then_train(X[rows:], y[rows:]))
    np.testing.assert_allclose(rest, said[rows:], atol=1e-6)
    assert again.history_ == told
    # the mutated twin: a stream that remembers the rows before the drift looks again when all rows have doubled
    monkeypatch.setattr(Memory, "forget", lambda self, n_last: None)
    late, slow = run()
    assert [entry["rows"] for entry in late.history_ if "relevance" in entry][-1] < 2200
    errors = [np.mean((one - y)[-600:] ** 2) for one in (said, slow)]
    assert errors[0] < 0.5 * errors[1]


def test_a_steady_stream_is_not_begun_anew():
    X, y = another_matters(3000, 3000)
    watched, plain = (MixedKonsRegressor(max_atoms=20, alarm_rate=rate, random_state=0) for rate in (0.01, None))
    np.testing.assert_array_equal(watched.test_then_train(X, y), plain.test_then_train(X, y))
    assert watched.history_ == plain.history_
    assert MixedKonsRegressor().alarm_rate == MixedKonsClassifier().alarm_rate == 0.01
