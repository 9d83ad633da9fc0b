"""``squeak sparsify`` and ``squeak label``."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.errors import echo
from squeak.cli.options import Checkpoint, Every, Quiet, Seed, positive
from squeak.cli.outputs import (
    APOSTROPHES,
    Overwrite,
    check_ending,
    check_figure,
    check_outputs,
    going_on,
    write_table,
)
from squeak.cli.reading import Chosen

Graph = Annotated[
    list[str],
    typer.Argument(
        metavar="EDGES",
        help="Edge lists as text, CSV, Parquet or npy: two nodes in each line, by number or name, and perhaps "
        "a weight.",
    ),
]
Figure = Annotated[
    Path | None,
    typer.Option(help="Draw degrees and weights of both graphs: .png, .svg or .pdf.", show_default=False),
]

MOST_LABELLED = 1_000_000
"""A label may be for a node without edges, but not for a number out of all proportion."""

Way = StrEnum("Way", ["stream", "online", "batch"])
"""How a graph is sparsified."""


def sparsify(
    edges: Graph,
    *,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="The .parquet, .csv, .npy or .txt file to write.", show_default=False),
    ],
    reading: Chosen,
    oversampling: Annotated[
        float, typer.Option(callback=positive, help="About how many edges are kept per node.")
    ] = 30.0,
    ridge: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="With a ridge above 0, only directions with larger eigenvalues are kept, and the result is "
            "smaller.",
        ),
    ] = 0.0,
    copies: Annotated[
        int, typer.Option(min=1, help="How many independent coins are tossed for an edge; 1 is most accurate.")
    ] = 1,
    way: Annotated[
        Way,
        typer.Option(
            help="stream reads the edges once; online does too, and never drops an edge that it kept; batch "
            "holds all edges in memory."
        ),
    ] = Way.stream,
    checkpoint: Checkpoint = None,
    every: Every = 30.0,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure/--no-measure", help="Measure the accuracy of the result, which needs the graph in memory."
        ),
    ] = True,
    figure: Figure = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Make the graph of EDGES smaller while keeping its spectrum (its cuts, flows and clusters)."""
    from squeak.graphs import OnlineSparsifier, StreamSparsifier, sparsifier_report
    from squeak.graphs import sparsify as sparsify_all
    from squeak.graphs.names import as_array
    from squeak.graphs.sources import read_edges, write_edges

    check_figure(figure)
    check_outputs(edges, overwrite=overwrite, others=[out, figure], states=[checkpoint])
    if checkpoint is not None and way is Way.batch:
        raise typer.BadParameter("--way batch holds all edges in memory and reads them at once: no --checkpoint")
    check_ending(out, ".parquet", ".csv", ".npy", ".txt")
    source, names = edges_from(reading, edges), dict[Any, int]()
    if way is Way.batch:
        whole = read_edges(source, names=names)
        found = sparsify_all(whole, oversampling=oversampling, ridge=ridge, copies=copies, random_state=seed)
        seen, nodes = None, as_array(names) if names else None
    else:
        kind = StreamSparsifier if way is Way.stream else OnlineSparsifier
        stream = kind(oversampling, ridge=ridge, copies=copies, random_state=seed)
        with going_on(checkpoint, quiet):
            if checkpoint is None:
                read_all(stream, source, quiet)
            else:
                stream.fit(source, checkpoint=checkpoint, every=every)
        found, seen = stream.sample_.graph, stream.n_seen_
        nodes = stream.node_names_ if isinstance(stream.node_names_[0], str) else None
    wanted = figure is not None or (measure and not quiet)
    graph = read_edges(source, names={}) if wanted else None  # before the result may take the place of an input
    write_edges(found, out, nodes)
    if graph is not None and figure is not None:
        from squeak.report import draw_sparsifier

        draw_sparsifier(graph, found, figure)
    if quiet:
        return
    read = "" if seen is None else f"{seen:,} edges read once; "
    echo(f"{read}{len(found):,} edges on {found.n_nodes:,} nodes kept, in {found.components()[0]:,} components")
    if graph is not None:
        echo(describe(sparsifier_report(graph, found, ridge)))
    if figure is not None:
        echo(f"wrote {figure}")
    echo(f"wrote {out}")


def label(
    edges: Graph,
    *,
    labels: Annotated[
        Path, typer.Option(help="A CSV or Parquet file with the columns node and label.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The .csv or .parquet file to write.", show_default=False)
    ],
    reading: Chosen,
    oversampling: Annotated[
        float | None,
        typer.Option(
            callback=positive,
            help="Make the graph smaller first; about how many edges are kept per node.",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[
        float, typer.Option(callback=positive, help="The penalty on labels that change along edges.")
    ] = 1.0,
    hold_out: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=0.9,
            help="Hide this share of the labels, and say how many of them were predicted correctly.",
        ),
    ] = 0.0,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Give every node of the graph of EDGES a label, from the few that are known."""
    import numpy as np

    from squeak.core.seeds import SAMPLE, draw_seed, generator_at
    from squeak.graphs import HarmonicClassifier
    from squeak.graphs.sources import read_edges

    check_outputs([*edges, labels], overwrite=overwrite, others=[out])
    check_ending(out, ".parquet", ".csv")
    known_names: dict[Any, int] = {}
    graph = read_edges(edges_from(reading, edges), names=known_names)
    nodes, names = read_labels(labels, known_names)
    last = int(nodes.max())
    if not known_names and last >= max(10 * graph.n_nodes, MOST_LABELLED):
        raise ValueError(f"{labels} has a label for node {last:,}; the edges have nodes 0 to {graph.n_nodes - 1:,}")
    graph = graph.on_nodes(max(graph.n_nodes, last + 1))
    classes, codes = np.unique(names, return_inverse=True)
    y = np.full(graph.n_nodes, -1)
    y[nodes] = codes
    known = np.flatnonzero(y >= 0)
    hidden = known[:0]
    if hold_out > 0:
        chosen = generator_at(draw_seed(seed), SAMPLE).permutation(len(known))
        hidden = known[chosen[: min(round(hold_out * len(known)), len(known) - 1)]]
    truth = y[hidden].copy()
    y[hidden] = -1
    s = HarmonicClassifier(alpha, sparsifier=oversampling, random_state=seed).fit(graph, y)
    place = np.searchsorted(s.classes_, s.transduction_)
    shares = s.label_distributions_[np.arange(len(place)), place]
    changed = write_labels(out, list(known_names) or s.node_names_, classes[s.transduction_], shares)
    if changed:
        echo(APOSTROPHES, err=True)
    if quiet:
        return
    echo(
        f"{graph.n_nodes:,} nodes labelled from {len(known) - len(hidden):,} labels of {len(classes):,} classes, "
        f"on {len(s.graph_):,} of {len(graph):,} edges"
    )
    if s.n_unreached_:
        echo(f"{s.n_unreached_:,} nodes are in components without a label: they got the most frequent one")
    if len(hidden):
        echo(
            f"of {len(hidden):,} labels held out {100 * (s.transduction_[hidden] == truth).mean():.1f}% were found"
        )
    echo(f"wrote {out}")


def edges_from(reading: Chosen, edges: list[str]) -> Any:
    """Return the edges of files as their reader takes them: paths of text, or a row source of tables."""
    from squeak.graphs.sources import is_text, open_edges

    source: Any = edges if len(edges) > 1 else edges[0]
    if not all(is_text(Path(one)) for one in edges):
        return open_edges(source, **reading.parameters(), **reading.choices())
    if reading != Chosen():
        raise typer.BadParameter(
            "options for reading are for CSV, Parquet and npy; a line of a text file has two nodes, maybe a weight"
        )
    return source


def read_all(stream: Any, source: Any, quiet: bool) -> None:
    """Read all edges into a stream sparsifier, with a bar."""
    from squeak.core.progress import progress
    from squeak.graphs.forms import is_columns
    from squeak.graphs.sources import file_blocks

    with progress(type(stream).__name__, "edges", None, not quiet, unit_scale=True) as bar:

        def blocks() -> Iterator[Any]:
            for block in file_blocks(source):
                yield block
                bar.update(len(block[0]) if is_columns(block) else len(block))

        stream.fit(blocks())


def describe(report: Any) -> str:
    """Return the report of a sparsifier as text."""
    whole = "every component is whole" if report.same_components else "COMPONENTS WERE CUT"
    return (
        f"{report.edges:,} edges became {report.kept:,} ({100 * report.kept / max(report.edges, 1):.1f}%); {whole} "
        f"({report.components:,} and {report.sparsifier_components:,})\n"
        f"accuracy ε = {report.accuracy:.3f}, ε·√(kept/n) = {report.law:.2f}; weights sum to "
        f"{report.total_weight[0]:.6g} and {report.total_weight[1]:.6g}, the largest are "
        f"{report.largest_weight[0]:.3g} and {report.largest_weight[1]:.3g}"
    )


def read_labels(path: Path, known: dict[Any, int]) -> tuple[Any, Any]:
    """Return the nodes and labels of a table; rows without a label are left out.

    ``known``: the numbers of the nodes by name; empty where nodes are numbers. A labelled node without edges joins
    them.
    """
    import numpy as np
    from pyarrow import csv, parquet

    from squeak.data.columns import texts

    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    table = parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
    if not {"node", "label"} <= set(table.column_names):
        raise ValueError(f"{path.name} needs the columns node and label; it has {', '.join(table.column_names)}")
    given = table.column("label").to_pylist()
    kept = [i for i, name in enumerate(given) if name is not None and name != ""]
    if not kept:
        raise ValueError(f"{path.name} has no labels")
    if known:
        words = texts(table.column("node")).to_pylist()
        if None in words:
            raise ValueError(f"{path.name}, row {words.index(None) + 1} has no node")
        nodes = np.array([known.setdefault(words[i], len(known)) for i in kept])
    else:
        nodes = table.column("node").to_numpy()
        if nodes.dtype.kind not in "iu" or len(nodes) == 0 or nodes.min() < 0:
            raise ValueError(f"{path.name}: the column node must hold node numbers from 0 on, as the edges do")
        nodes = nodes[kept]
    names = np.asarray([given[i] for i in kept], dtype=str)
    first = dict(zip(nodes.tolist()[::-1], names.tolist()[::-1], strict=True))
    for node, name in zip(nodes.tolist(), names.tolist(), strict=True):
        if first[node] != name:
            called = list(known)[node] if known else node
            raise ValueError(f"{path.name}: node {called} has two labels, {first[node]!r} and {name!r}")
    return nodes, names


def write_labels(path: Path, nodes: Any, names: Any, chances: Any) -> bool:
    """Write a label for every node; tell whether some had to be changed for a CSV file."""
    import pyarrow as pa

    table = pa.table({"node": nodes, "label": [str(name) for name in names], "share": chances})
    return write_table(path, table)
