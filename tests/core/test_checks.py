"""The checks of parameters."""

from functools import partial

import pytest

from squeak.core.checks import check_between, check_number, check_positive


@pytest.mark.parametrize("check", [check_number, check_positive, partial(check_between, low=0, high=9)])
@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["large", "small"])
def test_whole_numbers_beyond_all_floats_are_no_finite_numbers(check, value):
    with pytest.raises(ValueError, match="alpha must"):
        check("alpha", value)
