"""Rows without end, made as they are read: dictionary, ridge in one pass and in two, online learner, predictions.

``python -m benchmarks scale --rows 1e6`` is the quick form, ``--rows 1e9`` the whole. Every stage runs in a process of
its own; a run takes the place of the one before with the same number of rows in ``results/scale.json``, from which
``docs/scale.md`` and its picture are written. ``--stages`` and ``--atoms`` bound a run; with ``--folder`` the model and
the rows on the disk stay for later stages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from benchmarks.common import RESULTS, anonymous_bytes, save

COLUMNS, ALPHA, ONLINE_ATOMS, SAMPLE, TEST = 8, 1.0, 50, 100_000, 20_000
STAGES = (
    "read",
    "dictionary",
    "dictionary, killed",
    "dictionary, Parquet",
    "ridge, one pass",
    "ridge, two passes",
    "ridge, two passes, killed",
    "online",
    "predict",
)
KILLS = 10
PARQUET_ROWS = 100_000_000
"""Rows that are written to the disk at most."""

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs" / "scale.md", ROOT / "docs" / "images" / "bench_scale.png"


def truth(X: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(X[:, 0]) * X[:, 1] / 3 + np.tanh(X[:, 2]))


class Make:
    """A mixture of 30 clusters with targets; takes note of when parts were asked for, and tells where asked to."""

    def __init__(self, noise: float = 0.3, told: bool = False) -> None:
        self.centres = 3 * np.random.default_rng(0).standard_normal((30, COLUMNS))
        self.noise, self.told, self.marks, self.rows = noise, told, [], 0

    def __call__(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        self.marks.append((time.perf_counter(), self.rows))
        self.rows += n
        if self.told:
            print(self.rows, flush=True)
        X = rng.standard_normal((n, COLUMNS))
        X += self.centres[rng.integers(0, 30, n)]
        return X, truth(X) + self.noise * rng.standard_normal(n)


class Timeline:
    """The anonymous memory of this process over time, in at most some thousand looks."""

    def __enter__(self) -> Timeline:
        self.looks: list[tuple[float, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        pause = 0.02
        while not self._stop.wait(pause):
            self.looks.append((time.perf_counter(), anonymous_bytes()))
            if len(self.looks) > 4_000:
                self.looks, pause = self.looks[::2], 2 * pause

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def source_of(rows: int, make: Make, folder: Path, parquet: bool = False) -> Any:
    import squeak

    if parquet:
        return squeak.rows(folder / "rows.parquet", target="y")
    return squeak.rows(squeak.GeneratedRows(make, rows, random_state=0), target=True)


def write_parquet(path: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for X, y in source_of(rows, Make(), path.parent):
        table = pa.table({**{f"x{j}": X[:, j] for j in range(COLUMNS)}, "y": y})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def kept_back() -> tuple[np.ndarray, np.ndarray]:
    """Return rows that no run learns from, and their targets without noise."""
    X, _ = Make(0.0)(np.random.default_rng(10**6), TEST)
    return X, truth(X)


def sampled_accuracy(d: Any, rows: int) -> float:
    """Return ε̂ within the span of the atoms, with sums over a sample of the rows in place of all."""
    from scipy.linalg import eigvalsh

    from squeak.core.nystrom import EigenFeatures
    from squeak.samplers.measured import second_moment

    X, _ = Make()(np.random.default_rng(10**6 + 1), SAMPLE)
    features = EigenFeatures(d.kernel, d.atoms)
    G, atoms = second_moment(features, X) * (rows / SAMPLE), features.block(d.atoms)
    ends = eigvalsh(G - atoms.T @ (d.weights[:, None] * atoms), G + d.ridge * np.eye(len(G)))
    return float(max(-ends[0], ends[-1]))


def bits_of(d: Any, *more: Any) -> str:
    """Return a hash of all that a dictionary holds of its rows, and of more arrays."""
    parts = d.atoms, d.indices, d.probabilities, d.counts, np.array([d.ridge, d.n_seen]), *more
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()


def stage_of(
    name: str, rows: int, atoms: int, folder: Path, make: Make
) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return what a stage does, and what is told of its result afterwards."""
    import squeak
    from squeak import KernelRidge, Squeak
    from squeak.kernels import RBF
    from squeak.online import ConKonsRegressor

    source = source_of(rows, make, folder, "Parquet" in name)
    kernel, (X, y) = RBF(5.0), kept_back()
    path, every = folder / f"{name}.ckpt", float(np.clip(rows / 2e7, 0.1, 30.0))

    def error(model: Any) -> dict[str, float]:
        return {"error": float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))}

    if name == "read":
        return lambda: sum(len(block) for block, _ in source), lambda found: {"rows_read": found}
    if name.startswith("dictionary"):
        made = Squeak(kernel, max_atoms=atoms, random_state=0)
        return lambda: made.fit(source, checkpoint=path, every=every).dictionary_, lambda d: {
            "accuracy": sampled_accuracy(d, d.n_seen),
            "atoms": len(d),
            "bits": bits_of(d),
        }
    if name.startswith("ridge"):
        model = KernelRidge(kernel, alpha=ALPHA, max_atoms=atoms, random_state=0)
        once = squeak.rows(iter(source), target=True) if "one" in name else source

        def told(fitted: Any) -> dict[str, Any]:
            fitted.save(folder / "model.sqk")
            return error(fitted) | {"bits": bits_of(fitted.dictionary_, fitted.dual_coef_)}

        kept = {"checkpoint": path, "every": every} if "killed" in name else {}
        return lambda: model.fit(once, **kept), told
    if name == "online":
        learner = ConKonsRegressor(kernel, max_atoms=ONLINE_ATOMS, random_state=0)

        def learned() -> Any:
            for _ in learner.test_then_train_blocks(source):
                pass
            return learner

        return learned, error

    fitted = squeak.load(folder / "model.sqk")

    def predicted() -> int:
        import pyarrow.parquet as pq

        answers, count = fitted.predict_arrow(source), 0
        with pq.ParquetWriter(folder / "predicted.parquet", answers.schema) as writer:
            for batch in answers:
                writer.write_batch(batch)
                count += batch.num_rows
        return count

    return predicted, lambda count: {"rows_written": count}


def one(name: str, rows: int, atoms: int, folder: str) -> None:
    """Run a stage in this fresh process, and print what was measured."""
    make = Make(told="killed" in name)
    work, told = stage_of(name, rows, atoms, Path(folder), make)
    make.marks, make.rows = [], 0
    with Timeline() as memory:
        start = time.perf_counter()
        found = work()
        seconds = time.perf_counter() - start
    passes = max(1, round(make.rows / rows))
    facts = {"stage": name, "rows": rows, "seconds": seconds, "rows_a_second": rows / seconds, "passes": passes}
    times = np.array([moment for moment, _ in make.marks]) - start
    steps = np.linspace(0.0, seconds, 21)
    if len(times) > 40:  # rows read by then, in each twentieth of the time
        read = np.interp(steps, times, [count for _, count in make.marks])
        facts["rates"] = (np.diff(read) / np.diff(steps)).tolist()
    looks = np.array([(moment - start, size) for moment, size in memory.looks])
    if len(looks):
        spans = [looks[(looks[:, 0] >= a) & (looks[:, 0] < b), 1] for a, b in pairwise(steps)]
        facts["memory_mb"] = [float(span.max() / 1e6) if len(span) else None for span in spans]
        late = looks[looks[:, 0] > 0.1 * seconds, 1]
        facts |= {"peak_mb": float(looks[:, 1].max() / 1e6)}
        facts["growth_mb"] = (
            float((late.max() - np.median(late[: max(1, len(late) // 9)])) / 1e6) if len(late) else None
        )
    facts["blas"] = sorted({str(library.get("architecture")) for library in threadpool_info()})
    print(json.dumps(facts | told(found)))


def in_process(name: str, rows: int, atoms: int, folder: str) -> dict[str, Any]:
    """Run a stage in a process of its own, and return what it measured.

    One that is to be killed is killed after numbers of rows drawn by a seed, which sum up to less than all, and is
    started again each time; it goes on from its checkpoint.
    """
    code = f"from benchmarks.scale import one; one({name!r}, {rows}, {atoms}, {folder!r})"
    lives: list[float] = [np.inf]
    if "killed" in name:
        whole = rows * (2 if "two passes" in name else 1)
        lives = [*np.diff(np.sort(np.random.default_rng(0).random(KILLS)) * whole, prepend=0.0), np.inf]
    start = time.perf_counter()
    for life in lives:
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=errors, text=True)
            assert child.stdout is not None
            last = ""
            for last in child.stdout:
                if last.strip().isdigit() and int(last) > life:
                    child.send_signal(signal.SIGKILL)
                    break
            child.stdout.close()
            errors.seek(0)
            if child.wait() != (0 if life == np.inf else -signal.SIGKILL):
                raise RuntimeError(errors.read())
    found: dict[str, Any] = json.loads(last)
    if "killed" in name:
        seconds = time.perf_counter() - start
        found |= {"kills": KILLS, "seconds": seconds, "rows_a_second": rows / seconds}
        for what in ("rates", "memory_mb", "growth_mb"):  # of the last life alone
            found.pop(what, None)
    return found


def run(options: list[str] | None = None) -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale")
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--atoms", type=int, default=500)
    stages = ",".join(STAGES).replace(", ", " ")
    parser.add_argument("--stages", default=stages, help="separated by commas; empty: only the page is written")
    parser.add_argument("--folder", help="where the model, the rows on the disk and predictions are kept")
    given = parser.parse_args(options or [])
    rows, wanted = int(given.rows), {stage.replace(",", "") for stage in given.stages.split(",")}
    known = json.loads((RESULTS / "scale.json").read_text())["runs"] if (RESULTS / "scale.json").exists() else []
    with tempfile.TemporaryDirectory() as passing:
        folder = given.folder or passing
        Path(folder).mkdir(parents=True, exist_ok=True)
        if "dictionary Parquet" in wanted:
            write_parquet(Path(folder) / "rows.parquet", min(rows, PARQUET_ROWS))
        for name in STAGES:
            if name.replace(",", "") not in wanted:
                continue
            for left in Path(folder).glob("*.ckpt"):
                left.unlink()  # of a run before
            n = min(rows, PARQUET_ROWS) if "Parquet" in name else rows
            found = in_process(name, n, given.atoms, folder) | {"asked": rows, "max_atoms": given.atoms}
            if "killed" in name:
                calm = name.removesuffix(", killed"), rows, given.atoms
                never = [old.get("bits") for old in known if _key(old) == calm]
                found["same_bits"] = never == [found["bits"]]
            known = [old for old in known if _key(old) != _key(found)] + [found]
            print(f"  {name}: {found['seconds']:.1f} s, {found['rows_a_second']:,.0f} rows a second", flush=True)
            save("scale", {"runs": known})
    write_page()


def _key(found: dict[str, Any]) -> tuple[str, int, int]:
    return found["stage"], found["asked"], found["max_atoms"]


def write_page() -> None:
    """Fill the table of the page from results alone, and draw its picture."""
    runs = json.loads((RESULTS / "scale.json").read_text())["runs"]
    order = {stage: place for place, stage in enumerate(STAGES)}
    lines = [
        "| rows | GB | stage | seconds | rows per second | slowest and fastest twentieth of the time, relative to the mean | peak memory | growth after a tenth | faults | result |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        line_of(found)
        for found in sorted(runs, key=lambda one: (one["rows"], order[one["stage"]], one["max_atoms"]))
    ]
    picture = "![Speed and memory over the time of the largest runs](images/bench_scale.png)"
    text = "\n" + "\n".join([*lines, "", picture]) + "\n"
    log = RESULTS / "chaos.jsonl"
    chaos = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    parts = {"measured": text} | ({"faults": f"\n{chaos_lines(chaos)}\n"} if chaos else {})  # else as it is
    page = PAGE.read_text()
    for mark, part in parts.items():
        page = re.sub(rf"(<!-- {mark} -->).*?(<!-- end -->)", rf"\g<1>{part}\g<2>", page, flags=re.DOTALL)
    PAGE.write_text(page)
    draw(runs)


def rates_of_last_pass(found: dict[str, Any]) -> np.ndarray | None:
    """Return the rows a second in the twentieths of a run that lie in its last pass: passes differ in what they do."""
    rates = found.get("rates")
    if rates is None:
        return None
    read = np.cumsum(rates) * found["seconds"] / len(rates)
    before = (found.get("passes", 1) - 1) * found["rows"]
    return np.asarray(rates)[int((read < before).sum()) + (before > 0) :]


def line_of(found: dict[str, Any]) -> str:
    """Return a row of the table."""
    rates = rates_of_last_pass(found)
    flat = "–" if rates is None else f"{min(rates) / np.mean(rates):.2f} to {max(rates) / np.mean(rates):.2f}"
    result = {
        "kills": lambda value: f"{'the same' if found['same_bits'] else 'OTHER'} bits",
        "accuracy": lambda value: f"ε̂ {value:.3f} on a sample, {found['atoms']} atoms",
        "error": lambda value: (
            f"error {value:.4f}, {ONLINE_ATOMS if found['stage'] == 'online' else found['max_atoms']} atoms"
        ),
        "rows_written": lambda value: f"{value:,} rows written",
    }
    told = next((words(found[key]) for key, words in result.items() if key in found), "–")
    growth = found.get("growth_mb")
    return (
        f"| {found['rows']:,} | {found['rows'] * (COLUMNS + 1) * 8 / 1e9:.3g} | {found['stage']} | {found['seconds']:.1f} | {found['rows_a_second']:,.0f} | {flat} | "
        f"{found.get('peak_mb', float('nan')):.0f} MB | {'–' if growth is None or 'kills' in found else f'{growth:.0f} MB'} | {found.get('kills', 0)} | {told} |"
    )


def chaos_lines(runs: list[dict[str, Any]]) -> str:
    """Return the table of injected faults."""
    lines = [
        "| fault | injected | same bits | clear error | hangs | runs | the longest |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in [*dict.fromkeys(run["kind"] for run in runs), "all"]:
        some = [run for run in runs if kind in (run["kind"], "all")]
        ends = [
            sum(run["faults"] for run in some if run["end"] == end) for end in ("same bits", "clear error", "hang")
        ]
        facts = [
            sum(run["faults"] for run in some),
            *ends,
            len(some),
            f"{max(run['seconds'] for run in some):.1f} s",
        ]
        lines.append(f"| {' | '.join(map(str, [kind, *facts]))} |")
    return "\n".join(lines)


def draw(runs: list[dict[str, Any]]) -> None:
    """Draw throughput and memory over the time of the largest runs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [
        found
        for found in runs
        if found["rows"] == max(one["rows"] for one in runs if one["stage"] == found["stage"])
    ]
    timed = any(found.get("rates") for found in shown)  # short runs have no rates
    figure, axes = plt.subplots(1, 1 + timed, figsize=(5 + 5 * timed, 3.6), layout="constrained", squeeze=False)
    speed, memory = axes[0, 0], axes[0, -1]
    for found in shown:
        same = {"color": f"C{STAGES.index(found['stage'])}"}  # in both pictures
        part, words = (np.arange(20) + 0.5) / 20, f"{found['stage']}, {found['rows']:.0e} rows".replace("e+0", "e")
        rates = rates_of_last_pass(found)
        if rates is not None:
            speed.plot(part[-len(rates) :], rates / 1e6, label=words, **same)
        if found.get("memory_mb"):
            values = [np.nan if value is None else value for value in found["memory_mb"]]
            memory.plot(part, values, label=words, **same)
    speed.set(xlabel="part of the time", ylabel="million rows per second, last pass", yscale="log")
    memory.set(xlabel="part of the time", ylabel="anonymous memory, MB", ylim=(0, None))
    memory.legend(fontsize=8)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)
