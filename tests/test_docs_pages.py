"""What README and the pages of docs show runs as it stands, and their links lead somewhere."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GUIDES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("howto/*.md"))]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
WITH_CODE = [page for page in GUIDES if BLOCK.search(page.read_text())]

sys.path.insert(0, str(DOCS))
from forge import PAGES, site_target  # noqa: E402


def name(page):
    return str(page.relative_to(ROOT))


def links(page):
    return re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text())


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for number, code in enumerate(BLOCK.findall(page.read_text())):
        exec(compile(code, f"{name(page)}, block {number}", "exec"), names)


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_every_link_inside_the_repository_leads_somewhere(page):
    for target in links(page):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [page for page in GUIDES if page.is_relative_to(DOCS)], ids=name)
def test_every_link_out_of_docs_has_a_page_on_the_site(page):
    for target in links(page):
        leads = site_target(target)
        inside = leads.startswith("/") or (page.parent / target).resolve().is_relative_to(DOCS)
        assert inside, f"{target} is neither in docs/ nor known to docs/forge.py"


def test_links_are_led_to_the_pages_of_the_site():
    assert site_target("../benchmarks/README.md") == "/benchmarks.md"
    assert site_target("../../examples/plot_dpp.py") == "/gallery/plot_dpp.rst"
    assert site_target("rows.md") == "rows.md"


def test_pages_of_the_repository_on_the_site_exist_in_both():
    for path, page in PAGES.items():
        assert (ROOT / path).exists()
        assert page == "/gallery/index.rst" or (DOCS / page[1:]).exists()


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_no_page_loads_anything_from_elsewhere(page):
    assert not re.search(r"!\[[^\]]*\]\(https?:|<(script|link|img|iframe)\b", page.read_text())


def test_every_picture_is_shown_and_can_be_drawn_anew():
    shown = {found for page in GUIDES for found in re.findall(r"images/(?!bench_)(\w+)\.png", page.read_text())}
    drawn = {image.stem for image in (DOCS / "images").glob("*.png")}
    assert shown == {name for name in drawn if not name.startswith("bench_")}  # those are drawn by make bench
    for picture in shown:
        assert (DOCS / "figures" / f"{picture}.py").exists() or (ROOT / "examples" / f"plot_{picture}.py").exists()


@pytest.mark.parametrize(
    "page",
    [
        p
        for p in GUIDES
        if p.name
        in {
            "dictionaries.md",
            "samplers.md",
            "disqueak.md",
            "learners.md",
            "pca-and-clustering.md",
            "random-features.md",
            "online.md",
            "graphs.md",
            "bandits.md",
            "dpp.md",
            "rows.md",
            "accuracy.md",
        }
    ],
    ids=name,
)
def test_a_guide_has_an_example_a_picture_and_says_when_not_to_use_it(page):
    text = page.read_text()
    assert BLOCK.search(text)
    assert "](images/" in text
    for heading in ("idea", "guarantee", "when to use", "when not to use"):
        assert re.search(rf"^## .*{heading}", text, re.MULTILINE | re.IGNORECASE), heading
