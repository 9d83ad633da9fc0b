"""Two models on the same rows: the page says which is better, and admits when it cannot tell."""

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak.kernels import RBF
from squeak.report import comparing
from squeak.report.columns import column_panels
from tests.commands import command
from tests.report.objects import numbers
from tests.report.test_write import outline


def told_apart(draws, size):
    """Return in how many draws two models with errors of the same law are said to differ."""
    rng = np.random.default_rng(0)
    losses = (rng.chisquare(1, (2, size)) for _ in range(draws))
    return sum("has the smaller error" in comparing.verdict(pair, ["a", "b"], classes=False) for pair in losses)


def test_equal_models_are_told_apart_in_one_draw_of_twenty(monkeypatch):
    # Binomial(400, 0.05): 20 ± 4.4. Outside 3 to 40 lies a part of less than 1e-4.
    assert 3 <= told_apart(400, 200) <= 40
    monkeypatch.setattr(comparing, "DEVIATIONS", 1.0)  # the mutated twin: one standard error is too little
    assert told_apart(400, 200) > 40


def test_a_model_with_a_clearly_smaller_error_is_named():
    errors = np.full(100, 2.0), np.full(100, 1.0)
    assert "b has the smaller error" in comparing.verdict(errors, ["a", "b"], classes=False)
    assert "a has the smaller error" in comparing.verdict(errors[::-1], ["a", "b"], classes=False)
    assert "cannot be told apart" in comparing.verdict((errors[0], errors[0]), ["a", "b"], classes=False)


def test_two_regressors_and_two_classifiers_become_a_page(tmp_path):
    X, y, labels = numbers()
    pairs = {
        "numbers": ([squeak.KernelRidge(RBF(1.0), max_atoms=m, random_state=0).fit(X, y) for m in (4, 60)], y),
        "experts": (
            [
                squeak.KernelRidge(RBF(1.0), max_atoms=4, random_state=0).fit(X, y),
                squeak.LocalExperts(squeak.KernelRidge(RBF(1.0)), leaf_rows=200, random_state=0).fit(X, y),
            ],
            y,
        ),
        "classes": (
            [squeak.KernelClassifier(RBF(1.0), max_atoms=m, random_state=0).fit(X, labels) for m in (4, 60)],
            labels,
        ),
    }
    for name, (models, targets) in pairs.items():
        path = squeak.report.write_comparison(models, tmp_path / f"{name}.html", X, targets, names=["<b>", "large"])
        texts = " ".join(text for _, text in outline(path).texts)
        assert "large has the smaller error" in texts
        assert "<b>" in texts  # a name is a text, and no markup
        assert name == "experts" or "max_atoms" in texts


def test_what_cannot_be_compared_is_refused_before_a_page_is_written(tmp_path):
    X, y, labels = numbers()
    model = squeak.KernelRidge(RBF(1.0), max_atoms=4, random_state=0).fit(X, y)
    classifier = squeak.KernelClassifier(RBF(1.0), max_atoms=4, random_state=0).fit(X, labels)
    pca = squeak.KernelPCA(2, kernel=RBF(1.0), max_atoms=4, random_state=0).fit(X)
    page = tmp_path / "page.html"
    for models, targets, words in (
        ([model], y, "two models"),
        ([model, classifier], y, "cannot be compared"),
        ([model, pca], y, "predicts no targets"),
        ([model, model], None, "rows and their targets"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            squeak.report.write_comparison(models, page, X, targets, names=["a", "b"][: len(models)])
    assert not page.exists()


def test_the_command_compares_two_files(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(400), "z": rng.standard_normal(400)})
    frame.assign(y=np.sin(2 * frame["x"])).to_csv(tmp_path / "rows.csv", index=False)
    for name, atoms in (("a", 3), ("b", 50)):
        source = squeak.rows(tmp_path / "rows.csv", "y", scale="standard" if name == "a" else None)
        squeak.KernelRidge(RBF(0.7), max_atoms=atoms, random_state=0).fit(source).save(tmp_path / f"{name}.sqk")
    given = ("--data", tmp_path / "rows.csv", "--target", "y", "--out", tmp_path / "two.html")
    done = command("report", tmp_path / "a.sqk", "--compare", tmp_path / "b.sqk", *given)
    assert done.returncode == 0, done.stderr
    assert "b.sqk has the smaller error" in (tmp_path / "two.html").read_text()
    done = command("report", tmp_path / "a.sqk", "--compare", tmp_path / "b.sqk", "--out", tmp_path / "no.html")
    assert done.returncode == 2
    assert "--data and --target" in done.stderr


def columns_of(frame, target):
    """Return the panels of the columns of a dictionary of a table."""
    d = squeak.Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(squeak.rows(frame, target, scale="standard"))
    return column_panels(d.dictionary_, None, None, None)


def test_influences_are_sorted_and_columns_that_move_together_are_named():
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 400))
    frame = pd.DataFrame({"constant_like": np.r_[np.zeros(399), 1.0], "x": x, "twice_x": 2 * x, "z": z, "y": z})
    influence = columns_of(frame, "y")[0]
    names = [influence.body.index(name) for name in (">x<", ">constant_like<")]
    assert names == sorted(names)
    assert "x and twice_x" in influence.words
    assert "move together" not in columns_of(frame.drop(columns="twice_x"), "y")[0].words


def test_dates_are_shown_in_the_order_of_time():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-11-01") + pd.to_timedelta(rng.integers(0, 300, 500), unit="D")
    panels = columns_of(pd.DataFrame({"day": days, "x": rng.standard_normal(500), "y": 0.0}), "y")
    day = next(panel for panel in panels if panel.title == "day")
    places = [day.body.index(f">{month}<") for month in ("2024-11", "2024-12", "2025-01", "2025-08")]
    assert places == sorted(places)
