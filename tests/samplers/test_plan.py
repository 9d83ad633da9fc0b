"""The cost model: its arithmetic by hand, its calibration against the clock, and what it refuses."""

import math

import pytest

from squeak.samplers.planning import Calibration, calibrate, plan

KNOWN = Calibration(dim=10, atoms=100, start=1.0, growth=0.5, row=1e-5, merge=2.0, seconds=0.0)


def test_a_leaf_costs_its_start_its_doublings_and_its_rows():
    assert KNOWN.leaf(100 * 2**10) == pytest.approx(1.0 + 0.5 * 10 + 1e-5 * 102_400)
    assert KNOWN.leaf(50) == pytest.approx(0.5)


def test_a_run_is_its_leaves_and_then_its_levels():
    p = plan(1_024_000, 10, 100, workers=4, leaves=10, bandwidth=math.inf, calibration=KNOWN)
    assert p.leaf_seconds == pytest.approx(3 * KNOWN.leaf(102_400))
    assert p.merge_seconds == pytest.approx((2 + 1 + 1 + 1) * 2.0)  # 5, 2, 1 and 1 merges on four workers
    assert p.work_seconds == pytest.approx(10 * KNOWN.leaf(102_400) + 9 * 2.0)
    assert p.seconds == p.leaf_seconds + p.merge_seconds
    assert 0 < p.efficiency < 1
    assert p.bytes_moved == 19 * 100 * (80 + 40)


def test_more_workers_than_cores_are_no_faster():
    two = plan(1e7, 10, 100, workers=2, calibration=KNOWN)
    assert plan(1e7, 10, 100, workers=4, cores=2, calibration=KNOWN).seconds == two.seconds
    assert plan(1e7, 10, 100, workers=4, calibration=KNOWN).seconds < two.seconds
    assert plan(100, 10, 100, workers=4, calibration=KNOWN).leaves == 1


def test_memory_does_not_depend_on_the_rows():
    assert len({plan(10.0**e, 10, 100, 8, calibration=KNOWN).memory for e in (6, 9, 12)}) == 1


def test_a_calibration_is_made_of_positive_times_and_carried_to_larger_sizes():
    small = calibrate(4, 40)
    assert min(small.row, small.merge, small.start + small.growth) > 0
    assert small.seconds < 60


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": 0}, "rows must be a number from 1 on"),
        ({"rows": math.nan}, "rows must be a number from 1 on"),
        ({"workers": 0}, "workers must be a whole number"),
        ({"dim": 2.5}, "dim must be a whole number"),
        ({"leaves": 0}, "leaves must be a whole number"),
        ({"atoms": 7}, "the calibration is for 10 columns and 100 atoms"),
    ],
)
def test_bad_numbers_get_one_clear_error(given, message):
    with pytest.raises(ValueError, match=message):
        plan(**{"rows": 1e6, "dim": 10, "atoms": 100, "workers": 1, "calibration": KNOWN, **given})


def test_a_plan_for_one_atom_is_measured():
    assert calibrate(1, 1).leaf(1e6) > 0
