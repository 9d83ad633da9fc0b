"""The same model from memory and from files to 1e-8, and from the workers of a cluster the bits of the files."""

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import KernelClassifier, KernelRidge, KernelRidgeCV, Nystroem
from squeak.kernels import RBF
from tests.engines import ENGINES

KERNEL = RBF(1.0)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # six steps, everywhere


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3_000, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(3_000) + 5.0
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "label": np.where(y > 5, "up", "down")})


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for number, part in enumerate(np.array_split(np.arange(3_000), 3)):
        frame.iloc[part].to_parquet(folder / f"{number}.parquet", row_group_size=400)
    return folder


def source(folder, target):
    drop = "label" if target == "y" else "y"
    return squeak.rows(folder, target, drop=[drop])


MODELS = {
    "direct": ("y", lambda d: KernelRidge(alpha=0.5, dictionary=d)),
    "intercept": ("y", lambda d: KernelRidge(alpha=0.5, dictionary=d, fit_intercept=True)),
    "falkon": ("y", lambda d: KernelRidge(alpha=0.5, dictionary=d, solver="falkon", tol=1e-12, max_iter=6)),
    "auto": ("y", lambda d: KernelRidge(alpha="auto", dictionary=d, fit_intercept=True)),
    "cv": ("y", lambda d: KernelRidgeCV(alphas=[0.1, 1.0, 10.0], dictionary=d)),
    "signs": ("label", lambda d: KernelClassifier(alpha=0.5, dictionary=d)),
    "logistic": ("label", lambda d: KernelClassifier(alpha=0.5, dictionary=d, loss="logistic", tol=1e-3)),
}


def outputs(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@pytest.fixture(scope="module")
def dictionary(frame, folder):
    d = squeak.Squeak(KERNEL, max_atoms=60, random_state=0).fit(source(folder, "y")).dictionary_
    return d


@pytest.fixture(scope="module")
def in_memory(frame, dictionary):
    X = frame[["a", "b", "c"]].to_numpy()
    rows = squeak.Dictionary(**{**vars_of(dictionary), "preprocessing": None})
    return {
        name: outputs(make(rows).fit(X, frame[target].to_numpy()), X) for name, (target, make) in MODELS.items()
    }


def vars_of(d):
    names = [
        "kernel",
        "atoms",
        "indices",
        "probabilities",
        "counts",
        "copies",
        "oversampling",
        "ridge",
        "n_seen",
        "sources",
        "source_numbers",
    ]
    return {name: getattr(d, name) for name in names}


@pytest.mark.parametrize("name", MODELS)
def test_out_of_core_is_in_memory(name, frame, folder, dictionary, in_memory):
    target, make = MODELS[name]
    model = make(dictionary).fit(source(folder, target))
    found = outputs(model, frame[["a", "b", "c"]])
    assert np.abs(found - in_memory[name]).max() <= 1e-8 * np.abs(in_memory[name]).max()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.xdist_group("cluster")
@pytest.mark.parametrize("engine", ENGINES)
def test_workers_give_the_bits_of_threads(engine, frame, folder, dictionary, two_blas_threads):
    X, drawn = frame[["a", "b", "c"]], {"preconditioner": "krill", "max_iter": 3, "random_state": 0}
    models = {**MODELS, "krill": ("y", lambda d: KernelRidge(dictionary=d, solver="falkon", **drawn))}
    here = {
        name: outputs(make(dictionary).fit(source(folder, target)), X) for name, (target, make) in models.items()
    }
    with ENGINES[engine]():
        for name, (target, make) in models.items():
            assert np.array_equal(outputs(make(dictionary).fit(source(folder, target)), X), here[name]), name
        whole = KernelRidge(KERNEL, max_atoms=60, fit_intercept=True, random_state=0).fit(source(folder, "y"))
        assert whole.dictionary_.n_seen == 3_000
        assert np.corrcoef(whole.predict(frame[["a", "b", "c"]]), frame["y"])[0, 1] > 0.95


def test_rows_that_come_once_are_learned_in_one_pass(frame):
    X, y = frame[["a", "b", "c"]].to_numpy(), frame["y"].to_numpy()
    pairs = ((X[start : start + 250], y[start : start + 250]) for start in range(0, 3_000, 250))
    model = KernelRidge(KERNEL, alpha=0.5, max_atoms=60, fit_intercept=True, random_state=0)
    model.fit(squeak.rows(pairs, True))
    assert model.dictionary_.n_seen == 3_000
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.95
    with pytest.raises(ValueError, match="read only once"):
        KernelRidge(KERNEL, alpha="auto").fit(squeak.rows(iter([(X, y)]), True))
    with pytest.raises(ValueError, match="only once"):
        KernelClassifier(KERNEL).fit(squeak.rows(iter([(X, y)]), True))


def test_tables_are_predicted_through_the_preprocessing(frame, folder):
    model = KernelRidge(RBF("median"), max_atoms=60, fit_intercept=True, random_state=0)
    model.fit(squeak.rows(folder, "y", scale="standard"))
    X = frame.drop(columns="y")
    assert np.corrcoef(model.predict(X), frame["y"])[0, 1] > 0.95
    assert np.allclose(model.predict(X[list(reversed(X.columns))]), model.predict(X))
    Z = Nystroem(RBF("median"), max_atoms=20, random_state=0).fit(squeak.rows(folder, scale="standard", drop=["y"]))
    assert Z.transform(X).shape == (3_000, len(Z.dictionary_))


def test_sources_are_refused_with_the_reason(folder, frame):
    with pytest.raises(ValueError, match="has no targets"):
        KernelRidge().fit(squeak.rows(folder))
    with pytest.raises(ValueError, match="carries its targets"):
        KernelRidge().fit(source(folder, "y"), frame["y"])
    with pytest.raises(ValueError, match="sample_weight goes with arrays"):
        KernelRidge().fit(source(folder, "y"), sample_weight=np.ones(3_000))
