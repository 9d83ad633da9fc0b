"""Bandits: choose the next experiment, with a regret guarantee."""

from squeak.bandits.batch_bkb import BatchBKB
from squeak.bandits.bkb import BKB, bkb_oversampling
from squeak.bandits.gp_ucb import GPUCB

__all__ = ["BKB", "GPUCB", "BatchBKB", "bkb_oversampling"]
