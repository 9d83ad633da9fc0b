"""The mutants of a source file: one small change each, within a function, or of a constant of a module or class."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
ARITHMETIC |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr}
ARITHMETIC |= {ast.BitOr: ast.BitAnd}
BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
NEGATED = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq}
NEGATED |= {ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
OPPOSITE = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax"}
OPPOSITE |= {"argmax": "argmin", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor", "sqrt": "abs"}
UNORDERED = {*OPPOSITE, "isinstance", "getattr", "hasattr", "zip", "allclose", "array_equal"}
"""Functions whose first two arguments may change places, or are of different kinds."""

SILENT = {"__repr__", "_repr_html_", "_repr_mimebundle_", "__str__", "__sklearn_tags__"}
"""Functions whose results are words for people."""


@dataclass(frozen=True)
class Mutant:
    """One change of one node, named by its place in the walk of the tree."""

    path: str
    line: int
    function: str
    before: str
    after: str
    node: int
    variant: int

    @property
    def key(self) -> str:
        """Return what names it as long as its function is not written anew."""
        return f"{self.path}::{self.function}::{self.before} → {self.after}"


def _set(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, name, value)


def changes(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Yield the changes of a node, each done in place."""
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in ARITHMETIC:
        yield _set(node, "op", ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for table in (BOUNDARY, NEGATED):
            if type(node.ops[0]) in table:
                yield _set(node, "ops", [table[type(node.ops[0])]()])
    elif isinstance(node, ast.BoolOp):
        yield _set(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _set(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield _set(node, "op", ast.UAdd())
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)) and isinstance(node.test, (ast.Name, ast.Attribute)):
        yield _set(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield _set(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield _set(node, "value", node.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield _set(node, "value", 2 * node.value if node.value else 1.0)
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield _set(node, "value", ast.Constant(None))
    elif isinstance(node, ast.Call):
        named = node.func
        name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
        if name in OPPOSITE:
            yield _set(named, "attr" if isinstance(named, ast.Attribute) else "id", OPPOSITE[name])
        plain = not any(isinstance(a, (ast.Starred, ast.Constant)) for a in node.args[:2])
        plain = plain and len({ast.dump(argument) for argument in node.args[:2]}) == 2
        if plain and name not in UNORDERED:
            yield _set(node, "args", [node.args[1], node.args[0], *node.args[2:]])


def _left_out(node: ast.AST) -> bool:
    """Tell whether what is below a node is words, types or an import's guard and no result."""
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)):
        return True
    if isinstance(node, ast.FunctionDef) and node.name in SILENT:
        return True
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    return isinstance(node, ast.Expr) and (
        isinstance(node.value, ast.Constant)
        or (isinstance(node.value, ast.Call) and ast.unparse(node.value.func).endswith("warn"))
    )


def _inside(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes whose change is seen, with the outermost function, or the class, that they stand in."""

    def walk(node: ast.AST, place: str, within: bool) -> Iterator[tuple[ast.AST, str]]:
        if _left_out(node):
            return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not within:
            place = f"{place}.{node.name}" if place else node.name
            within = isinstance(node, ast.FunctionDef)
            below: list[ast.AST] = list(node.body)
        elif within:
            yield node, place
            below = [
                child
                for name, value in ast.iter_fields(node)
                if name not in ("annotation", "returns", "decorator_list")
                for child in (value if isinstance(value, list) else [value])
                if isinstance(child, ast.AST)
            ]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            below = []
            if isinstance(node.targets[0], ast.Name) and len(node.targets) == 1:
                yield node.value, f"{place}:{node.targets[0].id}"
        elif isinstance(node, ast.Module):
            below = list(node.body)
        else:
            below = []
        for child in below:
            yield from walk(child, place, within)

    yield from walk(tree, "", False)


def places(path: Path) -> list[tuple[Path, int, int, str]]:
    """Return every mutant of a file: the number of its node, which of its changes it is, and its function."""
    tree = ast.parse(path.read_text())
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    return [
        (path, numbers[id(node)], variant, function)
        for node, function in _inside(tree)
        for variant in range(len(list(changes(node))))
    ]


def _mutant(root: Path, path: Path, number: int, variant: int, function: str) -> Mutant:
    node = list(ast.walk(ast.parse(path.read_text())))[number]
    before = ast.unparse(node).splitlines()[0]
    list(changes(node))[variant]()
    after = ast.unparse(ast.fix_missing_locations(node)).splitlines()[0]
    line = getattr(node, "lineno", 0)
    return Mutant(str(path.relative_to(root)), line, function, before, after, number, variant)


def sampled(paths: list[Path], root: Path, size: int, seed: int) -> list[Mutant]:
    """Return a seeded sample of the mutants of some files, each as likely as any other."""
    every = [place for path in paths for place in places(path)]
    return [_mutant(root, *place) for place in random.Random(seed).sample(every, min(size, len(every)))]


def named(paths: list[Path], root: Path, keys: list[str]) -> list[Mutant]:
    """Return the mutants of these keys, as far as they are there."""
    functions = {tuple(key.split("::")[:2]) for key in keys}
    some = [
        _mutant(root, *place)
        for path in paths
        for place in places(path)
        if (str(path.relative_to(root)), place[3]) in functions
    ]
    by_key = {mutant.key: mutant for mutant in some}
    return [by_key[key] for key in keys if key in by_key]


def changed_tree(mutant: Mutant, root: Path) -> ast.Module:
    """Return the tree of the file with the change made."""
    tree = ast.parse((root / mutant.path).read_text())
    node = list(ast.walk(tree))[mutant.node]
    list(changes(node))[mutant.variant]()
    return ast.fix_missing_locations(tree)


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of every function and class below a module's code."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes(constant)
