"""The API reference lists every public name, once, and nothing that does not exist."""

import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import squeak

PAGES = sorted((Path(__file__).resolve().parents[1] / "docs" / "api").glob("*.rst"))
PRIVATE = {"core", "data", "trees", "cli", "demo", "page", "__main__"}
"""Rooms that users do not import from: the command, its pages, and what everything is built of."""


def listed() -> list[tuple[str, str]]:
    """Return every (module, name) of the reference."""
    found = []
    for page in PAGES:
        module = ""
        for line in page.read_text().splitlines():
            if match := re.match(r"\.\. (?:current)?module:: (\S+)", line):
                module = match[1]
            elif module and (match := re.fullmatch(r"   (\w+)", line)):
                found.append((module, match[1]))
    return found


def public() -> dict[str, object]:
    """Return every public class and function by where it is found first: the top, then the rooms."""
    names = [info.name for info in pkgutil.iter_modules(squeak.__path__)]
    rooms = ["squeak", *(f"squeak.{name}" for name in names if name not in PRIVATE and not name.startswith("_"))]
    found: dict[str, object] = {}
    for room in rooms:
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", ()):
            if name.startswith("__") or name in {path.rpartition(".")[2] for path in rooms}:
                continue
            found.setdefault(name, getattr(module, name))
    return found


def test_the_reference_lists_every_public_name():
    assert {name for _, name in listed()} >= set(public())


def test_the_reference_lists_no_name_twice_and_none_that_is_not_public():
    names = [name for _, name in listed()]
    assert len(names) == len(set(names))
    adapters = {name for module, name in listed() if module.startswith("squeak.adapters")}
    assert set(names) - adapters == set(public())


def test_every_listed_name_can_be_imported_from_where_it_is_listed():
    for module, name in listed():
        extra = module.removeprefix("squeak.adapters.")
        if extra == module or importlib.util.find_spec(extra):  # an adapter without its library is not at hand
            assert getattr(importlib.import_module(module), name).__doc__


def test_every_adapter_is_listed_or_is_called_for_by_others():
    import squeak.adapters

    modules = {info.name for info in pkgutil.iter_modules(squeak.adapters.__path__)}
    assert modules - {"networkx"} == {module.rpartition(".")[2] for module, _ in listed() if ".adapters." in module}


def test_every_page_is_in_the_table_of_contents():
    index = (PAGES[0].parent / "index.rst").read_text()
    for page in PAGES:
        assert page.stem == "index" or re.search(rf"^   {page.stem}$", index, re.MULTILINE)
