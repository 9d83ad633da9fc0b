"""The table of the documents' systems names classes, files and tests that exist."""

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import squeak
from tests.conftest import COLLECTED

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "fidelity.md").read_text()
STATUSES = ("letter", "corrected", "form", "open")


def rows():
    """Return the rows of the tables whose third column is a class."""
    found, inside = [], False
    for line in PAGE.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if line.startswith("| system | where | class |"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            found.append(cells)
    return found


ROWS = rows()


@cache
def functions(path):
    """Return the names of a file's test functions, without importing it."""
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def faults(system, where, name, file, test, status):
    """Return what is wrong with a row."""
    if not status.startswith(STATUSES):
        return [f"{status!r} is no status"]
    if status == "open":
        return [] if (name, file, test) == ("–",) * 3 else ["an open system has no class yet"]
    room, _, attribute = name.rpartition(".")
    member = getattr(import_module(room), attribute, None)
    if member is None:
        return [f"there is no {name}"]
    found = []
    if Path(inspect.getsourcefile(member)) != Path(squeak.__file__).parent / file:
        found.append(f"{name} is not in {file}")
    path, _, function = test.partition("::")
    if not function.startswith("test_") or function not in functions(ROOT / "tests" / path):
        found.append(f"there is no {test}")
    return found


def uncollected(tests, collected):
    """Return the tests that a run which read their files did not find."""
    files = {name.partition("::")[0] for name in collected}
    return [test for test in tests if test.partition("::")[0] in files and test not in collected]


def test_every_test_of_the_table_is_collected_where_its_file_is(request):
    """In a run of everything this is all of them."""
    tests = [row[4] for row in ROWS if row[5] != "open"]
    assert uncollected(tests, request.config.stash[COLLECTED]) == []
    assert uncollected(["a.py::test_x", "b.py::test_x"], {"a.py::test_y"}) == ["a.py::test_x"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_class_file_and_test_of_the_table_exists(row):
    assert faults(*row) == []


def test_the_table_is_complete_as_far_as_it_says():
    assert f"{len(ROWS)} rows" in PAGE
    assert len({row[0] for row in ROWS}) == len(ROWS)
    assert all(re.match(r"\[(C17|CLV17|Ca20|V)\]", row[1]) for row in ROWS)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (2, "squeak.samplers.Squeek", "there is no squeak.samplers.Squeek"),
        (3, "samplers/kors.py", "is not in samplers/kors.py"),
        (4, "samplers/test_literal.py::test_that_nobody_wrote", "there is no samplers"),
        (4, "samplers/test_literal.py::learn", "there is no samplers"),
        (5, "perfect", "is no status"),
        (5, "open", "has no class yet"),
    ],
)
def test_a_wrong_row_is_caught(place, value, words):
    row = list(next(row for row in ROWS if row[0] == "SQUEAK"))
    row[place] = value
    assert words in " ".join(faults(*row))
