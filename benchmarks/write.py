"""Write the committed results into benchmarks/README.md and the README's table: no figure is copied by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import RESULTS
from benchmarks.pages import (
    automatic_page,
    bandits_page,
    dpp_page,
    falkon_page,
    graphs_page,
    half_page,
    large_page,
    learners_page,
    online_page,
    plan_page,
    spread,
)
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
        f"`RPCholesky` on {pivots['rows']:,} rows × 8 with {pivots['atoms']:,} atoms takes {pivots['seconds']:.1f} s, {spread(pivots['ratio'])} times "
        f"n·k² flops at the speed of syrk on both cores ({pivots['gflops']:.0f} Gflop/s, same run). "
        + " ".join(
            f"`{name}` at λ = {growth['lam']:g} takes {growth[name]['seconds'][0]:.3f} s on {growth['sizes'][0]:,} rows × 18 and "
            f"{growth[name]['seconds'][1]:.3f} s on {growth['sizes'][1]:,}; without the look at every row for NaN the ratio is "
            f"{spread(growth[name]['ratio'])}."
            for name in ("Bless", "BlessR")
        ),
        "",
        "One table for each data set: columns standardised (mnist: divided by 255), rows shuffled, RBF of the median width, ridge Tr K/1000, oversampling 10; "
        "samplers that take a size have SQUEAK's. First all rows (two runs; ε̂ as a bracket), then 1,500 of them (two runs; all exact; risk is the "
        "factor over exact kernel ridge regression, less 1).",
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
            ("large", large_page),
            ("online", online_page),
            ("graphs", graphs_page),
            ("dpp", dpp_page),
            ("bandits", bandits_page),
        )
        if (ROOT / "benchmarks" / "results" / f"{name}.json").exists()
    )
    more += (
        "\n"
        + plan_page(result("plan"))[0]
        + "\n"
        + tables_page(*map(measured, ("tables", "tables_times", "tables_growth")))
    )
    peers = "\n".join(peers_lines())
    page = f"""# Benchmarks

`make bench` runs all of them (hours on two cores); `.venv/bin/python -m benchmarks limit` runs one. Each prints ratios of
things measured in the same run, in turn, and writes `results/NAME.json`; `.venv/bin/python -m benchmarks.write` writes this page
from them. Real data sets are looked for in `SQUEAK_DATA` and left out where absent. Two cores of a shared machine.

## Against the peers

Medians; the spreads are in the tables below.

{PEERS_HEAD}
{peers}

![Times of the peers over squeak's, with their spread](../docs/images/bench_peers.png)

{growth_page()}## limit: the samplers against one full scoring pass

100,000 Gaussian rows × 8, ridge 1. The limit is one blocked, threaded pass of k(atoms, X), application of L⁻¹ and column sums with
the final dictionary. Screening gives up most rows after a few atoms, which is how a sampler can take less.

| sampler | atoms | sampler | limit | ratio (smallest to largest of 5) |
|---|---|---|---|---|
{limits}

## scaling: rows without end

A memory-mapped file, 8 columns, `max_atoms=500`. Peak is anonymous memory above that after import, sampled every 5 ms; three runs
each, each in its own process. Time a row falls with the length: most of the work is in the beginning, while the dictionary is found.

| rows | a row | in all | peak | atoms |
|---|---|---|---|---|
{lengths}

## real_data: real rows, measured accuracy

Columns standardised, rows shuffled, RBF of the length scale in `real_data.py`, ridge 1e-3·n, oversampling 10. ε̂ on all rows is
bracketed by one more pass (`estimate_accuracy`); on 4,000 rows, with the ridge scaled to them, it is exact.

| data | rows × columns | rows a second | atoms | d_eff | ε̂ on all rows | atoms on 4,000 | exact ε̂ on 4,000 |
|---|---|---|---|---|---|---|---|
{sets}

## files: rows larger than memory, through the command

{files["rows"]:,} rows × {files["columns"]} columns of float64, `squeak dictionary FILE --max-atoms 500`. The command's whole time counts, from start to
exit, and its whole resident memory, libraries and (for npy) mapped pages included; the run from memory counts only `fit`:
{files["memory"]["rows_a_second"]:,.0f} rows a second. Same bits: atoms and probabilities equal those of the run from memory.

| file | size | rows a second | part of memory's | peak | same bits |
|---|---|---|---|---|---|
{kinds}

`import squeak` takes {start["seconds"]:.2f} s more than importing scikit-learn's estimators ({start["spread"][0]:.2f} to {start["spread"][1]:.2f}).

## cluster: DISQUEAK on workers

{cluster_text}

## coins: one coin a row, or the papers' copies

Mean ε̂ of {coins["seeds"]} runs at equal size, {coins["rows"]:,} rows, interpolated between oversamplings of 5 to 40. Below 1 the coin
is better; the geometric mean of the ratios is {coins["mean_ratio"]:.2f}. One coin is the default.

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
| rows × columns, one pass | atoms | rows a second | ε̂, measured on all rows |
|---|---|---|---|
{first}
| mixture, 10,000,000 × 8, `max_atoms=500`, {longest["peak_mb"]:.0f} MB | {longest["atoms"]} | \
{1e6 / longest["microseconds_a_row"]:,.0f} | |
| Parquet file, {files["rows"]:,} × {files["columns"]}, `squeak dictionary`, {files["parquet"]["peak_mb"]:.0f} MB in all | {files["atoms"]} | \
{files["parquet"]["rows_a_second"]:,.0f} | |

Time of `Squeak` ({squeak["atoms"]} atoms) against one threaded pass that scores each row with the final dictionary, 100,000 × 8: {spread(squeak["ratio"])};
of `Kors` ({kors["atoms"]} atoms): {spread(kors["ratio"])}.
"""
    return page, peers_table(), samplers_summary, passes


PEERS_HEAD = """| squeak, data | against | squeak is faster by | and as good? |
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

A mixture of 30 Gaussians; one of 200,000 rows, 8 columns, 300 atoms is changed at a time. Two cores, two runs each in a process of its own. Memory is beyond
that of the rows. Workers are those of `cluster`.

| | `Squeak` | peak | `KernelRidge` | peak |
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
            f"| `minimize`, {', '.join(found)}, 100 steps, {seeds} seeds | bayes_opt | a step {speed}× | simple regret {ours}; theirs {theirs} |"
        )
    return f"""
{PEERS_HEAD}
{chr(10).join(rows)}

Measured by `make bench` on two cores of a shared machine, each row in one run, medians. All rows, spreads, settings and where squeak is not ahead: [benchmarks](benchmarks/README.md).
falkon is not among the peers: it is not on PyPI.
"""


def peers_lines() -> list[str]:
    """Return the rows of the table against peers."""
    lines = [
        f"| `KernelRidge`, {r['data']} {r['rows']:,} × {r['columns']}, {r['centres']:,} landmarks | scikit-learn: Nystroem + Ridge | "
        f"fit {r['speed']['theirs']:.1f}×, predict {r['speed']['predict']:.1f}× | test error {r['errors']['kept']:.3f}, theirs {r['errors']['theirs']:.3f} |"
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
                f"{facts[f'{theirs} over squeak']['median']:.1f}× | progressive loss {facts[f'squeak {how}']['loss']:.4f}, theirs {facts[theirs]['loss']:.4f} |"
            )
    lines += [
        f"| `DPP`, {name}, {r['size']:.0f} rows a sample | DPPy: vfx | first sample {r['ratios']['first']:.0f}×, later {r['ratios']['later']:.0f}× | both exact |"
        for name, r in result("dpp")["against_dppy"].items()
    ]
    for name, r in result("graphs")["leverage"].items():
        ours, theirs = (r["errors"][who]["median"] for who in ("squeak", "networkit"))
        lines.append(
            f"| `edge_leverage`, {name}, {r['edges']:,} edges | networkit: ApproxSpanningEdge(0.3) | {r['ratio']['networkit']['median']:.1f}× | "
            f"median error {ours:.3f}, theirs {theirs:.3f} |"
        )
    for name, r in result("bandits").get("bayes_opt", {}).items():
        ours, theirs = (median(r[who]) for who in ("ours", "theirs"))
        lines.append(
            f"| `minimize`, {name}, 100 steps, {len(r['ours'])} seeds | bayes_opt | a step {r['speed']['median']:.0f}× | simple regret {ours:.1e}, theirs {theirs:.1e} |"
        )
    return lines


def main() -> None:
    """Write all pages."""
    page, peers, samplers, passes = pages()
    (ROOT / "benchmarks" / "README.md").write_text(page)
    parts = (
        (ROOT / "README.md", "measured", peers),
        (ROOT / "README.md", "one pass", passes),
        (ROOT / "README.md", "tables", tables_part(measured("tables"))),
        (ROOT / "docs" / "samplers.md", "measured", samplers),
        (ROOT / "docs" / "disqueak.md", "measured", plan_page(result("plan"))[1]),
    )
    for path, mark, part in parts:
        marks = rf"(<!-- {mark} -->).*?(<!-- end -->)"
        text = re.sub(marks, lambda m, part=part: m.group(1) + part + m.group(2), path.read_text(), flags=re.DOTALL)
        path.write_text(text)


if __name__ == "__main__":
    main()
