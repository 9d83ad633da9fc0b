"""The walker over declared state: what fits comes back, what does not is named."""

import numpy as np
import pytest

from squeak import KernelRidge, KernelRidgeCV, Squeak
from squeak.core.state import checked, flag, flags, labels, number, numbers, parameters, seed, text, whole, wholes

TABLE = {
    "n": whole(low=1),
    "part": number(low=0.0, high=1.0),
    "word": text("a", "b"),
    "sure": flag(),
    "left": number(optional=True),
    "indices": wholes("m", high="n"),
    "factor": numbers("m", "m"),
    "coef": numbers("m", "outputs?"),
    "intercept": numbers("outputs"),
    "on": flags("m"),
}
ARRAYS = {
    "indices": np.array([0, 3], dtype=np.int32),
    "factor": np.eye(2),
    "coef": np.ones(2),
    "intercept": np.ones(1),
    "on": np.array([True, False]),
}
CONTENT = {"n": 5, "part": 1, "word": "a", "sure": False}

WRONG = {
    "a missing number": ({}, {"n": None}, "'n' is missing"),
    "a truth value for a number": ({}, {"n": True}, "'n' is True"),
    "a fraction for a whole number": ({}, {"n": 5.0}, "'n' is 5.0"),
    "a list for a number": ({}, {"part": [1.0]}, "'part' is a list"),
    "a number that is too high": ({}, {"part": 1.5}, r"'part' .* outside of \[0, 1\]"),
    "another word": ({}, {"word": "c"}, "'word' is 'c'"),
    "a number for a truth value": ({}, {"sure": 1}, "'sure' is 1"),
    "a missing array": ({"factor": None}, {}, "'factor' is missing"),
    "another length": ({"factor": np.eye(3)}, {}, r"'factor' has the shape \(3, 3\); it should be \(2, 2\)"),
    "another dimension": ({"factor": np.ones(2)}, {}, "'factor' has 1 dimensions"),
    "another type": ({"factor": np.eye(2, dtype=int)}, {}, "'factor' is an array of type int64"),
    "NaN": ({"factor": np.full((2, 2), np.nan)}, {}, "'factor' holds NaN"),
    "infinity": ({"coef": np.array([1.0, np.inf])}, {}, "'coef' holds NaN, or lies outside"),
    "a negative index": ({"indices": np.array([-1, 0])}, {}, "'indices' .* outside of"),
    "an index beyond": ({"indices": np.array([0, 6])}, {}, r"'indices' .* outside of \[0, 5\]"),
    "two outputs and one intercept": ({"coef": np.ones((2, 2))}, {}, "'intercept' has the shape"),
}


def test_what_fits_comes_back():
    found = checked(TABLE, ARRAYS, CONTENT)
    assert list(found) == list(TABLE)
    assert (found["part"], found["left"], found["indices"].dtype) == (1.0, None, np.int64)
    two = checked(TABLE, {**ARRAYS, "coef": np.ones((2, 3)), "intercept": np.ones(3)}, CONTENT, m=2)
    assert two["coef"].shape == (2, 3)


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_named(case):
    arrays, content, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        checked(TABLE, {**ARRAYS, **arrays}, {**CONTENT, **content})


def test_a_seed_has_128_bits():
    assert checked({"seed": seed()}, {}, {"seed": 2**127})["seed"] == 2**127
    with pytest.raises(ValueError, match="'seed'"):
        checked({"seed": seed()}, {}, {"seed": 2**129})


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["a", "bc"]),
        np.array([3, 5]),
        np.array([3, 5], dtype=np.uint8),
        np.array([False, True]),
        np.array([0.5, 1.0], dtype=np.float32),
        np.array(["a", "b"], dtype=object),
    ],
    ids=lambda classes: classes.dtype.str,
)
def test_labels_come_back_as_they_were(classes):
    for name in (str(classes.dtype), classes.dtype.str):
        back = labels(classes.tolist(), name)
        assert back.dtype == classes.dtype
        assert np.array_equal(back, classes)
    assert np.array_equal(labels(classes.tolist(), classes.dtype.kind), classes)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["a"], "<U1"),
        (["a", "a"], "<U1"),
        (["a", ["b"]], "object"),
        (["a", 1], "<U1"),
        ([1, True], "int64"),
        (["a", "b"], "int64"),
        (["a", "b"], "V10"),
        ({"a": 1}, "<U1"),
        (["a", "b"], 5),
    ],
)
def test_labels_that_no_classifier_has_are_refused(values, dtype):
    with pytest.raises(ValueError, match="classes"):
        labels(values, dtype)


def test_parameters_have_the_types_of_the_constructor():
    assert parameters(KernelRidge, {"alpha": 2, "of_old": 1, "dictionary": None}) == {
        "alpha": 2,
        "dictionary": None,
    }
    assert parameters(KernelRidgeCV, {"alphas": [0.1, 1]}) == {"alphas": [0.1, 1]}
    for cls, name, value in (
        (KernelRidge, "alpha", [1.0]),
        (KernelRidge, "alpha", {}),
        (KernelRidge, "max_atoms", 2**70),
        (KernelRidge, "max_iter", "many"),
        (KernelRidge, "fit_intercept", "yes"),
        (Squeak, "random_state", "0"),
        (KernelRidgeCV, "alphas", ["a"]),
    ):
        with pytest.raises(ValueError, match=f"its parameter {name} is"):
            parameters(cls, {name: value})
    with pytest.raises(ValueError, match="parameters are damaged"):
        parameters(KernelRidge, [])
