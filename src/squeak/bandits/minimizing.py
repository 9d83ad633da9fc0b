"""``minimize``: an expensive function over a box, in as few calls as may be."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from squeak.bandits.continuous import BoxUCB
from squeak.core.checks import check_whole
from squeak.core.progress import progress
from squeak.core.state import LARGEST
from squeak.core.types import Array


@dataclass(frozen=True)
class MinimizeResult:
    """What :func:`minimize` found."""

    x: Any
    fun: float
    points: list[Any]
    values: Array
    failed: list[Any] = field(default_factory=list)


def minimize(
    f: Callable[[Any], float],
    bounds: Any,
    n_steps: int = 100,
    *,
    points: Any = None,
    values: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: int = 0,
    callback: Callable[[Any, float], bool | None] | None = None,
    **params: Any,
) -> MinimizeResult:
    """Minimise an expensive function over a box by Bayesian optimisation with a Gaussian process.

    After a few first points, each point is chosen where a Gaussian process, fitted to all values so far, expects
    the largest improvement. :class:`BoxUCB` is the same search with calls of your own.

    Parameters
    ----------
    f : callable
        The function. It takes a point (an array if every side of the box is real, else a list of values) and
        returns a number. NaN or an infinite number says that the trial failed: the search then avoids points like
        it. An exception ends the run; what was found before it is in the ``checkpoint``.
    bounds : sequence
        The sides of the box, as in :class:`BoxUCB`.
    n_steps : int
        How often f is called, trials that fail included.
    points, values : sequences, optional
        Points whose values are already known; a value that is not finite is that of a trial that failed.
    checkpoint : path, optional
        A ``.sqk`` file that is replaced after each call of f. If it is there, the run continues from it and ends in
        the same bits as one that never stopped; ``n_steps`` also counts the calls before.
    verbose : int
        1 shows a progress bar.
    callback : callable, optional
        It is called with each point and its value. If it returns something true, the run ends.
    **params
        Parameters of :class:`BoxUCB`.

    Returns
    -------
    MinimizeResult
        The best point ``x``, its value ``fun``, all ``points`` that have a value and their ``values`` in order,
        and the points that ``failed``. If every trial failed, a ValueError says so.

    References
    ----------
    The theory page, "Bandits" on a set of candidates that is refreshed at each step.

    Examples
    --------
    >>> from squeak.bandits import minimize
    >>> found = minimize(lambda x: (x[0] - 0.3) ** 2 + (x[1] + 0.5) ** 2, [(-1, 1), (-1, 1)], 30, random_state=0)
    >>> found.fun < 1e-2
    True
    """
    check_whole("n_steps", n_steps)
    known = _known(points, values)
    box = BoxUCB(bounds, **params)
    if checkpoint is not None and Path(checkpoint).exists():
        box = _resumed(checkpoint, box, seeded=params.get("random_state") is not None)
    for point, value in known[box.n_told_ + box.n_failed_ :]:
        box.tell(point, -value)
    left = n_steps + len(known) - box.n_told_ - box.n_failed_

    def told(x: Any, reward: float) -> bool:
        if checkpoint is not None:
            box.save(checkpoint)
        bar.update()
        return callback is not None and bool(callback(x, -reward))

    with progress("minimize", "calls", n_steps, verbose, done=max(n_steps - left, 0)) as bar:
        if left > 0:
            box.run(lambda x: -_value(f, x), left, callback=told)
    if box.n_told_ == 0:
        raise ValueError(
            f"all {box.n_failed_} trials failed: f returned no finite number, the first time at {box.failed_[0]}"
        )
    best, found = box.best_, -box.rewards_
    return MinimizeResult(best.arm, float(found[best.index]), box.pulls_, found, box.failed_)


def _value(f: Callable[[Any], float], x: Any) -> float:
    """Return f(x), or raise what is wrong with it."""
    value = f(copy(x))
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"f must return a number; at {x} it returned {value!r}") from None
    if LARGEST <= abs(number) < math.inf:
        raise ValueError(f"f returned {number} at {x}: scale its values, or return NaN where a trial failed")
    return number


def _known(points: Any, values: Any) -> list[tuple[Any, float]]:
    """Return pairs of points and values known from before."""
    points, values = ([] if given is None else list(given) for given in (points, values))
    if len(points) != len(values):
        raise ValueError(f"give as many values as points: there are {len(points)} points and {len(values)} values")
    return list(zip(points, values, strict=True))


def _resumed(path: str | os.PathLike[str], fresh: BoxUCB, *, seeded: bool) -> BoxUCB:
    """Return the box in a file, which must have been made as the fresh one was."""
    box = BoxUCB.load(path)
    if box.settings(seeded=seeded) != fresh.settings(seeded=seeded):
        raise ValueError(f"{path} belongs to a run with other bounds or parameters")
    return box
