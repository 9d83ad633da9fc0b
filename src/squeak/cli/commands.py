"""From a function to a command: groups of options stand one by one on the command line, and errors name them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

from squeak.cli.errors import spell
from squeak.core.advice import AdvisedError

AT_HAND: set[str] = set()
"""The options of the command that runs."""


def told(error: BaseException | str) -> str:
    """Return the one line of an error or a warning, with parameters as options of the command that runs."""
    words = error.told(partial(spell, options=AT_HAND)) if isinstance(error, AdvisedError) else str(error)
    return " ".join(words.split()) or type(error).__name__


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for typer, with the fields of dataclasses among its parameters as options of their own.

    ``function``: its parameters are annotated as typer wants them, or by a dataclass whose fields are.
    """
    given = inspect.signature(function, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: one.annotation for name, one in given.items() if dataclasses.is_dataclass(one.annotation)
    }
    members = {name: [field.name for field in dataclasses.fields(group)] for name, group in groups.items()}
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in given.items():
        if name not in groups:
            options[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        for field in dataclasses.fields(groups[name]):
            options[field.name] = inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )

    def run(**values: Any) -> None:
        made = {name: group(**{m: values.pop(m) for m in members[name]}) for name, group in groups.items()}
        AT_HAND.clear()
        AT_HAND.update(options)
        function(**values, **made)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {name: one.annotation for name, one in options.items()}
    run.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    return run
