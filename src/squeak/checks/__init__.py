"""The contract of every kind of estimator, as functions that anyone can run over a class of their own.

Each ``check_…`` takes one object with the parameters that it shall be checked with, works on copies of it, and
raises an AssertionError with a sentence that says what does not hold. They need no test framework;
:func:`checks_of` lists them one by one for those who have one. The tests of this library run them over every
public class.

Examples
--------
>>> from squeak.checks import check_sampler
>>> from squeak.kernels import RBF
>>> from squeak.samplers import Uniform
>>> check_sampler(Uniform(RBF(1.0), max_atoms=30, random_state=0))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squeak.checks import others, rows
from squeak.checks.contract import Check, named

__all__ = [
    "check_bandit",
    "check_dpp",
    "check_graph_learner",
    "check_kernel",
    "check_learner",
    "check_online",
    "check_sampler",
    "check_sparsifier",
    "checks_of",
]

KINDS: dict[str, tuple[tuple[Check, ...], Callable[..., Any]]] = {
    "sampler": (rows.SAMPLER, rows.sampler_case),
    "learner": (rows.LEARNER, rows.learner_case),
    "online": (rows.ONLINE, rows.online_case),
    "dpp": (rows.DPP, rows.dpp_case),
    "kernel": (others.KERNEL, lambda kernel: kernel),
    "sparsifier": (others.SPARSIFIER, others.sparsifier_case),
    "graph learner": (others.GRAPH_LEARNER, others.graph_learner_case),
    "bandit": (others.BANDIT, others.BanditCase),
}


def checks_of(kind: str, subject: Any, **params: Any) -> list[tuple[str, Callable[[], None]]]:
    """Return the checks that apply to an object, one by one: for ``pytest.mark.parametrize`` and the like.

    Parameters
    ----------
    kind : str
        "sampler", "learner", "online", "dpp", "kernel", "sparsifier", "graph learner" or "bandit".
    subject : object
        What the function ``check_…`` of that kind takes.
    **params
        What else it takes.

    Returns
    -------
    list of (str, callable)
        What is checked, in words, and a function without arguments that raises AssertionError if it does not hold.

    Examples
    --------
    >>> from squeak.checks import checks_of
    >>> from squeak.kernels import RBF
    >>> for words, check in checks_of("kernel", RBF(1.0)):
    ...     print(words)
    ...     check()
    values are symmetric and their diagonal is diag
    values are positive semi definite
    kernels are values
    sparse and narrow rows have the same values
    bad rows get one clear error
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; it is {kind!r}")
    checks, case = KINDS[kind]
    return list(named(checks, case(subject, **params), getattr(subject, "__name__", type(subject).__name__)))


def _check(kind: str, subject: Any, **params: Any) -> None:
    for _, check in checks_of(kind, subject, **params):
        check()


def check_sampler(sampler: Any) -> None:
    """Check that a sampler keeps its contract.

    It stores its parameters, gives the same dictionary for the same seed, neither changes nor keeps the rows,
    refuses bad rows and parameters with one clear error that leaves it as it was, can be pickled, and takes tables,
    a single row, equal rows, and huge and tiny values. One with ``partial_fit`` gives row by row what it gives of
    all rows at once.

    Parameters
    ----------
    sampler : Sampler
        Not fitted; with a kernel and a seed. It is copied.

    Examples
    --------
    >>> from squeak import Squeak
    >>> from squeak.checks import check_sampler
    >>> from squeak.kernels import RBF
    >>> check_sampler(Squeak(RBF(1.0), ridge=1.0, random_state=0))
    >>> class Forgetful(Squeak):
    ...     def fit(self, X, y=None):
    ...         super().fit(X)
    >>> check_sampler(Forgetful(RBF(1.0), ridge=1.0, random_state=0))
    Traceback (most recent call last):
    ...
    AssertionError: Forgetful: the constructor only stores and fit returns the estimator: fit returns something else
    """
    _check("sampler", sampler)


def check_learner(learner: Any) -> None:
    """Check that a learner keeps its contract; scikit-learn's ``check_estimator`` asks for other things besides.

    It stores its parameters, gives the same answers for the same seed, neither changes nor keeps rows and
    targets, refuses bad rows in ``fit`` and in what it answers with one clear error that leaves it as it was,
    is the same after a pickle and a file, answers sparse rows as dense ones, and rows one by one as together.

    Parameters
    ----------
    learner : estimator
        A classifier, regressor, transformer or clusterer, not fitted, with a kernel of fixed width and a seed.

    Examples
    --------
    >>> from squeak import KernelRidge
    >>> from squeak.checks import check_learner
    >>> from squeak.kernels import RBF
    >>> check_learner(KernelRidge(RBF(1.0), max_atoms=30, random_state=0))
    """
    _check("learner", learner)


def check_online(learner: Any) -> None:
    """Check that an online learner keeps its contract.

    It keeps that of learners where this makes sense in a stream; row by row, in blocks and at once it says the
    same, and one that is saved in mid-stream goes on in the same bits.

    Parameters
    ----------
    learner : OnlineEstimator
        Not fitted, with a seed.

    Examples
    --------
    >>> from squeak.checks import check_online
    >>> from squeak.kernels import RBF
    >>> from squeak.online import NOGDRegressor
    >>> check_online(NOGDRegressor(RBF(1.0), max_atoms=10, rank=5, random_state=0))
    """
    _check("online", learner)


def check_dpp(dpp: Any) -> None:
    """Check that a determinantal point process keeps its contract.

    It keeps that of estimators; samples are row numbers in ascending order, follow the seed, and go on after a
    pickle; the chances of the rows lie in [0, 1] and add up to about the expected size.

    Parameters
    ----------
    dpp : DPP or ExactDPP
        Not fitted, with a seed.

    Examples
    --------
    >>> from squeak.checks import check_dpp
    >>> from squeak.dpp import ExactDPP
    >>> from squeak.kernels import RBF
    >>> check_dpp(ExactDPP(RBF(1.5), random_state=0))
    """
    _check("dpp", dpp)


def check_kernel(kernel: Any) -> None:
    """Check that a kernel of vectors keeps its contract.

    Its values are symmetric and positive semi-definite, ``diag`` is their diagonal, sparse and float32 rows have
    the same values, copies are equal, and bad rows are refused.

    Parameters
    ----------
    kernel : Kernel
        With every width a number.

    Examples
    --------
    >>> from squeak.checks import check_kernel
    >>> from squeak.kernels import RBF, Linear
    >>> check_kernel(2.0 * RBF(1.0) + Linear())
    """
    _check("kernel", kernel)


def check_sparsifier(sparsifier: Any) -> None:
    """Check that a sparsifier of edges keeps its contract.

    It keeps that of estimators, with edges in place of rows, and what it leaves is a smaller symmetric graph on the
    same nodes with positive weights.

    Parameters
    ----------
    sparsifier : StreamSparsifier or the like
        Not fitted, with a seed; it should thin a graph of 300 nodes and 10,000 edges.

    Examples
    --------
    >>> from squeak.checks import check_sparsifier
    >>> from squeak.graphs import StreamSparsifier
    >>> check_sparsifier(StreamSparsifier(4.0, random_state=0))
    """
    _check("sparsifier", sparsifier)


def check_graph_learner(learner: Any, graph: Callable[[Any], Any] | None = None) -> None:
    """Check that a learner of few labels keeps its contract.

    It keeps that of estimators, and from ten labels it finds those of two hundred rows in two clusters far apart.

    Parameters
    ----------
    learner : HarmonicClassifier or the like
        Not fitted.
    graph : callable, optional
        What makes a graph of rows, for a learner that takes no rows.

    Examples
    --------
    >>> from squeak.checks import check_graph_learner
    >>> from squeak.graphs import NearestLabel
    >>> check_graph_learner(NearestLabel())
    """
    _check("graph learner", learner, graph=graph)


def check_bandit(make: Callable[..., Any]) -> None:
    """Check that a bandit over arms keeps its contract.

    The same seed pulls the same arms; rewards may come late, in any order or unasked; a bad one is refused and
    changes nothing; retired arms are not pulled; an interrupt loses nothing that was told; what is loaded from a
    file goes on in the same bits.

    Parameters
    ----------
    make : callable
        A class, or a function, that takes an array of arms and ``random_state``.

    Examples
    --------
    >>> from functools import partial
    >>> from squeak.bandits import GPUCB
    >>> from squeak.checks import check_bandit
    >>> from squeak.kernels import RBF
    >>> check_bandit(partial(GPUCB, kernel=RBF(0.3), noise=0.1))
    """
    _check("bandit", make)
