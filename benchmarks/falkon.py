"""FALKON on float32 kernel values beside scikit-learn's Nystroem + Ridge, our own direct solver, and their floor.

Same centres for both of ours, as many uniform ones for scikit-learn's; same width, alpha and split. The floor is
one kernel pass in float32 and one read of the values for each pass; ``tenth`` is the processor time with a tenth of
the memory for kernel values, as a multiple of that with all of them.

``python -m benchmarks falkon`` measures all but the large part, in about ten minutes; ``--parts large`` fits two
million rows on 4,000 atoms twice, which needs 18 GB and takes some minutes more. scikit-learn needs 18 GB at 4,000
centres, and is left out where they are not free. Results of parts are kept until they are measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import DATA, RESULTS, PeakMemory, save
from benchmarks.large import ALPHA, make, truth
from benchmarks.learners import load, timed

PARTS = ("nycflights-1000", "nycflights-2000", "nycflights-4000", "covtype-1000", "large")
LARGE_ATOMS, LARGE_BYTES = 4_000, 16 * 2**30
THEIR_COPIES = 2.2
"""Arrays of n × m numbers in float64 that scikit-learn's pipeline holds at its peak."""


def floor(X: Any, atoms: Any, width: float, passes: int) -> dict[str, float]:
    """Return the seconds of a kernel pass in float32 and of so many reads of the values, on all cores."""
    from squeak.core import engine
    from squeak.core.kernels import against32
    from squeak.kernels import RBF

    values_of, tiles = against32(RBF(width), atoms), engine.tiles(len(X), max(64, 2**19 // len(atoms)))
    K = np.empty((len(X), len(atoms)), dtype=np.float32)
    v = np.ones(len(atoms), dtype=np.float32)
    kernel, _ = timed(lambda: engine.map_ordered(lambda tile: values_of(X[tile], K[tile]), tiles))
    read, _ = timed(lambda: engine.map_ordered(lambda tile: K[tile] @ v, tiles))
    return {"kernel": kernel, "read": read, "all": kernel + passes * read}


def touch(size: int) -> None:
    """Write to so many bytes once: a virtual machine fetches pages at first use, which is no method's time."""
    np.ones(size // 8)


def one_size(name: str, m: int, repeats: int) -> dict[str, Any]:
    """Return seconds (wall and processor), ratios and test errors for one data set and one number of centres."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    from squeak import KernelRidge
    from squeak.kernels import RBF
    from squeak.learners.cached import free_memory

    X, y, X_test, y_test = load(name)
    width = float(np.sqrt(X.shape[1]))
    atoms = X[np.random.default_rng(1).permutation(len(X))[:m]]

    def ours(solver: str, budget: float | None = None) -> Any:
        return KernelRidge(
            RBF(width), alpha=1.0, dictionary=atoms, solver=solver, memory_budget=budget, random_state=0
        )

    models = {
        "kept": lambda: ours("auto"),
        "tenth": lambda: ours("kept", 0.4 * len(X) * m),
        "direct": lambda: ours("direct"),
        "theirs": lambda: make_pipeline(
            Nystroem(gamma=1 / (2 * width**2), n_components=m, random_state=0),
            Ridge(alpha=1.0, fit_intercept=False, copy_X=False),
        ),
    }
    touch(8 * len(X) * m)
    if THEIR_COPIES * 8 * len(X) * m > free_memory():
        print(f"  {name}, {m:,} centres: scikit-learn would need more memory than is free", flush=True)
        del models["theirs"]
    times: dict[str, list[float]] = {}
    found: dict[str, Any] = {"data": name, "rows": len(X), "columns": X.shape[1], "centres": m, "errors": {}}
    for repeat in range(repeats if m < 4_000 else 1):
        for key, new in models.items():
            if repeat and key != "kept":
                continue  # minutes
            before = os.times()
            seconds, model = timed(lambda new=new: new().fit(X, y))
            user, system = (after - start for after, start in zip(os.times()[:2], before[:2], strict=True))
            times.setdefault(f"{key} fit", []).append(seconds)
            times.setdefault(f"{key} processor", []).append(user + system)
            times.setdefault(f"{key} system", []).append(system)
            seconds, predicted = timed(lambda model=model: model.predict(X_test))
            times.setdefault(f"{key} predict", []).append(seconds)
            found["errors"][key] = float(np.mean((predicted - y_test) ** 2))
            if key == "tenth":
                found["tenth"] = {"solver": model.solver_, "reason": model.solver_reason_, "passes": model.n_iter_}
            if key == "kept":
                found |= {"solver": model.solver_, "reason": model.solver_reason_, "passes": model.n_iter_}
                found["condition"] = model.condition_
            del model
    found["floor"] = floor(X, atoms, width, found["passes"])
    seconds = found["seconds"] = {key: float(np.median(values)) for key, values in times.items()}
    found["spread"] = {key: [min(values), max(values)] for key, values in times.items() if len(values) > 1}
    found["speed"] = {
        "direct": seconds["direct fit"] / seconds["kept fit"],
        "direct, processor": seconds["direct processor"] / seconds["kept processor"],
        "over_floor": seconds["kept fit"] / found["floor"]["all"],
        "tenth, processor": seconds["tenth processor"] / seconds["kept processor"],
    }
    if "theirs" in models:
        found["speed"]["theirs"] = seconds["theirs fit"] / seconds["kept fit"]
        found["speed"]["theirs, user"] = user_seconds(seconds, "theirs") / user_seconds(seconds, "kept")
        found["speed"]["predict"] = seconds["theirs predict"] / seconds["kept predict"]
    print(
        f"  {name}, {len(X):,} × {X.shape[1]}, {m:,} centres, {found['solver']}: "
        + ", ".join(f"{key} {value:.2f} s" for key, value in seconds.items())
        + f"; floor {found['floor']['all']:.2f} s; "
        + ", ".join(f"{key} {value:.2f}×" for key, value in found["speed"].items())
        + f"; {found['passes']} passes; errors {found['errors']}; {found['reason']}",
        flush=True,
    )
    return found


def user_seconds(seconds: dict[str, float], key: str) -> float:
    """Return the processor time of a fit without the system's part, most of which goes into pages of new memory."""
    return seconds[f"{key} processor"] - seconds[f"{key} system"]


def large_one(folder: str, budget: float) -> None:
    """Fit two million rows in this fresh process, and print seconds, memory, passes and the error."""
    from squeak import KernelRidge
    from squeak.kernels import RBF
    from squeak.samplers import Uniform

    X, y = np.load(f"{folder}/X.npy"), np.load(f"{folder}/y.npy")
    rows = np.sort(np.random.default_rng(1).choice(len(X), 20_000, replace=False))
    test = np.asarray(X[rows], dtype=np.float64)
    sampler = Uniform(max_atoms=LARGE_ATOMS, random_state=0)
    model = KernelRidge(RBF(3.0), alpha=ALPHA, sampler=sampler, memory_budget=budget, random_state=0)
    used = time.process_time()
    with PeakMemory() as memory:
        seconds, _ = timed(lambda: model.fit(X, y))
    used = time.process_time() - used
    error = float(np.mean((model.predict(test) - truth(test)) ** 2))
    found = {
        "seconds": seconds,
        "processor": used,
        "peak_gb": memory.peak / 1e9,
        "error": error,
        "passes": model.n_iter_,
    }
    print(json.dumps(found | {"solver": model.solver_, "reason": model.solver_reason_, "budget_gb": budget / 1e9}))


def large() -> dict[str, Any]:
    """Return two fits of two million rows, one with a tenth of the other's memory for kernel values."""
    found: dict[str, Any] = {"atoms": LARGE_ATOMS}
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        for name, budget in (("whole", LARGE_BYTES), ("tenth", LARGE_BYTES / 10)):
            code = f"from benchmarks.falkon import large_one; large_one({folder!r}, {budget!r})"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr)
            found[name] = json.loads(done.stdout.splitlines()[-1])
            print(f"  two million rows, {name}: {found[name]}", flush=True)
    found["slower"] = found["tenth"]["processor"] / found["whole"]["processor"]
    print(f"  a tenth of the memory: {found['slower']:.2f} times the processor time", flush=True)
    return found


def run(options: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks falkon")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS[:-1]))
    parser.add_argument(
        "--repeats", type=int, default=3, help="fits of the fast solver; the others are fitted once"
    )
    asked = parser.parse_args(list(options))
    if not DATA.is_dir():
        print("  skipped: the data sets are not here; SQUEAK_DATA names their folder")
        return
    path = RESULTS / "falkon.json"
    parts: dict[str, Any] = json.loads(path.read_text())["parts"] if path.exists() else {}
    for part in asked.parts:
        name, _, size = part.partition("-")
        parts[part] = one_size(name, int(size), asked.repeats) if size else large()
        save("falkon", {"parts": {key: parts[key] for key in PARTS if key in parts}})
