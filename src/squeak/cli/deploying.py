"""``squeak export`` and ``squeak serve``: models for programs that do not have squeak."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from squeak.cli.errors import echo
from squeak.cli.models import Model
from squeak.cli.outputs import check_outputs


def export(
    model: Model,
    out: Annotated[
        Path, typer.Argument(help="The .onnx file to write; an older one is replaced.", show_default=False)
    ],
) -> None:
    """Write a model with its preprocessing as an ONNX file, which runs without squeak; needs the extra `onnx`.

    Every column of the rows is an input: numbers as float64, dates in days since 1970, categories as text. The
    outputs have the names of the model's methods: predict, predict_proba, decision_function, transform.
    """
    import squeak as sq

    if out.suffix != ".onnx":
        raise typer.BadParameter(f"the file to write ends in .onnx; it is {out}")
    check_outputs([model], overwrite=False, others=[out])
    learner = sq.load(model)
    if not hasattr(learner, "to_onnx"):
        raise ValueError(
            f"{model} holds a {type(learner).__name__}; models that predict or transform can be exported"
        )
    learner.to_onnx(out)
    echo(f"{type(learner).__name__} → {out} ({out.stat().st_size / 1e6:.3g} MB)")


def serve(
    model: Model,
    *,
    host: Annotated[
        str, typer.Option(help="The address to listen at; 0.0.0.0 lets every machine of the network ask.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen at; 0 takes any that is free.")
    ] = 8000,
    max_rows: Annotated[int, typer.Option(min=1, help="How many rows a request may have.")] = 10_000,
    max_bytes: Annotated[int, typer.Option(min=100, help="How many bytes a request may have.")] = 10_000_000,
) -> None:
    """Answer requests for predictions over HTTP, until it is stopped; needs the extra `serve`.

    POST /predict takes rows as JSON and answers with predictions, intervals or probabilities. GET / is a page on
    which a row can be typed in, /report is the model's report, /model describes the model as JSON, and /health says
    that the server is there. There is no password and no encryption: for others than this machine, put a web server
    that has both in front.
    """
    import squeak as sq

    learner = sq.load(model)
    if not hasattr(learner, "to_onnx") or not hasattr(learner, "predict"):
        raise ValueError(f"{model} holds a {type(learner).__name__}; models that predict can be served")
    try:
        from squeak.cli.serving import LOOPBACK, listening, server_of
    except ImportError:
        raise ImportError("squeak serve needs starlette and uvicorn: pip install 'squeak-learn[serve]'") from None
    from squeak.cli.answering import Answering

    with listening(host, port) as at:
        name, number = at.getsockname()[:2]
        shown = f"[{name}]" if ":" in name else name
        echo(f"{type(learner).__name__} of {model} at http://{shown}:{number} (end it with Ctrl-C)")
        if host not in LOOPBACK:
            echo(
                "every machine that reaches this address can ask: there is no password and no encryption", err=True
            )
        with contextlib.suppress(KeyboardInterrupt):  # the signal that ended the server, told again at its end
            server_of(Answering(learner, model.name, max_rows), host, max_bytes).run(sockets=[at])
    echo("stopped")
