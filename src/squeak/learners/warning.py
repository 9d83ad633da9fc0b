"""What a fit tells its user: columns that one width cannot serve, and searches that end at the edge of a grid."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from squeak.core.kernels import diagonal
from squeak.core.types import Array
from squeak.data import RowSource
from squeak.learners.data import ArrayTraining, Training
from squeak.learners.tuning import WIDTHS
from squeak.samplers.dictionary import Dictionary

UNEVEN = 100.0
"""From this ratio of two columns' spreads on, the narrower one hardly counts under a single width."""

FEWEST = 20
"""Of fewer atoms the spreads of columns say nothing."""

INNER = 0.01, 0.99
"""The spread of a column is the distance of these quantiles: a few rows far out do not make it."""

WELL = 1e-3
"""The part of the targets' variance below which nothing is left to say of the error."""

LOOKED_AT = 2_000
"""Rows from which the median distance is measured anew."""

SLACK = 1.15
"""A width within this factor of the edge is at the edge; two that are tried next to each other are √2 apart."""


def tell(words: str) -> None:
    """Warn at the user's own line, outside of this package and of scikit-learn."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in ("squeak", "sklearn"):
        level, frame = level + 1, frame.f_back
    warnings.warn(words, stacklevel=max(level - 1, 1) + (frame is not None))


def warn_if_uneven(d: Dictionary, names: Sequence[Any] | None = None) -> None:
    """Warn where columns that were not scaled have spreads far apart, and the kernel one width for all of them.

    The spread is the distance of the 1% and 99% quantiles among the atoms; columns of which it is 0 do not count.

    Parameters
    ----------
    d : Dictionary
    names : sequence, optional
        The columns' names, where rows came without a preprocessing.
    """
    encoding, width = d.preprocessing, getattr(d.kernel, "length_scale", None)
    if _scaled(encoding) or width is None or np.ndim(width) > 0 or not isinstance(d.atoms, np.ndarray):
        return
    if np.ptp(diagonal(d.kernel, d.atoms)) > 0:  # not a kernel of distances
        return
    words = _uneven(d.atoms, names if encoding is None else encoding.feature_names)
    if words is not None:
        tell(
            f"{words}, and {d.kernel!r} has one width for all columns, so that the narrower ones hardly "
            "count: scale the columns (scale='standard' of squeak.rows, or StandardScaler), or use "
            "length_scale='learned', a width for each"
        )


def warn_if_unscaled(rows: Array, source: RowSource) -> None:
    """Warn where rows of a source are to be learned as they come, and their columns have spreads far apart.

    Parameters
    ----------
    rows : array of shape (n, d)
    source : RowSource
        Whose rows they are.
    """
    if not _scaled(source.preprocessing):
        words = _uneven(rows[:: max(1, len(rows) // LOOKED_AT)], source.feature_names)
        if words is not None:
            tell(
                f"{words}, and the rows of a source are learned as they come: scale the columns (scale='robust' of "
                "squeak.rows), or give the table itself"
            )


def _scaled(encoding: Any) -> bool:
    return encoding is not None and encoding.scale is not None


def _uneven(rows: Array, names: Sequence[Any] | None) -> str | None:
    """Return words about the columns of the widest and the narrowest spread; None where these are not far apart."""
    if len(rows) < FEWEST:
        return None
    low, high = np.quantile(rows, INNER, axis=0, method="nearest")
    spread = np.asarray(high, dtype=np.float64) - low
    there = np.flatnonzero(spread > 0)
    if len(there) < 2:
        return None
    wide, narrow = (there[int(pick(spread[there]))] for pick in (np.argmax, np.argmin))
    ratio = float(spread[wide] / spread[narrow])
    if ratio < UNEVEN:
        return None
    wide_name, narrow_name = (
        f"column {place}" if names is None else f"column {str(names[place])!r}" for place in (wide, narrow)
    )
    return f"{wide_name} spreads {ratio:,.0f} times as far as {narrow_name}"


def first_rows(data: Training) -> ArrayTraining:
    """Return rows in memory as they are, and of a source the first block, which is what a search looks at."""
    if isinstance(data, ArrayTraining):
        return data
    X, (y, weight) = data.first()
    return ArrayTraining(X, y, weight)


def warn_if_width_at_edge(asked: Any, found: Any, data: ArrayTraining) -> None:
    """Warn where ``length_scale="auto"`` ended at the smallest or the largest width that it tries.

    Parameters
    ----------
    asked, found : kernel
        As the user gave it, and with the width that was found.
    data : rows
    """
    middle = type(asked)(**{**asked.get_params(deep=False), "length_scale": "median"}).resolve(data.head(LOOKED_AT))
    factor = float(found.length_scale / middle.length_scale)
    if factor * np.sqrt(2.0) <= WIDTHS[0] * SLACK:
        words = "smallest", "the target changes faster than these columns do: more atoms, or length_scale='learned'"
    elif factor / np.sqrt(2.0) >= WIDTHS[-1] / SLACK:
        words = (
            "largest",
            "some columns do not matter, or the target is nearly linear: length_scale='learned', a Linear kernel",
        )
    else:
        return
    tell(
        f"length_scale='auto' ended at the {words[0]} width of its grid, {found.length_scale:.3g} "
        f"({factor:.2g} of the median distance). Often {words[1]} or other columns help more than another width"
    )


FALLS = 1.25
"""An error that is larger by this factor with half of the atoms still falls with their number."""

UNEXPLAINED = 0.5
"""A part of the targets' variance that is left although no penalty was wanted: this width cannot tell it."""


def warn_if_alpha_at_edge(alpha: float, alphas: Array, part: float, with_half: Callable[[], float]) -> None:
    """Warn where ``alpha="auto"`` ended at the least or the largest alpha of its grid, and something would help.

    The least one alone says little: where atoms are few beside the rows, they need no penalty even under noise.

    Parameters
    ----------
    alpha : float
        The one that was chosen.
    alphas : array
        Those to choose from, increasing.
    part : float
        The error that is left, as a part of the targets' variance; where it is below 1e-3 there is nothing to say.
    with_half : function
        Returns the same with half of the atoms.
    """
    if alpha == alphas[-1]:
        tell(
            f"alpha='auto' ended at the largest of its grid, {alpha:.3g}: these columns tell hardly anything of "
            "the target under this kernel. Other columns, other scales or another width would help more"
        )
    elif alpha == alphas[0] and part > WELL and (part > UNEXPLAINED or with_half() > FALLS * part):
        tell(
            f"alpha='auto' ended at the smallest of its grid, {alpha:.3g}: what is left of the error (a part of "
            f"{part:.2g} of the target's variance) comes at least in part from too few atoms or the wrong width. "
            "More atoms, a smaller or a learned length_scale would help more"
        )
