"""The part of ``coverage`` in benchmarks/README.md and in docs/bandits.md."""

from __future__ import annotations

import math
from typing import Any

KINDS = ("GPUCB", "BKB", "BatchBKB", "AutoUCB")


def percent(share: float) -> str:
    """Return a share in words, rounded down, so that 100% says that none is missing."""
    return f"{math.floor(1000 * share) / 10:.1f}%"


def lines(name: str, facts: dict[str, Any]) -> list[str]:
    """Return the rows of the table for a problem."""
    found = []
    for row in facts["settings"]:
        exact, runs = row["GPUCB"], row["runs"]
        shares = [f"{percent(row[kind]['share'])} ({runs * row[kind]['whole']:.0f})" for kind in KINDS]
        others = [percent(exact["lowest"]), percent(exact["next"]), f"{exact['beta']:.1f}"]
        cells = [f"{name}, {facts['arms']:,} arms, {runs} runs", row["told"], row["beta"], *shares, *others]
        found.append(f"| {' | '.join(cells)} |")
    return found


def coverage_page(found: dict[str, Any]) -> str:
    """Return the table of benchmarks/README.md."""
    rows = "\n".join(line for name, facts in found["problems"].items() for line in lines(name, facts))
    names = " | ".join(KINDS)
    return f"""
`python -m benchmarks.coverage` measures how often f lies within the bandits' intervals, mean ± `beta_`·std. Runs have {found["steps"]} pulls with noise {found["noise"]}, and whenever a bandit is to choose by its
intervals, all arms are looked at. Each class has the share of arms and rounds that lie within, and in brackets the number of runs in which all arms did in all rounds. For `GPUCB` there
are also the share of arms in the worst round (mean of the runs), the share of the arms that were chosen, and the mean of `beta_`. In runs as short as these `AutoUCB` is exact. Shares are rounded down.

- "draw" is a draw of a Gaussian process on random points of the square with the kernel RBF(0.2), another one in each run; "norm 2" is a function of that norm in the kernel's space. Tables are standardised, and f is their target, a part of which no kernel explains.
- "kernel and noise" are those of the draw; for a table they are fitted by likelihood to 1,000 rows with noise. Where the norm is not given, it is taken for 1.
- "width fitted" is `scale="auto", refit="doubling"`. With "nothing given" the kernel has the median width, and rewards have units of their own (`scale="auto"`).

| problem | told | `beta` | {names} | worst round | chosen | `beta_` |
|---|---|---|{"---|" * len(KINDS)}---|---|---|
{rows}
"""


def coverage_part(found: dict[str, Any]) -> str:
    """Return what docs/bandits.md says of the coverage; empty where it has not been measured."""
    if not found:
        return "\n"
    settings = {
        name: {(row["told"], row["beta"]): row for row in facts["settings"]}
        for name, facts in found["problems"].items()
    }
    known, named, fitted, nothing = "kernel and noise", "kernel, noise and norm", "width fitted", "nothing given"
    two, theorem = "2", '"logdet"'

    def cells(told: str, names: list[str]) -> str:
        columns = []
        for width in (two, theorem):
            rows = [settings[name][told, width] for name in names]
            all_in = sum(row["runs"] * row["GPUCB"]["whole"] for row in rows)
            columns.append(", ".join(percent(row["GPUCB"]["share"]) for row in rows))
            columns.append(f"{all_in:.0f} of {sum(row['runs'] for row in rows)} runs")
        return " | ".join(columns)

    real = [name for name in settings if name not in ("draw", "norm 2")]
    assumed = settings["norm 2"][named, theorem]
    return f"""
**How often the intervals hold**, of `GPUCB` in runs of {found["steps"]} pulls, was measured with `python -m benchmarks.coverage`. "Share" is that of arms and rounds; "all" counts the runs in which the intervals held for all arms at all rounds. The
[benchmarks](../benchmarks/README.md) have the other classes and more settings.

| f, and what the bandit is told | `beta=2.0`, the default: share | all | `beta="logdet"`: share | all |
|---|---|---|---|---|
| draws of a Gaussian process; its kernel and noise | {cells(known, ["draw"])} |
| the same; nothing, and the width is fitted (`refit="doubling"`) | {cells(fitted, ["draw"])} |
| the same; nothing, and the kernel keeps the median width | {cells(nothing, ["draw"])} |
| {", ".join(real)}; kernel and noise by likelihood | {cells(known, real)} |

If the kernel is right, the default covers about what two standard deviations promise for each arm, but rarely all arms at once. For functions of norm 2, and with `norm=2`, the theorem's width covered all arms at all rounds in
{assumed["runs"] * assumed["GPUCB"]["whole"]:.0f} of {assumed["runs"]} runs, where it promises 90%; it was {assumed["GPUCB"]["beta"]:.0f} standard deviations in the mean. If the kernel is wrong, as the median width is for these draws (.51 in place of .2), neither says how far f may be. On tables a part of the target follows no kernel.
"""
