"""The site builds without a network and without a warning; every link inside it leads somewhere."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from check_links import wrong_links  # noqa: E402


def test_a_dead_link_a_missing_anchor_and_a_foreign_script_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a> <a href="gone.html">gone</a> <h1 id="top">A</h1>')
    (tmp_path / "b.html").write_text(
        '<a href="a.html#top">a</a> <a href="https://example.org">out</a> <script src="https://cdn.example/x.js"></script>'
    )
    (tmp_path / "c.css").write_text('@import "https://fonts.example/f.css";')
    wrong, looked = wrong_links(tmp_path)
    assert wrong == [
        "a.html: b.html#here has no such anchor",
        "a.html: gone.html does not exist",
        "b.html: loads https://cdn.example/x.js",
        "c.css: loads from elsewhere",
    ]
    assert looked == 3


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_its_links_hold(tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("sphinx_gallery")
    off = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}  # nothing answers there
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-b", "html"]
    made = subprocess.run(
        [*command, "docs", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | off,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-4000:]
    wrong, looked = wrong_links(tmp_path)
    assert not wrong
    assert looked > 1000
    inventory = (tmp_path / "objects.inv").read_bytes().split(b"\n", 4)[4]
    known = zlib.decompress(inventory).decode()
    assert "squeak.Squeak py:class" in known
    assert "squeak.online.ConKonsRegressor py:class" in known
