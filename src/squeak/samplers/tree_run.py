"""One run up a merge tree: leaves and merges as pure functions, on threads or on a Dask cluster."""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from squeak.core import engine
from squeak.core.allocator import freed_memory_kept
from squeak.core.dictionary import Dictionary
from squeak.core.leverage import check_ridge
from squeak.core.rows import join, n_rows
from squeak.core.seeds import NODE, generator_at
from squeak.core.types import Rows
from squeak.samplers.base import Plan
from squeak.samplers.kept_nodes import Keep
from squeak.samplers.merge import merge_and_measure
from squeak.samplers.parts import Part, PartError
from squeak.samplers.stream import StreamSampler
from squeak.samplers.tree import Tree


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


def check_retries(retries: Any) -> int:
    """Return the number of retries, or raise."""
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(f"retries must be a whole number from 0 on; it is {retries!r}")
    return retries


def node_seed(seed: int, node: int) -> int:
    """Return the seed of a node: the same for the same run and place, wherever and however often it runs."""
    return int(generator_at(seed, NODE, node).integers(2**63))


def read_part(part: Part, use: Callable[[Rows], Any], retries: int) -> Any:
    """Return what ``use`` makes of the first block of a part, trying again where reading fails."""

    def first() -> Any:
        for block in part.blocks():
            return use(block)
        raise PartError("there are no rows")

    return tried(part, first, retries)


def tried(part: Part, do: Callable[[], Any], retries: int) -> Any:
    """Return the result of something done with a part; after so many failures, an error that names it."""
    for attempt in range(retries + 1):
        try:
            return do()
        except Exception as error:
            if attempt == retries:
                text = " ".join(str(error).split()) or type(error).__name__
                raise PartError(f"{part.name}: {text}") from error
    raise AssertionError("unreachable")


def run_leaf(
    part: Part, number: int, sampler: StreamSampler | None, plan: Plan, seed: int, retries: int
) -> tuple[Dictionary, float]:
    """Return the dictionary of a part and its effective dimension: a function of its arguments alone."""

    def learn() -> tuple[Dictionary, float]:
        if sampler is None:
            every = _exact(part, number, plan)
            return every, every.effective_dimension()
        fresh: StreamSampler = clone(sampler).set_params(random_state=seed, source=str(number))
        for block in part.blocks():
            fresh.partial_fit(block)
        if fresh.n_seen_ == 0:
            raise PartError("there are no rows")
        return fresh.dictionary_, fresh.effective_dimension_

    found: tuple[Dictionary, float] = tried(part, learn, retries)
    return found


def _exact(part: Part, number: int, plan: Plan) -> Dictionary:
    rows: Rows | None = None
    for block in part.blocks():
        rows = block if rows is None else join(rows, block)
    if rows is None or n_rows(rows) == 0:
        raise PartError("there are no rows")
    n = n_rows(rows)
    return Dictionary(
        kernel=plan.kernel,
        atoms=rows,
        indices=np.arange(n),
        probabilities=np.ones(n),
        counts=np.full(n, plan.copies),
        copies=plan.copies,
        oversampling=plan.oversampling,
        ridge=_ridge_due(plan, plan.ridge, n),
        n_seen=n,
        sources=((str(number), n),),
        eps=plan.eps,
    )


def _ridge_due(plan: Plan, so_far: float, rows: int) -> float:
    """Return the ridge of a node with so many rows; it never falls on the way up."""
    return so_far if plan.schedule is None else max(so_far, check_ridge(plan.schedule(rows)))


def run_merge(children: list[Dictionary], plan: Plan, seed: int) -> tuple[Dictionary, float]:
    """Return the merge of the children and its effective dimension: a function of its arguments alone."""
    ridge = _ridge_due(plan, max(d.ridge for d in children), sum(d.n_seen for d in children))
    return merge_and_measure(children, seed, plan.max_atoms, ridge)


def bytes_of(d: Dictionary) -> int:
    """Return the bytes of a dictionary's arrays."""
    arrays, _ = d.to_parts() if not isinstance(d.atoms, list) else ({"indices": d.indices}, {})
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


@dataclass(frozen=True)
class DictionaryWork:
    """DISQUEAK: leaves learn dictionaries, merges are DICT-MERGE."""

    sampler: StreamSampler | None
    plan: Plan
    name: str = "Disqueak"

    def leaf(self, part: Part, number: int, seed: int, retries: int) -> tuple[Dictionary, float]:
        """Return the dictionary of a part and its effective dimension."""
        return run_leaf(part, number, self.sampler, self.plan, seed, retries)

    def merge(self, children: list[Dictionary], seed: int) -> tuple[Dictionary, float]:
        """Return the merged dictionary and its effective dimension."""
        return run_merge(children, self.plan, seed)

    def load(self, path: Path) -> Dictionary:
        """Return a kept dictionary."""
        return Dictionary.load(path, kernel=self.plan.kernel)


class TreeRun:
    """Runs a tree, on a Dask cluster where a client is active, else on threads; what is finished is kept."""

    def __init__(
        self,
        tree: Tree,
        parts: list[Part],
        work: Work,
        keep: Keep,
        retries: int,
        verbose: int,
    ) -> None:
        self.tree, self.parts, self.work = tree, parts, work
        self.keep, self.retries, self.verbose = keep, retries, verbose
        self._rows: dict[int, int] = {}
        self._facts: dict[int, NodeFacts] = {}

    def rows_of_leaves(self) -> list[int]:
        """Return the number of rows of each leaf."""
        return [self._rows[leaf] for leaf in range(self.tree.n_leaves)]

    def result(self) -> tuple[Any, list[NodeFacts]]:
        """Run what is left to do; return the root's value and the facts of every node that was run or kept."""
        from tqdm.auto import tqdm

        done, due = self._what_is_due()
        total = len(due) + len(done)
        with tqdm(
            total=total, initial=len(done), desc=self.work.name, unit=" nodes", disable=not self.verbose
        ) as bar:
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
                self._take(kept, facts_of(node, kept, kept.effective_dimension(), 0.0))
                done[node] = kept
            else:
                due.add(node)
                stack.extend(self.tree.children(node))
        return done, due

    def _take(self, d: Any, facts: NodeFacts) -> None:
        self._rows.update((int(name), rows) for name, rows in d.sources)
        self._facts[facts.node] = facts

    def _compute(self, done: dict[int, Any], due: set[int], bar: Any) -> None:
        client = active_client()
        if client is None:
            self._on_threads(done, due, bar)
        else:
            self._on_cluster(client, done, due, bar)

    def _on_threads(self, done: dict[int, Any], due: set[int], bar: Any) -> None:
        parent = {child: node for node in due for child in self.tree.children(node)}
        threads = engine.thread_count()
        with engine.single_blas(), ThreadPoolExecutor(threads, thread_name_prefix="squeak-tree") as pool:
            running: dict[Future[tuple[Any, NodeFacts]], int] = {}

            def submit(node: int) -> None:
                children = [done[child] for child in self.tree.children(node)]
                running[pool.submit(run_node, *self._task(node), children)] = node

            try:
                for node in sorted(due):
                    if all(child in done for child in self.tree.children(node)):
                        submit(node)
                while running:
                    finished, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in sorted(finished, key=lambda future: running[future]):
                        node = running.pop(future)
                        done[node], facts = future.result()
                        self.keep.save(node, done[node])
                        self._take(done[node], facts)
                        bar.update(1)
                        above = parent.get(node)
                        if above is not None and all(child in done for child in self.tree.children(above)):
                            submit(above)
                        for child in self.tree.children(node):
                            done.pop(child)
            except BaseException:
                for future in running:
                    future.cancel()
                self._save_finished(running)
                raise

    def _save_finished(self, running: dict[Future[tuple[Any, NodeFacts]], int]) -> None:
        """Keep what other threads have finished while one failed."""
        if self.keep.folder is None:
            return
        wait([future for future in running if not future.cancelled()])
        for future, node in running.items():
            if not future.cancelled() and future.exception() is None:
                self.keep.save(node, future.result()[0])

    def _on_cluster(self, client: Any, done: dict[int, Any], due: set[int], bar: Any) -> None:
        """Run on a Dask cluster: dictionaries travel from worker to worker, only facts and the root come here.

        A worker that dies takes its tasks with it; Dask runs them again elsewhere, or once workers are back, and a
        node is a function of its place, so they give the same bits.
        """
        run = secrets.token_hex(4)  # a name that no other run has: Dask takes equal keys for equal results
        futures: dict[int, Any] = {}
        facts: dict[Any, int] = {}
        for node in sorted(due):
            children = [futures.get(child, done.get(child)) for child in self.tree.children(node)]
            kind = "leaf" if node < self.tree.n_leaves else "merge"
            key = f"squeak-{kind}-{run}-{node}"
            part, *rest = self._task(node)
            alone = None if part is None else part.alone()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                futures[node] = client.submit(run_node, alone, *rest, children, key=key, pure=False)
            facts[client.submit(describe, futures[node], key=f"squeak-facts-{run}-{node}", pure=False)] = node
        try:
            for described in engine.completed(client, list(facts)):
                node = facts[described]
                [(found, sources)] = engine.gathered(client, [described])
                self._rows.update((int(name), rows) for name, rows in sources)
                self._facts[node] = found
                if self.keep.folder is not None:
                    self.keep.save(node, engine.gathered(client, [futures[node]])[0][0])
                bar.update(1)
            done[self.tree.root] = engine.gathered(client, [futures[self.tree.root]])[0][0]
        except BaseException:
            self._save_what_is_there(futures)
            client.cancel([*futures.values(), *facts])
            raise

    def _save_what_is_there(self, futures: dict[int, Any]) -> None:
        if self.keep.folder is None:
            return
        for node, future in futures.items():
            if future.status == "finished" and self.keep.load(node, self.work.load) is None:
                with contextlib.suppress(TimeoutError):  # its worker is gone too
                    self.keep.save(node, future.result(timeout=engine.FIRST_TRANSFER)[0])

    def _task(self, node: int) -> tuple[Part | None, int, Work, int, int]:
        """Return the arguments of a node's function, but for its children."""
        part = self.parts[node] if node < self.tree.n_leaves else None
        return part, node, self.work, node_seed(self.keep.seed, node), self.retries


def active_client() -> Any:
    """Return the Dask client that is active in this process, if there is one; dask is never imported for it."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def run_node(
    part: Part | None,
    node: int,
    work: Work,
    seed: int,
    retries: int,
    children: list[Any],
) -> tuple[Any, NodeFacts]:
    """Return a node's value and facts: a leaf where there is a part, else a merge.

    On a cluster children come as the results of their own nodes.
    """
    start = time.perf_counter()
    with engine.serial(), freed_memory_kept():
        if part is None:
            found = [child[0] if isinstance(child, tuple) else child for child in children]
            d, dimension = work.merge(found, seed)
        else:
            d, dimension = work.leaf(part, node, seed, retries)
    return d, facts_of(node, d, dimension, time.perf_counter() - start)


def describe(result: tuple[Any, NodeFacts]) -> tuple[NodeFacts, tuple[tuple[str, int], ...]]:
    """Return a node's facts and the names and sizes of its leaves: all that comes back but for the root."""
    return result[1], result[0].sources


def facts_of(node: int, d: Any, dimension: float, seconds: float) -> NodeFacts:
    """Return what is recorded of a node."""
    return NodeFacts(node, d.n_seen, len(d), dimension, d.ridge, seconds, bytes_of(d))
