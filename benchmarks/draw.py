"""Draw the committed results: ratios against peers, how time and memory grow, and errors on tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS
from benchmarks.searches_page import draw_searches

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def result(name: str) -> dict[str, Any]:
    """Return a committed result; empty where it has not been measured."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def peers() -> list[tuple[str, dict[str, float]]]:
    """Return what was compared, and how many times as long the peer takes: median, smallest, largest."""
    rows: list[tuple[str, dict[str, float]]] = []
    for r in result("falkon").get("parts", {}).values():
        for step, key in (("fit", "theirs"), ("predict", "predict")) if "theirs" in r.get("speed", {}) else ():
            theirs, ours = (
                r["seconds"][f"theirs {step}"],
                r["spread"].get(f"kept {step}", [r["seconds"][f"kept {step}"]]),
            )
            spread = {"median": r["speed"][key], "min": theirs / max(ours), "max": theirs / min(ours)}
            rows.append((f"scikit-learn, {r['data']} M = {r['centres']:,}, {step}", spread))
    for name, r in result("dpp").get("against_dppy", {}).items():
        for step in ("first", "later"):
            ratio = r["ratios"][step]
            rows.append((f"DPPy, {name}, {step} sample", {"median": ratio, "min": ratio, "max": ratio}))
    for name, r in result("online").get("peers", {}).items():
        compared = ("river singly", "scikit-learn singly", "scikit-learn blocks")
        rows += [(f"{words}, {name}", r[f"{words} over squeak"]) for words in compared]
    for name, r in result("graphs").get("leverage", {}).items():
        if "ratio" in r:
            rows.append((f"networkit, leverage of {name}", r["ratio"]["networkit"]))
    for name, r in result("bandits").get("bayes_opt", {}).items():
        rows.append((f"bayes_opt, {name}, per step", r["speed"]))
    return rows


def draw_peers() -> None:
    """Draw one bar per comparison, on a logarithmic axis."""
    import matplotlib.pyplot as plt

    rows = peers()
    figure, axis = plt.subplots(figsize=(8, 0.32 * len(rows) + 1.2))
    for place, (_, ratio) in enumerate(reversed(rows)):
        axis.barh(place, ratio["median"], color="tab:blue", alpha=0.75)
        axis.plot([ratio["min"], ratio["max"]], [place, place], color="k", lw=1.5)
        axis.annotate(
            f" {ratio['median']:.1f}×", (max(ratio["median"], ratio["max"]), place), va="center", fontsize=8
        )
    axis.set_yticks(range(len(rows)), [words for words, _ in reversed(rows)], fontsize=8)
    axis.axvline(1.0, color="k", lw=0.8)
    axis.set_xscale("log")
    axis.set_xlim(right=axis.get_xlim()[1] * 1.6)
    axis.set_xlabel("time of the peer over squeak's (line: all repeats)", loc="right")
    figure.tight_layout()
    figure.savefig(IMAGES / "bench_peers.png", dpi=110)
    plt.close(figure)


def draw_growth() -> None:
    """Draw time and memory against rows, columns and atoms, and the time of DISQUEAK against workers."""
    import matplotlib.pyplot as plt

    found, cluster = result("growth"), result("cluster")
    if not found or not cluster:
        return
    figure, axes = plt.subplots(2, 4, figsize=(14, 6))
    for column, (name, curve) in enumerate(found["curves"].items()):
        sizes = [entry["size"] for entry in curve]
        for row, (key, words) in enumerate((("seconds", "seconds"), ("peak_mb", "peak memory, MB"))):
            axis = axes[row, column]
            for line in curve[0]["runs"]:
                values = [entry["runs"][line][key] for entry in curve]
                axis.plot(sizes, [v["median"] for v in values], "o-", ms=4, label=line)
                axis.fill_between(sizes, [v["min"] for v in values], [v["max"] for v in values], alpha=0.2)
            axis.set(xlabel=name, ylabel=words if column == 0 else "", xscale="log", yscale="log")
            axis.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=8)
    workers, memory = axes[:, 3]
    workers.plot((1, 2), cluster["workers_seconds"], "o-", label="Disqueak, Dask")
    workers.plot((1, 2), cluster["independent_seconds"], "s--", label="processes, no engine")
    workers.set(xlabel="workers", xticks=(1, 2), ylim=(0, None))
    workers.legend(fontsize=8)
    lengths = {int(n): facts["peak_mb"] for n, facts in cluster["memory"].items()}
    memory.plot(list(lengths), list(lengths.values()), "o-", label="a worker of Disqueak")
    memory.set(xlabel="rows", xscale="log", ylim=(0, None))
    memory.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(IMAGES / "bench_growth.png", dpi=110)
    plt.close(figure)


def draw_tables() -> None:
    """Draw every method's error over squeak's on every table; over LightGBM's until squeak's is measured."""
    import matplotlib.pyplot as plt

    from benchmarks.tables_data import APART, CHOSEN_ON
    from benchmarks.tables_methods import METHODS
    from benchmarks.tables_page import PEERS

    errors = result("tables").get("errors", {})
    if not errors:
        return
    base = "squeak" if any("squeak" in methods for methods in errors.values()) else "lightgbm"
    others = [name for name in ("squeak", *PEERS) if name != base]
    halves = {"settings were chosen here": CHOSEN_ON, "apart": APART}
    sizes = [len(names) for names in halves.values()]
    figure, axes = plt.subplots(2, 1, figsize=(8, 8), sharex=True, gridspec_kw={"height_ratios": sizes})
    for axis, (words, names) in zip(axes, halves.items(), strict=True):
        shown = [name for name in names if base in errors.get(name, {})][::-1]
        for color, method in enumerate(others):
            points = [
                (errors[name][method]["mean"] / errors[name][base]["mean"], place)
                for place, name in enumerate(shown)
                if method in errors[name]
            ]
            if points:
                axis.plot(
                    *zip(*points, strict=True), "o", ms=6, alpha=0.8, color=f"C{color}", label=METHODS[method].title
                )
        axis.axvline(1.0, color="k", lw=0.8)
        axis.set_yticks(range(len(shown)), shown)
        axis.set(xscale="log", title=words)
        axis.grid(alpha=0.3)
    axes[1].set_xlabel(f"error of the method over that of {METHODS[base].title} (right of 1: worse)")
    known = {line.get_label(): line for axis in axes for line in axis.get_lines() if line.get_marker() == "o"}
    axes[0].legend(known.values(), known, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    ticks = [0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0]
    low, high = axes[1].get_xlim()
    axes[1].set_xticks([tick for tick in ticks if low < tick < high], minor=False)
    axes[1].set_xticks([], minor=True)
    axes[1].xaxis.set_major_formatter("{x:g}")
    figure.tight_layout()
    figure.savefig(IMAGES / "bench_tables.png", dpi=110)
    plt.close(figure)


def draw_results() -> None:
    """Draw README's picture: errors on tables, losses on streams, labels on a graph, each beside its peers."""
    import matplotlib.pyplot as plt

    from benchmarks.summary import SPREADING
    from benchmarks.tables_data import APART

    errors, unseen, learning = result("tables")["errors"], result("online")["unseen"], result("graphs")["learning"]
    figure, (tables, streams, labels) = plt.subplots(1, 3, figsize=(12, 4.2), width_ratios=[1.25, 1, 1])
    ratios = {name: e["squeak"]["mean"] / e["lightgbm"]["mean"] for name, e in errors.items() if "squeak" in e}
    names = sorted(ratios, key=lambda name: -ratios[name])
    colors = ["tab:blue" if name in APART else "lightsteelblue" for name in names]
    tables.barh(names, [ratios[name] for name in names], color=colors)
    tables.axvline(1.0, color="k", lw=1)
    tables.set(title="Tables: error divided by LightGBM's", xlabel="below 1: squeak is better")
    tables.plot([], [], "s", color="tab:blue", label="kept apart")
    tables.plot([], [], "s", color="lightsteelblue", label="settings chosen here")
    tables.legend(fontsize=8, loc="upper right")
    tables.tick_params(axis="y", labelsize=8)

    for shift, (method, color) in enumerate((("ConKons", "tab:blue"), ("FOGD", "0.6"), ("NOGD", "0.8"))):
        heights = [facts[method]["mean"] / facts["NOGD"]["mean"] for facts in unseen.values()]
        label = f"squeak: {method}" if method == "ConKons" else method
        streams.bar([place + 0.27 * shift for place in range(len(unseen))], heights, 0.25, color=color, label=label)
    streams.set_xticks([place + 0.27 for place in range(len(unseen))], list(unseen), fontsize=8)
    streams.set(title="Streams: loss divided by NOGD's", ylim=(0, 1.5))
    streams.legend(fontsize=8, loc="upper left")

    shown = [r for r in learning if r["data"] in ("cora", "pubmed", "usps") and r["labels"] in (20, 100)]
    for shift, (method, color) in enumerate((("STABLE", "tab:blue"), *zip(SPREADING, ("0.6", "0.8"), strict=True))):
        label = "squeak: HarmonicClassifier" if method == "STABLE" else f"scikit-learn: {method}"
        heights = [r["mean"][method] for r in shown]
        labels.bar([place + 0.27 * shift for place in range(len(shown))], heights, 0.25, color=color, label=label)
    ticks = [f"{r['data']}\n{r['labels']}" for r in shown]
    labels.set_xticks([place + 0.27 for place in range(len(shown))], ticks, fontsize=7)
    labels.set(title="Graphs: correct labels, %", ylim=(0, 130), xlabel="data, number of labels given")
    labels.legend(fontsize=8, loc="upper center")
    figure.tight_layout()
    figure.savefig(IMAGES / "bench_results.png", dpi=100)
    plt.close(figure)


def main() -> None:
    """Draw everything that was measured."""
    import matplotlib

    matplotlib.use("Agg")
    draw_peers()
    draw_growth()
    draw_tables()
    draw_results()
    draw_searches(result("searches"), IMAGES / "bench_searches.png")


if __name__ == "__main__":
    main()
