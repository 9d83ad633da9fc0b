"""The contract that every public class keeps, run over all of them; a class that is missing here fails a test."""

import inspect
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import squeak
from squeak import (
    Dictionary,
    Kors,
    Squeak,
    bandits,
    dpp,
    graphs,
    kernels,
    learners,
    leverage,
    online,
    report,
    samplers,
)
from squeak.kernels import RBF
from squeak.samplers import (
    Bless,
    BlessR,
    Disqueak,
    ExactRLS,
    GreedyCholesky,
    InkEstimate,
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
    "MultinomialNystrom": MultinomialNystrom(RBF(1.0), 50, "diagonal", ridge=1.0, random_state=0),
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
STREAMS = [
    name for name, sampler in SAMPLERS.items() if hasattr(sampler, "partial_fit") and "replacement" not in name
]
BOUNDED = ["Squeak, max_atoms", "Uniform"]


@pytest.fixture
def X(rng):
    return rng.standard_normal((600, 3))


@pytest.fixture(params=ALL)
def sampler(request):
    return clone(ALL[request.param])


@pytest.fixture(params=STREAMS)
def stream(request):
    return clone(SAMPLERS[request.param])


def public_members(module):
    return {name: getattr(module, name) for name in module.__all__ if not inspect.ismodule(getattr(module, name))}


PUBLIC = {
    f"{module.__name__}.{name}": member
    for module in (squeak, bandits, dpp, graphs, kernels, learners, leverage, online, report, samplers)
    for name, member in public_members(module).items()
    if callable(member)
}


def test_every_public_sampler_is_in_this_suite():
    covered = {type(sampler) for sampler in ALL.values()}
    public = {m for m in PUBLIC.values() if inspect.isclass(m) and issubclass(m, samplers.base.Sampler)}
    assert covered == public


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


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_method_has_words(name):
    member = PUBLIC[name]
    if inspect.isclass(member):
        for method, value in vars(member).items():
            if not method.startswith("_") and callable(value):
                assert inspect.getdoc(getattr(member, method)), f"{name}.{method}"


def test_fitted_is_known_to_scikit_learn(sampler, X):
    from sklearn.utils.validation import check_is_fitted

    with pytest.raises(NotFittedError):
        check_is_fitted(sampler)
    check_is_fitted(sampler.fit(X))
    assert sampler.kernel_ == sampler.dictionary_.kernel


def test_cloning_keeps_parameters_and_forgets_the_fit(sampler, X):
    params = {name: repr(value) for name, value in sampler.get_params().items()}
    fitted = sampler.fit(X)
    assert fitted is sampler
    assert {name: repr(value) for name, value in sampler.get_params().items()} == params
    with pytest.raises(NotFittedError, match="has seen no rows yet"):
        _ = clone(sampler).dictionary_


def test_the_same_seed_gives_the_same_result(sampler, X):
    first = sampler.fit(X).dictionary_
    assert sampler.fit(X).dictionary_ == first
    assert clone(sampler).fit(X).dictionary_ == first
    if not isinstance(sampler, GreedyCholesky):  # which tosses no coins
        assert clone(sampler).set_params(random_state=1).fit(X).dictionary_ != first
    for make in (np.random.default_rng, np.random.RandomState):
        one, two = (clone(sampler).set_params(random_state=make(5)).fit(X).dictionary_ for _ in range(2))
        assert one == two
    np.random.seed(3)  # noqa: NPY002  (the global generator must not matter)
    assert clone(sampler).fit(X).dictionary_ == first


def test_the_input_is_neither_modified_nor_aliased(sampler, X):
    kernel = sampler.kernel
    given, before = X.copy(), X.copy()
    d = sampler.fit(given).dictionary_
    assert np.array_equal(given, before)
    atoms = d.atoms.copy()
    given[:] = -77.0
    assert np.array_equal(d.atoms, atoms)
    assert np.array_equal(sampler.dictionary_.atoms, atoms)
    with pytest.raises(ValueError, match="read-only"):
        d.atoms[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        d.counts[0] = 1
    kernel.set_params(length_scale=99.0)  # the user's own kernel object
    assert d.kernel.length_scale != 99.0


def test_one_row_at_a_time_is_many_at_once(stream, X):
    if stream.kernel.length_scale == "median":
        stream.set_params(kernel=RBF(1.0))
    many = clone(stream).fit(X).dictionary_
    for row in X:
        stream.partial_fit(row.reshape(1, -1))
    one = stream.dictionary_
    assert np.array_equal(one.indices, many.indices)
    assert np.array_equal(one.counts, many.counts)
    np.testing.assert_allclose(one.weights, many.weights, rtol=1e-10)


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


BAD = {
    "nan": (lambda X: with_value(X, np.nan), ValueError, r"row \d+, column 1 is nan"),
    "inf": (lambda X: with_value(X, -np.inf), ValueError, r"row \d+, column 1 is -inf"),
    "wrong width": (lambda X: X[:, :2], ValueError, "rows have 2 columns; the rows before had 3"),
    "no rows": (lambda X: X[:0], ValueError, "no rows"),
    "no columns": (lambda X: X[:, :0], ValueError, "no columns|rows have 0 columns"),
    "one-dimensional": (lambda X: X[0], ValueError, r"2-D table.*reshape\(1, -1\)"),
    "three-dimensional": (lambda X: X[None], ValueError, "2-D table"),
    "text": (lambda X: X.astype(str), TypeError, "rows must be numbers"),
    "text among numbers": (lambda X: np.array([["a", 1.0, 2.0]], dtype=object), TypeError, "text among them"),
    "a path": (lambda X: "rows.csv", TypeError, "not text"),
    "complex": (lambda X: X + 1j, TypeError, "complex"),
    "dates": (lambda X: X.astype("datetime64[s]"), TypeError, "encode text and dates"),
    "sparse nan": (lambda X: sp.csr_matrix(with_value(X, np.nan)), ValueError, r"row \d+, column 1 is nan"),
    "masked": (lambda X: np.ma.masked_less(X, -1.0), ValueError, r"row \d+ has masked values"),
    "nothing": (lambda X: None, TypeError, "rows must be numbers"),
}


def with_value(X, value):
    X = X.copy()
    X[17, 1] = value
    return X


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_get_one_clear_error_and_change_nothing(sampler, kind, X):
    make, error, message = BAD[kind]
    if kind != "wrong width":
        with pytest.raises(error, match=message):
            sampler.fit(make(X))
        with pytest.raises(NotFittedError):
            _ = sampler.dictionary_
    before = sampler.fit(X).dictionary_
    feed = getattr(sampler, "partial_fit", sampler.fit)
    if kind == "wrong width" and not hasattr(sampler, "partial_fit"):
        return
    if kind == "sparse nan":
        message += "|all dense, all sparse"
    with pytest.raises(error, match=message):
        feed(make(X))
    assert sampler.dictionary_ == before
    if hasattr(sampler, "partial_fit"):
        assert sampler.partial_fit(X).dictionary_.n_seen == 1200


def test_a_bad_row_far_into_a_block_is_named_by_its_number_in_the_stream(stream, X):
    stream.partial_fit(X)
    with pytest.raises(ValueError, match="row 617, column 1 is nan"):
        stream.partial_fit(with_value(X, np.nan))
    assert stream.dictionary_.n_seen == 600


def test_sparse_after_dense_is_refused(stream, X):
    before = stream.fit(X).dictionary_
    with pytest.raises(TypeError, match="all dense, all sparse"):
        stream.partial_fit(sp.csr_matrix(X))
    assert stream.dictionary_ == before


BAD_PARAMETERS = [
    ({"ridge": 0.0}, "ridge must be positive"),
    ({"ridge": np.nan}, "ridge must be positive"),
    ({"ridge": "1"}, "ridge must be a number"),
    ({"oversampling": 0}, "oversampling must be positive"),
    ({"oversampling": "much"}, "must be a number or 'theory'"),
    ({"copies": 0}, "copies must be a whole number"),
    ({"copies": 2.5}, "copies must be a whole number"),
    ({"max_atoms": 0}, "max_atoms must be a whole number"),
    ({"max_atoms": 2.5}, "max_atoms must be a whole number"),
    ({"random_state": "x"}, "random_state must be"),
    ({"random_state": -1}, "random_state must not be negative"),
    ({"kernel": RBF(-1.0)}, "length_scale must be positive"),
    ({"kernel": "rbf"}, "kernel"),
]


@pytest.mark.parametrize(("params", "message"), BAD_PARAMETERS, ids=str)
def test_bad_parameters_get_one_clear_error_at_fit(sampler, params, message, X):
    if not set(params) <= set(sampler.get_params()):
        return
    before = sampler.fit(X).dictionary_
    sampler.set_params(**params)
    with pytest.raises((ValueError, TypeError), match=message):
        sampler.fit(X)
    assert sampler.dictionary_ == before


def test_saved_and_loaded_is_the_same(sampler, X, tmp_path):
    d = sampler.fit(X).dictionary_
    d.save(tmp_path / "d.sqk")
    assert Dictionary.load(tmp_path / "d.sqk") == d
    d.save(str(tmp_path / "again.sqk"))
    assert (tmp_path / "d.sqk").read_bytes() == (tmp_path / "again.sqk").read_bytes()


def test_pickled_samplers_go_on_where_they_were(sampler, X):
    sampler.fit(X)
    _ = repr(sampler.dictionary_)
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy.dictionary_ == sampler.dictionary_
    if hasattr(sampler, "partial_fit"):
        assert copy.partial_fit(X).dictionary_ == sampler.partial_fit(X).dictionary_


def test_tables_of_pandas_are_rows_too(sampler, X):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abc"))
    assert sampler.fit(frame).dictionary_ == clone(sampler).fit(X).dictionary_


def test_a_single_row_and_equal_rows_are_fine(sampler):
    if sampler.kernel.length_scale == "median":
        sampler.set_params(kernel=RBF(1.0))
    if not takes_size(sampler):
        sampler.set_params(ridge=1e-3)
    assert len(sampler.fit(np.ones((1, 2))).dictionary_) == 1
    d = sampler.fit(np.ones((500, 2))).dictionary_
    assert d.n_seen == 500
    if d.calibrated:
        assert d.effective_dimension() <= 1 + 1e-9


def takes_size(sampler):
    return isinstance(sampler, Recursive) and sampler.max_atoms is not None


def test_huge_and_tiny_values_are_rows_too(sampler, rng):
    for scale in (1e-150, 1e150):
        sampler.set_params(kernel=RBF(scale))
        if not takes_size(sampler):
            sampler.set_params(ridge=1.0)
        d = sampler.fit(scale * rng.standard_normal((200, 2))).dictionary_
        assert np.isfinite(d.weights).all()
        if d.calibrated:
            assert 1 < d.effective_dimension() < 60
