"""Effective resistances r_e = b_eᵀL⁺b_e and leverage a_e·r_e: exact, by a sparse factor, or by projections."""

from __future__ import annotations

from typing import Any

from squeak.core.seeds import RandomState, draw_seed
from squeak.core.types import Array
from squeak.graphs.forms import read_graph
from squeak.graphs.oracle import LARGEST_TOL, ROUGH, leverage_of


def effective_resistances(
    graph: Any,
    method: str = "auto",
    *,
    ridge: float = 0.0,
    error: float = ROUGH,
    n_projections: int | None = None,
    tol: float = LARGEST_TOL,
    random_state: RandomState = None,
) -> Array:
    """Return r_e = b_eᵀ(L + ridge·I)⁺b_e for every edge, in the order of ``scipy.sparse.triu(A).nonzero()``.

    Parameters
    ----------
    graph : see :func:`squeak.graphs.sparsify`
    method : {"auto", "exact", "factor", "projections"}
        Dense inverse, columns of a sparse factor, or Johnson-Lindenstrauss projections. "auto" is exact up to 1,000
        nodes and for thin graphs up to 5,000, and uses projections beyond.
    ridge : float
    error : float
        Of projections: enough of them that the standard error of 95% of the edges is at most ``error``, relative to
        the resistance. Bridges and edges whose neighbourhoods tell all are exact. The sparsifiers ask for 0.1.
    n_projections : int, optional
        So many instead. With 24·log(n)/error² every edge is within 1 ± error with high probability.
    tol : float
        Of the solver; 1e-3 at most, for looser ones underestimate bottlenecks.
    random_state : None, int, RandomState or Generator
        For projections.

    Returns
    -------
    array, shape (m,)

    References
    ----------
    Spielman, Srivastava, "Graph sparsification by effective resistances"; the theory page, "Graphs".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import effective_resistances
    >>> triangle = np.ones((3, 3)) - np.eye(3)
    >>> effective_resistances(triangle)
    array([0.66666667, 0.66666667, 0.66666667])
    """
    edges = read_graph(graph).edges
    options: dict[str, Any] = {"ridge": ridge, "error": error, "n_projections": n_projections, "tol": tol}
    return edge_leverage(edges, method, random_state=random_state, **options) / edges.weights


def edge_leverage(
    graph: Any, method: str = "auto", *, error: float = ROUGH, random_state: RandomState = None, **options: Any
) -> Array:
    """Return a_e·r_e, the leverage of every edge: the chance that a random spanning tree takes it.

    They sum to the number of nodes less that of components (with a ridge: to Tr L(L + ridge·I)⁻¹).

    Parameters
    ----------
    graph : see :func:`squeak.graphs.sparsify`
    method, error, random_state, **options
        Those of :func:`effective_resistances`.

    Returns
    -------
    array, shape (m,)
        In the order of ``scipy.sparse.triu(A).nonzero()``.

    References
    ----------
    The theory page, "Graphs".

    Examples
    --------
    >>> import networkx as nx
    >>> from squeak.graphs import edge_leverage
    >>> float(edge_leverage(nx.karate_club_graph()).sum().round(9))
    33.0
    """
    return leverage_of(read_graph(graph).edges, method, error=error, seed=draw_seed(random_state), **options)
