"""Errors that know the parameters they speak of, so that every face of the library names them in its own way.

A user of Python reads ``on_bad_rows='skip'`` where a user of the command reads ``--on-bad-rows skip``, and a
command that has no such option leaves the advice out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Advice:
    """Some words about a parameter.

    Parameters
    ----------
    words : str
        ``{}`` stands for the parameter and its value, or ``{name}`` for its name alone. The
        last ``{}`` or the first ``{name}`` counts, for text from the data may hold others.
    parameter : str
        Its name in Python.
    value : object
        What to give it, or what was given.
    otherwise : str
        What to say where there is no such parameter; nothing by default.
    python : str
        What to say in Python, where that is something else.

    Examples
    --------
    >>> from squeak.core.advice import Advice
    >>> Advice("skip such rows with {}", "on_bad_rows", "skip").in_python()
    "skip such rows with on_bad_rows='skip'"
    """

    words: str
    parameter: str
    value: Any = None
    otherwise: str = ""
    python: str = ""

    def in_python(self) -> str:
        """Return the words for a user of Python."""
        return self.spelled(self.python or self.words, self.parameter, f"{self.parameter}={self.value!r}")

    @staticmethod
    def spelled(words: str, name: str, whole: str) -> str:
        """Return words with the parameter in its place.

        ``words``, ``name``, ``whole``: the words, the parameter's name, and the name with the value.
        """
        if "{name}" in words:
            return words.replace("{name}", name, 1)
        before, there, after = words.rpartition("{}")
        return before + (whole if there else "") + after


class AdvisedError(Exception):
    """What is wrong, and what can be done about it: texts, and advice about parameters; the first is the fact."""

    def __init__(self, *parts: str | Advice) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.told(Advice.in_python)

    def told(self, spell: Callable[[Advice], str]) -> str:
        """Return the message, with every piece of advice in the words of ``spell``; empty advice is left out."""
        head, *rest = self.args
        fact = (spell(head) or head.in_python()) if isinstance(head, Advice) else str(head)
        advice = [spell(part) if isinstance(part, Advice) else str(part) for part in rest]
        *first, last = [words for words in advice if words] or [""]
        listed = f"{', '.join(first)}, or {last}" if first else last
        return f"{fact}; {listed}" if listed else fact

    def behind(self, place: str) -> list[Any]:
        """Return the parts of the error with a place named before them, for one that says where it was."""
        head, *rest = self.args
        head = replace(head, words=place + head.words) if isinstance(head, Advice) else f"{place}{head}"
        return [head, *rest]

    @property
    def parameter(self) -> str:
        """The parameter that it speaks of first; empty for none."""
        return next((part.parameter for part in self.args if isinstance(part, Advice)), "")

    @property
    def value(self) -> Any:
        """The value of that parameter."""
        return next((part.value for part in self.args if isinstance(part, Advice)), None)


class InputError(AdvisedError, ValueError):
    """A value, of a parameter or in the data, that cannot be taken.

    Examples
    --------
    >>> from squeak.core.advice import Advice, InputError
    >>> skip, fill = Advice("skip it with {}", "on_bad_rows", "skip"), Advice("fill it with {}", "missing", "mean")
    >>> error = InputError("row 3 has no value", skip, fill)
    >>> str(error), error.parameter
    ("row 3 has no value; skip it with on_bad_rows='skip', or fill it with missing='mean'", 'on_bad_rows')
    """


class InputTypeError(AdvisedError, TypeError):
    """A value of a type that cannot be taken."""


class InputWarning(AdvisedError, UserWarning):  # noqa: N818
    """Something in the data that may be a mistake."""


def unlike_rows(kept: int, rows: int, kernel: Any, ridge: float) -> InputError:
    """Return the error for rows of which nearly all would have to be kept.

    ``kept``, ``rows``: how many had to be kept, of how many.
    """
    return InputError(
        f"{kept:,} of {rows:,} rows had to be kept: under {kernel!r} with ridge {ridge:.3g} hardly any row "
        "resembles another",
        Advice("use a larger {name} (try 'median')", "length_scale", otherwise="use a kernel with a larger width"),
        "scale the columns",
        Advice("raise the {name}", "ridge"),
        Advice("lower the {name}", "oversampling"),
        Advice("set {name}", "max_atoms"),
    )
