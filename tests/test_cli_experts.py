"""The command on local experts that Python has saved: the numbers are those of Python."""

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import KernelClassifier, KernelRidge, LocalExperts
from squeak.cli.answering import Answering
from squeak.kernels import RBF
from squeak.learners import KernelGradientDescent
from tests.test_cli import run_here

QUICK = {"leaf_rows": 200, "split_kernel": RBF(1.0), "random_state": 0}
RIDGE = KernelRidge(RBF(0.8), 1e-2, max_atoms=40)
CLASSES = KernelClassifier(RBF(0.8), 1e-2, max_atoms=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a table, an array and files of experts that were fitted to them."""
    where, rng = tmp_path_factory.mktemp("experts"), np.random.default_rng(0)
    frame = pd.DataFrame({"a": 100 * rng.uniform(-2, 2, 600), "town": rng.choice(["x", "y"], 600)})
    frame["b"] = rng.uniform(-2, 2, 600)
    frame["y"] = np.sin(4 * frame.a / 100) + 0.2 * frame.b + 0.1 * rng.standard_normal(600)
    frame["c"] = np.where(frame.y > 0.2, "up", np.where(frame.b > 0, "mid", "down"))
    frame.to_csv(where / "t.csv", index=False)
    X = np.column_stack([frame.a / 100, frame.b])
    np.save(where / "X.npy", X)
    pd.DataFrame({"one": X[:, 0], "two": X[:, 1], "y": frame.y}).to_csv(where / "numbers.csv", index=False)

    def rows(target, other):
        return squeak.rows(where / "t.csv", target=target, drop=[other], scale="standard")

    for name, model in {
        "table": LocalExperts(RIDGE, **QUICK).fit(rows("y", "c")),
        "classes": LocalExperts(CLASSES, **QUICK).fit(rows("c", "y")),
        "array": LocalExperts(RIDGE, **QUICK).fit(X, frame.y),
        "outputs": LocalExperts(RIDGE, **QUICK).fit(X, np.c_[frame.y, -frame.y]),
        "descent": LocalExperts(KernelGradientDescent(RBF(0.8), max_iter=5), **QUICK).fit(rows("y", "c")),
    }.items():
        model.save(where / f"{name}.sqk")
    return where


@pytest.fixture
def here(folder, monkeypatch, capsys):
    """Return a function that runs a command in the folder, and gives its exit code, output and errors."""
    monkeypatch.chdir(folder)

    def run(*arguments):
        code, printed = run_here(monkeypatch, capsys, *arguments)
        return code, printed.out, " ".join(printed.err.split())

    return run


def test_predict_writes_what_python_predicts(here):
    asked = ["--std", "--interval", 0.8, "--overwrite", "--out", "p.parquet"]
    code, _, said = here("predict", "table.sqk", "t.csv", *asked)
    assert code == 0, said
    found, model, frame = pd.read_parquet("p.parquet"), squeak.load("table.sqk"), pd.read_csv("t.csv")
    mean, std = model.predict(frame, return_std=True)
    low, high = model.predict_interval(frame, 0.8)
    for name, values in {"prediction": mean, "std": std, "low": low, "high": high}.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12)
    code, _, said = here("predict", "array.sqk", "X.npy", *asked)
    assert code == 0, said
    low, high = squeak.load("array.sqk").predict_interval(np.load("X.npy"), 0.8)
    np.testing.assert_allclose(pd.read_parquet("p.parquet").high, high, rtol=1e-12)


def test_predict_writes_classes_and_their_probabilities(here):
    code, _, said = here(
        "predict", "classes.sqk", "t.csv", "--probabilities", "--overwrite", "--out", "p.parquet", "--keep", "town"
    )
    assert code == 0, said
    found, model, frame = pd.read_parquet("p.parquet"), squeak.load("classes.sqk"), pd.read_csv("t.csv")
    assert list(found.columns) == ["town", "prediction", "p(down)", "p(mid)", "p(up)"]
    assert found.prediction.tolist() == model.predict(frame).tolist()
    np.testing.assert_allclose(found.iloc[:, 2:], model.predict_proba(frame), rtol=1e-12)


def test_evaluate_measures_what_python_measures(here):
    frame = pd.read_csv("t.csv")
    for name, data in (("table", "t.csv"), ("array", "numbers.csv")):
        code, out, said = here("evaluate", f"{name}.sqk", data, "--target", "y")
        assert code == 0, said
        rows = frame if name == "table" else np.load("X.npy")
        model = squeak.load(f"{name}.sqk")
        low, high = model.predict_interval(rows, 0.9)
        assert f"R²                       {model.score(rows, frame.y):.4f}" in out
        assert f"90% interval: {np.mean((low <= frame.y) & (frame.y <= high)):.1%} of the targets lie in it" in out
    code, out, said = here("evaluate", "classes.sqk", "t.csv", "--target", "c")
    assert code == 0, said
    model = squeak.load("classes.sqk")
    right = model.predict_proba(frame)[np.arange(600), np.searchsorted(model.classes_, frame.c)]
    assert f"accuracy  {100 * model.score(frame, frame.c):.2f}%" in out
    assert f"log loss  {-np.mean(np.log(right)):.4f}" in out


def test_experts_that_do_not_know_their_errors_are_evaluated_and_served_without_intervals(here):
    code, out, said = here("evaluate", "descent.sqk", "t.csv", "--target", "y")
    assert code == 0, said
    assert "root mean squared error" in out
    assert "interval" not in out
    code, _, said = here("predict", "descent.sqk", "t.csv", "--interval", 0.9, "--overwrite", "--out", "q.csv")
    assert code == 1
    assert "it is not known how far off these experts are" in said
    for name, answers in {
        "descent": ["predictions"],
        "table": ["predictions", "low", "high"],
        "classes": ["predictions", "probabilities"],
    }.items():
        assert Answering(squeak.load(f"{name}.sqk"), "m.sqk", 10).described()["answers"] == answers


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "table.sqk", "t.csv", "--probabilities"], "--probabilities is for classes"),
        (["predict", "classes.sqk", "t.csv", "--std"], "--std is for regression"),
        (["predict", "outputs.sqk", "X.npy"], "several outputs at once"),
        (["predict", "array.sqk", "numbers.csv"], "fitted to an array of 2 columns"),
        (["evaluate", "array.sqk", "t.csv", "--target", "y"], "fitted to an array of 2 columns"),
        (["evaluate", "table.sqk", "t.csv", "--target", "a"], "so it is not its target"),
    ],
)
def test_what_cannot_be_done_is_said(here, arguments, words):
    out = ["--overwrite", "--out", "no.csv"] if arguments[0] == "predict" else []
    code, _, said = here(*arguments, *out)
    assert code == 1
    assert words in said


def test_a_table_for_a_model_of_an_array_is_taken_by_its_order_and_that_is_said(here):
    code, _, said = here("evaluate", "array.sqk", "numbers.csv", "--target", "y")
    assert code == 0
    assert "columns are taken in their order, one, two" in said


def test_show_says_what_they_are_made_of(here):
    _, out, _ = here("show", "table.sqk")
    model = squeak.load("table.sqk")
    assert f"parts                {model.tree_.n_leaves}, each with a model of its own" in out
    assert f"atoms                {40 * model.tree_.n_leaves}, of which every part has 40" in out
    assert "intervals            yes" in out
    assert "town                 one number for each of 2 values: x, y" in out
    _, out, _ = here("show", "descent.sqk")
    assert "intervals            no" in out
    _, out, _ = here("show", "classes.sqk")
    assert "classes: down, mid, up" in out
    assert "probabilities        yes" in out


def test_classes_from_a_file_are_a_classifier_to_scikit_learn(folder):
    from sklearn.base import is_classifier, is_regressor

    assert is_classifier(squeak.load(folder / "classes.sqk"))
    assert is_regressor(squeak.load(folder / "table.sqk"))
