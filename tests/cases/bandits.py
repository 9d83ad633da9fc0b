"""Every bandit on fixed arms, the box, and what fits and measures them."""

from __future__ import annotations

import numpy as np

from squeak import bandits as room
from squeak.kernels import RBF, Matern
from tests.cases import case

FITTED = 1e-4
"""For what depends on a search for hyper-parameters, which ends within a tolerance of its own."""


def arms(n=80):
    """Return arms in the unit square."""
    return np.random.default_rng(1).random((n, 2))


def rewards(seed=0):
    """Return a function from an arm's number to a reward with noise."""
    values = np.exp(-8 * ((arms() - 0.6) ** 2).sum(axis=1))
    noise = np.random.default_rng(seed)
    return lambda arm: float(values[arm] + 0.1 * noise.standard_normal())


def of(bandit):
    """Return what a bandit did and believes."""
    mean, std = bandit.posterior()
    best = bandit.best_
    found = {"pulls": bandit.pulls_, "rewards": bandit.rewards_, "mean": mean, "std": std}
    if hasattr(bandit, "is_exact_"):
        found["exact"] = bandit.is_exact_
    return {**found, "best": best.index, "best mean": best.mean, "best std": best.std, "beta": float(bandit.beta_)}


BANDITS = {
    "GPUCB": (room.GPUCB, {}),
    "GPUCB, scaled": (room.GPUCB, {"scale": "auto", "beta": 2.0}),
    "GPUCB, other widths and mean": (room.GPUCB, {"beta": 2.0, "prior_mean": 0.5, "noise": 0.2}),
    "BKB": (room.BKB, {}),
    "BatchBKB": (room.BatchBKB, {}),
    "BatchBKB, local": (room.BatchBKB, {"stopping": "local", "max_batch": 6}),
    "AutoUCB": (room.AutoUCB, {"crossover": 20, "repeats": 1}),
    "ExpectedImprovement": (room.ExpectedImprovement, {}),
    "ProbabilityOfImprovement": (room.ProbabilityOfImprovement, {}),
    "GPBUCB": (room.GPBUCB, {"batch_size": 5}),
    "UniformArms": (room.UniformArms, {}),
    "SorUCB": (room.SorUCB, {}),
    "DictionaryThompson": (room.DictionaryThompson, {}),
    "ThompsonSampling": (room.ThompsonSampling, {}),
    "BKB, a coin for each pull": (room.BKB, {"coins": "pull", "oversampling": 1.0}),
    "RandomFeatureUCB": (room.RandomFeatureUCB, {"n_features": 80}),
}


def _run(kind, options):
    def run(folder):
        made = kind(arms(), RBF(0.25), random_state=0, **{"noise": 0.1, "beta": "logdet", **options}).run(
            rewards(), 50
        )
        new = made.posterior(np.array([[0.5, 0.5], [0.1, 0.9]]))
        return {**of(made), "new mean": new[0], "new std": new[1]}

    return run


for _name, (_kind, _options) in BANDITS.items():
    case(f"bandits: {_name}")(_run(_kind, _options))


@case("bandits: asked twice, forgotten, added and retired")
def _(folder):
    found = {}
    for kind in (room.GPUCB, room.BKB, room.AutoUCB):
        made = kind(arms(), RBF(0.25), beta="logdet", random_state=3)
        judge = rewards(1)
        for _ in range(6):
            asked = [int(arm) for arm in (*np.ravel(made.ask()), *np.ravel(made.ask()))]
            made.tell(asked[::-1], [judge(arm) for arm in asked[::-1]])
        made.ask()
        made.forget(made.pending_)
        made.retire([int(made.best_.index)])
        numbers = made.add_arms(np.array([[0.6, 0.6], [0.0, 0.0]]))
        made.tell(numbers, [1.0, 0.0])
        made.run(lambda arm: 0.5, 5)
        found |= {f"{kind.__name__}, {key}": value for key, value in of(made).items()}
    return found


@case("bandits: a refit on the way", FITTED)
def _(folder):
    found = {}
    for kind in (room.GPUCB, room.AutoUCB):
        made = kind(arms(), Matern(0.5), noise=0.3, beta="logdet", refit=[16], random_state=0).run(rewards(), 20)
        found[f"{kind.__name__}, pulls"] = made.pulls_[:17]
        found[f"{kind.__name__}, noise"] = float(made.noise_)
        found[f"{kind.__name__}, width"] = float(np.ravel(made.kernel_.length_scale)[0])
    return found


@case("bandits: evidence and its maximum", FITTED)
def _(folder):
    X = np.random.default_rng(0).random((60, 1))
    y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(60)
    known = X, np.ones(60), y, float(y @ y)
    fitted = room.fit_hyperparameters(*known, RBF(1.0), 1.0)
    return {
        "evidence": room.log_evidence(*known, RBF(0.3), 0.1),
        "landmarks": room.log_evidence(*known, RBF(0.3), 0.1, landmarks=np.arange(0, 60, 3)),
        "best": fitted.log_likelihood,
        "noise": fitted.noise,
        "width": float(fitted.kernel.length_scale),
    }


@case("bandits: regret and oversampling")
def _(folder):
    found = room.regret([0.0, 1.0, 3.0], [0, 1, 2, 2])
    return {
        "cumulative": found.cumulative,
        "simple": found.simple,
        "average": found.average,
        "relative": found.relative,
        "oversampling": room.bkb_oversampling(0.5, 0.1, 400),
    }


@case("bandits: saved and loaded")
def _(folder):
    found = {}
    for kind in (room.GPUCB, room.BKB, room.BatchBKB, room.AutoUCB, room.DictionaryThompson):
        made = kind(arms(), RBF(0.25), noise=0.1, beta="logdet", random_state=0).run(rewards(), 20)
        made.save(folder / "b.sqk")
        again = kind.load(folder / "b.sqk").run(rewards(2), 15)
        found |= {f"{kind.__name__}, pulls": again.pulls_, f"{kind.__name__}, mean": again.posterior()[0]}
    return found


def height(x):
    """Return the value of a point of the box."""
    return -((x[0] - 0.3) ** 2) - (x[1] - 1.0) ** 2


@case("bandits: BoxUCB, the first points")
def _(folder):
    box = room.BoxUCB([(-1.0, 1.0), (0.0, 2.0)], n_initial=8, random_state=0)
    asked = [box.ask() for _ in range(3)]
    for x in asked:
        box.tell(x, height(x))
    more = [box.ask() for _ in range(4)]
    return {"asked": np.array(asked, dtype=float), "more": np.array(more, dtype=float), "best": box.best_[1]}


@case("bandits: BoxUCB", 1e-3)
def _(folder):
    box = room.BoxUCB([(-1.0, 1.0), (0.0, 2.0)], random_state=0)
    for _ in range(14):
        x = box.ask()
        box.tell(x, height(x))
    return {"points": np.array(box.told_[0], dtype=float)[:12], "told": len(box.told_[1])}


@case("bandits: minimize over mixed sides", 1e-3)
def _(folder):
    sides = [room.Real(1e-3, 1.0, log=True), room.Integer(1, 9), room.Categorical(["a", "b", "c"])]

    def f(x):
        return (np.log10(x[0]) + 2) ** 2 + 0.1 * (x[1] - 4) ** 2 + (x[2] != "b")

    found = room.minimize(f, sides, 12, random_state=0)
    words = [str(point[2]) for point in found.points]
    whole = [int(point[1]) for point in found.points]
    return {"first": [float(p[0]) for p in found.points][:8], "whole": whole[:8], "words": words[:8]}


@case("bandits: sides of a box")
def _(folder):
    real, whole = room.Real(1e-4, 1.0, log=True), room.Integer(1, 5)
    named = room.Categorical(["relu", "tanh"])
    return {
        "real": [real.decode([u]) for u in (0.0, 0.25, 1.0)],
        "whole": [whole.decode([u]) for u in (0.0, 0.49, 1.0)],
        "named": named.decode([0.1, 0.6]),
        "encoded": np.concatenate([real.encode(0.01), whole.encode(3), named.encode("relu")]),
    }
