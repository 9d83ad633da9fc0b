"""One word for one thing: every parameter of a public signature is in the glossary, and no second word for it."""

import inspect
import pkgutil
import re
from pathlib import Path

from benchmarks.house import public

import squeak

GLOSSARY = Path(__file__).resolve().parents[1] / "docs" / "glossary.md"

FORBIDDEN = {
    "tolerance": "tol",
    "max_passes": "max_iter",
    "max_iterations": "max_iter",
    "n_iter": "max_iter",
    "epochs": "max_iter",
    "n_frequencies": "n_features",
    "eta": "step or error",
    "learning_rate": "step",
    "lam": "ridge or alpha",
    "gamma": "ridge",
    "budget": "max_atoms",
    "n_atoms": "max_atoms",
    "seed": "random_state",
    "rng": "random_state",
    "n_neighbours": "n_neighbors",
}
"""Words that mean what another one means already."""


def signatures():
    """Yield every public function, class and method by its name, with the names of its parameters."""
    for name, member in public():
        members = [(name, member)]
        if inspect.isclass(member):
            if issubclass(member, Exception):
                continue
            found = inspect.getmembers(member, inspect.isroutine)
            members += [(f"{name}.{method}", value) for method, value in found if not method.startswith("_")]
        for where, value in members:
            ours = str(getattr(inspect.unwrap(getattr(value, "__func__", value)), "__module__", ""))
            if ours.startswith("squeak"):
                kinds = inspect.signature(value).parameters.values()
                yield where, [p.name for p in kinds if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def words():
    """Return every word of public signatures with a place where it is used."""
    return {word: where for where, names in signatures() for word in names if word not in ("self", "cls")}


def explained():
    """Return the words of the glossary."""
    rows = [line.split("|")[1] for line in GLOSSARY.read_text().splitlines() if line.startswith("| `")]
    return [word for row in rows for word in re.findall(r"`(\w+)`", row)]


def test_every_parameter_is_in_the_glossary():
    unknown = {word: where for word, where in words().items() if word not in {*explained(), *FORBIDDEN}}
    assert not unknown


def test_the_glossary_explains_no_word_twice():
    found = explained()
    assert len(found) == len(set(found)) > 150
    assert not set(found) & set(FORBIDDEN)


def test_no_parameter_has_a_second_word_for_the_same_thing():
    assert not {f"{where}({word}): {FORBIDDEN[word]}" for word, where in words().items() if word in FORBIDDEN}


def test_every_word_of_the_glossary_is_used():
    assert not set(explained()) - set(words())


def test_no_public_function_has_the_name_of_a_module_beside_it():
    for package in pkgutil.walk_packages(squeak.__path__, "squeak."):
        room, _, module = package.name.rpartition(".")
        assert f"{room}.{module}" not in {n for n, member in public() if inspect.isfunction(member)}, package.name
    for name, member in public():
        if inspect.isfunction(member):
            assert member.__module__.rpartition(".")[2] != member.__name__, name
