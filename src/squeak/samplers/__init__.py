"""Samplers: every way to choose a dictionary. Each has ``fit``; those that read a stream also ``partial_fit``."""

from squeak.samplers.baselines import InkEstimate, MultinomialNystrom, OnlineOracle, OnlineOracleRemoval
from squeak.samplers.bless import Bless, BlessR
from squeak.samplers.comparing import compare
from squeak.samplers.disqueak import Disqueak
from squeak.samplers.exact import ExactRLS
from squeak.samplers.given import BinomialNystrom
from squeak.samplers.kors import Kors
from squeak.samplers.literal import LiteralSqueak
from squeak.samplers.merging import merge
from squeak.samplers.planning import calibrate, plan
from squeak.samplers.recursive import Recursive
from squeak.samplers.rpcholesky import GreedyCholesky, RPCholesky
from squeak.samplers.squeak import Squeak
from squeak.samplers.theory import (
    bless_oversampling,
    kors_oversampling,
    many_step_oversampling,
    online_oracle_oversampling,
    oracle_oversampling,
    recursive_oversampling,
    squeak_oversampling,
    squeak_oversampling_aistats,
    two_step_oversampling,
)
from squeak.samplers.two_step import ManyStep, TwoStep
from squeak.samplers.uniform import Uniform
from squeak.trees.tree import Tree

__all__ = [
    "BinomialNystrom",
    "Bless",
    "BlessR",
    "Disqueak",
    "ExactRLS",
    "GreedyCholesky",
    "InkEstimate",
    "Kors",
    "LiteralSqueak",
    "ManyStep",
    "MultinomialNystrom",
    "OnlineOracle",
    "OnlineOracleRemoval",
    "RPCholesky",
    "Recursive",
    "Squeak",
    "Tree",
    "TwoStep",
    "Uniform",
    "bless_oversampling",
    "calibrate",
    "compare",
    "kors_oversampling",
    "many_step_oversampling",
    "merge",
    "online_oracle_oversampling",
    "oracle_oversampling",
    "plan",
    "recursive_oversampling",
    "squeak_oversampling",
    "squeak_oversampling_aistats",
    "two_step_oversampling",
]
