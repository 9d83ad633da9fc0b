"""An Optuna sampler on :class:`squeak.bandits.BoxUCB`; needs the extra ``optuna``."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from squeak.bandits.continuous import BoxUCB
from squeak.bandits.space import Categorical, Integer, Real
from squeak.core.seeds import RandomState, draw_seed


class SqueakSampler(optuna.samplers.BaseSampler):
    """Suggest parameters by a Gaussian process whose cost per trial stays small after hundreds of trials.

    Parameters that every finished trial had are chosen together by :class:`~squeak.bandits.BoxUCB`; others, and
    the first trials, at random. Trials that are running, here or on other machines, count as pending.

    Parameters
    ----------
    random_state : None, int, RandomState or Generator
    **params
        Parameters of :class:`~squeak.bandits.BoxUCB`: ``beta``, ``n_initial``, ``crossover``, ``max_atoms``,
        ``kernel``.

    Examples
    --------
    >>> import optuna
    >>> from squeak.adapters.optuna import SqueakSampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=SqueakSampler(random_state=0))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -5, 5) - 1) ** 2, n_trials=25)
    >>> abs(study.best_params["x"] - 1) < 0.2
    True
    """

    def __init__(self, random_state: RandomState = None, **params: Any) -> None:
        self._seed = draw_seed(random_state)
        self._params = params
        BoxUCB([(0.0, 1.0)], **params)  # refuse bad parameters now, not in the middle of a study
        self._random = optuna.samplers.RandomSampler(seed=self._seed % 2**32)
        self._search_space = IntersectionSearchSpace()
        self._box: BoxUCB | None = None
        self._sides: dict[str, BaseDistribution] = {}
        self._told: set[int] = set()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that every finished trial had, but those with a single value."""
        space = self._search_space.calculate(study)
        return {name: side for name, side in space.items() if not side.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next values of these parameters."""
        if not search_space:
            return {}
        if len(study.directions) > 1:
            raise ValueError("SqueakSampler is for one objective; this study has several")
        with self._lock:  # trials of one study may run in several threads
            return self._suggested(study, trial, search_space)

    def _suggested(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if self._box is None or search_space != self._sides:
            seed = np.random.SeedSequence(self._seed, spawn_key=(len(search_space),))
            sides = [_side(side) for side in search_space.values()]
            self._box = BoxUCB(sides, random_state=np.random.default_rng(seed), **self._params)
            self._sides, self._told = dict(search_space), set()
        box, names = self._box, list(search_space)
        sign = -1.0 if study.direction == StudyDirection.MINIMIZE else 1.0
        pending = []
        for other in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.RUNNING)):
            if other.number == trial.number or other.number in self._told or not _inside(search_space, other):
                continue
            point = [_place(search_space[name], other.params[name]) for name in names]
            if other.state == TrialState.RUNNING:
                pending.append(point)
                continue
            self._told.add(other.number)
            if other.value is not None and math.isfinite(other.value) and abs(other.value) < 1e150:
                box.tell(point, sign * other.value)
        box.set_pending(pending)
        if box.n_told_ < box.n_initial:
            return {}
        return {name: _value(side, v) for (name, side), v in zip(search_space.items(), box.ask(), strict=True)}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a random value: for the first trials and for parameters that not all trials have."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Take fresh randomness, as Optuna asks of each worker process."""
        with self._lock:
            self._seed, self._box = draw_seed(None), None
            self._random.reseed_rng()

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Do nothing: results are read when the next trial begins."""


def _side(side: BaseDistribution) -> Any:
    """Return one of our sides for one of Optuna's; of categories the numbers.

    Optuna takes True for 1 where both are choices, so a choice that is equal to an earlier one is left out.
    """
    if isinstance(side, CategoricalDistribution):
        return Categorical([i for i, choice in enumerate(side.choices) if side.to_internal_repr(choice) == i])
    if isinstance(side, IntDistribution):
        return Integer(side.low, side.high, side.log) if side.step == 1 else Real(side.low, side.high, side.log)
    if isinstance(side, FloatDistribution):
        return Real(side.low, side.high, side.log)
    raise TypeError(f"SqueakSampler does not know parameters of the kind {type(side).__name__}")


def _value(side: BaseDistribution, value: Any) -> Any:
    """Return a value on the steps of Optuna's side, within its ends."""
    if isinstance(side, IntDistribution):
        stepped = side.low + round((value - side.low) / side.step) * side.step
        return int(min(max(stepped, side.low), side.high))
    if isinstance(side, FloatDistribution):
        if side.step is not None:
            value = side.low + round((value - side.low) / side.step) * side.step
        return float(min(max(value, side.low), side.high))
    return side.to_external_repr(value)


def _place(side: BaseDistribution, value: Any) -> Any:
    """Return a trial's value as the sides of the box have it."""
    return int(side.to_internal_repr(value)) if isinstance(side, CategoricalDistribution) else value


def _inside(space: dict[str, BaseDistribution], trial: FrozenTrial) -> bool:
    """Tell whether a trial has all these parameters, each within its side."""
    for name, side in space.items():
        if name not in trial.params:
            return False
        value = trial.params[name]
        if isinstance(side, CategoricalDistribution):
            if value not in side.choices:
                return False
        elif isinstance(side, FloatDistribution | IntDistribution) and not side.low <= value <= side.high:
            return False
    return True
