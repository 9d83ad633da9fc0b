"""The script that measures the code counts what it says, and nothing else."""

import re
from pathlib import Path

import pytest
from benchmarks import house

import squeak
from tests.conftest import LONG, SAMPLED

TWICE = '''
def {name}(rows, width):
    """{words}"""
    total = 0
    for row in rows:
        if row > {number}:
            total += row * width
        else:
            total -= 1
    return total
'''
PRIVATES = """
class Box:
    def __init__(self, other):
        self._size = other._size
        self.__dict__.update(other.__dict__)
        super()._start()

    def look(self, thing):
        return thing._weight + self.inner._weight + self._size
"""
CHECKS = """
def check(x, y):
    if isinstance(x, bool) or not isinstance(x, int) or x < 0:
        raise ValueError
    return y and (isinstance(y, bool) or not isinstance(y, float)) or not isinstance(y, int)
"""
CITING = '''"""As in the spec, section 3."""

def f():
    """Follow DESIGN, section 2."""

def g():
    """A fixed-design risk, not to specify."""
'''


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Return a function that puts texts into files and measures those instead."""

    def put(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setattr(house, "SOURCE", tmp_path)

    return put


def test_the_same_shape_is_seen_under_other_names(measured):
    first = TWICE.format(name="add", words="Add.", number=3)
    measured(a=first, b=TWICE.format(name="weigh", words="Weigh, in other words.", number=99))
    assert len(house.repeated()) == 8  # the docstring is left out
    assert len(house.repeated(blur=False)) == 0
    measured(a=first, b=first)
    assert len(house.repeated(blur=False)) == 8


def test_runs_that_are_short_or_different_are_not_counted(measured):
    measured(a="x = 1\ny = 2\nfoo(x)\n", b="z = 1\nw = 2\nbar(z)\n", c="import a\n" * 9 + "x += 1\n")
    assert house.repeated() == []


def test_signatures_fields_and_tables_are_no_logic(measured):
    fields = "".join(f"    {name}: int\n" for name in "abcdefgh")
    head = "def f(\n" + fields.replace("\n", ",\n") + "):\n"
    declared = f"class A:\n{fields}\n{head}    return a\n"
    inner = (
        "def outer(x):\n" + TWICE.format(name="add", words="Add.", number=3).replace("\n", "\n    ").rstrip() + "\n"
    )
    measured(a=declared, b=declared, c=inner, d=inner)
    assert len(house.repeated()) > 16
    assert {path.name for path, _, _ in house.repeated(bodies=True)} == {"d.py"}
    assert len(house.repeated(bodies=True)) == 7  # without the head of the function within


def test_private_members_of_others_are_counted(measured):
    measured(a=PRIVATES)
    assert [words for _, _, words in house.privates()] == ["other._size", "thing._weight", "self.inner._weight"]
    assert [words for _, _, words in house.privates(foreign=True)] == ["thing._weight", "self.inner._weight"]


def test_checks_constructors_and_citations_are_counted(measured):
    measured(a=CHECKS, b=PRIVATES, c=CITING)
    assert len(house.bool_checks()) == 2
    assert len(house.init_lines()) == 4
    assert [words for _, _, words in house.citations()] == ["the module", "f"]


def test_long_files_are_counted(measured):
    measured(a="x = 1\n" * 401, b="x = 1\n" * 400)
    assert [(path.name, size) for path, size, _ in house.long_files()] == [("a.py", 401)]


LIMITS = {
    "repeated, bodies": 40,
    "foreign privates": 7,
    "long files": 0,
    "citations": 0,
    "imports by name": 1,
    "functions without Returns": 0,
    "methods without Returns": 0,
}
"""How much of each there may be, which is how much there is: lower a number when the code gets better than it.

The aim is no logic that is written twice, fewer than 15 foreign privates, no long file, no citation, a Returns
everywhere, and no import by name but of rooms that ``import squeak`` puts off and of libraries that may be missing.
"""


@pytest.mark.xdist_group("house")  # every file is read and parsed once
@pytest.mark.parametrize("name", LIMITS)
def test_the_house_does_not_get_worse(name):
    places = [f"{path.name}:{line}: {words}" for path, line, words in house.COUNTS[name]()]
    assert len(places) <= LIMITS[name], "\n".join(places)


@pytest.mark.parametrize("entry", [*LONG, *SAMPLED])
def test_every_entry_of_the_list_of_long_tests_is_there(entry):
    file, _, rest = entry.partition("::")
    root = Path(__file__).parents[1 if file.startswith("src/") else 0]
    name = rest.partition("[")[0].split(".")[-1]  # an example has its module's path before its name
    assert re.search(rf"^(def|class) {name}", (root / file).read_text(), re.MULTILINE)


def test_the_version_is_the_same_everywhere():
    root = Path(__file__).resolve().parents[1]
    cited = next(line for line in (root / "CITATION.cff").read_text().splitlines() if line.startswith("version: "))
    assert cited == f"version: {squeak.__version__}"
    assert f"\n## {squeak.__version__}\n" in (root / "CHANGELOG.md").read_text()
    minor = ".".join(squeak.__version__.split(".")[:2])
    assert f"| {minor} | yes |" in (root / "SECURITY.md").read_text()
