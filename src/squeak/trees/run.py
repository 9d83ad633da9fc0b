"""One run up a merge tree: leaves and merges as pure functions, on threads or Dask; nodes kept on disk."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from squeak.core import engine, state, storage
from squeak.core.advice import AdvisedError
from squeak.core.allocator import freed_memory_kept
from squeak.core.outputs import replacing
from squeak.core.places import place
from squeak.core.progress import progress
from squeak.core.seeds import NODE, generator_at
from squeak.core.types import Rows
from squeak.trees.parts import Part, PartError
from squeak.trees.tree import Tree


class Keep:
    """The folder of a run's finished nodes, or nothing at all; the seed of the run is kept with them."""

    def __init__(self, folder: Path | None, seed: int) -> None:
        self.folder, self.seed = folder, seed

    @classmethod
    def open(cls, folder: str | os.PathLike[str] | None, description: dict[str, Any], seed: int) -> Keep:
        """Open or make the folder; one that holds another run is refused."""
        if folder is None:
            return cls(None, seed)
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(f"the checkpoint of a tree is a folder; {path} is a file")
        path.mkdir(parents=True, exist_ok=True)
        facts = path / "run.json"
        if facts.exists():
            try:
                known = json.loads(facts.read_text())
                before, seed = dict(known["description"]), state.checked({"seed": state.seed()}, {}, known)["seed"]
            except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
                raise storage.StorageError(f"{facts} is damaged: {error}") from None
            for name, value in json.loads(json.dumps(description)).items():
                if before.get(name) != value:
                    raise ValueError(f"{path} holds a run of other {name}: finish it, or name another folder")
        else:
            if any(path.iterdir()):
                raise ValueError(f"{path} holds other files: name an empty folder, or one that does not exist")
            with replacing(facts) as stream:
                stream.write(json.dumps({"description": description, "seed": seed}, indent=1).encode())
        return cls(path, seed)

    def _path(self, node: int) -> Path | None:
        return None if self.folder is None else self.folder / f"node-{node}.sqk"

    def load(self, node: int, read: Callable[[Path], Any]) -> Any:
        """Return what a node came to where it was finished before, else None."""
        path = self._path(node)
        if path is None or not path.exists():
            return None
        return read(path)

    def save(self, node: int, d: Any) -> None:
        """Keep what a node came to; where the disk is full, those kept before stay whole."""
        path = self._path(node)
        if path is None or isinstance(d, NoRows):
            return
        try:
            d.save(path)
        except OSError as error:
            raise storage.CheckpointError(
                f"node {node} of the tree could not be kept in {path} ({error.strerror or error}): the nodes kept "
                "before it are whole, and the same call goes on with them once it can be written"
            ) from error


@dataclass(frozen=True)
class NodeFacts:
    """What was measured at one node of the tree."""

    node: int
    rows: int
    atoms: int
    effective_dimension: float
    ridge: float
    seconds: float
    bytes: int
    """The size of the node's dictionary in memory: what travels to its parent."""


def numbered(value: Any, rows: list[int]) -> tuple[Any, Any]:
    """Return the order of a root's rows when numbered through all leaves, and their numbers in that order."""
    leaves = np.array([int(name) for name, _ in value.sources])[value.source_numbers]
    indices = np.concatenate([[0], np.cumsum(rows)])[leaves] + value.indices
    order = np.argsort(indices)
    return order, indices[order]


def node_seed(seed: int, node: int) -> int:
    """Return the seed of a node: the same for the same run and place, wherever and however often it runs."""
    return int(generator_at(seed, NODE, node).integers(2**63))


def first_rows(parts: Sequence[Part], use: Callable[[Rows], Any], retries: int) -> tuple[int, Any]:
    """Return the number of the first part that has rows, and what ``use`` makes of its first block."""

    def first_of(part: Part) -> list[Any]:
        return [use(block) for block in islice(part.blocks(), 1)]

    for number, part in enumerate(parts):
        found = tried(part, partial(first_of, part), retries)
        if found:
            return number, found[0]
    raise PartError("there are no rows")


@dataclass(frozen=True)
class NoRows:
    """The value of a leaf without rows, or of nodes above such leaves alone."""

    sources: tuple[tuple[str, int], ...]
    n_seen: ClassVar[int] = 0
    ridge: ClassVar[float] = 0.0

    def __len__(self) -> int:
        return 0

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return no arrays: nothing travels."""
        return {}, {}


def tried(part: Part, do: Callable[[], Any], retries: int) -> Any:
    """Return the result of something done with a part; after so many failures, an error that names it."""
    for attempt in range(retries + 1):
        try:
            return do()
        except Exception as error:
            if attempt == retries:
                if isinstance(error, AdvisedError):
                    raise PartError(*error.behind(f"{part.name}: ")) from error
                text = " ".join(str(error).split()) or type(error).__name__
                raise PartError(f"{part.name}: {text}") from error
    raise AssertionError("unreachable")


def bytes_of(d: Any) -> int:
    """Return the bytes of a value's arrays."""
    arrays, _ = d.to_parts() if not isinstance(getattr(d, "atoms", None), list) else ({"indices": d.indices}, {})
    return int(sum(array.nbytes for array in arrays.values()))


class Work(Protocol):
    """What the nodes of a tree compute; sent to the workers with every node.

    Leaves and merges give values with ``n_seen``, ``ridge``, ``sources``, ``to_parts``, ``save``, a length and an
    effective dimension, and are functions of their arguments alone.
    """

    @property
    def name(self) -> str:
        """The word on the progress bar."""

    def leaf(self, part: Part, number: int, seed: int, retries: int) -> tuple[Any, float]:
        """Return the value of a part and its effective dimension."""

    def merge(self, children: list[Any], seed: int) -> tuple[Any, float]:
        """Return the merge of the children and its effective dimension."""

    def load(self, path: Path) -> Any:
        """Return a value that was kept in a file."""


class TreeRun:
    """Runs a tree, on a Dask cluster where a client is active, else on threads; what is finished is kept."""

    def __init__(self, tree: Tree, parts: list[Part], work: Work, keep: Keep, retries: int, verbose: int) -> None:
        self.tree, self.parts, self.work = tree, parts, work
        self.keep, self.retries, self.verbose = keep, retries, verbose
        self._rows: dict[int, int] = {}
        self._facts: dict[int, NodeFacts] = {}

    def rows_of_leaves(self) -> list[int]:
        """Return the number of rows of each leaf."""
        return [self._rows.get(leaf, 0) for leaf in range(self.tree.n_leaves)]

    def result(self) -> tuple[Any, list[NodeFacts]]:
        """Run what is left to do; return the root's value and the facts of every node that was run or kept."""
        done, due = self._what_is_due()
        with progress(self.work.name, "nodes", len(due) + len(done), self.verbose, done=len(done)) as bar:
            if due:
                self._compute(done, due, bar)
        root = done[self.tree.root]
        return root, [self._facts[node] for node in sorted(self._facts)]

    def _what_is_due(self) -> tuple[dict[int, Any], set[int]]:
        """Return the kept nodes that are needed, and those that must be computed: nothing below a kept node."""
        done: dict[int, Any] = {}
        due: set[int] = set()
        stack = [self.tree.root]
        while stack:
            node = stack.pop()
            kept = self.keep.load(node, self.work.load)
            if kept is not None:
                self._take(kept.sources, facts_of(node, kept, kept.effective_dimension(), 0.0))
                done[node] = kept
            else:
                due.add(node)
                stack.extend(self.tree.children(node))
        return done, due

    def _take(self, sources: Iterable[tuple[str, int]], facts: NodeFacts) -> None:
        self._rows.update((int(name), rows) for name, rows in sources)
        self._facts[facts.node] = facts

    def _compute(self, done: dict[int, Any], due: set[int], bar: Any) -> None:
        """Run what is due; where tasks run elsewhere, only facts and the root come here.

        A node is a function of its place in the tree, so that one that is run again gives the same bits.
        """
        tasks: dict[int, Any] = {}
        left: dict[int, Any] = {}
        facts: list[Any] = []
        with place() as runs:
            try:
                for node in sorted(due):
                    children = [tasks.get(child, done.get(child)) for child in self.tree.children(node)]
                    part = self.parts[node] if node < self.tree.n_leaves else None
                    if part is not None and runs.remote:
                        part = part.alone()
                    rest = node, self.work, node_seed(self.keep.seed, node), self.retries, children
                    tasks[node] = left[node] = runs.submit(
                        run_node, part, *rest, name="merge" if part is None else "leaf"
                    )
                    facts.append(runs.submit(describe, tasks[node], name="facts"))
                for described in runs.completed(facts):
                    [(found, sources)] = runs.gathered([described])
                    self._take(sources, found)
                    if self.keep.folder is not None:
                        self.keep.save(found.node, runs.gathered([left[found.node]])[0][0])
                    del left[found.node]
                    if not runs.keeps:  # else workers have them: what a lost node is made of is not computed again
                        for child in self.tree.children(found.node):
                            tasks.pop(child, None)
                    bar.update(1)
                done[self.tree.root] = runs.gathered([tasks[self.tree.root]])[0][0]
            except BaseException:
                if self.keep.folder is not None:
                    for node, (d, _) in runs.rescued(left):
                        with suppress(storage.CheckpointError):  # the first error is the one to tell
                            self.keep.save(node, d)
                runs.cancel([*tasks.values(), *facts])
                raise


def run_node(
    part: Part | None, node: int, work: Work, seed: int, retries: int, children: list[Any]
) -> tuple[Any, NodeFacts]:
    """Return a node's value and facts: a leaf where there is a part, else a merge.

    On a cluster children come as the results of their own nodes.
    """
    start = time.perf_counter()
    with engine.serial(), freed_memory_kept():
        if part is None:
            d, dimension = _merged(
                [child[0] if isinstance(child, tuple) else child for child in children], work, seed
            )
        else:
            d, dimension = work.leaf(part, node, seed, retries)
    return d, facts_of(node, d, dimension, time.perf_counter() - start)


def _merged(children: list[Any], work: Work, seed: int) -> tuple[Any, float]:
    """Return the merge of the children that have rows, and its effective dimension."""
    found = [child for child in children if not isinstance(child, NoRows)]
    if len(found) > 1:
        return work.merge(found, seed)
    if found:
        return found[0], found[0].effective_dimension()
    return NoRows(tuple(source for child in children for source in child.sources)), 0.0


def describe(result: tuple[Any, NodeFacts]) -> tuple[NodeFacts, tuple[tuple[str, int], ...]]:
    """Return a node's facts and the names and sizes of its leaves: all that comes back but for the root."""
    return result[1], result[0].sources


def facts_of(node: int, d: Any, dimension: float, seconds: float) -> NodeFacts:
    """Return what is recorded of a node."""
    return NodeFacts(node, d.n_seen, len(d), dimension, d.ridge, seconds, bytes_of(d))
