"""Rows from files and tables: columns, categories, dates, gaps, scales, and what was learned of them."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import scipy.sparse as sp

import squeak
from squeak.kernels import RBF
from squeak.samplers import Squeak
from tests.cases import case, of_dictionary, points


def flights(n=300):
    """Return a table with numbers, a category, a date, truth values and gaps."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "distance": rng.gamma(2.0, 500.0, n).round(0),
            "delay": (30 * rng.standard_normal(n)).round(3),
            "to": rng.choice(["AMS", "CDG", "LIL", "déjà"], n),
            "stops": rng.integers(0, 3, n),
            "night": rng.random(n) < 0.3,
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
        }
    )
    frame["late"] = 0.01 * frame["distance"] + frame["stops"] + rng.standard_normal(n)
    return frame


def gaps(frame):
    """Return the table with values missing in a number, a category and the target."""
    frame = frame.copy()
    frame.loc[::13, "distance"] = np.nan
    frame.loc[::29, "to"] = None
    return frame


def of(source):
    """Return what a source gives."""
    X, y = source.collect()
    found = {"rows": X.toarray() if sp.issparse(X) else X, "names": list(source.feature_names)}
    found |= {"skipped": source.skipped_, "n": source.n_rows}
    return found if y is None else {**found, "target": y}


@case("sources: CSV")
def _(folder):
    flights().to_csv(folder / "f.csv", index=False)
    return of(squeak.rows(folder / "f.csv", "late", scale="standard"))


@case("sources: CSV of another form")
def _(folder):
    gaps(flights()).to_csv(folder / "f.txt.csv", index=False, sep=";", na_rep="missing", header=False)
    source = squeak.rows(
        folder / "f.txt.csv", delimiter=";", header=False, na_values=["missing"], on_bad_rows="skip", scale="robust"
    )
    return of(source)


@case("sources: Parquet, several files")
def _(folder):
    flights().iloc[:120].to_parquet(folder / "a.parquet", row_group_size=50)
    flights().iloc[120:].to_parquet(folder / "b.parquet", row_group_size=50)
    plain = of(squeak.rows(str(folder / "*.parquet"), "late", scale="standard"))
    shuffled, _ = squeak.rows(folder, "late", shuffle=True, random_state=0).collect()
    return {**plain, "shuffled": shuffled}


@case("sources: categories")
def _(folder):
    frame = flights()[["to", "stops", "distance"]]
    codes, _ = squeak.rows(frame, categories="codes").collect()
    chosen = squeak.rows(frame, categories={"to": ["LIL", "AMS"], "stops": "onehot"})
    whole = squeak.rows(frame, categories={"stops": "codes", "*": "onehot"}, drop=["distance"])
    return {"codes": codes, **of(chosen), "whole": whole.collect()[0]}


@case("sources: dates, times and durations")
def _(folder):
    frame = pd.DataFrame(
        {
            "day": flights()["day"][:40],
            "at": [datetime.time(number % 24, 30) for number in range(40)],
            "lasts": pd.to_timedelta(np.arange(40) * 90, unit="s"),
        }
    )
    return of(squeak.rows(frame))


@case("sources: gaps filled and rows skipped")
def _(folder):
    mean = of(squeak.rows(gaps(flights()), "late", missing="mean", scale={"distance": "robust", "*": "standard"}))
    median, _ = squeak.rows(gaps(flights()), "late", missing={"distance": "median", "*": 0.0}).collect()
    skipped = squeak.rows(gaps(flights()), "late", on_bad_rows="skip")
    return {**mean, "median": median, "kept": of(skipped)["rows"], "left out": skipped.skipped_}


@case("sources: arrays, CSR and iterators")
def _(folder):
    X = points(100)
    np.save(folder / "x.npy", X)
    file = squeak.rows(folder / "x.npy", target=0, columns=[1, 2], scale="standard")
    sparse = squeak.rows(sp.csr_array(X * (X > 0)), target=X[:, 0])
    blocks = squeak.rows(iter(np.split(X, 4)), scale=(1.0, 2.0))
    return {**of(file), "sparse": of(sparse)["rows"], "blocks": of(blocks)["rows"]}


@case("sources: preprocessing is applied again")
def _(folder):
    source = squeak.rows(gaps(flights()), "late", scale="standard", missing="mean")
    d = Squeak(RBF(2.0), 3.0, random_state=0).fit(source).dictionary_
    d.save(folder / "d.sqk")
    again = squeak.load(folder / "d.sqk")
    squeak.save(source.preprocessing, folder / "p.sqk")
    encoded = squeak.load(folder / "p.sqk").encode(flights().drop(columns="late")[:50])
    back = again.preprocessing.decode(again.atoms[:6])
    return {
        **of_dictionary(again),
        "scores": again.leverage_scores(flights().drop(columns="late")[:30]),
        "encoded": encoded,
        "back": [str(value) for value in back["to"]],
        "columns": list(again.preprocessing.column_names),
    }
