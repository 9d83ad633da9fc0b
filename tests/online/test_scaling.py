"""Scales learned on the way: what columns are measured in, and what they are at first, does not matter."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import squeak
from squeak.core.seeds import draw_seed
from squeak.kernels import RBF
from squeak.online import ConKonsClassifier, ConKonsRegressor, FOGDRegressor, progressive_validation
from squeak.online import scaling as room
from squeak.online.scaling import Memory, Scale, next_look
from tests.online.oracles import literal_scaled

OLD = Path(__file__).parents[1] / "data" / "v0.1"


def stream(n, seed=0, constant=0):
    """Return rows of four columns on one scale, the second of them constant at first, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    X[:constant, 1] = 0.5
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)


@pytest.fixture
def short(monkeypatch):
    """Fewer rows are remembered, so that short streams restart too."""
    monkeypatch.setattr(room, "REMEMBERED", 40)


def test_looks_come_after_the_first_rows_and_whenever_their_number_has_doubled():
    at, looks = 0, []
    while at < 5000:
        at = next_look(at)
        looks.append(at)
    assert looks == [2, 8, 32, 128, 256, 512, 1024, 2048, 4096, 8192]


@pytest.mark.parametrize("constant", [0, 300])
def test_it_does_what_its_definition_says_row_by_row(short, constant):
    X, y = stream(1100, constant=constant)
    X = X * [1.0, 1e3, 1e-3, 1.0] + [0.0, 5.0, 1.0, 0.0]
    X[400:, 3] *= 10.0  # the scale of a column that does not matter moves

    def inner(rows):
        return ConKonsRegressor(RBF("median").resolve(rows), max_atoms=20, scale=None, random_state=3)

    said, restarts = literal_scaled(X, y, inner, draw_seed(3), remembered=40, looks=(2, 8, 32, 128, 256, 512, 1024))
    model = ConKonsRegressor(max_atoms=20, random_state=3)
    np.testing.assert_allclose(model.test_then_train(X, y), said, atol=1e-7)
    assert [entry["rows"] for entry in model.history_] == restarts
    assert (1 in {j for entry in model.history_ for j in entry["columns"]}) == (constant > 0)
    assert 3 in model.history_[-1]["columns"]


@pytest.mark.parametrize("make", [ConKonsRegressor, FOGDRegressor])
def test_rows_singly_in_blocks_and_saved_in_between_give_the_same(short, tmp_path, make):
    X, y = stream(300, constant=150)
    whole, blocks, singly = (make(random_state=1) for _ in range(3))
    said = whole.test_then_train(X, y)
    for cut in np.array_split(np.arange(300), 11):
        blocks.partial_fit(X[cut], y[cut])
        blocks.save(tmp_path / "model.sqk")
        blocks = squeak.load(tmp_path / "model.sqk")
    quick = [singly.test_then_train_one(x, target) for x, target in zip(X, y, strict=True)]
    np.testing.assert_allclose(quick, said, atol=1e-7)
    np.testing.assert_allclose(blocks.predict(X), whole.predict(X), atol=1e-7)
    assert whole.history_ == blocks.history_ == singly.history_ != []
    assert whole.n_seen_ == blocks.n_seen_ == singly.n_seen_ == 300
    whole.save(tmp_path / "model.sqk")
    again = squeak.load(tmp_path / "model.sqk")
    np.testing.assert_array_equal(again.test_then_train(X, y), whole.test_then_train(X, y))


def test_units_of_columns_do_not_matter():
    """Powers of two leave every bit of the scaled rows as it is."""
    X, y = stream(700)
    units, shift = 2.0 ** np.array([-10.0, 0.0, 7.0, 12.0]), np.array([64.0, 0.0, -8.0, 1024.0])
    plain, other = ConKonsRegressor(random_state=0), ConKonsRegressor(random_state=0)
    exact = np.round(X * 2**20) / 2**20  # so that shifts lose nothing
    np.testing.assert_allclose(
        other.test_then_train((exact + shift) * units, y), plain.test_then_train(exact, y), atol=1e-9
    )
    centre, spread = plain.scale_
    np.testing.assert_allclose(other.scale_[0], (centre + shift) * units)
    np.testing.assert_allclose(other.scale_[1], spread * units)


def test_a_column_that_is_constant_at_first_is_seen_once_it_varies():
    losses = {}
    for words, constant, scale in (("steady", 0, "auto"), ("late", 500, "auto"), ("late, as it is", 500, None)):
        X, y = stream(4500, constant=constant)
        X[:, 1] *= 1e3
        model = ConKonsRegressor(scale=scale, random_state=0)
        losses[words] = progressive_validation(model, X, y).losses[2500:].mean()
    assert losses["late"] < 1.25 * losses["steady"]
    assert losses["late, as it is"] > 3.0 * losses["steady"]


def test_the_sample_is_uniform_over_the_stream_and_a_biased_one_is_noticed(monkeypatch):
    """The mean number of the sampled rows; 100 streams, |z| > 4.5 in fewer than 1 of 100,000 runs."""

    def deviation():
        n, runs, means = 2000, 100, []
        for number in range(runs):
            memory = Memory(number)
            memory.add(np.zeros((n, 1)), np.zeros((n, 1)))
            means.append(np.mean([row for row, _, _ in memory.sample]))
        # the variance of a mean without replacement
        m = room.REMEMBERED
        error = np.sqrt((n**2 - 1) / 12 * (1 - m / n) / m / runs)
        return (np.mean(means) - (n - 1) / 2) / error

    assert abs(deviation()) < 4.5
    true = room.coins
    monkeypatch.setattr(room, "coins", lambda *place: 0.9 * true(*place))  # later rows enter too often
    assert abs(deviation()) > 4.5


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("wild", [0.0, 1e80, 1e307])
def test_a_single_row_is_scaled_as_in_a_block(dtype, wild):
    """Numbers that would overflow, in a row, a centre or a rate, take the careful way."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20, 4)).astype(dtype)
    with np.errstate(over="ignore"):
        rows[3, [0, 2]] = min(wild, float(np.finfo(dtype).max))
    rates = np.array([1.0, 0.0, 1e3, 1.0])
    for centre in (0.0, -wild):
        for rate in (1.0, min(max(wild, 1.0), room.STEEPEST)):
            scale = Scale(
                np.array([centre, 0.5, 0.0, 1.0]),
                np.minimum(rate * rates, room.STEEPEST),
                np.array([1.0, 0.5, 0.2, 1.0]),
            )
            singly = np.concatenate([scale(rows[i : i + 1]) for i in range(20)])
            assert singly.dtype == dtype
            assert np.isfinite(singly).all()
            np.testing.assert_array_equal(singly, scale(rows))


def test_rows_are_remembered_singly_as_in_blocks():
    rows, targets = np.random.default_rng(0).standard_normal((2, 3000, 1))
    blocks, singly = Memory(5), Memory(5)
    for memory in (blocks, singly):
        memory.add(rows[:700], targets[:700])
        memory.forget(60)  # as after an alarm
    blocks.add(rows[700:], targets[700:])
    for i in range(700, 3000):
        singly.add_row(rows[i : i + 1], targets[i])
    assert blocks.n_seen == singly.n_seen == 3000
    assert [number for number, _, _ in blocks.sample] == [number for number, _, _ in singly.sample]
    for mine, theirs in zip(blocks.replay(), singly.replay(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_only_scales_that_moved_much_count():
    one = Scale(np.zeros(5), np.array([1.0, 1.0, 1.0, 0.0, 0.0]))
    other = Scale(np.array([1.9, 2.1, 0.0, 7.0, 0.0]), np.array([1.0, 1.0, 2.1, 0.0, 1.0]))
    assert one.moved(other) == other.moved(one) == [1, 2, 4]


def test_wild_numbers_stay_finite():
    X, y = stream(400)
    X[::7, 0], X[::5, 1], X[200:, 2] = 1e300, -1e308, 5e-324
    model = ConKonsRegressor(random_state=0)
    assert np.isfinite(model.test_then_train(X, y)).all()
    assert np.abs(model.encoded(X)[0]).max() <= 3.0


def test_equal_first_rows_need_no_warning_for_the_width_is_learned_later(recwarn):
    X, y = stream(3000)
    X[:200] = 1.0
    model = ConKonsRegressor(random_state=0)
    progress = progressive_validation(model, X, y)
    assert not recwarn.list
    assert progress.losses[1000:].mean() < 0.3 * y.var()


def test_when_scales_are_learned():
    X, y = stream(300)
    assert ConKonsRegressor(random_state=0).fit(X, y).scale_ is not None
    assert ConKonsRegressor(random_state=0).fit(squeak.rows(X, y)).scale_ is not None
    assert ConKonsRegressor(RBF(1.0), scale="robust", random_state=0).fit(X, y).scale_ is not None
    for model in (ConKonsRegressor(scale=None), ConKonsRegressor(RBF(1.0)), ConKonsClassifier.from_paper()):
        assert model.set_params(random_state=0).fit(X, y if model.loss == "squared" else y > 0).scale_ is None
    assert ConKonsRegressor(random_state=0).fit(squeak.rows(X, y, scale="standard")).scale_ is None
    assert ConKonsRegressor(random_state=0).fit(sp.csr_array(X), y).history_ == []
    with pytest.raises(ValueError, match="dense rows"):
        ConKonsRegressor(scale="robust").fit(sp.csr_array(X), y)
    with pytest.raises(ValueError, match="scale must be one of"):
        ConKonsRegressor(scale="standard").fit(X, y)


def test_a_learner_of_an_older_file_goes_on_with_columns_as_they_are():
    model = squeak.load(OLD / "online-ConKonsRegressor.sqk")
    assert model.scale is None
    assert model.scale_ is None
    assert model.history_ == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda arrays, content: content.update(history=[{"rows": 0, "columns": [0]}]),
        lambda arrays, content: content.update(history=[{"rows": 5, "columns": [9]}]),
        lambda arrays, content: content.update(history="long"),
        lambda arrays, content: arrays.update(sample_numbers=np.zeros(300, dtype=np.int64)),
        lambda arrays, content: arrays.update(latest_rows=arrays["latest_rows"][1:]),
        lambda arrays, content: arrays.pop("scale_rate"),
        lambda arrays, content: content.update(forgotten=7),
    ],
)
def test_a_damaged_memory_is_refused(damage):
    arrays, content = ConKonsRegressor(random_state=0).fit(*stream(300)).to_parts()
    damage(arrays, content["stream"])
    with pytest.raises(ValueError, match=r"fit|damaged|seen|shape|rows"):
        ConKonsRegressor.from_parts(arrays, content)
