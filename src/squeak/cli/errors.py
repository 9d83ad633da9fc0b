"""Errors in the words of the command line."""

from __future__ import annotations

import re
import sys
from typing import NoReturn

import typer

from squeak.core.text import for_terminal

IN_WORDS_OF_THE_COMMAND = (
    (r"on_bad_rows='skip'", "--on-bad-rows skip"),
    (r"missing='median'", "--missing median"),
    (r"pass delimiter='(.)'", r"pass --delimiter '\1'"),
    (r"pass delimiter='\\t'", r"pass --delimiter '\\t'"),
    (r"categories='onehot' or 'codes'", "--categories onehot or codes"),
    (r"with drop=", "with --drop"),
    (r"pass header=False, or header=True", "pass --no-header, or --header"),
    (r"pass na_values=\['(.*?)'\]", r"pass --na-values '\1'"),
    (r"(if the column holds categories), categories=\{.*?\}", r"\1, store it as text in a Parquet file"),
    (r"max_categories=(\d+)", r"--max-categories \1"),
    (r"raise max_categories", "raise --max-categories"),
    (r"shuffle=True", "--shuffle"),
    (r"raise learn_rows", "raise --learn-rows"),
    (r", or give the column's scale", ""),
    (r", list the values that matter", ""),
    (r"set max_atoms", "set --max-atoms"),
    (r"use a classifier", "use --task classification"),
    (r"KernelClassifier learns classes", "--task classification learns classes"),
    (r"KernelRidge predicts numbers", "--task regression predicts numbers"),
    (r"finish it with \w+\.resume", "finish it as it was begun"),
    (r": pass squeak\.rows\(path, columns=\[\.\.\.\]\)", "; leave out the others"),
)
"""Options in our messages as Python has them, and as the command has them."""


def for_the_command(message: str) -> str:
    """Return a message with the options' names as the command has them."""
    for python, words in IN_WORDS_OF_THE_COMMAND:
        message = re.sub(python, words, message)
    return message


def echo(text: str, *, err: bool = False) -> None:
    """Print a text; what it has from files or users cannot rewrite the terminal."""
    typer.echo(for_terminal(text, keep="\n"), err=err)


def say(message: str, code: int) -> int:
    """Print one line and return the exit code."""
    echo(f"squeak: {message}", err=True)
    return code


def stop(message: str, code: int) -> NoReturn:
    """Print one line and leave."""
    sys.exit(say(message, code))
