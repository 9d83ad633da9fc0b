"""An Optuna sampler on :class:`squeak.bandits.BoxUCB`; needs the extra ``optuna``."""

from __future__ import annotations

import math
import os
import threading
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from squeak.bandits.continuous import BoxUCB
from squeak.bandits.space import Categorical, Integer, Real
from squeak.core.kernels.registry import kernel_from_data, kernel_to_data
from squeak.core.saved import NestedPiece, Parts, Saved, put_together, take_apart
from squeak.core.seeds import PROBE, RandomState, draw_seed, generator_at
from squeak.core.state import parameters, wholes
from squeak.core.state import seed as a_seed
from squeak.core.storage import NotStoredError
from squeak.core.types import IntArray

CONSTRAINTS = "constraints"
"""Where Optuna keeps what was seen of the constraints of a trial."""

OVER = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class SqueakSampler(Saved, optuna.samplers.BaseSampler):
    """Suggest parameters by a Gaussian process whose cost per trial stays small after hundreds of trials.

    All parameters that finished trials had are chosen together by :class:`~squeak.bandits.BoxUCB`; the first trials
    are random. A parameter that only some trials have is not there in the others: where its presence followed from
    the value of a category in all trials so far, the search knows it beforehand. Trials that are running, here or
    on other machines, count as pending.

    Trials that fail, are pruned or give no finite number are failures, and the search learns to avoid what is like
    them. Constraints are those of ``constraints_func``, or of ``trial.set_constraint`` where Optuna has it. Trials
    that have fewer constraints than others are left out. Studies with several objectives are searched for the
    volume that their front dominates.

    A study that is loaded in a new process goes on with a new sampler, which learns all trials at once. To go on in
    the same bits, :meth:`save` the sampler beside the study and :meth:`load` it.

    Parameters
    ----------
    random_state : None, int, RandomState or Generator
        The seed.
    seed : int, optional
        The same, as Optuna's own samplers call it.
    constraints_func : callable, optional
        It takes a finished trial and returns a sequence of numbers; each constraint holds where its number is at
        most 0. As in Optuna's own samplers.
    **params
        Parameters of :class:`~squeak.bandits.BoxUCB`: ``beta``, ``n_initial``, ``crossover``, ``max_atoms``,
        ``kernel``.

    Examples
    --------
    >>> import optuna
    >>> from squeak.adapters.optuna import SqueakSampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=SqueakSampler(seed=0))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -5, 5) - 1) ** 2, n_trials=25)
    >>> abs(study.best_params["x"] - 1) < 0.2
    True
    """

    kind: ClassVar[str] = "optuna-sampler"
    _state: ClassVar[Any] = {
        "_seed": a_seed(),
        "_numbers": wholes("told"),
        "_box": NestedPiece(BoxUCB, optional=True),
    }

    def __init__(
        self,
        random_state: RandomState = None,
        *,
        seed: int | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        **params: Any,
    ) -> None:
        if seed is not None and random_state is not None:
            raise ValueError("seed and random_state are the same: give one of them")
        self._seed = draw_seed(random_state if seed is None else seed)
        self._keeper = _keeper(constraints_func)
        self._params = params
        if params.keys() & {"objectives", "conditions"}:
            raise TypeError("objectives and conditions follow from the study: leave them out")
        BoxUCB([(0.0, 1.0)], **params)  # refuse bad parameters now, not in the middle of a study
        self._seen: dict[str, BaseDistribution] = {}
        self._presence = _Presence()
        self._read: set[int] = set()
        self._box: BoxUCB | None = None
        self._made_for: Any = None
        self._told: set[int] = set()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @property
    def _numbers(self) -> IntArray:
        """The numbers of the trials that the box was told."""
        return np.array(sorted(self._told), dtype=np.int64)

    def to_parts(self) -> Parts:
        """Return the parts for a file: what the trials of the study, which are read again, do not tell."""
        with self._lock:
            arrays, content = take_apart(self, self._state)
            space = self._made_for[0] if self._box is not None else []
        own = self._params.get("kernel")
        kernel = None if own is None else kernel_to_data(own)
        if own is not None and kernel is None:
            raise NotStoredError(f"the kernel {own!r} is code, which is never stored")
        params = {name: value for name, value in self._params.items() if name != "kernel"}
        sides = [[name, optuna.distributions.distribution_to_json(side)] for name, side in space]
        return arrays, content | {"kernel": kernel, "params": params, "space": sides}

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
        """Return the sampler that :meth:`to_parts` took apart; anything that does not fit raises."""
        found = put_together(cls._state, arrays, content)
        own = None if content["kernel"] is None else kernel_from_data(content["kernel"])
        sampler = cls(0, **parameters(BoxUCB, content["params"]) | ({} if own is None else {"kernel": own}))
        sampler._seed, sampler._told, sampler._box = found["_seed"], set(found["_numbers"].tolist()), found["_box"]
        if sampler._box is not None:
            inner = sampler._box.space
            space = [
                (str(name), optuna.distributions.json_to_distribution(side)) for name, side in content["space"]
            ]
            if [_side(side) for _, side in space] != inner.sides:
                raise ValueError("its box is not that of its parameters")
            conditions = (
                None
                if inner.conditions is None
                else {
                    child: (parent, [inner.sides[parent].choices[i] for i in values])
                    for child, parent, values in inner.conditions
                }
            )
            sampler._made_for = (space, conditions, sampler._box.objectives)
        return sampler

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        kernel: Any = None,
        *,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
    ) -> SqueakSampler:
        """Read a sampler that was saved, to go on with its study in the same bits.

        Parameters
        ----------
        path : path
        kernel : None
            A sampler with a kernel that is code is not stored.
        constraints_func : callable, optional
            The same as before: functions are code, which is never stored.

        Returns
        -------
        SqueakSampler
        """
        found = super().load(path, kernel)
        found._keeper = _keeper(constraints_func)
        return found

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that finished trials had, but those with a single value."""
        with self._lock:
            for other in study.get_trials(deepcopy=False, states=OVER):
                if other.number not in self._read:
                    self._read.add(other.number)
                    self._seen.update(other.distributions)
                    if other.state != TrialState.FAIL:  # one that failed may have ended before it named them all
                        self._presence.see(other)
            return {name: side for name, side in sorted(self._seen.items()) if not side.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next values of these parameters."""
        if not search_space:
            return {}
        with self._lock:  # trials of one study may run in several threads
            return self._suggested(study, trial, search_space)

    def _suggested(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        box = self._box_for(study, search_space)
        over = study.get_trials(deepcopy=False, states=OVER)
        new = [other for other in over if other.number not in self._told]
        told = [(other, *_result(study, other)) for other in new if _inside(box, search_space, other)]
        count = max([box.n_constraints_ or 0, *(len(limits) for _, _, limits in told)])
        if box.n_told_ and count != box.n_constraints_:  # there are more now, of which those before say nothing
            self._box = None
            return self._suggested(study, trial, search_space)
        told = [one for one in told if math.isnan(one[1][0]) or len(one[2]) == count]
        try:
            box.tell_many(
                [_point(search_space, other) for other, _, _ in told],
                [values if len(values) > 1 else values[0] for _, values, _ in told],
                [limits for _, _, limits in told],
            )
            self._told.update(other.number for other in new)
        except BaseException:
            self._box = None  # made anew, and told of all trials, whatever it knows of these
            raise
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        pending = [t for t in running if t.number != trial.number and _inside(box, search_space, t)]
        box.set_pending([_point(search_space, other) for other in pending])
        if box.n_told_ < box.n_first_:
            return {}
        box.skip_to(trial.number)  # processes that share a study, and a seed, do not draw the same
        asked = zip(search_space.items(), box.ask(), strict=True)
        return {name: _value(side, v) for (name, side), v in asked if v is not None}

    def _box_for(self, study: Study, space: dict[str, BaseDistribution]) -> BoxUCB:
        """Return the box of these parameters, made anew where they, or what is known of their presence, changed."""
        conditions = self._presence.conditions(space)
        made_for = (list(space.items()), conditions, len(study.directions))
        if self._box is None or made_for != self._made_for:
            seed = np.random.SeedSequence(self._seed, spawn_key=(len(space),))
            self._box = BoxUCB(
                [_side(side) for side in space.values()],
                conditions=conditions,
                objectives=len(study.directions),
                random_state=np.random.default_rng(seed),
                **self._params,
            )
            self._made_for, self._told = made_for, set()
        return self._box

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a random value: for the first trials, and for parameters that no finished trial had.

        It depends on the seed, the trial's number and the parameter's name alone.
        """
        place = (PROBE, trial.number, zlib.crc32(param_name.encode()))
        random = optuna.samplers.RandomSampler(int(generator_at(self._seed, *place).integers(2**32)))
        return random.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Take fresh randomness, as Optuna asks of each worker; the search goes on.

        What the search draws depends on the number of the trial, too, so that no two workers draw the same.
        """
        with self._lock:
            self._seed = draw_seed(None)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Keep what is seen of the constraints with the trial; results are read when the next trial begins."""
        if self._keeper is not None:
            self._keeper.after_trial(study, trial, state, values)


def _keeper(constraints_func: Callable[[FrozenTrial], Sequence[float]] | None) -> Any:
    """Return one of Optuna's samplers, which keeps the constraints with the trials as all of them do."""
    if constraints_func is None:
        return None
    with warnings.catch_warnings():  # Optuna calls constraints experimental
        warnings.simplefilter("ignore")
        return optuna.samplers.TPESampler(constraints_func=constraints_func)


class _Presence:
    """With which values of the categories of a trial a parameter was there, and with which it was not."""

    def __init__(self) -> None:
        self.trials = 0
        self.counts: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        """How many trials had both."""
        self.with_value: Counter[tuple[str, str, int]] = Counter()
        """How many trials had the first parameter, and the second with that value."""

    def see(self, trial: FrozenTrial) -> None:
        """Take in a trial that named all its parameters."""
        self.trials += 1
        self.counts.update(trial.params.keys())
        for parent, side in trial.distributions.items():
            if isinstance(side, CategoricalDistribution):
                value = int(side.to_internal_repr(trial.params[parent]))
                self.pairs.update((name, parent) for name in trial.params)
                self.with_value.update((name, parent, value) for name in trial.params)

    def conditions(self, space: dict[str, BaseDistribution]) -> Any:
        """Return which parameter is there with which values of a category, by numbers; None: all always are."""
        if all(self.counts[name] == self.trials for name in space):
            return None
        parents = [name for name, side in space.items() if isinstance(side, CategoricalDistribution)]
        parents.sort(key=lambda name: -self.counts[name])  # the most common ones explain first
        numbers, found = {name: i for i, name in enumerate(space)}, {}
        for name, i in numbers.items():
            if self.counts[name] == self.trials:
                continue
            for parent in parents:
                values = self._values(name, parent, _side(space[parent]).choices)
                if values is not None:
                    found[i] = (numbers[parent], values)
                    break
        return found

    def _values(self, name: str, parent: str, choices: Sequence[int]) -> list[int] | None:
        """Return with which values of the parent a parameter is there; None: that does not follow from them."""
        if self.counts[parent] <= self.counts[name]:  # itself, or one that is there no more often
            return None
        allowed = []
        for value in choices:
            there, seen = self.with_value[name, parent, value], self.with_value[parent, parent, value]
            if 0 < there < seen:
                return None
            if there or not seen:
                allowed.append(value)
        return allowed if self.pairs[name, parent] == self.counts[name] and len(allowed) < len(choices) else None


def _constraints(trial: FrozenTrial) -> list[float]:
    """Return what was seen of a trial's constraints, by Optuna's older key for all and its newer ones for each."""
    attrs = trial.system_attrs
    named = sorted(key for key in attrs if key.startswith(f"{CONSTRAINTS}:"))
    return [float(number) for number in [*(attrs.get(CONSTRAINTS) or ()), *(attrs[key] for key in named)]]


def _result(study: Study, trial: FrozenTrial) -> tuple[list[float], list[float]]:
    """Return the values of a trial, larger ones better, and its constraints; of one that failed NaN, and none."""
    values, limits = trial.values, _constraints(trial)
    numbers = [*(values or [math.nan]), *limits]
    if trial.state != TrialState.COMPLETE or not all(abs(number) < 1e150 for number in numbers):
        return [math.nan] * len(study.directions), []
    signs = [-1.0 if side == StudyDirection.MINIMIZE else 1.0 for side in study.directions]
    return [sign * value for sign, value in zip(signs, trial.values, strict=True)], limits


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


def _point(space: dict[str, BaseDistribution], trial: FrozenTrial) -> list[Any]:
    """Return a trial's values as the sides of the box have them; None where it lacks one."""
    return [_place(side, trial.params[name]) if name in trial.params else None for name, side in space.items()]


def _place(side: BaseDistribution, value: Any) -> Any:
    return int(side.to_internal_repr(value)) if isinstance(side, CategoricalDistribution) else value


def _inside(box: BoxUCB, space: dict[str, BaseDistribution], trial: FrozenTrial) -> bool:
    """Tell whether a trial has parameters, each within its side, and lacks none where none may be lacking."""
    if not trial.params or not (box.space.has_gaps or space.keys() <= trial.params.keys()):
        return False
    for name, value in trial.params.items():
        side = space.get(name)
        if isinstance(side, CategoricalDistribution):
            if value not in side.choices:
                return False
        elif isinstance(side, FloatDistribution | IntDistribution) and not side.low <= value <= side.high:
            return False
    return True
