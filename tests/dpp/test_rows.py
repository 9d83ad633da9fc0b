"""Every kind of rows, files, seeds, errors: the promises around the sampler."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import squeak
from squeak.core.storage import NotStoredError, StorageError
from squeak.dpp import DPP, ExactDPP, RejectionLimitError, preparing, scale_for_size, vfx
from squeak.kernels import RBF, Linear, PairwiseKernel
from squeak.leverage import effective_dimension, exact_leverage_scores
from squeak.samplers import Disqueak, Kors, RPCholesky, Squeak, Uniform
from tests.commands import command


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((600, 3))


@pytest.fixture(scope="module")
def dpp(X):
    return DPP(RBF(1.5), expected_size=12, random_state=0).fit(X)


def same(first, second):
    return len(first) == len(second) and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_samples_are_row_numbers_in_order(dpp, X):
    samples = dpp.sample(5)
    assert all(s.dtype == np.int64 and np.all(np.diff(s) > 0) and s.max() < len(X) for s in samples)
    assert len(dpp.sample(k=7)) == 7
    assert 0 < dpp.acceptance_rate_ <= 1


def test_the_expected_size_lies_between_its_bounds_and_is_met(X):
    kernel = scale_for_size(X, RBF(1.5), 12) * RBF(1.5)
    truth = effective_dimension(X, kernel, 1.0)
    assert truth == pytest.approx(12)
    found = DPP(kernel, random_state=0).fit(X)
    surrogate = found._fitted.prepared.surrogate
    assert surrogate.trace(1.0) - 1e-9 <= truth <= surrogate.total(1.0) + 1e-9
    assert found.expected_size_ == pytest.approx(truth, rel=0.1)
    sizes = [len(s) for s in found.sample(400)]
    assert abs(np.mean(sizes) - truth) < 5 * np.std(sizes) / 20  # false alarm 6e-7


def test_marginals_are_leverage_scores_at_ridge_one(dpp, X):
    truth = exact_leverage_scores(X, dpp.scale_ * RBF(1.5), 1.0)
    np.testing.assert_allclose(dpp.marginals(), truth, atol=1e-10)
    exact = ExactDPP(dpp.scale_ * RBF(1.5), random_state=0).fit(X)
    np.testing.assert_allclose(exact.marginals(), truth, atol=1e-10)
    np.testing.assert_allclose(np.diag(exact.marginal_kernel()), truth, atol=1e-10)


def test_scores_in_blocks_are_bounds_and_samples_stay_exact(X, monkeypatch):
    """Many blocks in place of one: bounds are no less than the scores; frequencies of rows stay the marginals."""
    monkeypatch.setattr(preparing, "COORDINATES", 1)
    monkeypatch.setattr(preparing, "TILE", 64)
    kernel = scale_for_size(X[:40], RBF(1.5), 4) * RBF(1.5)
    many = DPP(kernel, random_state=0).fit(X)
    prepared = many._fitted.prepared
    assert not prepared.exact
    assert np.all(prepared.bounds >= prepared.surrogate.scores(X, 1.0))
    monkeypatch.setattr(preparing, "TILE", 8)
    few = DPP(kernel, random_state=0).fit(X[:40])
    assert not few._fitted.prepared.exact
    member = np.zeros(40)
    for s in few.sample(1_500):
        member[s] += 1 / 1_500
    truth = exact_leverage_scores(X[:40], kernel, 1.0)
    assert np.all(np.abs(member - truth) < 5.2 * np.sqrt(truth * (1 - truth) / 1_500))  # false alarm 8e-6


def test_the_same_seed_gives_the_same_samples(X, dpp):
    first = clone(dpp).fit(X)
    second = clone(dpp).fit(X)
    assert same(first.sample(3), second.sample(3))
    assert same(first.sample(2, k=6), second.sample(2, k=6))
    assert not same(first.sample(3), first.sample(3))
    assert not same(clone(dpp).set_params(random_state=1).fit(X).sample(3), second.sample(3))


def test_the_rows_are_neither_modified_nor_aliased(X, dpp):
    given = X.copy()
    first = clone(dpp).fit(given)
    given[:] = 0.0
    assert same(first.sample(3), clone(dpp).fit(X).sample(3))


def test_dense_sparse_and_narrow_rows_give_the_same_process(X):
    rounded = np.where(np.abs(X) < 0.5, 0.0, X)
    make = DPP(0.2 * RBF(2.0), random_state=0)
    dense = clone(make).fit(rounded)
    sparse = clone(make).fit(sp.csr_matrix(rounded))
    narrow = clone(make).fit(rounded.astype(np.float32))
    assert same(dense.sample(3), sparse.sample(3))
    assert narrow.expected_size_ == pytest.approx(dense.expected_size_, rel=1e-4)
    assert len(narrow.sample(k=5)) == len(sparse.sample(k=5)) == 5


def shared(a, b):
    return len(set(a) & set(b)) / np.sqrt(len(set(a)) * len(set(b)))


def test_words_are_rows_for_a_kernel_that_is_a_function(tmp_path):
    words = ["squeak", "quack", "bark", "park", "meow", "moo", "neigh", "sleigh", "oink", "pink", "tweet", "sweet"]
    make = DPP(PairwiseKernel(shared), expected_size=3, random_state=0)
    found = make.fit(words)
    assert len(found.sample(k=4)) == 4
    found.save(tmp_path / "words.sqk")
    with pytest.raises(NotStoredError, match="is code"):
        DPP.load(tmp_path / "words.sqk")
    again = DPP.load(tmp_path / "words.sqk", kernel=PairwiseKernel(shared))
    assert same(again.sample(3), found.sample(3))


@pytest.fixture(scope="module")
def files(tmp_path_factory, X):
    folder = tmp_path_factory.mktemp("rows")
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["word"] = np.where(X[:, 0] > 0, "up", "down")
    frame.to_parquet(folder / "rows.parquet", row_group_size=100)
    frame.to_csv(folder / "rows.csv", index=False)
    np.save(folder / "rows.npy", X)
    return folder


@pytest.mark.parametrize("weighted", [False, True], ids=["two passes", "one pass"])
def test_files_give_the_samples_of_the_array(files, X, weighted):
    make = DPP(0.2 * RBF(1.5), weighted=weighted, random_state=0)
    array = clone(make).fit(X)
    source = clone(make).fit(squeak.rows(files / "rows.npy"))
    assert same(array.sample(3), source.sample(3))
    assert same(array.sample(2, k=6), source.sample(2, k=6))


def test_the_one_pass_form_reads_all_rows_once_and_the_other_twice():
    X, reads = np.random.default_rng(0).standard_normal((140_000, 2)), []

    def blocks():
        yield from np.array_split(X, 14)
        reads.append(1)  # not reached by a look at the first block, 65,536 rows

    for weighted, expected in ((True, 1), (False, 2)):
        source = squeak.rows(blocks)
        _ = source.preprocessing
        reads.clear()
        found = DPP(1e-4 * RBF(1.5), Kors(oversampling=8), weighted=weighted, random_state=0).fit(source)
        assert len(reads) == expected
        assert len(found.sample(k=3)) == 3


def test_an_iterator_that_runs_once_is_refused(X):
    with pytest.raises(ValueError, match="only once"):
        DPP(RBF(1.5)).fit(squeak.rows(iter([X])))


def test_saved_and_loaded_goes_on_with_the_same_samples(X, files, tmp_path):
    for rows in (X, squeak.rows(files / "rows.parquet", scale="standard"), sp.csr_matrix(X)):
        found = DPP(0.2 * RBF(1.5), random_state=0).fit(rows)
        found.sample(2)
        squeak.save(found, tmp_path / "d.sqk")
        again = squeak.load(tmp_path / "d.sqk")
        if hasattr(rows, "blocks"):
            again.attach_rows()
        assert again.acceptance_rate_ == found.acceptance_rate_
        assert again.expected_size_ == found.expected_size_
        assert same(again.sample(2), found.sample(2))
        assert same(again.sample(1, k=6), found.sample(1, k=6))
    data = (tmp_path / "d.sqk").read_bytes()
    (tmp_path / "cut.sqk").write_bytes(data[: len(data) // 2])
    with pytest.raises(StorageError):
        DPP.load(tmp_path / "cut.sqk")
    with pytest.raises(ValueError, match="cannot be opened again"):
        DPP(0.2 * RBF(1.5)).fit(squeak.rows(lambda: iter([X]))).save(tmp_path / "no.sqk")


BAD = {
    "nan": (lambda X: np.where(X > 2, np.nan, X), {}, r"is nan"),
    "no rows": (lambda X: X[:0], {}, "no rows"),
    "kernel": (lambda X: X, {"kernel": "rbf"}, "kernel must be a kernel object"),
    "sampler": (lambda X: X, {"sampler": "squeak"}, "sampler must be a sampler"),
    "two kernels": (lambda X: X, {"sampler": Uniform(RBF(9.0), 30)}, "leave one out"),
    "size": (lambda X: X, {"expected_size": 0}, "must lie between 0"),
    "size beyond the rows": (lambda X: X, {"expected_size": 601}, "must lie between 0"),
    "size beyond the rank": (lambda X: X, {"kernel": Linear(), "expected_size": 5}, "rank about 3"),
    "limit": (lambda X: X, {"max_rejections": 0}, "max_rejections must be"),
    "no weights": (lambda X: X, {"sampler": RPCholesky(max_atoms=20), "weighted": True}, "no weights"),
    "not PSD": (lambda X: X, {"kernel": PairwiseKernel(lambda a, b: -abs(a - b).sum() + 1.0)}, "semi-definite|not"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_clear_error_and_changes_nothing(name, X, dpp):
    rows, params, message = BAD[name]
    fitted = clone(dpp).set_params(expected_size=None).fit(X[:200])
    before = fitted._fitted
    fitted.set_params(**params)
    with pytest.raises((ValueError, TypeError), match=message):
        fitted.fit(rows(X)[:100] if name == "not PSD" else rows(X))
    assert fitted._fitted is before
    fitted.set_params(max_rejections=1_000)
    assert len(fitted.sample(k=3)) == 3


def test_bad_questions_get_one_clear_error(dpp, X):
    with pytest.raises(NotFittedError):
        DPP().sample()
    with pytest.raises(ValueError, match="n_samples must be"):
        dpp.sample(0)
    with pytest.raises(ValueError, match="k must lie between 1"):
        dpp.sample(k=601)
    with pytest.raises(ValueError, match="k must be a whole number"):
        dpp.sample(k=2.5)
    linear = DPP(Linear(), random_state=0).fit(X)
    with pytest.raises(ValueError, match="rank 3: no 4 rows"):
        linear.sample(k=4)
    assert len(linear.sample(k=3)) == 3
    with pytest.raises(ValueError, match="rank 3"):
        ExactDPP(Linear()).fit(X).sample(k=4)


def test_the_rejection_limit_says_what_to_change(X):
    poor = DPP(5.0 * RBF(0.7), Uniform(max_atoms=3), max_rejections=20, random_state=0).fit(X[:60])
    with pytest.raises(
        RejectionLimitError, match=r"20 proposals in a row.*dictionary of 3 atoms.*Squeak\(oversampling"
    ):
        poor.sample()
    assert poor.acceptance_rate_ == 0.0
    assert poor._fitted.attempts == 20


def test_so_many_samples_of_another_size_in_a_row_are_an_error(X, monkeypatch):
    monkeypatch.setattr(vfx, "MOST_MISSES", 5)
    dpp = DPP(0.1 * RBF(1.5), random_state=0).fit(X[:60])
    sizes = iter([2, 2, 2, 2, 3] + [2] * 20)  # a hit begins the count anew
    monkeypatch.setattr(vfx, "outcomes", lambda *_: (np.arange(next(sizes)) for _ in range(1)))
    with pytest.raises(RejectionLimitError, match=r"5 samples in a row .* than k = 3 \(the last had 2"):
        dpp.sample(2, k=3)
    assert dpp._fitted.accepted == 10


def test_tiny_kernels_and_equal_rows_are_fine(X):
    tiny = DPP(1e-9 * RBF(1.0), random_state=0).fit(X)
    assert tiny.expected_size_ == pytest.approx(600e-9, rel=0.2)
    assert all(len(s) == 0 for s in tiny.sample(20))
    assert len(tiny.sample(k=2)) == 2
    equal = DPP(RBF(1.0), random_state=0).fit(np.ones((300, 2)))
    assert all(len(s) <= 1 for s in equal.sample(50))
    one = DPP(RBF(1.0), random_state=0).fit(np.ones((1, 2)))
    assert len(one.sample(k=1)) == 1
    for scale in (1e-150, 1e150):
        assert len(DPP(0.1 * RBF(scale), random_state=0).fit(scale * X).sample(k=4)) == 4


def test_the_command_writes_the_rows_with_all_their_columns(files, tmp_path):
    done = command("sample", files / "rows.csv", "--k", 9, "--drop", "word", "--out", tmp_path / "subset.parquet")
    assert done.returncode == 0, done.stderr
    assert "1 × 9 rows of 600" in done.stdout
    subset = pd.read_parquet(tmp_path / "subset.parquet")
    whole = pd.read_csv(files / "rows.csv")
    assert len(subset) == 9
    pd.testing.assert_frame_equal(
        subset.drop(columns="row"), whole.iloc[subset["row"]].reset_index(drop=True), check_dtype=False
    )
    source = squeak.rows(files / "rows.csv", drop=["word"], scale="standard")
    expected = DPP(RBF("median"), expected_size=8.5, random_state=0).fit(source).sample(1, k=9)[0]
    assert np.array_equal(subset["row"], expected)
    again = command("sample", files / "rows.csv", "--k", 9, "--out", tmp_path / "subset.parquet")
    assert again.returncode == 2
    assert "is there already" in again.stderr


def test_bars_show_progress_and_the_page_of_a_saved_one_its_dictionary(X, tmp_path, capfd):
    found = DPP(0.2 * RBF(1.5), random_state=0, verbose=1).fit(X)
    found.sample(3)
    shown = capfd.readouterr().err
    assert "DPP: 100%" in shown
    assert "3/3" in shown
    assert "accepted=" in shown
    found.save(tmp_path / "d.sqk")
    page = command("show", tmp_path / "d.sqk")
    assert page.returncode == 0, page.stderr
    assert "DPP, 600 rows" in page.stdout


def test_the_command_skips_bad_rows_and_draws_many(files, tmp_path):
    frame = pd.read_csv(files / "rows.csv")
    frame.loc[3, "b"] = np.nan
    frame.to_csv(tmp_path / "bad.csv", index=False)
    run = [
        "sample",
        tmp_path / "bad.csv",
        "--size",
        8,
        "--samples",
        4,
        "--drop",
        "word",
        "--out",
        tmp_path / "s.csv",
    ]
    assert command(*run).returncode == 1
    done = command(*run, "--on-bad-rows", "skip")
    assert done.returncode == 0, done.stderr
    subset = pd.read_csv(tmp_path / "s.csv")
    assert set(subset["sample"]) == {0, 1, 2, 3}
    kept = frame.drop(index=3).reset_index(drop=True)
    np.testing.assert_allclose(subset["a"], kept["a"].iloc[subset["row"]])
    assert command("sample", tmp_path / "bad.csv", "--out", tmp_path / "t.csv").returncode == 2


@pytest.fixture(scope="module")
def few_rows():
    return np.random.default_rng(0).standard_normal((300, 3))


@pytest.fixture
def table(few_rows, tmp_path):
    frame = pd.DataFrame(few_rows[:40], columns=["a", "row", "squeak_row"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv", frame


@pytest.mark.parametrize(
    "sampler",
    [
        Uniform(max_atoms=60),
        Squeak(oversampling=20.0),
        Kors(oversampling=9.0),
        Disqueak(n_leaves=2, random_state=3),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
@pytest.mark.parametrize("weighted", [False, True], ids=["projected", "weighted"])
def test_a_loaded_one_does_the_work_anew_with_the_sampler_it_was_given(few_rows, sampler, weighted, tmp_path):
    """Sixteen rows where two are expected: the once-only work is done at a larger scale, after the load too."""
    found = DPP(0.05 * RBF(1.0), sampler, weighted=weighted, random_state=0).fit(few_rows)
    found.save(tmp_path / "d.sqk")
    again = squeak.load(tmp_path / "d.sqk")
    assert np.array_equal(again.sample(k=16), found.sample(k=16))
    assert len(found._fitted.levels) == 2
    assert repr(again.sampler) == repr(sampler)


def test_a_sampler_that_is_no_data_is_refused_when_saving(few_rows, tmp_path):
    class Mine(Uniform):
        pass

    for sampler in (Mine(max_atoms=60), Uniform(max_atoms=60, random_state=np.random.default_rng(0))):
        found = DPP(0.05 * RBF(1.0), sampler, random_state=0).fit(few_rows)
        with pytest.raises(NotStoredError, match=r"sampler .* is not stored"):
            found.save(tmp_path / "d.sqk")


def test_a_refusal_names_the_dictionary_that_was_used_and_a_size_that_can_be(few_rows):
    """A kernel whose matrix has a numerical rank of 23: 40 rows cannot be had."""
    found = DPP(RBF(30.0), max_rejections=50, random_state=0).fit(few_rows[:60])
    atoms = len(found.dictionary_)
    with pytest.raises(RejectionLimitError, match="rank") as refusal:
        found.sample(k=40)
    assert f"dictionary of {atoms} atoms" not in str(refusal.value)
    assert "about 40 rows" in str(refusal.value)


def test_the_command_draws_as_many_rows_as_the_matrix_has_rank(table, tmp_path):
    path, _ = table
    done = command("sample", path, "--k", 3, "--kernel", "linear", "--length-scale", 1, "--out", tmp_path / "s.csv")
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "s.csv")) == 3


def test_the_commands_own_columns_never_take_a_name_that_is_there(table, tmp_path):
    path, frame = table
    done = command("sample", path, "--k", 5, "--out", tmp_path / "s.parquet")
    assert done.returncode == 0, done.stderr
    subset = pd.read_parquet(tmp_path / "s.parquet")
    assert list(subset) == ["a", "row", "squeak_row", "squeak_squeak_row"]
    np.testing.assert_allclose(subset["row"], frame["row"].iloc[subset["squeak_squeak_row"]])


def test_a_loaded_dpp_opens_no_other_file_until_the_caller_says_so(X, files, tmp_path, monkeypatch):
    """The names in a file from a stranger may lead anywhere: to a folder of many files, a pipe, a secret."""
    source = squeak.rows(files / "rows.parquet", scale="standard")
    found = DPP(0.2 * RBF(1.5), random_state=0).fit(source)
    found.save(tmp_path / "d.sqk")

    def refuse(*paths):
        raise AssertionError(f"{paths} were opened")

    with monkeypatch.context() as patched:
        patched.setattr("squeak.data.opening.find_files", refuse)
        again = squeak.load(tmp_path / "d.sqk")
        assert again.expected_size_ == found.expected_size_
        assert repr(again.dictionary_) == repr(found.dictionary_)
        for needs_rows in (again.sample, again.marginals):
            with pytest.raises(ValueError, match=r"rows\.parquet', which were not opened.*attach_rows"):
                needs_rows()
        again.save(tmp_path / "unopened.sqk")
        again.attach_rows(source)
        expected = found.sample(2)
        assert same(again.sample(2), expected)
    with pytest.raises(ValueError, match="has its rows already"):
        again.attach_rows()
    third = DPP.load(tmp_path / "unopened.sqk").attach_rows()
    assert same(third.sample(2), expected)


def test_other_rows_than_those_of_the_fit_are_not_attached(X, files, tmp_path):
    DPP(0.2 * RBF(1.5), random_state=0).fit(squeak.rows(files / "rows.parquet")).save(tmp_path / "d.sqk")
    loaded = DPP.load(tmp_path / "d.sqk")
    with pytest.raises(ValueError, match="preprocessed in another way"):
        loaded.attach_rows(squeak.rows(files / "rows.parquet", scale="robust"))
    with pytest.raises(ValueError, match=r"fitted on .* rows, and these are 5"):
        loaded.attach_rows(pd.read_parquet(files / "rows.parquet").iloc[:5])
    with pytest.raises(ValueError, match="were not opened"):
        loaded.sample()
