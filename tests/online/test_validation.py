"""Progressive validation against the plain loop, regret against BATCH, bounds, row sources, and the command."""

import sys

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import NotFittedError

import squeak
from squeak.cli import main
from squeak.kernels import RBF, Linear
from squeak.online import (
    Batch,
    BudgetKonsRegressor,
    ConKonsClassifier,
    ConKonsRegressor,
    FOGDRegressor,
    KonsRegressor,
    MixedKonsRegressor,
    ProsNKonsRegressor,
    SketchedKonsRegressor,
    progressive_validation,
    regret_bound,
)
from squeak.online.losses import LOSSES


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (900, 2))
    return X, np.clip(np.sin(2 * X[:, 0]) * X[:, 1] / 2 + 0.05 * rng.standard_normal(900), -1, 1)


def test_it_is_the_loop_of_predicting_and_learning(data):
    X, y = data
    model = ConKonsRegressor(random_state=0)
    losses = []
    for x, target in zip(X, y, strict=True):
        losses.append((model.predict_one(x) - target) ** 2)
        model.learn_one(x, target)
    found = progressive_validation(ConKonsRegressor(random_state=0), X, y)
    np.testing.assert_allclose(found.losses, losses, atol=1e-8)
    assert found.mean_loss == pytest.approx(np.mean(losses), rel=1e-8)
    assert found.curve[-1] == pytest.approx(found.mean_loss)
    assert found.rows[-1] == 900
    assert found.atoms[-1] == model.n_atoms_
    assert np.all(np.diff(found.times) >= 0)
    assert found.seconds == found.times[-1] > 0


def test_learning_before_predicting_would_be_seen(data):
    X, y = data
    honest = progressive_validation(ConKonsRegressor(random_state=0), X, y).mean_loss
    model = ConKonsRegressor(random_state=0)
    cheating = np.mean(
        [(model.partial_fit(X[i : i + 1], y[i : i + 1]).predict_one(X[i]) - y[i]) ** 2 for i in range(900)]
    )
    assert cheating < 0.8 * honest


def test_classifiers_count_wrong_labels(data):
    X, y = data
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-0.2, 0.2])]
    found = progressive_validation(ConKonsClassifier(random_state=0), X, labels)
    again = ConKonsClassifier(random_state=0)
    said = np.concatenate(
        [
            again.partial_fit(X[:1], labels[:1], classes=["a", "b", "c"]).classes_[:1],
            again.test_then_train(X[1:], labels[1:]),
        ]
    )
    assert np.mean(found.losses[1:] != (said[1:] != labels[1:])) < 0.02
    assert set(np.unique(found.losses)) <= {0.0, 1.0}
    assert found.mean_loss < 0.35


def test_a_row_source_is_the_same_stream(data, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = data
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), tmp_path / "rows.parquet")
    source = squeak.rows(str(tmp_path / "rows.parquet"), target="y", scale="standard")
    model = ConKonsRegressor(random_state=0)
    found = progressive_validation(model, source)
    scaled = np.concatenate([block for block, _ in source])
    plain = progressive_validation(ConKonsRegressor(scale=None, random_state=0), scaled, y)
    np.testing.assert_allclose(found.losses, plain.losses, atol=1e-8)
    raw = pa.table({"a": X[:5, 0], "b": X[:5, 1]})
    np.testing.assert_allclose(model.predict(raw), model.predict(source)[:5], atol=1e-9)
    model.save(tmp_path / "m.sqk")
    np.testing.assert_allclose(squeak.load(tmp_path / "m.sqk").predict(raw), model.predict(raw))
    with pytest.raises(ValueError, match="preprocessed in another way"):
        model.partial_fit(squeak.rows(str(tmp_path / "rows.parquet"), target="y", scale="robust"))
    with pytest.raises(ValueError, match="brings its own target"):
        ConKonsRegressor().fit(squeak.rows(str(tmp_path / "rows.parquet")))


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_batch_is_the_minimiser_in_the_final_space(loss, data):
    X, y = data
    if loss == "squared":
        model, target = ConKonsRegressor(RBF(1.0), alpha=0.5, max_atoms=20, random_state=0), y
    else:
        model, target = ConKonsClassifier(RBF(1.0), loss=loss, alpha=0.5, max_atoms=20, random_state=0), y > 0
    model.fit(X, target)
    batch = Batch(model).fit(X, target)
    features = model._stream.learner.space.features.block(X)
    signed = y if loss == "squared" else np.where(y > 0, 1.0, -1.0)

    def objective(w):
        z = features @ w
        slopes = np.array([LOSSES[loss].derivative(a, b) for a, b in zip(signed, z, strict=True)])
        return LOSSES[loss].value(signed, z).sum() + 0.5 * w @ w, features.T @ slopes + w

    best = minimize(
        objective,
        np.zeros(features.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9},
    )
    ours = batch.losses_.sum() + 0.5 * batch.norm_
    assert ours <= best.fun * (1 + 1e-7)
    assert ours == pytest.approx(best.fun, rel=1e-6)
    agreement = batch.predict(X)
    np.testing.assert_allclose(
        agreement if loss == "squared" else features @ batch.weights_[:, 0], features @ batch.weights_[:, 0]
    )


def test_regret_against_batch_is_the_difference_of_sums(data):
    X, y = data
    model = BudgetKonsRegressor(RBF(1.0), bound=1.0, max_atoms=25, random_state=0)
    found = progressive_validation(model, X, y)
    batch = Batch(model).fit(X, y)
    regret = found.regret(batch)
    assert regret[-1] == pytest.approx(found.losses.sum() - batch.losses_.sum())
    assert len(regret) == len(found.rows)
    assert regret[-1] <= regret_bound(model, batch.norm_)
    with pytest.raises(ValueError, match="the batch saw 10 rows"):
        found.regret(Batch(model).fit(X[:10], y[:10]))


def test_the_bound_is_the_theorems_number(data):
    X, y = data
    linear = KonsRegressor(Linear(), alpha=1.0, bound=1.0, curvature="worst").fit(X, y)
    A, gain = np.eye(2), 0.0
    w, g = np.zeros(2), np.zeros(2)
    for x, target in zip(X, y, strict=True):
        inverse = np.linalg.inv(A)
        w = w - inverse @ g
        z = x @ w
        if abs(z) > 1:
            w = w - (z - np.sign(z)) / (x @ inverse @ x) * (inverse @ x)
        g = 2 * (x @ w - target) * x
        A = A + np.outer(g, g) / 8
        gain += g @ np.linalg.solve(A, g)
    assert regret_bound(linear, 3.0) == pytest.approx(0.5 * (3.0 + gain), rel=1e-8)
    assert regret_bound(ConKonsRegressor(random_state=0).fit(X, y), 1.0) is None
    assert regret_bound(SketchedKonsRegressor(random_state=0).fit(X[:50], y[:50]), 1.0) is None
    pros = ProsNKonsRegressor(RBF(1.0), bound=1.0, random_state=0).fit(X, y)
    learner = pros._stream.learner
    J, gain, ridge = learner.growths, learner.heads[0].gain, learner.space.scorer.ridge
    steps = 0.5 * ((J + 1) * pros.alpha * 2.5 + gain)
    space = 4.0**2 / pros.alpha * (len(X) * ridge / 4 + 1)  # L = 4C, ε/(1 − ε) = 1
    assert J > 1
    assert regret_bound(pros, 2.5) == pytest.approx(steps + space + 2 * J, rel=1e-12)


def test_other_estimators_are_refused(data):
    with pytest.raises(TypeError, match=r"an estimator of squeak\.online"):
        progressive_validation(object(), *data)
    with pytest.raises(TypeError, match="no final space"):
        Batch(FOGDRegressor(n_features=20, random_state=0).fit(*data)).fit(*data)


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["squeak", *map(str, arguments)])
    with pytest.raises(SystemExit) as leave:
        main()
    shown = capsys.readouterr()
    return leave.value.code, shown.out, shown.err


@pytest.fixture
def table(data, tmp_path):
    X, y = data
    path = tmp_path / "rows.csv"
    lines = [f"{a},{b},{'up' if t > 0 else 'down'},{t}" for (a, b), t in zip(X, y, strict=True)]
    path.write_text("a,b,way,y\n" + "\n".join(lines) + "\n")
    return path


def test_the_command_learns_and_saves_and_goes_on(table, data, tmp_path, monkeypatch, capsys):
    out = tmp_path / "m.sqk"
    code, shown, bar = run(
        monkeypatch,
        capsys,
        "online",
        table,
        "--target",
        "y",
        "--drop",
        "way",
        "-o",
        out,
        "--figure",
        tmp_path / "f.png",
    )
    assert code == 0
    assert "MixedKonsRegressor: 900 rows" in shown
    assert "loss=" in bar
    assert (tmp_path / "f.png").stat().st_size > 5000
    loss = float(shown.split("progressive squared error ")[1].split(";")[0])
    source = squeak.rows(str(table), "y", drop=["way"])
    model = MixedKonsRegressor(RBF("learned"), random_state=0)  # scales are learned on the way, as by the command
    assert loss == pytest.approx(progressive_validation(model, source).mean_loss, rel=1e-4)
    assert squeak.load(out).n_seen_ == 900
    code, shown, _ = run(monkeypatch, capsys, "online", table, "--target", "y", "--resume", out, "-o", out, "-q")
    assert code == 0
    assert squeak.load(out).n_seen_ == 1800
    code, shown, _ = run(monkeypatch, capsys, "show", out)
    assert code == 0
    assert "MixedKonsRegressor, 1,800 rows learned so far" in shown


def test_the_command_learns_labels(table, monkeypatch, capsys):
    for method in ("con-kons", "fogd"):
        code, shown, _ = run(
            monkeypatch,
            capsys,
            "online",
            table,
            "--target",
            "way",
            "--drop",
            "y",
            "--task",
            "classification",
            "--method",
            method,
            "-q",
        )
        assert code == 0
        assert float(shown.split("error rate ")[1].split(";")[0]) < (0.3 if method == "con-kons" else 0.45)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--target", "nothing"], 1, "nothing"),
        (["--target", "y", "--step", "1"], 2, "--step is not for mixed-kons"),
        (["--target", "y", "--method", "fogd", "--alpha", "1"], 2, "not for fogd"),
        (["--target", "y", "--method", "fogd", "--max-atoms", "10"], 2, "--max-atoms is not for fogd"),
        (
            ["--target", "y", "--resume", "m.sqk", "--max-atoms", "9", "--step", "1"],
            2,
            "--max-atoms, --step cannot change",
        ),
        (["--target", "y", "--figure", "x.bmp"], 2, "--figure ends in"),
        (["--target", "way", "--task", "regression"], 1, "the target is text ('up'); use --task classification"),
    ],
)
def test_the_command_says_what_is_wrong(table, arguments, code, message, monkeypatch, capsys):
    found, _, err = run(monkeypatch, capsys, "online", table, "-q", *arguments)
    assert found == code
    assert message in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_a_figure_without_matplotlib_names_the_extra(table, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = run(monkeypatch, capsys, "online", table, "--target", "y", "--figure", "x.png")
    assert code == 1
    assert "squeak-learn[report]" in err


def test_a_batch_that_was_not_fitted_says_so(data):
    with pytest.raises(NotFittedError):
        Batch(ConKonsRegressor(random_state=0).fit(*data)).predict(data[0])


def test_a_pass_is_made_of_blocks_that_are_predicted_and_then_learned(data):
    X, y = data
    model, twin = (ConKonsRegressor(RBF(1.0), random_state=0) for _ in range(2))
    whole = twin.test_then_train(X, y)
    tested = []
    for block in model.test_then_train_blocks(squeak.rows(X, y), n_blocks=7):
        assert model.n_seen_ == sum(len(one.y) for one in tested) + len(block.y), (
            "rows are learned as they are taken"
        )
        tested.append(block)
    assert len(tested) >= 7
    assert [one.cursor is None for one in tested] == [True] * (len(tested) - 1) + [False]
    assert np.array_equal(np.concatenate([one.y for one in tested]), y)
    np.testing.assert_allclose(np.concatenate([one.predictions for one in tested]), whole, atol=1e-9)
    losses = np.concatenate([one.surrogate for one in tested])
    progress = progressive_validation(ConKonsRegressor(RBF(1.0), random_state=0), X, y)
    np.testing.assert_allclose(losses, progress.losses, atol=1e-9)
    assert tested[-1].facts["atoms"] == model.n_atoms_


def test_learn_one_returns_nothing_as_rivers_does(data):
    X, y = data
    one, two = (ConKonsRegressor(RBF(1.0), random_state=0).fit(X[:50], y[:50]) for _ in range(2))
    expected = one.predict_one(X[50])
    assert one.learn_one(X[50], y[50]) is None
    assert two.test_then_train_one(X[50], y[50]) == expected
    assert one.predict_one(X[51]) == two.predict_one(X[51])


def test_an_odd_number_of_features_is_rounded_up(data):
    odd, even = (FOGDRegressor(RBF(1.0), n_features=n, random_state=0).fit(*data) for n in (19, 20))
    assert np.array_equal(odd.predict(data[0][:9]), even.predict(data[0][:9]))
    assert odd.learner_.facts["coordinates"] == 20
