"""What every online estimator promises, run over all of them; one that is missing here fails a test."""

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

import squeak
from squeak import online
from squeak.core import storage
from squeak.core.storage import StorageError
from squeak.kernels import RBF, Linear, PairwiseKernel
from squeak.online.base import OnlineEstimator

SMALL = {"n_features": 80, "max_atoms": 25, "rank": 8}
ESTIMATORS = [
    name
    for name in online.__all__
    if inspect.isclass(getattr(online, name)) and issubclass(getattr(online, name), OnlineEstimator)
]
CLASSIFIERS = [name for name in ESTIMATORS if name.endswith("Classifier")]
REGRESSORS = [name for name in ESTIMATORS if name.endswith("Regressor")]


def make(name, **params):
    cls = getattr(online, name)
    known = inspect.signature(cls).parameters
    small = {key: value for key, value in SMALL.items() if key in known}
    return cls(**(small | {"random_state": 0} | params))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((400, 3))
    return X, np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(400)


def target_of(name, y, classes=2):
    if name in REGRESSORS:
        return y
    return np.array(["low", "middle", "high"])[np.digitize(y, [-0.6, 0.6])] if classes == 3 else y > 0


def test_every_pair_is_there():
    assert len(ESTIMATORS) == 22
    assert {name.removesuffix("Classifier") for name in CLASSIFIERS} == {
        name.removesuffix("Regressor") for name in REGRESSORS
    }


@pytest.mark.parametrize("name", ["ConKonsRegressor", "ConKonsClassifier"])
def test_scikit_learn_takes_them_for_its_own(name):
    run_checks(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_scikit_learn_takes_all_of_them_for_its_own(name):
    run_checks(name)


def run_checks(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(getattr(online, name)(), on_fail=None, on_skip=None)
    failed = [result["check_name"] for result in results if result["status"] == "failed"]
    assert not failed
    assert len(results) > 40


def test_a_file_of_another_kind_or_a_damaged_one_is_refused(data, tmp_path):
    X, y = data
    path = tmp_path / "m.sqk"
    make("ConKonsRegressor").fit(X, y).save(path)
    with pytest.raises(TypeError, match="holds a ConKonsRegressor, not a FOGDRegressor"):
        online.FOGDRegressor.load(path)
    whole = path.read_bytes()
    for cut in (len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(StorageError):
            squeak.load(path)
    changed = bytearray(whole)
    changed[whole.index(b"head0_P.npy") + 300] ^= 0xFF
    path.write_bytes(bytes(changed))
    with pytest.raises(StorageError):
        squeak.load(path)


def test_a_pairwise_kernel_learns_from_objects_and_is_asked_for_when_loading(tmp_path):
    def overlap(a, b):
        return float(len(set(a) & set(b)) / np.sqrt(len(set(a)) * len(set(b))))

    words = ["ab", "abc", "xy", "xyz", "bc", "yz"] * 20
    y = np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0] * 20)
    model = make("ConKonsRegressor", kernel=PairwiseKernel(overlap)).fit(words, y)
    assert np.abs(model.predict(["ab", "xy"]) - [1, -1]).max() < 0.2
    model.save(tmp_path / "m.sqk")
    with pytest.raises(ValueError, match="is code and is not stored"):
        squeak.load(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk", kernel=PairwiseKernel(overlap))
    assert np.array_equal(again.predict(words[:6]), model.predict(words[:6]))
    assert model.predict_one("abc") == pytest.approx(model.predict(["abc"])[0])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_bad_rows_and_targets_change_nothing(name, data):
    X, y = data[0], target_of(name, data[1])
    model = make(name)
    bad = X.copy()
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(bad, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X[:300], y[:300])
    before = model.predict(X)
    for rows, targets, message in [
        (bad, y, "NaN"),
        (X[:, :2], y, "2 features"),
        (X[:5], y[:4], "inconsistent"),
        (X[:0], y[:0], "0 sample"),
        (X[:5], None, "y"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows, targets)
    with pytest.raises(ValueError, match=r"shape \(3,\); this has shape \(2,\)"):
        model.learn_one(X[0, :2], y[0])
    with pytest.raises(ValueError, match="column 1 is nan"):
        model.learn_one(bad[7], y[0])
    with pytest.raises(ValueError, match="column 1 is nan"):
        model.predict_one(bad[7])
    with pytest.raises((TypeError, ValueError)):
        model.partial_fit(sp.csr_matrix(X[:5]), y[:5])
    if name in REGRESSORS:
        for target in (np.nan, np.inf, 1e200):
            with pytest.raises(ValueError, match="target"):
                model.learn_one(X[0], target)
        with pytest.raises(ValueError, match="of row 301 is 1e\\+200: its square overflows"):
            model.partial_fit(X[:2], [0.0, 1e200])
    else:
        with pytest.raises(ValueError, match="label is 'other'"):
            model.learn_one(X[0], "other")
    assert model.n_seen_ == 300
    assert np.array_equal(model.predict(X), before)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(bad, y)
    assert np.array_equal(model.predict(X), before), "a fit that fails leaves the old one"


BAD_PARAMETERS = [
    ({"alpha": 0.0}, "alpha must be positive"),
    ({"ridge": -1.0}, "ridge must be positive"),
    ({"ridge": 1e-14}, "lost in rounding"),
    ({"oversampling": np.inf}, "oversampling must be positive"),
    ({"max_atoms": 0}, "max_atoms must be a whole number"),
    ({"bound": -1.0}, "bound must be positive"),
    ({"curvature": "none"}, "curvature must be one of"),
    ({"step": 2.0, "alpha": 0.1}, r"step must lie in \(0, 1\]"),
    ({"loss": "huber"}, "loss must be one of"),
    ({"step": 0.0}, "step must be positive"),
    ({"schedule": "x"}, "schedule must be one of"),
    ({"tube": -0.1}, "tube must lie between"),
    ({"penalty": -1.0}, "penalty must lie between"),
    ({"rank": 99}, "rank 99 is larger than max_atoms"),
    ({"n_features": 1.5}, "n_features must be a whole number"),
    ({"smallest_chance": 2.0}, r"smallest_chance must lie in \(0, 1\]"),
    ({"kernel": "rbf"}, "kernel must be a kernel object"),
    ({"random_state": -3}, "random_state must not be negative"),
]


@pytest.mark.parametrize(("params", "message"), BAD_PARAMETERS, ids=str)
def test_bad_parameters_get_one_clear_error_at_fit(params, message, data):
    X, y = data
    tried = 0
    for name in ESTIMATORS:
        model = make(name)
        if set(params) <= set(model.get_params()):
            tried += 1
            with pytest.raises((ValueError, TypeError), match=message):
                model.set_params(**params).fit(X, target_of(name, y))
            assert not hasattr(model, "_stream")
    assert tried


def test_a_bound_is_kept_and_a_target_beyond_it_refused(data):
    X, y = data
    model = make("ConKonsRegressor", bound=1.0)
    with pytest.raises(ValueError, match="beyond bound = 1: raise it, or scale"):
        model.fit(X, y)
    model.fit(X, y.clip(-1, 1))
    assert np.abs(model.predict(100 * X)).max() <= 1.0
    with pytest.raises(ValueError, match="beyond bound"):
        model.learn_one(X[0], 1.5)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_extreme_streams_never_give_nan(name, rng):
    labels = np.resize([1.0, -1.0], 60)
    streams = {
        "equal rows": np.ones((60, 2)),
        "a constant column": np.column_stack([np.ones(60), rng.standard_normal(60)]),
        "pairs of equal rows": np.repeat(rng.standard_normal((30, 2)), 2, axis=0),
        "tiny": 1e-200 * rng.standard_normal((60, 2)),
        "one huge row": np.vstack([rng.standard_normal((59, 2)), [[1e300, -1e300]]]),
    }
    for kernel in (RBF(1.0), None):
        for words, X in streams.items():
            model = make(name, kernel=kernel)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                said = model.test_then_train(X, labels)
            assert np.isfinite(said).all(), words
            assert np.isfinite(np.asarray(model.predict(X), dtype=float)).all(), words


@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_of_any_size_are_learned_alike(name, data):
    X, y = data[0][:200], data[1][:200]
    plain = make(name, kernel=RBF(1.0)).fit(X, y).predict(X)
    for scale in (1e-120, 1e120):
        scaled = make(name, kernel=RBF(1.0)).fit(X, scale * y).predict(X)
        np.testing.assert_allclose(scaled / scale, plain, rtol=1e-5, atol=1e-6)
    assert np.array_equal(make(name).fit(X, np.zeros(200)).predict(X), np.zeros(200))


def test_linear_rows_too_large_for_their_square_are_refused(rng):
    X = np.vstack([rng.standard_normal((20, 2)), [[1e300, 1e300]]])
    with pytest.raises(ValueError, match="finite"):
        make("ConKonsRegressor", kernel=Linear()).fit(X, np.ones(21))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_more_than_two_classes_are_learned_one_against_the_rest(name, data):
    X, y = data[0], target_of(name, data[1], classes=3)
    model = make(name).fit(X, y)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    scores = model.decision_function(X)
    assert scores.shape == (400, 3)
    assert np.array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    two = make(name).fit(X, y == "high")
    assert two.decision_function(X).shape == (400,)
    assert np.array_equal(two.predict(X), two.decision_function(X) >= 0)


@pytest.mark.parametrize("name", ["ConKonsClassifier", "KonsClassifier"])
def test_each_output_is_the_two_class_learner(name, data):
    X, y = data[0][:150], target_of(name, data[1], classes=3)[:150]
    three = make(name, kernel=RBF(1.0)).fit(X, y).decision_function(X)
    for column, label in enumerate(["high", "low", "middle"]):
        alone = make(name, kernel=RBF(1.0)).fit(X, y == label).decision_function(X)
        np.testing.assert_allclose(three[:, column], alone, atol=1e-8)


def test_classes_are_named_at_first_and_kept():
    X = np.random.default_rng(0).standard_normal((10, 2))
    model = make("ConKonsClassifier")
    with pytest.raises(ValueError, match="pass all classes"):
        make("FOGDClassifier").partial_fit(X, np.ones(10))
    with pytest.raises(NotFittedError, match="knows no classes"):
        make("FOGDClassifier").predict_one(X[0])
    assert model.predict_one(X[0]) is None  # classes may join
    model.learn_one(X[0], "a", classes=["a", "b"])
    model.partial_fit(X, ["b"] * 10)
    with pytest.raises(ValueError, match="the label of row 12 is"):
        model.partial_fit(X[:2], ["a", "c"])
    with pytest.raises(ValueError, match="the first call had"):
        model.partial_fit(X, ["b"] * 10, classes=["a", "c"])
    assert model.n_seen_ == 11


def test_the_width_is_the_median_of_the_first_rows_however_they_came(data):
    X, y = data
    width = RBF("median").resolve(X[:128]).length_scale
    whole, pieces = (make("ConKonsRegressor", scale=None) for _ in range(2))
    whole.fit(X, y)
    for cut in np.array_split(np.arange(400), 37):
        pieces.partial_fit(X[cut], y[cut])
    assert whole.kernel_.length_scale == pieces.kernel_.length_scale == pytest.approx(width)
    early = make("ConKonsRegressor").partial_fit(X[:1], y[:1])
    assert early.kernel_ is None
    assert early.predict(X[:2]).tolist() == [0.0, 0.0]
    assert early.partial_fit(X[1:2], y[1:2]).kernel_ is not None


def test_equal_first_rows_get_a_width_with_a_warning():
    with pytest.warns(UserWarning, match="first rows are all equal"):
        model = make("ConKonsRegressor", scale=None).fit(np.ones((200, 2)), np.ones(200))
    assert model.kernel_ == RBF(1.0)
    assert model.predict(np.ones((1, 2)))[0] == pytest.approx(1.0, abs=0.01)


def test_the_papers_settings_are_one_call_away():
    model = online.ProsNKonsRegressor.from_paper(random_state=3)
    assert model.kernel == RBF(8.0)
    assert (model.alpha, model.ridge, model.oversampling, model.step) == (1.0, 1.0, 0.5, 0.5)
    assert (model.bound, model.curvature, model.max_atoms, model.random_state) == (1.0, "worst", None, 3)
    assert online.BudgetKonsClassifier.from_paper(alpha=1.0).max_atoms == 100
    assert online.BudgetKonsRegressor.from_paper().max_atoms == 100
    assert online.ConKonsClassifier.from_paper().alpha == 0.01


def test_the_guard_follows_a_target_that_drifts():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (6000, 2))
    phase = np.linspace(0, 12 * np.pi, 6000)
    drifting = np.sin(2 * X[:, 0] + phase) * np.cos(X[:, 1])
    steady = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.standard_normal(6000)
    loss = {
        (words, curvature): online.progressive_validation(
            make("ConKonsRegressor", kernel=RBF(1.0), curvature=curvature), X, y
        ).mean_loss
        for words, y in (("drifting", drifting), ("steady", steady))
        for curvature in ("adaptive", "worst", "auto")
    }
    assert loss["drifting", "worst"] < 0.5 * loss["drifting", "adaptive"]
    assert loss["drifting", "auto"] < 1.1 * loss["drifting", "worst"]
    assert loss["steady", "adaptive"] < 0.9 * loss["steady", "worst"]
    assert loss["steady", "auto"] < 1.05 * loss["steady", "adaptive"]


def test_the_base_is_abstract():
    for name, argument in (
        ("_encode", ([], True)),
        ("_target_of", (0,)),
        ("answers", ([],)),
        ("_first_answer", ()),
    ):
        with pytest.raises(TypeError, match="is abstract"):
            getattr(OnlineEstimator(), name)(*argument)


def test_a_damaged_sketch_is_refused(data, tmp_path):
    arrays, content = online.SketchedKonsRegressor(random_state=0).fit(*data).to_parts()
    arrays["head0_sketch"] = np.zeros((1, 1))
    storage.write(tmp_path / "bad.sqk", "online", arrays, content)
    with pytest.raises(StorageError, match="sketch does not fit"):
        squeak.load(tmp_path / "bad.sqk")
