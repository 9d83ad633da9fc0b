"""The thesis' table 5.1: average squared loss of online regression, on the four sets that are at hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from reproduce.streams import RUNS, regression, repeated
from squeak.kernels import RBF
from squeak.online import (
    Batch,
    BudgetKonsRegressor,
    ConKonsRegressor,
    FOGDRegressor,
    NOGDRegressor,
    ProsNKonsRegressor,
)

PUBLISHED: dict[str, dict[str, tuple[float, float | None]]] = {  # loss, size
    "parkinson": {
        "FOGD": (0.04909, 30),
        "NOGD": (0.04896, 30),
        "PROS-N-KONS": (0.05798, 18),
        "CON-KONS": (0.05696, 18),
        "B-KONS": (0.05795, 18),
        "BATCH": (0.04535, None),
    },
    "cpusmall": {
        "FOGD": (0.02577, 30),
        "NOGD": (0.02559, 30),
        "PROS-N-KONS": (0.02494, 20),
        "CON-KONS": (0.02269, 20),
        "B-KONS": (0.02496, 20),
        "BATCH": (0.01090, None),
    },
    "cadata": {
        "FOGD": (0.04097, 30),
        "NOGD": (0.03983, 30),
        "PROS-N-KONS": (0.03095, 20),
        "CON-KONS": (0.02850, 19),
        "B-KONS": (0.03095, 19),
        "BATCH": (0.02202, None),
    },
    "casp": {
        "FOGD": (0.08021, 30),
        "NOGD": (0.07844, 30),
        "PROS-N-KONS": (0.06773, 21),
        "CON-KONS": (0.06832, 20),
        "B-KONS": (0.06775, 21),
        "BATCH": (0.06100, None),
    },
}
FREQUENCIES = 450
MAKERS = {
    # the shipped scripts' η is for unnormalised features and the gradient without its factor 2
    "FOGD": lambda seed: FOGDRegressor(
        RBF(8.0),
        n_features=2 * FREQUENCIES,
        step=6e-4 * FREQUENCIES / 2,
        schedule="constant",
        tube=0.1,
        random_state=seed,
    ),
    "NOGD": lambda seed: NOGDRegressor(RBF(8.0), max_atoms=30, rank=6, step=0.05, schedule="constant", tube=0.1),
    "PROS-N-KONS": lambda seed: ProsNKonsRegressor.from_paper(random_state=seed),
    "CON-KONS": lambda seed: ConKonsRegressor.from_paper(random_state=seed),
    "B-KONS": lambda seed: BudgetKonsRegressor.from_paper(random_state=seed),
}
NEAR_RUNS = 5
NEAREST = {  # of what settings.py tried: picked by its closeness to the published losses
    "NOGD": lambda seed: NOGDRegressor(RBF(8.0), max_atoms=30, rank=30, step=0.1, schedule="constant"),
    "PROS-N-KONS": lambda seed: ProsNKonsRegressor.from_paper(alpha=0.5, step=1.0, random_state=seed),
    "CON-KONS": lambda seed: ConKonsRegressor.from_paper(alpha=0.5, step=1.0, random_state=seed),
}


def hindsight(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return Batch(model).fit(X, y).mean_loss_


def run(runs: int = RUNS) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name in PUBLISHED:
        data = regression(name)
        if data is None:
            print(f"  {name} is not at hand: set SQUEAK_DATA")
            continue
        X, y = data
        found = {}
        for method, make in MAKERS.items():
            after = hindsight if method == "PROS-N-KONS" else None
            found[method] = repeated(make, X, y, runs, after)
            print(
                f"  {name:<10} {method:<12} {found[method]['loss']:.5f} ({found[method]['atoms']:.0f})", flush=True
            )
        near = {method: repeated(make, X, y, min(runs, NEAR_RUNS)) for method, make in NEAREST.items()}
        print(f"  {name:<10} nearest: " + ", ".join(f"{m} {f['loss']:.5f}" for m, f in near.items()), flush=True)
        pros = found["PROS-N-KONS"]
        found["BATCH"] = {"loss": pros.pop("batch"), "spread": pros.pop("batch_spread"), "atoms": pros["atoms"]}
        found["ours"] = repeated(
            lambda seed: ConKonsRegressor(kernel=RBF("median"), scale=None, random_state=seed), X, y, runs
        )
        table[name] = {"rows": len(y), "columns": X.shape[1], "methods": found, "nearest": near}
    return {"runs": runs, "table": table} if table else {}


def page(found: dict[str, Any]) -> str:
    if not found:
        return ""
    text = [
        "## Online regression (thesis, table 5.1)",
        "",
        f"Progressive squared loss ± its spread over {found['runs']} shuffles (atoms), published and here. The thesis' protocol: columns and target in "
        "[0, 1], RBF of width 8, α = γ = 1, β = 1, ε = ½, J_max = 100; C = 1, η = σ/2 and fresh shuffles, which it does not report. FOGD and NOGD as in "
        "their authors' scripts (450 frequencies; budget 30, rank 6; no step within 0.1). parkinson's columns are the subject's number and all but "
        'motor_UPDRS, which would give the target away. "Nearest" has the settings that came nearest to the published losses among those tried '
        "[below](#the-settings-that-the-online-tables-do-not-report): η = σ and α = ½; NOGD with rank 30, step 0.1 and no tube. They were picked by that closeness on one shuffle of parkinson and "
        f"cpusmall, and of cadata for the two KONS; it is among the {NEAR_RUNS} shuffles of these rows. Agreement there confirms nothing; casp, and cadata for NOGD, played no part in the choice. The last row is `ConKonsRegressor()` with its own defaults, at most 100 atoms.",
        "",
        "| | "
        + " | ".join(f"{name} {facts['rows']:,} × {facts['columns']}" for name, facts in found["table"].items())
        + " |",
        "|---|" + "---|" * len(found["table"]),
    ]
    for method in [*MAKERS, "BATCH"]:
        for who in ("published", "here", "nearest")[: 3 if method in NEAREST else 2]:
            cells = []
            for name, facts in found["table"].items():
                loss, size = PUBLISHED[name][method]
                ours = facts["nearest" if who == "nearest" else "methods"][method]
                if who == "published":
                    cells.append(f".{round(loss * 1e5):05d}" + ("" if size is None else f" ({size:.0f})"))
                else:
                    atoms = "" if method in ("BATCH", "FOGD") else f" ({ours['atoms']:.0f})"
                    cells.append(
                        f"**.{round(ours['loss'] * 1e5):05d}** ± .{round(ours['spread'] * 1e5):05d}{atoms}"
                    )
            text.append(f"| {method}, {who} | " + " | ".join(cells) + " |")
    cells = []
    for facts in found["table"].values():
        ours = facts["methods"]["ours"]
        cells.append(
            f"**.{round(ours['loss'] * 1e5):05d}** ± .{round(ours['spread'] * 1e5):05d} ({ours['atoms']:.0f})"
        )
    text += ["| squeak's defaults | " + " | ".join(cells) + " |", "", *verdict(found)]
    return "\n".join(text)


def verdict(found: dict[str, Any]) -> list[str]:
    """Return a line for every method: by how much its loss and size differ from the published ones."""
    lines = []
    for method, which in [*product([*MAKERS, "BATCH"], ["methods"]), *product(NEAREST, ["nearest"])]:
        parts = []
        for name, facts in found["table"].items():
            ours, (loss, size) = facts[which][method], PUBLISHED[name][method]
            words = f"{name} {100 * (ours['loss'] / loss - 1):+.0f}%"
            if size is not None and method not in ("FOGD", "NOGD"):
                words += f" (atoms {ours['atoms'] - size:+.1f})"
            parts.append(words)
        words = "here" if which == "methods" else "nearest settings"
        lines.append(f"- {method}, {words} against published: " + ", ".join(parts) + ".")
    return lines
