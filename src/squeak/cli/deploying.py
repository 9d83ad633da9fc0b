"""``squeak export``: models for programs that do not have squeak."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squeak.cli.errors import echo
from squeak.cli.models import Model
from squeak.cli.outputs import Overwrite, check_outputs


def export(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The .onnx file to write.", show_default=False)],
    overwrite: Overwrite = False,
) -> None:
    """Write a model with its preprocessing as an ONNX file, which runs without squeak; needs the extra `onnx`.

    Every column of the rows is an input: numbers as float64, dates in days since 1970, categories as text. The
    outputs have the names of the model's methods: predict, predict_proba, decision_function, transform.
    """
    import squeak as sq

    if out.suffix != ".onnx":
        raise typer.BadParameter(f"the file to write ends in .onnx; it is {out}")
    check_outputs([model], overwrite=overwrite, others=[out])
    learner = sq.load(model)
    if not hasattr(learner, "to_onnx"):
        raise ValueError(
            f"{model} holds a {type(learner).__name__}; models that predict or transform can be exported"
        )
    learner.to_onnx(out)
    echo(f"{type(learner).__name__} → {out} ({out.stat().st_size / 1e6:.3g} MB)")
