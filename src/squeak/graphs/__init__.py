"""Graphs: an edge is a row and its effective resistance its leverage score."""

from squeak.graphs.accuracy import spectral_accuracy
from squeak.graphs.baselines import EigenFunctions, NearestLabel, SimpleHarmonic, SubSampling
from squeak.graphs.distributed import DistributedSparsifier
from squeak.graphs.harmonic import HarmonicClassifier, HarmonicRegressor
from squeak.graphs.literal import KelnerLevin
from squeak.graphs.neighbours import knn_graph
from squeak.graphs.oracle import edge_leverage, effective_resistances
from squeak.graphs.quantized import OnlineHarmonic
from squeak.graphs.sample import EdgeSample
from squeak.graphs.sources import edge_blocks
from squeak.graphs.sparsifying import sparsifier_report, sparsify
from squeak.graphs.spectral import LaplacianSmoother, laplacian_eigenmaps, spectral_clustering
from squeak.graphs.stream import OnlineSparsifier, StreamSparsifier

__all__ = [
    "DistributedSparsifier",
    "EdgeSample",
    "EigenFunctions",
    "HarmonicClassifier",
    "HarmonicRegressor",
    "KelnerLevin",
    "LaplacianSmoother",
    "NearestLabel",
    "OnlineHarmonic",
    "OnlineSparsifier",
    "SimpleHarmonic",
    "StreamSparsifier",
    "SubSampling",
    "edge_blocks",
    "edge_leverage",
    "effective_resistances",
    "knn_graph",
    "laplacian_eigenmaps",
    "sparsifier_report",
    "sparsify",
    "spectral_accuracy",
    "spectral_clustering",
]
