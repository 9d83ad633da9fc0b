"""Classes of which some are text and others numbers: one clear error wherever they come in."""

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import AutoClassifier, KernelClassifier, LocalExperts
from squeak.cli.tasks import holds_classes
from squeak.core.checks import refuse_mixed
from squeak.kernels import RBF
from squeak.learners import RandomFeatureClassifier
from squeak.online import ConKonsClassifier, FOGDClassifier, MixedKonsClassifier

WORDS = "the classes are of two types: 'a' is text, and 1 is not; make all of them text, or all of them numbers"
X = np.random.default_rng(0).standard_normal((60, 2))
Y = np.array(["a", 1, "a", None, "a", np.nan], dtype=object)[[0, 1, 2, 0, 2, 1] * 10]
LEARNERS = {
    "squared": KernelClassifier(RBF(1.0), max_atoms=10),
    "logistic": KernelClassifier(RBF(1.0), max_atoms=10, loss="logistic"),
    "experts": LocalExperts(KernelClassifier(RBF(1.0), max_atoms=10)),
    "auto": AutoClassifier(max_atoms=10),
    "random features": RandomFeatureClassifier(RBF(1.0)),
    "online": ConKonsClassifier(),
    "gradients": FOGDClassifier(),
    "mixture": MixedKonsClassifier(),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_says_that_classes_are_of_two_types(name):
    with pytest.raises(ValueError, match=WORDS):
        LEARNERS[name].fit(X, Y)


@pytest.mark.parametrize("name", ["squared", "experts", "auto"])
@pytest.mark.parametrize("apart", [False, True])
def test_those_of_a_source_are_refused_too_even_if_they_come_in_blocks_of_one_type(name, apart):
    y = np.sort(Y.astype(str)).astype(object) if apart else Y
    if apart:
        y[:30] = 1
    with pytest.raises(ValueError, match="the classes are of two types"):
        LEARNERS[name].fit(squeak.rows(lambda: ((X[i : i + 30], y[i : i + 30]) for i in (0, 30)), target=True))


def test_those_that_are_named_beforehand_and_those_of_the_command_are_refused():
    with pytest.raises(ValueError, match=WORDS):
        ConKonsClassifier().partial_fit(X, Y, classes=["a", 1])
    with pytest.raises(ValueError, match=WORDS):
        holds_classes(Y, quiet=True)


def test_missing_labels_and_one_type_are_not_mixed():
    for fine in (
        ["a", None, np.nan, pd.NA],
        [1, 2.5, None],
        np.array([1, 2]),
        pd.Series(["a", "b"]),
        [True, 1],
        [],
    ):
        refuse_mixed(fine)
        with pytest.raises(ValueError, match="the classes are of two types"):
            refuse_mixed([*fine, "text", 7])
