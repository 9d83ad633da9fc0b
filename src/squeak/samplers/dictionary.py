"""The dictionary: a small weighted set of rows that stands for all the rows it was learned from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from squeak.core import state
from squeak.core.checks import check_positive, check_whole
from squeak.core.kernels import gram
from squeak.core.leverage import WeightedFactor, check_ridge, weighted_spectrum
from squeak.core.rows import check_rows, copy_rows, n_rows, same_rows, width_of
from squeak.core.saved import KernelPiece, Layout, NestedPiece, RowsPiece, Saved, SourcesPiece
from squeak.core.types import Array, IntArray, Rows
from squeak.data import Preprocessing, RowSource
from squeak.samplers.record import Record, dictionary_html

SMALLEST_WEIGHT = 1e-90
"""What faded further counts as much."""


def faded(positions: IntArray, n_seen: int, half_life: float) -> Array:
    """Return how much rows count after ``n_seen`` rows: 2^(−age/half_life), the age of the last being 0."""
    return np.asarray(np.maximum(np.exp2((positions - (n_seen - 1.0)) / half_life), SMALLEST_WEIGHT))


@dataclass(frozen=True, eq=False, repr=False)
class Dictionary(Saved):
    """A small weighted set of rows, the atoms, that stands for all rows. It is a value that never changes.

    The weighted sum Σ w_i φ_i φ_iᵀ over the atoms estimates Σ φ_i φ_iᵀ over all rows. A new row has ``copies``
    coins, each of which shows heads with the row's probability. ``counts`` of them are left, and the weight is
    counts/(copies·probability), which is 1 in expectation for every row.

    Parameters
    ----------
    kernel : kernel
        The kernel, with a number for every width.
    atoms : rows
        The rows that were kept, in the order of the stream.
    indices : array of int, shape (m,)
        The number of each atom's row within its source.
    probabilities, counts : arrays of shape (m,)
        The probability of each atom's coins, and how many of them were heads.
    copies : int
        How many coins a row has.
    oversampling : float or None
        The factor between a leverage score and the expected number of copies kept; None if the sampler has no such
        number.
    ridge : float
        The regularisation of the leverage scores, which is compared with eigenvalues of K.
    n_seen : int
        The number of rows that the dictionary stands for.
    sources : tuple of (str, int)
        The name and the number of rows of every part of the data.
    source_numbers : array of int, shape (m,), optional
        The source that each atom comes from. By default all come from the first.
    eps : float
        The papers' ε if scores have their factor 1 − ε, else 0.
    calibrated : bool
        Whether the weights estimate sums over the data. False for landmarks that were chosen in other ways.
    preprocessing : Preprocessing, optional
        What turned the user's columns into the rows that the kernel sees. Methods that take rows apply it.
    record : Record, optional
        How the dictionary was learned, for reports. Two dictionaries with different records may be equal.
    half_life : float, optional
        The dictionary stands for a stream that fades: the row of so many rows ago counts half. The weight of an
        atom is then 2^(−age/half_life)·counts/(copies·probability), with the number of rows after its own as its
        age.

    Notes
    -----
    The theory page; thesis, section 1.4.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Squeak
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((2000, 2))
    >>> d = Squeak(kernel=RBF(2.0), ridge=1.0, oversampling=10, random_state=0).fit(X).dictionary_
    >>> d
    Dictionary(146 atoms for 2,000 rows, RBF(length_scale=2.0), ridge=1, d_eff≈12.7)
    >>> bool((X[d.indices] == d.atoms).all())
    True
    >>> round(float(d.leverage_scores(X).sum()), 1)
    13.5
    """

    kind: ClassVar[str] = "dictionary"
    _state: ClassVar[Layout] = {
        "atoms": RowsPiece(size="m"),
        "kernel": KernelPiece("atoms"),
        "sources": SourcesPiece(),
        "preprocessing": NestedPiece(Preprocessing, optional=True),
        "record": NestedPiece(Record, optional=True),
        "copies": state.whole(low=1),
        "oversampling": state.number(low=state.LEAST, optional=True),
        "ridge": state.number(low=state.LEAST),
        "n_seen": state.whole(low=1),
        "eps": state.number(low=0.0, high=state.BELOW_ONE),
        "calibrated": state.flag(),
        "indices": state.wholes("m"),
        "probabilities": state.numbers("m", low=state.LEAST, high=1.0),
        "counts": state.wholes("m", low=1, high="copies"),
        "source_numbers": state.wholes("m"),
        "half_life": state.number(low=state.LEAST, optional=True),
    }

    kernel: Any
    atoms: Rows
    indices: IntArray
    probabilities: Array
    counts: IntArray
    copies: int
    oversampling: float | None
    ridge: float
    n_seen: int
    sources: tuple[tuple[str, int], ...]
    source_numbers: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    eps: float = 0.0
    calibrated: bool = True
    preprocessing: Preprocessing | None = None
    record: Record | None = None
    half_life: float | None = None

    def __post_init__(self) -> None:
        m = n_rows(self.atoms)
        set_field = object.__setattr__
        if self.source_numbers.size == 0:
            set_field(self, "source_numbers", np.zeros(m, dtype=np.int64))
        for name, dtype in (
            ("indices", np.int64),
            ("probabilities", np.float64),
            ("counts", np.int64),
            ("source_numbers", np.int64),
        ):
            array = np.array(getattr(self, name), dtype=dtype)
            if array.shape != (m,):
                raise ValueError(f"{name} has shape {array.shape}; there are {m} atoms")
            array.flags.writeable = False
            set_field(self, name, array)
        if m == 0:
            raise ValueError("a dictionary has at least one atom")
        if not (callable(self.kernel) and hasattr(self.kernel, "diag")):
            raise TypeError(f"kernel must be a kernel object, not {self.kernel!r}")
        set_field(self, "kernel", clone(self.kernel, safe=False))
        if self.oversampling is not None:
            check_positive("oversampling", self.oversampling, " or None")
        check_whole("copies", self.copies)
        if not isinstance(self.calibrated, bool):
            raise ValueError("calibrated must be True or False")
        set_field(self, "ridge", check_ridge(self.ridge))
        if self.half_life is not None:
            check_positive("half_life", self.half_life, " or None")
        if not (np.all(self.probabilities > 0) and np.all(self.probabilities <= 1)):
            raise ValueError("probabilities must lie in (0, 1]")
        if not (np.all(self.counts >= 1) and np.all(self.counts <= self.copies)):
            raise ValueError(f"counts must lie between 1 and copies = {self.copies}")
        if not 0 <= self.eps < 1:
            raise ValueError(f"eps must lie in [0, 1); it is {self.eps}")
        sizes = np.array([size for _, size in self.sources])
        if sizes.sum() != self.n_seen or np.any(sizes < 1):
            raise ValueError(f"the sources hold {sizes.sum()} rows, n_seen is {self.n_seen}")
        if np.any(self.source_numbers < 0) or np.any(self.source_numbers >= len(sizes)):
            raise ValueError("an atom comes from a source that is not listed")
        if np.any(self.indices < 0) or np.any(self.indices >= sizes[self.source_numbers]):
            raise ValueError("an atom's index lies outside its source")
        if np.unique(self.positions).size != m:
            raise ValueError("two atoms are the same row")
        atoms = copy_rows(self.atoms)
        for array in (atoms.data, atoms.indices, atoms.indptr) if sp.issparse(atoms) else (atoms,):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
        set_field(self, "atoms", atoms)

    def __len__(self) -> int:
        return int(self.indices.size)

    @property
    def weights(self) -> Array:
        """counts/(copies·probabilities); 1 in expectation for every row that was seen.

        With a ``half_life``, times 2^(−age/half_life).
        """
        weights = np.asarray(self.counts / (self.copies * self.probabilities))
        return weights if self.half_life is None else weights * faded(self.positions, self.n_seen, self.half_life)

    @property
    def exact(self) -> bool:
        """Whether every row is kept with weight 1."""
        return len(self) == self.n_seen and bool(np.all(self.weights == 1.0))

    @property
    def positions(self) -> IntArray:
        """The number of each atom's row when all sources are put one after the other."""
        starts = np.concatenate([[0], np.cumsum([size for _, size in self.sources])[:-1]])
        return np.asarray(starts[self.source_numbers] + self.indices, dtype=np.int64)

    @cached_property
    def factor(self) -> WeightedFactor:
        """The factor that gives leverage scores; made on first use."""
        needs_weights(self, "leverage scores")
        return WeightedFactor.build(self.kernel, self.atoms, self.weights, self.ridge)[0]

    def check_rows(self, X: Any) -> Rows:
        """Return ``X`` as the rows that the kernel takes: preprocessed where the dictionary says how, and checked.

        A dictionary with a ``preprocessing`` takes rows as the user has them (a table, or an array of the same
        columns); a row source that was made with the same preprocessing gives its rows as they are.

        Returns
        -------
        rows
        """
        if isinstance(X, RowSource):
            X.check_preprocessed(self.preprocessing, "the dictionary's", "dictionary.preprocessing")
            X = X.collect()[0]
        elif self.preprocessing is not None:
            X = self.preprocessing.encode(X)
        return check_rows(X, self.kernel, width=width_of(self.atoms))

    def leverage_scores(self, X: Rows, parts: int = 1) -> Array:
        """Return the estimated ridge leverage score of rows that the dictionary stands for.

        τ̃ = (1 − ε)·φᵀ(ΦSSᵀΦᵀ + (1 + (parts − 1)ε)·ridge·Π)⁻¹φ, with ε = ``eps`` (0 unless the papers' form).

        Parameters
        ----------
        X : rows
            Rows among those seen, in the dictionary or not. For a row that was never seen this is its posterior
            variance over the ridge: s/(1 + s) is then its score on joining.
        parts : int
            How many inexact dictionaries were united without a shrink since.

        Returns
        -------
        array of shape (n,)

        References
        ----------
        Thesis, equations 3.2, 3.3 and 3.5; the theory page.
        """
        X = self.check_rows(X)
        if parts < 1:
            raise ValueError(f"parts must be at least 1; it is {parts}")
        scorer = self.factor
        if parts > 1 and self.eps > 0:
            ridge = (1.0 + (parts - 1) * self.eps) * self.ridge
            scorer = WeightedFactor.build(self.kernel, self.atoms, self.weights, ridge)[0]
        return scorer.scores(X, shrink=1.0 - self.eps)

    def effective_dimension(self) -> float:
        """Return Tr W(W + ridge·I)⁻¹, W = S K_II S: the dictionary's estimate of d_eff(ridge).

        Returns
        -------
        float

        References
        ----------
        The theory page.
        """
        return self.factor.effective_dimension()

    def eigenvalues(self) -> Array:
        """Return the eigenvalues of S K_II S, largest first: estimates of those of K.

        At accuracy ε each lies within (1 ± ε)λ ± ε·ridge of the true λ (the theory page).

        Returns
        -------
        array of shape (m,)
        """
        needs_weights(self, "eigenvalues of K")
        return np.maximum(weighted_spectrum(gram(self.kernel, self.atoms), self.weights)[0][::-1], 0.0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dictionary):
            return NotImplemented
        arrays = ("indices", "probabilities", "counts", "source_numbers")
        plain = self._state.keys() - {*arrays, "atoms", "record"}
        return (
            all(getattr(self, name) == getattr(other, name) for name in plain)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)
            and same_rows(self.atoms, other.atoms)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        size = f"{self.effective_dimension():.3g}" if self.calibrated else "unknown"
        return (
            f"Dictionary({len(self):,} atoms for {self.n_seen:,} rows, {self.kernel}, "
            f"ridge={self.ridge:.4g}, d_eff≈{size})"
        )

    def _repr_html_(self) -> str:
        return dictionary_html(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "factor"}


def needs_weights(d: Dictionary, what: str) -> None:
    """Raise where the weights of a dictionary estimate nothing, so that it cannot give what is asked for."""
    if not d.calibrated:
        raise ValueError(
            f"this dictionary's weights do not estimate sums over the data, so it gives no {what}: "
            "learn one with Squeak, Kors, ExactRLS or Uniform"
        )


PREPROCESSING = "preprocessing_"
"""What the names of a preprocessing's arrays begin with where it is part of another object."""


def preprocessing_parts(preprocessing: Preprocessing | None) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return a preprocessing's arrays and description for the file of its owner."""
    return ({}, None) if preprocessing is None else preprocessing.to_parts(PREPROCESSING)


def preprocessing_from_parts(arrays: dict[str, Any], content: dict[str, Any]) -> Preprocessing | None:
    """Return the preprocessing stored with another object; version 1 had none."""
    described = content.get("preprocessing")
    return None if described is None else Preprocessing.from_parts(arrays, described, prefix=PREPROCESSING)
