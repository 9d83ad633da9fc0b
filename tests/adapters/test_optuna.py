"""The Optuna sampler: every kind of parameter, both directions, conditional spaces, parallel trials."""

import pickle

import pytest

optuna = pytest.importorskip("optuna")

from squeak.adapters.optuna import SqueakSampler  # noqa: E402


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


def test_bad_parameters_and_many_objectives_are_refused():
    with pytest.raises(ValueError, match="beta"):
        SqueakSampler(beta="wide")
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=SqueakSampler(random_state=0))
    with pytest.raises(ValueError, match="one objective"):
        study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 1.0), n_trials=3)


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
