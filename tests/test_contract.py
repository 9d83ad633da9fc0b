"""The contract of every public class, run over all of them; a class that is missing here fails a test.

What is asked stands in :mod:`squeak.checks`; here is what it is asked of.
"""

import inspect
import tracemalloc
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

import squeak
from squeak import (
    Kors,
    Squeak,
    bandits,
    checks,
    dpp,
    graphs,
    kernels,
    learners,
    leverage,
    online,
    places,
    report,
    samplers,
)
from squeak.bandits import GPUCB
from squeak.kernels import RBF
from squeak.learners import KernelRidge
from squeak.samplers import (
    BinomialNystrom,
    Bless,
    BlessR,
    Disqueak,
    ExactRLS,
    GreedyCholesky,
    InkEstimate,
    LiteralSqueak,
    ManyStep,
    MultinomialNystrom,
    OnlineOracle,
    OnlineOracleRemoval,
    Recursive,
    RPCholesky,
    TwoStep,
    Uniform,
)

SAMPLERS = {
    "Squeak": Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0),
    "Squeak, max_atoms": Squeak(kernel=RBF(1.0), max_atoms=40, random_state=0),
    "Squeak, copies": Squeak(kernel=RBF("median"), ridge=1.0, oversampling=6, copies=6, random_state=0),
    "Kors": Kors(kernel=RBF(1.0), ridge=1.0, oversampling=4, random_state=0),
    "Uniform": Uniform(kernel=RBF(1.0), max_atoms=50, random_state=0),
    "ExactRLS": ExactRLS(kernel=RBF(1.0), ridge=1.0, oversampling=5, random_state=0),
    "Uniform, with replacement": Uniform(kernel=RBF(1.0), max_atoms=50, replacement=True, random_state=0),
    "Disqueak": Disqueak(kernel=RBF(1.0), ridge=1.0, oversampling=5, n_leaves=1, random_state=0),
    "Disqueak, copies": Disqueak(RBF("median"), 1.0, oversampling=6, copies=6, tree="sequential", random_state=0),
    "BinomialNystrom": BinomialNystrom(RBF(1.0), copies=80, ridge=1.0, random_state=0),
    "LiteralSqueak": LiteralSqueak(RBF(1.0), 1.0, copies=6, eps=0.3, leaf_rows=150, random_state=0),
    "LiteralSqueak, over": LiteralSqueak(
        RBF(1.0), 1.0, copies=3, leaf_rows=100, tree="balanced", estimates="over", clip=True, random_state=0
    ),
    "MultinomialNystrom": MultinomialNystrom(RBF(1.0), 50, probabilities="diagonal", ridge=1.0, random_state=0),
    "TwoStep": TwoStep(kernel=RBF(1.0), ridge=1.0, oversampling=5, first_atoms=100, random_state=0),
    "TwoStep, original": TwoStep(RBF(1.0), 1.0, oversampling=5, first_atoms=100, original=True, random_state=0),
    "ManyStep": ManyStep(kernel=RBF(1.0), ridge=1.0, oversampling=5, copies=5, random_state=0),
    "Recursive": Recursive(kernel=RBF(1.0), ridge=1.0, oversampling=5, random_state=0),
    "InkEstimate": InkEstimate(kernel=RBF(1.0), ridge=1.0, copies=80, random_state=0),
    "OnlineOracle": OnlineOracle(kernel=RBF(1.0), ridge=1.0, oversampling=3, random_state=0),
    "OnlineOracleRemoval": OnlineOracleRemoval(kernel=RBF(1.0), ridge=1.0, oversampling=5, random_state=0),
    "Bless": Bless(kernel=RBF(1.0), ridge=1.0, oversampling=4, random_state=0),
    "BlessR": BlessR(kernel=RBF("median"), ridge=1.0, oversampling=4, random_state=0),
    "BlessR, max_atoms": BlessR(kernel=RBF(1.0), max_atoms=60, oversampling=4, random_state=0),
}
UNCALIBRATED = {
    "RPCholesky": RPCholesky(kernel=RBF(1.0), max_atoms=40, random_state=0),
    "GreedyCholesky": GreedyCholesky(kernel=RBF(1.0), max_atoms=40),
    "Recursive, max_atoms": Recursive(kernel=RBF(1.0), max_atoms=40, random_state=0),
}
ALL = {**SAMPLERS, **UNCALIBRATED}
BOUNDED = ["Squeak, max_atoms", "Uniform"]


def small(cls, **params):
    """Return an object with parameters that make it quick, as far as it has them."""
    known = inspect.signature(cls).parameters
    quick = {"random_state": 0, "max_atoms": 25, "rank": 8, "n_frequencies": 40, "n_features": 40} | params
    return cls(**{name: value for name, value in quick.items() if name in known})


QUICK = {
    learners.KernelBlend: {"kernels": (RBF(1.0),), "rounds": 1, "search_atoms": 25},
    learners.LocalExperts: {
        "estimator": KernelRidge(RBF(1.0), max_atoms=25),
        "leaf_rows": 300,
        "split_kernel": RBF(1.0),
    },
    learners.AutoRegressor: {"max_atoms": 20},
    learners.AutoClassifier: {"max_atoms": 20},
}
"""What makes a learner quick that has no kernel of its own."""


def classes(room, *others):
    """Return the public classes of a room but for those."""
    found = {name: getattr(room, name) for name in room.__all__}
    return {name: cls for name, cls in found.items() if inspect.isclass(cls) and cls not in others}


NO_ESTIMATORS = {
    squeak.Dictionary: "what samplers leave",
    squeak.GeneratedRows: "rows",
    kernels.Kernel: "the base of the others",
    kernels.PairwiseKernel: "takes objects in place of vectors: tests/core/test_kernels.py",
    leverage.AccuracyBounds: "a result",
    samplers.Tree: "a shape",
    online.Batch: "a stream of rows and targets",
    online.Progress: "a result",
    report.Dependence: "a result",
    report.Importance: "a result",
    graphs.EdgeSample: "what sparsifiers leave",
    graphs.HarmonicRegressor: "targets are numbers: tests/graphs/test_harmonic.py",
    graphs.LaplacianSmoother: "targets are numbers: tests/graphs/test_harmonic.py",
    bandits.BoxUCB: "has a box in place of arms: tests/bandits/test_continuous.py",
    bandits.Best: "a result",
    bandits.MinimizeResult: "a result",
    bandits.Real: "a side of a box",
    bandits.Integer: "a side of a box",
    bandits.Categorical: "a side of a box",
    dpp.RejectionLimitError: "an error",
    **dict.fromkeys(
        (places.Cluster, places.Executors, places.Place, places.Processes, places.Threads),
        "where tasks run: tests/engines.py",
    ),
    places.ClusterError: "an error",
}
"""Public classes with another face, and what they are."""

KERNELS = {
    "RBF": RBF(1.0),
    "Laplacian": kernels.Laplacian(1.0),
    "Matern": kernels.Matern(1.0, nu=1.5),
    "Polynomial": kernels.Polynomial(2),
    "Linear": kernels.Linear(),
    "Constant": kernels.Constant(2.0),
    "Sum": RBF(1.0) + kernels.Linear(),
    "Product": RBF(1.0) * kernels.Linear(),
    "Scaled": 2.0 * RBF(1.0),
    "Metric": kernels.Metric(RBF(1.0), np.array([[1.0, 0.5, 0.0], [0.0, 2.0, -1.0]])),
}
SPARSIFIERS = {
    "StreamSparsifier": graphs.StreamSparsifier(8.0, random_state=0),
    "StreamSparsifier, ridge": graphs.StreamSparsifier(8.0, ridge=50.0, copies=4, random_state=0),
    "OnlineSparsifier": graphs.OnlineSparsifier(3.0, random_state=0),
    "KelnerLevin": graphs.KelnerLevin(8, eps=0.2, block_edges=4000, random_state=0),
    "DistributedSparsifier": graphs.DistributedSparsifier(8.0, n_leaves=3, random_state=0),
}
LABELLERS = {
    "HarmonicClassifier": graphs.HarmonicClassifier(sparsifier=10, random_state=0),
    "EigenFunctions": graphs.EigenFunctions(5),
    "SubSampling": graphs.SubSampling(100, random_state=0),
    "NearestLabel": graphs.NearestLabel(),
    "OnlineHarmonic": graphs.OnlineHarmonic(20),
}
BANDITS = {
    "GPUCB": {},
    "BKB": {"oversampling": 2.0},
    "BKB, pull": {"coins": "pull"},
    "ThompsonSampling": {},
    "BatchBKB": {"beta": "logdet"},  # the default width makes batches of thousands of pulls
    "BatchBKB, local": {"stopping": "local", "max_batch": 9},
    "AutoUCB": {"crossover": 12, "repeats": 1.0, "beta": "logdet"},
    "AutoUCB, theory": {"crossover": 1000, "beta": "theory"},
    "UniformArms": {},
    "ExpectedImprovement": {},
    "ProbabilityOfImprovement": {},
    "GPBUCB": {"batch_size": 4},
    "SorUCB": {},
    "DictionaryThompson": {},
    "RandomFeatureUCB": {},
}


def neighbours(X):
    return graphs.knn_graph(X, 8)


def class_of(name):
    return getattr(bandits, name.partition(",")[0])


SUBJECTS = [
    *(("sampler", name, one, {}) for name, one in ALL.items()),
    *(
        ("learner", name, small(cls, **{"kernel": RBF(1.0), **QUICK.get(cls, {})}), {})
        for name, cls in classes(learners).items()
    ),
    *(("online", name, small(cls), {}) for name, cls in classes(online, online.Batch, online.Progress).items()),
    *(("kernel", name, one, {}) for name, one in KERNELS.items()),
    *(("sparsifier", name, one, {}) for name, one in SPARSIFIERS.items()),
    *(("graph learner", name, one, {}) for name, one in LABELLERS.items()),
    (
        "graph learner",
        "SimpleHarmonic",
        graphs.SimpleHarmonic(5),
        {"graph": partial(graphs.knn_graph, n_neighbors=8)},
    ),
    *(
        ("bandit", name, partial(class_of(name), kernel=RBF(0.3), noise=0.1, **params), {})
        for name, params in BANDITS.items()
    ),
    ("dpp", "DPP", dpp.DPP(RBF(1.5), expected_size=12, random_state=0), {}),
    ("dpp", "ExactDPP", dpp.ExactDPP(RBF(1.5), random_state=0), {}),
]
CHECKS = [
    pytest.param(check, id=f"{name}: {words}")
    for kind, name, subject, params in SUBJECTS
    for words, check in checks.checks_of(kind, subject, **params)
]
ROOMS = (squeak, bandits, checks, dpp, graphs, kernels, learners, leverage, online, places, report, samplers)
PUBLIC = {
    f"{room.__name__}.{name}": getattr(room, name)
    for room in ROOMS
    for name in room.__all__
    if callable(getattr(room, name)) and not inspect.ismodule(getattr(room, name))
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_contract_holds(check):
    check()


def test_every_public_class_is_in_this_suite():
    asked = {getattr(subject, "func", type(subject)) for _, _, subject, _ in SUBJECTS}
    public = {member for member in PUBLIC.values() if inspect.isclass(member)}
    assert asked | set(NO_ESTIMATORS) == public
    assert not asked & set(NO_ESTIMATORS)


def test_another_seed_gives_another_dictionary():
    X = checks.rows.X
    for name, sampler in ALL.items():
        same = clone(sampler).fit(X).dictionary_ == clone(sampler).set_params(random_state=1).fit(X).dictionary_
        assert same == (name == "GreedyCholesky"), name  # which tosses no coins


class Seedless(Squeak):
    def fit(self, X, y=None):
        return super().fit(X[np.random.permutation(len(X))])  # noqa: NPY002


class Aliasing(Squeak):
    def fit(self, X, y=None):
        self.given_ = X
        return super().fit(X)

    @property
    def dictionary_(self):
        return (
            super().dictionary_
            if not hasattr(self, "given_")
            else Squeak(RBF(1.0), 1.0, random_state=0).fit(self.given_).dictionary_
        )


class Hasty(KernelRidge):
    def fit(self, X, y=None, sample_weight=None):
        self.__dict__.pop("dictionary_", None)  # forgets before it has looked at the rows
        return super().fit(X, y, sample_weight)


class Careless(GPUCB):
    def tell(self, indices, rewards):
        super().tell(indices, np.nan_to_num(rewards))


@pytest.mark.parametrize(
    ("kind", "broken", "words"),
    [
        ("sampler", Seedless(RBF(1.0), 1.0, random_state=0), "the same seed gives the same result"),
        ("sampler", Aliasing(RBF(1.0), 1.0, random_state=0), "neither modified nor aliased: answers follow"),
        (
            "learner",
            Hasty(RBF(1.0), max_atoms=9, random_state=0),
            "bad rows get one clear error and change nothing",
        ),
        ("kernel", kernels.PairwiseKernel(lambda a, b: float(a[0] - b[0])), "differs from k"),
        ("bandit", partial(Careless, kernel=RBF(0.3)), "tell.*is taken without an error"),
    ],
)
def test_a_class_that_breaks_its_contract_is_caught(kind, broken, words):
    with pytest.raises(AssertionError, match=words):
        getattr(checks, f"check_{kind}")(broken)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind must be one of sampler, learner"):
        checks.checks_of("tree", None)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_words_types_and_an_example(name):
    member = PUBLIC[name]
    doc = inspect.getdoc(member)
    assert doc
    if member not in (kernels.Kernel, leverage.AccuracyBounds, bandits.Best, bandits.MinimizeResult):
        assert ">>>" in doc
    target = member.__init__ if inspect.isclass(member) else member
    hints = inspect.signature(target).parameters
    assert all(
        p.annotation is not inspect.Parameter.empty for n, p in hints.items() if n not in ("self", "args", "kwargs")
    )


@pytest.mark.parametrize("name", [name for name, member in PUBLIC.items() if inspect.isclass(member)])
def test_every_public_method_has_words(name):
    member = PUBLIC[name]
    for method, value in vars(member).items():
        if not method.startswith("_") and callable(value):
            assert inspect.getdoc(getattr(member, method)), f"{name}.{method}"


@pytest.mark.parametrize("name", BOUNDED)
def test_memory_does_not_grow_with_the_rows(name, rng):
    def peak(n):
        sampler = clone(SAMPLERS[name])
        block = rng.standard_normal((500, 3))
        sampler.partial_fit(block)
        tracemalloc.start()
        for _ in range(n):
            sampler.partial_fit(block + rng.standard_normal((500, 3)))
        now, top = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return now, top

    peak(2)
    short, long = peak(6), peak(60)
    assert long[0] < short[0] + 200_000
    assert long[1] < 1.5 * short[1] + 200_000
