"""What all learners on a dictionary share: how the dictionary is chosen, and how rows are checked."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from squeak.core import storage
from squeak.core.dictionary import Dictionary
from squeak.core.kernels import resolve
from squeak.core.kernels.base import block, diagonal
from squeak.core.rows import check_rows, label_of, n_rows, refuse_hidden, take, width_of
from squeak.core.seeds import draw_seed
from squeak.core.sources import RowSource
from squeak.core.types import Rows
from squeak.learners.data import ArrayTraining, SourceTraining, Training, as_numbers, check_finite
from squeak.samplers import BlessR, Disqueak, Squeak, Uniform
from squeak.samplers.base import Sampler, check_max_atoms, filled_in, own_kernel
from squeak.samplers.tree_run import active_client

Method = TypeVar("Method", bound=Callable[..., Any])

LOOKED_AT, LEAST_LOOKED_AT, LONELY = 300, 10, 1e-4
"""Of so many atoms the nearest other is looked at; a median k below the last means that all stand alone."""

ATOMS_FOR_ROOT = 10
"""Without a word on the dictionary it gets 10·√n atoms, the practice of FALKON's authors, …"""

MOST_ATOMS = 2000
"""… but no more than this."""

PLAIN_BELOW = 4
"""Rows per atom below which all rows are looked at: drawing a few of them costs as much."""


class DictionaryLearner(BaseEstimator):  # type: ignore[misc]
    """Base of the learners: ``kernel``, one of ``sampler``, ``dictionary``, ``max_atoms``, and ``random_state``."""

    kernel: Any
    sampler: Sampler | None
    dictionary: Any
    max_atoms: int | None
    random_state: Any
    verbose: int
    dictionary_: Dictionary

    def _check_choice(self) -> None:
        """Refuse contradictory parameters before any row is read."""
        given = [name for name in ("sampler", "dictionary", "max_atoms") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of sampler, dictionary and max_atoms, not {' and '.join(given)}")
        if self.max_atoms is not None:
            check_max_atoms(self.max_atoms)
        if self.sampler is not None and (isinstance(self.sampler, type) or not isinstance(self.sampler, Sampler)):
            raise TypeError(f"sampler must be a sampler such as Squeak(), not {self.sampler!r}")
        theirs = getattr(self.sampler, "kernel", None)
        if theirs is not None and self.kernel is not None and own_kernel(self.kernel) != own_kernel(theirs):
            raise ValueError(
                f"the sampler's kernel is {theirs!r} and the learner's {self.kernel!r}: leave one of them out"
            )

    def _own_kernel(self) -> Any:
        if isinstance(self.dictionary, Dictionary):
            if self.kernel is not None and own_kernel(self.kernel) != self.dictionary.kernel:
                raise ValueError(
                    f"the dictionary was learned with {self.dictionary.kernel!r}: leave kernel out, or learn anew"
                )
            return self.dictionary.kernel
        return own_kernel(self.kernel)

    def _given_dictionary(self, first_rows: Rows | None = None) -> Dictionary | None:
        """Return the dictionary that was given, made of landmarks where it is rows."""
        given = self.dictionary
        if given is None or isinstance(given, Dictionary):
            return given
        atoms = check_rows(given, self._own_kernel())
        kernel = resolve(self._own_kernel(), atoms if first_rows is None else first_rows)
        if not diagonal(kernel, atoms).any():
            raise ValueError(f"{kernel!r} is zero for all rows of the dictionary: give others, or another kernel")
        return landmarks(atoms, kernel)

    def _choose_dictionary(self, data: Training, kernel: Any, ridge: float | None) -> Dictionary:
        """Return the dictionary of a fit: the one given, or what a sampler learns from the rows."""
        given = self._given_dictionary()
        if given is not None:
            self._check_width(given)
            if isinstance(data, SourceTraining) and not isinstance(self.dictionary, Dictionary):
                given = replace(given, preprocessing=data.source.preprocessing)
            return given
        sampler = self._default_sampler(data, kernel) if self.sampler is None else self._filled_in(kernel, ridge)
        rows = data.X if isinstance(data, ArrayTraining) else data.source
        kept = getattr(data, "run", None)
        found: Dictionary = sampler.fit(rows).dictionary_ if kept is None else kept.dictionary(sampler, rows)
        if found.n_seen > len(found):
            _warn_if_lonely(found)
        return found

    def _stream_sampler(self, ridge: float | None) -> Any:
        """Return the sampler of a stream of unknown length: the one given, or SQUEAK."""
        if self.sampler is None:
            return Squeak(kernel=self.kernel, max_atoms=self._n_atoms(None), random_state=self.random_state)
        if not hasattr(self.sampler, "partial_fit"):
            raise ValueError(f"{type(self.sampler).__name__} needs all rows at once: use Squeak() or Kors()")
        return self._filled_in(self.kernel, ridge)

    def _filled_in(self, kernel: Any, ridge: float | None) -> Any:
        """Return the sampler given, with the learner's kernel, ridge and seed where it leaves them open."""
        if getattr(self.sampler, "max_atoms", None) is not None:
            ridge = None  # it finds the one that goes with its size
        return filled_in(self.sampler, kernel=kernel, ridge=ridge, random_state=self.random_state)

    def _n_atoms(self, n: int | None) -> int:
        """Return how many atoms n rows get: ``max_atoms``, else 10·√n, 2,000 at most; 2,000 if nobody knows n."""
        if self.max_atoms is not None:
            return self.max_atoms
        return MOST_ATOMS if n is None else min(MOST_ATOMS, math.ceil(ATOMS_FOR_ROOT * math.sqrt(n)))

    def _check_width(self, given: Dictionary) -> None:
        atoms, columns = width_of(given.atoms), getattr(self, "n_features_in_", None)
        if atoms is not None and given.preprocessing is None and columns is not None and atoms != columns:
            raise ValueError(f"the dictionary's atoms have {atoms} columns, these rows {columns}")

    def _default_sampler(self, data: Training, kernel: Any) -> Sampler:
        """Return the sampler for ``max_atoms``: BLESS-R for rows in memory, (DIS)SQUEAK for streams."""
        atoms = self._n_atoms(data.n)
        seed = draw_seed(self.random_state) if self.random_state is not None else self.random_state
        if isinstance(data, SourceTraining):
            if data.client is not None and data.source.n_parts > 1:
                return Disqueak(kernel=kernel, max_atoms=atoms, random_state=seed, verbose=self.verbose)
            return Squeak(kernel=kernel, max_atoms=atoms, random_state=seed, verbose=self.verbose)
        if isinstance(data.X, list) or n_rows(data.X) <= PLAIN_BELOW * atoms:
            return Uniform(kernel=kernel, max_atoms=atoms, random_state=seed)
        return BlessR(kernel=kernel, max_atoms=atoms, random_state=seed)

    def _vectors(self) -> bool:
        """Tell whether rows are vectors, so that scikit-learn's checks apply."""
        return bool(getattr(self._own_kernel(), "requires_vector_input", True))

    def _array(self, X: Any, y: Any, weight: Any, targets: bool = True, **checks: Any) -> ArrayTraining:
        """Check rows, targets and weights in memory, in scikit-learn's way; ``targets`` False: there are none."""
        encoding = getattr(self.dictionary, "preprocessing", None)
        if encoding is not None:
            X = encoding.encode(X)
        for values, name in ((X, "rows"), (y, "y"), (weight, "sample_weight")):
            refuse_hidden(values, name)
        if checks.get("y_numeric") and y is not None and np.asarray(y).dtype.kind in "OUS":
            y = as_numbers(y)
        if targets:
            check_finite(y, "y")
        if self._vectors():
            try:
                found = validate_data(
                    self,
                    X,
                    y if targets else "no_validation",
                    accept_sparse="csr",
                    dtype=[np.float64, np.float32],
                    ensure_all_finite=False,  # check_rows below names the row
                    **checks,
                )
            except ValueError as error:
                if not str(error).startswith("could not convert string"):
                    raise
                raise ValueError(f"{error}; squeak.rows(X, y) makes numbers of columns of text") from None
            X, y = found if targets else (found, None)
        rows = check_rows(X, self._own_kernel())
        if not self._vectors() and targets:
            y = np.asarray(y)
            if y.shape[:1] != (n_rows(rows),):
                raise ValueError(f"there are {n_rows(rows):,} rows, and y has the shape {y.shape}")
        if targets and checks.get("y_numeric"):
            y = np.asarray(y, dtype=np.float64)
        if weight is not None:
            check_finite(weight, "sample_weight")
            weight = _check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
            if not weight.sum() > 0:
                raise ValueError("sample_weight is zero for every row")
            if not weight.all():  # a row of no weight is no row: it shall not be an atom either
                some = np.flatnonzero(weight)
                rows, weight, y = take(rows, some), weight[some], y[some] if targets else None
        return ArrayTraining(rows, y if targets else None, weight)

    def _source(
        self, X: RowSource, y: Any, weight: Any, target: bool = True, numeric: bool = False, run: Any = None
    ) -> SourceTraining:
        """Check that a source can be learned from; ``numeric``: targets are numbers; ``run``: of a checkpoint."""
        if y is not None:
            raise ValueError("a row source carries its targets: squeak.rows(..., target=...), and no y")
        if weight is not None:
            raise ValueError("sample_weight goes with arrays; a row source has no place for it")
        if target and X.target is None:
            raise ValueError("the row source has no targets: squeak.rows(..., target='column')")
        if isinstance(self.dictionary, Dictionary) and X.preprocessing != self.dictionary.preprocessing:
            raise ValueError(
                "these rows were preprocessed in another way than the dictionary's: "
                "make them with squeak.rows(..., preprocessing=dictionary.preprocessing)"
            )
        client = active_client()
        if client is not None and not X.repeatable:
            client = None
        self._n_features_from(X)
        encode = as_numbers if numeric else None
        if run is None:
            return SourceTraining(X, encode, client)
        from squeak.learners.checkpoint import KeptTraining

        if client is not None:
            raise ValueError("a fit on a cluster can have no checkpoint; Disqueak().fit(rows, checkpoint=...) can")
        return KeptTraining(X, encode, None, run)

    def _n_features_from(self, source: RowSource) -> None:
        self.n_features_in_ = len(source.feature_names)
        self.__dict__.pop("feature_names_in_", None)

    def _rows_for(self, X: Any) -> Rows:
        """Return rows to predict, as the kernel takes them."""
        check_is_fitted(self)
        if isinstance(X, RowSource) or self.dictionary_.preprocessing is not None:
            return self.dictionary_.check_rows(X)
        refuse_hidden(X)
        if not self._vectors():
            return check_rows(X, self.dictionary_.kernel)
        checked = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False, ensure_all_finite=False
        )
        return check_rows(checked, self.dictionary_.kernel, width=width_of(self.dictionary_.atoms))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "dictionary_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def kernel_(self) -> Any:
        """The kernel with every width a number."""
        return self.dictionary_.kernel

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted learner to a ``.sqk`` file: data only; :func:`squeak.load` reads it."""
        check_is_fitted(self)
        storage.save(self, path)


def all_or_nothing(method: Method) -> Method:
    """Make a method of a learner leave the learner as it was if it fails or is interrupted.

    The method may set and drop attributes as it likes; what they hold it must replace and never change in place.
    """

    @wraps(method)
    def tried(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return cast(Method, tried)


def landmarks(atoms: Rows, kernel: Any, ridge: float = 1.0) -> Dictionary:
    """Return rows that the user chose as a dictionary: weights 1, which estimate nothing."""
    m = n_rows(atoms)
    return Dictionary(
        kernel=kernel,
        atoms=atoms,
        indices=np.arange(m),
        probabilities=np.ones(m),
        counts=np.ones(m, dtype=np.int64),
        copies=1,
        oversampling=None,
        ridge=ridge,
        n_seen=m,
        sources=((label_of(atoms), m),),
        calibrated=False,
    )


def _warn_if_lonely(d: Dictionary) -> None:
    """Warn where no atom resembles another under a kernel of distances: its width is far too small for the rows."""
    some = take(d.atoms, slice(0, LOOKED_AT))
    if not hasattr(d.kernel, "length_scale") or n_rows(some) < LEAST_LOOKED_AT:
        return
    K, own = block(d.kernel, some, some), np.sqrt(diagonal(d.kernel, some))
    np.fill_diagonal(K, 0.0)
    nearest = float(np.median((K / own / own[:, None]).max(axis=1)))
    if nearest < LONELY:
        warnings.warn(
            f"hardly any of the {len(d):,} atoms resembles another under {d.kernel!r} (the nearest one: "
            f"k = {nearest:.1g}): away from them predictions tell nothing. Use a larger length_scale (try 'median' "
            "or 'auto'), or scale the columns",
            stacklevel=4,
        )
