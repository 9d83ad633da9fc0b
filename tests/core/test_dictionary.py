import dataclasses

import numpy as np
import pytest

import squeak
from squeak import Dictionary, Squeak
from squeak.core.kernels import gram
from squeak.kernels import RBF
from squeak.samplers import Uniform
from tests.oracles import dense_estimate


@pytest.fixture
def X(rng):
    return rng.standard_normal((400, 2))


@pytest.fixture
def d(X):
    return Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(X).dictionary_


def parts_of(d, **changes):
    return {field.name: getattr(d, field.name) for field in dataclasses.fields(d)} | changes


def test_scores_and_dimension_are_the_dense_ones(d, X):
    K = gram(RBF(1.0), X)
    w = np.zeros(400)
    w[d.indices] = d.weights
    np.testing.assert_allclose(d.leverage_scores(X), dense_estimate(K, w, 1.0), rtol=1e-6)
    root = np.sqrt(w)
    W = root[:, None] * K * root
    assert d.effective_dimension() == pytest.approx(np.trace(W @ np.linalg.inv(W + np.eye(400))), rel=1e-8)
    np.testing.assert_allclose(d.eigenvalues(), np.linalg.eigvalsh(W)[::-1][: len(d)], atol=1e-8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ridge": 0.0}, "ridge must be positive"),
        ({"n_seen": 7}, "n_seen is 7"),
        ({"copies": 0}, "copies must be a whole number"),
        ({"eps": 1.0}, "eps must lie"),
        ({"oversampling": -5.0}, "oversampling must be positive"),
        ({"copies": 1.5}, "copies must be a whole number"),
        ({"calibrated": "no"}, "calibrated must be True or False"),
        ({"indices": np.zeros(3)}, "indices has shape"),
    ],
    ids=str,
)
def test_a_dictionary_that_makes_no_sense_cannot_be_made(d, change, message):
    with pytest.raises(ValueError, match=message):
        Dictionary(**parts_of(d, **change))


def test_values_out_of_range_are_refused(d):
    for name, value, message in (
        ("probabilities", 1.5, r"\(0, 1\]"),
        ("probabilities", 0.0, r"\(0, 1\]"),
        ("counts", 2, "between 1 and copies"),
        ("indices", 400, "outside its source"),
        ("indices", d.indices[1], "two atoms are the same row"),
        ("source_numbers", 1, "source that is not listed"),
    ):
        array = getattr(d, name).copy()
        array[0] = value
        with pytest.raises(ValueError, match=message):
            Dictionary(**parts_of(d, **{name: array}))


def test_landmarks_without_weights_refuse_what_needs_weights(d, X):
    landmarks = Dictionary(**parts_of(d, calibrated=False))
    for use in (lambda: landmarks.leverage_scores(X), landmarks.effective_dimension, landmarks.eigenvalues):
        with pytest.raises(ValueError, match="do not estimate sums over the data"):
            use()
    with pytest.raises(ValueError, match="only dictionaries of coins by leverage scores"):
        squeak.merge(landmarks, d)
    assert "unknown" in repr(landmarks)


def test_exact_means_every_row_at_weight_one(X):
    few = Squeak(kernel=RBF(0.1), ridge=1e-3, random_state=0).fit(X[:50]).dictionary_
    assert few.exact
    assert not Squeak(kernel=RBF(3.0), ridge=1.0, oversampling=3, random_state=0).fit(X).dictionary_.exact


def test_merging_refuses_what_does_not_fit(d, X):
    other = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(X[::-1]).dictionary_
    assert squeak.merge(d, other, random_state=0).n_seen == 800
    with pytest.raises(ValueError, match="is in two of the dictionaries"):
        squeak.merge(d, d)
    for params, name in (
        ({"kernel": RBF(2.0)}, "kernel"),
        ({"copies": 3}, "copies"),
        ({"oversampling": 4}, "oversampling"),
    ):
        strange = (
            Squeak(**({"kernel": RBF(1.0), "ridge": 1.0, "random_state": 0} | params)).fit(X[::-1]).dictionary_
        )
        with pytest.raises(ValueError, match=f"different {name} cannot be merged"):
            squeak.merge(d, strange)
    uniform = Uniform(kernel=RBF(1.0), max_atoms=30, random_state=0).fit(X[::-1]).dictionary_
    with pytest.raises(ValueError, match="only dictionaries of coins by leverage scores"):
        squeak.merge(d, uniform)
    with pytest.raises(ValueError, match="two dictionaries or more"):
        squeak.merge(d)
    with pytest.raises(TypeError, match="argument 2 of merge"):
        squeak.merge(d, X)
    wide = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(np.hstack([X, X])).dictionary_
    with pytest.raises(ValueError, match="of 2 and of 4 columns"):
        squeak.merge(d, wide)
    for limit in (0, -3, 2.5, "3", True):
        with pytest.raises(ValueError, match="max_atoms must be a whole number"):
            squeak.merge(d, other, max_atoms=limit)
    early = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(X[:10]).dictionary_
    with pytest.raises(ValueError, match="is in two of the dictionaries"):
        squeak.merge(early, d)


def test_nothing_outside_can_change_a_dictionary(d, X):
    import scipy.sparse as sp

    sparse = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(sp.csr_matrix(X)).dictionary_
    with pytest.raises(ValueError, match="read-only"):
        sparse.atoms.data[:] = 7
    sampler = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(X)
    sampler.dictionary_.kernel.set_params(length_scale=0.01)
    assert sampler.partial_fit(X).dictionary_.kernel == RBF(1.0)


def test_merging_takes_the_larger_ridge_and_keeps_a_limit(d, X, rng):
    coarse = Squeak(kernel=RBF(1.0), ridge=4.0, random_state=0).fit(X[::-1]).dictionary_
    merged = squeak.merge(d, coarse, random_state=0)
    assert merged.ridge == 4.0
    assert merged == squeak.merge(d, coarse, random_state=0)
    small = squeak.merge(d, coarse, random_state=0, max_atoms=30)
    assert len(small) <= 30
    assert small.ridge > 4.0
    rows = np.vstack([X, X[::-1]])
    assert np.array_equal(rows[merged.positions], merged.atoms)
    named = [Squeak(kernel=RBF(1.0), ridge=1.0, source=s, random_state=0).fit(X).dictionary_ for s in ("a", "b")]
    assert squeak.merge(*named, random_state=0).sources == (("a", 400), ("b", 400))


def test_equality_looks_at_everything(d):
    assert Dictionary(**parts_of(d)) == d
    assert Dictionary(**parts_of(d, ridge=2.0)) != d
    assert Dictionary(**parts_of(d, atoms=d.atoms + 1)) != d
    assert d != "dictionary"
    with pytest.raises(TypeError, match="unhashable"):
        hash(d)
