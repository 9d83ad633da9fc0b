"""The report as a file: whole, safe, small, and one for every kind of object."""

import html.parser
import re
import time
from dataclasses import replace

import numpy as np
import pytest

import squeak
from squeak.kernels import RBF, PairwiseKernel
from squeak.kinds import KINDS
from squeak.report.shell import Safe, number, table, tag
from tests.report.objects import N, every_kind, flights, numbers

MAKERS = every_kind()
VOID = {"meta", "br"}


class Outline(html.parser.HTMLParser):
    """Checks that tags are closed in order, and remembers them with their attributes and texts."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))


def outline(path):
    """Return the parsed page after the checks that every page passes."""
    text = path.read_text(encoding="utf-8")
    page = Outline()
    page.feed(text)
    page.close()
    assert page.open == []
    names = [name for name, _ in page.tags]
    assert names.count("script") == names.count("style") == names.count("h1") == 1
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(names)
    for name, attributes in page.tags:
        assert not any(key.startswith("on") for key in attributes), f"<{name}> has a handler"
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"https?://", text)
    assert "nan" not in re.findall(r'(?:cx|cy|x|y|d|width)="([^"]*)"', text)
    sections = {attributes["id"] for name, attributes in page.tags if name == "section"}
    assert {a["href"][1:] for name, a in page.tags if name == "a"} == sections
    assert sections
    return page


def words_of(page):
    return " ".join(data for element, data in page.texts if element not in ("style", "script"))


def test_every_kind_of_file_has_its_test():
    assert set(MAKERS) == set(KINDS)


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_every_kind_of_saved_object_has_a_page(kind, tmp_path):
    squeak.save(MAKERS[kind](), tmp_path / "o.sqk")
    page = outline(squeak.report.write(squeak.load(tmp_path / "o.sqk"), tmp_path / "r.html", name="o.sqk"))
    assert "o.sqk" in words_of(page)
    panels = [a for name, a in page.tags if name == "figure"]
    assert len(panels) >= 2
    assert [name for name, _ in page.tags].count("h3") == len(panels)


@pytest.mark.parametrize(
    "kind",
    [
        "kernel-ridge",
        "kernel-classifier",
        "local-experts",
        "online",
        "random-feature-regressor",
        "random-feature-classifier",
    ],
)
def test_predictions_stand_beside_the_truth(kind, tmp_path):
    X, y, labels = numbers()
    model = MAKERS[kind]()
    truth = labels if hasattr(model, "classes_") else y
    page = words_of(outline(squeak.report.write(model, tmp_path / "r.html", X, truth)))
    found = model.score(X, truth)
    if hasattr(model, "classes_"):
        assert f"{100 * found:.3g}%" in page
    else:
        assert f"R² {found:.4g}" in page


def test_the_measured_accuracy_is_the_librarys_own(tmp_path):
    X = numbers()[0]
    d = MAKERS["dictionary"]()
    eps = squeak.leverage.accuracy(d, X)
    page = words_of(outline(squeak.report.write(d, tmp_path / "r.html", X)))
    assert f"ε̂ = {eps:.3f}" in page
    assert "Measured exactly" in page
    assert f"{number(eps / (1 - eps) * d.ridge)} in every direction" in page
    assert f"at most {number(1 / (1 - eps) ** 2)} times" in page


def test_rows_of_other_data_are_not_taken_for_those_learned_from(tmp_path):
    d = MAKERS["dictionary"]()
    page = words_of(outline(squeak.report.write(d, tmp_path / "r.html", numbers()[0][::-1])))
    assert "are not the 400 that the dictionary was learned from" in page
    assert "these hold" not in page


def test_many_rows_are_bracketed(tmp_path, rng):
    X = rng.standard_normal((3000, 2))
    d = squeak.Squeak(RBF(2.0), ridge=5.0, oversampling=30, random_state=0).fit(X).dictionary_
    found = squeak.leverage.estimate_accuracy(d, X)
    page = words_of(outline(squeak.report.write(d, tmp_path / "r.html", X)))
    assert f"{found.lower:.2f} ≤ ε̂ ≤ {number(found.upper, 3)}" in page


def test_texts_from_the_data_are_never_markup(tmp_path):
    frame = flights()
    source = squeak.rows(frame, "delay", scale="standard")
    model = squeak.KernelRidge(RBF("median"), alpha=1.0, max_atoms=40, random_state=0).fit(source)
    name = "<script>alert(2)</script>.sqk"
    page = outline(squeak.report.write(model, tmp_path / "r.html", source, name=name))
    text = (tmp_path / "r.html").read_text()
    assert text.count("<script") == 1
    assert "<script>alert(2)</script>.sqk" in words_of(page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "script-src 'sha256-" in policy
    assert "default-src 'none'" in policy


def test_classes_and_sources_are_escaped_too(tmp_path):
    X, _, labels = numbers()
    named = np.where(labels == "late", "<img src=x onerror=alert(1)>", "</table>")
    model = squeak.KernelClassifier(RBF(1.0), max_atoms=30, random_state=0).fit(X, named)
    outline(squeak.report.write(model, tmp_path / "r.html", X, named))
    a, b = (
        squeak.Squeak(RBF(1.0), 1.0, source=name, random_state=0).fit(X).dictionary_ for name in ("<b>", '"><i>')
    )
    outline(squeak.report.write(squeak.merge(a, b, random_state=0), tmp_path / "m.html"))


def test_markup_is_escaped_unless_it_was_made_here():
    assert tag("p", "<b>", tag("i", "&")) == "<p>&lt;b&gt;<i>&amp;</i></p>"
    assert tag("p", title='"><script>') == '<p title="&quot;&gt;&lt;script&gt;"></p>'
    assert "<b>" not in table(["<b>"], [["<b>", 1.0]])
    assert tag("p", "\x00\x1b[31m\ud800") == "<p>\ufffd\ufffd[31m\ufffd</p>"
    assert isinstance(tag("p"), Safe)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (-0.5, "−0.5"),
        (np.nan, "–"),
        (np.inf, "∞"),
        (1e-7, "1e−07"),
        (12345.6, "12,346"),
    ],
)
def test_numbers_are_written_to_be_read(value, words):
    assert number(value) == words


def test_the_history_is_kept_with_the_dictionary_and_drawn(tmp_path, rng):
    sampler = squeak.Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(rng.standard_normal((5000, 2)))
    sampler.dictionary_.save(tmp_path / "d.sqk")
    d = squeak.load(tmp_path / "d.sqk")
    kept = [
        [entry[name] for name in ("rows", "atoms", "effective_dimension", "ridge")] for entry in sampler.history_
    ]
    np.testing.assert_array_equal(d.record.history, kept)
    assert "Growth along the stream" in words_of(outline(squeak.report.write(d, tmp_path / "r.html")))


def test_the_record_is_no_part_of_the_dictionarys_value_and_bounded(rng):
    X = rng.standard_normal((2000, 2))
    whole = squeak.Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(X)
    assert whole.dictionary_.record is not None
    assert whole.dictionary_ == replace(whole.dictionary_, record=None)
    long = [{"rows": place + 1.0, "atoms": 1.0, "effective_dimension": 1.0, "ridge": 1.0} for place in range(9999)]
    record = squeak.samplers.record.Record.of(whole, long)
    assert len(record.history) == 256
    assert record.history[[0, -1], 0].tolist() == [1.0, 9999.0]


def test_the_merge_tree_is_kept_and_drawn(tmp_path, rng):
    sampler = squeak.Disqueak(RBF(1.0), ridge=1.0, n_leaves=4, random_state=0).fit(rng.standard_normal((2000, 2)))
    sampler.dictionary_.save(tmp_path / "d.sqk")
    d = squeak.load(tmp_path / "d.sqk")
    assert d.record.merges == sampler.tree_.merges
    np.testing.assert_array_equal(d.record.nodes[:, 1], [node.atoms for node in sampler.nodes_])
    page = outline(squeak.report.write(d, tmp_path / "r.html"))
    assert sum(name == "circle" and "node" in a.get("class", "") for name, a in page.tags) == 7
    assert "Merge tree" in words_of(page)


def test_merged_dictionaries_say_what_they_came_from(rng):
    parts = [squeak.Squeak(RBF(1.0), 1.0, random_state=0).fit(rng.standard_normal((300, 2))) for _ in range(3)]
    merged = squeak.merge(*[part.dictionary_ for part in parts], random_state=5)
    assert merged.record.sampler == "merge"
    assert merged.record.merges == ((0, 1, 2),)
    assert merged.record.nodes[:, 0].tolist() == [300, 300, 300, 900]


def test_convergence_survives_saving(tmp_path):
    for kind, name in (("kernel-ridge", "residuals_"), ("random-feature-regressor", "validation_errors_")):
        model = MAKERS[kind]()
        squeak.save(model, tmp_path / "m.sqk")
        again = squeak.load(tmp_path / "m.sqk")
        np.testing.assert_array_equal(getattr(again, name), np.ravel(getattr(model, name)))
        page = words_of(outline(squeak.report.write(again, tmp_path / "r.html")))
        assert ("Convergence" if name == "residuals_" else "Validation") in page


def test_the_pasted_lines_give_the_same_dictionary(tmp_path, monkeypatch):
    flights("x").to_csv(tmp_path / "DATA", index=False)
    (tmp_path / "DATA").rename(tmp_path / "data.csv")
    monkeypatch.chdir(tmp_path)
    source = squeak.rows("data.csv", columns=["x", "to", "day"], scale="standard")
    d = squeak.Squeak(RBF("median"), ridge=2.0, oversampling=4, random_state=11).fit(source).dictionary_
    d.save("d.sqk")
    squeak.report.write(squeak.load("d.sqk"), "r.html", name="d.sqk")
    page = outline(tmp_path / "r.html")
    code = next(data for element, data in page.texts if element == "code" and "import squeak" in data)
    space = {}
    exec(code.replace("DATA", "data.csv"), space)
    assert space["d"] == d


def test_the_pasted_lines_give_the_same_model(tmp_path):
    X, y, _ = numbers()
    model = squeak.KernelRidge(RBF("median"), alpha=0.5, max_atoms=30, random_state=2).fit(X, y)
    page = outline(squeak.report.write(model, tmp_path / "r.html"))
    code = next(data for element, data in page.texts if element == "code" and "import squeak" in data)
    lines = [line for line in code.splitlines() if "..." not in line and "load" not in line]
    space = {"X": X, "y": y}
    exec("\n".join(lines), space)
    np.testing.assert_array_equal(space["found"].dual_coef_, model.dual_coef_)


def test_five_thousand_atoms_make_a_small_page_soon(tmp_path, rng):
    X = rng.standard_normal((5000, 6))
    d = squeak.Dictionary(
        kernel=RBF(2.0),
        atoms=X,
        indices=np.arange(5000) * 3,
        probabilities=rng.uniform(0.1, 1.0, 5000),
        counts=np.ones(5000, dtype=np.int64),
        copies=1,
        oversampling=10.0,
        ridge=5.0,
        n_seen=15_000,
        sources=(("all", 15_000),),
    )
    begin = time.process_time()
    path = squeak.report.write(d, tmp_path / "r.html")
    assert path.stat().st_size < 3e6
    assert time.process_time() - begin < 30
    assert "The largest 500 of 5,000 are shown" in words_of(outline(path))


def test_the_largest_eigenvalues_are_those_of_the_whole_matrix(rng, monkeypatch):
    from squeak.report import dictionary as spectrum

    X, weights = rng.standard_normal((700, 2)), rng.uniform(1.0, 5.0, 700)
    whole = spectrum.spectrum_of(RBF(1.0)(X), weights)
    monkeypatch.setattr(spectrum, "ALL_UP_TO", 10)
    monkeypatch.setattr(spectrum, "LARGEST", 60)
    monkeypatch.setattr(spectrum, "EXTRA", 20)
    few = spectrum.spectrum_of(RBF(1.0)(X), weights)
    np.testing.assert_allclose(few[:40], whole[:40], rtol=0.01)
    assert (few <= whole[:60] * (1 + 1e-9)).all()


def test_rows_that_are_objects_have_a_page(tmp_path):
    words = [f"word{place % 17}" for place in range(200)]
    kernel = PairwiseKernel(lambda a, b: float(a == b) + 0.1)
    d = squeak.Squeak(kernel, ridge=1.0, random_state=0).fit(words).dictionary_
    assert "word" in words_of(outline(squeak.report.write(d, tmp_path / "r.html")))


def test_sparse_rows_and_landmarks_without_weights_have_a_page(tmp_path, rng):
    import scipy.sparse as sp

    X = sp.random(500, 2000, density=0.01, format="csr", random_state=0)
    outline(
        squeak.report.write(squeak.Squeak(RBF(2.0), 1.0, random_state=0).fit(X).dictionary_, tmp_path / "s.html")
    )
    chosen = squeak.samplers.RPCholesky(RBF(1.0), max_atoms=20, random_state=0).fit(numbers()[0])
    page = words_of(outline(squeak.report.write(chosen, tmp_path / "l.html", numbers()[0])))
    assert "carry no weights" in page


def test_one_atom_and_constant_columns_have_a_page(tmp_path):
    d = squeak.Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(np.ones((50, 2))).dictionary_
    outline(squeak.report.write(d, tmp_path / "r.html", np.ones((50, 2))))


@pytest.mark.parametrize(
    "what", [3, "text", np.ones(3), RBF(1.0), squeak.Squeak(), squeak.KernelRidge(), squeak.Dictionary]
)
def test_what_has_no_report_is_refused_and_nothing_written(what, tmp_path):
    with pytest.raises((TypeError, ValueError), match="there is no report of"):
        squeak.report.write(what, tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_the_page_that_was_there(tmp_path, monkeypatch):
    d = MAKERS["dictionary"]()
    path = squeak.report.write(d, tmp_path / "r.html")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="2 columns"):
        squeak.report.write(d, path, np.ones((10, 2)))
    with pytest.raises(ValueError, match="targets"):
        squeak.report.write(d, path, numbers()[0], np.ones(3))
    with pytest.raises(FileNotFoundError):
        squeak.report.write(d, tmp_path / "nowhere" / "r.html")
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.html"]
    assert d.n_seen == N


def test_notebooks_show_a_dictionary_at_a_glance():
    d = squeak.Squeak(RBF(1.0), ridge=1.0, source="<b>x</b>", random_state=0).fit(numbers()[0]).dictionary_
    shown = d._repr_html_()
    page = Outline()
    page.feed(shown)
    assert page.open == []
    text = " ".join(data for _, data in page.texts)
    assert f"{len(d):,}" in text
    assert "400" in text
    assert f"about {d.effective_dimension():.3g}" in text
    assert "<b>x</b>" in text
    assert [name for name, _ in page.tags].count("rect") > 3
    assert (
        "<rect"
        in squeak.samplers.RPCholesky(RBF(1.0), max_atoms=9, random_state=0)
        .fit(numbers()[0])
        .dictionary_._repr_html_()
    )
    assert "KernelRidge" in squeak.KernelRidge()._repr_html_()
