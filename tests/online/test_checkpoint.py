"""A pass of test-then-train that is stopped goes on from its checkpoint and ends in the same bits."""

import numpy as np
import pytest

import squeak
from squeak import online
from squeak.core import storage
from squeak.data import blocks as sources
from squeak.online import checkpoint, progressive_validation
from tests.stopping import run_with_stops


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_BYTES", 8)
    rng = np.random.default_rng(0)
    X = rng.random((1300, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(1300)
    classes = np.array(["low", "middle", "high"])[np.digitize(y, [0.3, 1.0])]
    return lambda kind="Regressor", n=1300: squeak.rows(X[:n], (y if kind == "Regressor" else classes)[:n])


def bits(model, path):
    squeak.save(model, path)
    return path.read_bytes()


QUICK = ("ConKonsRegressor", "FOGDClassifier", "NOGDRegressor")
OTHERS = [name for name in online.__all__ if name.endswith(("Regressor", "Classifier")) and name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_a_stopped_pass_goes_on_in_the_same_bits(rows, tmp_path, monkeypatch, name):
    def make():
        model = getattr(online, name)()
        return model.set_params(random_state=0) if "random_state" in model.get_params() else model

    kind, path = "Regressor" if name.endswith("Regressor") else "Classifier", tmp_path / "run.sqk"
    whole = make()
    expected = progressive_validation(whole, rows(kind))

    def run():
        model = make()
        return model, progressive_validation(model, rows(kind), checkpoint=path, every=0)

    (model, progress), stops = run_with_stops(monkeypatch, run, 2)
    assert stops >= 2
    for found in (progress, run()[1]):  # the second time nothing is left to do
        assert np.array_equal(found.losses, expected.losses)
        assert np.array_equal(found.surrogate, expected.surrogate)
        assert np.array_equal(found.rows, expected.rows)
        assert np.array_equal(found.atoms, expected.atoms)
    assert bits(model, tmp_path / "a.sqk") == bits(whole, tmp_path / "b.sqk")
    assert bits(squeak.load(path), tmp_path / "c.sqk") == bits(whole, tmp_path / "b.sqk")


def test_a_pass_of_another_learner_or_over_other_data_is_refused(rows, tmp_path, monkeypatch):
    path = tmp_path / "run.sqk"

    def stopping(*arguments):
        write(*arguments)
        raise KeyboardInterrupt

    write = storage.write
    model = online.ConKonsRegressor(random_state=0)
    with monkeypatch.context() as patch:
        patch.setattr(storage, "write", stopping)
        with pytest.raises(KeyboardInterrupt):
            progressive_validation(model, rows(), checkpoint=path, every=0)
    with pytest.raises(ValueError, match="another max_atoms"):
        progressive_validation(online.ConKonsRegressor(max_atoms=7, random_state=0), rows(), checkpoint=path)
    with pytest.raises(ValueError, match="over other data"):
        progressive_validation(online.ConKonsRegressor(random_state=0), rows(n=1200), checkpoint=path)
    with pytest.raises(ValueError, match=r"another learner \(ConKonsRegressor\)"):
        progressive_validation(online.FOGDRegressor(random_state=0), rows(), checkpoint=path)
    begun = online.ConKonsRegressor(random_state=0).fit(rows())
    with pytest.raises(ValueError, match=r"another learner \(ConKonsRegressor\)"):
        progressive_validation(begun, rows(), checkpoint=path)
    with pytest.raises(ValueError, match="checkpoint is for a row source"):
        progressive_validation(online.ConKonsRegressor(), *rows().collect(), checkpoint=tmp_path / "new.sqk")


def test_sums_are_kept_in_place_of_losses(rows, tmp_path, monkeypatch):
    expected = progressive_validation(online.ConKonsRegressor(random_state=0), rows())
    path = tmp_path / "run.sqk"

    def run():
        model = online.ConKonsRegressor(random_state=0)
        return progressive_validation(model, rows(), checkpoint=path, every=0, keep_losses=False)

    found, stops = run_with_stops(monkeypatch, run, 2)
    assert stops >= 2
    assert (len(found.losses), len(found.surrogate), found.n) == (0, 0, 1300)
    np.testing.assert_array_equal(found.sums, expected.sums)
    np.testing.assert_allclose(expected.sums[:, 0], np.cumsum(expected.losses)[expected.rows - 1], rtol=1e-12)
    assert found.mean_loss == expected.mean_loss
    np.testing.assert_array_equal(found.curve, expected.curve)
    batch = online.Batch(online.ConKonsRegressor(random_state=0).fit(rows())).fit(*rows().collect())
    np.testing.assert_array_equal(found.regret(batch), expected.regret(batch))
    with pytest.raises(ValueError, match="sums of losses alone"):
        progressive_validation(online.ConKonsRegressor(random_state=0), rows(), checkpoint=path)


def test_a_stream_without_end_takes_no_more_memory(rows, tmp_path, monkeypatch):
    whole = progressive_validation(online.FOGDRegressor(n_features=10, random_state=0), rows())
    monkeypatch.setattr(checkpoint, "MOST_POINTS", 20)
    sizes = []
    for n in (400, 1300):
        path = tmp_path / f"{n}.sqk"
        model = online.FOGDRegressor(n_features=10, random_state=0)
        found = progressive_validation(model, rows(n=n), checkpoint=path, every=0, keep_losses=False)
        assert len(found.rows) <= 20
        assert found.rows[-1] == n
        sizes.append(path.stat().st_size)
    assert sizes[1] < sizes[0] + 1000
    assert found.mean_loss == pytest.approx(whole.mean_loss, rel=1e-12)
    assert found.recent(130)[0] == pytest.approx(whole.losses[-130:].mean(), rel=0.05)
    means = whole.losses.reshape(13, 100).mean(axis=1)
    np.testing.assert_allclose(whole.recent(100, [100, 1300]), means[[0, -1]], rtol=0.1)


def test_checkpoints_of_version_0_1_have_no_sums(rows):
    run = checkpoint.OnlineRun(online.ConKonsRegressor(random_state=0), None, lambda *facts: None)
    run.read(rows())
    arrays, content = run.model.to_parts()
    state = checkpoint.OnlineState(arrays, content, run.curves())
    parts, content = run._parts_at(state, [])
    before = {name: array for name, array in parts.items() if name != "curve_sums"}
    found, _ = run._state_from(before, content, run.model.kernel)
    for one, other in zip(found.curves, state.curves, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    backwards = np.ascontiguousarray(parts["curve_points"][::-1])
    for damage in (
        {"curve_losses": np.zeros(0), "curve_surrogate": np.zeros(0)},
        {"curve_losses": parts["curve_losses"][:-1], "curve_surrogate": parts["curve_surrogate"][:-1]},
        {"curve_points": backwards},
        {"curve_points": np.zeros((0, 4))},
    ):
        with pytest.raises(ValueError, match="losses are damaged"):
            run._state_from(before | damage, content, run.model.kernel)
