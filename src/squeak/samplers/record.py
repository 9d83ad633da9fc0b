"""How a dictionary came to be: its sampler, its growth, its merge tree. For reports; no part of its value."""

from __future__ import annotations

import inspect
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from squeak._version import __version__
from squeak.core.text import for_page
from squeak.core.types import Array

MOST_POINTS = 256
"""Points of the history that are kept: a file does not grow with the stream."""

MOST_NODES = 1023
"""Nodes of a merge tree that are kept; of a larger tree none is."""

HISTORY = ("rows", "atoms", "effective_dimension", "ridge")
NODE = ("rows", "atoms", "effective_dimension", "ridge", "seconds", "bytes")
_LONGEST = 500
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, eq=False)
class Record:
    """What is remembered of a run, bounded in size.

    Parameters
    ----------
    sampler : str
        The sampler's class, or ``"merge"``.
    parameters : dict of str to str
        Those that were given, as Python writes them.
    libraries : dict of str to str
        The versions that the run used.
    history : array of shape (k, 4)
        Rows, atoms, effective dimension and ridge along the stream.
    merges : tuple of tuples of int
        The children of each merge of the tree, as :class:`squeak.samplers.Tree` has them.
    nodes : array of shape (nodes, 6)
        Rows, atoms, effective dimension, ridge, seconds and bytes of every node; NaN where it was not measured.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Squeak
    >>> d = Squeak(ridge=1.0, random_state=0).fit(np.random.default_rng(0).random((500, 2))).dictionary_
    >>> d.record.call
    'Squeak(random_state=0, ridge=1.0)'
    """

    sampler: str
    parameters: dict[str, str]
    libraries: dict[str, str]
    history: Array = field(default_factory=lambda: np.zeros((0, len(HISTORY))))
    merges: tuple[tuple[int, ...], ...] = ()
    nodes: Array = field(default_factory=lambda: np.zeros((0, len(NODE))))

    def __post_init__(self) -> None:
        for name, most, width in (("history", MOST_POINTS, len(HISTORY)), ("nodes", MOST_NODES, len(NODE))):
            array = np.array(getattr(self, name), dtype=np.float64).reshape(-1, width)
            if len(array) > most:
                raise ValueError(f"the record's {name} has {len(array)} entries; {most} are the most")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        leaves = len(self.nodes) - len(self.merges)
        for number, children in enumerate(self.merges):
            if len(children) < 1 or not all(0 <= child < leaves + number for child in children):
                raise ValueError("the record's tree is damaged")

    @classmethod
    def of(
        cls,
        sampler: Any,
        history: Sequence[dict[str, float]] = (),
        merges: Sequence[Sequence[int]] = (),
        nodes: Sequence[Any] = (),
    ) -> Record:
        """Return the record of a sampler's run; long histories are thinned evenly, first and last entry stay.

        ``nodes`` are the facts of those nodes of the tree that this run computed, each with its number.
        """
        places = np.unique(np.linspace(0, len(history) - 1, MOST_POINTS).astype(int)).tolist() if history else []
        points = [[history[place].get(name, np.nan) for name in HISTORY] for place in places]
        size = 1 + sum(map(len, merges))  # every node but the root is the child of one merge
        measured = np.full((size, len(NODE)), np.nan)
        for fact in nodes:
            measured[fact.node] = [getattr(fact, name) for name in NODE]
        small = len(measured) <= MOST_NODES
        return cls(
            type(sampler).__name__,
            given_parameters(sampler),
            versions(),
            np.array(points, dtype=np.float64).reshape(-1, len(HISTORY)),
            tuple(tuple(children) for children in merges) if small else (),
            measured if small else measured[:0],
        )

    @classmethod
    def of_merge(cls, parts: Sequence[Any], merged: Any, dimension: float, given: dict[str, Any]) -> Record:
        """Return the record of one merge: the dictionaries that went in, and the one that came out."""
        facts = [(d.n_seen, len(d), np.nan, d.ridge, np.nan, np.nan) for d in parts[: MOST_NODES - 1]]
        facts.append((merged.n_seen, len(merged), dimension, merged.ridge, np.nan, np.nan))
        words = {name: repr(value) for name, value in given.items() if value is not None}
        whole = len(parts) < MOST_NODES
        return cls(
            "merge",
            {name: _ADDRESS.sub("", text) for name, text in words.items()},
            versions(),
            merges=(tuple(range(len(parts))),) if whole else (),
            nodes=np.array(facts if whole else []),
        )

    @property
    def call(self) -> str:
        """The sampler with its parameters, as Python writes it."""
        return f"{self.sampler}({', '.join(f'{name}={value}' for name, value in self.parameters.items())})"

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON data, for the file of the dictionary."""
        content = {
            "sampler": self.sampler,
            "parameters": self.parameters,
            "libraries": self.libraries,
            "merges": [list(children) for children in self.merges],
        }
        return {"history": self.history, "nodes": self.nodes}, content

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Record:
        """Return the record that :meth:`to_parts` took apart."""
        words = [content["parameters"], content["libraries"]]
        parameters, libraries = ({str(n)[:_LONGEST]: str(v)[:_LONGEST] for n, v in w.items()} for w in words)
        return cls(
            str(content["sampler"])[:_LONGEST],
            parameters,
            libraries,
            arrays["history"],
            tuple(tuple(int(child) for child in children) for children in content["merges"]),
            arrays["nodes"],
        )


def given_parameters(estimator: Any) -> dict[str, str]:
    """Return the parameters that differ from their defaults, as Python writes them, without addresses.

    ``verbose`` is left out, because it changes nothing that is learned: a run with a bar saves the same bytes.
    """
    signature = inspect.signature(type(estimator).__init__).parameters
    found = {}
    for name, value in estimator.get_params(deep=False).items():
        default = signature[name].default
        if (
            name == "verbose"
            or value is default
            or (type(value) is type(default) and isinstance(value, str | int | float | bool) and value == default)
        ):
            continue
        found[name] = _ADDRESS.sub("", repr(value))[:_LONGEST]
    return found


def versions() -> dict[str, str]:
    """Return the versions that bits depend on."""
    import scipy

    return {
        "squeak": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "processor": platform.machine(),
    }


BARS, WIDTH, HEIGHT = 20, 120, 28
STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"


def dictionary_html(d: Any) -> str:
    """Return a small table: atoms, rows seen, ridge, effective dimension, kernel, weights.

    Colours are the page's own, so that it reads in the dark too; texts are escaped.
    """
    facts = {"atoms": f"{len(d):,}", "rows seen": f"{d.n_seen:,}", "kernel": str(d.kernel)}
    if d.calibrated:
        facts["ridge"] = f"{d.ridge:.4g}"
        facts["effective dimension"] = f"about {d.effective_dimension():.3g}"
    if d.record is not None:
        facts["learned by"] = d.record.call
    weights = d.weights
    shown = {for_page(name): for_page(value) for name, value in facts.items()}
    shown["weights"] = f"{_bars(weights)} {weights.min():.3g} to {weights.max():.3g}"
    left = 'style="text-align:left"'
    lines = [f"<tr><th {left}>{name}</th><td {left}>{value}</td></tr>" for name, value in shown.items()]
    caption = '<caption style="text-align:left"><b>Dictionary</b></caption>'
    return f'<table style="{STYLE}">{caption}{"".join(lines)}</table>'


def _bars(values: Array) -> str:
    """Return a histogram on a logarithmic axis as inline SVG."""
    low, high = float(values.min()), float(values.max())
    spread = high > 1.001 * low
    edges = np.geomspace(low, high, BARS + 1) if spread else np.linspace(0.5 * low, 1.5 * high, BARS + 1)
    counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]
    step, tallest = WIDTH / BARS, max(int(counts.max()), 1)
    bars = "".join(
        f'<rect x="{place * step:.1f}" y="{HEIGHT - HEIGHT * count / tallest:.1f}" width="{step - 1:.1f}" '
        f'height="{HEIGHT * count / tallest:.1f}"/>'
        for place, count in enumerate(counts)
        if count
    )
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" fill="currentColor" opacity="0.7" '
        f'role="img" aria-label="histogram of weights" style="vertical-align:middle">{bars}</svg>'
    )
