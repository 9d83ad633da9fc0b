"""Determinantal point processes over any number of rows, exactly."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import NotFittedError

from squeak.core import engine
from squeak.core.checks import check_flag, check_whole
from squeak.core.constructors import parameters
from squeak.core.estimator import Estimator
from squeak.core.kernels import resolve
from squeak.core.leverage import exact_leverage_scores
from squeak.core.progress import progress
from squeak.core.saved import Saved
from squeak.core.seeds import READ, RandomState, draw_seed, generator_at
from squeak.core.state import LEAST, checked, flag, number, parts, whole
from squeak.core.types import Array, IntArray
from squeak.dpp.fitted import Fitted, sampler_from_data, sampler_to_data
from squeak.dpp.preparing import Prepared, default_sampler, enlarged, guessed_scale, prepare
from squeak.dpp.proposals import Proposer, missed, outcomes, refused
from squeak.dpp.store import MemoryRows, NamedRows, SourceRows, rows_of
from squeak.dpp.surrogate import ScaleSearch, check_k, check_size, starting_scale
from squeak.samplers.base import Sampler, filled_in, own_kernel
from squeak.samplers.dictionary import Dictionary

COARSEST = 3.0
"""A scale larger than this many times that of the preparation gets a preparation of its own, by powers of it."""

MARGINAL_ROWS = 5_000
MOST_MISSES = 1_000
"""Samples of another size than k in a row, after which the search for k is given up."""


@parameters
class DPP(Saved, Estimator):
    """Draw diverse subsets of rows exactly: P(S) = det(L_S)/det(I + L), where L is the kernel's matrix of all rows.

    A determinant is large for rows that are unlike each other, so samples spread over the data. L is never formed.
    ``fit`` learns a dictionary at ridge 1 and a bound on every row's leverage score, in a time of order n·m² for m
    atoms. ``sample`` draws a few hundred rows by those scores, accepts or rejects them, and thins them to S.
    Samples are exact whatever the dictionary; a poor one only takes more time. Later samples reuse the work of
    ``fit``.

    Parameters
    ----------
    kernel : kernel, optional
        How similar two rows are. The default is ``RBF("median")``. The larger its values, the larger the samples:
        ``2.0 * RBF(1.0)``.
    sampler : sampler, optional
        What learns the dictionary. The default is ``Squeak`` (``Kors`` if ``weighted``), with as much oversampling
        as the expected size asks for. What it leaves None (kernel, ridge, random_state) comes from here.
    expected_size : float, optional
        The mean size of a sample. The kernel is scaled to reach it, and ``scale_`` is the factor.
    weighted : bool
        Whether proposals come from the dictionary's weights alone. With ``Kors`` each row is then read once in
        ``fit``. More proposals are rejected than with the sum over all rows that is used otherwise.
    max_rejections : int
        After so many rejected proposals in a row, sampling gives up.
    random_state : None, int, RandomState or Generator
        The seed. Calls of ``sample`` continue from each other; the same seed and the same calls give the same
        samples.
    verbose : int
        1 shows progress bars.

    Notes
    -----
    A row source (:func:`squeak.rows`) is never held in memory: ``fit`` reads it twice (once with ``weighted``; more
    often where the default sampler has to enlarge its dictionary), and a call of ``sample`` once or a few times
    to fetch the rows drawn. So ask for many samples in one call. Arrays are copied; ``squeak.rows(array)`` saves
    the copy. A loaded DPP goes on with the same samples. Rows in memory are saved with it; of a source only its
    files' names are, which are not opened on load: give the rows by :meth:`attach_rows` before sampling.

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
    _fitted: Fitted = field(init=False)

    kernel: Any = field(default=None, kw_only=False)
    sampler: Any = field(default=None, kw_only=False)
    expected_size: float | None = None
    weighted: bool = False
    max_rejections: int = 1_000
    random_state: RandomState = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None) -> DPP:
        """Learn what sampling needs of the rows.

        Parameters
        ----------
        X : array, CSR, objects, or a row source
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        kernel = self._own_kernel()
        rows = rows_of(X, kernel)
        seed = draw_seed(self.random_state)
        kernel = resolve(kernel, rows.first())
        scale = 1.0
        if self.expected_size is not None:
            scale = guessed_scale(rows, kernel, check_size(self.expected_size, rows.n), seed)
        prepared = self._prepare(rows, kernel, scale, seed, 0)
        if self.expected_size is not None:
            scale = prepared.surrogate.scale_for(float(self.expected_size))
        fitted = Fitted(rows, seed, scale, {0: prepared})
        _ = fitted.proposer  # proposals that do not fit into memory are refused before anything changes
        self._fitted = fitted
        return self

    def _check_parameters(self) -> None:
        check_whole("max_rejections", self.max_rejections)
        if self.sampler is not None and not isinstance(self.sampler, Sampler):
            raise TypeError(f"sampler must be a sampler such as Squeak(), not {self.sampler!r}")
        check_flag("weighted", self.weighted)

    def _own_kernel(self) -> Any:
        given = self.kernel
        return own_kernel(getattr(self.sampler, "kernel", None) if given is None else given)

    def _prepare(self, rows: MemoryRows | SourceRows, kernel: Any, scale: float, seed: int, level: int) -> Prepared:
        given = (
            self.sampler
            if self.sampler is not None
            else default_sampler(rows, kernel, scale, weighted=bool(self.weighted))
        )
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
        """Draw one subset, or several, and return the numbers of its rows in ascending order.

        Parameters
        ----------
        n_samples : int, optional
            How many independent subsets to draw; they are returned as a list. By default one subset is drawn, and
            returned as an array. To choose how many rows a subset has, give ``k``.
        k : int, optional
            Draw subsets of exactly k rows, with probability proportional to det(L_S) among those (a k-DPP). They
            are drawn from DPP(αL) until the size is right, with an α for which that is likely; this is exact for
            any α.

        Returns
        -------
        array of int, or list of such

        Raises
        ------
        RejectionLimitError
            ``max_rejections`` proposals in a row were refused.
        """
        fitted = self._now()
        fitted.rows.needed()
        count = 1 if n_samples is None else check_whole("n_samples", n_samples)
        search, proposer, level = None, fitted.proposer, 0
        if k is not None:
            k = check_k(k, fitted.rows.n)
            search, level = self._search(k)
            proposer = Proposer(fitted.levels[level], search.scale)
        call, fitted.calls = fitted.calls, fitted.calls + 1
        found: list[IntArray] = []
        number = rejected = misses = 0
        with engine.single_blas(), progress("DPP", "samples", count, self.verbose) as bar:
            while len(found) < count:
                ahead = self._ahead(count - len(found))
                for outcome in outcomes(proposer, fitted.rows, fitted.seed, call, number, ahead):
                    number, fitted.attempts = number + 1, fitted.attempts + 1
                    if outcome is None:
                        rejected += 1
                        if rejected >= self.max_rejections:
                            raise refused(proposer, k, self.max_rejections, weighted=bool(self.weighted))
                        continue
                    fitted.accepted, rejected = fitted.accepted + 1, 0
                    if k is None or len(outcome) == k:
                        found.append(outcome)
                        bar.set_postfix(accepted=f"{self.acceptance_rate_:.0%}", refresh=False)
                        bar.update()
                        misses = 0
                    else:
                        misses += 1
                        if misses >= MOST_MISSES:
                            raise missed(k, len(outcome), misses)
                    if len(found) == count:
                        break
                    if search is not None and search.record(len(outcome)):
                        proposer = Proposer(fitted.levels[level], search.scale)
                        break
        return found[0] if n_samples is None else found

    def _search(self, k: int) -> tuple[ScaleSearch, int]:
        """Return the search for the scale of samples of size k, and which preparation serves it."""
        fitted, base = self._now(), self._now().prepared
        scale, level = starting_scale(base.surrogate, k), 0
        while scale > COARSEST * base.scale * COARSEST**level:
            level += max(1, math.ceil(math.log(scale / base.scale, COARSEST)) - level)
            if level not in fitted.levels:
                finer = base.scale * COARSEST**level
                fitted.levels[level] = self._prepare(fitted.rows, fitted.kernel, finer, fitted.seed, level)
            scale = starting_scale(fitted.levels[level].surrogate, k)
        return ScaleSearch(k, scale), level

    def _ahead(self, samples: int) -> int:
        """Return how many proposals to draw before rows are fetched: most likely enough for the samples left."""
        rate = self.acceptance_rate_ if self._now().accepted else 0.25
        return math.ceil(1.2 * samples / max(rate, 0.001)) + 8

    @property
    def n_seen_(self) -> int:
        """The number of rows."""
        return self._now().rows.n

    @property
    def scale_(self) -> float:
        """The factor on the kernel; 1 unless ``expected_size`` was given."""
        return self._now().scale

    @property
    def expected_size_(self) -> float:
        """The mean size of samples: half-way between Tr L̂(I + L̂)⁻¹ and the sum of the scores, which bound it.

        An estimate where ``weighted``.
        """
        return self._now().prepared.surrogate.size(self.scale_)

    @property
    def acceptance_rate_(self) -> float:
        """The part of all proposals so far that was accepted; NaN before the first."""
        fitted = self._now()
        return fitted.accepted / fitted.attempts if fitted.attempts else math.nan

    @property
    def dictionary_(self) -> Dictionary:
        """The dictionary that proposals are made with."""
        return self._now().prepared.dictionary

    @property
    def kernel_(self) -> Any:
        """The kernel with every width a number, without ``scale_``."""
        return self._now().kernel

    def marginals(self) -> Array:
        """Return the exact leverage scores at ridge 1: O(n³), for up to 5,000 rows.

        Returns
        -------
        array, shape (n,)
            P(i ∈ S) for every row.
        """
        rows = self._now().rows
        if rows.n > MARGINAL_ROWS:
            raise ValueError(
                f"marginals of {rows.n:,} rows would take all of their kernel matrix: at most "
                f"{MARGINAL_ROWS:,} rows; dictionary_.leverage_scores(X) estimates them for any number"
            )
        rows.needed()
        return exact_leverage_scores(rows.fetch(np.arange(rows.n)), self.kernel_, 1.0 / self.scale_)

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
        self

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
        fitted = self._now()
        if not isinstance(fitted.rows, NamedRows):
            raise ValueError("this DPP has its rows already: fit it anew to use others")
        fitted.rows = fitted.rows.attached(X)
        return self

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parts for a file."""
        arrays, content = self._now().to_parts()
        own = {"sampler": sampler_to_data(self.sampler), **parts(PARAMETERS, vars(self))[1]}
        return arrays, {**content, **own}

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> DPP:
        """Return the object that :meth:`to_parts` took apart."""
        fitted = Fitted.from_parts(arrays, content, kernel)
        found = cls(fitted.kernel, sampler_from_data(content["sampler"]), **checked(PARAMETERS, {}, content))
        found._fitted = fitted
        return found

    def _now(self) -> Fitted:
        if not hasattr(self, "_fitted"):
            raise NotFittedError("this DPP has seen no rows yet: call fit")
        return self._fitted

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")


PARAMETERS = {"expected_size": number(low=LEAST, optional=True), "weighted": flag(), "max_rejections": whole(low=1)}
