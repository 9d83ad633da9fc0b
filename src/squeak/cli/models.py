"""``squeak fit``, ``predict`` and ``evaluate``."""

from __future__ import annotations

import io
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from squeak.cli.automatic import CHOSEN, FOR_AUTO, fit_auto, reason_for_passes, too_many
from squeak.cli.clusters import Cluster
from squeak.cli.dry import expected_stages, in_memory, in_passes
from squeak.cli.errors import echo, option
from squeak.cli.options import (
    Checkpoint,
    Data,
    Every,
    KernelName,
    Measure,
    Out,
    Quiet,
    Seed,
    given_options,
    kernel_of,
    names_of,
    or_none,
    positive,
    refuse_settled,
)
from squeak.cli.outputs import APOSTROPHES, Overwrite, TableWriter, check_ending, check_outputs, going_on
from squeak.cli.reading import SETTLED as BY_PREPROCESSING
from squeak.cli.reading import Files, Shuffled, source_from
from squeak.cli.tasks import Target, Task, TaskChoice, is_classification
from squeak.core.progress import Job
from squeak.data.streamed import predictions


class Kernels(StrEnum):
    """The kernels that a fit knows, and the word for leaving the choice to it."""

    auto = "auto"
    rbf = "rbf"
    laplacian = "laplacian"
    matern = "matern"
    linear = "linear"


class ClassWeight(StrEnum):
    """How rows of different classes are weighed."""

    none = "none"
    balanced = "balanced"


class Loss(StrEnum):
    """How classes are learned."""

    squared = "squared"
    logistic = "logistic"


Model = Annotated[
    Path, typer.Argument(help="A .sqk file with a model: of `squeak fit`, or local experts that Python has saved.")
]


EVALUATED = 0.9
"""The coverage of the intervals that are evaluated."""

SETTLED = BY_PREPROCESSING | {"kernel", "length_scale", "max_atoms"}
"""Options that a dictionary has settled."""


def fit(
    context: typer.Context,
    data: Data,
    *,
    target: Target,
    out: Out,
    task: TaskChoice = Task.auto,
    reading: Shuffled,
    kernel: Annotated[
        Kernels,
        typer.Option(
            help="With auto, all settings are chosen by errors on held-out rows, in memory. With another kernel "
            "the rows are read in passes, and there may be any number of them."
        ),
    ] = Kernels.auto,
    length_scale: Annotated[
        str, typer.Option(help="The width of the kernel: a number, 'median', 'auto' or 'learned' (one per column).")
    ] = "auto",
    alpha: Annotated[
        str, typer.Option(help="The penalty that keeps the model smooth: a number, or 'auto'.")
    ] = "auto",
    max_atoms: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many rows the model keeps at most: 1000, or with --kernel auto as many as suit the data.",
            show_default=False,
        ),
    ] = None,
    time_budget: Annotated[
        float | None,
        typer.Option(
            help="With --kernel auto, how many seconds pass until nothing new is tried. Boosted trees and one "
            "model of all rows are learned in any case."
        ),
    ] = None,
    trees: Annotated[
        bool, typer.Option(help="With --kernel auto, whether boosted trees may be a part of the model.")
    ] = True,
    loss: Annotated[Loss, typer.Option(help="The loss for classes; squared is the fast one.")] = Loss.squared,
    class_weight: Annotated[
        ClassWeight, typer.Option(help="With balanced, all classes get the same weight, however rare they are.")
    ] = ClassWeight.none,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            help="Use this dictionary, which `squeak dictionary` wrote, with its kernel, columns and scales.",
            show_default=False,
        ),
    ] = None,
    checkpoint: Checkpoint = None,
    every: Every = 30.0,
    cluster: Cluster,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Learn nothing; say which columns were recognised, what would be done, and what it would cost.",
        ),
    ] = False,
    measure: Measure = False,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Learn to predict a column of DATA, and write the model to a file.

    Example: squeak fit houses.csv --target price --out houses.sqk

    By default the model is AutoRegressor or AutoClassifier, which choose all settings by errors on held-out rows.
    This needs the rows in memory, and is done for up to a million rows that take up to 2 GB as numbers.

    If there are more rows, or if you give --kernel, --length-scale, --alpha, --loss, --class-weight, --dictionary,
    --checkpoint, --workers or --scheduler, the rows are read in passes. One pass chooses a dictionary, a small set
    of rows that stands for all of them, and another fits KernelRidge or KernelClassifier on it.
    """
    import squeak as sq

    def learned() -> list[str]:
        given = given_options(context)
        why = reason_for_passes(given & CHOSEN)
        asked = kernel
        if asked is Kernels.auto and ("kernel" in given or why is None):
            refuse_settled(context, CHOSEN, "--kernel auto chooses these itself, in this process")
            check_outputs([*data], overwrite=overwrite, squeak_files=[out])
            automatic = replace(reading, **{name: value for name, value in FOR_AUTO.items() if name not in given})
            source = source_from(automatic, data, target, seed=seed)
            why = None if "kernel" in given else too_many(source)
            if why is None:
                classes = is_classification(task, source, quiet)
                chooses = sq.AutoClassifier if classes else sq.AutoRegressor
                chosen: Any = chooses(max_atoms=max_atoms, time_budget=time_budget, trees=trees, random_state=seed)
                if dry_run:
                    return [in_memory(source, chosen, measure=measure)]
                return fit_auto(source, chosen.set_params(verbose=0 if quiet else 1), out)
        for name in sorted(given & {"time_budget", "trees"}):
            raise typer.BadParameter(f"{option(name)} is for --kernel auto" + (f"; {why}" if why else ""))
        if asked is Kernels.auto:
            asked = Kernels.rbf
            if not quiet and dictionary is None:
                echo(f"{why}: learned in passes, with an RBF kernel")

        if dictionary is not None:
            refuse_settled(context, SETTLED, "--dictionary settles columns, scales, kernel and size")
        check_outputs([*data, dictionary], overwrite=overwrite, squeak_files=[out], states=[checkpoint])
        penalty = _alpha(alpha)
        known: Any = "learn"
        choice: dict[str, Any] = {
            "kernel": kernel_of(KernelName(asked.value), length_scale),
            "max_atoms": max_atoms or 1000,
        }
        if dictionary is not None:
            loaded = sq.Dictionary.load(dictionary)
            known, choice = loaded.preprocessing, {"dictionary": loaded}
            if target in getattr(loaded.preprocessing, "column_names", ()):
                raise ValueError(
                    f"the rows of {dictionary} have the column {target!r}, which is to be predicted from them: "
                    f"learn the dictionary with --target {target}"
                )
        source = source_from(reading, data, target, preprocessing=known, seed=seed)
        params: dict[str, Any] = {
            **choice,
            "alpha": penalty,
            "random_state": seed,
            "verbose": 0 if quiet else 1,
        }
        learner: Any
        if is_classification(task, source, quiet):
            learner = sq.KernelClassifier(**params, loss=loss.value, class_weight=or_none(class_weight))
        else:
            if class_weight is not ClassWeight.none:
                raise typer.BadParameter("--class-weight is for classes: --task classification")
            if loss is Loss.logistic:
                raise typer.BadParameter("--loss logistic is for classes: --task classification")
            learner = sq.KernelRidge(**params, fit_intercept=True)
        if dry_run:
            return [in_passes(source, learner, cluster.workers, measure=measure)]
        Job.current().expect(expected_stages(source, learner))
        with cluster.client() if cluster.wanted() else nullcontext(), going_on(checkpoint, quiet):
            learner.fit(source, checkpoint=checkpoint, every=every)
        learner.save(out)
        found = learner.dictionary_
        skipped = f", {source.skipped_:,} skipped" if source.skipped_ else ""
        return [
            f"{found.n_seen:,} rows{skipped}; {type(learner).__name__} on {len(found):,} atoms → {out}",
            f"{found.kernel}, alpha {learner.alpha_:.4g}, solver {learner.solver_}",
        ]

    if measure and not dry_run:
        raise typer.BadParameter("--measure goes with --dry-run, and is what squeak plan fit does")
    with Job("fit", not quiet and not dry_run):
        lines = learned()
    for line in lines if not quiet or dry_run else ():
        echo(line)


def predict(
    model: Model,
    data: Data,
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The .parquet or .csv file to write.", show_default=False)
    ],
    probabilities: Annotated[bool, typer.Option(help="Also write the probability of each class.")] = False,
    std: Annotated[
        bool,
        typer.Option(help="Also write the standard deviation of a new target, in its units (regression only)."),
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Also write columns low and high, between which this share of new targets lies, for example 0.9."
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help="Columns of DATA to write beside the predictions, separated by commas.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Predict some rows, write nothing, and tell how long all would take.")
    ] = False,
    reading: Files,
    overwrite: Overwrite = False,
) -> None:
    """Predict every row of DATA and write the predictions to a file; DATA may be larger than memory.

    The predictions are in the order of the rows. With --on-bad-rows skip they have a column `row` with the number
    of the row in DATA, counted from 0.
    """
    from squeak.core.outputs import replacing

    check_ending(out, ".parquet", ".csv")
    check_outputs([model, *data], overwrite=overwrite, others=[out])
    learner = _loaded(model)
    if probabilities and not hasattr(learner, "classes_"):
        raise ValueError("--probabilities is for classes, and this model predicts numbers")
    if probabilities and not hasattr(learner, "predict_proba"):
        raise ValueError("this model has no probabilities: its file is of an older version; fit it anew")
    for name, asked in (("--std", std), ("--interval", interval is not None)):
        if asked and hasattr(learner, "classes_"):
            raise ValueError(f"{name} is for regression")
    if interval is not None and not 0.0 < interval < 1.0:
        raise typer.BadParameter(f"--interval lies strictly between 0 and 1, not {interval}")
    source = _rows_for(learner, model, reading, data)
    columns: dict[str, Any] = {
        "keep": names_of(keep) or (),
        "probabilities": probabilities,
        "std": std,
        "coverage": interval,
    }
    if dry_run:
        from squeak.cli.forecast_answers import of_prediction

        write = TableWriter(io.BytesIO(), out.suffix).write
        echo("\n".join([*of_prediction(source, learner, write, **columns).lines(), "nothing was written"]))
        return
    rows = 0
    with replacing(out) as stream:
        writer = TableWriter(stream, out.suffix)
        for batch in learner.predict_arrow(source, **columns):
            writer.write(batch)
            rows += batch.num_rows
        writer.close()
    if writer.changed:
        echo(APOSTROPHES, err=True)
    skipped = f", {source.skipped_:,} skipped" if source.skipped_ else ""
    echo(f"{rows:,} rows predicted{skipped} → {out}")


def evaluate(
    model: Model,
    data: Data,
    target: Target,
    reading: Files,
) -> None:
    """Measure the errors of a model on DATA, and compare them with those of a constant prediction."""
    from squeak.cli.answering import knows_errors
    from squeak.cli.pages import classification_scores, regression_scores

    learner = _loaded(model)
    used = getattr(learner.preprocessing_, "column_names", ())
    if target in used:
        raise ValueError(
            f"the model predicts from the column {target!r}, so it is not its target; those are {', '.join(used)}"
        )
    source = _rows_for(learner, model, reading, data, target)
    predicted, truth, chances = [], [], []
    classes = hasattr(learner, "classes_")
    coverage = EVALUATED if knows_errors(learner) else None
    for block in source.blocks():
        columns = predictions(learner, block, classes and hasattr(learner, "predict_proba"), coverage=coverage)
        predicted.append(columns.pop("prediction"))
        truth.append(block.y)
        if columns:
            chances.append(np.column_stack(list(columns.values())))
    guess, real = np.concatenate(predicted), np.concatenate(truth)
    if classes:
        p = np.concatenate(chances) if chances else None
        echo(classification_scores(guess, real, learner.classes_, p))
        return
    real = np.asarray(real, dtype=np.float64)
    echo(regression_scores(guess, real, _mean_of(learner, real)))
    if chances:
        low, high = np.concatenate(chances).T
        echo(
            f"{EVALUATED:.0%} interval: {np.mean((low <= real) & (real <= high)):.1%} of the targets lie in it, "
            f"mean width {np.mean(high - low):.4g}"
        )


def _rows_for(learner: Any, path: Path, reading: Any, data: list[str], target: str | None = None) -> Any:
    """Return the rows of DATA as a model takes them, or say that it does not know the columns of a table."""
    source, made = source_from(reading, data, target, preprocessing=learner.preprocessing_), learner.preprocessing_
    if made is None and (table := source.preprocessing) is not None:
        count = learner.n_features_in_
        if target is None or table.n_features != count:
            raise ValueError(
                f"the model of {path} was fitted to an array of {count} columns, so that it does not know those of "
                f"a table: save its rows with numpy.save and give the .npy file, or fit it to squeak.rows(...)"
            )
        order = ", ".join(table.column_names)
        echo(f"the model was fitted to an array: columns are taken in their order, {order}", err=True)
    return source


def _mean_of(learner: Any, real: Any) -> float:
    """Return the mean target of the fit; that of the rows at hand where the model does not tell it."""
    return float(learner.intercept_[0]) if hasattr(learner, "intercept_") else float(np.mean(real))


def _alpha(text: str) -> float | str:
    if text == "auto":
        return "auto"
    try:
        return positive(float(text)) or 1.0
    except ValueError:
        raise typer.BadParameter(f"--alpha is a number or 'auto', not {text!r}") from None


def _loaded(path: Path) -> Any:
    import squeak as sq

    learner = sq.load(path)
    chosen = sq.AutoRegressor | sq.AutoClassifier | sq.LocalExperts
    if not isinstance(learner, sq.KernelRidge | sq.KernelClassifier | chosen):
        raise ValueError(
            f"{path} holds a {type(learner).__name__}; this is for models of squeak fit and for LocalExperts"
        )
    dimensions = learner.dimensions_ if isinstance(learner, chosen) else learner.dual_coef_.ndim
    if not hasattr(learner, "classes_") and dimensions > 1:
        raise ValueError(f"{path} predicts several outputs at once; the command knows one")
    return learner
