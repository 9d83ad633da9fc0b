"""The section ``streams`` of benchmarks/README.md and its picture, from ``results/streams.jsonl``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks.draw import IMAGES
from benchmarks.streams import MADE, METHODS, MOST_ROWS, REAL, recorded

TITLES = {
    "mixed": "squeak: `MixedKons…`",
    "con": 'squeak: `ConKons…(curvature="auto")`',
    "arf": "river: adaptive random forest",
    "srp": "river: streaming random patches",
    "hat": "river: Hoeffding adaptive tree",
    "amf": "river: aggregated Mondrian forest",
    "knn": "river: kNN, last 1,000 rows",
    "linear": "river: logistic or linear regression",
    "pa": "river: passive-aggressive",
    "lightgbm": "LightGBM, refitted every 1,000 rows on the last 5,000",
    "previous": "the target of the row before",
}

Found = dict[str, dict[str, dict[int, dict[str, Any]]]]
"""Stream, method and seed."""


def whole() -> Found:
    """Return the measurements of whole streams with the present settings; shorter trials are left out."""
    found: Found = {}
    longest: dict[str, int] = {}
    records = [r for r in recorded().values() if r["settings"] == METHODS[r["method"]][1]]
    for r in records:
        longest[r["stream"]] = max(r["rows"], longest.get(r["stream"], 0))
    for r in records:
        if r["rows"] == longest[r["stream"]]:
            found.setdefault(r["stream"], {}).setdefault(r["method"], {})[r["seed"]] = r
    return found


def mean_ranks(found: Found, streams: Sequence[str]) -> tuple[dict[str, float], int]:
    """Return the mean rank of each method that was run on all streams, over the seeds that they share, and how many."""
    methods = [name for name in TITLES if all(name in found.get(stream, {}) for stream in streams)]
    places = []
    for stream in streams:
        runs = [found[stream][method] for method in methods]
        for seed in sorted(set.intersection(*(set(of_method) for of_method in runs))) if runs else ():
            errors = np.array([of_method[seed]["error"] for of_method in runs])
            places.append([(errors < e).sum() + ((errors == e).sum() + 1) / 2 for e in errors])
    if not places:
        return {}, 0
    return dict(zip(methods, np.mean(places, axis=0).tolist(), strict=True)), len(places)


def mean_error(runs: dict[int, dict[str, Any]]) -> float:
    """Return the mean over the seeds."""
    return float(np.mean([r["error"] for r in runs.values()]))


def cell(runs: dict[int, dict[str, Any]], best: float, shared: int) -> str:
    """Return a mean error, bold where it is the least, with the number of seeds where it is not that of all."""
    if not runs:
        return "–"
    mean = mean_error(runs)
    shown = f"**{mean:.3f}**" if mean == best else f"{mean:.3f}"
    return shown if len(runs) == shared else f"{shown} ({len(runs)})"


def error_table(found: Found, streams: Sequence[str], methods: Sequence[str]) -> str:
    """Return the mean errors of methods on streams, the mean rank and the time per row."""
    streams = [stream for stream in streams if stream in found]
    ranks, counted = mean_ranks(found, streams)
    means = {s: [mean_error(found[s][m]) for m in methods if m in found[s]] for s in streams}
    shared = {s: max(len(runs) for runs in found[s].values()) for s in streams}
    counts = [f"{s} ({shared[s]} seed{'s' if shared[s] > 1 else ''})" if s in MADE else s for s in streams]
    lines = [
        f"| | {' | '.join(counts)} | mean rank ({counted} streams and seeds) | µs per row |",
        "|---" * (len(streams) + 3) + "|",
    ]
    for method in sorted(methods, key=lambda name: ranks.get(name, 99.0)):
        times = [r["microseconds"] for s in streams for r in found[s].get(method, {}).values()]
        cells = [cell(found[s].get(method, {}), min(means[s]), shared[s]) for s in streams]
        rank = f"{ranks[method]:.1f}" if method in ranks else "–"
        spread = f"{min(times):.0f} to {max(times):.0f}" if max(times) >= 1 else "below 1"
        lines.append(f"| {TITLES[method]} | {' | '.join(cells)} | {rank} | {spread} |")
    return "\n".join(lines)


def streams_page() -> str:
    """Return the section, and draw its picture; empty where nothing was measured."""
    found = whole()
    methods = [name for name in TITLES if any(name in found.get(stream, {}) for stream in MADE)]
    if not methods:
        return ""
    draw_streams(found)
    real = [name for name in TITLES if any(name in found.get(stream, {}) for stream in REAL)]
    return f"""
## streams: learners that see each row once, in order

Each method predicts a row before it learns it, on one thread. Errors are the part of wrong labels, and for `nycflights` and `friedman` the mean squared error divided by the variance of the targets. A rank of 1 is the least
error of all methods on a stream; methods that were not run on all streams have none. All methods have their defaults; river {version("river")} has no kNN with a drift detector, so its kNN keeps a window. The time is processor time, measured while the machine did other work.

The first table has six streams that river generates, with drift, {MOST_ROWS:,} rows each. **They played no part in any choice of a setting**, and were first looked at when this table was measured.

{error_table(found, list(MADE), methods)}

The second table has recorded streams, in their order (the first {MOST_ROWS:,} rows of each). The settings of squeak were chosen on these, so its figures there are optimistic.

{error_table(found, list(REAL), real)}

![Error along six streams that were not looked at before](../docs/images/bench_streams.png)
"""


def draw_streams(found: Found) -> None:
    """Draw the error along each generated stream, for the methods that have the least mean ranks and two of ours."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = {"mixed": "tab:blue", "con": "tab:cyan", "arf": "tab:green", "srp": "tab:olive", "lightgbm": "0.5"}
    streams = [stream for stream in MADE if stream in found]
    figure, axes = plt.subplots(2, 3, figsize=(12, 6))
    for axis, stream in zip(axes.flat, streams, strict=False):
        for method, color in shown.items():
            if method in found[stream]:
                curve = np.mean([r["curve"] for r in found[stream][method].values()], axis=0)
                rows = (np.arange(len(curve)) + 0.5) * MOST_ROWS / len(curve)
                axis.plot(rows, curve, color=color, lw=1.2, label=TITLES[method].replace("`", ""))
        settled = max(max(line.get_ydata()[1:], default=0.0) for line in axis.lines)  # LightGBM begins untrained
        axis.set(title=stream, xlabel="rows", ylim=(0, 1.1 * settled))
    for axis in axes[:, 0]:
        axis.set_ylabel("error before a row is learned")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=3, fontsize=8)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(IMAGES / "bench_streams.png", dpi=100)
    plt.close(figure)
