"""A pass of test-then-train that is stopped goes on from its checkpoint and ends in the same bits."""

import numpy as np
import pytest

import squeak
from squeak import online
from squeak.core import storage
from squeak.data import blocks as sources
from squeak.online import progressive_validation
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
