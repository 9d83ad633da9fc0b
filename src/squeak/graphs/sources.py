"""Edges as a row source: places to go on from, and a fingerprint to know the same edges by."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.types import Array
from squeak.data import Preprocessing, RowSource, reopen
from squeak.data.files import sample
from squeak.data.learning import Request
from squeak.data.readers import IteratorReader
from squeak.graphs.blocks import edge_blocks
from squeak.graphs.edges import Edges
from squeak.graphs.files import is_text, open_edges
from squeak.graphs.forms import is_path

TILE = 65_536
"""Edges of a graph in memory that are handed out at a time."""


class EdgeReader(IteratorReader):
    """Blocks of clean edges as rows (u, v, weight); ``n_nodes`` counts the nodes of all blocks so far.

    ``fingerprint``: empty where what the blocks will hold cannot be known. ``recipe``: how to open them again.
    """

    def __init__(
        self,
        blocks: Iterable[Edges] | Callable[[], Iterable[Edges]],
        fingerprint: str = "",
        recipe: dict[str, Any] | None = None,
    ) -> None:
        self.n_nodes, self.recipe, self._fingerprint = 0, recipe, fingerprint
        make = blocks if callable(blocks) else None
        super().__init__(self._tables(blocks) if make is None else lambda: self._tables(make()), has_target=False)

    def _tables(self, blocks: Any) -> Iterator[Array]:
        for edges in blocks:
            self.n_nodes = max(self.n_nodes, edges.n_nodes)
            yield np.column_stack([edges.u, edges.v, edges.weights])

    def fingerprint(self) -> str:
        """Return the text that was given for these edges."""
        return self._fingerprint


def edge_source(edges: Any, n_nodes: int | None = None) -> RowSource:
    """Return a row source of whatever :func:`squeak.graphs.edge_blocks` reads, with places to go on from."""
    if isinstance(edges, RowSource):
        return edges
    if is_path(edges):
        paths = [Path(one).resolve() for one in (edges if isinstance(edges, list) else [edges])]
        if not all(is_text(path) for path in paths):
            found = open_edges(edges)
            assert isinstance(found, RowSource)
            return found
        digest = hashlib.sha256(b"".join(path.name.encode() + sample(path) for path in paths)).hexdigest()
        recipe = {"paths": [str(path) for path in paths], "edge_list": True}
        reader = EdgeReader(lambda: edge_blocks(list(paths), n_nodes), digest, recipe)
    elif hasattr(edges, "__next__"):
        reader = EdgeReader(edge_blocks(edges, n_nodes))
    else:
        graph = next(edge_blocks(edges, n_nodes))
        if len(graph) == 0:
            raise ValueError("there are no edges")
        columns = (np.array([graph.n_nodes]), graph.u, graph.v, graph.weights)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(column).tobytes() for column in columns)).hexdigest()
        reader = EdgeReader(lambda: (graph.take(tile) for tile in engine.tiles(len(graph), TILE)), digest)
    return RowSource(reader, Request(), learned=True)  # edges pass as they are


def reopened_edges(recipe: dict[str, Any], preprocessing: Preprocessing | None) -> RowSource:
    """Open the files of a recipe again."""
    if not recipe.get("edge_list"):
        return reopen(recipe, preprocessing)
    paths = recipe["paths"]
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise ValueError("the recipe of the source is damaged")
    return edge_source(paths)
