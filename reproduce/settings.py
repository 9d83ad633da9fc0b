"""Which unreported settings bring the thesis' tables 5.1 and 5.2 nearest? A stated grid, searched on the streams themselves.

Reported are columns and targets in [0, 1], the RBF of "bandwidth 8", α = γ, β = 1, ε = ½, J_max = 100 and 15 runs. Not
reported are what the bandwidth means, C (the bound of predictions), η or the curvature, the place of the targets' zero,
the factor ½ of the squared loss (which is the same as twice the α), the order of rows, and, for labels, the loss: hinge has no
curvature. Sizes are compared first, because they depend on scaling, bandwidth and β(1 ± ε) alone.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from reproduce.streams import labels, regression
from reproduce.table_5_1 import PUBLISHED
from reproduce.table_5_2 import PUBLISHED as PUBLISHED_LABELS
from squeak import Kors
from squeak.kernels import RBF
from squeak.online import (
    BudgetKonsClassifier,
    ConKonsClassifier,
    ConKonsRegressor,
    DualSGDClassifier,
    NOGDRegressor,
    ProsNKonsRegressor,
    progressive_validation,
)

SCALINGS = {
    "[0, 1]": lambda X: X,
    "[−1, 1]": lambda X: 2 * X - 1,
    "standard": lambda X: (X - X.mean(axis=0)) / X.std(axis=0),
    "[0, 1], longest row 1": lambda X: X / np.linalg.norm(X, axis=1).max(),
}
WIDTHS = {"exp(−d²/(2·8²))": 8.0, "exp(−d²/8²)": 8 / 2**0.5, "exp(−d²/(4·8))": 4.0, "exp(−d²/8)": 2.0}
SHIFTS = {
    "[0, 1], C = 1": (0.0, 1.0),
    "[0, 1], C = 2": (0.0, 2.0),
    "[−½, ½], C = ½": (0.5, 0.5),
    "[−½, ½], C = 1": (0.5, 1.0),
}
RULES = {
    "worst, η = σ/2": ("worst", 0.5),
    "worst, η = σ": ("worst", 1.0),
    "own, η = σ/2": ("adaptive", 0.5),
    "own, η = σ": ("adaptive", 1.0),
}
ALPHAS = (0.5, 1.0, 2.0)
SEARCHED = ("parkinson", "cpusmall", "cadata")
PART = 30_000


def away(found: float, published: float) -> float:
    return abs(float(np.log(found / published)))


def sizes() -> list[dict[str, Any]]:
    """Return the number of atoms for every scaling, meaning of the width and oversampling, and how far they are off."""
    rows = []
    for (scaling, scale), (meaning, width), beta in product(SCALINGS.items(), WIDTHS.items(), (0.5, 1.0, 1.5)):
        if scaling == "standard" and width < 5:
            continue
        atoms = []
        for name in PUBLISHED:
            X, _ = regression(name)
            X = scale(X)[np.random.default_rng(0).permutation(len(X))]
            atoms.append(len(Kors(RBF(width), ridge=1.0, oversampling=beta, random_state=0).fit(X).dictionary_))
        off = np.mean([away(a, PUBLISHED[n]["PROS-N-KONS"][1] or 1) for a, n in zip(atoms, PUBLISHED, strict=True)])
        rows.append({"scaling": scaling, "width": meaning, "oversampling": beta, "atoms": atoms, "off": float(off)})
    return sorted(rows, key=lambda row: row["off"])


def losses(
    name: str, width: float, shift: str, rule: str, alpha: float, order: str = "shuffled", seed: int = 0
) -> dict[str, float]:
    """Return the progressive losses of PROS-N-KONS and CON-KONS with some settings."""
    X, y = regression(name)
    offset, bound = SHIFTS[shift]
    place = np.random.default_rng(seed).permutation(len(y)) if order == "shuffled" else np.arange(len(y))
    curvature, step = RULES[rule]
    options = {
        "kernel": RBF(width),
        "bound": bound,
        "curvature": curvature,
        "step": step,
        "alpha": alpha,
        "random_state": seed,
    }
    return {
        method: progressive_validation(cls.from_paper(**options), X[place], y[place] - offset).mean_loss
        for method, cls in {"PROS-N-KONS": ProsNKonsRegressor, "CON-KONS": ConKonsRegressor}.items()
    }


def search() -> list[dict[str, Any]]:
    """Return all combinations on three of the streams, the nearest to the published losses first."""
    rows = []
    for width, shift, rule, alpha in product((8.0, 8 / 2**0.5), SHIFTS, RULES, ALPHAS):
        found = {name: losses(name, width, shift, rule, alpha) for name in SEARCHED}
        off = [away(loss, PUBLISHED[name][m][0]) for name, both in found.items() for m, loss in both.items()]
        rows.append(
            {
                "width": width,
                "shift": shift,
                "rule": rule,
                "alpha": alpha,
                "off": float(np.mean(off)),
                "found": found,
            }
        )
    rows.sort(key=lambda row: row["off"])
    for row in rows[:5]:
        print(
            f"  {row['width']:.2f}, {row['shift']}, {row['rule']}, α = {row['alpha']:g}: {row['off']:.3f}",
            flush=True,
        )
    return rows


def checked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the nearest settings, and those of the reproduction, on all four streams in both orders, three shuffles."""
    kept = []
    usual = {"width": 8.0, "shift": "[0, 1], C = 1", "rule": "worst, η = σ/2", "alpha": 1.0}
    for row in [usual, *rows[:2]]:
        settings = {key: row[key] for key in usual}
        for order in ("shuffled", "as in the file"):
            runs = range(3 if order == "shuffled" else 1)
            found = {}
            for name in PUBLISHED:
                every = [losses(name, **settings, order=order, seed=seed) for seed in runs]
                found[name] = {m: float(np.mean([e[m] for e in every])) for m in every[0]}
            off = [away(loss, PUBLISHED[n][m][0]) for n, both in found.items() for m, loss in both.items()]
            kept.append({**settings, "order": order, "found": found, "off": float(np.mean(off))})
            print(f"  {settings}, {order}: {kept[-1]['off']:.3f}", flush=True)
    return kept


def nogd() -> list[dict[str, Any]]:
    """Return NOGD's losses on two streams over step, rank and tube."""
    rows = []
    for step, rank, tube in product((0.05, 0.1, 0.2, 0.5), (6, 30), (0.0, 0.1)):
        found = {}
        for name in ("cpusmall", "parkinson"):
            X, y = regression(name)
            order = np.random.default_rng(0).permutation(len(y))
            model = NOGDRegressor(RBF(8.0), max_atoms=30, rank=rank, step=step, schedule="constant", tube=tube)
            found[name] = progressive_validation(model, X[order], y[order]).mean_loss
        off = np.mean([away(loss, PUBLISHED[n]["NOGD"][0]) for n, loss in found.items()])
        rows.append({"step": step, "rank": rank, "tube": tube, "found": found, "off": float(off)})
    return sorted(rows, key=lambda row: row["off"])


def classification() -> dict[str, Any]:
    """Return errors on a part of ijcnn1 over scaling, loss, C and curvature at α = γ = 0.01, and the nearest on all rows."""
    data = labels("ijcnn1")
    if data is None:
        return {}
    X, y = data
    low, high = X.min(axis=0), X.max(axis=0)
    scaled = {"as they are": X, "[0, 1]": (X - low) / np.where(high > low, high - low, 1.0)}
    order = np.random.default_rng(0).permutation(len(y))
    target = PUBLISHED_LABELS["0.01"]

    def both(columns: str, loss: str, bound: float, rule: str, n: int) -> dict[str, Any]:
        curvature, step = RULES[rule]
        options = {"loss": loss, "bound": bound, "curvature": curvature, "step": step, "random_state": 0}
        found: dict[str, Any] = {}
        for method, cls in {"B-KONS": BudgetKonsClassifier, "CON-KONS": ConKonsClassifier}.items():
            model = cls.from_paper(alpha=0.01, ridge=0.01, **options)
            found[method] = 100 * progressive_validation(model, scaled[columns][order[:n]], y[order[:n]]).mean_loss
            found[f"{method}, atoms"] = int(model.n_atoms_)
        found["off"] = float(np.mean([away(found[m], target[m][0]) for m in ("B-KONS", "CON-KONS")]))
        return {"columns": columns, "loss": loss, "bound": bound, "rule": rule, **found}

    rows = [
        both(*setting, PART)
        for setting in product(
            scaled, ("squared_hinge", "hinge", "logistic"), (1.0, 3.0, 10.0), ("worst, η = σ/2", "own, η = σ")
        )
        if setting[0] == "as they are" or setting[2] == 1.0
    ]
    rows.sort(key=lambda row: row["off"])
    whole = []
    for row in rows[:3]:
        whole.append(both(row["columns"], row["loss"], row["bound"], row["rule"], len(y)))
        print(f"  {whole[-1]}", flush=True)
    dual = []
    for width, step in product((8.0, 2.0, 1.0), (0.4, 1.0)):
        model = DualSGDClassifier(
            RBF(width), n_features=400, max_atoms=100, step=step, schedule="constant", random_state=0
        )
        dual.append([width, step, 100 * progressive_validation(model, X[order[:PART]], y[order[:PART]]).mean_loss])
    return {"part": rows, "whole": whole, "dual": dual}


def run() -> dict[str, Any]:
    if any(regression(name) is None for name in PUBLISHED):
        print("  the streams are not at hand: set SQUEAK_DATA")
        return {}
    found: dict[str, Any] = {"sizes": sizes()[:8]}
    rows = search()
    found |= {
        "combinations": len(rows),
        "search": rows[:6],
        "usual": next(
            r
            for r in rows
            if r["width"] == 8
            and r["shift"] == "[0, 1], C = 1"
            and r["rule"] == "worst, η = σ/2"
            and r["alpha"] == 1
        ),
    }
    found["checked"] = checked(rows)
    found["nogd"] = nogd()
    found["labels"] = classification()
    return found


def page(found: dict[str, Any]) -> str:
    names = list(PUBLISHED)
    text = [
        "## The settings that the online tables do not report",
        "",
        "A search over what the thesis leaves open, for the whole tables at once. The distance is the mean of |log(here/published)|: 0.10 is about 10%.",
        "",
        "**Sizes** (published: "
        + ", ".join(f"{PUBLISHED[n]['PROS-N-KONS'][1]:.0f}" for n in names)
        + " for "
        + ", ".join(names)
        + "), which depend on the scaling of columns, the meaning of bandwidth 8 and the oversampling "
        "(β(1 − ε) = 0.5, β = 1, β(1 + ε) = 1.5) alone; 4 scalings × 4 meanings × 3, the nearest:",
        "",
        "| columns | kernel | oversampling | atoms | distance |",
        "|---|---|---|---|---|",
    ]
    text += [
        f"| {e['scaling']} | {e['width']} | {e['oversampling']:g} | {', '.join(map(str, e['atoms']))} | {e['off']:.2f} |"
        for e in found["sizes"][:5]
    ]
    text += [
        "",
        f"**Losses of PROS-N-KONS and CON-KONS** on {', '.join(SEARCHED)}, one shuffle: {found['combinations']} combinations of two widths (8 and 8/√2), four places of the targets and C ({'; '.join(SHIFTS)}), four rules for η (the worst case's "
        "curvature or the step's own, halved or not) and α of ½, 1 and 2, which stands for the factor of the loss as well. The nearest, and the one used for table 5.1 above:",
        "",
        "| width | targets and C | η | α | " + " | ".join(f"{n}: PROS, CON" for n in SEARCHED) + " | distance |",
        "|---|---|---|---|" + "---|" * (len(SEARCHED) + 1),
        "| published | | | | "
        + " | ".join(f"{PUBLISHED[n]['PROS-N-KONS'][0]:.4f}, {PUBLISHED[n]['CON-KONS'][0]:.4f}" for n in SEARCHED)
        + " | |",
    ]
    for e in [*found["search"][:4], found["usual"]]:
        cells = [f"{e['found'][n]['PROS-N-KONS']:.4f}, {e['found'][n]['CON-KONS']:.4f}" for n in SEARCHED]
        text.append(
            f"| {e['width']:.2f} | {e['shift']} | {e['rule']} | {e['alpha']:g} | "
            + " | ".join(cells)
            + f" | {e['off']:.2f} |"
        )
    text += [
        "",
        "**Checked** on all four streams: the settings of table 5.1 and the two nearest, three shuffles, and in the order of the files.",
        "",
        "| width, targets, η, α | order | " + " | ".join(f"{n}: PROS, CON" for n in names) + " | distance |",
        "|---|---|" + "---|" * (len(names) + 1),
    ]
    for e in found["checked"]:
        cells = [f"{e['found'][n]['PROS-N-KONS']:.4f}, {e['found'][n]['CON-KONS']:.4f}" for n in names]
        text.append(
            f"| {e['width']:.2f}, {e['shift']}, {e['rule']}, {e['alpha']:g} | {e['order']} | "
            + " | ".join(cells)
            + f" | {e['off']:.2f} |"
        )
    best = found["nogd"][0]
    text += [
        "",
        f"**NOGD** over four steps, rank 6 or 30, with or without the tube, on cpusmall and parkinson: the nearest is step {best['step']:g}, rank {best['rank']}, tube {best['tube']:g}: "
        + ", ".join(
            f"{n} {loss:.4f} (published {PUBLISHED[n]['NOGD'][0]:.4f})" for n, loss in best["found"].items()
        )
        + ".",
    ]
    if found["labels"]:
        text += [
            "",
            f"**Labels (ijcnn1, α = γ = 0.01)** on {PART:,} rows over columns, loss, C and η; the nearest three on all rows. Published: B-KONS 4.85% (100 atoms), CON-KONS 6.23% (432).",
            "",
            "| columns | loss | C | η | B-KONS | CON-KONS | distance |",
            "|---|---|---|---|---|---|---|",
        ]
        for e in found["labels"]["whole"]:
            text.append(
                f"| {e['columns']} | {e['loss']} | {e['bound']:g} | {e['rule']} | {e['B-KONS']:.2f}% ({e['B-KONS, atoms']}) | {e['CON-KONS']:.2f}% ({e['CON-KONS, atoms']}) | {e['off']:.2f} |"
            )
        width, step, error = min(found["labels"]["dual"], key=lambda d: abs(d[2] - 8.35))
        text += [
            "",
            f"DUAL-SGD on {PART:,} rows over three widths and two steps comes nearest to the published 8.35% with width {width:g} and step {step:g}: {error:.2f}%.",
        ]
    text += [
        "",
        "What this settles, and what stays open:",
        "",
        "- NOGD: its rows come from its authors, and a rank equal to the budget, a step of 0.1 and no tube give them within 2% on both streams, where the authors' own script (rank 6, tube 0.1) was up to 17% off.",
        "- B-KONS on ijcnn1: with C = 10 and the curvature of each step in place of the worst case's at C = 1, 4.87% for the published 4.85%. DUAL-SGD: a width of 2 in place of 8.",
        "- PROS-N-KONS in regression: η = σ in place of σ/2 and half the α halve the distance on cpusmall and cadata (+6% and +20% for +28% and +39%). Rows in the order of the files are excluded, and so are standardised columns.",
        "- Open: the published CON-KONS is only 2 to 9% below PROS-N-KONS on three streams and 1% above it on casp, and on ijcnn1 above B-KONS; here it is 12 to 44% below in the shuffled combinations shown. No setting that was tried brings the two that near, so that the thesis' CON-KONS probably differs in "
        "how it carries its state over. So is the size on cpusmall (20 published, 13 here): no scaling that gives it fits the other three.",
    ]
    return "\n".join(text) + "\n"
