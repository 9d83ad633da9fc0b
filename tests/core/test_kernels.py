import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise

from squeak import Squeak
from squeak.core.kernels import Scaled, against, block, diagonal, gram, resolve
from squeak.core.kernels.registry import check_stored, kernel_from_data, kernel_to_data
from squeak.core.kernels.single import GaussianValues
from squeak.core.rows import check_rows, rows_from_arrays, rows_to_arrays, same_rows
from squeak.kernels import (
    RBF,
    Constant,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    PairwiseKernel,
    Polynomial,
)
from squeak.samplers import ExactRLS
from tests.oracles import dense_kernel

PER_COLUMN = np.array([0.5, 1.0, 2.0, 4.0])

AGAINST = {
    "rbf": (RBF(1.7), lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=1 / (2 * 1.7**2))),
    "rbf vector": (RBF(PER_COLUMN), lambda X, Y: gp.RBF(PER_COLUMN)(X, Y)),
    "laplacian": (Laplacian(2.5), lambda X, Y: pairwise.laplacian_kernel(X, Y, gamma=1 / 2.5)),
    "matern 1/2": (Matern(1.3, nu=0.5), lambda X, Y: gp.Matern(1.3, nu=0.5)(X, Y)),
    "matern 3/2": (Matern(1.3, nu=1.5), lambda X, Y: gp.Matern(1.3, nu=1.5)(X, Y)),
    "matern 5/2": (Matern(PER_COLUMN, nu=2.5), lambda X, Y: gp.Matern(PER_COLUMN, nu=2.5)(X, Y)),
    "polynomial": (
        Polynomial(3, length_scale=2.0, offset=0.5),
        lambda X, Y: pairwise.polynomial_kernel(X, Y, degree=3, gamma=0.25, coef0=0.5),
    ),
    "linear": (Linear(), pairwise.linear_kernel),
    "linear vector": (Linear(PER_COLUMN), lambda X, Y: (X / PER_COLUMN) @ (Y / PER_COLUMN).T),
    "sum": (RBF(1.0) + Linear(), lambda X, Y: gp.RBF(1.0)(X, Y) + X @ Y.T),
    "product": (RBF(1.0) * Linear(offset=1.0), lambda X, Y: gp.RBF(1.0)(X, Y) * (X @ Y.T + 1)),
    "scaled": (0.3 * Laplacian(1.0) + 2.0, lambda X, Y: 0.3 * pairwise.laplacian_kernel(X, Y, gamma=1.0) + 2),
    "with theirs": (RBF(1.0) + gp.RationalQuadratic(), lambda X, Y: (gp.RBF() + gp.RationalQuadratic())(X, Y)),
}
OURS = {name: kernel for name, (kernel, _) in AGAINST.items() if name != "with theirs"}


@pytest.fixture
def X(rng):
    return rng.standard_normal((60, 4))


@pytest.mark.parametrize("name", AGAINST)
def test_values_are_scikit_learns(name, X, rng):
    kernel, theirs = AGAINST[name]
    Y = rng.standard_normal((37, 4))
    np.testing.assert_allclose(kernel(X, Y), theirs(X, Y), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.diag(theirs(X, X)), rtol=1e-12)
    np.testing.assert_allclose(kernel(X), theirs(X, X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", AGAINST)
def test_gram_is_symmetric_and_psd(name, X):
    kernel, _ = AGAINST[name]
    rows = np.vstack([X, X[:20], X[:5] + 1e-9])  # duplicates and near duplicates
    K = gram(kernel, rows)
    assert np.array_equal(K, K.T)
    assert np.linalg.eigvalsh(K)[0] >= -1e-10 * np.linalg.eigvalsh(K)[-1]


@pytest.mark.parametrize("shift", [0.0, 1e3])
@pytest.mark.parametrize("kernel", [RBF(1.5), Matern(1.5, nu=1.5), Matern(1.5, nu=0.5), Laplacian(3.0)], ids=repr)
def test_float32_is_within_1e5_also_far_from_the_origin(kernel, shift, X, rng):
    X32 = (X + shift).astype(np.float32)
    Y32 = (rng.standard_normal((50, 4)) + shift).astype(np.float32)
    values = kernel(X32, Y32)
    assert values.dtype == np.float32
    assert kernel.diag(X32).dtype == np.float32
    np.testing.assert_allclose(values, kernel(X32.astype(float), Y32.astype(float)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", OURS)
def test_sparse_rows_give_the_dense_values(name, X, rng):
    kernel = OURS[name]
    dense = X * (rng.random(X.shape) < 0.4)
    other = X[:20] * (rng.random((20, 4)) < 0.4)
    np.testing.assert_allclose(
        kernel(sp.csr_matrix(dense), sp.csr_array(other)), kernel(dense, other), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(kernel.diag(sp.csr_array(dense)), kernel.diag(dense), rtol=1e-12)


def test_blocks_and_threads_do_not_change_values(rng, monkeypatch):
    X = rng.standard_normal((3000, 5))
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "1")
    one = RBF(2.0)(X, X[:100])
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "3")
    assert np.array_equal(RBF(2.0)(X, X[:100]), one)
    np.testing.assert_allclose(
        one, np.vstack([block(RBF(2.0), X[i : i + 1], X[:100]) for i in range(3000)]), atol=1e-14
    )


def test_median_width_is_the_median_distance(X):
    from scipy.spatial.distance import pdist

    assert RBF("median").resolve(X) == RBF(float(np.median(pdist(X))))
    assert Laplacian("median").resolve(X) == Laplacian(float(np.median(pdist(X, "cityblock"))))
    doubled = np.vstack([X, X])  # equal pairs are left out
    assert RBF("median").resolve(doubled).length_scale == pytest.approx(RBF("median").resolve(X).length_scale)
    nested = (2.0 * RBF("median") + Matern("median", nu=0.5)).resolve(X)
    assert nested.first.kernel.length_scale == nested.second.length_scale > 0
    assert resolve(gp.RBF(2.0), X) == gp.RBF(2.0)


def test_median_of_equal_rows_is_refused():
    with pytest.raises(ValueError, match="two different rows"):
        RBF("median").resolve(np.ones((5, 2)))


def test_the_median_is_over_the_last_row_too_and_names_a_single_row():
    far = np.array([[0.0], [1.0], [9.0]])
    assert RBF("median").resolve(far).length_scale == 8.0
    with pytest.raises(ValueError, match="this is one sample"):
        RBF("median").resolve(far[:1])
    with pytest.raises(ValueError, match="all 2 are alike"):
        RBF("median").resolve(np.zeros((2, 1)))


def test_unresolved_width_is_refused(X):
    with pytest.raises(ValueError, match="no width yet"):
        RBF("median")(X)
    with pytest.raises(ValueError, match="'median', 'auto' or 'learned'; it is 'meridian'"):
        RBF("meridian").resolve(X)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RBF(0.0), "length_scale must be positive"),
        (RBF(-1.0), "length_scale must be positive"),
        (RBF(np.array([1.0, 2.0])), "2 numbers for rows of 4 columns"),
        (RBF(np.nan), "length_scale must be positive"),
        (Matern(1.0, nu=2.0), "nu must be 0.5, 1.5 or 2.5"),
        (Polynomial(0), "degree must be a whole number"),
        (Polynomial(2, offset=-1.0), "would not be PSD"),
        (-1.0 * RBF(1.0), "positive number only"),
        (Constant(-1.0), "must not be negative"),
        (Kernel(), "abstract"),
    ],
    ids=str,
)
def test_bad_parameters_get_one_clear_error(kernel, message, X):
    with pytest.raises((ValueError, TypeError), match=message):
        kernel(X)


def test_huge_and_tiny_values_stay_finite():
    X = np.array([[0.0], [1e-300], [1.0], [1e160], [1e300], [-1e300]])
    for kernel in (RBF(1.0), Matern(1.0), Matern(1.0, nu=2.5), Matern(1.0, nu=0.5), Laplacian(1.0)):
        K = kernel(X)
        assert np.isfinite(K).all()
        assert K[0, 1] == 1.0
        assert K[3, 4] == 0.0
        assert np.array_equal(np.diag(K), np.ones(6))


def test_kernels_are_values(X):
    assert RBF(2.0) == RBF(2.0) != RBF(3.0)
    assert RBF(2.0) != Laplacian(2.0)
    assert RBF(PER_COLUMN) == RBF(PER_COLUMN.copy()) != RBF(2.0)
    assert hash(RBF(2.0)) == hash(RBF(2.0))
    for kernel, _ in AGAINST.values():
        copy = clone(kernel)
        assert copy == kernel
        assert copy is not kernel
    nested = RBF(1.0) + 2.0 * Linear()
    nested.set_params(first__length_scale=5.0, second__factor=4.0)
    assert nested == RBF(5.0) + 4.0 * Linear()
    with pytest.raises(ValueError, match="no parameter 'gamma'"):
        nested.set_params(gamma=1.0)


@pytest.mark.parametrize("name", AGAINST)
def test_kernels_travel_as_plain_data(name):
    import json

    kernel, _ = AGAINST[name]
    data = kernel_to_data(kernel)
    assert kernel_from_data(json.loads(json.dumps(data))) == kernel


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"origin": "os", "name": "system", "params": {}},
        {"origin": "squeak", "name": "PairwiseKernel", "params": {}},
        {"origin": "scikit-learn", "name": "CompoundKernel", "params": {}},
        {"origin": "squeak", "name": "RBF", "params": {"width": 1}},
        {"origin": "squeak", "name": "RBF", "params": []},
    ],
)
def test_damaged_descriptions_of_kernels_are_refused(data):
    with pytest.raises(ValueError, match=r"damaged|no kernel is known"):
        kernel_from_data(data)


def letters(a, b):
    return float(len(set(a) & set(b)))


def test_pairwise_kernel_takes_any_objects():
    words = ["squeak", "quack", "leverage", "ridge", "kernel"]
    K = PairwiseKernel(letters)(words)
    assert K.shape == (5, 5)
    assert K[0, 1] == 4
    assert np.array_equal(PairwiseKernel(letters).diag(words), np.diag(K))
    sampler = Squeak(kernel=PairwiseKernel(letters), ridge=0.5, random_state=0).fit(words * 3)
    assert set(sampler.dictionary_.atoms) <= set(words)
    assert sampler.dictionary_.effective_dimension() > 1
    graphs = [frozenset({(0, 1)}), frozenset({(0, 1), (1, 2)})]  # objects that no array holds
    assert PairwiseKernel(lambda g, h: len(g & h))(graphs)[0, 1] == 1


def test_scikit_learns_kernels_work_unchanged(X):
    own = Squeak(kernel=2.0 * RBF(1.5), ridge=1.0, random_state=0).fit(np.vstack([X] * 10)).dictionary_
    theirs = Squeak(kernel=2.0 * gp.RBF(1.5), ridge=1.0, random_state=0).fit(np.vstack([X] * 10)).dictionary_
    assert np.array_equal(own.indices, theirs.indices)
    np.testing.assert_allclose(own.weights, theirs.weights, rtol=1e-8)
    np.testing.assert_allclose(own.leverage_scores(X), theirs.leverage_scores(X), rtol=1e-6)


def test_noise_on_the_diagonal_is_refused_with_the_cure(X):
    for sampler in (
        Squeak(kernel=gp.RBF(1.5) + gp.WhiteKernel(0.1)),
        ExactRLS(kernel=RBF(1.0) + gp.WhiteKernel(0.1)),
    ):
        with pytest.raises(ValueError, match="leave out noise such as WhiteKernel, and add its level to the ridge"):
            sampler.fit(X)


@pytest.mark.parametrize("far", [1e6, 1e8, 1e10, 1e14])
@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(1.0, nu=2.5)], ids=repr)
def test_one_far_row_does_not_spoil_the_others(kernel, far, rng):
    rows = np.vstack([rng.standard_normal((200, 2)), [[far, far]]])
    theirs = gp.RBF(1.0) if isinstance(kernel, RBF) else gp.Matern(1.0, nu=2.5)
    np.testing.assert_allclose(kernel(rows), theirs(rows), atol=1e-9)
    d = Squeak(kernel=kernel, ridge=1.0, random_state=0).fit(rows).dictionary_
    assert 200 in d.indices


def test_a_kernel_that_is_not_psd_is_detected(rng):
    X = rng.standard_normal((400, 3))
    distance = PairwiseKernel(lambda x, y: float(np.exp(+0.5 * np.abs(x - y).sum())))
    with pytest.raises(ValueError, match="not positive semi-definite"):
        Squeak(kernel=distance, ridge=0.1, random_state=0).fit(X[:200])
    negative = PairwiseKernel(lambda x, y: -float(x @ y))
    inverse_distance = PairwiseKernel(lambda x, y: 1.0 - float(np.sum((x - y) ** 2)))
    for n in (10, 60, 200):
        with pytest.raises(ValueError, match="not positive semi-definite"):
            Squeak(kernel=inverse_distance, ridge=0.1, random_state=0).fit(X[:n])
        with pytest.raises(ValueError, match="not positive semi-definite"):
            ExactRLS(kernel=inverse_distance, ridge=0.1, random_state=0).fit(X[:n])
    with pytest.raises(ValueError, match="must be finite and not negative"):
        Squeak(kernel=negative, ridge=0.1, random_state=0).fit(X)
    with pytest.raises(ValueError, match="not symmetric"):
        gram(PairwiseKernel(lambda x, y: float(x[0] - 2 * y[0])), X[:5])


def test_a_zero_diagonal_is_detected_where_it_breaks_things():
    zeros = np.zeros((20, 2))
    with pytest.raises(ValueError, match="no ridge can be derived"):
        Squeak(kernel=Linear(), random_state=0).fit(zeros)
    with pytest.raises(ValueError, match="none of the 20 rows was kept"):
        _ = Squeak(kernel=Linear(), ridge=1.0, random_state=0).fit(zeros).dictionary_
    some = np.vstack([zeros, np.eye(2) * 30])  # zero rows have score 0 and are never kept
    d = Squeak(kernel=Linear(), ridge=1.0, random_state=0).fit(some).dictionary_
    assert d.indices.tolist() == [20, 21]


def test_diagonal_refuses_what_is_not_finite():
    with pytest.raises(ValueError, match=r"k\(x, x\) = nan"):
        diagonal(PairwiseKernel(lambda x, y: float("nan")), [1, 2])


@pytest.mark.parametrize("zeros", [0.0, 0.2])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1.7e9])
@pytest.mark.parametrize("width", [0.3, np.array([0.5, 0.7, 1.1])], ids=["one", "vector"])
def test_radial_kernels_keep_their_digits_beside_a_large_offset_dense_and_sparse(offset, width, zeros):
    """A column such as a time stamp is centred away; rows that nearly coincide keep ten digits."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 3))
    X[5], X[7] = X[6], X[8] + 1e-7
    X[:, 1] += offset
    X[rng.random(X.shape) < zeros] = 0.0
    for kernel in (RBF(width), Laplacian(width), *(Matern(width, nu=nu) for nu in (0.5, 1.5, 2.5))):
        exact = dense_kernel(kernel, X, X)
        for rows in (X, sp.csr_array(X)):
            assert np.abs(kernel(rows) - exact).max() < 1e-10, kernel
            assert np.abs(kernel(rows[:20], rows) - exact[:20]).max() < 1e-10, kernel


@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(1.0), Matern(1.0, nu=0.5), Polynomial(2)])
def test_sparse_rows_with_places_in_64_bits_are_taken(kernel):
    """Files hold them so."""
    X = np.random.default_rng(0).standard_normal((20, 3))
    rows = sp.csr_array(X)
    wide = sp.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), shape=rows.shape)
    assert np.abs(kernel(wide) - kernel(X)).max() < 1e-12
    assert np.abs(kernel(wide, rows) - kernel(X)).max() < 1e-12


def test_the_gram_matrix_of_a_function_is_its_values_and_their_mean_where_rounding_differs():
    X = list("abcd")
    kernel = PairwiseKernel(lambda x, y: 1.0 + (x == y) + (1e-12 if x < y else 0.0))
    np.testing.assert_allclose(gram(kernel, X), 1.0 + np.eye(4) + 0.5e-12 * (1 - np.eye(4)), rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match="is not symmetric"):
        gram(PairwiseKernel(lambda x, y: 1.0 + (x == y) + (1e-6 if x < y else 0.0)), X)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_noise_on_the_diagonal_is_seen_at_any_size_of_the_kernel(size, X):
    with pytest.raises(ValueError, match="leave out noise"):
        resolve(gp.ConstantKernel(size) * gp.RBF(1.0) + gp.WhiteKernel(0.1 * size), X)
    resolve(gp.ConstantKernel(size) * gp.RBF(1.0), X)


def test_values_in_single_precision_are_those_of_double_for_near_and_far_rows_alike():
    rng = np.random.default_rng(0)
    near, far = rng.standard_normal((30, 3)), 12 * rng.standard_normal((20, 3))
    X, Y = np.vstack([near, far]), np.vstack([near[:10], far[:5], [[40.0, 0.0, 0.0]]])
    values = GaussianValues(Y, np.asarray(1.0), lambda rows: against(RBF(1.0), rows))
    exact = np.maximum(RBF(1.0)(X, Y), np.exp(-60.0))
    for rows in (slice(0, 30), slice(30, 50), slice(0, 50), slice(49, 50)):  # near, far, both, one
        np.testing.assert_allclose(values(X[rows]), exact[rows], rtol=5e-5)
    out = np.empty((50, 16), dtype=np.float32)
    assert values(X, out) is out
    np.testing.assert_allclose(out, exact, rtol=5e-5)
    assert exact.min() == pytest.approx(np.exp(-60.0))
    assert exact[:30, :10].max() > 0.99


class Bare:
    """A kernel that is called, and says nothing of its rows."""

    def __call__(self, X, Y=None):
        return np.ones((len(X), len(X if Y is None else Y)))

    def diag(self, X):
        return np.ones(len(X))


def test_a_multiple_of_a_kernel_that_says_nothing_takes_vectors_and_no_sparse_rows():
    assert Scaled(Bare(), 2.0).requires_vector_input is True
    assert Scaled(Bare(), 2.0).accepts_sparse is False
    assert Scaled(PairwiseKernel(len), 2.0).requires_vector_input is False
    words = PairwiseKernel(len) + PairwiseKernel(min)
    assert words.requires_vector_input is False
    assert (words + Bare()).requires_vector_input is True
    assert (RBF(1.0) * Bare()).accepts_sparse is False


def test_a_stored_kernel_that_gives_no_numbers_off_its_diagonal_is_refused():
    rows = np.array([[0.0], [1.0]])
    assert check_stored(RBF(1.0), rows) == RBF(1.0)
    for values in (lambda x, y: 1.0 if x is y else np.nan, lambda x, y: np.nan):

        class Broken(Bare):
            def __call__(self, X, Y=None, values=values):
                Y = X if Y is None else Y
                return np.array([[values(x, y) if np.array_equal(x, y) else np.inf for y in Y] for x in X])

        with pytest.raises(ValueError, match="not finite"):
            check_stored(Broken(), rows)


@pytest.mark.parametrize("rows", [["ab", "", "cdé"], sp.csr_array(np.eye(4)[:, :3]), np.arange(6.0).reshape(3, 2)])
def test_rows_come_back_from_their_arrays(rows):
    again = rows_from_arrays(rows_to_arrays(rows, "x_"), "x_")
    if isinstance(rows, list):
        assert again == rows
    else:
        assert type(again) is type(rows)
        assert np.array_equal(sp.csr_array(again).toarray(), sp.csr_array(rows).toarray())


@pytest.mark.parametrize("kernel", [RBF(1e-10), Laplacian(1e-10), Matern([1e-10, 1e-10], nu=1.5)], ids=repr)
@pytest.mark.filterwarnings("ignore:overflow")
def test_one_pair_of_rows_that_overflows_is_refused(kernel):
    X = np.array([[1e300, 0.0], [0.0, 0.0], [1e-10, 0.0]])
    with pytest.raises(ValueError, match="rows divided by length_scale overflow"):
        kernel(X, X)
    assert np.isfinite(kernel(X[1:], X[1:])).all()


def test_a_table_of_numbers_for_a_function_is_checked_as_one_and_other_objects_are_left_alone():
    kernel, X = PairwiseKernel(lambda a, b: 1.0), np.arange(6.0).reshape(3, 2)
    assert np.array_equal(check_rows(X, kernel), X)
    assert check_rows(X.astype(np.int8), kernel).dtype == np.float64
    with pytest.raises(ValueError, match="is nan"):
        check_rows(np.where(X == 3.0, np.nan, X), kernel)
    for objects in (["ab", "c"], [(1, "a"), None], [X, X]):
        assert check_rows(objects, kernel) == objects


def test_what_a_function_takes_its_sums_take():
    found = PairwiseKernel(lambda a, b: 1.0)
    assert not found.accepts_sparse
    assert not (RBF(1.0) + found).accepts_sparse
    assert (RBF(1.0) + Linear()).accepts_sparse


def test_rows_are_the_same_value_by_value_and_of_one_shape_and_kind():
    X, wider = np.eye(3)[:2], np.eye(4)[:2]
    dense = [X, wider, 2 * X, X[:1]]
    sets = [*dense, *map(sp.csr_array, dense), ["a", "b"], ["a", "c"]]
    for i, first in enumerate(sets):
        for j, second in enumerate(sets):
            assert same_rows(first, second) == (i == j)


def test_the_gram_matrix_of_a_foreign_kernel_is_its_values_made_symmetric():
    class Rough(Bare):
        def __call__(self, X, Y=None):
            Y = X if Y is None else Y
            return RBF(1.0)(X, Y) + 1e-13 * np.arange(len(Y))

    X = np.random.default_rng(0).standard_normal((6, 2))
    found = gram(Rough(), X)
    assert np.array_equal(found, found.T)
    np.testing.assert_allclose(found, RBF(1.0)(X), atol=1e-11)


def test_infinite_bounds_of_a_kernel_travel_too():
    import json

    kernel = gp.RBF(1.0, (1e-5, np.inf))
    again = kernel_from_data(json.loads(json.dumps(kernel_to_data(kernel), allow_nan=False)))
    assert again.length_scale_bounds == (1e-5, np.inf)


def test_a_width_with_one_entry_that_is_no_number_is_refused(X):
    for wrong in (np.nan, np.inf, 0.0, -1.0):
        with pytest.raises(ValueError, match="length_scale"):
            RBF([1.0, wrong, 1.0, 1.0])(X)


def test_a_diagonal_that_is_wrong_names_its_worst_row():
    for values, row in (([1.0, -3.0, -2.0], 1), ([1.0, 2.0, np.nan], 2)):
        with pytest.raises(ValueError, match=f"for row {row} of the block"):
            diagonal(PairwiseKernel(lambda i, j, values=values: values[i]), [0, 1, 2])


def test_one_value_of_a_function_that_is_no_number_is_refused():
    odd = PairwiseKernel(lambda x, y: np.nan if {x, y} == {"a", "b"} else float(x == y))
    with pytest.raises(ValueError, match="not finite"):
        odd(["a", "c"], ["c", "b"])
