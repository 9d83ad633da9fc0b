"""The summary of the section ``searches``, its parts of benchmarks/README.md and docs/bandits.md, and its picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.searches_functions import FIRST_SEED, PARTS, TUNED, UNSEEN, WIDE
from benchmarks.searches_methods import METHODS

CHEAP = ("squeak", "random", "TPE", "CMA-ES")
"""Methods that can be run on more seeds."""

Records = dict[tuple[str, str, int, int], dict[str, Any]]


def curve(record: dict[str, Any]) -> np.ndarray:
    """Return the regret after each trial; the line holds the trials at which it changed."""
    at, values = zip(*record["regret"], strict=True)
    return np.repeat(values, np.diff([*at, record["trials"]]))


def shared(found: Records, methods: Iterable[str], names: Iterable[str], trials: int) -> list[tuple[str, int]]:
    """Return the functions and seeds on which all of the methods have been run."""
    seeds = sorted({seed for _, _, seed, _ in found})
    methods = list(methods)
    return [(n, s) for n in names for s in seeds if methods and all((n, m, s, trials) in found for m in methods)]


def ranks(found: Records, methods: list[str], names: Iterable[str], trials: int) -> dict[str, Any]:
    """Return the mean rank of each method by the last regret, on what they share; equal ones share a rank."""
    places = shared(found, methods, names, trials)
    last = np.array([[found[n, m, s, trials]["regret"][-1][1] for n, s in places] for m in methods])
    less = (last[None] < last[:, None]).sum(axis=1)
    same = (last[None] == last[:, None]).sum(axis=1)
    mean = (less + (same + 1) / 2).mean(axis=1) if places else []
    return {"searches": len(places), "mean": dict(zip(methods, map(float, mean), strict=False))}


def pair(found: Records, method: str, names: Iterable[str]) -> dict[str, float]:
    """Return how many searches squeak and a method share, and in how many of them squeak ends better; equal: half."""
    last = [
        (found[name, "squeak", seed, trials]["regret"][-1][1], record["regret"][-1][1])
        for (name, other, seed, trials), record in found.items()
        if other == method and name in names and (name, "squeak", seed, trials) in found
    ]
    return {"searches": len(last), "better": sum((a < b) + 0.5 * (a == b) for a, b in last)}


def wide(found: Records, name: str) -> dict[str, Any]:
    """Return the regrets of each method in a box of which few sides matter, and the milliseconds of a step."""
    each = {m: [r for key, r in found.items() if key[:2] == (name, m)] for m in METHODS}
    return {
        m: {"regrets": [r["regret"][-1][1] for r in records], "ms": float(np.median([r["ms"] for r in records]))}
        for m, records in each.items()
        if records
    }


def wide_words(found: dict[str, Any]) -> str:
    """Return a table of the boxes of which few sides matter; empty where they were not measured."""
    each = {name: methods for name, methods in found.get("wide", {}).items() if methods}
    if not each:
        return ""
    methods = [m for m in METHODS if all(m in found for found in each.values())]
    lines = []
    for method in methods:
        cells = [
            f"{np.median(found[method]['regrets']):.3g} ({min(found[method]['regrets']):.3g} to "
            f"{max(found[method]['regrets']):.3g}) | {found[method]['ms']:.0f}"
            for found in each.values()
        ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    seeds = {len(entry["regrets"]) for found in each.values() for entry in found.values()}
    places = []
    for name, there in each.items():
        medians = [float(np.median(there[m]["regrets"])) for m in methods]
        places.append(f"{1 + sum(value < medians[0] for value in medians)} of {len(methods)} on {name}")
    head = " | ".join(f"{name}: regret | ms per step" for name in each)
    return f"""
Boxes of 50 and 100 sides of which 6 and 4 matter, which ones the seed says; they played no part in any choice. The regret after {found["trials"]} trials is the median of {min(seeds)} seeds, with the least and the largest; by the median {methods[0]} has place {" and ".join(places)}:

| method | {head} |
|---|{"---|" * (2 * len(each))}
{chr(10).join(lines)}
"""


def summary(found: Records, trials: int) -> dict[str, Any]:
    """Return mean ranks, median regrets on the seeds that all methods share, and the milliseconds of a step.

    A method that was not run on every function with two seeds has no rank, and no part in what is shared.
    """
    ours = {key: r for key, r in found.items() if key[3] == trials}
    known = [m for m in METHODS if any(key[1] == m for key in ours)]
    runs = Counter((key[1], key[0]) for key in ours)
    methods = [m for m in known if all(runs[m, name] >= 2 for name in TUNED | UNSEEN)]
    cheap = [m for m in methods if m in CHEAP]
    result: dict[str, Any] = {
        "trials": trials,
        "versions": {m: next(r["with"] for key, r in reversed(ours.items()) if key[1] == m) for m in known},
        "ranks": {part: ranks(ours, methods, names, trials) for part, names in PARTS.items()},
        "pairs": {m: {part: pair(ours, m, names) for part, names in PARTS.items()} for m in known if m != "squeak"},
        "cheap_ranks": {part: ranks(ours, cheap, names, trials) for part, names in PARTS.items()},
        "functions": {},
        "wide": {name: wide(ours, name) for name in WIDE},
    }
    for name in TUNED | UNSEEN:
        same = [seed for _, seed in shared(ours, methods, [name], trials)]
        each = {m: [r for key, r in ours.items() if key[:2] == (name, m)] for m in known}
        result["functions"][name] = {
            m: {
                "seeds": len(records),
                "shared": float(np.median([r["regret"][-1][1] for r in records if r["seed"] in same] or [np.nan])),
                "median": float(np.median([r["regret"][-1][1] for r in records])),
                "worst": max(r["regret"][-1][1] for r in records),
                "ms": float(np.median([r["ms"] for r in records])),
                "curve": [
                    float(f"{v:.4g}")
                    for v in np.median([curve(r) for r in records if r["seed"] in same or not same], axis=0)
                ],
            }
            for m, records in each.items()
            if records
        }
    return result


def ranks_table(found: dict[str, Any]) -> str:
    """Return mean ranks, comparisons with squeak and the time of a step, one line for each method."""
    parts = [found["ranks"][part]["mean"] for part in ("tuned", "unseen")]
    lines = []
    for method in sorted(found["versions"], key=lambda name: parts[1].get(name, np.inf)):
        ms = [each[method]["ms"] for each in found["functions"].values() if method in each]
        cells = [f"{ranks[method]:.2f}" if method in ranks else "–" for ranks in parts]
        for part in ("tuned", "unseen"):
            pair = found["pairs"].get(method, {}).get(part, {"searches": 0})
            cells.append(f"{pair['better']:g} of {pair['searches']}" if pair["searches"] else "")
        lines.append(
            f"| {method} | {found['versions'][method]} | {' | '.join(cells)} | {np.median(ms):.0f} ({min(ms):.0f} to {max(ms):.0f}) |"
        )
    head = "| method | version | mean rank, functions of the choices | functions kept apart | squeak ends better, functions of the choices | functions kept apart | ms per step |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *lines])


def searches_part(found: dict[str, Any]) -> str:
    """Return what docs/bandits.md says of the comparison; empty where it has not been measured."""
    if not found:
        return ""
    ranks = found["ranks"]
    return f"""
{ranks_table(found)}

Ranks are by the regret after {found["trials"]} trials: 1 is the best, and there are {len(ranks["unseen"]["mean"])} methods. They are means over functions and seeds that all methods were run on: {ranks["tuned"]["searches"]} searches of functions on
which our defaults were chosen (with other seeds), and {ranks["unseen"]["searches"]} of functions that played no part. A method without a rank was not run on all functions with at least two seeds. "squeak ends better" counts the searches that both methods have. Times are processor time of one thread, the median over functions with the smallest and largest. All regrets are in the
[benchmarks](../benchmarks/README.md).

![Regret after each trial](images/bench_searches.png)
{wide_words(found)}{long_words(found)}"""


def long_words(found: dict[str, Any]) -> str:
    """Return what a long search took; empty where it was not measured."""
    if "long" not in found:
        return ""
    far = found["long"]
    ms, mb = (", ".join(f"{value:.0f}" for value in far[name]) for name in ("ms", "mb"))
    return f"""
`BoxUCB` on Ackley-5 with {far["workers"]} points pending at any time, {far["evaluations"]:,} evaluations: in each tenth of them, a step (tell one value, ask for one point) takes {ms} milliseconds of processor time, and at its end the memory is {mb} MB above that at the start.
"""


def searches_page(found: dict[str, Any]) -> str:
    """Return the part of benchmarks/README.md."""
    methods = list(found["ranks"]["unseen"]["mean"])
    lines = []
    for name, each in found["functions"].items():
        best = min(each[m]["shared"] for m in methods)
        cells = [
            f"{'**' * (each[m]['shared'] == best)}{each[m]['shared']:.3g}{'**' * (each[m]['shared'] == best)}"
            for m in methods
        ]
        lines.append(f"| {name} | {'yes' if name in TUNED else 'no'} | " + " | ".join(cells) + " |")
    seeds = {m: [each[m]["seeds"] for each in found["functions"].values() if m in each] for m in found["versions"]}
    more, few = found["cheap_ranks"], found["ranks"]
    others = ""
    if more["unseen"]["searches"] > few["unseen"]["searches"]:
        words = ", ".join(
            f"{m} {more['tuned']['mean'][m]:.2f} and {more['unseen']['mean'][m]:.2f}"
            for m in more["unseen"]["mean"]
        )
        others = (
            f" {', '.join(CHEAP)} have {more['tuned']['searches']} and {more['unseen']['searches']} searches in common. "
            f"Their mean ranks there, among themselves, on functions of the choices and on those kept apart, are: {words}."
        )
    text = f"""## searches: boxes against other optimisers

Each search has {found["trials"]} trials; seeds are from {FIRST_SEED} on. The regret is the best value seen (judged with its noise, counted without it) less the minimum; of the two learners it is the error itself. Peers run with their own defaults: Optuna's samplers by
ask and tell, BoTorch with a `SingleTaskGP` and `LogExpectedImprovement` (five restarts, 256 raw samples; not its `MixedSingleTaskGP`), bayes_opt after five random points (both see categories and whole numbers as numbers that are rounded), SMAC3 as `HyperparameterOptimizationFacade`. All run on one thread.

{ranks_table(found)}

Ranks are means over the functions and seeds that all of these methods were run on: {found["ranks"]["tuned"]["searches"]} searches of the functions on which our defaults were chosen, with other seeds, and {found["ranks"]["unseen"]["searches"]} of those that played no part in any choice. A method that was not run on every function with at least two seeds has no rank. "squeak ends better" counts the searches that both have.{others}

The median regret after the last trial, on the seeds that all methods share:

| function | defaults chosen on it | {" | ".join(methods)} |
|---|---|{"---|" * len(methods)}
{chr(10).join(lines)}

Searches of each method and function: {", ".join(f"{m} {min(n)}{f' to {max(n)}' * (max(n) > min(n))}" for m, n in seeds.items())}.

The picture has the medians over the same seeds.

![Regret after each trial](../docs/images/bench_searches.png)
"""
    if "fronts" in found:
        areas = "; ".join(f"{name} {np.mean(values):.3f}" for name, values in found["fronts"].items())
        text += (
            f"\nTwo objectives, the area that the front dominates (larger is better), mean over seeds: {areas}.\n"
        )
    return text + wide_words(found) + long_words(found)


def draw_searches(found: dict[str, Any], path: Any) -> None:
    """Draw the median regret of each method after each trial, one panel for each function."""
    import matplotlib.pyplot as plt

    if not found:
        return
    figure, axes = plt.subplots(3, 4, figsize=(14, 8.5))
    for axis, (name, each) in zip(axes.flat, found["functions"].items(), strict=True):
        for color, method in enumerate(METHODS):
            if method in found["ranks"]["unseen"]["mean"]:
                style = {"lw": 2.2, "color": "k"} if method == "squeak" else {"lw": 1.2, "color": f"C{color}"}
                curve = each[method]["curve"]
                axis.plot(range(1, len(curve) + 1), curve, label=method, **style)
        axis.set(yscale="log", title=f"{name}{'' if name in TUNED else ' (kept apart)'}")
        axis.title.set_fontsize(9)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("trial", fontsize=8)
    for axis in axes[:, 0]:
        axis.set_ylabel("median regret", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)
