"""Every example of the gallery runs, teaches in the gallery's form, and leaves one figure with something in it."""

import ast
import re
import runpy
import warnings
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws_one_figure(path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    monkeypatch.setattr(plt, "show", lambda: None)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error")
            names = runpy.run_path(str(path), run_name="__main__")
        assert isinstance(names["figure"], Figure)
        assert names["figure"].axes
        assert all(axes.has_data() for axes in names["figure"].axes)
        assert plt.get_fignums() in ([], [names["figure"].number] if plt.get_fignums() else [])
    finally:
        plt.close("all")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_explains_itself(path):
    text = path.read_text()
    title, rule, blank, *prose = ast.get_docstring(ast.parse(text)).splitlines()
    assert rule == "=" * len(title)
    assert not blank
    assert len(" ".join(prose)) > 100
    assert "# %%" in text
    assert len(text.splitlines()) <= 90
    assert not re.search(r"https?://|fetch_|SQUEAK_DATA|savefig", text)


def test_every_example_has_its_place_in_the_gallery():
    order = re.search(
        r"ORDER = \[(.*?)\]", (EXAMPLES[0].parents[1] / "docs" / "gallery_parts.py").read_text(), re.DOTALL
    )
    assert sorted(re.findall(r'"(\w+)"', order[1])) == sorted(path.stem.removeprefix("plot_") for path in EXAMPLES)


def test_there_is_an_example_for_every_room():
    together = "\n".join(path.read_text() for path in EXAMPLES)
    for room in ("samplers", "online", "graphs", "bandits", "dpp", "leverage", "kernels", "report"):
        assert re.search(rf"^from squeak\.{room} import", together, re.MULTILINE), room
    for name in (
        "Disqueak",
        "KernelRidge",
        "KernelClassifier",
        "KernelPCA",
        "KernelKMeans",
        "RandomFeatures",
        "rows",
    ):
        assert name in together
    assert len(EXAMPLES) >= 15
