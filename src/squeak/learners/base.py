"""What all learners on a dictionary share: how the dictionary is chosen."""

from __future__ import annotations

import math
import warnings
from dataclasses import field, replace
from typing import Any

import numpy as np

from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import resolve
from squeak.core.kernels.base import block, diagonal
from squeak.core.nystrom import Features, FixedFeatures, TriangularFeatures
from squeak.core.rows import check_rows, label_of, n_rows, take, width_of
from squeak.core.seeds import draw_seed
from squeak.core.types import Rows
from squeak.data import RowSource
from squeak.learners.data import ArrayTraining, SourceTraining, Training
from squeak.learners.one_pass import OnePass
from squeak.learners.rows import KernelLearner
from squeak.learners.warning import warn_if_uneven
from squeak.samplers import BlessR, Disqueak, Squeak, Uniform
from squeak.samplers.base import Sampler, filled_in, own_kernel
from squeak.samplers.dictionary import Dictionary

LOOKED_AT, LEAST_LOOKED_AT, LONELY = 300, 10, 1e-4
"""Of so many atoms the nearest other is looked at; a median k below the last means that all stand alone."""

ATOMS_FOR_ROOT = 10
"""Without a word on the dictionary it gets 10·√n atoms, the practice of FALKON's authors, …"""

MOST_ATOMS = 2000
"""… but no more than this."""

PLAIN_BELOW = 4
"""Rows per atom below which all rows are looked at: drawing a few of them costs as much."""


@parameters
class DictionaryLearner(KernelLearner):
    """Base of the learners that choose a dictionary: by a ``sampler``, a size, or as it is given."""

    sampler: Sampler | None = None
    dictionary: Any = None
    max_atoms: int | None = None
    verbose: int = 0
    _feature_map: Features = field(init=False)

    def _check_choice(self) -> None:
        """Refuse contradictory parameters before any row is read."""
        given = [name for name in ("sampler", "dictionary", "max_atoms") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of sampler, dictionary and max_atoms, not {' and '.join(given)}")
        if self.max_atoms is not None:
            check_whole("max_atoms", self.max_atoms)
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
        return super()._own_kernel()

    def _given_encoding(self) -> Any:
        return getattr(self.dictionary, "preprocessing", None)

    def _check_encoding(self, source: RowSource) -> None:
        if isinstance(self.dictionary, Dictionary) and source.preprocessing != self.dictionary.preprocessing:
            raise ValueError(
                "these rows were preprocessed in another way than the dictionary's: "
                "make them with squeak.rows(..., preprocessing=dictionary.preprocessing)"
            )

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
        warn_if_uneven(found, getattr(self, "feature_names_in_", None))
        return found

    def _stream_sampler(self, ridge: float | None) -> Any:
        """Return the sampler of a stream of unknown length: the one given, or SQUEAK."""
        if self.sampler is None:
            return Squeak(kernel=self.kernel, max_atoms=self._n_atoms(None), random_state=self.random_state)
        if not hasattr(self.sampler, "partial_fit"):
            raise ValueError(f"{type(self.sampler).__name__} needs all rows at once: use Squeak() or Kors()")
        return self._filled_in(self.kernel, ridge)

    def _begin_stream(self, ridge: float | None) -> OnePass:
        """Return the state before the first row of a stream that is learned in one pass."""
        given, intercept = self._given_dictionary(), bool(getattr(self, "fit_intercept", False))
        if given is not None:
            return OnePass(None, self._features(given), given, intercept, ridge)
        if getattr(self, "regularised", False):
            raise ValueError("regularised features change with the dictionary: give one, or use fit")
        return OnePass(self._stream_sampler(ridge), fit_intercept=intercept, alpha=ridge)

    def _features(self, d: Dictionary) -> Features:
        """Return the features that the learner solves on."""
        return TriangularFeatures(d.kernel, d.atoms)

    def _restore(self, found: dict[str, Any]) -> None:
        super()._restore(found)
        mixing = found.get("_feature_map.mixing")
        if mixing is not None:
            self._feature_map = FixedFeatures(self.kernel_, self.dictionary_.atoms, mixing)

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
