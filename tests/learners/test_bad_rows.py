"""What a learner says of rows, targets and kernels that it cannot learn from: one error, which names the place."""

import numpy as np
import pytest
import scipy.sparse as sp

from squeak import (
    KernelCCA,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
    Nystroem,
    RandomFeatureClassifier,
    RandomFeatureRegressor,
    RandomFeatures,
)
from squeak.kernels import RBF, Constant, Linear
from squeak.learners import KernelGradientDescent

LEARNERS = [
    KernelRidge(),
    KernelRidgeCV(),
    KernelClassifier(),
    KernelPCA(),
    KernelKMeans(2),
    KernelCCA(),
    Nystroem(),
    RandomFeatures(),
    RandomFeatureRegressor(),
    RandomFeatureClassifier(),
    KernelGradientDescent(),
]
NAMES = [type(learner).__name__ for learner in LEARNERS]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (200, 2))
    return X, np.sin(3 * X[:, 0])


def targets_for(learner, y):
    return (y > 0).astype(int) if "Classifier" in type(learner).__name__ else y


@pytest.mark.parametrize("learner", LEARNERS, ids=NAMES)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_missing_value_is_named_by_row_and_column(learner, form, data):
    X, y = data
    bad = X.copy()
    bad[17, 1] = np.nan
    with pytest.raises(ValueError, match=r"row 17, column 1 is nan"):
        learner.fit(form(bad), targets_for(learner, y))
    fitted = learner.fit(X, targets_for(learner, y))
    use = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    with pytest.raises(ValueError, match=r"row 17, column 1 is nan"):
        use(form(bad))


@pytest.mark.parametrize("learner", [KernelRidge(), KernelRidgeCV(), RandomFeatureRegressor(), KernelCCA()])
def test_a_missing_target_or_weight_is_named_by_its_row(learner, data):
    X, y = data
    bad, weight = y.copy(), np.ones(len(y))
    bad[5], weight[7] = np.inf, np.nan
    with pytest.raises(ValueError, match=r"row 5 of y is inf"):
        learner.fit(X, bad)
    with pytest.raises(ValueError, match=r"row 5, column 1 of y is inf"):
        learner.fit(X, np.column_stack([y, bad]))
    with pytest.raises(ValueError, match=r"row 7 of sample_weight is nan"):
        learner.fit(X, y, sample_weight=weight)


def test_random_features_learn_from_rows_that_hardly_resemble_each_other():
    """At width 1 in a hundred columns K is the identity to the last bit, with one eigenvalue only."""
    X = np.random.default_rng(0).standard_normal((2000, 100))
    model = RandomFeatureRegressor(RBF(1.0), max_iter=2, random_state=0).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    "learner",
    [
        KernelRidge(Constant(0.0), max_atoms=5),
        KernelRidge(Linear(), dictionary=np.zeros((3, 2)), solver="falkon"),
        KernelPCA(kernel=Linear(), dictionary=np.zeros((3, 2))),
        KernelPCA(kernel=Linear()),
        KernelGradientDescent(Linear()),
        Nystroem(Linear(), max_atoms=5),
    ],
)
def test_a_kernel_that_is_zero_everywhere_is_refused(learner):
    with pytest.raises(ValueError, match="is zero"):
        learner.fit(np.zeros((200, 2)), np.arange(200.0))
