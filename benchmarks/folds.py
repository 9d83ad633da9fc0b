"""What folds gain where rows are few: automatic models with one fold beside those with all, on parts of tables.

The parts are drawn from the tables on which settings may be chosen, and errors are those of up to 4,000 other rows.
One fold is the mean over three seeds. Processor time of one thread.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np

import squeak
from benchmarks.common import save
from benchmarks.tables_data import CHOSEN_ON, Split, here, load
from squeak.learners.fold import MOST_FOLDS

SIZES = (700, 2_000)
SEEDS = 3
NEW = 4_000


def part(name: str, n: int) -> Split | None:
    """Return so many rows of a table to learn from and others for the test; None where it has too few."""
    whole = load(name, 0)
    X, y = np.concatenate([whole.X, whole.X_test]), np.concatenate([whole.y, whole.y_test])
    order = np.random.default_rng(100).permutation(len(y))
    if n > 0.85 * len(y):
        return None
    some, new = order[:n], order[n : n + NEW]
    return Split(name, whole.classes, X[some], y[some], X[new], y[new])


def one(data: Split, folds: int | None, seed: int) -> dict[str, float]:
    """Return the error of a fit in so many folds, its log loss for classes, and its time."""
    from sklearn.metrics import log_loss

    start = time.process_time()
    cls = squeak.AutoClassifier if data.classes else squeak.AutoRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cls(folds=folds, random_state=seed).fit(data.X, data.y)
    found = {"seconds": time.process_time() - start}
    said = model.predict(data.X_test)
    if not data.classes:
        return found | {"error": float(np.sqrt(np.mean((said - data.y_test) ** 2)))}
    chances = model.predict_proba(data.X_test)
    known = np.isin(data.y_test, model.classes_)
    loss = log_loss(data.y_test[known], chances[known], labels=model.classes_)
    return found | {"error": float(np.mean(said != data.y_test)), "log_loss": float(loss)}


def noise(folds: int | None) -> list[float]:
    """Return the squared error over that of the mean, for 30 tables of 400 rows whose targets are pure noise."""
    found = []
    for seed in range(30):
        rng = np.random.default_rng(1000 + seed)
        X, y = rng.normal(size=(400, 4)), rng.normal(size=400)
        new, truth = rng.normal(size=(20_000, 4)), rng.normal(size=20_000)
        said = squeak.AutoRegressor(folds=folds, random_state=seed).fit(X, y).predict(new)
        found.append(float(np.mean((said - truth) ** 2) / np.mean((y.mean() - truth) ** 2)))
    return found


def coverage(folds: int | None, n: int) -> tuple[list[float], list[float]]:
    """Return coverages and mean widths of intervals of 90%, for 12 made tables whose noise has two sizes."""
    inside, width = [], []
    for seed in range(12):
        rng = np.random.default_rng(50 + seed)
        X = rng.normal(size=(n + 5_000, 6))
        y = np.sin(2 * X[:, 0]) + 0.7 * X[:, 1] * X[:, 2]
        y += (0.2 + 0.3 * (X[:, 3] > 0)) * rng.standard_normal(len(X))
        model = squeak.AutoRegressor(folds=folds, random_state=seed).fit(X[:n], y[:n])
        low, high = model.predict_interval(X[n:])
        inside.append(float(np.mean((low <= y[n:]) & (y[n:] <= high))))
        width.append(float(np.mean(high - low)))
    return inside, width


def run() -> None:
    os.environ["SQUEAK_NUM_THREADS"] = "1"
    records: list[dict[str, Any]] = []
    made = {
        "noise": [noise(folds) for folds in (1, None)],
        "coverage": {n: [coverage(folds, n) for folds in (1, None)] for n in (300, 600)},
    }
    for n in SIZES:
        for name in filter(here, CHOSEN_ON):
            data = part(name, n)
            if data is None:
                continue
            single = [one(data, 1, seed) for seed in range(SEEDS)]
            all_ = one(data, None, 0)
            record: dict[str, Any] = {"table": name, "rows": n}
            for what, value in all_.items():
                record[what] = [float(np.mean([each[what] for each in single])), value]
            records.append(record)
            save("folds", {"records": records, "folds": MOST_FOLDS, "made": made})
            print(
                f"  {name}, {n:,} rows: error {record['error'][1] / record['error'][0]:.3f} of one fold's",
                flush=True,
            )


def folds_page(found: dict[str, Any]) -> str:
    """Return the part of the page."""
    lines = [
        "## folds: several folds beside one, where rows are few",
        "",
        "Parts of the tables on which settings may be chosen, and up to 4,000 other rows of each for the test. Geometric means over the tables of what the default "
        f"(up to {found['folds']} folds) has, divided by what one fold has (mean of {SEEDS} seeds). The time is processor time of one thread.",
        "",
        "| rows | tables | error | smallest and largest ratio | log loss, tables of classes | time |",
        "|---|---|---|---|---|---|",
    ]
    for n in SIZES:
        rows = [record for record in found["records"] if record["rows"] == n]
        ratios = {
            what: [record[what][1] / record[what][0] for record in rows if what in record]
            for what in ("error", "log_loss", "seconds")
        }
        mean = {what: float(np.exp(np.mean(np.log(each)))) for what, each in ratios.items() if each}
        ends = f"{min(ratios['error']):.3f} to {max(ratios['error']):.3f}"
        lines.append(
            f"| {n:,} | {len(rows)} | **{mean['error']:.3f}** | {ends} | {mean['log_loss']:.3f} | {mean['seconds']:.1f} |"
        )
    one_, all_ = found["made"]["noise"]
    lines += [
        "",
        f"On 30 made tables of 400 rows whose targets are pure noise, the squared error is {np.mean(all_):.4f} times that of the mean on average and {max(all_):.3f} times at "
        f"most; with one fold it is {np.mean(one_):.4f} and {max(one_):.3f} times.",
        "",
        "| 12 made tables | coverage of intervals of 90%: mean | smallest and largest | mean width |",
        "|---|---|---|---|",
    ]
    for n, pair in found["made"]["coverage"].items():
        for words, (inside, width) in zip(("one fold", "the default"), pair, strict=True):
            lines.append(
                f"| {n} rows, {words} | {np.mean(inside):.1%} | {min(inside):.1%} to {max(inside):.1%} | {np.mean(width):.2f} |"
            )
    return "\n".join(lines) + "\n"
