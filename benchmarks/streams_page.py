"""The section ``streams`` of benchmarks/README.md and its pictures, from ``results/streams.jsonl``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks.draw import IMAGES
from benchmarks.streams import MADE, METHODS, MOST_ROWS, NAMES, REAL, UNSEEN, UNSEEN_ROWS, recorded

TITLES = {
    "mixed": "squeak: `MixedKons…`",
    "con": 'squeak: `ConKons…(curvature="auto")`',
    "mixed_singly": "squeak: `MixedKons…`, row by row",
    "con_singly": 'squeak: `ConKons…(curvature="auto")`, row by row',
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

DIVERGED = 1e3
"""From this part of the variance on, an error is not shown as a number."""

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


def shared_seeds(found: Found) -> Found:
    """Return the runs of each stream with the seeds that all methods have there."""
    kept: Found = {}
    for stream, of_stream in found.items():
        seeds = set.intersection(*(set(runs) for runs in of_stream.values()))
        kept[stream] = {name: {seed: runs[seed] for seed in seeds} for name, runs in of_stream.items()}
    return kept


def mean_ranks(found: Found, streams: Sequence[str]) -> tuple[dict[str, float], int]:
    """Return the mean rank of each method that was run on all streams, over the seeds they share, and how many."""
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
    shown = f"**{mean:.3f}**" if mean == best else f"{mean:.3f}" if mean < DIVERGED else "diverges"
    return shown if len(runs) == shared else f"{shown} ({len(runs)})"


def error_table(found: Found, streams: Sequence[str], methods: Sequence[str]) -> str:
    """Return the mean errors of methods on streams, the mean rank and the time per row."""
    streams = [stream for stream in streams if stream in found]
    ranks, counted = mean_ranks(found, streams)
    means = {s: [mean_error(found[s][m]) for m in methods if m in found[s]] for s in streams}
    shared = {s: max(len(runs) for runs in found[s].values()) for s in streams}
    counts = [s if s in REAL else f"{s} ({shared[s]} seed{'s' if shared[s] > 1 else ''})" for s in streams]
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


def detail_table(found: Found, streams: Sequence[str], methods: Sequence[str]) -> str:
    """Return κ (for numbers, the part of the variance that is explained), µs per row and memory of methods."""
    streams = [stream for stream in streams if stream in found]
    lines = [f"| κ, µs per row, MB | {' | '.join(streams)} |", "|---" * (len(streams) + 1) + "|"]
    for method in methods:
        cells = []
        for stream in streams:
            runs = list(found[stream].get(method, {}).values())
            if not runs:
                cells.append("–")
                continue
            good = [1.0 - r["error"] if r["kappa"] is None else r["kappa"] for r in runs]
            time, memory = (float(np.mean([r[name] for r in runs])) for name in ("microseconds", "peak_mb"))
            cells.append(f"{np.mean(good):.2f}, {time:.0f}, {memory:.0f}")
        lines.append(f"| {TITLES[method]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def short_table() -> str:
    """Return the errors and times of methods on streams that they were not run on as a whole, beside ours."""
    complete = whole()
    records = [
        r
        for r in recorded().values()
        if r["settings"] == METHODS[r["method"]][1]
        and r["rows"] < next(iter(complete[r["stream"]]["mixed"].values()))["rows"]
    ]
    lines = ["| stream, rows | method | error | µs per row | MB |", "|---|---|---|---|---|"]
    for r in sorted(records, key=lambda r: (r["stream"], r["rows"], r["error"])):
        title, memory = TITLES[r["method"]], f"{r['peak_mb']:.0f}"
        lines.append(
            f"| {r['stream']}, {r['rows']:,} | {title} | {r['error']:.3f} | {r['microseconds']:,.0f} | {memory} |"
        )
    return "\n".join(lines)


def worse_than_previous(found: Found) -> str:
    """Return in which runs ours has a larger error than the target of the row before."""
    pairs = [
        (f"{stream}, seed {seed}", r["error"], found[stream]["previous"][seed]["error"])
        for stream in NAMES
        for seed, r in found.get(stream, {}).get("mixed", {}).items()
        if seed in found[stream].get("previous", {})
    ]
    worse = [f"{name} ({mine:.3f} and {theirs:.3f})" for name, mine, theirs in pairs if mine > theirs]
    words = "In none of them" if not worse else f"In {len(worse)} of them, {', '.join(worse)},"
    return f"`MixedKons…` and the target of the row before share {len(pairs)} runs. {words} is our error the larger one."


def streams_page() -> str:
    """Return the section, and draw its pictures; empty where nothing was measured."""
    everything = whole()
    found = shared_seeds(everything)
    methods, seen, real = (
        [name for name in TITLES if any(name in found.get(stream, {}) for stream in streams)]
        for streams in (UNSEEN, MADE, REAL)
    )
    if not methods:
        return ""
    draw_streams(found, list(UNSEEN), "bench_streams.png")
    draw_streams(found, list(MADE), "bench_streams_seen.png")
    both, all_runs = mean_ranks(found, [*UNSEEN, *MADE])
    ordered = sorted(both.items(), key=lambda pair: pair[1])
    overall = ", ".join(f"{TITLES[name]} {rank:.1f}" for name, rank in ordered)
    return f"""
## streams: learners that see each row once, in order

Each method predicts a row before it learns it, on one thread. Errors are the part of wrong labels, and for `planes`, `friedman` and `nycflights` the mean squared error divided by the variance of the targets. A rank of 1 is the least
error of all methods on a stream; methods that were not run on all streams have none, and ranks count the seeds that all of these methods share. All methods have their defaults. river is {version("river")} and LightGBM {version("lightgbm")}; linear, passive-aggressive and kNN learners of river
are behind its `StandardScaler`, and kNN keeps a window, for this river has no kNN with a drift detector. LightGBM is also fitted to the first 25, 50, 100, 200, 400 and 700 rows, and says the target of the row before until then. squeak's learners are given rows in blocks, which changes no prediction but by rounding, and the names of all classes; river's are given rows one by one. (Row by row, squeak's learners take two to four times as long: see the table of short runs below.) The time is processor time, measured while the machine did other work. Memory is what a run took beyond what was there at its start, with arrays that are used again counted as 0.

The first table has seven streams that river generates, of {min(UNSEEN_ROWS.values()):,} (`planes`) and {max(UNSEEN_ROWS.values()):,} rows. **They played no part in any choice of a setting**: they were written down in `benchmarks/streams.py` before any learner was run on them, and no setting was changed because of them. After a first measurement, what the mixture does after an alarm was changed by its effect on the streams of the other tables, and it was measured again.
`sine` and `tree` change at once in the middle, `stagger`, `loans` (Agrawal's functions 2 and 6) and `blobs` (random radial basis functions) gradually, and `waveform` and `planes` do not change.

{error_table(found, list(UNSEEN), methods)}

{detail_table(found, list(UNSEEN), methods)}

(κ is the accuracy beyond that of guessing with the same frequencies; for `planes` it is the explained part of the variance.)

The second table has six streams with drift, {MOST_ROWS:,} rows each. An earlier version of our learners was measured on them unseen (mean rank 2.0 of 8). What was lost there then led to the linear experts and to learning the relevance of columns anew after a drift; the trial after an alarm was chosen on them, too; so that **our figures in this table are optimistic**.

{error_table(found, list(MADE), seen)}

Over both tables ({all_runs} streams and seeds) the mean ranks are: {overall}. {worse_than_previous(everything)}

The third table has recorded streams, in their order (the first {MOST_ROWS:,} rows of each). The settings of squeak were chosen on these, so its figures there are optimistic, too. The forest's runs on covtype and ijcnn1 were made on a faster machine than the rest, so that their times (1,035 and 1,119 µs per row) cannot be compared with the others.

{error_table(found, list(REAL), real)}

Some methods are too slow for whole streams here. These are runs on the first rows of a recorded stream, and on unseen streams of fewer rows, whose drift is in the middle of these rows; one seed:

{short_table()}

![Error along seven streams that were not looked at before](../docs/images/bench_streams.png)

![Error along six streams that settings were chosen on](../docs/images/bench_streams_seen.png)
"""


def draw_streams(found: Found, names: Sequence[str], file: str) -> None:
    """Draw the error along generated streams, for two methods of ours and some that are ahead of others."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = {"mixed": "tab:blue", "con": "tab:cyan", "arf": "tab:green", "hat": "tab:olive", "lightgbm": "0.5"}
    streams = [stream for stream in names if stream in found]
    figure, axes = plt.subplots(2, (len(streams) + 1) // 2, figsize=(12, 6), squeeze=False)
    for axis in axes.flat[len(streams) :]:
        axis.axis("off")
    for axis, stream in zip(axes.flat, streams, strict=False):
        for method, color in shown.items():
            if method in found[stream]:
                runs = list(found[stream][method].values())
                curve = np.mean([r["curve"] for r in runs], axis=0)
                rows = (np.arange(len(curve)) + 0.5) * runs[0]["rows"] / len(curve)
                axis.plot(rows, curve, color=color, lw=1.2, label=TITLES[method].replace("`", ""))
        settled = max(max(line.get_ydata()[1:], default=0.0) for line in axis.lines)  # LightGBM begins untrained
        axis.set(title=stream, xlabel="rows", ylim=(0, 1.1 * settled))
    for axis in axes[:, 0]:
        axis.set_ylabel("error before a row is learned")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=3, fontsize=8)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(IMAGES / file, dpi=100)
    plt.close(figure)
