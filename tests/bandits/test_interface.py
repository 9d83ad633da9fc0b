"""What every bandit over arms keeps beyond squeak.checks.check_bandit: errors, new arms, files, refits."""

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import squeak
from squeak import bandits
from squeak.bandits import (
    BKB,
    GPBUCB,
    GPUCB,
    AutoUCB,
    BatchBKB,
    DictionaryThompson,
    ExpectedImprovement,
    ProbabilityOfImprovement,
    RandomFeatureUCB,
    SorUCB,
    ThompsonSampling,
    UniformArms,
)
from squeak.bandits.base import Bandit
from squeak.bandits.baselines import improvement
from squeak.core.storage import NotStoredError, StorageError
from squeak.kernels import RBF, Linear, PairwiseKernel

MAKERS = {
    "GPUCB": (GPUCB, {}),
    "BKB": (BKB, {"oversampling": 2.0}),
    "BatchBKB": (BatchBKB, {}),
    "BatchBKB, local": (BatchBKB, {"stopping": "local", "max_batch": 9}),
    "AutoUCB": (AutoUCB, {"crossover": 12, "repeats": 1.0}),
    "AutoUCB, theory": (AutoUCB, {"crossover": 1000, "beta": "theory"}),
    "UniformArms": (UniformArms, {}),
    "ExpectedImprovement": (ExpectedImprovement, {}),
    "ProbabilityOfImprovement": (ProbabilityOfImprovement, {}),
    "GPBUCB": (GPBUCB, {"batch_size": 4}),
    "SorUCB": (SorUCB, {}),
    "DictionaryThompson": (DictionaryThompson, {}),
    "ThompsonSampling": (ThompsonSampling, {}),
    "RandomFeatureUCB": (RandomFeatureUCB, {"n_features": 60}),
}
STORED = [name for name in MAKERS if name != "RandomFeatureUCB"]


@pytest.fixture
def arms(rng):
    return rng.random((80, 2))


@pytest.fixture(params=MAKERS)
def make(request, arms):
    cls, params = MAKERS[request.param]
    return lambda **more: cls(arms, **({"kernel": RBF(0.3), "noise": 0.1, "random_state": 0} | params | more))


@pytest.fixture(params=STORED)
def stored(request, arms):
    cls, params = MAKERS[request.param]
    return lambda **more: cls(arms, **({"kernel": RBF(0.3), "noise": 0.1, "random_state": 0} | params | more))


def value(arm):
    return float(np.sin(0.2 * arm))


def step(bandit):
    asked = np.atleast_1d(bandit.ask())
    bandit.tell(asked, [value(i) for i in asked])
    return asked.tolist()


def test_every_public_bandit_is_in_this_suite():
    public = {m for m in vars(bandits).values() if inspect.isclass(m) and issubclass(m, Bandit)}
    assert public == {cls for cls, _ in MAKERS.values()}


def test_a_file_keeps_the_parameters_of_the_classes_above(arms, tmp_path):
    given = {"crossover": 12, "repeats": 1.0, "oversampling": 2.0, "batch_factor": 3.0, "max_batch": 4}
    AutoUCB(arms, RBF(0.3), stopping="local", **given).save(tmp_path / "a.sqk")
    again = AutoUCB.load(tmp_path / "a.sqk")
    assert {name: getattr(again, name) for name in given} == given
    assert again.stopping == "local"


def test_an_altered_file_is_refused(stored, tmp_path):
    bandit = stored().run(value, 20)
    arrays, content = bandit.to_parts()
    for name in ("counts", "pulls", "sums"):
        squeak.core.storage.write(tmp_path / "b.sqk", bandit.kind, arrays | {name: arrays[name][:-1]}, content)
        with pytest.raises(StorageError):
            squeak.load(tmp_path / "b.sqk")
    with pytest.raises(StorageError, match="not a"):
        (BKB if type(bandit) is GPUCB else GPUCB).load(tmp_path / "b.sqk")


def test_a_kernel_that_is_code_must_be_given_again(tmp_path):
    kernel = PairwiseKernel(lambda a, b: float(np.exp(-abs(len(a) - len(b)))))
    bandit = GPUCB(["a", "bb", "cccc", "dddddddd"], kernel, random_state=0).run(float, 10)
    bandit.save(tmp_path / "c.sqk")
    with pytest.raises(NotStoredError, match="code"):
        GPUCB.load(tmp_path / "c.sqk")
    assert GPUCB.load(tmp_path / "c.sqk", kernel).ask() == bandit.ask()


BAD_PARAMS = [
    ({"noise": 0.0}, ValueError, "noise must be positive"),
    ({"noise": "x"}, TypeError, "noise must be a positive number"),
    ({"noise": 1e-9}, ValueError, "lost in rounding"),
    ({"norm": -1.0}, ValueError, "norm must be positive"),
    ({"delta": 1.0}, ValueError, "delta must be below 1"),
    ({"beta": "wide"}, ValueError, "beta must be"),
    ({"beta": -2.0}, ValueError, "beta must be positive"),
    ({"prior_mean": np.nan}, ValueError, "prior_mean must be finite"),
    ({"refit": "often"}, ValueError, "refit must be"),
    ({"kernel": 3}, TypeError, "kernel must be a kernel"),
    ({"random_state": "a"}, TypeError, "random_state"),
]


@pytest.mark.parametrize(("params", "error", "words"), BAD_PARAMS)
def test_bad_parameters_are_refused(make, params, error, words):
    with pytest.raises(error, match=words):
        make(**params)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"oversampling": 0}, "oversampling"),
        ({"batch_factor": 1.0}, "above 1"),
        ({"stopping": "x"}, "stopping"),
        ({"max_batch": 0}, "max_batch"),
    ],
)
def test_bad_parameters_of_batches_are_refused(arms, params, words):
    with pytest.raises(ValueError, match=words):
        BatchBKB(arms, RBF(0.3), **params)


def test_bad_arms_are_refused():
    with pytest.raises(ValueError, match="row 1, column 0 is nan"):
        GPUCB([[1.0], [np.nan]])
    with pytest.raises(ValueError, match="no rows"):
        GPUCB(np.zeros((0, 2)))


def test_tell_without_ask_is_data_from_before(make):
    bandit = make()
    bandit.tell([3, 3, 9, 40], [1.0, 1.2, 0.1, -0.5])
    assert bandit.n_told_ == 4
    assert bandit.best_.index == 3
    step(bandit)


def test_one_arm_is_pulled_again_and_again(make):
    cls = type(make())
    bandit = cls(np.ones((1, 2)), RBF(1.0), noise=0.1, random_state=0).run(lambda i: 2.0, 15)
    assert bandit.best_.index == 0
    assert bandit.best_.mean == pytest.approx(2.0, rel=0.1)


def test_constant_rewards_do_no_harm(make):
    bandit = make(prior_mean=3.0).run(lambda i: 3.0, 30)
    mean, std = bandit.posterior()
    np.testing.assert_allclose(mean, 3.0, atol=1e-9)
    assert np.isfinite(std).all()


def test_equal_arms_share_what_is_known(rng):
    arms = np.repeat(rng.random((10, 2)), 4, axis=0)
    for cls in (GPUCB, BKB, BatchBKB, AutoUCB):
        mean, std = cls(arms, RBF(0.3), noise=0.1, random_state=0).run(value, 60).posterior()
        np.testing.assert_allclose(mean.reshape(10, 4), np.repeat(mean[::4], 4).reshape(10, 4), atol=1e-6)
        np.testing.assert_allclose(std.reshape(10, 4), np.repeat(std[::4], 4).reshape(10, 4), atol=1e-6)


@pytest.mark.parametrize("cls", [GPUCB, BKB, BatchBKB, AutoUCB])
@pytest.mark.parametrize("told", [0, 7, 40])
def test_arms_added_on_the_way_are_as_if_they_had_been_there(arms, cls, told):
    late = cls(arms[:50], RBF(0.3), noise=0.1, random_state=0)
    early = cls(arms, RBF(0.3), noise=0.1, random_state=0)
    some = np.random.default_rng(0).integers(0, 50, told)
    if told:
        late.tell(some, np.sin(some))
        early.tell(some, np.sin(some))
        late.posterior()
    assert late.add_arms(arms[50:]).tolist() == list(range(50, 80))
    for a, b in zip(late.posterior(), early.posterior(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)
    for bandit in (late, early):
        bandit.tell(np.arange(80), np.cos(np.arange(80)))
    for a, b in zip(late.posterior(), early.posterior(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    with pytest.raises(ValueError, match="3 columns"):
        late.add_arms(np.ones((1, 3)))
    assert late.n_arms == 80


def test_a_callback_sees_every_reward_once_told_and_may_end_the_run(make):
    bandit, seen = make(), []

    def watch(arm, reward):
        seen.append((arm, reward))
        assert bandit.n_told_ >= len(seen)
        return len(seen) == 7

    bandit.run(value, 40, callback=watch)
    assert len(bandit.pending_) == 0
    assert bandit.n_told_ >= 7
    assert seen == list(zip(bandit.pulls_.tolist(), bandit.rewards_.tolist(), strict=True))


def test_one_by_one_every_reward_is_told_before_the_next_is_asked_for(make):
    bandit, told = make(), []

    def judge(arm):
        assert bandit.n_told_ == len(told)
        told.append(arm)
        return value(arm)

    bandit.run(judge, 25, one_by_one=True, callback=lambda arm, reward: bandit.n_told_ == 20)
    assert bandit.pulls_.tolist() == told
    assert (len(told), len(bandit.pending_)) == (20, 0)


@pytest.mark.parametrize("cls", [BKB, BatchBKB, AutoUCB, SorUCB])
def test_the_dictionary_is_one_of_arms_that_were_pulled(arms, cls):
    bandit = cls(
        arms, RBF(0.3), noise=0.1, random_state=0, **({"crossover": 5, "repeats": 1} if cls is AutoUCB else {})
    )
    assert not hasattr(bandit, "dictionary_")
    bandit.run(value, 40)
    found = bandit.dictionary_
    assert isinstance(found, squeak.Dictionary)
    assert np.array_equal(found.atoms, arms[found.indices])
    assert set(found.indices) <= set(bandit.pulls_)
    assert (found.n_seen, found.ridge, found.calibrated) == (80, bandit.ridge_, False)


@pytest.mark.filterwarnings("ignore:the first rewards are")
def test_in_the_units_of_its_rewards_a_bandit_pulls_what_another_does_with_rewards_of_spread_one(arms):
    rewards = np.array([value(i) for i in range(8)])
    scaled = (rewards - rewards.mean()) / rewards.std()
    plain, large = (AutoUCB(arms, RBF(0.3), noise=0.1, random_state=0) for _ in range(2))
    plain.tell(np.arange(8), scaled)
    large.tell(np.arange(8), 5000 + 800 * scaled)
    for bandit in (plain, large):
        bandit.retire([3, 70])
    plain, large = plain.in_units_of_rewards(), large.in_units_of_rewards()
    assert large.prior_mean_ == pytest.approx(5000)
    assert large.noise_ == pytest.approx(80)
    plain.run(value, 30)
    large.run(lambda arm: 5000 + 800 * value(arm), 30)
    assert np.array_equal(plain.pulls_, large.pulls_)
    assert not np.isin([3, 70], large.pulls_[8:]).any()  # what was retired stays so


def test_an_arm_whose_reward_is_not_finite_has_failed_and_is_not_tried_again(make):
    calls, seen = [], []

    def fails(arm):
        calls.append(arm)
        return {0: np.nan, 3: np.inf}.get(list(dict.fromkeys(calls)).index(arm) % 6, value(arm))

    bandit = make().run(fails, 40, one_by_one=True, callback=lambda *pull: seen.append(pull))
    failed = {arm for arm, reward in seen if not np.isfinite(reward)}
    assert [arm for arm, _ in seen] == calls
    assert (len(calls), len(bandit.pending_)) == (40, 0)
    assert failed == set(np.flatnonzero(~bandit.active_))
    assert bandit.pulls_.tolist() == [arm for arm in calls if arm not in failed]
    assert failed
    assert bandit.best_.index not in failed


def test_a_failure_is_told_by_name_and_tell_wants_finite_rewards(make):
    bandit = make()
    arm = int(np.atleast_1d(bandit.ask())[0])
    bandit.fail(arm)
    assert (len(bandit.pending_), bandit.active_[arm], bandit.n_told_) == (0, False, 0)
    for _ in range(30):
        assert arm not in step(bandit)
    with pytest.raises(ValueError, match=r"reward of arm 3 is nan.*fail\(arm\)"):
        bandit.tell(3, np.nan)
    with pytest.raises(ValueError, match="arm 80 is unknown"):
        bandit.fail([5, 80])
    assert bandit.active_[5]


def test_a_run_in_which_every_arm_fails_says_so():
    with pytest.raises(ValueError, match="every arm is retired or has failed"):
        GPUCB(np.eye(3), RBF(1.0), random_state=0).run(lambda arm: np.nan, 9)


def test_forgetting_what_was_not_asked_is_an_error(make):
    bandit = make()
    with pytest.raises(ValueError, match="not pending"):
        bandit.forget(3)


def test_float32_and_sparse_arms_give_the_pulls_of_dense_ones(arms):
    runs = [
        GPUCB(X, RBF(0.3), noise=0.1, random_state=0).run(value, 25).pulls_ for X in (arms, sp.csr_matrix(arms))
    ]
    assert np.array_equal(*runs)
    mean, _ = GPUCB(arms.astype(np.float32), RBF(0.3), noise=0.1, random_state=0).run(value, 25).posterior()
    assert mean.dtype == np.float64


def test_a_refit_improves_the_likelihood_and_keeps_the_data(arms):
    f = np.sin(9 * arms[:, 0])
    rng = np.random.default_rng(0)
    for cls in (GPUCB, BKB, BatchBKB, AutoUCB):
        bandit = cls(arms, RBF(3.0), noise=1.0, beta="logdet", refit=[40, 70], random_state=0)
        some = rng.integers(0, 80, 30)
        bandit.tell(some, 5 + f[some] + 0.1 * rng.standard_normal(30))
        bandit.run(lambda i: 5 + f[i] + 0.1 * rng.standard_normal(), 60)
        assert bandit.kernel_.length_scale < 1.0
        assert 0.05 < bandit.noise_ < 0.2
        assert abs(bandit.prior_mean_ - 5) < 1.5
        mean, _ = bandit.posterior()
        assert np.abs(mean - 5 - f).max() < 0.5


def test_tiny_noise_and_crowded_arms_stay_finite():
    arms = np.linspace(0, 1e-3, 60).reshape(-1, 1)
    for cls in (GPUCB, BKB, BatchBKB):
        bandit = cls(arms, RBF(1.0), noise=2e-5, random_state=0).run(lambda i: 1.0, 150)
        mean, std = bandit.posterior()
        assert np.isfinite(mean).all()
        np.testing.assert_allclose(mean, 1.0, atol=1e-3)
        assert (std < 1e-2).all()


@pytest.fixture
def forty_arms():
    return np.random.default_rng(0).random((40, 2))


@pytest.mark.parametrize("cls", [GPUCB, BKB, BatchBKB, AutoUCB, UniformArms])
def test_a_fit_that_is_due_waits_for_a_second_arm_and_loses_no_reward(forty_arms, cls):
    """It used to raise out of tell, the reward counted and the posterior without it."""
    planned, plain = (cls(forty_arms, RBF(0.3), refit=refit, random_state=0) for refit in ([2, 9], None))
    for bandit in (planned, plain):
        bandit.tell([7, 7, 7], [1.0, 1.2, 0.8])
    assert planned.kernel_ == plain.kernel_
    np.testing.assert_allclose(planned.posterior()[0], plain.posterior()[0])
    planned.tell(np.arange(6), np.sin(np.arange(6)))  # the ninth
    assert planned.kernel_ != plain.kernel_
    one = cls(forty_arms[:1], RBF(0.3), refit=[3], random_state=0).run(lambda arm: 1.0, 6)
    assert (one.n_told_, one.best_.index) == (6, 0)


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [({"noise": 1e200}, ValueError, "noise"), ({"refit": 5}, TypeError, "refit must be None")],
)
def test_parameters_out_of_range_get_a_clear_error(forty_arms, params, error, words):
    with pytest.raises(error, match=words):
        GPUCB(forty_arms, RBF(0.3), **params)


@pytest.mark.filterwarnings("ignore:the first rewards are")
def test_an_arm_without_variance_far_below_the_best_is_no_improvement(forty_arms):
    assert improvement(np.array([-1e10, 0.0, 1e10]), np.zeros(3), 0.0) == pytest.approx([0.0, 0.0, 1e10])
    bandit = ExpectedImprovement(np.vstack([np.zeros((1, 2)), forty_arms]), Linear(), random_state=0)
    bandit.run(lambda arm: 1e9 if arm else 0.0, 10)
    assert 0 not in bandit.pulls_[1:]


@pytest.mark.filterwarnings("ignore:the first rewards are")
@pytest.mark.parametrize("cls", [GPUCB, BKB, BatchBKB, AutoUCB])
def test_rewards_in_any_units_give_the_same_pulls_when_they_are_scaled(cls, arms, tmp_path):
    f = np.sin(9 * arms[:, 0])
    runs = []
    for shift, unit in ((0.0, 1.0), (3e4, 250.0)):
        rng = np.random.default_rng(0)
        bandit = cls(arms, RBF(0.3), noise=0.2, scale="auto", random_state=0)
        bandit.run(lambda i: shift + unit * (f[i] + 0.1 * rng.standard_normal()), 40)  # noqa: B023
        heads = [bandit.rewards_[:k] for k in range(32, 41)]  # a batch is told together
        assert any(np.allclose([bandit.unit_, bandit.prior_mean_], [np.std(h), np.mean(h)]) for h in heads)
        assert bandit.noise_ == pytest.approx(0.2 * bandit.unit_)
        bandit.save(tmp_path / "b.sqk")
        again = cls.load(tmp_path / "b.sqk")
        assert (again.scale, again.unit_) == ("auto", bandit.unit_)
        assert np.array_equal(again.ask(), bandit.ask())
        runs.append(bandit.pulls_)
    np.testing.assert_array_equal(*runs)
    plain = cls(arms, RBF(0.3), noise=0.2, random_state=0).run(lambda i: 3e4 + 250 * f[i], 40)
    assert len(np.unique(plain.pulls_)) < len(np.unique(runs[0]))  # without, the first arms look the best for ever


@pytest.mark.parametrize("refit", [None, "doubling"])
def test_where_nothing_is_in_units_of_rewards_their_units_do_not_matter(make, arms, refit):
    """Rewards r and 1000·r + 5 give the same pulls, recommendations and, in their units, intervals."""
    given = inspect.signature(type(make())).parameters
    if "n_features" in given and refit:
        pytest.skip("its features know no likelihood")
    cls = type(make())
    f, noise = np.sin(9 * arms[:, 0]), np.random.default_rng(1).standard_normal(1000)
    plain, large = (cls(arms, RBF(0.3), refit=refit, random_state=0) for _ in range(2))
    plain.run(lambda arm: f[arm] + 0.1 * noise[plain.n_told_], 40, one_by_one=True)
    large.run(lambda arm: 1000 * (f[arm] + 0.1 * noise[large.n_told_]) + 5, 40, one_by_one=True)
    np.testing.assert_array_equal(plain.pulls_, large.pulls_)
    assert plain.best_.index == large.best_.index
    for (a, b), shift in zip(zip(plain.posterior(), large.posterior(), strict=True), (5, 0), strict=True):
        np.testing.assert_allclose(1000 * a + shift, b, rtol=1e-3, atol=1.0)


@pytest.mark.parametrize(
    "stated",
    [
        {"noise": 0.1},
        {"norm": 1.0},
        {"prior_mean": 0.0},
        {"kernel": 1.0 * RBF(0.3)},
        {"beta": "logdet"},
    ],
    ids=str,
)
def test_where_something_is_in_units_of_rewards_they_are_taken_as_they_are(arms, stated, tmp_path):
    """Above all with the theorem's width, which holds for a prior that was chosen before the rewards."""
    given = {"kernel": RBF(0.3), "random_state": 0} | stated
    bandit = GPUCB(arms, **given)
    same = GPUCB(arms, **({"noise": 0.1, "norm": 1.0, "prior_mean": 0.0} | given))
    bandit.run(value, 20).save(tmp_path / "b.sqk")
    assert (bandit.scale, bandit.unit_, bandit.noise_, bandit.norm, bandit.prior_mean_) == (
        None,
        1.0,
        0.1,
        1.0,
        0.0,
    )
    np.testing.assert_array_equal(bandit.pulls_, same.run(value, 20).pulls_)
    assert GPUCB.load(tmp_path / "b.sqk").scale is None
    assert GPUCB(arms, **given, scale="auto").scale == "auto"
    assert GPUCB(arms, RBF(0.3), beta=3.0, delta=0.2).scale == "auto"


def test_scaling_loses_less_than_rewards_in_other_units():
    """On 2,025 arms, 150 pulls, rewards around 30, of three seeds each."""
    side = np.linspace(0, 1, 45)
    arms = np.array(np.meshgrid(side, side)).reshape(2, -1).T
    f = 30 + 3 * np.sin(6 * arms[:, 0]) * np.cos(5 * arms[:, 1])
    for seed in range(3):
        lost = {}
        for name, given in {"by itself": {}, "as they are": {"noise": 0.3}}.items():
            rng = np.random.default_rng(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                bandit = GPUCB(arms, RBF(0.3), random_state=seed, **given)
                bandit.run(lambda arm, rng=rng: f[arm] + 0.3 * rng.standard_normal(), 150)
            lost[name] = bandits.regret(f, bandit.pulls_).relative
        assert lost["by itself"] < 0.25
        assert lost["by itself"] < lost["as they are"]


def test_a_scale_that_is_none_of_those_known_is_refused(arms):
    with pytest.raises(ValueError, match="scale"):
        GPUCB(arms, RBF(0.3), scale="wide")


def test_rewards_in_other_units_are_warned_of():
    arms = np.linspace(0, 1, 50)[:, None]
    far = GPUCB(arms, RBF(0.2), noise=0.1, random_state=0)
    with pytest.warns(UserWarning, match=r"rewards are 3\d.* in the mean.*scale='auto'"):
        far.run(lambda arm: 30 + 5 * arms[arm, 0], 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noise = {"noise": 0.1}
        for options, shift in (
            ({}, 30.0),
            ({"scale": "auto"} | noise, 30.0),
            ({"prior_mean": 30.0}, 30.0),
            (noise, 0.5),
        ):
            GPUCB(arms, RBF(0.2), random_state=0, **options).run(lambda arm, shift=shift: shift + arms[arm, 0], 20)
