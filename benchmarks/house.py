"""Measure the code itself: its size, what is written twice, who reaches into whom, what docstrings lack.

    python -m benchmarks.house                       the table
    python -m benchmarks.house --where privates      every place that one line of the table counts

How each is counted:

- ``lines``: of the Python files of ``src``, all of them; ``files``: how many, and the lines of the middle one.
- ``repeated``: lines within a run of six or more lines whose shape stands elsewhere too. Blank lines, comments,
  docstrings, imports and ``__all__`` are left out first. The shape of a line is its tokens with every name, string
  and number blurred (keywords and signs stay). The first of equal runs is free; the lines of all others count.
- ``repeated, same names``: the same, with names, strings and numbers as they are.
- ``repeated, bodies``: the same as ``repeated``, of the bodies of functions alone. Signatures with one parameter on
  each line, the fields of classes and tables of constants have the same shapes too, and repeat no logic.
- ``privates``: ``x._name``, where x is not ``self``, ``cls`` or ``super()`` and the name is no dunder.
  ``foreign privates`` leaves out those that a class reads from another of its own kind: the class that the access
  stands in assigns, declares or defines a member of that name.
- ``bool checks``: ``isinstance(x, bool) or not isinstance(x, …)``.
- ``__init__ lines``: from each ``def __init__`` to its end.
- ``citations``: docstrings that cite Spec or DESIGN, which readers do not have.
- ``functions without Returns`` and ``methods without Returns``: public ones (in the ``__all__`` of a public module;
  methods of its classes, properties left out) that give something back and whose docstring has no such section,
  nor that of a method which they override.
- ``imports by name``: calls of ``import_module`` and ``__import__``.
- ``long files``: those above 400 lines.

``tests/test_house.py`` sets a limit to some of them.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import io
import keyword
import re
import statistics
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src" / "squeak"
ROOMS = ("bandits", "checks", "dpp", "graphs", "kernels", "learners", "leverage", "online", "report", "samplers")
RUN = 6
LONG = 400
SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
BLURRED = {tokenize.NAME: "n", tokenize.STRING: "s", tokenize.NUMBER: "0"}
CITATION = re.compile(r"\b[Ss]pec\b|\bDESIGN\b")
Place = tuple[Path, int, str]
"""A file, a line and a few words."""


def files() -> list[Path]:
    """Return the Python files of the package."""
    return sorted(SOURCE.rglob("*.py"))


def parsed() -> Iterator[tuple[Path, ast.Module]]:
    """Yield every file with its tree."""
    for path in files():
        yield path, _tree(path.read_text(encoding="utf8"))


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def documented(tree: ast.Module) -> Iterator[tuple[ast.AST, Any]]:
    """Yield every module, class and function that has a docstring, with it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if _is_text(first):
                yield node, first


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _span(node: Any) -> range:
    return range(node.lineno, node.end_lineno + 1)


def left_out(tree: ast.Module) -> set[int]:
    """Return the lines of docstrings, bare strings, imports and ``__all__``."""
    found: set[int] = set()
    for node in ast.walk(tree):
        listed = isinstance(node, ast.Assign) and any(ast.unparse(t) == "__all__" for t in node.targets)
        if _is_text(node) or listed or isinstance(node, ast.Import | ast.ImportFrom):
            found.update(_span(node))
    return found


def in_bodies(tree: ast.Module) -> set[int]:
    """Return the lines of the statements that functions run, without the heads of functions within them."""
    found: set[int] = set()
    for node in ast.walk(tree):  # from the outside in, so that an inner head is taken out of an outer body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found -= set(_span(node))
            found.update(line for statement in node.body for line in _span(statement))
    return found


def shapes(path: Path, blur: bool, bodies: bool = False) -> list[tuple[int, str]]:
    """Return the lines of code, or of ``bodies`` alone, with their shapes: the tokens, blurred where asked."""
    text = path.read_text(encoding="utf8")
    lines = _shapes(text, blur)
    inside = in_bodies(_tree(text)) if bodies else ()
    return [(line, shape) for line, shape in lines if line in inside] if bodies else lines


@cache
def _shapes(text: str, blur: bool) -> list[tuple[int, str]]:
    skip = left_out(_tree(text))
    lines: dict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type not in SKIPPED and line not in skip:
            name = token.type == tokenize.NAME and keyword.iskeyword(token.string)
            word = BLURRED.get(token.type, token.string) if blur and not name else token.string
            lines[line].append(word)
    return [(line, " ".join(words)) for line, words in sorted(lines.items())]


def repeated(blur: bool = True, bodies: bool = False) -> list[Place]:
    """Return the lines that repeat the shape of earlier ones, in runs of six or more."""
    seen: dict[tuple[str, ...], tuple[Path, int]] = {}
    found: list[Place] = []
    for path in files():
        lines = shapes(path, blur, bodies)
        copied: set[int] = set()
        for start in range(len(lines) - RUN + 1):
            window = tuple(shape for _, shape in lines[start : start + RUN])
            first = seen.setdefault(window, (path, start))
            if first != (path, start) and not (first[0] == path and start - first[1] < RUN):
                copied.update(range(start, start + RUN))
        found += [(path, lines[place][0], lines[place][1]) for place in sorted(copied)]
    return found


def _own(tree: ast.Module) -> Iterator[tuple[ast.ClassDef, set[str]]]:
    """Yield every class with the private names that it assigns, declares or defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names = {n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                    names.add(inner.attr)
                elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                    names.add(inner.target.id)
            yield node, names


def _is_private(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
        return False
    if node.attr.startswith("__") and node.attr.endswith("__"):
        return False
    holder = node.value
    own = isinstance(holder, ast.Name) and holder.id in ("self", "cls")
    inherited = isinstance(holder, ast.Call) and ast.unparse(holder.func) == "super"
    return not own and not inherited


def privates(foreign: bool = False) -> list[Place]:
    """Return the accesses to private members of another object; ``foreign``: of another class only."""
    found = []
    for path, tree in parsed():
        kin: set[int] = set()
        for node, names in _own(tree):
            kin |= {id(n) for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr in names}
        found += [
            (path, node.lineno, ast.unparse(node))
            for node in ast.walk(tree)
            if _is_private(node) and not (foreign and id(node) in kin)
        ]
    return found


def bool_checks() -> list[Place]:
    """Return the checks that a number is one and not a truth value."""
    return [
        (path, node.lineno, f"{first} or {second}")
        for path, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
        for first, second in pairwise(map(ast.unparse, node.values))
        if re.fullmatch(r"isinstance\(.+, bool\)", first) and second.startswith("not isinstance(")
    ]


def init_lines() -> list[Place]:
    """Return the lines of constructors."""
    return [
        (path, line, "")
        for path, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        for line in _span(node)
    ]


def citations() -> list[Place]:
    """Return the docstrings that cite papers which readers do not have."""
    return [
        (path, doc.lineno, getattr(node, "name", "the module"))
        for path, tree in parsed()
        for node, doc in documented(tree)
        if CITATION.search(ast.literal_eval(doc.value))
    ]


def imports_by_name() -> list[Place]:
    """Return the calls that import a module by its name in a string."""
    return [
        (path, node.lineno, ast.unparse(node))
        for path, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__")
    ]


def long_files() -> list[Place]:
    """Return the files that are too long to be read at one sitting."""
    sizes = {path: len(path.read_text(encoding="utf8").splitlines()) for path in files()}
    return [(path, size, "lines") for path, size in sizes.items() if size > LONG]


def _gives_back(function: Any) -> bool:
    return inspect.signature(function).return_annotation not in (None, "None", "NoReturn", inspect.Signature.empty)


def _without_returns(function: Any) -> bool:
    words = inspect.getdoc(function) or ""
    return _gives_back(function) and not re.search(r"^(Returns|Yields)\n-+$", words, re.MULTILINE)


def public() -> Iterator[tuple[str, Any]]:
    """Yield every public name of every public module once, with its module."""
    seen = set()
    for room in ("", *ROOMS):
        module = importlib.import_module(f"squeak.{room}".rstrip("."))
        for name in module.__all__:
            member = getattr(module, name)
            if callable(member) and id(member) not in seen and str(member.__module__).startswith("squeak"):
                seen.add(id(member))
                yield f"{module.__name__}.{name}", member


def _place(function: Any, name: str) -> Place:
    code = inspect.unwrap(function)
    return Path(inspect.getsourcefile(code) or ""), code.__code__.co_firstlineno, name


def _overridden(cls: Any, method: str) -> list[Any]:
    """Return the functions by that name in a class and its bases: what one of them says need not be said again."""
    found = [vars(base)[method] for base in cls.__mro__ if method in vars(base)]
    return [function for member in found if inspect.isfunction(function := getattr(member, "__func__", member))]


def functions_without_returns() -> list[Place]:
    """Return the public functions whose docstring does not say what they give back."""
    return [_place(f, name) for name, f in public() if inspect.isfunction(f) and _without_returns(f)]


def methods_without_returns() -> list[Place]:
    """Return the public methods whose docstring does not say what they give back, each where it is defined."""
    found: dict[Any, Place] = {}
    for name, cls in public():
        if inspect.isclass(cls):
            for method, member in inspect.getmembers(cls):
                function = inspect.unwrap(getattr(member, "__func__", member))
                ours = inspect.isfunction(function) and str(function.__module__).startswith("squeak")
                versions = [function, *_overridden(cls, method)]
                if ours and not method.startswith("_") and all(map(_without_returns, versions)):
                    found.setdefault(function.__code__, _place(function, f"{name}.{method}"))
    return list(found.values())


COUNTS: dict[str, Callable[[], list[Place]]] = {
    "repeated": repeated,
    "repeated, same names": lambda: repeated(blur=False),
    "repeated, bodies": lambda: repeated(bodies=True),
    "privates": privates,
    "foreign privates": lambda: privates(foreign=True),
    "bool checks": bool_checks,
    "__init__ lines": init_lines,
    "citations": citations,
    "functions without Returns": functions_without_returns,
    "methods without Returns": methods_without_returns,
    "imports by name": imports_by_name,
    "long files": long_files,
}


def figures() -> dict[str, int]:
    """Return every number of the table."""
    sizes = [len(path.read_text(encoding="utf8").splitlines()) for path in files()]
    found = {"lines": sum(sizes), "files": len(sizes), "lines of the middle file": int(statistics.median(sizes))}
    found["lines of code"] = sum(len(shapes(path, blur=False)) for path in files())
    return found | {name: len(count()) for name, count in COUNTS.items()}


def main() -> None:
    """Print the table, or the places of one of its lines."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.house", description=__doc__.splitlines()[0])
    parser.add_argument("--where", choices=COUNTS, help="print every place that this line counts")
    options = parser.parse_args()
    if options.where is not None:
        for path, line, words in COUNTS[options.where]():
            print(f"{path.relative_to(SOURCE)}:{line}: {words}")
        return
    for name, number in figures().items():
        print(f"{name:<28}{number:>8,}")


if __name__ == "__main__":
    main()
