"""Bandits: choose the next experiment, with a regret guarantee and a cost per step that stays small."""

from squeak.bandits.baselines import (
    GPBUCB,
    DictionaryThompson,
    ExpectedImprovement,
    ProbabilityOfImprovement,
    RandomFeatureUCB,
    SorUCB,
    UniformArms,
)
from squeak.bandits.batch_bkb import BatchBKB
from squeak.bandits.bkb import BKB, bkb_oversampling
from squeak.bandits.continuous import BoxUCB
from squeak.bandits.evidence import fit_hyperparameters, log_evidence
from squeak.bandits.gp_ucb import GPUCB, AutoUCB
from squeak.bandits.minimizing import MinimizeResult, minimize
from squeak.bandits.runs import Best, regret
from squeak.bandits.space import Categorical, Integer, Real
from squeak.bandits.thompson import ThompsonSampling

__all__ = [
    "BKB",
    "GPBUCB",
    "GPUCB",
    "AutoUCB",
    "BatchBKB",
    "Best",
    "BoxUCB",
    "Categorical",
    "DictionaryThompson",
    "ExpectedImprovement",
    "Integer",
    "MinimizeResult",
    "ProbabilityOfImprovement",
    "RandomFeatureUCB",
    "Real",
    "SorUCB",
    "ThompsonSampling",
    "UniformArms",
    "bkb_oversampling",
    "fit_hyperparameters",
    "log_evidence",
    "minimize",
    "regret",
]
