"""What samplers, learners, online learners and DPPs promise beyond the contract of every estimator."""

from __future__ import annotations

import pickle
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from squeak import kinds
from squeak.checks.contract import CONTRACT, Bad, Case, Check, ensure, refused, same, when
from squeak.core import storage
from squeak.core.kernels import RBF
from squeak.samplers.dictionary import Dictionary

X = np.random.default_rng(20261116).standard_normal((400, 3))
"""The rows of all checks; few enough for any method."""

Y = np.sin(X).sum(axis=1)


def _with(value: float) -> Any:
    def put(rows: Any) -> Any:
        rows = rows.copy()
        rows[17, 1] = value
        return rows

    return put


NUMBERS = (TypeError, ValueError)
BAD_ROWS = {
    "a row with nan": Bad(_with(np.nan), r"row \d+, column 1 is nan|NaN"),
    "a row with -inf": Bad(_with(-np.inf), r"row \d+, column 1 is -inf|infinity"),
    "rows of another width": Bad(
        lambda X: X[:, :2], "rows have 2 columns; the rows before had 3|2 features", later=True
    ),
    "no rows": Bad(lambda X: X[:0], "no rows|0 sample"),
    "no columns": Bad(lambda X: X[:, :0], "no columns|rows have 0 columns|0 feature"),
    "one row that is no table": Bad(lambda X: X[0], r"2-D table.*reshape\(1, -1\)|2D array"),
    "three dimensions": Bad(lambda X: X[None], "2-D table|dim 3|<= 2"),
    "text": Bad(lambda X: np.full(X.shape, "word"), "must be numbers|convert string|dtype='numeric'", NUMBERS),
    "a path": Bad(lambda X: "rows.csv", "not text|Expected 2D array|convert string", NUMBERS),
    "complex numbers": Bad(lambda X: X + 1j, "(?i)complex", NUMBERS),
    "masked rows": Bad(lambda X: np.ma.masked_less(X, -1.0), r"row \d+ has masked values"),
    "nothing": Bad(lambda X: None, "rows must be numbers|Expected 2D array|NoneType", NUMBERS),
}
ONLY_SAMPLERS = {
    "text among numbers": Bad(lambda X: np.array([["a", 1.0, 2.0]], dtype=object), "text among them", NUMBERS),
    "dates": Bad(lambda X: X.astype("datetime64[s]"), "makes numbers of text and dates", NUMBERS),
    "a sparse row with nan": Bad(lambda X: sp.csr_matrix(_with(np.nan)(X)), r"row \d+, column 1 is nan"),
}
BAD_PARAMETERS = (
    ({"ridge": 0.0}, "ridge must be"),
    ({"ridge": np.nan}, "ridge must be"),
    ({"ridge": "1"}, "ridge must be a"),
    ({"oversampling": 0}, "oversampling must be"),
    ({"oversampling": "much"}, "oversampling must be"),
    ({"copies": 0}, "copies must be a whole number"),
    ({"copies": 2.5}, "copies must be a whole number"),
    ({"max_atoms": 0}, "max_atoms must be a whole number"),
    ({"max_atoms": 2.5}, "max_atoms must be a whole number"),
    ({"random_state": "x"}, "random_state must be"),
    ({"random_state": -1}, "random_state must not be negative"),
    ({"kernel": RBF(-1.0)}, "length_scale must be positive"),
    ({"kernel": "rbf"}, "kernel"),
)


def sampler_case(sampler: Any) -> Case:
    """Return the case of a sampler: its answer is the dictionary."""
    bad = BAD_ROWS | ONLY_SAMPLERS
    return Case(sampler, (X,), lambda one: one.dictionary_, bad, BAD_PARAMETERS)


def _numeric(case: Case, **params: Any) -> Any:
    """Return a new sampler whose width is a number, for rows that have no median distance."""
    one = case.new()
    if getattr(one.kernel, "length_scale", "median") == "median":
        params = {"kernel": RBF(1.0), **params}
    return one.set_params(**params)


def fitted_is_known_to_scikit_learn(case: Case) -> None:
    refused("a new sampler", Exception, "not fitted|no rows", check_is_fitted, case.new())
    one = case.fitted()
    check_is_fitted(one)
    ensure(one.kernel_ == one.dictionary_.kernel, "kernel_ is not the dictionary's")


def the_dictionary_is_made_of_the_rows_and_cannot_be_changed(case: Case) -> None:
    one = case.fitted()
    d = one.dictionary_
    ensure(np.array_equal(X[d.indices], d.atoms), "an atom is not the row of its index")
    ensure(np.all(np.diff(d.indices) > 0), "atoms are not in the order of the rows")
    ensure(d.n_seen == len(X), f"n_seen is {d.n_seen}, not {len(X)}")
    for name in ("atoms", "counts"):
        refused(f"a change of {name}", ValueError, "read-only", getattr(d, name).fill, 1)
    width = repr(d.kernel)
    one.kernel.set_params(**{name: 99.0 for name in one.kernel.get_params() if name == "length_scale"})
    ensure(repr(one.dictionary_.kernel) == width, "the dictionary holds the user's own kernel")


def the_dictionary_is_saved_and_loaded(case: Case) -> None:
    d = case.fitted().dictionary_
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "a.sqk", Path(folder) / "b.sqk"
        d.save(first)
        again = Dictionary.load(first)
        d.save(str(second))
        ensure(first.read_bytes() == second.read_bytes(), "two files of one dictionary differ")
    ensure(again == d, "what was loaded differs")


@when(lambda case: find_spec("pandas"))
def tables_of_pandas_are_rows_too(case: Case) -> None:
    import pandas

    frame = pandas.DataFrame(X, columns=list("abc"))
    ensure(case.new().fit(frame).dictionary_ == case.fitted().dictionary_, "a table gives another dictionary")


def a_single_row_and_equal_rows_are_fine(case: Case) -> None:
    one = _numeric(case)
    ensure(len(one.fit(np.ones((1, 2))).dictionary_) == 1, "one row is not one atom")
    d = one.fit(np.ones((500, 2))).dictionary_
    ensure(d.n_seen == 500, "equal rows are not counted")
    if d.calibrated:
        ensure(d.effective_dimension() <= 1 + 1e-9, "equal rows have more than one dimension")


def huge_and_tiny_values_are_rows_too(case: Case) -> None:
    for scale in (1e-150, 1e150):
        d = case.new(kernel=RBF(scale)).fit(scale * X[:200, :2]).dictionary_
        ensure(np.isfinite(d.weights).all(), f"weights of rows of size {scale} are not finite")
        if d.calibrated:
            ensure(1 < d.effective_dimension() < 60, f"the dimension of rows of size {scale} is wrong")


@when(lambda case: case.has("partial_fit"))
def one_row_at_a_time_is_many_at_once(case: Case) -> None:
    one = _numeric(case)
    many = clone(one).fit(X).dictionary_
    for row in X:
        one.partial_fit(row.reshape(1, -1))
    found = one.dictionary_
    ensure(same([found.indices, found.counts], [many.indices, many.counts]), "other rows are kept")
    np.testing.assert_allclose(found.weights, many.weights, rtol=1e-10)


@when(lambda case: case.has("partial_fit"))
def a_bad_row_of_a_stream_is_named_by_its_number(case: Case) -> None:
    one = case.new().partial_fit(X)
    refused(
        "nan in the second block",
        ValueError,
        f"row {len(X) + 17}, column 1 is nan",
        one.partial_fit,
        _with(np.nan)(X),
    )
    refused("sparse after dense", TypeError, "all dense, all sparse", one.partial_fit, sp.csr_matrix(X))
    ensure(one.dictionary_.n_seen == len(X), "a bad block counts")
    ensure(one.partial_fit(X).dictionary_.n_seen == 2 * len(X), "it does not go on after a bad block")


SAMPLER: tuple[Check, ...] = (
    *CONTRACT,
    fitted_is_known_to_scikit_learn,
    the_dictionary_is_made_of_the_rows_and_cannot_be_changed,
    the_dictionary_is_saved_and_loaded,
    tables_of_pandas_are_rows_too,
    a_single_row_and_equal_rows_are_fine,
    huge_and_tiny_values_are_rows_too,
    one_row_at_a_time_is_many_at_once,
    a_bad_row_of_a_stream_is_named_by_its_number,
)


def learner_case(learner: Any) -> Case:
    """Return the case of a learner: it answers by every method that takes rows."""
    return Case(learner, (X, _targets(learner)), _said, _bad_rows(learner), BAD_PARAMETERS)


def _bad_rows(learner: Any) -> dict[str, Bad]:
    """Return the rows that a learner must refuse: gaps are none where its tags say that it takes them."""
    gaps = get_tags(learner).input_tags.allow_nan
    return {name: bad for name, bad in BAD_ROWS.items() if not (gaps and name == "a row with nan")}


def _targets(learner: Any) -> Any:
    return np.array(["low", "middle", "high"])[np.digitize(Y, [-0.6, 0.6])] if is_classifier(learner) else Y


def _said(learner: Any, rows: Any = None) -> list[Any]:
    methods = ("predict", "predict_proba", "decision_function", "transform")
    return [getattr(learner, name)(X[:50] if rows is None else rows) for name in methods if hasattr(learner, name)]


def rows_to_answer_are_checked(case: Case) -> None:
    one = case.fitted()
    for kind in ("a row with nan", "rows of another width", "no rows", "one row that is no table"):
        if kind not in case.bad_rows:
            continue
        bad = BAD_ROWS[kind]
        words = f"{bad.words}|has 2 columns|expecting 3 features"
        refused(f"{kind}, to answer", bad.error, words, _said, one, bad.make(X))


def sparse_and_narrow_rows_get_the_same_answers(case: Case) -> None:
    one = case.fitted()
    forms = {1e-3: X[:50].astype(np.float32)}
    if get_tags(one).input_tags.sparse:
        forms[1e-6] = sp.csr_array(X[:50])
    else:
        refused("sparse rows, to answer", TypeError, "(?i)sparse|dense", _said, one, sp.csr_array(X[:50]))
    for error, form in forms.items():
        for a, b in zip(_said(one), _said(one, form), strict=True):
            if a.dtype.kind == "f":
                np.testing.assert_allclose(b, a, rtol=error, atol=error * np.abs(a).max())


def rows_are_answered_one_by_one_as_together(case: Case) -> None:
    one = case.fitted()
    together, singly = _said(one), [_said(one, X[i : i + 1]) for i in range(5)]
    for place, answers in enumerate(together):
        alone = np.concatenate([each[place] for each in singly])
        if answers.dtype.kind == "f":
            np.testing.assert_allclose(alone, answers[:5], rtol=1e-7, atol=1e-9 * np.abs(answers).max())
        else:
            ensure(same(alone, answers[:5]), "an answer depends on the other rows")


@when(lambda case: is_classifier(case.estimator) or is_regressor(case.estimator))
def targets_of_another_number_are_refused(case: Case) -> None:
    refused("fewer targets than rows", ValueError, "inconsistent|rows|shape", case.new().fit, X, case.data[1][:50])


LEARNER: tuple[Check, ...] = (
    *CONTRACT,
    rows_to_answer_are_checked,
    sparse_and_narrow_rows_get_the_same_answers,
    rows_are_answered_one_by_one_as_together,
    targets_of_another_number_are_refused,
)


def online_case(learner: Any) -> Case:
    """Return the case of an online learner, which says what it would have predicted before it learns."""
    case = learner_case(learner)
    rows = {name: bad for name, bad in BAD_ROWS.items() if name not in ("a path", "nothing")}
    return Case(learner, (X[:100], case.data[1][:100]), _said, rows, BAD_PARAMETERS)


def row_by_row_it_says_what_it_says_of_blocks(case: Case) -> None:
    rows, targets = case.data
    more = {"classes": np.unique(targets)} if is_classifier(case.estimator) else {}
    whole, blocks, singly = case.new(), case.new(), case.new()
    said = whole.test_then_train(rows, targets)
    blocks.partial_fit(rows[:1], targets[:1], **more)
    for cut in np.array_split(np.arange(1, len(rows)), 17):
        blocks.partial_fit(rows[cut], targets[cut])
    quick = [singly.test_then_train_one(rows[0], targets[0], **more)]
    quick += [singly.test_then_train_one(x, y) for x, y in zip(rows[1:], targets[1:], strict=True)]
    ensure(whole.n_seen_ == blocks.n_seen_ == singly.n_seen_ == len(rows), "rows are not counted alike")
    ensure(whole.n_atoms_ == blocks.n_atoms_ == singly.n_atoms_, "they have different numbers of atoms")
    answers = [model.predict(rows[:80]) for model in (whole, blocks, singly)]
    for other in answers[1:]:
        if is_classifier(whole):  # rounding may turn a label that hangs on a hair
            ensure(np.mean(answers[0] != other) < 0.03, "labels depend on the cut of the stream")
        else:
            np.testing.assert_allclose(other, answers[0], atol=1e-7)
    if None not in quick and not is_classifier(whole):
        np.testing.assert_allclose(quick, said, atol=1e-7)
        np.testing.assert_allclose(singly.predict_one(rows[5]), singly.predict(rows[5:6])[0], atol=1e-9)


def saved_in_mid_stream_it_goes_on_in_the_same_bits(case: Case) -> None:
    rows, targets = case.data
    more = {"classes": np.unique(targets)} if is_classifier(case.estimator) else {}
    for at in (1, 20, 80):
        one = case.new().partial_fit(rows[:at], targets[:at], **more)
        with tempfile.TemporaryDirectory() as folder:
            storage.save(one, Path(folder) / "model.sqk")
            again = kinds.load(Path(folder) / "model.sqk")
            ensure(same(_said(again), _said(one)), f"saved after {at} rows it answers otherwise")
        both = [model.test_then_train(rows[at:], targets[at:]) for model in (one, again)]
        ensure(same(*both), f"saved after {at} rows it goes on otherwise")
        ensure(again.n_seen_ == one.n_seen_ == len(rows), f"saved after {at} rows it counts otherwise")


def fit_forgets_what_was_learned(case: Case) -> None:
    one = case.fitted()
    one.partial_fit(X[300:], _targets(one)[300:])
    ensure(same(_said(one.fit(*case.data)), _said(case.fitted())), "a second fit remembers the first")


ONLINE: tuple[Check, ...] = (
    *CONTRACT,
    row_by_row_it_says_what_it_says_of_blocks,
    saved_in_mid_stream_it_goes_on_in_the_same_bits,
    fit_forgets_what_was_learned,
    targets_of_another_number_are_refused,
)


def dpp_case(dpp: Any) -> Case:
    """Return the case of a DPP: its answers are the chances of the rows; samples are checked apart."""
    rows = {name: bad for name, bad in (BAD_ROWS | ONLY_SAMPLERS).items() if not bad.later}
    return Case(dpp, (X[:200],), lambda one: [one.marginals(), one.expected_size_], rows, BAD_PARAMETERS)


def samples_are_row_numbers_in_order(case: Case) -> None:
    one = case.fitted()
    for found in [*one.sample(5), one.sample(), one.sample(k=7)]:
        ensure(found.dtype.kind == "i" and np.all(np.diff(found) > 0), "a sample is not in the order of the rows")
        ensure(found.size == 0 or 0 <= found[0] <= found[-1] < 200, "a sample has a row that is not there")
    ensure(len(one.sample(k=7)) == 7, "seven rows were asked for")
    chances = one.marginals()
    ensure(np.all((chances >= 0) & (chances <= 1 + 1e-9)), "a chance lies outside 0 to 1")
    np.testing.assert_allclose(chances.sum(), one.expected_size_, rtol=0.2)


def samples_follow_the_seed_and_go_on_after_a_pickle(case: Case) -> None:
    one, two = case.fitted(), case.fitted()
    first = one.sample(3)
    ensure(same(first, two.sample(3)), "the same seed gives other samples")
    ensure(not same(one.sample(3), first), "the next samples are the first again")
    again = pickle.loads(pickle.dumps(one))
    ensure(same(again.sample(3), one.sample(3)), "the copy draws other samples")
    ensure(not same(case.fitted(random_state=1).sample(3), first), "another seed gives the same samples")


DPP: tuple[Check, ...] = (
    *CONTRACT,
    samples_are_row_numbers_in_order,
    samples_follow_the_seed_and_go_on_after_a_pickle,
)
