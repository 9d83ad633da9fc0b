"""The command ``squeak``: learn a dictionary or a model from files, look at it, predict with it.

Exit codes: 0 done, 1 the data or a file is not as it should be, 2 the command line is not, 130 interrupted.
"""

from __future__ import annotations

import _thread
import gc
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from squeak._version import __version__
from squeak.cli.commands import command, told
from squeak.cli.deploying import export, serve
from squeak.cli.dictionaries import compare, dictionary, merge, report, sample, show
from squeak.cli.errors import echo, say
from squeak.cli.graphs import label, sparsify
from squeak.cli.models import evaluate, fit, predict
from squeak.cli.optimizing import optimize
from squeak.cli.plans import plans
from squeak.cli.streams import online

app = typer.Typer(
    name="squeak",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    *(fit, predict, evaluate, online, dictionary, show, report, merge, compare),
    *(sample, optimize, sparsify, label, export, serve),
)
for function in COMMANDS:
    app.command()(command(function))
app.add_typer(plans, name="plan")


@app.callback(invoke_without_command=True)
def squeak(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Learn from tables, files, databases, streams and graphs with kernel models.

    Begin with: squeak fit TABLE --target COLUMN --out model.sqk

    squeak COMMAND --help explains a command.
    """
    if version:
        echo(f"squeak {__version__}")
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for what it makes.")] = Path("demo"),
) -> None:
    """Stream a year of New York flights into a dictionary; needs the extra `demo`."""
    from squeak.cli.demo import run

    run(out)


def _on_terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt once more where an interrupt came in a place that cannot raise, such as a finaliser."""
    if lost.exc_type is KeyboardInterrupt:
        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(lost)


def _warn(message: Warning | str, *where: object, **more: object) -> None:
    """Print a warning in a line of its own, without the line of code that it comes from."""
    from tqdm import tqdm

    with tqdm.external_write_mode(file=sys.stderr):
        echo(f"warning: {told(message)}", err=True)


def main() -> None:
    """Run the command; a user's mistake gets one line and no traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without our signs gets question marks, not an error
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, _on_terminate)  # a scheduler's stop leaves a checkpoint too
    before, sys.unraisablehook = sys.unraisablehook, _interrupt_again
    warned, warnings.showwarning = warnings.showwarning, _warn
    try:
        code = _run()  # what an error held on to, readers with threads of their own, is let go before the end
    finally:
        sys.unraisablehook, warnings.showwarning = before, warned
    gc.collect()
    sys.exit(code)


def _run() -> int:
    """Run the command and return its exit code."""
    try:
        code = app(prog_name="squeak", standalone_mode=False)  # however it was started: completion is by name
    except KeyboardInterrupt:
        return say("interrupted", 130)
    except typer.Exit as leave:
        return int(leave.exit_code)
    except Exception as error:
        shown = getattr(error, "show", None)
        if shown is not None:  # a mistake on the command line
            shown()
            return int(getattr(error, "exit_code", 2))
        if type(error).__name__ == "Abort":
            return say("interrupted", 130)
        if isinstance(error, ValueError | TypeError | OSError | ImportError | MemoryError):
            text = told(error)
            if isinstance(error, OSError) and error.filename is not None:
                text = f"{error.filename}: {error.strerror}"
            return say(text, 1)
        raise
    return code if isinstance(code, int) else 0
