"""Determinantal point processes over any number of rows, exactly."""

from __future__ import annotations

import math
import os
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from squeak.core import engine, storage
from squeak.core.dictionary import Dictionary
from squeak.core.kernels import diagonal, resolve
from squeak.core.leverage import exact_leverage_scores
from squeak.core.seeds import READ, RandomState, draw_seed, generator_at
from squeak.core.types import Array, IntArray
from squeak.dpp.exact import check_n_samples
from squeak.dpp.fixed_size import ScaleSearch, starting_scale
from squeak.dpp.preparing import Prepared, enlarged, prepare
from squeak.dpp.proposals import Proposer, outcomes
from squeak.dpp.spectrum import LARGEST_SPECTRUM, check_k, check_size, solve_scale
from squeak.dpp.store import MemoryRows, NamedRows, SourceRows, rows_of
from squeak.samplers import Kors, Squeak, Uniform
from squeak.samplers.base import Sampler, filled_in, own_kernel

OVERSAMPLING, KORS_OVERSAMPLING = 4.0, 16.0
FEWEST = 30.0
"""Atoms that the default sampler should keep where all scores are tiny."""

COARSEST = 3.0
"""A scale larger than this many times that of the preparation gets a preparation of its own, by powers of it."""

MARGINAL_ROWS = 5_000
MOST_MISSES = 1_000
"""Samples of another size than k in a row, after which the search for k is given up."""


class RejectionLimitError(ValueError):
    """No proposal was accepted within the limit; the message says what to change.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.dpp import DPP, RejectionLimitError
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import Uniform
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> try:
    ...     DPP(5.0 * RBF(0.7), Uniform(max_atoms=3), max_rejections=5, random_state=0).fit(X).sample()
    ... except RejectionLimitError as error:
    ...     print(str(error)[:31])
    5 proposals in a row were refus
    """


@storage.register
class DPP(BaseEstimator):
    """Exact samples of diverse rows: P(S) = det(L_S)/det(I + L), L the kernel's matrix of all rows.

    L is never formed. A determinant is large for rows that are unlike each other, so samples spread over the data.
    ``fit`` learns a dictionary at ridge 1 and a bound on every row's leverage score, O(n·m²) for m atoms;
    ``sample`` draws a few hundred rows by those scores, accepts or refuses them, and thins them to S. Samples are
    exact whatever the dictionary; a poor one only costs time. Later samples reuse the work.

    Parameters
    ----------
    kernel : kernel, optional
        ``RBF("median")`` by default. The larger its values, the larger the samples: ``2.0 * RBF(1.0)``.
    sampler : sampler, optional
        Learns the dictionary; ``Squeak`` by default (``Kors`` where ``weighted``), with as much oversampling as the
        expected size asks for. What it leaves None (kernel, ridge, random_state) comes from here.
    expected_size : float, optional
        Scale the kernel so that samples have this size on average; ``scale_`` is the factor.
    weighted : bool
        Whether proposals come from the dictionary's weights alone. With ``Kors`` each row is then read once in
        ``fit``; more proposals are refused than with the sum over all rows that is used otherwise.
    max_rejections : int
        Proposals refused in a row, after which sampling is given up.
    random_state : None, int, RandomState or Generator
        Calls of ``sample`` go on from each other; the same seed and the same calls give the same samples.
    verbose : int
        1 shows progress bars.

    Attributes
    ----------
    expected_size_ : float
        The mean size of samples: half-way between Tr L̂(I + L̂)⁻¹ and the sum of the scores, which bound it (an
        estimate where ``weighted``).
    acceptance_rate_ : float
        The part of all proposals so far that was accepted; NaN before the first.
    scale_ : float
        The factor on the kernel; 1 unless ``expected_size`` was given.
    dictionary_ : Dictionary
    kernel_ : kernel

    Notes
    -----
    A row source (:func:`squeak.rows`) is never held in memory: ``fit`` reads it twice (once with ``weighted``; more
    often where the default sampler has to enlarge its dictionary), and a call of ``sample`` once or a few times
    to fetch the rows drawn. So ask for many samples in one call. Arrays are copied; ``squeak.rows(array)`` saves
    the copy.

    References
    ----------
    Dereziński, Calandriello, Valko, "Exact sampling of determinantal point processes with sublinear time
    preprocessing", NeurIPS 2019 (DPP-VFX); Calandriello, Dereziński, Valko, "Sampling from a k-DPP without looking
    at all items", NeurIPS 2020 (α-DPP); the theory page (the Poisson rate is not
    rounded).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.dpp import DPP
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((3000, 2))
    >>> dpp = DPP(RBF(1.0), random_state=0).fit(X)
    >>> subset = dpp.sample()
    >>> bool(abs(len(subset) - dpp.expected_size_) < 15), len(dpp.sample(k=10))
    (True, 10)
    >>> [len(s) for s in dpp.sample(n_samples=3, k=5)]
    [5, 5, 5]
    """

    kind: ClassVar[str] = "dpp"

    def __init__(
        self,
        kernel: Any = None,
        sampler: Any = None,
        *,
        expected_size: float | None = None,
        weighted: bool = False,
        max_rejections: int = 1_000,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.sampler = sampler
        self.expected_size = expected_size
        self.weighted = weighted
        self.max_rejections = max_rejections
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> DPP:
        """Learn what sampling needs of the rows of ``X``: an array, CSR, objects, or a row source; no ``y``."""
        self._check_parameters()
        kernel = self._own_kernel()
        rows = rows_of(X, kernel)
        seed = draw_seed(self.random_state)
        kernel = resolve(kernel, rows.first())
        scale = 1.0
        if self.expected_size is not None:
            scale = self._guess(rows, kernel, check_size(self.expected_size, rows.n), seed)
        prepared = self._prepare(rows, kernel, scale, seed, 0)
        if self.expected_size is not None:
            scale = prepared.surrogate.scale_for(float(self.expected_size))
        proposer = Proposer(prepared, scale)
        self._rows, self._seed, self.scale_ = rows, seed, scale
        self._prepared, self._proposer = {0: prepared}, proposer
        self._calls = self._attempts = self._accepted = 0
        return self

    def _check_parameters(self) -> None:
        limit = self.max_rejections
        if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
            raise ValueError(f"max_rejections must be a whole number from 1 on; it is {limit!r}")
        if self.sampler is not None and not isinstance(self.sampler, Sampler):
            raise TypeError(f"sampler must be a sampler such as Squeak(), not {self.sampler!r}")
        if not isinstance(self.weighted, bool | np.bool_):
            raise TypeError(f"weighted must be True or False; it is {self.weighted!r}")

    def _own_kernel(self) -> Any:
        given = self.kernel
        return own_kernel(getattr(self.sampler, "kernel", None) if given is None else given)

    def _default(self, rows: MemoryRows | SourceRows, kernel: Any, scale: float) -> Any:
        """Return the default sampler; where scores are tiny it oversamples more, so that some rows are kept."""
        trace = scale * float(diagonal(kernel, rows.first()).sum())
        asked = KORS_OVERSAMPLING if self.weighted else OVERSAMPLING
        oversampling = max(asked, FEWEST / trace) if trace > 0 else asked
        return (Kors if self.weighted else Squeak)(oversampling=oversampling)

    def _guess(self, rows: MemoryRows | SourceRows, kernel: Any, size: float, seed: int) -> float:
        """Return the scale for an expected size, from a uniform sample of the rows."""
        uniform = Uniform(kernel, min(LARGEST_SPECTRUM // 2, rows.n), random_state=generator_at(seed, READ, 1))
        eigenvalues = uniform.fit(rows.data()).dictionary_.eigenvalues()
        eigenvalues = eigenvalues[eigenvalues > 1e-12 * eigenvalues[0]]
        if size >= len(eigenvalues) and len(eigenvalues) < min(LARGEST_SPECTRUM // 2, rows.n):
            raise ValueError(f"the kernel's matrix has rank about {len(eigenvalues)}: no sample has {size:g} rows")
        return solve_scale(min(size, 0.9 * len(eigenvalues)), eigenvalues)

    def _prepare(self, rows: MemoryRows | SourceRows, kernel: Any, scale: float, seed: int, level: int) -> Prepared:
        given = self.sampler if self.sampler is not None else self._default(rows, kernel, scale)
        params = given.get_params(deep=False)
        if params["kernel"] is not None and params["kernel"] not in (kernel, self._own_kernel()):
            raise ValueError(f"the sampler has the kernel {given.kernel!r}, the DPP {kernel!r}: leave one out")
        sampler = filled_in(given, ridge=1.0 / scale, random_state=generator_at(seed, READ, 0, level))
        sampler.set_params(kernel=kernel)
        if self.verbose and "verbose" in params:
            sampler.set_params(verbose=self.verbose)
        with engine.single_blas():
            if self.sampler is None and not self.weighted:
                sampler = enlarged(rows, sampler, scale, seed)
            return prepare(rows, sampler, kernel, scale, weighted=bool(self.weighted))

    def sample(self, n_samples: int | None = None, k: int | None = None) -> Any:
        """Draw subsets: their row numbers, ascending.

        Parameters
        ----------
        n_samples : int, optional
            A list of so many independent samples; one array when left out.
        k : int, optional
            Samples of exactly k rows, with probability proportional to det(L_S) among those (a k-DPP). Drawn from
            DPP(αL) until the size is right, α near where that is most likely; exact for any α.

        Raises
        ------
        RejectionLimitError
            ``max_rejections`` proposals in a row were refused.
        """
        self._needs_fit()
        self._rows.needed()
        count = check_n_samples(n_samples)
        search, proposer, level = None, self._proposer, 0
        if k is not None:
            k = check_k(k, self._rows.n)
            search, level = self._search(k)
            proposer = Proposer(self._prepared[level], search.scale)
        call, self._calls = self._calls, self._calls + 1
        found: list[IntArray] = []
        number = rejected = misses = 0
        with engine.single_blas(), self._bar(count) as bar:
            while len(found) < count:
                for outcome in outcomes(
                    proposer, self._rows, self._seed, call, number, self._ahead(count - len(found))
                ):
                    number, self._attempts = number + 1, self._attempts + 1
                    if outcome is None:
                        rejected += 1
                        if rejected >= self.max_rejections:
                            raise self._gave_up(proposer, k)
                        continue
                    self._accepted, rejected = self._accepted + 1, 0
                    if k is None or len(outcome) == k:
                        found.append(outcome)
                        bar.set_postfix(accepted=f"{self.acceptance_rate_:.0%}", refresh=False)
                        bar.update()
                        misses = 0
                    else:
                        misses += 1
                        if misses >= MOST_MISSES:
                            raise self._missed(k, len(outcome))
                    if len(found) == count:
                        break
                    if search is not None and search.record(len(outcome)):
                        proposer = Proposer(self._prepared[level], search.scale)
                        break
        return found[0] if n_samples is None else found

    def _search(self, k: int) -> tuple[ScaleSearch, int]:
        """Return the search for the scale of samples of size k, and which preparation serves it."""
        base = self._prepared[0]
        scale, level = starting_scale(base.surrogate, k), 0
        while scale > COARSEST * base.scale * COARSEST**level:
            level += max(1, math.ceil(math.log(scale / base.scale, COARSEST)) - level)
            if level not in self._prepared:
                finer = base.scale * COARSEST**level
                self._prepared[level] = self._prepare(self._rows, self.kernel_, finer, self._seed, level)
            scale = starting_scale(self._prepared[level].surrogate, k)
        return ScaleSearch(k, scale), level

    def _ahead(self, samples: int) -> int:
        """Return how many proposals to draw before rows are fetched: most likely enough for the samples left."""
        rate = self.acceptance_rate_ if self._accepted else 0.25
        return math.ceil(1.2 * samples / max(rate, 0.001)) + 8

    def _bar(self, count: int) -> Any:
        from tqdm.auto import tqdm

        return tqdm(total=count, desc="DPP", unit=" samples", disable=not self.verbose)

    def _gave_up(self, proposer: Proposer, k: int | None) -> RejectionLimitError:
        cure = ", leave out weighted=True" if self.weighted else ""
        rank = "" if k is None else " (the kernel's matrix may have too small a rank for k)"
        size = proposer.prepared.surrogate.size(proposer.scale) if k is None else k
        return RejectionLimitError(
            f"{self.max_rejections:,} proposals in a row were refused: a dictionary of "
            f"{len(proposer.prepared.dictionary):,} atoms is too poor for samples of about {size:.0f} rows. Give a "
            f"sampler with more atoms, as sampler=Squeak(oversampling={4 * OVERSAMPLING:g}){cure}, ask for smaller "
            f"samples{rank}, or raise max_rejections"
        )

    def _missed(self, k: int, size: int) -> RejectionLimitError:
        return RejectionLimitError(
            f"{MOST_MISSES:,} samples in a row had another size than k = {k} (the last had {size}): the kernel's "
            "matrix may have too small a rank; ask for fewer rows or use a smaller length_scale"
        )

    @property
    def n_seen_(self) -> int:
        """The number of rows."""
        self._needs_fit()
        return self._rows.n

    @property
    def expected_size_(self) -> float:
        """The mean size of samples, as the surrogate has it."""
        self._needs_fit()
        return self._prepared[0].surrogate.size(self.scale_)

    @property
    def acceptance_rate_(self) -> float:
        """The part of all proposals so far that was accepted; NaN before the first."""
        self._needs_fit()
        return self._accepted / self._attempts if self._attempts else math.nan

    @property
    def dictionary_(self) -> Dictionary:
        """The dictionary that proposals are made with."""
        self._needs_fit()
        return self._prepared[0].dictionary

    @property
    def kernel_(self) -> Any:
        """The kernel with every width a number, without ``scale_``."""
        self._needs_fit()
        return self._prepared[0].surrogate.features.kernel

    def marginals(self) -> Array:
        """Return P(i ∈ S) for every row, the exact leverage scores at ridge 1: O(n³), for up to 5,000 rows."""
        self._needs_fit()
        if self._rows.n > MARGINAL_ROWS:
            raise ValueError(
                f"marginals of {self._rows.n:,} rows would take all of their kernel matrix: at most "
                f"{MARGINAL_ROWS:,} rows; dictionary_.leverage_scores(X) estimates them for any number"
            )
        self._rows.needed()
        everything = self._rows.fetch(np.arange(self._rows.n))
        return exact_leverage_scores(everything, self.kernel_, 1.0 / self.scale_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a ``.sqk`` file: a loaded one goes on with the same samples.

        Rows in memory are stored; of a source its files' names are. A loaded DPP does not open them by itself:
        see :meth:`attach_rows`.
        """
        storage.save(self, path)

    def attach_rows(self, X: Any = None) -> DPP:
        """Give a loaded DPP the rows that it was fitted on, where its file holds only the names of their files.

        Loading opens no other file than the one that is loaded, for a file from a stranger may name any path.

        Parameters
        ----------
        X : array or row source, optional
            The rows of the fit, in the same order and preprocessed in the same way. When left out, the files that
            the saved file names are opened: leave it out only for files that you trust.

        Returns
        -------
        DPP
            This object.

        Examples
        --------
        >>> import numpy as np, squeak, tempfile
        >>> from squeak.dpp import DPP
        >>> X = np.random.default_rng(0).standard_normal((200, 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(folder + "/rows.npy", X)
        ...     DPP(random_state=0).fit(squeak.rows(folder + "/rows.npy")).save(folder + "/dpp.sqk")
        ...     again = squeak.load(folder + "/dpp.sqk").attach_rows(X)
        >>> len(again.sample(k=3))
        3
        """
        self._needs_fit()
        if not isinstance(self._rows, NamedRows):
            raise ValueError("this DPP has its rows already: fit it anew to use others")
        self._rows = self._rows.attached(X)
        return self

    @classmethod
    def load(cls, path: str | os.PathLike[str], kernel: Any = None) -> DPP:
        """Read what :meth:`save` wrote; ``kernel`` is needed where it is code.

        No other file is opened: where the rows are in files, give them by :meth:`attach_rows` before sampling.
        """
        found: DPP = storage.load(path, kernel=kernel, kind=cls.kind)
        return found

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the rest as JSON data, for :func:`squeak.save`."""
        from squeak.dpp.saved import parts_of

        self._needs_fit()
        return parts_of(self)

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> DPP:
        """Return the object that :meth:`to_parts` took apart."""
        from squeak.dpp.saved import dpp_from

        return dpp_from(cls, arrays, content, kernel)

    def _needs_fit(self) -> None:
        if not hasattr(self, "_prepared"):
            raise NotFittedError("this DPP has seen no rows yet: call fit")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_prepared")
