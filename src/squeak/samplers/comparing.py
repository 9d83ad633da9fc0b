"""One table of samplers: what each costs and how good its dictionaries are."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from squeak.core import engine
from squeak.core.checks import check_whole
from squeak.core.kernels import diagonal, resolve
from squeak.core.leverage import check_ridge
from squeak.core.progress import progress
from squeak.core.rows import n_rows
from squeak.core.seeds import SAMPLE, RandomState, draw_seed, generator_at
from squeak.data import gather
from squeak.samplers.base import DEFAULT_OVERSAMPLING, Sampler, filled_in, own_kernel
from squeak.samplers.bless import Bless, BlessR
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.exact import ExactRLS
from squeak.samplers.kors import Kors
from squeak.samplers.quality import CountingKernel, Judge, Tally
from squeak.samplers.recursive import Recursive
from squeak.samplers.rpcholesky import GreedyCholesky, RPCholesky
from squeak.samplers.squeak import Squeak
from squeak.samplers.two_step import ManyStep, TwoStep
from squeak.samplers.uniform import Uniform

DENSE = ("ExactRLS",)
"""Samplers of the default table that need all of K: left out where that is too much."""

DEFAULT_SIZE = 100
"""The max_atoms of samplers that were given none."""


def default_samplers(n: int, exact_rows: int) -> dict[str, Sampler]:
    """Return the samplers that are compared where none are named."""
    found: dict[str, Sampler] = {
        "Uniform": Uniform(),
        "ExactRLS": ExactRLS(),
        "TwoStep": TwoStep(),
        "ManyStep": ManyStep(),
        "Recursive": Recursive(),
        "Bless": Bless(),
        "BlessR": BlessR(),
        "Kors": Kors(),
        "Squeak": Squeak(),
        "RPCholesky": RPCholesky(),
        "GreedyCholesky": GreedyCholesky(),
    }
    return {name: sampler for name, sampler in found.items() if n <= exact_rows or name not in DENSE}


def compare(
    X: Any,
    kernel: Any = None,
    ridge: float | None = None,
    *,
    samplers: Mapping[str, Sampler] | Sequence[Sampler] | None = None,
    oversampling: float | Sequence[float] = DEFAULT_OVERSAMPLING,
    repeats: int = 3,
    exact_rows: int = 3_000,
    random_state: RandomState = None,
    verbose: int = 0,
) -> Any:
    """Run samplers side by side and return one table of costs and quality.

    All get the same kernel. Those that sample by scores get the ridge and the oversampling; those that take a
    size get the mean size of Squeak's dictionaries at that oversampling, so that they compare at equal size.
    A parameter that is not at its default is left as it is. All are judged at the one ridge of the table.

    Parameters
    ----------
    X : rows or row source
    kernel : kernel, optional
        ``RBF("median")`` by default.
    ridge : float, optional
        n/1000 times the mean diagonal by default.
    samplers : mapping from names to samplers, or sequence of samplers, optional
        All that do not need more than they are worth, when left out.
    oversampling : float or sequence of floats
        Several give a curve for each sampler.
    repeats : int
        Runs with different seeds; the table has their means (the median for seconds).
    exact_rows : int
        Up to so many rows K and its eigenvectors are computed, for the exact measures.
    random_state : None, int, RandomState or Generator
    verbose : int
        1 shows a progress bar.

    Returns
    -------
    pandas.DataFrame, or a list of dict where pandas is not installed
        ``sampler``, ``oversampling``, ``seconds``, ``ridge`` (of the dictionary), ``passes`` (rows read for
        scoring, in units of n), ``kernel_evaluations``, ``atoms``, ``accuracy_low`` and ``accuracy_high``
        (ε̂: the same number where it is exact, else a bracket), ``ratio_mean``, ``ratio_5%`` and
        ``ratio_95%`` (estimated over exact scores), ``trace_error`` (Tr(K − K̃)/Tr K), and ``risk_factor``:
        the risk of Nyström ridge regression over that of the exact one, alpha = ridge, mean over functions
        from the kernel's prior with noise of variance ridge. NaN where a measure does not apply.

    References
    ----------
    Thesis, table 3.1; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import Squeak, Uniform, compare
    >>> X = np.random.default_rng(0).standard_normal((400, 2))
    >>> table = compare(X, RBF(1.0), 1.0, samplers=[Squeak(), Uniform()], repeats=2, random_state=0)
    >>> list(table["sampler"])
    ['Squeak', 'Uniform']
    """
    kernel = own_kernel(kernel)
    X, _ = gather(X, kernel)
    kernel = resolve(kernel, X)
    judge = Judge(X, kernel, _ridge(ridge, kernel, X), n_rows(X) <= exact_rows)
    chosen = _named(default_samplers(n_rows(X), exact_rows) if samplers is None else samplers)
    grid = _grid(oversampling)
    check_whole("repeats", repeats)
    seed = draw_seed(random_state)
    table = []
    runs = len(grid) * len(chosen) * repeats
    with engine.single_blas(), progress("compare", "runs", runs, verbose) as bar:
        for value in grid:
            size = _size_at(X, judge, value, seed) if any(_takes_size(s) for s in chosen.values()) else 0
            for name, sampler in chosen.items():
                found = [_one(sampler, X, judge, value, size, seed, run, bar, name) for run in range(repeats)]
                table.append({"sampler": name, "oversampling": value} | _mean(found))
    return _as_frame(table)


def _grid(oversampling: Any) -> list[float]:
    values = list(oversampling) if isinstance(oversampling, Sequence | np.ndarray) else [oversampling]
    if not values or not all(isinstance(v, int | float | np.number) and 0 < v < np.inf for v in values):
        raise ValueError(f"oversampling must be a positive number or several; it is {oversampling!r}")
    return [float(value) for value in values]


def _ridge(ridge: float | None, kernel: Any, X: Any) -> float:
    if ridge is not None:
        return check_ridge(ridge)
    return 1e-3 * float(diagonal(kernel, X).sum())


def _named(samplers: Mapping[str, Sampler] | Sequence[Sampler]) -> dict[str, Sampler]:
    if isinstance(samplers, Sampler):
        raise TypeError("samplers must be a mapping or a sequence: pass [sampler] for one")
    if isinstance(samplers, Mapping):
        named = dict(samplers)
    else:
        named = {}
        for sampler in samplers:
            name = type(sampler).__name__
            named[name if name not in named else f"{name} {len(named) + 1}"] = sampler
    for name, sampler in named.items():
        if not isinstance(sampler, Sampler):
            raise TypeError(f"{name} is a {type(sampler).__name__}, not a sampler")
        if sampler.get_params(deep=False).get("kernel") is not None:
            raise ValueError(
                f"{name} has a kernel of its own: samplers are compared with the one kernel of the table"
            )
    if not named:
        raise ValueError("there are no samplers to compare")
    return named


def _takes_size(sampler: Sampler) -> bool:
    params = sampler.get_params(deep=False)
    return "max_atoms" in params and "oversampling" not in params


def _prepared(sampler: Sampler, kernel: Any, judge: Judge, oversampling: float, size: int, seed: int) -> Sampler:
    """Return a copy with what was left open filled in."""
    params = sampler.get_params(deep=False)
    given: dict[str, Any] = {"kernel": kernel, "random_state": seed}
    sized = params.get("max_atoms") is not None and "oversampling" in params
    if params.get("oversampling") == DEFAULT_OVERSAMPLING:
        given["oversampling"] = oversampling
    if _takes_size(sampler) and params["max_atoms"] == DEFAULT_SIZE:
        given["max_atoms"] = size
    ready: Sampler = filled_in(sampler, ridge=None if sized else judge.ridge)
    ready.set_params(**given)
    return ready


def _size_at(X: Any, judge: Judge, oversampling: float, seed: int) -> int:
    """Return the mean size of three of Squeak's dictionaries: what samplers that take a size are given."""
    sampler = Squeak(kernel=judge.kernel, ridge=judge.ridge, oversampling=oversampling)
    sizes = [
        len(clone(sampler).set_params(random_state=_seed_of(seed, run)).fit(X).dictionary_) for run in range(3)
    ]
    return round(float(np.mean(sizes)))


def _seed_of(seed: int, run: int) -> int:
    return int(generator_at(seed, SAMPLE, run).integers(2**32))


def _one(
    sampler: Sampler, X: Any, judge: Judge, oversampling: float, size: int, seed: int, run: int, bar: Any, name: str
) -> dict[str, float]:
    bar.set_postfix_str(name)
    tally = Tally()
    kernel = CountingKernel(judge.kernel, tally)
    ready = _prepared(sampler, kernel, judge, oversampling, size, _seed_of(seed, run))
    start = time.perf_counter()
    counted: Dictionary = ready.fit(X).dictionary_
    facts = {"seconds": time.perf_counter() - start, "passes": float(getattr(ready, "passes_", 1.0))}
    facts |= {"kernel_evaluations": float(tally.total), "atoms": float(len(counted)), "ridge": counted.ridge}
    facts |= judge.judge(replace(counted, kernel=judge.kernel))
    bar.update(1)
    return facts


def _mean(runs: list[dict[str, float]]) -> dict[str, float]:
    row = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    row["seconds"] = float(np.median([run["seconds"] for run in runs]))
    return row


def _as_frame(table: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        return table
    return pandas.DataFrame(table)
