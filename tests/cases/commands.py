"""The command: what it writes, and the numbers that it prints. Words may change, and times are left out."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import sys
from pathlib import Path

import networkx as nx
import pandas as pd

import squeak
from squeak.cli import main
from tests.cases import case, of_dictionary
from tests.cases.sources import flights, gaps

NUMBER = re.compile(r"(?<![\w.-])-?\d(?:[\d,]*\d)?(?:\.\d+)?(?:e[+-]?\d+)?(?! kB)\b", re.ASCII)
"""Not the size of a file, in which the versions of libraries stand."""


def said(*arguments):
    """Run the command in this process and return the lines that it printed, without those that tell times."""
    printed, errors = io.StringIO(), io.StringIO()
    before, handler, code = sys.argv, signal.getsignal(signal.SIGTERM), None
    sys.argv = ["squeak", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            main()
    except SystemExit as left:
        code = left.code
    finally:
        sys.argv = before
        signal.signal(signal.SIGTERM, handler)
    if code != 0:
        raise AssertionError(f"squeak {arguments} ended with {code}: {errors.getvalue()}")
    return [line for line in printed.getvalue().splitlines() if "µs" not in line]


def run(*arguments):
    """Run the command and return the numbers that it printed, times left out."""
    return [word for line in said(*arguments) for word in NUMBER.findall(line)]


def inside(function):
    """Run a case in its folder, so that no path of this machine is printed."""

    def entered(folder):
        with contextlib.chdir(folder):
            return function(Path("."))

    return entered


def files():
    """Write the flights as CSV and Parquet."""
    flights().to_csv("f.csv", index=False)
    flights().to_parquet("f.parquet", row_group_size=100)
    gaps(flights()).to_csv("g.csv", index=False)


LOOK = ["--length-scale", 2, "--seed", 1]
FEW = ["--ridge", 8, "--oversampling", 3]


@case("commands: dictionary and show")
@inside
def _(folder):
    files()
    learned = run("dictionary", "f.csv", "--target", "late", *FEW, *LOOK, "--out", "d.sqk")
    shown = run("show", "d.sqk", "--atoms", 3)
    return {**of_dictionary(squeak.load("d.sqk")), "learned": learned, "shown": shown}


@case("commands: dictionary by Kors, with gaps")
@inside
def _(folder):
    files()
    options = ["--missing", "median", "--sampler", "kors", "--kernel", "matern", "--checkpoint", "run.sqk"]
    run("dictionary", "g.csv", "--target", "late", *FEW, *LOOK, *options, "--out", "d.sqk", "-q")
    return of_dictionary(squeak.load("d.sqk"))


@case("commands: dictionary, default ridge and max_atoms")
@inside
def _(folder):
    files()
    printed = run("dictionary", "f.parquet", "--drop", "late", "--max-atoms", 40, "--out", "d.sqk")
    return {**of_dictionary(squeak.load("d.sqk")), "printed": printed}


@case("commands: merge")
@inside
def _(folder):
    flights()[:150].to_csv("a.csv", index=False)
    flights()[150:].to_csv("b.csv", index=False)
    run("dictionary", "a.csv", *FEW, *LOOK, "--out", "a.sqk", "-q")
    run("dictionary", "b.csv", "--like", "a.sqk", "--out", "b.sqk", "-q")
    printed = run("merge", "a.sqk", "b.sqk", "--out", "c.sqk")
    return {**of_dictionary(squeak.load("c.sqk")), "printed": printed}


FITS = {
    "regression": ("f.csv", "late", ["--alpha", 0.5, "--max-atoms", 1000], ["--std"]),
    "regression, max_atoms": ("f.parquet", "late", ["--alpha", 0.5, "--max-atoms", 50], []),
    "gaps": ("g.csv", "late", ["--alpha", 0.5, "--missing", "mean"], ["--on-bad-rows", "skip"]),
    "classification": ("f.csv", "to", ["--alpha", 0.5, "--kernel", "laplacian"], []),
    "logistic": ("f.csv", "to", ["--loss", "logistic", "--alpha", 0.5], ["--probabilities"]),
}


def _fit(data, target, fitting, predicting):
    @inside
    def fitted(folder):
        files()
        run("fit", data, "--target", target, *LOOK, *fitting, "--out", "m.sqk", "-q")
        run("predict", "m.sqk", data, *predicting, "--out", "p.parquet")
        printed = run("evaluate", "m.sqk", data, "--target", target)
        table = pd.read_parquet("p.parquet")
        columns = {f"column {number}": table[name].to_numpy() for number, name in enumerate(table.columns)}
        return {"columns": list(table.columns), **columns, "scores": printed}

    return fitted


for _name, _options in FITS.items():
    _tolerance = {"logistic": 1e-6}.get(_name, 1e-10)
    case(f"commands: fit, predict, evaluate: {_name}", _tolerance)(_fit(*_options))


@case("commands: fit with widths and penalty searched for", 1e-6)
@inside
def _(folder):
    files()
    run("fit", "f.csv", "--target", "late", "--length-scale", "auto", "--seed", 0, "--out", "m.sqk", "-q")
    run("predict", "m.sqk", "f.csv", "--out", "p.csv")
    return {"predictions": pd.read_csv("p.csv")["prediction"].to_numpy()}


@case("commands: online")
@inside
def _(folder):
    files()
    printed = run("online", "f.csv", "--target", "late", *LOOK, "--out", "o.sqk", "-q")
    again = run("online", "f.csv", "--target", "late", "--resume", "o.sqk", "--out", "p.sqk", "-q")
    new = flights().drop(columns="late")[:40]
    found = {"printed": printed, "again": again, "predictions": squeak.load("p.sqk").predict(new)}
    options = ["--task", "classification", "--method", "fogd", *LOOK, "-q"]
    found["labels"] = run("online", "f.parquet", "--target", "to", *options, "--out", "c.sqk")
    second = squeak.load("c.sqk")
    return {**found, "classes": second.classes_, "decision": second.decision_function(flights()[:20])}


def _edges():
    G = nx.planted_partition_graph(2, 60, 0.5, 0.03, seed=0)
    lines = [f"{u} {v} {1 + (u + v) % 3}" for u, v in G.edges]
    Path("e.txt").write_text("\n".join(lines) + "\n")


@case("commands: sparsify")
@inside
def _(folder):
    _edges()
    found = {}
    for way in ("stream", "online", "batch"):
        options = ["--way", way, "--oversampling", 6, "--seed", 1]
        found[f"{way}, printed"] = run("sparsify", "e.txt", *options, "--out", f"{way}.parquet", "--no-measure")
        table = pd.read_parquet(f"{way}.parquet")
        found |= {f"{way}, column {n}": table.iloc[:, n].to_numpy() for n in range(table.shape[1])}
    return found


@case("commands: label", 1e-6)
@inside
def _(folder):
    _edges()
    known = [{"node": node, "label": "ab"[node // 60]} for node in (0, 5, 9, 30, 61, 70, 100, 119)]
    pd.DataFrame(known).to_csv("l.csv", index=False)
    printed = run("label", "e.txt", "--labels", "l.csv", "--oversampling", 10, "--hold-out", 0.25, "--out", "o.csv")
    table = pd.read_csv("o.csv")
    return {"printed": printed, **{name: table[name].to_numpy() for name in table.columns}}


@case("commands: sample")
@inside
def _(folder):
    files()
    run("sample", "f.csv", "--k", 12, "--target", "late", *LOOK, "--out", "s.csv", "-q")
    run("sample", "f.parquet", "--size", 8, "--samples", 3, *LOOK, "--out", "t.parquet", "-q")
    one, many = pd.read_csv("s.csv"), pd.read_parquet("t.parquet")
    found = {"rows": one["row"].to_numpy(), "late": one["late"].to_numpy(), "columns": list(one.columns)}
    return {**found, "many": many["row"].to_numpy(), "samples": many["sample"].to_numpy()}


@case("commands: optimize")
@inside
def _(folder):
    files()
    options = ["--reward", "late", *LOOK, "--fixed", "--noise", 0.5, "--state", "s.sqk", "-q"]
    first = run("optimize", "f.csv", *options, "--steps", 10, "--out", "o.csv")
    second = run("optimize", "f.csv", *options, "--steps", 10, "--out", "p.csv")
    table = pd.read_csv("p.csv")
    found = {"first": first, "second": second, "rows": table["row"].to_numpy()}
    return {**found, "rewards": table["reward"].to_numpy(), "told": int(squeak.load("s.sqk").n_told_)}


@case("commands: optimize in the units of the first rewards")
@inside
def _(folder):
    files()
    options = ["--reward", "late", "--minimize", *LOOK, "--steps", 20, "-q"]
    printed = run("optimize", "f.csv", *options, "--out", "o.csv")
    return {"printed": printed, "rows": pd.read_csv("o.csv")["row"].to_numpy()}


@case("commands: compare")
@inside
def _(folder):
    files()
    options = ["--rows", 120, "--repeats", 1, "--oversampling", "4", "--length-scale", 3, "--ridge", 0.2, "-q"]
    lines = said("compare", "f.csv", "--target", "late", *options)
    seconds = lines[0].split().index("seconds")
    rows = [line.split() for line in lines[1:]]
    return {f"{row[0]} {row[1]}": row[2:seconds] + row[seconds + 1 :] for row in rows}
