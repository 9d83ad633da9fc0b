"""``squeak online``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.dry import a_stream
from squeak.cli.errors import echo
from squeak.cli.live import FIRST_ROWS, FOLLOWED, STDIN, Kept, Predictions, following, live_source
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
    names_of,
    positive,
    refuse_settled,
)
from squeak.cli.outputs import Overwrite, check_figure, check_outputs, going_on, is_fresh, same_file
from squeak.cli.reading import SETTLED as BY_PREPROCESSING
from squeak.cli.reading import Scale, Shuffled, source_from
from squeak.cli.tasks import Target, Task, TaskChoice, holds_classes, is_classification

Method = StrEnum(
    "Method",
    {
        "mixed": "mixed-kons",
        "con": "con-kons",
        "pros": "pros-n-kons",
        "budget": "b-kons",
        "fogd": "fogd",
        "nogd": "nogd",
    },
)
"""The online learners that the command knows."""
LEARNERS = dict(zip(Method, ("MixedKons", "ConKons", "ProsNKons", "BudgetKons", "FOGD", "NOGD"), strict=True))

Curvature = StrEnum("Curvature", ["adaptive", "worst", "auto"])
"""How fast second-order learners grow sure of themselves."""

SETTLED = BY_PREPROCESSING | {
    "task",
    "classes",
    "method",
    "kernel",
    "length_scale",
    "max_atoms",
    "curvature",
    "half_life",
    "alarm_rate",
    "alpha",
    "step",
    "seed",
}
"""Options that a saved learner has settled."""


@dataclass(frozen=True)
class Streamed(Shuffled):
    """How rows are read that come one after the other: their scales are learned on the way unless it is said."""

    scale: Annotated[
        Scale | None,
        typer.Option(
            help="How columns are scaled, as learned from the first rows; by default the scales are learned "
            "along the stream.",
            show_default="learned on the way",
        ),
    ] = None  # type: ignore[assignment]

    def choices(self) -> dict[str, Any]:
        """Return the parameters that choose columns and what becomes of them."""
        return super().choices() if self.scale is not None else replace(self, scale=Scale.none).choices()


def renamed(value: float | None) -> None:
    """Say what an option of version 0.1 is called now."""
    if value is not None:
        raise typer.BadParameter("--eta is called --step now")


def online(
    context: typer.Context,
    data: Data,
    *,
    target: Target,
    task: TaskChoice = Task.auto,
    classes: Annotated[
        str | None, typer.Option(help="The names of all classes, separated by commas; others are then refused.")
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            help="The learner. mixed-kons follows streams that change; con-kons takes a tenth of its time."
        ),
    ] = Method.mixed,
    reading: Streamed,
    kernel: KernelChoice = KernelName.rbf,
    length_scale: LengthScale = "median",
    max_atoms: Annotated[
        int, typer.Option(min=1, help="How many rows the learner keeps at most; this fixes the time per row.")
    ] = 100,
    curvature: Annotated[
        Curvature,
        typer.Option(
            help="How steps are chosen: adaptive for rows in random order, worst for streams that change, "
            "auto for both side by side."
        ),
    ] = Curvature.adaptive,
    half_life: Annotated[
        float | None,
        typer.Option(
            callback=positive, help="After how many further rows a row counts half; mixed-kons tries several."
        ),
    ] = None,
    alarm_rate: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.999999,
            help="Begin anew when the losses have risen and that is better; the number is the probability of a "
            "false alarm, and 0 means never. The default is 0.01 for mixed-kons; other learners do not watch their "
            "losses.",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(callback=positive, help="The regularisation of the Newton steps.", show_default="0.1"),
    ] = None,
    step: Annotated[
        float | None, typer.Option(callback=positive, help="The step size of fogd and nogd.", show_default=False)
    ] = None,
    eta: Annotated[float | None, typer.Option(callback=renamed, hidden=True)] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Save the learner here (.sqk). With --follow or standard input it is saved every so many seconds, "
            "too (--every).",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Continue with a learner that was saved before. With --follow, lines that it has learned are left "
            "out.",
            show_default=False,
        ),
    ] = None,
    predictions: Annotated[
        str | None,
        typer.Option(
            help="Write predictions and targets here as they are made (CSV; - is standard output). With --resume, "
            "they are added to those in the file."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more rows at the end of a CSV file, until Ctrl-C.")
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the loss against rows here (png, svg or pdf).", show_default=False)
    ] = None,
    checkpoint: Checkpoint = None,
    every: Every = 30.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Learn some rows, keep nothing, and tell how long all would take.")
    ] = False,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")] = False,
) -> None:
    """Learn from every row of DATA as it comes: each is predicted first, and the loss so far is shown.

    DATA may be - for lines of CSV on standard input.
    """
    import squeak as sq
    from squeak.online import progressive_validation
    from squeak.online.base import OnlineEstimator

    live = follow or STDIN in data
    _check_live(data, reading, follow=follow, live=live, checkpoint=checkpoint, dry_run=dry_run)
    if resume is not None:
        refuse_settled(context, SETTLED, "--resume goes on with a learner as it was")
    check_figure(figure)
    in_place = resume is not None and out is not None and same_file(resume, out)  # the learner goes on in its file
    written = None if predictions in (None, STDIN) else Path(str(predictions))
    check_outputs(
        [*(name for name in data if name != STDIN), None if in_place else resume],
        overwrite=overwrite,
        squeak_files=[out],
        others=[figure, written],
        states=[checkpoint],
    )
    if written is not None and resume is not None and checkpoint is not None and not checkpoint.exists():
        is_fresh(written, overwrite)
    model: Any = None if resume is None else OnlineEstimator.load(resume)
    known: Any = "learn" if model is None else model.preprocessing_
    kept = Kept(out, every)

    def are_labels(y: Any) -> bool:
        return _has_classes(task, y, True) if model is None else hasattr(model, "classes_")

    with ExitStack() as stack:
        first: Any = None
        if live:
            rows = reading.learn_rows if "learn_rows" in given_options(context) else FIRST_ROWS
            lines = stack.enter_context(_followed(data[0], reading, kept, resume)) if follow else None
            read, label = (lines, data[0]) if follow else (_standard_input(kept), "standard input")
            source, first = live_source(
                reading, read, label, target, preprocessing=known, first_rows=rows, are_labels=are_labels
            )
        else:
            source = source_from(reading, data, target, preprocessing=known, seed=seed)
        if model is None:
            labels = is_classification(task, source, quiet) if first is None else _has_classes(task, first, quiet)
            if method is Method.fogd and "max_atoms" in given_options(context):
                raise typer.BadParameter("--max-atoms is not for fogd, whose features are random")
            if method is Method.mixed and "length_scale" not in given_options(context):
                length_scale = "learned"
            kernel_asked = kernel_of(kernel, length_scale)
            drift = {"half_life": half_life, "alarm_rate": alarm_rate}
            model = _model(labels, method, kernel_asked, max_atoms, curvature, alpha, step, drift, seed)
            model.set_params(scale="auto" if reading.scale is None else None)
        if dry_run:
            with nullcontext() if classes is None else model.taking(_labels(classes, first, source)):
                echo(a_stream(source, model))
            return
        each: Any = None
        if predictions is not None:
            adds = resume is not None and checkpoint is None and not overwrite
            each = Predictions(predictions, goes_on=checkpoint is not None, adds=adds)
            stack.callback(each.close)
        if live:
            each = stack.enter_context(kept.begun(model, each, lines))
        with going_on(checkpoint, quiet):
            progress = progressive_validation(
                model,
                source,
                checkpoint=checkpoint,
                every=every,
                classes=_labels(classes, first, source),
                each=each,
                keep_losses=False,
                verbose=0 if quiet else 1,
            )

    def tell(words: str) -> None:
        echo(words, err=predictions == STDIN)

    n = progress.n
    words = "error rate" if hasattr(model, "classes_") else "squared error"
    last = float(progress.recent(max(1, n // 10))[0])
    tell(
        f"{type(model).__name__}: {n:,} rows in {progress.seconds:.2f} s, {progress.seconds / n * 1e6:.1f} µs a row"
    )
    tell(f"progressive {words} {progress.mean_loss:.6g}; of the last tenth {last:.6g}")
    tell(f"{model.n_atoms_:,} atoms, {model.kernel_!r}")
    for name, words in (("columns", "scales of columns had moved"), ("losses", "the losses had become larger")):
        times = ", ".join(
            f"{entry['rows']:,}" for entry in model.history_ if name in entry and not entry.get("stayed")
        )
        if times:
            tell(f"began anew after {times} rows, for {words}")
    if source.skipped_:
        tell(f"{source.skipped_:,} rows were skipped")
    if figure is not None:
        from squeak.report import draw_progress

        draw_progress(progress, figure)
        tell(f"wrote {figure}")
    if out is not None:
        kept.save() if live else sq.save(model, out)
        tell(f"wrote {out}")


def _check_live(
    data: list[str], reading: Streamed, *, follow: bool, live: bool, checkpoint: Path | None, dry_run: bool
) -> None:
    """Refuse options that do not go with rows that come as time passes."""
    if not live:
        return
    if len(data) > 1:
        raise typer.BadParameter("standard input, or a file to follow, is read alone")
    if follow and (data[0] == STDIN or not Path(data[0]).is_file()):
        raise typer.BadParameter("--follow is for a CSV file that is there")
    if reading.shuffle:
        raise typer.BadParameter("--shuffle is for files that are there as a whole")
    if dry_run:
        raise typer.BadParameter("--dry-run is for files that are there as a whole")
    if checkpoint is not None:
        raise typer.BadParameter(
            "--checkpoint is for files that are there as a whole; --out keeps the learner, --resume goes on with it"
        )


def _standard_input(kept: Kept) -> Any:
    import sys

    from squeak.data.lines import from_descriptor

    return from_descriptor(sys.stdin.fileno(), kept.idle)


@contextmanager
def _followed(path: str, reading: Streamed, kept: Kept, resume: Path | None) -> Iterator[Any]:
    """Give the reader of a file that is followed, from where the learner that goes on has come in it."""
    from squeak.core.storage import read

    header = reading.parameters()["header"] is not False
    mark = None if resume is None else read(resume)[2].get(FOLLOWED)
    with following(Path(path), idle=kept.idle, header=header, mark=mark) as lines:
        if mark is not None and not lines.goes_on:
            echo(f"{path} lacks the lines that {resume} has learned: it is read from its beginning", err=True)
        yield lines


def _has_classes(task: Task, first: Any, quiet: bool) -> bool:
    """Tell whether the targets of the first rows are classes."""
    return holds_classes(first, quiet) if task is Task.auto else task is Task.classification


def _labels(classes: str | None, first: Any, source: Any) -> Any:
    """Return the classes that were named, as numbers where the targets are."""
    import numpy as np

    if classes is None:
        return None
    y = next(iter(source.blocks())).y if first is None else first
    named = np.array(names_of(classes))
    return named if y.dtype.kind in "OUS" else named.astype(float).astype(y.dtype)


def _model(
    labels: bool,
    method: Method,
    kernel: Any,
    max_atoms: int,
    curvature: Curvature,
    alpha: float | None,
    step: float | None,
    drift: dict[str, float | None],
    seed: int,
) -> Any:
    """Return the learner that the options ask for."""
    from squeak import online as room

    kind = "Classifier" if labels else "Regressor"
    params: dict[str, Any] = {"kernel": kernel, "random_state": seed}
    if method in (Method.fogd, Method.nogd):
        if alpha is not None or curvature is not Curvature.adaptive or any(drift.values()):
            raise typer.BadParameter(
                f"--alpha, --curvature, --half-life and --alarm-rate are not for {method.value}"
            )
        params |= {} if step is None else {"step": step}
        params |= {"max_atoms": max_atoms, "rank": max(1, max_atoms // 5)} if method is Method.nogd else {}
    else:
        if step is not None:
            raise typer.BadParameter(f"--step is not for {method.value}")
        params |= {"max_atoms": max_atoms, "curvature": curvature.value}
        params |= {} if alpha is None else {"alpha": alpha}
        params |= {name: value or None for name, value in drift.items() if value is not None}
        if method is Method.mixed and "half_life" in params:
            params["half_lives"] = (params.pop("half_life"),)
    return getattr(room, LEARNERS[method] + kind)(**params)
