"""Write the committed results into benchmarks/README.md and the README's table: no figure is copied by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import RESULTS
from benchmarks.coverage_page import coverage_part
from benchmarks.folds import folds_page
from benchmarks.pages import (
    automatic_page,
    bandits_page,
    dpp_page,
    falkon_page,
    fit_on_two_workers,
    graphs_page,
    half_page,
    large_page,
    learners_page,
    online_page,
    plan_beside_runs,
    plan_page,
    spread,
)
from benchmarks.searches_page import searches_page, searches_part
from benchmarks.streams_page import streams_page
from benchmarks.summary import first_screen, which_tool
from benchmarks.tables_page import tables_page, tables_part

ROOT = Path(__file__).resolve().parents[1]


def result(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def measured(name: str) -> dict[str, Any]:
    """Return a result; empty where it has not been measured."""
    return result(name) if (RESULTS / f"{name}.json").exists() else {}


def sampler_rows(records: list[dict[str, Any]], *, exact: bool) -> str:
    """Return the rows of a table of samplers, on all rows or on a part with the exact measures."""
    lines = []
    for r in records:
        if exact:
            ratio = f"{r['ratio_mean']:.2f} ({r['ratio_5%']:.2f} to {r['ratio_95%']:.2f})"
            known = r["accuracy_high"] == r["accuracy_high"]
            cells = f"{r['accuracy_high']:.2f} | {ratio}" if known else "– | –"
            lines.append(
                f"| {r['sampler']} | {r['atoms']:.0f} | {cells} | {r['trace_error']:.2g} | {r['risk_factor'] - 1:.1g} |"
            )
        else:
            known = r["accuracy_high"] == r["accuracy_high"]
            accuracy = f"{r['accuracy_low']:.2f} to {r['accuracy_high']:.2f}" if known else "–"
            lines.append(
                f"| {r['sampler']} | {r['atoms']:.0f} | {r['seconds']:.2f} | {r['passes']:.2f} | {r['kernel_evaluations']:.1e} | "
                f"{accuracy} | {r['trace_error']:.2g} |"
            )
    return "\n".join(lines)


def samplers_page(result: dict[str, Any]) -> tuple[str, str]:
    """Return the samplers' part of benchmarks/README.md, and the table of docs/samplers.md."""
    pivots, growth = result["pivots"], result["growth"]
    text = [
        "## samplers: every way to choose a dictionary",
        "",
        f"`RPCholesky` on {pivots['rows']:,} rows × 8 with {pivots['atoms']:,} atoms takes {pivots['seconds']:.1f} s. That is {spread(pivots['ratio'])} times "
        f"as long as n·k² floating-point operations take at the speed of the matrix product `syrk` on both cores ({pivots['gflops']:.0f} Gflop/s, measured in the same run). "
        + " ".join(
            f"`{name}` at λ = {growth['lam']:g} takes {growth[name]['seconds'][0]:.3f} s on {growth['sizes'][0]:,} rows × 18 and "
            f"{growth[name]['seconds'][1]:.3f} s on {growth['sizes'][1]:,}. Without the check of every row for missing values, the ratio of the two times is "
            f"{spread(growth[name]['ratio'])}."
            for name in ("Bless", "BlessR")
        ),
        "",
        "There are two tables for each data set. Columns are standardised (those of mnist are divided by 255), rows are shuffled, the kernel is an RBF of the median width, "
        "the ridge is Tr K/1000 and the oversampling is 10. Samplers that take a size are given the size of SQUEAK's dictionary. The first table is measured on all rows "
        "(two runs; the accuracy ε̂ is given as a bracket). The second is measured on 1,500 of them (two runs; everything is exact; the risk is that of kernel ridge regression "
        "on the dictionary, divided by that on all rows, less 1).",
    ]
    for name, facts in result["tables"].items():
        part = [r for r in facts["part"] if r["oversampling"] == 10.0]
        text += [
            "",
            f"### {name}, {facts['rows']:,} × {facts['columns']}, length scale {facts['length_scale']:.2f}",
            "",
            "| sampler | atoms | seconds | passes | k(x, z) | ε̂, bracketed | trace error |",
            "|---|---|---|---|---|---|---|",
            sampler_rows(facts["whole"], exact=False),
            "",
            "| on 1,500 rows | atoms | ε̂, exact | τ̃/τ (5% to 95%) | trace error | risk − 1 |",
            "|---|---|---|---|---|---|",
            sampler_rows(part, exact=True),
        ]
    shown = ("Uniform", "BlessR", "Recursive", "Squeak", "ExactRLS", "RPCholesky")
    head = "| 1,500 rows, oversampling 10: ε̂ (trace error) | " + " | ".join(f"`{name}`" for name in shown) + " |"
    summary = ["", head, "|---|" + "---|" * len(shown)]
    for name, facts in result["tables"].items():
        part = {r["sampler"]: r for r in facts["part"] if r["oversampling"] == 10.0}
        cells = []
        for sampler in shown:
            r = part[sampler]
            accuracy = f"{r['accuracy_high']:.2f}" if r["accuracy_high"] == r["accuracy_high"] else "–"
            cells.append(f"{accuracy} ({r['trace_error']:.1g}), {r['atoms']:.0f} atoms")
        summary.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n", "\n".join(summary) + "\n"


def pages() -> tuple[str, str, str, str]:
    """Return benchmarks/README.md, and the parts of README.md and docs/samplers.md between their marks."""
    limit, scaling, coins, real = (result(name) for name in ("limit", "scaling", "coins", "real_data"))
    files, start = result("files"), result("start")
    samplers, samplers_summary = samplers_page(result("samplers"))
    cluster = result("cluster")
    speed = cluster["speed_up"]
    cluster_text = (
        f"{cluster['rows']:,} rows × 8 of a memory-mapped file, 8 leaves, `max_atoms=500`, processes of this machine. Two independent processes that learn "
        f"four leaves each, without any engine, are {speed['independent']:.2f} times as fast as one; two Dask workers {speed['workers']:.2f} times, "
        f"**{speed['ratio']:.2f}** of that. At 1,000,000 rows the engine (cluster start aside) takes **{100 * cluster['overhead']:.1f}%** of the time on one worker. Total work of "
        f"the balanced tree over the sequential one: **{cluster['work_ratio']:.2f}**. A worker's largest anonymous memory: "
        + ", ".join(f"{f['peak_mb']:.0f} MB at {int(n):,} rows" for n, f in cluster["memory"].items())
        + "."
    )
    kinds = "\n".join(
        f"| {kind} | {files['megabytes'][kind]:,.0f} MB | {files[kind]['rows_a_second']:,.0f} | **{files[kind]['part_of_memory']:.2f}** "
        f"({files[kind]['spread'][0]:.2f} to {files[kind]['spread'][1]:.2f}) | {files[kind]['peak_mb']:.0f} MB | "
        f"{'yes' if files['same_bits'][kind] else 'no'} |"
        for kind in ("parquet", "csv", "npy")
    )
    limits = "\n".join(
        f"| {name} | {v['atoms']} | {v['seconds']:.2f} s | {v['limit_seconds']:.2f} s | {spread(v['ratio'])} |"
        for name, v in limit["settings"].items()
    )
    lengths = "\n".join(
        f"| {int(n):,} | {v['microseconds_a_row']:.2f} µs | {int(n) * v['microseconds_a_row'] / 1e6:.1f} s | "
        f"{v['peak_mb']:.0f} MB | {v['atoms']} |"
        for n, v in scaling["lengths"].items()
    )

    def bounds(entry: dict[str, Any]) -> str:
        return f"{entry['accuracy_bounds'][0]:.2f} to {entry['accuracy_bounds'][1]:.2f}"

    sets = "\n".join(
        f"| {e['data']} | {e['rows']:,} × {e['columns']} | {e['rows_a_second']:,.0f} | {e['atoms']} | "
        f"{e['effective_dimension']:.1f} | {bounds(e)} | {e['subset_atoms']} | {e['subset_exact_accuracy']:.2f} |"
        for e in real["table"]
    )
    pairs = "\n".join(
        f"| {e['data']} | {e['scores']} | {e['atoms']} | {e['coin']:.3f} | {e['copies']:.3f} | {e['ratio']:.2f} |"
        for e in coins["table"]
    )
    more = "\n".join(
        make(result(name))
        for name, make in (
            ("learners", learners_page),
            ("falkon", falkon_page),
            ("half", half_page),
            ("automatic", automatic_page),
            ("folds", folds_page),
            ("large", large_page),
            ("online", online_page),
            ("graphs", graphs_page),
            ("dpp", dpp_page),
            ("bandits", bandits_page),
            ("searches", searches_page),
        )
        if (ROOT / "benchmarks" / "results" / f"{name}.json").exists()
    )
    more += (
        "\n"
        + streams_page()
        + "\n"
        + plan_page(result("plan"))[0]
        + "\n"
        + tables_page(*map(measured, ("tables", "tables_times", "tables_growth")))
    )
    peers = "\n".join(peers_lines())
    page = f"""# Benchmarks

`make bench` runs all benchmarks, which takes hours on two cores. `.venv/bin/python -m benchmarks limit` runs one of them, here the one
called `limit`. Each benchmark prints ratios of things that were measured in turn in the same run, and writes them to `results/NAME.json`.
`.venv/bin/python -m benchmarks.write` then writes this page from those files, so no figure is copied by hand. Real data sets are looked for
in the folder that the environment variable `SQUEAK_DATA` names, and are left out where they are absent. All figures were measured on two
cores of a shared machine.

## Against the peers

The figures are medians; the spreads are in the tables below.

{PEERS_HEAD}
{peers}

![Times of the peers over squeak's, with their spread](../docs/images/bench_peers.png)

{growth_page()}## limit: the samplers against one full scoring pass

The data are 100,000 Gaussian rows of 8 columns, and the ridge is 1. The limit is the time of one pass, in blocks and on all threads, that scores every
row with the final dictionary: it computes k(atoms, X), applies L⁻¹ and sums the columns. A sampler can take less time than that, because it rejects most
rows after comparing them with only a few atoms.

| sampler | atoms | sampler | limit | ratio (smallest to largest of 5) |
|---|---|---|---|---|
{limits}

## scaling: rows without end

`Squeak(max_atoms=500)` reads a memory-mapped file of 8 columns. The peak is the anonymous memory beyond what the process holds after its imports, sampled
every 5 ms. Each length was run three times, each time in a process of its own. The time per row falls as the file gets longer, because most of the work is
done at the beginning, while the dictionary is found.

| rows | time per row | time in all | peak memory | atoms |
|---|---|---|---|---|
{lengths}

## real_data: real rows, measured accuracy

Columns are standardised and rows are shuffled. The kernel is an RBF of the length scale that `real_data.py` names, the ridge is 1e-3·n and the oversampling is
10. On all rows the accuracy ε̂ is bracketed by one more pass (`estimate_accuracy`). On 4,000 rows, with the ridge scaled to that number, it is exact.

| data | rows × columns | rows per second | atoms | d_eff | ε̂ on all rows | atoms on 4,000 | exact ε̂ on 4,000 |
|---|---|---|---|---|---|---|---|
{sets}

## files: rows larger than memory, through the command

The command `squeak dictionary FILE --max-atoms 500` reads {files["rows"]:,} rows × {files["columns"]} columns of float64. Its whole time counts, from start to
exit, and its whole resident memory, including the libraries and (for npy) the mapped pages. The run from memory, with which it is compared, counts only `fit`; it
reads {files["memory"]["rows_a_second"]:,.0f} rows per second. "Same bits" means that atoms and probabilities equal those of the run from memory.

| file | size | rows per second | speed over that from memory | peak memory | same bits |
|---|---|---|---|---|---|
{kinds}

`import squeak` takes {start["seconds"]:.2f} s more than importing scikit-learn's estimators ({start["spread"][0]:.2f} to {start["spread"][1]:.2f}).

## cluster: DISQUEAK on workers

{cluster_text}

## coins: one coin per row, or the papers' copies

A row can be kept by one coin (`copies=1`) or, as the papers have it, by several independent coins. The table has the mean accuracy ε̂ of {coins["seeds"]} runs on
{coins["rows"]:,} rows at equal size, interpolated between oversamplings of 5 to 40. Where the ratio is below 1, one coin is better. The geometric mean of the ratios
is {coins["mean_ratio"]:.2f}, and one coin is the default.

| data | scores | atoms | coin | copies | ratio |
|---|---|---|---|---|---|
{pairs}

{samplers}
{more}"""
    first = "\n".join(
        f"| {e['data']}, {e['rows']:,} × {e['columns']} | {e['atoms']} | {e['rows_a_second']:,.0f} | {bounds(e)} |"
        for e in real["table"]
    )
    longest = scaling["lengths"]["10000000"]
    squeak, kors = limit["settings"]["Squeak, oversampling 10"], limit["settings"]["Kors, oversampling 5"]
    passes = f"""
| rows × columns | atoms kept | rows per second | accuracy ε̂, measured on all rows |
|---|---|---|---|
{first}
| mixture of Gaussians, 10,000,000 × 8, `max_atoms=500`, {longest["peak_mb"]:.0f} MB of memory | {longest["atoms"]} | \
{1e6 / longest["microseconds_a_row"]:,.0f} | |
| Parquet file, {files["rows"]:,} × {files["columns"]}, `squeak dictionary`, {files["parquet"]["peak_mb"]:.0f} MB of memory in all | {files["atoms"]} | \
{files["parquet"]["rows_a_second"]:,.0f} | |

On 100,000 rows × 8, `Squeak` ({squeak["atoms"]} atoms) takes {spread(squeak["ratio"])} times as long as one threaded pass that only scores each row with the final dictionary, and
`Kors` ({kors["atoms"]} atoms) takes {spread(kors["ratio"])} times as long.
"""
    return page, peers_table(), samplers_summary, passes


PEERS_HEAD = """| squeak's class and the data | compared with | squeak is faster by a factor of | quality of the result |
|---|---|---|---|"""

FIRST_SCREEN = (
    "nycflights 261,876 × 7, 1,000",
    "covtype 464,809 × 54, 1,000",
    "`ConKonsRegressor`, cadata, row by row",
    "`ConKonsRegressor`, cadata, blocks",
    "n = 5,000",
    "`edge_leverage`",
)
"""Words of the rows that README shows: one or two a peer; all of them are in benchmarks/README.md."""


def growth_page() -> str:
    """Return how time and memory grow, as a section; empty where it was not measured."""
    if not (ROOT / "benchmarks" / "results" / "growth.json").exists():
        return ""
    curves = result("growth")
    lines = []
    for name, points in curves["curves"].items():
        for point in points:
            cells = [
                f"{r['seconds']['median']:.2f} s ({r['seconds']['min']:.2f} to {r['seconds']['max']:.2f}) | {r['peak_mb']['median']:.0f} MB"
                for r in point["runs"].values()
            ]
            lines.append(f"| {point['size']:,} {name} | {' | '.join(cells)} |")
    rows = "\n".join(lines)
    return f"""## growth: time and memory against rows, columns and atoms

The data are a mixture of 30 Gaussians with 200,000 rows and 8 columns, and the dictionary has 300 atoms; one of these three numbers is changed at a time. Each
time is that of two runs on two cores, each in a process of its own. The memory is what is needed beyond the rows themselves. The workers in the picture are those
of the benchmark `cluster`.

| | `Squeak`, time | peak memory | `KernelRidge`, time | peak memory |
|---|---|---|---|---|
{rows}

![Time and memory against rows, columns, atoms and workers](../docs/images/bench_growth.png)

"""


def peers_table() -> str:
    """Return the README's table against peers."""
    rows = [line for line in peers_lines() if any(words in line for words in FIRST_SCREEN)]
    found = {
        name: r
        for name, r in result("bandits").get("bayes_opt", {}).items()
        if name not in ("levy4", "rosenbrock4")
    }
    if found:
        facts = [(r["speed"]["median"], median(r["ours"]), median(r["theirs"])) for r in found.values()]
        speed, ours, theirs = (", ".join(f"{value:.2g}" for value in column) for column in zip(*facts, strict=True))
        seeds = len(next(iter(found.values()))["ours"])
        rows.append(
            f"| `minimize`, {', '.join(found)}, 100 steps, {seeds} seeds | bayes_opt | {speed} (per step) | simple regret {ours}; theirs {theirs} |"
        )
    return f"""
{PEERS_HEAD}
{chr(10).join(rows)}

`make bench` measured these figures on two cores of a shared machine. They are medians, and both sides of a row were measured in the same run. The [benchmarks](benchmarks/README.md) page
has all rows, the spreads, the settings, and the cases where squeak is not ahead. falkon is not among the peers, because it is not on PyPI.
"""


def peers_lines() -> list[str]:
    """Return the rows of the table against peers."""
    lines = [
        f"| `KernelRidge`, {r['data']} {r['rows']:,} × {r['columns']}, {r['centres']:,} landmarks | scikit-learn: Nystroem + Ridge | "
        f"{r['speed']['theirs']:.1f} (fit), {r['speed']['predict']:.1f} (predict) | test error {r['errors']['kept']:.3f}, theirs {r['errors']['theirs']:.3f} |"
        for r in result("falkon")["parts"].values()
        if "theirs" in r.get("speed", {})
    ]
    online = result("online")["peers"]
    for name, how in (("cadata", "singly"), ("casp", "singly"), ("cadata", "blocks"), ("casp", "blocks")):
        facts = online[name]
        for peer in ("river", "scikit-learn") if how == "singly" else ("scikit-learn",):
            theirs = f"{peer} {how}"
            lines.append(
                f"| `ConKonsRegressor`, {name}, {'row by row' if how == 'singly' else 'blocks of 1,000'} | {peer}: RBFSampler(500) + SGD | "
                f"{facts[f'{theirs} over squeak']['median']:.1f} | progressive loss {facts[f'squeak {how}']['loss']:.4f}, theirs {facts[theirs]['loss']:.4f} |"
            )
    lines += [
        f"| `DPP`, {name}, {r['size']:.0f} rows per sample | DPPy: vfx | {r['ratios']['first']:.0f} (first sample), {r['ratios']['later']:.0f} (later samples) | both are exact |"
        for name, r in result("dpp")["against_dppy"].items()
    ]
    for name, r in result("graphs")["leverage"].items():
        ours, theirs = (r["errors"][who]["median"] for who in ("squeak", "networkit"))
        lines.append(
            f"| `edge_leverage`, {name}, {r['edges']:,} edges | networkit: ApproxSpanningEdge(0.3) | {r['ratio']['networkit']['median']:.1f} | "
            f"median error {ours:.3f}, theirs {theirs:.3f} |"
        )
    for name, r in result("bandits").get("bayes_opt", {}).items():
        ours, theirs = (median(r[who]) for who in ("ours", "theirs"))
        lines.append(
            f"| `minimize`, {name}, 100 steps, {len(r['ours'])} seeds | bayes_opt | {r['speed']['median']:.0f} (per step) | simple regret {ours:.1e}, theirs {theirs:.1e} |"
        )
    return lines


def main() -> None:
    """Write all pages."""
    page, peers, samplers, passes = pages()
    (ROOT / "benchmarks" / "README.md").write_text(page)
    parts = (
        (ROOT / "README.md", "first", first_screen()),
        (ROOT / "README.md", "measured", peers),
        (ROOT / "README.md", "one pass", passes),
        (ROOT / "README.md", "tables", tables_part(measured("tables"))),
        (ROOT / "docs" / "which-tool.md", "measured", which_tool()),
        (ROOT / "docs" / "samplers.md", "measured", samplers),
        (ROOT / "docs" / "bandits.md", "coverage", coverage_part(result("bandits").get("coverage", {}))),
        (ROOT / "docs" / "bandits.md", "searches", searches_part(measured("searches"))),
        (ROOT / "docs" / "disqueak.md", "measured", plan_page(result("plan"))[1]),
        (ROOT / "docs" / "scale.md", "plan", plan_beside_runs(result("plan"))),
        (ROOT / "docs" / "scale.md", "workers", fit_on_two_workers(result("cluster"))),
    )
    for path, mark, part in parts:
        marks = rf"(<!-- {mark} -->).*?(<!-- end -->)"
        text = re.sub(marks, lambda m, part=part: m.group(1) + part + m.group(2), path.read_text(), flags=re.DOTALL)
        path.write_text(text)


if __name__ == "__main__":
    main()
