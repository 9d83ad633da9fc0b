"""The dictionary: a small weighted set of rows that stands for all the rows it was learned from."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from squeak.core import storage
from squeak.core.kernels import gram
from squeak.core.kernels.registry import kernel_from_data, kernel_to_data
from squeak.core.leverage import WeightedFactor, check_ridge, weighted_spectrum
from squeak.core.rows import check_rows, copy_rows, n_rows, same_rows, width_of
from squeak.core.types import Array, IntArray, Rows


@dataclass(frozen=True, eq=False, repr=False)
class Dictionary:
    """Atoms with weights, an immutable value: Σ w_i φ_i φ_iᵀ over the atoms estimates Σ φ_i φ_iᵀ over all rows.

    A fresh row has ``copies`` coins; ``counts`` of them are left after coins of probability
    ``probabilities``, and the weight is counts/(copies·probability), 1 in expectation for every row.

    Parameters
    ----------
    kernel : kernel
        Resolved: every width is a number.
    atoms : rows
        The kept rows, in the order of the stream.
    indices : array of int, shape (m,)
        The number of each atom's row within its source.
    probabilities, counts : arrays of shape (m,)
    copies : int
    oversampling : float or None
        Expected copies kept per unit of leverage score; None where the sampler knows no such number.
    ridge : float
        Regularisation of the leverage scores, compared with eigenvalues of K.
    n_seen : int
        How many rows the dictionary stands for.
    sources : tuple of (str, int)
        The name and number of rows of every part of the data.
    source_numbers : array of int, shape (m,), optional
        Which source each atom comes from; all from the first when left out.
    eps : float
        The papers' ε when scores carry their factor 1 − ε, else 0.
    calibrated : bool
        Whether weights estimate sums over the data. False for landmarks chosen in other ways.

    Notes
    -----
    Spec 1.1 and 1.5; thesis, section 1.4.

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
        if self.oversampling is not None and not 0 < self.oversampling < np.inf:
            raise ValueError(f"oversampling must be positive and finite, or None; it is {self.oversampling!r}")
        if (
            not isinstance(self.calibrated, bool)
            or isinstance(self.copies, bool)
            or self.copies != int(self.copies)
        ):
            raise ValueError("calibrated must be True or False, and copies a whole number")
        set_field(self, "ridge", check_ridge(self.ridge))
        if not (np.all(self.probabilities > 0) and np.all(self.probabilities <= 1)):
            raise ValueError("probabilities must lie in (0, 1]")
        if self.copies < 1 or not (np.all(self.counts >= 1) and np.all(self.counts <= self.copies)):
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
        """counts/(copies·probabilities); 1 in expectation for every row that was seen."""
        return np.asarray(self.counts / (self.copies * self.probabilities))

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
        self._needs_weights("leverage scores")
        return WeightedFactor.build(self.kernel, self.atoms, self.weights, self.ridge)[0]

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

        References
        ----------
        Thesis, equations 3.2, 3.3 and 3.5; spec 3.
        """
        X = check_rows(X, self.kernel, width=width_of(self.atoms))
        if parts < 1:
            raise ValueError(f"parts must be at least 1; it is {parts}")
        scorer = self.factor
        if parts > 1 and self.eps > 0:
            ridge = (1.0 + (parts - 1) * self.eps) * self.ridge
            scorer = WeightedFactor.build(self.kernel, self.atoms, self.weights, ridge)[0]
        return scorer.scores(X, shrink=1.0 - self.eps)

    def effective_dimension(self) -> float:
        """Return Tr W(W + ridge·I)⁻¹, W = S K_II S: the dictionary's estimate of d_eff(ridge).

        References
        ----------
        Spec 1.5.
        """
        return self.factor.effective_dimension()

    def eigenvalues(self) -> Array:
        """Return the eigenvalues of S K_II S, largest first: estimates of those of K.

        At accuracy ε each lies within (1 ± ε)λ ± ε·ridge of the true λ (spec 1.5).
        """
        self._needs_weights("eigenvalues of K")
        return np.maximum(weighted_spectrum(gram(self.kernel, self.atoms), self.weights)[0][::-1], 0.0)

    def _needs_weights(self, what: str) -> None:
        if not self.calibrated:
            raise ValueError(
                f"this dictionary's weights do not estimate sums over the data, so it gives no {what}: "
                "learn one with Squeak, Kors, ExactRLS or Uniform"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dictionary):
            return NotImplemented
        plain = ("kernel", "copies", "oversampling", "ridge", "n_seen", "sources", "eps", "calibrated")
        arrays = ("indices", "probabilities", "counts", "source_numbers")
        return (
            all(getattr(self, name) == getattr(other, name) for name in plain)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)
            and same_rows(self.atoms, other.atoms)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        size = f"{self.effective_dimension():.3g}" if self.calibrated else "unknown"
        return (
            f"Dictionary({len(self):,} atoms for {self.n_seen:,} rows, {self.kernel!r}, "
            f"ridge={self.ridge:.4g}, d_eff≈{size})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "factor"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the dictionary to a ``.sqk`` file; data only, replaced whole or not at all."""
        arrays: dict[str, Any] = {
            "indices": self.indices,
            "probabilities": self.probabilities,
            "counts": self.counts,
            "source_numbers": self.source_numbers,
        }
        arrays.update(_atoms_to_arrays(self.atoms))
        content = {
            "kernel": kernel_to_data(self.kernel),
            "kernel_repr": repr(self.kernel),
            "copies": self.copies,
            "oversampling": self.oversampling,
            "ridge": self.ridge,
            "n_seen": self.n_seen,
            "sources": [list(source) for source in self.sources],
            "eps": self.eps,
            "calibrated": self.calibrated,
        }
        storage.write(path, "dictionary", arrays, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str], kernel: Any = None) -> Dictionary:
        """Read a dictionary; ``kernel`` is needed for one that was learned with a kernel that is code.

        A damaged, cut or hostile file gives a :class:`~squeak.core.storage.StorageError`.
        """
        arrays, content = storage.read(path, "dictionary")
        if content.get("kernel") is None and kernel is None:
            raise ValueError(
                f"{os.fspath(path)}: its kernel {content.get('kernel_repr')} is code and is not stored; "
                "pass it: Dictionary.load(path, kernel=...)"
            )
        try:
            stored = None if content["kernel"] is None else kernel_from_data(content["kernel"])
        except (KeyError, ValueError) as error:
            raise storage.StorageError(f"{os.fspath(path)}: its content is damaged: {error}") from None
        if stored is not None and kernel is not None and stored != kernel:
            raise ValueError(f"{os.fspath(path)}: it was learned with {stored!r}, not with {kernel!r}")
        try:
            return cls(
                kernel=kernel if stored is None else stored,
                atoms=_atoms_from_arrays(arrays),
                indices=arrays["indices"],
                probabilities=arrays["probabilities"],
                counts=arrays["counts"],
                copies=int(content["copies"]),
                oversampling=None if content["oversampling"] is None else float(content["oversampling"]),
                ridge=float(content["ridge"]),
                n_seen=int(content["n_seen"]),
                sources=tuple((str(name), int(size)) for name, size in content["sources"]),
                source_numbers=arrays["source_numbers"],
                eps=float(content["eps"]),
                calibrated=content["calibrated"],
            )
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise storage.StorageError(f"{os.fspath(path)}: its content is damaged: {error}") from None


def _atoms_to_arrays(atoms: Rows) -> dict[str, Any]:
    if isinstance(atoms, list):
        if not all(isinstance(item, str) for item in atoms):
            raise TypeError("only atoms that are rows of numbers or text can be saved; these are objects")
        encoded = [item.encode() for item in atoms]
        return {
            "text": np.frombuffer(b"".join(encoded), dtype=np.uint8),
            "text_ends": np.cumsum([len(item) for item in encoded]).astype(np.int64),
        }
    if sp.issparse(atoms):
        return {
            "csr_data": atoms.data,
            "csr_indices": atoms.indices.astype(np.int64),
            "csr_indptr": atoms.indptr.astype(np.int64),
            "csr_shape": np.array(atoms.shape, dtype=np.int64),
        }
    return {"atoms": atoms}


def _atoms_from_arrays(arrays: dict[str, Any]) -> Rows:
    if "text" in arrays:
        data, ends = arrays["text"].tobytes(), arrays["text_ends"].tolist()
        return [data[a:b].decode() for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    if "csr_data" in arrays:
        rows, columns = (int(size) for size in arrays["csr_shape"])
        parts = (arrays["csr_data"], arrays["csr_indices"], arrays["csr_indptr"])
        if rows != arrays["csr_indptr"].size - 1:
            raise ValueError("the sparse atoms' shape does not fit")
        matrix = sp.csr_array(parts, shape=(rows, columns))
        matrix.check_format(full_check=True)
        if not np.isfinite(matrix.data).all():
            raise ValueError("the atoms are not a table of finite numbers")
        return matrix
    atoms = arrays["atoms"]
    if atoms.ndim != 2 or atoms.dtype.kind != "f" or not np.isfinite(atoms).all():
        raise ValueError("the atoms are not a table of finite numbers")
    return atoms
