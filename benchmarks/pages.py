"""Parts of benchmarks/README.md, each made from the results of one benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.coverage_page import coverage_page


def spread(ratio: dict[str, float]) -> str:
    """Return a ratio in words: its median, smallest and largest."""
    return f"**{ratio['median']:.2f}** ({ratio['min']:.2f} to {ratio['max']:.2f})"


def learners_page(found: dict[str, Any]) -> str:
    """Return the table of KernelRidge beside scikit-learn's Nystroem + Ridge."""
    rows = "\n".join(
        f"| {r['data']}, {r['rows']:,} × {r['columns']} | {r['landmarks']:,} | {r['seconds']['theirs fit']:.1f} s | {r['seconds']['ours fit']:.1f} s | "
        f"**{r['speed']['fit']:.1f}×** | {r['speed']['over_floor']:.2f} | {r['speed'].get('tenth, processor', float('nan')):.2f} | **{r['speed']['predict']:.1f}×** | {r['errors']['theirs']:.4f} | {r['errors']['ours']:.4f} | "
        f"{r['errors']['ours, BLESS-R']:.4f} | {r['errors']['ours, BLESS-R, half']:.4f} |"
        for r in found["records"]
    )
    return f"""## learners: ridge regression beside scikit-learn

`KernelRidge` is compared with scikit-learn's `Nystroem` + `Ridge` (no intercept). Both have alpha 1, a kernel of width √d, standardised columns, targets of unit variance, the same split and the
same number of uniform landmarks. The last two columns have the errors of ours with landmarks chosen by BLESS-R, as many and half as many; the time of choosing them is not in this table. The floor is the
time of one pass of kernel values and one symmetric product on all cores.

| rows × columns | landmarks | fit, theirs | fit, ours | fit is faster by | our fit over the floor | predict is faster by | test error, theirs | ours | ours, BLESS-R | ours, BLESS-R, half |
|---|---|---|---|---|---|---|---|---|---|---|
{rows}
"""


def falkon_page(found: dict[str, Any]) -> str:
    """Return the table of FALKON on float32 values beside scikit-learn, our direct solver and the floor."""
    parts = found["parts"]
    rows = "\n".join(
        f"| {r['data']}, {r['rows']:,} × {r['columns']} | {r['centres']:,} | {r['seconds']['theirs fit']:.1f} s | {r['seconds']['direct fit']:.1f} s | {r['seconds']['kept fit']:.1f} s | "
        f"{r['passes']} | **{r['speed']['theirs']:.1f}×** | {r['speed'].get('theirs, user', float('nan')):.1f}× | **{r['speed']['direct']:.1f}×** | {r['speed']['over_floor']:.2f} | {r['speed'].get('tenth, processor', float('nan')):.2f} | **{r['speed']['predict']:.1f}×** | "
        f"{r['errors']['theirs']:.4f} | {r['errors']['direct']:.5f} | {r['errors']['kept']:.5f} |"
        for r in parts.values()
        if "theirs" in r.get("speed", {})
    )
    large = parts.get("large")
    words = (
        ""
        if large is None
        else "\n"
        + "; ".join(
            f"2,000,000 rows × 10 on {large['atoms']:,} atoms with {large[how]['budget_gb']:.1f} GB for kernel values: {large[how]['seconds']:.0f} s, peak {large[how]['peak_gb']:.1f} GB, "
            f"{large[how]['passes']} passes, error {large[how]['error']:.5f}"
            for how in ("whole", "tenth")
        )
        + f". A tenth of the memory takes **{large['slower']:.2f}** times the processor time.\n"
    )
    return f"""## falkon: iterations on float32 kernel values

`KernelRidge` with the solver that `solver="auto"` chooses is compared with scikit-learn's `Nystroem` + `Ridge` and with our `solver="direct"`. All have alpha 1 and a kernel of width √d; both of ours have the
same centres, and scikit-learn has as many uniform ones. The floor is the time of one pass of kernel values in float32 and of one read of those values for each pass, on all cores. "With a tenth of the memory" is the processor time
when only a tenth of the kernel values may be kept, as a multiple of the time when all are. This virtual machine gets new memory from its host at 0.2 to 4 s per GB, which varies from run to run; "in user time" is the ratio of the
processor times without the system's part, where most of this waiting is counted.

| rows × columns | centres | fit, scikit-learn | fit, direct | fit, chosen | passes | faster than scikit-learn by | in user time | faster than direct by | time over the floor | time with a tenth of the memory | predict is faster than scikit-learn's by | error, scikit-learn | error, direct | error, chosen |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
{rows}
{words}"""


def automatic_page(found: dict[str, Any]) -> str:
    """Return the table of "auto" beside a grid search."""
    rows = "\n".join(
        f"| {r['data']} | {r['rows']:,} | {r['auto']:.4f} | {r['grid']:.4f} | **{r['ratio']:.3f}** | {r['seconds'][0]:.1f} s | {r['seconds'][1]:.0f} s | "
        f"{r['width_over_median']:.2f} | {r['alpha']:.3g} |"
        for r in found["records"]
    )
    return f"""## automatic: "auto" beside a grid search

`KernelRidge(RBF("auto"), alpha="auto", max_atoms={found["atoms"]})` is compared with a grid search over 5 widths × 5 penalties, by three folds, with the same number of atoms. Errors are mean squared errors on
rows that neither of the two has seen.

| data | rows | auto | grid | ratio | auto takes | grid takes | width over median | alpha |
|---|---|---|---|---|---|---|---|---|
{rows}
"""


def large_page(found: dict[str, Any]) -> str:
    """Return the table of two million rows."""
    rows = "\n".join(
        f"| {how} | {r['seconds']:.0f} s | {r['peak_mb']:.0f} MB | {r['error']:.5f} | {r['passes']} | {'' if r['condition'] is None else format(r['condition'], '.1f')} |"
        for how, r in found["runs"].items()
    )
    return f"""## large: two million rows on two thousand atoms

The data are {found["rows"]:,} rows × 10 in a memory-mapped file of float32, with {found["atoms"]:,} atoms. The peak is the anonymous memory beyond what the process holds after its imports. The numbers of passes until the error
is within 1% of that of `direct` are: {", ".join(f"{how} {count if count is not None else 'not within 10'}" for how, count in found["passes"].items()) or "not measured yet"}. `falkon` has the centres and weights of BLESS-R.

| solver | fit | peak | error | passes | condition |
|---|---|---|---|---|---|
{rows}
"""


def half_page(found: dict[str, Any]) -> str:
    """Return the part about half as many landmarks."""
    lines = []
    for name, entry in found["table"].items():
        for size, errors in entry["sizes"].items():
            cells = " | ".join(
                f"{errors[w][0]:.4f} ± {errors[w][1]:.4f}" for w in ("uniform", "uniform, half", "leverage, half")
            )
            lines.append(
                f"| {name}, {entry['rows']:,} × {entry['columns']} | {entry['coherence']:.0f} | {size} | {cells} |"
            )
    rows = chr(10).join(lines)
    return f"""## half: half as many landmarks

The table has test errors of `KernelRidge` with an RBF of the median width and alpha = 1e-3, over {found["seeds"]} draws: with M uniform rows as atoms, with M/2 uniform rows, and with `max_atoms` = M/2 chosen by leverage
scores. Coherence is the largest leverage score divided by the mean one (2,000 rows, ridge 1). Half as many atoms suffice on cpusmall, where the target depends on rows that are unlike the others. On the other three tables they do not
suffice: there the error is made among the common rows, which uniform atoms cover as well or better. The coherence does not tell which case it is.

| data | coherence | M | M uniform | M/2 uniform | M/2 by leverage |
|---|---|---|---|---|---|
{rows}
"""


def plan_page(found: dict[str, Any]) -> tuple[str, str]:
    """Return the table of plans beside runs, and the one of the docs out to 10¹² rows."""
    from squeak.cli.pages import duration, quantity
    from squeak.samplers.planning import Calibration, plan

    rows = "\n".join(
        f"| {r['rows']:,} | {r['workers']} | {r['predicted_seconds']:.1f} s | {r['seconds']:.1f} s | {r['predicted_seconds'] / r['seconds']:.2f} | "
        f"{r['predicted_mb']:.0f} MB | {r['peak_mb']:.0f} MB |"
        for r in found["runs"]
    )
    known = Calibration(**found["large"])
    far = []
    for n, workers in ((1e7, 2), (1e8, 16), (1e9, 200), (1e10, 1000), (1e11, 5000), (1e12, 10000)):
        p = plan(n, known.dim, known.atoms, workers, calibration=known)
        far.append(
            f"| 10^{int(np.log10(n))} | {workers:,} | {p.leaves:,} | {duration(p.seconds)} | {duration(p.work_seconds)} | {quantity(p.memory)} | {quantity(p.bytes_moved)} |"
        )
    ratios = [
        [r["predicted_seconds"] / r["seconds"] for r in found["runs"] if (r["workers"] > 2) == crowded]
        for crowded in (False, True)
    ]
    own, shared = (f"{min(some):.2f} to {max(some):.2f}" for some in ratios)
    text = f"""## plan: predicted beside measured

The predictions of `squeak plan` stand beside real runs of DISQUEAK on Dask workers of one machine with two cores, which four workers have to share. The rows have 8 columns, and `max_atoms` is 500;
{found.get("note", "nothing else ran")}.

| rows | workers | time, predicted | time, measured | ratio | memory per worker, predicted | measured |
|---|---|---|---|---|---|---|
{rows}
"""
    docs = f"""
In {len(ratios[0])} runs of 10⁵ to 10⁷ rows on one and two workers of a machine with two cores ({found.get("note", "nothing else ran")}), the predicted time was {own} of the measured one. With four workers on the two cores it was {shared}: this form of `plan` takes it that every worker has a core of its own. The table
below goes far beyond what was run: it is an **extrapolation** from {known.seconds:.0f} s of measuring one core. It assumes {known.dim} columns, {known.atoms:,} atoms and 100 MB/s between workers, and does not count the reading of the rows.

| rows | workers | leaves | time | processor time in all | memory per worker | data moved, at most |
|---|---|---|---|---|---|---|
{chr(10).join(far)}
"""
    return text, docs


def plan_beside_runs(found: dict[str, Any]) -> str:
    """Return the tables of docs/scale.md with plans beside runs: whole runs by the clock, stages by the processor's."""
    tables = []
    units = {"commands": "time", "scale": "time", "stages": "processor time on one thread"}
    for key, unit in units.items():
        lines = [f"| run | {unit}, predicted | measured | predicted / measured |", "|---|---|---|---|"]
        for one in found.get(key, []):
            ratios = sorted(one.get("ratios", [one["predicted_seconds"] / one["seconds"]]))
            spread = "" if len(ratios) == 1 else f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            lines.append(
                f"| {one['what']}, {one['rows']:,} rows | {one['predicted_seconds']:.1f} s | {one['seconds']:.1f} s | "
                f"{ratios[len(ratios) // 2]:.2f}{spread} |"
            )
        tables += ["", *lines] if found.get(key) else []
    return "\n".join([*tables, ""])


def fit_on_two_workers(found: dict[str, Any]) -> str:
    """Return the table of docs/scale.md with a ridge fit on one worker and on two."""
    fit = found.get("fit")
    if fit is None:
        return "\nIt has not been measured on a quiet machine yet.\n"
    lines = [
        "| workers | seconds | processor seconds of the workers | of the program and the scheduler | not in tasks | peak memory of a worker |",
        "|---|---|---|---|---|---|",
    ]
    for count, facts in fit["workers"].items():
        spent = [f"{facts[key]:.1f}" if key in facts else "–" for key in ("workers_cpu", "client_cpu")]
        lines.append(
            f"| {count} | {facts['seconds']:.1f} | {' | '.join(spent)} | {100 * facts['outside']:.1f}% | {facts['peak_mb']:.0f} MB |"
        )
    words = (
        f"Two workers were {fit['speed_up']:.2f} times as fast as one, and two processes that sum features of the same rows "
        f"without any engine {fit['independent']:.2f} times. {fit.get('note', '')}"
    )
    return "\n" + "\n".join([*lines, "", words.strip()]) + "\n"


def online_page(found: dict[str, Any]) -> str:
    """Return the part of benchmarks/README.md about online learning."""
    paces = "\n".join(
        f"| {atoms} | "
        + " | ".join(
            f"{sorted(facts[words])[len(facts[words]) // 2]:.1f} (from {min(facts[words]):.1f})"
            for words in ("block", "singly")
        )
        + " |"
        for atoms, facts in found["pace"].items()
    )
    lengths = ", ".join(
        f"{facts['microseconds']:.1f} µs per row at {int(n):,} rows ({facts['peak_mb']:.0f} MB more memory)"
        for n, facts in found["growth"].items()
    )
    rows = []
    for name, facts in found["peers"].items():
        for theirs in ("river singly", "scikit-learn singly", "scikit-learn blocks"):
            ours = "squeak singly" if theirs.endswith("singly") else "squeak blocks"
            rows.append(
                f"| {name} | {theirs} | {facts[ours]['microseconds']:.1f} | {facts[theirs]['microseconds']:.1f} | "
                f"{spread(facts[f'{theirs} over squeak'])} | {facts[ours]['loss']:.4f} | {facts[theirs]['loss']:.4f} |"
            )
        few, theirs = facts["squeak blocks, 50 atoms"], facts["scikit-learn blocks"]
        rows.append(
            f"| {name} | scikit-learn blocks; squeak with 50 atoms | {few['microseconds']:.1f} | {theirs['microseconds']:.1f} | "
            f"{spread(facts['scikit-learn blocks over squeak, 50 atoms'])} | {few['loss']:.4f} | {theirs['loss']:.4f} |"
        )
    losses = "\n".join(
        f"| {name} | **{facts['ConKons']['mean']:.5f}** ({facts['ConKons']['worst']:.5f}) | {facts['FOGD']['mean']:.5f} | {facts['NOGD']['mean']:.5f} |"
        for part in ("accuracy", "unseen")
        for name, facts in found.get(part, {}).items()
    )
    peers = "\n".join(rows)
    return f"""## online: a row at a time, or many

The first table has the time of `ConKonsRegressor()` per row in µs, on one core and rows of 8 columns: the median of the repeats, and the fastest.

| atoms | many rows at once | one row at a time (`learn_one`) |
|---|---|---|
{paces}

The cost per row does not grow with the length of the stream. With 100 atoms it is {lengths}.

In the next table all learners get the same rows, and predict each row before they learn from it. "Singly" means 3,000 rows one at a time, during which squeak's number of atoms still grows; "blocks" means all rows
in blocks of 1,000, of which scikit-learn predicts a whole block before it learns any of it. river and scikit-learn use RBFSampler(500) and a linear model by stochastic gradient descent, with the same length scale and
the best of five step sizes.

| data | compared with | squeak, µs per row | theirs, µs per row | their time over squeak's | squeak's loss | their loss |
|---|---|---|---|---|---|---|
{peers}

The last table has the progressive loss of one configuration (for ijcnn1, a9a and spambase, the error rate): the mean of five shuffles, and in brackets the worst of them. FOGD and NOGD have one shuffle, the same length
scale and the best of five step sizes. alpha and ridge were chosen on the first four data sets; the other five played no part in the choice.

| data | ConKons | FOGD | NOGD |
|---|---|---|---|
{losses}
"""


def graphs_page(found: dict[str, Any]) -> str:
    """Return the graphs' part of benchmarks/README.md, of the parts that were measured."""
    text = [
        "## graphs: leverage, sparsifiers, labels",
        "",
        "All runs have one thread. Times are processor time, because the machine was shared with other work. "
        + found.get("note", ""),
    ]
    if "leverage" in found:
        text += [
            "",
            "| edge leverage of | edges | squeak | networkit, ApproxSpanningEdge(0.3) | squeak is faster by | median error, squeak | networkit | edges scored zero, squeak | networkit |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for name, f in found["leverage"].items():
            ours, theirs = f["errors"]["squeak"], f["errors"]["networkit"]
            text.append(
                f"| {name} | {f['edges']:,} | {f['seconds']['squeak']:.2f} s | {f['seconds']['networkit']:.2f} s | {spread(f['ratio']['networkit'])} | "
                f"{ours['median']:.3f} | {theirs['median']:.3f} | {100 * ours['zeros']:.0f}% | {100 * theirs['zeros']:.1f}% |"
            )
    if "accuracy" in found:
        t = found["accuracy"]["twitter"]
        text += [
            "",
            f"On ego_twitter at oversampling 20, {100 * t['kept']:.0f}% of the edges are kept, ε is **{t['eps']:.2f}**, connected components are {'whole' if t['whole'] else 'cut'}, and sparsifying takes {t['ratio']:.2f} times as long as computing "
            "the leverage of all edges once. At equal size, ε with one coin per edge divided by ε with the papers' copies is: "
            + ", ".join(f"{c['graph']} {c['ratio']:.2f}" for c in found["accuracy"]["coins"])
            + ".",
            "",
            "| graph | oversampling | edges kept | edges per node | ε | ε·√(kept/n) |",
            "|---|---|---|---|---|---|",
        ]
        text += [
            f"| {r['graph']} | {r['oversampling']} | {100 * r['kept']:.0f}% | {r['per_node']:.1f} | {r['eps']:.2f} | {r['law']:.2f} |"
            for r in found["accuracy"]["law"]
        ]
    if "dense" in found:
        text += [
            "",
            "The oversampling is 30. The cost is the time of sparsifying, divided by the time of solving for ten classes on the full graph. The next column says how much faster the same solve is on the sparsifier.",
            "",
            "| graph | mean degree | edges kept | cost | solve is faster by | ε | ε of as many uniform edges | at oversampling 20: solve is faster by, ε |",
            "|---|---|---|---|---|---|---|---|",
        ]
        text += [
            f"| {r['graph']} | {r['degree']:.0f} | {100 * r['kept']:.0f}% | {r['cost']:.2f} | **{r['faster']:.1f}** | {r['eps']:.2f} | {r['eps_uniform']:.2f} | {r['faster_20']:.1f}, {r['eps_20']:.2f} |"
            for r in found["dense"]
        ]
    if "learning" in found:
        names = list(dict.fromkeys(name for r in found["learning"] for name in r["mean"]))
        text += [
            "",
            "The table has the percentage of nodes that are labelled correctly: the mean and the standard deviation over 5 draws of the labels. STABLE is the default of `HarmonicClassifier`; SPARSE is the same on a sparsifier at oversampling 30.",
            "",
            f"| data | labels | {' | '.join(names)} |",
            "|---|---|" + "---|" * len(names),
        ]
        for r in found["learning"]:
            cells = [f"{r['mean'][n]:.1f} ± {r['std'][n]:.1f}" if n in r["mean"] else "–" for n in names]
            text.append(f"| {r['data']} | {r['labels']} | {' | '.join(cells)} |")
    if "stream" in found:
        f = found["stream"]
        text += [
            "",
            f"`StreamSparsifier` on {f['edges']:,.0f} edges from Parquet ({f['nodes']:,} nodes): {f['peak_mb']:.0f} MB of resident memory in all ({f['start_mb']:.0f} MB before the run), {f['processor_seconds']:.0f} s of processor time, {f['kept']:,.0f} edges kept.",
        ]
    if "workers" in found:
        f = found["workers"]
        text += [
            "",
            f"`DistributedSparsifier` on {f['edges']:,} edges in eight files: {f['seconds']['1']:.1f} s with one Dask worker, {f['seconds']['2']:.1f} s with two, {spread(f['ratio'])} times as fast; "
            f"{'the same bits' if f['same_bits'] else 'not the same bits'} in all runs.",
        ]
    return "\n".join([*text, ""])


def dpp_page(found: dict[str, Any]) -> str:
    """Return the table of exact DPP samples beside DPPy's."""
    rows = "\n".join(
        f"| {name}, |S| ≈ {r['size']:.0f} | {r['squeak']['first']:.2f} s | {r['dppy']['first']:.1f} s | **{r['ratios']['first']:.0f}×** | "
        f"{1e3 * float(np.median(r['squeak']['later'])):.0f} ms | {float(np.median(r['dppy']['later'])):.1f} s | **{r['ratios']['later']:.0f}×** |"
        for name, r in found["against_dppy"].items()
    )
    million = found["million"]["default"]
    later = float(np.median(million["later"]))
    return f"""## dpp: exact samples beside DPPy's

Both libraries get the same Gaussian rows and the same kernel; DPPy runs in its `vfx` mode. This is one run on a busy machine, ours after a warm-up. Times of later samples are medians of few samples (of DPPy's, 3 and 1).

| rows | first sample, squeak | first sample, DPPy | faster by | later samples, squeak | later samples, DPPy | faster by |
|---|---|---|---|---|---|---|
{rows}

{found["million"]["rows"]:,} rows × {found["million"]["columns"]}, |S| ≈ {found["million"]["size"]:.0f}: the preparation takes {million["fit"]:.0f} s and each later sample {1e3 * later:.0f} ms, which is 1/{million["fit"] / later:.0f} of it.
"""


def bandits_page(found: dict[str, Any]) -> str:
    """Return the part about bandits, as far as it was measured."""
    rows = "\n".join(
        f"| {name} | {r['regret']:.3f} | {r['ms']:.2f} | {r['distinct']:,.0f} | {r['batches']:,.0f} |"
        for name, r in found["tables"].items()
    )
    text = f"""## bandits: regret and time per step on real tables

The regret is divided by that of uniform pulls; it is the median of three runs (of one run for the plain methods). Times are milliseconds of one thread's processor time. "Plain counts" is exact GP-UCB that updates every arm after every
pull, and "plain batches" is batched BKB that solves again after every arm of a batch. {found.get("note", "")}

| table | regret | ms per step | distinct arms | batches |
|---|---|---|---|---|
{rows}
"""
    if "new_arms" in found:
        facts = "; ".join(
            f"{name}: {r['ms']:.1f} ms, {r['distinct']:.0f} arms of {r['arms']:,}"
            for name, r in found["new_arms"].items()
        )
        text += f"""
400 pulls, most of them of new arms (`python -m benchmarks.bandits new_arms`), by the time per step, the median of three runs: {facts}.
"""
    if "coverage" in found:
        text += coverage_page(found["coverage"])
    if "flat" in found:
        parts = ", ".join(f"{part:.1f}" for part in found["flat"]["ms"])
        text += f"""
`minimize` on Hartmann-6, 5,000 steps: the milliseconds per step in each stretch of 500 steps are {parts}.
"""
    if "bayes_opt" in found:
        lines = "\n".join(
            f"| {name} | {len(r['ours'])} | {np.median(r['ours']):.2e} | {np.median(r['theirs']):.2e} | "
            f"{1e3 * np.median(r['our_seconds']):.1f} | {1e3 * np.median(r['their_seconds']):.0f} | {spread(r['speed'])} |"
            for name, r in found["bayes_opt"].items()
        )
        text += f"""
`minimize` is compared with bayes_opt over 100 steps, by the median of the simple regret (the best value found, less the true minimum). The defaults were chosen on the first three functions, with other seeds; levy4 and rosenbrock4 played no
part in the choice.

| function | seeds | regret, squeak | regret, bayes_opt | ms per step, squeak | ms per step, bayes_opt | ratio of the times |
|---|---|---|---|---|---|---|
{lines}
"""
    return text
