"""The Optuna sampler: every kind of parameter, both directions, conditional spaces, parallel trials."""

import math
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest

optuna = pytest.importorskip("optuna")

from squeak.adapters.optuna import SqueakSampler  # noqa: E402
from squeak.bandits import BoxUCB  # noqa: E402
from squeak.core.storage import NotStoredError  # noqa: E402
from squeak.kernels import PairwiseKernel  # noqa: E402


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def mixed(trial):
    x = trial.suggest_float("x", -3.0, 3.0)
    rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
    step = trial.suggest_float("step", 0.0, 1.0, step=0.25)
    n = trial.suggest_int("n", 0, 30, step=5)
    kind = trial.suggest_categorical("kind", ["a", "b", None])
    assert step in (0.0, 0.25, 0.5, 0.75, 1.0)
    assert n in range(0, 31, 5)
    assert 1e-4 <= rate <= 1.0
    return (x - 1) ** 2 + (step - 0.5) ** 2 + (n - 10) ** 2 / 100 + (kind != "b")


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_mixed_parameters_are_optimised_in_both_directions(direction):
    sign = 1 if direction == "minimize" else -1
    study = optuna.create_study(direction=direction, sampler=SqueakSampler(random_state=0))
    study.optimize(lambda trial: sign * mixed(trial), n_trials=45)
    random = optuna.create_study(direction=direction, sampler=optuna.samplers.RandomSampler(seed=0))
    random.optimize(lambda trial: sign * mixed(trial), n_trials=45)
    assert sign * study.best_value < 0.1
    assert sign * study.best_value < sign * random.best_value
    assert study.best_params["kind"] == "b"


def test_the_same_seed_gives_the_same_trials():
    runs = []
    for _ in range(2):
        study = optuna.create_study(sampler=SqueakSampler(random_state=4))
        study.optimize(mixed, n_trials=18)
        runs.append([trial.params for trial in study.trials])
    assert runs[0] == runs[1]


def test_conditional_parameters_failed_and_pruned_trials_do_no_harm():
    def f(trial):
        x = trial.suggest_float("x", 0, 1)
        if trial.number % 5 == 1:
            raise optuna.TrialPruned
        if trial.number % 5 == 2:
            raise ValueError("it failed")
        if x > 0.5:
            trial.suggest_int("only_sometimes", 1, 3)
        return (x - 0.3) ** 2

    study = optuna.create_study(sampler=SqueakSampler(random_state=0))
    study.optimize(f, n_trials=40, catch=(ValueError,))
    assert study.best_value < 1e-3


def test_asked_and_not_yet_told_trials_are_pending():
    study = optuna.create_study(sampler=SqueakSampler(random_state=0, n_initial=4))
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.4) ** 2, n_trials=8)
    space = {"x": optuna.distributions.FloatDistribution(0, 1)}
    open_trials = [study.ask(space) for _ in range(4)]
    assert len({trial.params["x"] for trial in open_trials}) == 4
    for trial in reversed(open_trials):
        study.tell(trial, (trial.params["x"] - 0.4) ** 2)
    assert study.best_value < 0.01


def test_bad_parameters_are_refused():
    with pytest.raises(ValueError, match="beta"):
        SqueakSampler(beta="wide")
    with pytest.raises(ValueError, match="give one of them"):
        SqueakSampler(1, seed=1)
    for name in ("objectives", "conditions"):
        with pytest.raises(TypeError, match="follow from the study"):
            SqueakSampler(**{name: 2})


def test_seed_is_the_random_state():
    found = []
    for sampler in (SqueakSampler(seed=3, n_initial=4), SqueakSampler(3, n_initial=4)):
        study = optuna.create_study(sampler=sampler)
        study.optimize(mixed, n_trials=6)
        found.append([trial.params for trial in study.trials])
    assert found[0] == found[1]


def test_constraints_are_kept_and_known_to_optuna():
    """The minimum without the constraint is at 0; with it at x + y = 1."""

    def f(trial):
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        trial.set_user_attr("sum", x + y)
        return x * x + y * y

    sampler = SqueakSampler(seed=0, n_initial=6, constraints_func=lambda trial: (1.0 - trial.user_attrs["sum"],))
    study = optuna.create_study(sampler=sampler)
    study.optimize(f, n_trials=30)
    assert all(len(trial.system_attrs["constraints"]) == 1 for trial in study.trials)
    good = [trial for trial in study.trials if trial.user_attrs["sum"] >= 1]
    assert len(good) > 10
    assert min(trial.value for trial in good) < 0.51
    told = [trial.value for trial in good if trial.number < 29]  # the last one is told when another is asked for
    assert sampler._box.best_.mean == -min(told)


def rising(trial):
    """The minimum of x where x is at least .5, the constraint of ``above``."""
    return trial.suggest_float("x", 0, 1)


def above(trial):
    return [0.5 - trial.params["x"]]


@pytest.mark.parametrize("first", [math.nan, 0.0])
def test_failures_and_constraints_are_known_together(first):
    """Also where the first trial that a new sampler reads has failed, and so has no constraints."""
    values = iter([first, *[0.0] * 4, math.nan])

    def f(trial):
        return rising(trial) + next(values, 0.0)

    study = optuna.create_study(sampler=SqueakSampler(seed=0, n_initial=4, constraints_func=above))
    study.optimize(f, n_trials=8)
    study.sampler = SqueakSampler(seed=1, n_initial=4, constraints_func=above)
    study.optimize(f, n_trials=12)
    box, failed = study.sampler._box, 1 + math.isnan(first)
    assert (box.n_told_, box.n_failed_, box.n_constraints_) == (19 - failed, failed, 1)
    assert min(trial.params["x"] for trial in study.trials[12:]) > 0.4  # at random half of them are below .5


def test_constraints_may_be_added_to_a_study():
    """Trials of before have none: they are neither failures nor points that satisfy them."""
    study = optuna.create_study(sampler=SqueakSampler(seed=0, n_initial=4))
    study.optimize(rising, n_trials=6)
    study.sampler._keeper = SqueakSampler(constraints_func=above)._keeper
    study.optimize(rising, n_trials=9)
    box = study.sampler._box
    assert (box.n_told_, box.n_failed_, box.n_constraints_) == (8, 0, 1)


def test_parallel_trials_go_on_with_one_search():
    sampler = SqueakSampler(random_state=0, n_initial=4)
    study = optuna.create_study(sampler=sampler)
    study.optimize(rising, n_trials=6)
    box = sampler._box
    study.optimize(rising, n_trials=8, n_jobs=2)
    assert sampler._box is box
    assert box.n_told_ > 10


def test_a_trial_that_was_not_learned_for_an_interrupt_is_learned_later(monkeypatch):
    study = optuna.create_study(sampler=SqueakSampler(random_state=0, n_initial=4))
    study.optimize(rising, n_trials=6)

    def stops(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BoxUCB, "tell_many", stops)
        with pytest.raises(KeyboardInterrupt):
            study.optimize(rising, n_trials=1)
    study.optimize(rising, n_trials=2)
    assert study.sampler._box.n_told_ == 7


@pytest.mark.parametrize(
    "how", ["fails", *(pytest.param(how, marks=pytest.mark.slow) for how in ("nan", "pruned"))]
)
def test_failures_are_avoided(how):
    """The minimum of what can be evaluated is at .5, at the border of a half in which every trial fails."""

    def f(trial):
        x = trial.suggest_float("x", 0, 1)
        trial.suggest_float("y", 0, 1)
        if x < 0.5 and how == "fails":
            raise ValueError("it failed")
        if x < 0.5 and how == "pruned":
            raise optuna.TrialPruned
        return float("nan") if x < 0.5 else x

    study = optuna.create_study(sampler=SqueakSampler(seed=0, n_initial=5))
    study.optimize(f, n_trials=35, catch=(ValueError,))
    assert study.best_value < 0.51
    late = [trial.params["x"] for trial in study.trials[15:]]
    assert sum(x < 0.45 for x in late) < len(late) / 2  # where nothing is known of failures all are at 0


def nested(trial):
    kind = trial.suggest_categorical("kind", ["tree", "line", "net"])
    if kind == "tree":
        return 0.5 + (trial.suggest_int("depth", 1, 20) - 7) ** 2 / 100
    if kind == "line":
        return 1.0 + trial.suggest_float("slope", 0, 1)
    rate = trial.suggest_float("rate", 1e-4, 1, log=True)
    if trial.suggest_categorical("drop", [False, True]):
        return (math.log10(rate) + 2) ** 2 / 4 + (trial.suggest_float("share", 0, 1) - 0.3) ** 2
    return 0.3 + (math.log10(rate) + 2) ** 2 / 4


def test_what_follows_from_a_category_is_learned_and_searched_together():
    sampler = SqueakSampler(seed=1)
    study = optuna.create_study(sampler=sampler)
    study.optimize(nested, n_trials=60)
    assert study.best_value < 0.02
    assert study.best_params["drop"] is True
    names = sorted(study.trials[-1].params.keys() | {"depth", "slope", "rate", "drop", "share", "kind"})
    known = {names[i]: names[parent] for i, (parent, _) in sampler._made_for[1].items()}
    assert known == {"depth": "kind", "slope": "kind", "rate": "kind", "drop": "kind", "share": "drop"}


def test_several_objectives_are_searched_for_the_volume_of_their_front():
    """Twice the volume of random trials' gap is closed; the ideal front is x + y = 1 between (0, 1) and (1, 0)."""

    def f(trial):
        x = [trial.suggest_float(f"x{i}", 0, 1) for i in range(4)]
        away = sum((v - 0.4) ** 2 for v in x[1:])
        return x[0] + away, 1 - x[0] + away

    def volume(study):
        front = sorted({tuple(trial.values) for trial in study.best_trials})
        steps = [b[0] for b in front[1:]] + [2.0]
        return sum(
            (min(end, 2.0) - min(a[0], 2.0)) * max(2.0 - a[1], 0.0) for a, end in zip(front, steps, strict=True)
        )

    found = {}
    for sampler in (SqueakSampler(seed=0), optuna.samplers.RandomSampler(seed=0)):
        study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
        study.optimize(f, n_trials=40)
        found[type(sampler).__name__] = 3.5 - volume(study)
    assert 0 < found["SqueakSampler"] < found["RandomSampler"] / 2


def storage(kind, folder):
    if kind == "sqlite":
        return optuna.storages.RDBStorage(f"sqlite:///{folder / 'study.db'}")
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / "study.log")))


def work(kind, folder, seed):
    """Run trials of the shared study in a process of its own; return how many trials of others the sampler knew."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = SqueakSampler(seed=seed, n_initial=4)
    study = optuna.load_study(study_name="s", storage=storage(kind, folder), sampler=sampler)
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.4) ** 2, n_trials=10)
    return len(sampler._told)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_processes_share_a_study_in_a_file_and_go_on_with_it_later(kind, tmp_path):
    optuna.create_study(study_name="s", storage=storage(kind, tmp_path))
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(work, kind, tmp_path, seed) for seed in range(2)]
        assert max(job.result() for job in jobs) > 10  # trials of the other process among them
    assert work(kind, tmp_path, 2) == 29  # all before, and its own but the last
    study = optuna.load_study(study_name="s", storage=storage(kind, tmp_path))
    assert len(study.trials) == 30
    assert study.best_value < 1e-3


def test_threads_of_one_study_lose_no_trial():
    """Four trials at once: the sampler learns every point with its own value, in whatever order they end."""
    sampler = SqueakSampler(random_state=0, n_initial=4)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.4) ** 2, n_trials=16, n_jobs=4)
    study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
    points, rewards = sampler._box.told_
    told = sorted((point[0], -reward) for point, reward in zip(points, rewards, strict=True))
    assert sampler._told == set(range(16))
    assert told == sorted((trial.params["x"], trial.value) for trial in study.trials[:16])


def test_a_sampler_can_be_copied_to_another_process():
    study = optuna.create_study(sampler=SqueakSampler(random_state=0, n_initial=4))
    study.optimize(mixed, n_trials=8)
    again = pickle.loads(pickle.dumps(study.sampler))
    assert again._told == study.sampler._told
    study.sampler = again
    study.optimize(mixed, n_trials=2)


@pytest.mark.parametrize("how", ["constraints", "nested", "two objectives"])
def test_a_saved_sampler_goes_on_with_its_study_in_the_same_bits(how, tmp_path):
    """A copy of the study goes on with the file; a sampler that learns all trials anew mostly ends in others."""

    def f(trial):
        if how == "nested":
            return nested(trial)
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_int("y", 0, 9)
        return (x * x + y, (x - 1) ** 2) if how == "two objectives" else x * x + y

    def limit(trial):
        return [0.5 - trial.params["x"]]

    def sampler():
        return SqueakSampler(seed=0, n_initial=4, constraints_func=limit if how == "constraints" else None)

    directions = ["minimize"] * (1 + (how == "two objectives"))
    first = optuna.create_study(directions=directions, sampler=sampler())
    first.optimize(f, n_trials=14)
    first.sampler.save(tmp_path / "s.sqk")
    loaded = SqueakSampler.load(tmp_path / "s.sqk", constraints_func=limit if how == "constraints" else None)
    ends = []
    for other in (loaded, sampler()):
        study = optuna.create_study(directions=directions, sampler=other)
        study.add_trials(first.trials[:14])
        study.optimize(f, n_trials=4)
        ends.append([trial.params for trial in study.trials[14:]])
    first.optimize(f, n_trials=4)
    assert ends[0] == [trial.params for trial in first.trials[14:]]
    assert how == "two objectives" or ends[0] != ends[1]  # there nothing but the trial's number is drawn by


def test_a_sampler_with_code_is_not_stored_and_a_damaged_file_is_refused(tmp_path):
    with pytest.raises(NotStoredError, match="code"):
        SqueakSampler(kernel=PairwiseKernel(lambda a, b: 1.0)).save(tmp_path / "s.sqk")
    study = optuna.create_study(sampler=SqueakSampler(seed=0, n_initial=3, beta=2.0))
    study.sampler.save(tmp_path / "new.sqk")
    assert SqueakSampler.load(tmp_path / "new.sqk")._params == {"n_initial": 3, "beta": 2.0}
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=5)
    arrays, content = study.sampler.to_parts()
    for wrong in ({"space": []}, {"params": {"beta": "wide"}}, {"box": None, "seed": -1}):
        with pytest.raises(ValueError):
            SqueakSampler.from_parts(arrays, content | wrong)


def test_processes_with_the_same_seed_do_not_repeat_each_other():
    study = optuna.create_study(sampler=SqueakSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    study.sampler = SqueakSampler(seed=0)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    assert len({trial.params["x"] for trial in study.trials}) == 4


def test_equal_categories_of_different_kinds_are_told_apart():
    study = optuna.create_study(sampler=SqueakSampler(random_state=0, n_initial=4))
    study.optimize(
        lambda trial: (trial.suggest_categorical("c", [1, True, "x"]) != "x") + trial.suggest_float("y", 0, 1),
        n_trials=16,
    )
    assert study.best_params["c"] == "x"


def test_objectives_without_a_number_or_beyond_float64_do_no_harm():
    def f(trial):
        x = trial.suggest_float("x", 1e9, 1e9 + 1)
        trial.suggest_categorical("only", ["one"])
        return {1: float("nan"), 2: 1e200}.get(trial.number % 5, x - 1e9)

    study = optuna.create_study(sampler=SqueakSampler(random_state=0, n_initial=4))
    study.optimize(f, n_trials=20)
    assert study.best_value < 0.1
