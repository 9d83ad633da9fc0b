"""Results of fixed cases stay as they are, from one version to the next."""

import copy
import inspect
import re

import numpy as np
import pytest

from squeak import bandits, dpp, graphs, kernels, learners, leverage, online, samplers
from tests import digests
from tests.cases import CASES

STORED = digests.stored()
NOT_RESULTS = {
    *("Kernel", "AccuracyBounds", "Best", "MinimizeResult", "Progress"),  # the forms of results
    "RejectionLimitError",
    "calibrate",  # it measures this machine
}


@pytest.mark.filterwarnings("ignore:length_scale='auto' ended at the largest")  # of the command that searches
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_on_file(name):
    assert digests.compared(name, STORED.get(name)) == []


def test_every_case_on_file_is_run():
    assert set(STORED) == set(CASES)


def test_the_file_is_small():
    assert digests.STORED.stat().st_size < 220_000


def test_every_public_name_is_in_a_case():
    text = "\n".join(inspect.getsource(module) for module in digests.ROOMS)
    words = set(re.findall(r"\w+", text))
    words |= {f"{name}{task}" for name in online_names() for task in ("Regressor", "Classifier")}
    words |= {name for name in samplers.__all__ if name.endswith("_oversampling")}
    rooms = (bandits, dpp, graphs, kernels, learners, leverage, online, samplers)
    public = {name for room in rooms for name in room.__all__}
    assert public - words - NOT_RESULTS == set()


def online_names():
    from tests.cases.online import NAMES

    return NAMES


CHANGED = {
    "an entry": lambda x: np.where(np.arange(x.size).reshape(x.shape) == x.size - 1, x * (1 + 1e-8), x),
    "an entry that is not sampled": lambda x: np.where(np.arange(x.size).reshape(x.shape) == 3, x + 1e-6, x),
    "the type": lambda x: x.astype(np.float32),
    "the shape": lambda x: x.reshape(-1, 1),
    "a gap": lambda x: np.where(np.arange(x.size).reshape(x.shape) == 0, np.nan, x),
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_change_of_an_array_is_seen(change, rng):
    before = rng.standard_normal(100)
    assert digests.differences(digests.digest(before), digests.digest(before * (1 + 1e-13)), 1e-10) == []
    found = digests.differences(digests.digest(before), digests.digest(CHANGED[change](before)), 1e-10)
    assert found


def test_a_change_of_one_index_is_seen_and_named(rng):
    name = next(iter(CASES))
    before = {"rows": digests.digest(np.arange(100)), "size": digests.digest(3)}
    after = copy.deepcopy(before) | {"rows": digests.digest(np.arange(100) + (np.arange(100) == 50))}
    (message,) = digests.changes(name, before, after)
    assert message.startswith(f"{name}: rows: before ")
    assert digests.changes(name, before, {"size": before["size"]}) == [f"{name}: value 'rows' is gone"]
    assert len(digests.changes(name, None, after)) == 1
