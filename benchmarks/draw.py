"""Draw the committed results: ratios against peers with their spread, and how time and memory grow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def result(name: str) -> dict[str, Any]:
    """Return a committed result; empty where it has not been measured."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def peers() -> list[tuple[str, dict[str, float]]]:
    """Return what was compared, and how many times as long the peer takes: median, smallest, largest."""
    rows: list[tuple[str, dict[str, float]]] = []
    for r in result("learners").get("records", []):
        for step in ("fit", "predict"):
            ratio = r["speed"][step]
            spread = ratio if isinstance(ratio, dict) else {"median": ratio, "min": ratio, "max": ratio}
            rows.append((f"scikit-learn, {r['data']} M = {r['landmarks']:,}, {step}", spread))
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
        rows.append((f"bayes_opt, {name}, a step", r["speed"]))
    return rows


def draw_peers() -> None:
    """Draw one bar a comparison, on a logarithmic axis."""
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


def main() -> None:
    """Draw everything that was measured."""
    import matplotlib

    matplotlib.use("Agg")
    draw_peers()
    draw_growth()


if __name__ == "__main__":
    main()
