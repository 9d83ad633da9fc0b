"""Samplers: every way to choose a dictionary. Each has ``fit``; those that read a stream also ``partial_fit``."""

from squeak.samplers.exact import ExactRLS
from squeak.samplers.kors import Kors
from squeak.samplers.merge import merge
from squeak.samplers.squeak import Squeak
from squeak.samplers.theory import kors_oversampling, oracle_oversampling, squeak_oversampling
from squeak.samplers.uniform import Uniform

__all__ = [
    "ExactRLS",
    "Kors",
    "Squeak",
    "Uniform",
    "kors_oversampling",
    "merge",
    "oracle_oversampling",
    "squeak_oversampling",
]
