"""``squeak online``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.errors import echo
from squeak.cli.options import (
    Checkpoint,
    Data,
    Every,
    KernelChoice,
    KernelName,
    LengthScale,
    Seed,
    given_options,
    kernel_of,
    positive,
    refuse_settled,
)
from squeak.cli.outputs import Overwrite, check_figure, check_outputs, going_on, same_file
from squeak.cli.reading import SETTLED as BY_PREPROCESSING
from squeak.cli.reading import Shuffled, source_from

Method = StrEnum(
    "Method", {"con": "con-kons", "pros": "pros-n-kons", "budget": "b-kons", "fogd": "fogd", "nogd": "nogd"}
)
"""The online learners that the command knows."""
LEARNERS = dict(zip(Method, ("ConKons", "ProsNKons", "BudgetKons", "FOGD", "NOGD"), strict=True))

Task = StrEnum("Task", ["regression", "classification"])
"""What the target is."""

Curvature = StrEnum("Curvature", ["adaptive", "worst", "auto"])
"""How fast second-order learners grow sure of themselves."""

SETTLED = BY_PREPROCESSING | {
    "task",
    "method",
    "kernel",
    "length_scale",
    "max_atoms",
    "curvature",
    "alpha",
    "step",
    "seed",
}
"""Options that a saved learner has settled."""


def renamed(value: float | None) -> None:
    """Say what an option of version 0.1 is called now."""
    if value is not None:
        raise typer.BadParameter("--eta is called --step now")


def online(
    context: typer.Context,
    data: Data,
    *,
    target: Annotated[str, typer.Option(help="The column to predict.", show_default=False)],
    task: Annotated[Task, typer.Option(help="What the target is.")] = Task.regression,
    method: Annotated[Method, typer.Option(help="The learner.")] = Method.con,
    reading: Shuffled,
    kernel: KernelChoice = KernelName.rbf,
    length_scale: LengthScale = "median",
    max_atoms: Annotated[
        int, typer.Option(min=1, help="A hard limit on the space: cost a row is then fixed.")
    ] = 100,
    curvature: Annotated[
        Curvature, typer.Option(help="adaptive: rows in random order; worst: drift; auto: both, side by side.")
    ] = Curvature.adaptive,
    alpha: Annotated[
        float | None, typer.Option(callback=positive, help="Ridge of the Newton steps.", show_default="0.1")
    ] = None,
    step: Annotated[
        float | None, typer.Option(callback=positive, help="Step size of fogd and nogd.", show_default=False)
    ] = None,
    eta: Annotated[float | None, typer.Option(callback=renamed, hidden=True)] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Save the learner here (.sqk).", show_default=False)
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with a learner saved before.", show_default=False)
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the loss against rows here (png, svg or pdf).", show_default=False)
    ] = None,
    checkpoint: Checkpoint = None,
    every: Every = 30.0,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Learn from every row of DATA as it comes: each is predicted first, and the loss so far is shown."""
    import squeak as sq
    from squeak.online import progressive_validation
    from squeak.online.base import OnlineEstimator

    if resume is not None:
        refuse_settled(context, SETTLED, "--resume goes on with a learner as it was")
    check_figure(figure)
    in_place = resume is not None and out is not None and same_file(resume, out)  # the learner goes on in its file
    check_outputs(
        [*data, None if in_place else resume],
        overwrite=overwrite,
        squeak_files=[out],
        others=[figure],
        states=[checkpoint],
    )
    if resume is not None:
        model = OnlineEstimator.load(resume)
        known: Any = model.preprocessing_
    else:
        if method is Method.fogd and "max_atoms" in given_options(context):
            raise typer.BadParameter("--max-atoms is not for fogd, whose features are random")
        model = _model(task, method, kernel_of(kernel, length_scale), max_atoms, curvature, alpha, step, seed)
        known = "learn"
    source = source_from(reading, data, target, preprocessing=known, seed=seed)
    with going_on(checkpoint, quiet):
        progress = progressive_validation(
            model, source, checkpoint=checkpoint, every=every, verbose=0 if quiet else 1
        )
    n = len(progress.losses)
    words = "error rate" if hasattr(model, "classes_") else "squared error"
    last = progress.losses[-max(1, n // 10) :].mean()
    echo(
        f"{type(model).__name__}: {n:,} rows in {progress.seconds:.2f} s, {progress.seconds / n * 1e6:.1f} µs a row"
    )
    echo(f"progressive {words} {progress.mean_loss:.6g}; of the last tenth {last:.6g}")
    echo(f"{model.n_atoms_:,} atoms, {model.kernel_!r}")
    if source.skipped_:
        echo(f"{source.skipped_:,} rows were skipped")
    if figure is not None:
        from squeak.report import draw_progress

        draw_progress(progress, figure)
        echo(f"wrote {figure}")
    if out is not None:
        sq.save(model, out)
        echo(f"wrote {out}")


def _model(
    task: Task,
    method: Method,
    kernel: Any,
    max_atoms: int,
    curvature: Curvature,
    alpha: float | None,
    step: float | None,
    seed: int,
) -> Any:
    """Return the learner that the options ask for."""
    from squeak import online as room

    kind = "Classifier" if task is Task.classification else "Regressor"
    params: dict[str, Any] = {"kernel": kernel, "random_state": seed}
    if method in (Method.fogd, Method.nogd):
        if alpha is not None or curvature is not Curvature.adaptive:
            raise typer.BadParameter(f"--alpha and --curvature are not for {method.value}")
        params |= {} if step is None else {"step": step}
        params |= {"max_atoms": max_atoms, "rank": max(1, max_atoms // 5)} if method is Method.nogd else {}
    else:
        if step is not None:
            raise typer.BadParameter(f"--step is not for {method.value}")
        params |= {"max_atoms": max_atoms, "curvature": curvature.value}
        params |= {} if alpha is None else {"alpha": alpha}
    return getattr(room, LEARNERS[method] + kind)(**params)
