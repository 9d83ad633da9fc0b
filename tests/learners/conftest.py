"""Rows and a file of them that several tests of learners share."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def waves():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)


@pytest.fixture
def waves_file(waves, tmp_path):
    """Return the path of a CSV file of the rows, one column of another scale, with its table and the targets."""
    X, y = waves
    frame = pd.DataFrame({"a": 100 * X[:, 0] + 500, "b": X[:, 1], "y": y})
    frame.to_csv(tmp_path / "d.csv", index=False)
    return tmp_path / "d.csv", frame[["a", "b"]], y
