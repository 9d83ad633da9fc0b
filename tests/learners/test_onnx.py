"""ONNX files: a runtime that knows nothing of squeak gives the model's answers, from the user's own columns."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import kernels as theirs

import squeak
from squeak import learners
from squeak.kernels import RBF, Constant, Kernel, Laplacian, Linear, Matern, Metric, PairwiseKernel, Polynomial
from squeak.learners import onnx_graph
from tests.conftest import DATA

pytest.importorskip("onnx", reason="onnx is not installed: no file was written")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: no file was run")

CLOSE = 1e-8
"""How far answers may lie from ours, as a part of their spread; what users are promised is 1e-5."""


def opened(model, folder):
    model.to_onnx(folder / "model.onnx")
    return onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])


def deviations(model, session, X, inputs):
    """Return how far every output is from the method of its name: of the spread, or the part that differs."""
    names = [one.name for one in session.get_outputs()]
    found = {}
    for name, got in zip(names, session.run(names, inputs), strict=True):
        ours = getattr(model, name)(X)
        assert got.shape == ours.shape, name
        if ours.dtype.kind == "f":
            found[name] = float(np.abs(got - ours).max() / (ours.std() or 1.0))
        else:
            found[name] = float(np.mean(got != ours))
    return found


def check(model, folder, X, inputs=None, close=CLOSE):
    session = opened(model, folder)
    found = deviations(model, session, X, {"X": np.asarray(X, dtype=np.float64)} if inputs is None else inputs)
    assert max(found.values()) < close, found
    return found


@pytest.fixture
def numbers(rng):
    """Return 300 rows of three columns, one of which has a large offset, and targets."""
    X = rng.uniform(-1, 1, (300, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 2] + 0.1 * rng.standard_normal(300)
    X[:, 1] += 1e6
    return X, y


OURS = {
    "rbf": RBF(0.9),
    "rbf by column": RBF(np.array([0.7, 1.1, 1.6])),
    "laplacian": Laplacian(2.3),
    "laplacian by column": Laplacian(np.array([2.0, 3.0, 4.0])),
    "matern 1/2": Matern(1.3, nu=0.5),
    "matern 3/2": Matern(1.3, nu=1.5),
    "matern 5/2": Matern(np.array([0.7, 1.1, 1.6]), nu=2.5),
    "sum": RBF(0.9) + Constant(0.5),
    "product": 2.0 * RBF(0.9) * Matern(2.0, nu=1.5),
    "metric": Metric(Matern(1.0, nu=0.5), np.array([[1.0, 0.2, 0.0], [0.0, -0.3, 0.8]])),
    "scikit-learn's": theirs.ConstantKernel(2.0) * theirs.RBF(0.9) + theirs.Matern(1.3, nu=2.5),
    "scikit-learn's Matern": theirs.Matern(1.3, nu=0.5) * theirs.Matern(2.0, nu=np.inf),
    "rational quadratic": theirs.RationalQuadratic(0.9, alpha=0.7),
    "periodic": theirs.ExpSineSquared(2.0, periodicity=3.0),
}
INNER = {
    "linear": Linear(1.1, offset=0.3),
    "polynomial": Polynomial(3, length_scale=np.array([0.7, 1.1, 1.6]), offset=1.0),
    "dot product": theirs.Exponentiation(theirs.DotProduct(0.4), 2),
}


@pytest.mark.parametrize("name", [*OURS, *INNER])
def test_every_kernel(numbers, tmp_path, name):
    X, y = numbers
    if name in INNER:  # these keep the offset
        X = X - [0.0, 1e6, 0.0]
    model = squeak.KernelRidge({**OURS, **INNER}[name], alpha=0.01, max_atoms=40, random_state=0).fit(
        X[:200], y[:200]
    )
    check(
        model, tmp_path, X, close=1e-6 if name in INNER else CLOSE
    )  # more atoms than the rank: large coefficients


def estimators():
    """Return a small one of every learner, and of the forms in which they answer."""
    ridge = squeak.KernelRidge(RBF(1.0), 0.01, max_atoms=30, random_state=0)
    logistic = squeak.KernelClassifier(RBF(1.0), 0.1, loss="logistic", max_atoms=30, random_state=0)
    small = {"max_atoms": 30, "random_state": 0}
    return {
        "AutoClassifier": squeak.AutoClassifier(**small),
        "AutoRegressor": squeak.AutoRegressor(**small, leaf_rows=120),
        "BasicFalkon": learners.BasicFalkon(RBF(1.0), alpha=0.1, **small),
        "DivideAndConquerRidge": learners.DivideAndConquerRidge(RBF(1.0), 0.1, random_state=0),
        "KernelBlend": squeak.KernelBlend([RBF("learned"), Laplacian("learned")], rounds=1, **small),
        "KernelCCA": squeak.KernelCCA(2, kernel=RBF(1.0), **small),
        "KernelClassifier": squeak.KernelClassifier(RBF(1.0), 0.1, **small),
        "KernelGradientDescent": learners.KernelGradientDescent(RBF(1.0), random_state=0),
        "KernelKMeans": squeak.KernelKMeans(3, kernel=RBF(1.0), **small),
        "KernelPCA": squeak.KernelPCA(3, kernel=Laplacian(3.0), **small),
        "KernelRidge": ridge,
        "KernelRidgeCV": squeak.KernelRidgeCV(RBF(1.0), **small),
        "LocalExperts": squeak.LocalExperts(ridge, leaf_rows=100, random_state=0),
        "Nystroem": squeak.Nystroem(RBF(1.0), **small),
        "NytroRegressor": learners.NytroRegressor(RBF(1.0), **small),
        "QuadratureFeatures": learners.QuadratureFeatures(RBF(1.0), n_features=400),
        "RandomFeatureClassifier": squeak.RandomFeatureClassifier(RBF(1.0), n_features=50, random_state=0),
        "RandomFeatureRegressor": squeak.RandomFeatureRegressor(Matern(1.0), n_features=50, random_state=0),
        "RandomFeatures": squeak.RandomFeatures(Laplacian(2.0), n_features=50, random_state=0),
        "logistic": logistic,
        "local classes": squeak.LocalExperts(logistic, leaf_rows=120, random_state=0),
        "local scores": squeak.LocalExperts(squeak.KernelClassifier(RBF(1.0), 0.1, **small), leaf_rows=120),
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("outputs", ["one", pytest.param("several", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", estimators())
def test_every_learner(numbers, tmp_path, name, outputs):
    X, y = numbers
    X = X - [0.0, 1e6, 0.0]
    model = estimators()[name]
    if hasattr(model, "loss") or "Classifier" in name or name.startswith("local "):
        y = np.where(y > 0, "yes", "no") if outputs == "one" else np.digitize(y, [-0.5, 0.5]) + 7
    elif outputs == "several":
        if name in ("KernelCCA", "KernelKMeans", "KernelPCA", "Nystroem", "QuadratureFeatures", "RandomFeatures"):
            pytest.skip("targets do not count")
        y = np.column_stack([y, y**2])
    model.fit(X, y)
    found = check(model, tmp_path, X, close=1e-7)
    expected = {"predict", "decision_function", "predict_proba", "transform"} & set(dir(model))
    expected = {one for one in expected if hasattr(model, one)}
    assert set(found) == expected
    if outputs == "several":
        squeak.save(model, tmp_path / "model.sqk")
        check(squeak.load(tmp_path / "model.sqk"), tmp_path, X, close=1e-7)


def test_probabilities_of_experts_whose_parts_lack_classes(rng, tmp_path):
    X = rng.uniform(0, 4, (400, 2))
    y = np.array(["a", "b", "c", "d"])[X[:, 0].astype(int)]
    for loss in ("squared", "logistic"):
        expert = squeak.KernelClassifier(RBF(0.7), 0.1, max_atoms=20, loss=loss)
        model = squeak.LocalExperts(expert, leaf_rows=100, random_state=0).fit(X, y)
        assert min(len(set(y[rows])) for rows, _ in model.tree_.shares(X)) < 4
        assert "predict_proba" in check(model, tmp_path, X, close=1e-7)


def test_no_learner_is_forgotten():
    assert set(learners.__all__) <= set(estimators())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", [sp.csr_array, np.asarray])
def test_sparse_and_single_precision_rows(numbers, tmp_path, form, dtype):
    X, y = numbers
    X = np.where(np.abs(X) < 0.3, 0.0, X - [0.0, 1e6, 0.0]).astype(dtype)
    for kernel in (RBF(1.0), Laplacian(2.0), Linear()):
        model = squeak.KernelRidge(kernel, 0.1, max_atoms=30, random_state=0).fit(form(X), y)
        session = opened(model, tmp_path)
        (got,) = session.run(["predict"], {"X": X.astype(np.float64)})
        assert np.abs(got - model.predict(form(X))).max() < CLOSE


def test_atoms_far_apart_and_rows_far_away(rng, tmp_path):
    X = np.concatenate([rng.random((60, 2)), 1e9 + rng.random((60, 2))])
    y = np.sin(5 * X[:, 0] % 7)
    for kernel in (RBF(0.5), Matern(0.5, nu=2.5)):
        model = squeak.KernelRidge(kernel, 0.01, dictionary=X, fit_intercept=True).fit(X, y)
        asked = np.concatenate([X, [[1e300, -1e300], [-1e150, 0.0]]])
        check(model, tmp_path, asked, close=1e-6)


def test_blocks_single_rows_no_rows_and_bad_rows(numbers, tmp_path, monkeypatch):
    X, y = numbers
    monkeypatch.setattr(onnx_graph, "BLOCK_VALUES", 640)
    monkeypatch.setattr("squeak.learners.onnx_models.BLOCK_VALUES", 640)  # 16 rows
    model = squeak.KernelRidge(Laplacian(2.0), 0.01, max_atoms=40, random_state=0).fit(X, y)
    session = opened(model, tmp_path)
    expected = model.predict(X)
    for n in (0, 1, 15, 16, 17, 33, 300):
        (got,) = session.run(None, {"X": X[:n]})
        assert got.shape == (n,)
        assert np.abs(got - expected[:n]).max(initial=0.0) < CLOSE
    X = X.copy()
    X[3, 0], X[5, 2] = np.nan, np.inf
    (got,) = session.run(None, {"X": X})
    assert np.flatnonzero(np.isnan(got)).tolist() == [3, 5]


@pytest.fixture
def frame(rng):
    """Return a table with gaps: numbers, categories, a date, a time of day and a duration; and a target."""
    n = 400
    table = pd.DataFrame(
        {
            "size": rng.gamma(2.0, 40.0, n),
            "rooms": rng.integers(1, 9, n),
            "town": rng.choice(["Lille", "Łódź", "Gand"], n),
            "zip": [f"z{number}" for number in rng.integers(0, 60, n)],
            "day": pd.Timestamp("2020-02-28 06:00") + pd.to_timedelta(rng.integers(0, 9000, n), "h"),
            "at": pd.to_timedelta(rng.uniform(0, 1e5, n).round(3), "s"),
        }
    )
    table.loc[::7, "size"] = np.nan
    table.loc[::11, "town"] = None
    table.loc[::13, "day"] = pd.NaT
    y = table["size"].fillna(60) * np.where(table["town"] == "Gand", 2, 1) + table["rooms"] + rng.normal(0, 3, n)
    return table, y.to_numpy()


def inputs_of(table):
    """Return a table as the file takes it: what the page about deployment shows."""
    found = {}
    for name, column in table.items():
        if column.dtype.kind == "M":
            column = (column - pd.Timestamp(0)) / pd.Timedelta(days=1)
        elif column.dtype.kind == "m":
            column = column / pd.Timedelta(seconds=1)
        number = column.dtype.kind in "iuf"
        values = column.to_numpy(dtype=np.float64) if number else column.fillna("").to_numpy(dtype=object)
        found[name] = values[:, None]
    return found


@pytest.mark.parametrize("categories", ["onehot", "codes", "target"])
@pytest.mark.parametrize("scale", ["standard", "robust", None])
def test_tables_with_gaps_categories_and_dates(frame, tmp_path, scale, categories):
    table, y = frame
    source = squeak.rows(table, y, scale=scale, categories=categories, missing="median")
    kernel = Matern("median", nu=0.5) if scale else RBF(np.geomspace(1e2, 1e5, source.preprocessing.n_features))
    model = squeak.KernelRidge(kernel, 0.1, max_atoms=50, random_state=0).fit(source)
    asked = table.copy()
    asked.loc[:3, "zip"] = ["never", "seen", "before", None]
    asked.loc[4:5, "size"] = [1e12, -1e12]
    check(model, tmp_path, asked, inputs_of(asked))


def test_automatic_models_of_tables(frame, tmp_path):
    table, y = frame
    model = squeak.AutoRegressor(max_atoms=60, random_state=0).fit(table, y)
    check(model, tmp_path, table, inputs_of(table), 1e-6)
    model = squeak.AutoClassifier(max_atoms=60, random_state=0).fit(table, np.digitize(y, [60, 120]) > 0)
    assert opened(model, tmp_path).run(["predict"], inputs_of(table))[0].dtype == bool
    found = check(model, tmp_path, table, inputs_of(table), 1e-6)
    assert set(found) == {"predict", "decision_function", "predict_proba"}


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_automatic_models_with_trees(classes, rng, tmp_path):
    X = rng.uniform(-1, 1, (300, 3))
    y = np.floor(4 * X[:, 0]) + 2.0 * (X[:, 1] > 0.3) + 0.1 * rng.standard_normal(300)
    if classes:
        model = squeak.AutoClassifier(max_atoms=30, random_state=0)
        model.fit(X, np.digitize(y, [-1, 1, 3][: classes - 1]))
    else:
        model = squeak.AutoRegressor(max_atoms=30, random_state=0).fit(X, y)
    assert model.trees_ is not None
    check(model, tmp_path, rng.uniform(-1, 1, (500, 3)))
    check(model, tmp_path, X[:1] + 0.01)


def test_the_file_tells_what_its_inputs_are(frame, tmp_path):
    table, y = frame
    source = squeak.rows(table, y, missing="median", scale="standard")
    model = squeak.KernelRidge(max_atoms=20, random_state=0).fit(source)
    session = opened(model, tmp_path)
    assert [(one.name, one.type, one.shape) for one in session.get_inputs()][2:5] == [
        ("town", "tensor(string)", ["n", 1]),
        ("zip", "tensor(string)", ["n", 1]),
        ("day", "tensor(double)", ["n", 1]),
    ]
    said = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    assert said[2]["values"] == ["Gand", "Lille", "Łódź"]
    assert [one.get("unit") for one in said[3:]] == [None, "days since 1970-01-01", "seconds"]


def test_tables_in_single_precision_and_columns_of_arrays(frame, tmp_path, numbers):
    table = frame[0][["size", "rooms"]].astype(np.float32)
    source = squeak.rows(table, frame[1], missing="mean", scale="standard")
    assert source.preprocessing.dtype == "float32"
    model = squeak.KernelRidge(RBF(0.3), 0.1, max_atoms=50, random_state=0).fit(source)
    check(model, tmp_path, table, inputs_of(table))
    X, y = numbers
    X = np.where(np.arange(900).reshape(300, 3) % 10 == 0, np.nan, X)
    model = squeak.AutoRegressor(max_atoms=40, random_state=0).fit(X, y)
    check(model, tmp_path, X, close=1e-6)
    source = squeak.rows(np.column_stack([X, y]), target=3, columns=[0, 2], missing="median", scale="standard")
    model = squeak.KernelRidge(max_atoms=40, random_state=0).fit(source)
    check(model, tmp_path, X)


def test_gaps_that_nothing_fills_are_not_numbers(frame, tmp_path):
    table = frame[0][["rooms", "town"]].fillna("Gand")
    model = squeak.KernelRidge(max_atoms=20, random_state=0).fit(squeak.rows(table, frame[1]))
    inputs = inputs_of(table[:3])
    inputs["rooms"][0], inputs["town"][2] = np.nan, ""
    (got,) = opened(model, tmp_path).run(None, inputs)
    assert np.isnan(got).tolist() == [True, False, True]


def test_another_runtime_gives_the_same(numbers, frame, tmp_path):
    """The reference implementation of ONNX, in Python: files do not lean on what is particular to one runtime."""
    onnx = pytest.importorskip("onnx.reference", reason="onnx has no reference implementation")
    X, y = numbers
    expert = squeak.KernelRidge(Laplacian(2.0), 0.1, max_atoms=20, random_state=0)
    table = frame[0][["size", "town"]]
    source = squeak.rows(table, frame[1], missing="median", scale="robust")
    for model, rows, inputs in (
        (squeak.LocalExperts(expert, leaf_rows=120, random_state=0).fit(X, y), X, {"X": X}),
        (squeak.KernelRidge(Matern(1.0), 0.1, max_atoms=20, random_state=0).fit(source), table, inputs_of(table)),
    ):
        model.to_onnx(tmp_path / "model.onnx")
        (got,) = onnx.ReferenceEvaluator(str(tmp_path / "model.onnx")).run(["predict"], inputs)
        assert np.abs(got - model.predict(rows)).max() < CLOSE * y.std()


class Own(RBF):
    """A kernel of a user's."""


def overlap(a, b):
    return float(len(set(a) & set(b)))


def refused(numbers, frame):
    X, y = numbers
    words = ["squeak", "quack", "quick", "squad"]
    answers = frame[0][["size"]].fillna(1.0).rename(columns={"size": "predict"})
    ridge = squeak.KernelRidge
    return {
        "PairwiseKernel(function=overlap)": ridge(PairwiseKernel(overlap), 0.1, dictionary=words).fit(
            words, range(4)
        ),
        "Own(length_scale=0.9)": ridge(1.0 + Own(0.9), 0.1, max_atoms=20).fit(X, y),
        "nu=0.7": ridge(theirs.Matern(1.0, nu=0.7), 0.1, max_atoms=20).fit(X, y),
        "column 'predict'": ridge(max_atoms=20).fit(squeak.rows(answers, frame[1])),
    }


@pytest.mark.parametrize(
    "words", ["PairwiseKernel(function=overlap)", "Own(length_scale=0.9)", "nu=0.7", "column 'pre"]
)
def test_refusals_name_the_part(numbers, frame, tmp_path, words):
    model = next(model for name, model in refused(numbers, frame).items() if name.startswith(words))
    with pytest.raises((TypeError, ValueError)) as error:
        model.to_onnx(tmp_path / "model.onnx")
    assert words in str(error.value)
    assert not list(tmp_path.iterdir())


def test_other_refusals(numbers, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="not fitted"):
        squeak.KernelRidge().to_onnx(tmp_path / "model.onnx")
    X, y = numbers
    model = squeak.KernelRidge(RBF(1.0), 0.1, max_atoms=20, random_state=0).fit(X, y)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        model.to_onnx(tmp_path / "no" / "model.onnx")
    monkeypatch.setattr(onnx_graph, "MOST_BYTES", 100)
    with pytest.raises(ValueError, match="more than 2 GB"):
        model.to_onnx(tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"squeak-learn\[onnx\]"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_every_kernel_of_ours_is_exported_or_refused():
    from squeak.learners.onnx_kernels import VALUES

    ours = {getattr(squeak.kernels, name) for name in squeak.kernels.__all__}
    assert ours - set(VALUES) == {Kernel, PairwiseKernel}


TABLES = {
    **dict.fromkeys(("cadata", "casp", "parkinson", "cpusmall", "abalone", "elevators", "kin40k"), "regression"),
    **dict.fromkeys(
        ("ijcnn1", "susy_30k", "higgs_18k", "a9a", "covtype", "elec2", "spambase", "letter"), "classes"
    ),
    **dict.fromkeys(("usps", "mnist"), "classes"),
    "nycflights": "regression",
}


@pytest.mark.slow
@pytest.mark.parametrize("automatic", [False, True], ids=["dictionary", "automatic"])
@pytest.mark.parametrize("name", TABLES)
def test_real_tables(name, automatic, tmp_path):
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"data set {name} is not at hand")
    with np.load(path) as file:
        n = min(3000, 400_000 // file["X"].shape[1])
        some = np.random.default_rng(0).permutation(len(file["y"]))[:n]
        X, y = file["X"][some].astype(np.float64), file["y"][some]
    fitted = slice(0, n * 2 // 3)
    X = X[:, X[fitted].std(axis=0) > 0]
    classes = TABLES[name] == "classes"
    if automatic:
        learner = squeak.AutoClassifier if classes else squeak.AutoRegressor
        model = learner(max_atoms=300, leaf_rows=1000, random_state=0).fit(X[fitted], y[fitted])
    else:
        source = squeak.rows(X[fitted], y[fitted], scale="standard")
        learner = squeak.KernelClassifier if classes else squeak.KernelRidge
        model = learner(Laplacian("median"), 1e-3, max_atoms=500, random_state=0).fit(source)
    found = check(model, tmp_path, X, close=1e-5)
    print(f"{name}, {type(model).__name__}: {max(found.values()):.1g}")
