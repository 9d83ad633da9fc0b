"""What all samplers share: their parameters' meaning, checked once, and the way to a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from squeak.core.checks import check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.estimator import Estimator
from squeak.core.kernels import RBF, diagonal, resolve
from squeak.core.leverage import SMALLEST_RIDGE, check_ridge
from squeak.core.seeds import RandomState
from squeak.core.types import Rows
from squeak.samplers.dictionary import Dictionary

Schedule: TypeAlias = Callable[[int], float]

DEFAULT_OVERSAMPLING = 10.0
DEFAULT_RIDGE = 1e-3
"""The ridge where none is given, as a part of the kernel's mean diagonal."""


@dataclass(frozen=True)
class Plan:
    """A sampler's parameters, checked and in numbers; fixed for the whole of a fit."""

    kernel: Any
    ridge: float
    oversampling: float
    copies: int
    eps: float
    max_atoms: int | None = None
    schedule: Schedule | None = None
    half_life: float | None = None

    @property
    def shrink(self) -> float:
        """The papers' factor on every score, 1 − ε; 1 in practice."""
        return 1.0 - self.eps


@parameters
class Sampler(Estimator):
    """Base of the samplers: ``fit`` reads rows and leaves ``dictionary_``."""

    kernel: Any = field(default=None, kw_only=False)
    ridge: float | Schedule | None = field(default=None, kw_only=False)
    source: str | None = None
    random_state: RandomState = None

    def fit(self, X: Any, y: Any = None) -> Sampler:
        """Learn a dictionary of the rows of ``X``; ``y`` is ignored, for pipelines.

        Returns
        -------
        self
        """
        raise TypeError(f"{type(self).__name__} is abstract: use Squeak, Kors, ExactRLS or Uniform")

    @property
    def dictionary_(self) -> Dictionary:
        """The dictionary of the rows seen so far."""
        raise NotFittedError(f"this {type(self).__name__} has seen no rows yet: call fit or partial_fit")

    def __sklearn_is_fitted__(self) -> bool:
        return any(hasattr(self, name) for name in ("_state", "_reservoir", "_dictionary"))

    @property
    def kernel_(self) -> Any:
        """The kernel with every width a number."""
        return self.dictionary_.kernel


@parameters
class Coins:
    """The parameters of samplers that keep rows by coins: min(1, (oversampling/copies)·score) for each."""

    oversampling: float | str = DEFAULT_OVERSAMPLING
    copies: int = 1
    eps: float | None = None
    delta: float | None = None
    n: int | None = None


class ScoreSampler(Sampler):
    """A sampler by ridge leverage scores; what it has no parameters for (see :class:`Coins`) is as here."""

    oversampling: float | str = 1.0
    copies: int = 1
    eps: float | None = None
    delta: float | None = None
    n: int | None = None

    _theory: ClassVar[Any]
    _takes_schedule: ClassVar[bool] = False

    def _make_plan(self, first_rows: Rows, kernel: Any) -> Plan:
        """Check every parameter and fix what depends on the first rows."""
        kernel = resolve(kernel, first_rows)
        copies = check_whole("copies", self.copies)
        if isinstance(self.oversampling, str):
            if self.oversampling != "theory":
                raise ValueError(f"oversampling must be a number or 'theory'; it is {self.oversampling!r}")
            if self.eps is None or self.delta is None or self.n is None:
                raise ValueError("oversampling='theory' needs eps, delta and n (the number of rows to come)")
            oversampling = float(type(self)._theory(self.eps, self.delta, self.n))
            eps = float(self.eps)
        else:
            oversampling, eps = check_positive("oversampling", self.oversampling, " or 'theory'"), 0.0
        ridge = self._first_ridge(kernel, first_rows)
        limit, fades = getattr(self, "max_atoms", None), getattr(self, "half_life", None)
        return Plan(
            kernel,
            ridge,
            oversampling,
            copies,
            eps,
            max_atoms=None if limit is None else check_whole("max_atoms", limit),
            schedule=self.ridge if callable(self.ridge) else None,
            half_life=None if fades is None else check_positive("half_life", fades, " or None"),
        )

    def _first_ridge(self, kernel: Any, first_rows: Rows) -> float:
        if callable(self.ridge) and not self._takes_schedule:
            raise TypeError(f"{type(self).__name__} takes a constant ridge; schedules are for Squeak")
        if callable(self.ridge):
            return check_ridge_beside(check_ridge(self.ridge(1)), kernel, first_rows)
        ridge = ridge_or_default(self.ridge, kernel, first_rows)
        return check_ridge_beside(ridge, kernel, first_rows)

    @classmethod
    def from_paper(cls, eps: float, delta: float, n: int, **params: Any) -> ScoreSampler:
        """Return the sampler as the papers have it, with their guarantee.

        Oversampling from the theorem, as many copies as oversampling (the binomial form), and the
        estimator with its factor 1 − ε. With probability 1 − delta every dictionary is then
        (eps, ridge)-accurate. The numbers are large: below about 10⁵ rows little is dropped.

        Parameters
        ----------
        eps, delta : float
            Accuracy and probability of failure.
        n : int
            The number of rows to come.
        **params
            The sampler's other parameters.

        Returns
        -------
        Sampler
        """
        if not hasattr(cls, "_theory"):
            raise TypeError(f"{cls.__name__} has no guarantee of this form")
        copies = cls._theory(eps, delta, n)
        return cls(oversampling="theory", copies=copies, eps=eps, delta=delta, n=n, **params)


def filled_in(sampler: Any, **defaults: Any) -> Any:
    """Return a copy of a sampler with the parameters that it has and leaves None set to these defaults."""
    copy = clone(sampler)
    params = copy.get_params(deep=False)
    return copy.set_params(**{name: value for name, value in defaults.items() if params.get(name, value) is None})


def ridge_or_default(ridge: float | None, kernel: Any, rows: Rows) -> float:
    """Return the ridge given, or 1e-3 of the kernel's mean diagonal over the rows."""
    if ridge is not None:
        return check_ridge(ridge)
    mean = float(diagonal(kernel, rows).mean())
    if mean <= 0:
        raise ValueError(f"{kernel!r} is zero on the first rows: no ridge can be derived; give one")
    return DEFAULT_RIDGE * mean


def check_ridge_beside(ridge: float, kernel: Any, rows: Rows) -> float:
    """Return the ridge, or raise where it is too small beside the kernel's diagonal for float64."""
    largest = float(diagonal(kernel, rows).max())
    if ridge < SMALLEST_RIDGE * largest:
        raise ValueError(
            f"ridge {ridge:.3g} is below {SMALLEST_RIDGE:g} of the kernel's diagonal ({largest:.3g}) and would be "
            "lost in rounding; use a larger ridge, or centre and scale the columns"
        )
    return ridge


def own_kernel(kernel: Any) -> Any:
    """Return the user's kernel as a copy of our own, or the default, RBF of the median width."""
    if kernel is None:
        return RBF("median")
    if isinstance(kernel, type) or not (callable(kernel) and hasattr(kernel, "diag")):
        raise TypeError(
            f"kernel must be a kernel object such as RBF(1.0), not {kernel!r}; "
            "a plain function goes into PairwiseKernel(function)"
        )
    return clone(kernel, safe=False)
