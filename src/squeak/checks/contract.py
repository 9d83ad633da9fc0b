"""What an estimator of any kind promises: seeds, purity, files, clear errors. Each check is one sentence."""

from __future__ import annotations

import pickle
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from squeak import kinds
from squeak.core import storage


@dataclass(frozen=True)
class Bad:
    """Input that has to be refused: what it is made of, the error, and words that the error has."""

    make: Callable[[Any], Any]
    words: str
    error: tuple[type[Exception], ...] = (ValueError,)
    later: bool = False
    """It is bad only beside rows that were read before."""


@dataclass(frozen=True)
class Case:
    """An estimator, the arguments of its ``fit``, what it answers once fitted, and what it has to refuse."""

    estimator: Any
    data: tuple[Any, ...]
    answers: Callable[[Any], Any]
    bad_rows: dict[str, Bad] = field(default_factory=dict)
    bad_parameters: tuple[tuple[dict[str, Any], str], ...] = ()

    def new(self, **params: Any) -> Any:
        """Return an estimator that is not fitted."""
        return clone(self.estimator).set_params(**params)

    def fitted(self, **params: Any) -> Any:
        """Return an estimator that is fitted to the data."""
        return self.new(**params).fit(*self.data)

    def changed(self, make: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Return the data with other rows."""
        return (make(self.data[0]), *self.data[1:])

    def has(self, name: str) -> bool:
        """Tell whether the estimator has a method."""
        return hasattr(self.estimator, name)


Check: TypeAlias = Callable[[Any], None]
AnyCheck = TypeVar("AnyCheck", bound=Check)


def fail(words: str) -> NoReturn:
    """Raise an AssertionError."""
    raise AssertionError(words)


def ensure(holds: Any, words: str) -> None:
    """Raise an AssertionError with these words unless something holds."""
    if not holds:
        fail(words)


def same(a: Any, b: Any) -> bool:
    """Tell whether two answers are equal in every bit."""
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if sp.issparse(a):
        return bool((a != b).nnz == 0)
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)


def refused(what: str, error: Any, words: str, call: Callable[..., Any], *args: Any) -> None:
    """Ensure that a call raises this error with these words in it."""
    try:
        call(*args)
    except error as found:
        ensure(re.search(words, str(found)), f"{what}: the error {str(found)!r} does not say {words!r}")
    except Exception as found:
        raise AssertionError(f"{what} gives {type(found).__name__}: {found}; it should give {error}") from found
    else:
        fail(f"{what} is taken without an error")


def when(applies: Callable[[Any], Any]) -> Callable[[AnyCheck], AnyCheck]:
    """Mark a check as one for some estimators only."""

    def mark(check: AnyCheck) -> AnyCheck:
        check.applies = applies  # type: ignore[attr-defined]
        return check

    return mark


def sentence(check: Check) -> str:
    """Return what a check ensures, in words."""
    return str(check.__name__).replace("_", " ")


def named(checks: Iterable[Check], case: Any, name: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield every check that applies to a case by its sentence, ready to be called."""
    for check in checks:
        if getattr(check, "applies", lambda _: True)(case):
            yield sentence(check), partial(_run, check, case, name)


def _run(check: Check, case: Any, name: str) -> None:
    where = f"{name}: {sentence(check)}"
    try:
        check(case)
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from error
    except Exception as error:
        error.add_note(f"in the check of {where}")
        raise


def is_stored(obj: Any) -> bool:
    """Tell whether objects of this class can be saved."""
    return getattr(obj, "kind", "") in kinds.KINDS and kinds.class_of(obj.kind) is type(obj)


def _shown(estimator: Any) -> dict[str, str]:
    return {name: repr(value) for name, value in estimator.get_params().items()}


def the_constructor_only_stores_and_fit_returns_the_estimator(case: Case) -> None:
    one = case.new()
    for name, value in one.get_params(deep=False).items():
        ensure(getattr(one, name) is value, f"{name} is not stored as it was given")
    before = _shown(one)
    ensure(one.fit(*case.data) is one, "fit returns something else")
    ensure(_shown(one) == before, "fit changes a parameter")


def without_a_fit_there_is_no_answer(case: Case) -> None:
    for one in (case.new(), clone(case.fitted())):
        refused("an estimator that was not fitted", NotFittedError, "", case.answers, one)


@when(lambda case: "random_state" in case.estimator.get_params())
def the_same_seed_gives_the_same_result(case: Case) -> None:
    one = case.fitted()
    first = case.answers(one)
    state = np.random.get_state()  # noqa: NPY002  (the global generator must not matter)
    try:
        np.random.seed(3)  # noqa: NPY002
        again = case.answers(one.fit(*case.data))
    finally:
        np.random.set_state(state)  # noqa: NPY002
    ensure(same(again, first), "a second fit differs, of the same estimator under another seed of numpy's own")
    for make in (np.random.default_rng, np.random.RandomState):
        a, b = (case.answers(case.fitted(random_state=make(5))) for _ in range(2))
        ensure(same(a, b), f"two {make.__name__} of one seed give different results")


def the_input_is_neither_modified_nor_aliased(case: Case) -> None:
    given = tuple(part.copy() for part in case.data)
    one = case.new().fit(*given)
    ensure(same(given, case.data), "fit changes its input")
    before = case.answers(one)
    for part in given:
        values = part.data if sp.issparse(part) else part
        values[:] = values[0]
    ensure(same(case.answers(one), before), "answers follow the array that was given to fit")


def pickled_it_goes_on_where_it_was(case: Case) -> None:
    one = case.fitted()
    again = pickle.loads(pickle.dumps(one))
    ensure(same(case.answers(again), case.answers(one)), "the copy answers otherwise")
    if case.has("partial_fit"):
        both = [case.answers(each.partial_fit(*case.data)) for each in (one, again)]
        ensure(same(*both), "the copy goes on otherwise")


@when(lambda case: is_stored(case.estimator))
def saved_and_loaded_it_is_the_same(case: Case) -> None:
    one = case.fitted()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("a.sqk", "b.sqk")]
        storage.save(one, paths[0])
        again = kinds.load(paths[0])
        ensure(type(again) is type(one), f"it comes back as a {type(again).__name__}")
        storage.save(one, paths[1])
        ensure(paths[0].read_bytes() == paths[1].read_bytes(), "saved twice it gives two files")
    ensure(same(case.answers(again), case.answers(one)), "it answers otherwise")
    names = [set(each.get_params(deep=False)) for each in (one, again)]
    ensure(names[0] == names[1], "its parameters have other names")


@when(lambda case: case.bad_rows)
def bad_rows_get_one_clear_error_and_change_nothing(case: Case) -> None:
    one = case.fitted()
    before = case.answers(one)
    words = "|all dense, all sparse"  # said of sparse rows that come after dense ones
    for kind, bad in case.bad_rows.items():
        rows = case.changed(bad.make)
        if not bad.later:
            new = case.new()
            refused(kind, bad.error, bad.words, new.fit, *rows)
            refused(f"an estimator after {kind}", NotFittedError, "", case.answers, new)
            refused(f"{kind} in a second fit", bad.error, bad.words, one.fit, *rows)
            _unchanged(case, one, before, kind)
        if case.has("partial_fit"):
            more = (*bad.error, TypeError)
            refused(f"{kind} after good rows", more, bad.words + words, one.partial_fit, *rows)
            _unchanged(case, one, before, kind)


@when(lambda case: _bad_parameters(case))
def bad_parameters_get_one_clear_error_at_fit(case: Case) -> None:
    one = case.fitted()
    before, good = case.answers(one), one.get_params(deep=False)
    for params, words in _bad_parameters(case):
        one.set_params(**params)
        refused(repr(params), (ValueError, TypeError), words, one.fit, *case.data)
        one.set_params(**{name: good[name] for name in params})
        _unchanged(case, one, before, repr(params))


def _unchanged(case: Case, one: Any, before: Any, after: str) -> None:
    try:
        now = case.answers(one)
    except NotFittedError:
        fail(f"{after} makes it forget what was learned before")
    ensure(same(now, before), f"{after} changes what was learned before")


def _bad_parameters(case: Case) -> list[tuple[dict[str, Any], str]]:
    known = set(case.estimator.get_params())
    return [(params, words) for params, words in case.bad_parameters if set(params) <= known]


CONTRACT: tuple[Check, ...] = (
    the_constructor_only_stores_and_fit_returns_the_estimator,
    without_a_fit_there_is_no_answer,
    the_same_seed_gives_the_same_result,
    the_input_is_neither_modified_nor_aliased,
    pickled_it_goes_on_where_it_was,
    saved_and_loaded_it_is_the_same,
    bad_rows_get_one_clear_error_and_change_nothing,
    bad_parameters_get_one_clear_error_at_fit,
)
"""What is asked of every estimator; each kind adds its own."""
