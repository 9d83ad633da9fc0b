"""A deprecated name works, and says since when it is deprecated, when it goes and what to use instead."""

import pytest

from squeak.core.deprecation import renamed, warn_deprecated


def test_a_renamed_function_warns_its_caller_and_works():
    old = renamed(abs, "absolute", "0.2")
    words = r"^absolute\(\) is deprecated since squeak 0.2 and will be gone in 0.4: use abs\(\)$"
    with pytest.warns(FutureWarning, match=words) as caught:
        assert old(-3) == 3
    assert caught[0].filename == __file__


def test_a_parameter_is_named_to_the_caller_of_the_function_that_has_it():
    def fit(eta=None):
        if eta is not None:
            warn_deprecated("the parameter eta", "step", "1.9")

    fit()
    with pytest.warns(FutureWarning, match=r"gone in 1\.11: use step") as caught:
        fit(eta=1)
    assert caught[0].filename == __file__
