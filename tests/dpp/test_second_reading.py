"""What a second reader found: promises that broke at the edges."""

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak.core.storage import NotStoredError
from squeak.dpp import DPP, ExactDPP, RejectionLimitError
from squeak.kernels import RBF
from squeak.samplers import Disqueak, Kors, Squeak, Uniform
from tests.test_cli import command


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((300, 3))


@pytest.mark.parametrize(
    "sampler",
    [
        Uniform(max_atoms=60),
        Squeak(oversampling=20.0),
        Kors(oversampling=9.0),
        Disqueak(n_leaves=2, random_state=3),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
@pytest.mark.parametrize("weighted", [False, True], ids=["projected", "weighted"])
def test_a_loaded_one_does_the_work_anew_with_the_sampler_it_was_given(X, sampler, weighted, tmp_path):
    """Sixteen rows where two are expected: the once-only work is done at a larger scale, after the load too."""
    found = DPP(0.05 * RBF(1.0), sampler, weighted=weighted, random_state=0).fit(X)
    found.save(tmp_path / "d.sqk")
    again = squeak.load(tmp_path / "d.sqk")
    assert np.array_equal(again.sample(k=16), found.sample(k=16))
    assert len(found._prepared) == 2
    assert repr(again.sampler) == repr(sampler)


def test_a_sampler_that_is_no_data_is_refused_when_saving(X, tmp_path):
    class Mine(Uniform):
        pass

    for sampler in (Mine(max_atoms=60), Uniform(max_atoms=60, random_state=np.random.default_rng(0))):
        found = DPP(0.05 * RBF(1.0), sampler, random_state=0).fit(X)
        with pytest.raises(NotStoredError, match=r"sampler .* is not stored"):
            found.save(tmp_path / "d.sqk")


def test_a_refusal_names_the_dictionary_that_was_used_and_a_size_that_can_be(X):
    """A kernel whose matrix has a numerical rank of 23: 40 rows cannot be had."""
    found = DPP(RBF(30.0), max_rejections=50, random_state=0).fit(X[:60])
    atoms = len(found.dictionary_)
    with pytest.raises(RejectionLimitError, match="rank") as refusal:
        found.sample(k=40)
    assert f"dictionary of {atoms} atoms" not in str(refusal.value)
    assert "about 40 rows" in str(refusal.value)


@pytest.mark.parametrize("subset", [[1.5], [True, False], [[1, 2]], 3, ["a"]], ids=str)
def test_the_probability_of_what_is_no_set_of_row_numbers_is_refused(X, subset):
    exact = ExactDPP(RBF(1.0)).fit(X)
    with pytest.raises(TypeError, match="row numbers"):
        exact.log_probability(subset)
    assert exact.log_probability([]) == exact.log_probability(np.zeros(0))


@pytest.fixture
def table(X, tmp_path):
    frame = pd.DataFrame(X[:40], columns=["a", "row", "squeak_row"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv", frame


def test_the_command_draws_as_many_rows_as_the_matrix_has_rank(table, tmp_path):
    path, _ = table
    done = command("sample", path, "--k", 3, "--kernel", "linear", "--length-scale", 1, "--out", tmp_path / "s.csv")
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "s.csv")) == 3


def test_the_commands_own_columns_never_take_a_name_that_is_there(table, tmp_path):
    path, frame = table
    done = command("sample", path, "--k", 5, "--out", tmp_path / "s.parquet")
    assert done.returncode == 0, done.stderr
    subset = pd.read_parquet(tmp_path / "s.parquet")
    assert list(subset) == ["a", "row", "squeak_row", "squeak_squeak_row"]
    np.testing.assert_allclose(subset["row"], frame["row"].iloc[subset["squeak_squeak_row"]])
