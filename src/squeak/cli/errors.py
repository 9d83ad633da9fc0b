"""Errors in the words of the command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from squeak.core.advice import Advice
from squeak.core.progress import Job
from squeak.core.text import for_terminal


def option(parameter: str) -> str:
    """Return the option of a parameter's name."""
    return "--" + parameter.replace("_", "-")


def spell(advice: Advice, options: Collection[str]) -> str:
    """Return advice in the words of a command that has these options; empty where it cannot be followed there."""
    name, value = option(advice.parameter), advice.value
    sayable = "{name}" in advice.words or not isinstance(value, dict)  # an option holds no mapping
    words = advice.words if advice.parameter in options and sayable else advice.otherwise
    if isinstance(value, bool):
        return advice.spelled(words, name, name if value else name.replace("--", "--no-", 1))
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return advice.spelled(words, name, f"{name} {shlex.quote(text.replace(chr(9), chr(92) + 't'))}")


def echo(text: str, *, err: bool = False) -> None:
    """Print a text; what it has from files or users cannot rewrite the terminal."""
    with above_the_bar():
        typer.echo(for_terminal(text, keep="\n"), err=err)


@contextmanager
def above_the_bar() -> Iterator[None]:
    """Have a bar that is shown make room for lines that are printed."""
    if Job.now is None:
        yield
        return
    from tqdm import tqdm

    with tqdm.external_write_mode(file=sys.stderr):
        yield


def say(message: str, code: int) -> int:
    """Print one line and return the exit code."""
    echo(f"squeak: {message}", err=True)
    return code


def stop(message: str, code: int) -> NoReturn:
    """Print one line and leave."""
    sys.exit(say(message, code))
