"""``squeak fit``, ``predict`` and ``evaluate``."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from squeak.cli.cluster import cluster
from squeak.cli.errors import echo
from squeak.cli.options import (
    BadRows,
    Categories,
    CategoriesAs,
    Checkpoint,
    Data,
    Delimiter,
    Every,
    Header,
    KernelChoice,
    KernelName,
    LearnRows,
    MaxCategories,
    Missing,
    MissingAs,
    Names,
    NaValues,
    OnBadRows,
    Out,
    Scale,
    ScaleBy,
    Seed,
    TlsFile,
    kernel_of,
    names_of,
    or_none,
    positive,
    refuse_settled,
)
from squeak.cli.outputs import APOSTROPHES, Overwrite, TableWriter, check_outputs, going_on


class Task(StrEnum):
    """What is learned."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


class Loss(StrEnum):
    """How classes are learned."""

    squared = "squared"
    logistic = "logistic"


Model = Annotated[Path, typer.Argument(help="A model, as `squeak fit` writes it.")]
Target = Annotated[str, typer.Option(help="The column to predict.", show_default=False)]


SETTLED = {"columns", "drop", "scale", "categories", "missing", "learn_rows", "max_categories"}
SETTLED |= {"kernel", "length_scale", "max_atoms"}
"""Options that a dictionary has settled."""


def fit(
    context: typer.Context,
    data: Data,
    target: Target,
    out: Out,
    task: Annotated[
        Task, typer.Option(help="auto: text and truth values are classes, numbers are not.")
    ] = Task.auto,
    columns: Names = None,
    drop: Names = None,
    scale: ScaleBy = Scale.standard,
    categories: CategoriesAs = Categories.onehot,
    missing: MissingAs = Missing.none,
    on_bad_rows: OnBadRows = BadRows.refuse,
    learn_rows: LearnRows = 20_000,
    max_categories: MaxCategories = 100,
    delimiter: Delimiter = None,
    header: Header = None,
    na_values: NaValues = None,
    kernel: KernelChoice = KernelName.rbf,
    length_scale: Annotated[str, typer.Option(help="The kernel's width: a number, 'median' or 'auto'.")] = "auto",
    alpha: Annotated[str, typer.Option(help="The penalty: a number, or 'auto' (1 with --loss logistic).")] = "auto",
    max_atoms: Annotated[int, typer.Option(min=1, help="The size of the dictionary.")] = 1000,
    loss: Annotated[Loss, typer.Option(help="For classes; logistic gives probabilities.")] = Loss.squared,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            help="Learn on this dictionary, with its kernel, columns and scales, as `squeak dictionary` writes it.",
            show_default=False,
        ),
    ] = None,
    checkpoint: Checkpoint = None,
    every: Every = 30.0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Learn in so many processes.", show_default=False)
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="The address of a Dask scheduler, to learn on its cluster.", show_default=False),
    ] = None,
    tls_ca: TlsFile = None,
    tls_cert: TlsFile = None,
    tls_key: TlsFile = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """Learn to predict a column of DATA, and write the model to a file.

    A dictionary is learned in one pass (SQUEAK; DISQUEAK on workers), ridge regression or classification on it in
    another.
    """
    import squeak as sq

    if dictionary is not None:
        refuse_settled(context, SETTLED, "--dictionary settles columns, scales, kernel and size")
    check_outputs([*data, dictionary], overwrite=overwrite, squeak_files=[out], states=[checkpoint])
    if workers is not None and scheduler is not None:
        raise typer.BadParameter("--workers starts processes here, --scheduler uses a cluster: give one of them")
    if checkpoint is not None and (workers is not None or scheduler is not None):
        raise typer.BadParameter("--checkpoint is for a fit in this process, without --workers and --scheduler")
    penalty = _alpha(alpha, loss)
    how: dict[str, Any] = {
        "columns": names_of(columns),
        "drop": names_of(drop) or (),
        "scale": or_none(scale),
        "categories": or_none(categories),
        "missing": or_none(missing),
    }
    choice: dict[str, Any] = {"kernel": kernel_of(kernel, length_scale), "max_atoms": max_atoms}
    if dictionary is not None:
        given = sq.Dictionary.load(dictionary)
        how, choice = {"preprocessing": given.preprocessing}, {"dictionary": given}
        if target in getattr(given.preprocessing, "column_names", ()):
            raise ValueError(
                f"the rows of {dictionary} have the column {target!r}, which is to be predicted from them: learn "
                f"the dictionary with --target {target}"
            )
    source = sq.rows(
        data if len(data) > 1 else data[0],
        target,
        on_bad_rows=on_bad_rows.value,
        learn_rows=learn_rows,
        max_categories=max_categories,
        delimiter=delimiter,
        header=header,
        na_values=names_of(na_values) or (),
        **how,
    )
    params: dict[str, Any] = {
        **choice,
        "alpha": penalty,
        "random_state": seed,
        "verbose": 0 if quiet else 1,
    }
    learner: Any
    if _is_classification(task, source):
        learner = sq.KernelClassifier(**params, loss=loss.value)
    else:
        if loss is Loss.logistic:
            raise typer.BadParameter("--loss logistic is for classes: --task classification")
        learner = sq.KernelRidge(**params, fit_intercept=True)
    if workers is None and scheduler is None:
        with going_on(checkpoint, quiet):
            learner.fit(source, checkpoint=checkpoint, every=every)
    else:
        with cluster(workers, scheduler, {"ca": tls_ca, "cert": tls_cert, "key": tls_key}):
            learner.fit(source)
    learner.save(out)
    if not quiet:
        found = learner.dictionary_
        skipped = f", {source.skipped_:,} skipped" if source.skipped_ else ""
        echo(f"{found.n_seen:,} rows{skipped}; {type(learner).__name__} on {len(found):,} atoms → {out}")
        echo(f"{found.kernel}, alpha {learner.alpha_:.4g}, solver {learner.solver_}")


def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write: .parquet or .csv.", show_default=False)
    ],
    probabilities: Annotated[bool, typer.Option(help="A column for each class; needs --loss logistic.")] = False,
    std: Annotated[
        bool,
        typer.Option(help="A regression's standard deviation too, on the kernel's scale: 1 far from all rows."),
    ] = False,
    on_bad_rows: OnBadRows = BadRows.refuse,
    delimiter: Delimiter = None,
    header: Header = None,
    na_values: NaValues = None,
    overwrite: Overwrite = False,
) -> None:
    """Predict every row of DATA, in its order, and write Parquet or CSV; DATA may be larger than memory.

    Where rows may be skipped, a column `row` says which row of DATA each prediction is for, from 0.
    """
    import pyarrow as pa

    from squeak.core.storage import replacing

    if out.suffix not in (".parquet", ".csv"):
        raise typer.BadParameter(f"--out ends in .parquet or .csv; it is {out}")
    check_outputs([model, *data], overwrite=overwrite, others=[out])
    learner = _loaded(model)
    if probabilities and not hasattr(learner, "predict_proba"):
        raise ValueError("this model has no probabilities: fit it with --loss logistic")
    if std and hasattr(learner, "classes_"):
        raise ValueError("--std is for regression")
    source = _opened(learner, data, None, on_bad_rows, delimiter, header, na_values)
    rows = 0
    with replacing(out) as stream:
        writer = TableWriter(stream, out.suffix)
        for block in _blocks(source):
            columns = _predictions(learner, block.X, probabilities, std)
            if source.skip:
                columns = {"row": block.numbers, **columns}
            table = pa.table(columns)
            writer.write(table)
            rows += table.num_rows
        writer.close()
    if writer.changed:
        echo(APOSTROPHES, err=True)
    skipped = f", {source.skipped_:,} skipped" if source.skipped_ else ""
    echo(f"{rows:,} rows predicted{skipped} → {out}")


def evaluate(
    model: Model,
    data: Data,
    target: Target,
    on_bad_rows: OnBadRows = BadRows.refuse,
    delimiter: Delimiter = None,
    header: Header = None,
    na_values: NaValues = None,
) -> None:
    """Compare a model's predictions with a column of DATA, beside a baseline that knows no rows."""
    from squeak.page import classification_scores, regression_scores

    learner = _loaded(model)
    source = _opened(learner, data, target, on_bad_rows, delimiter, header, na_values)
    predicted, truth, chances = [], [], []
    for block in _blocks(source):
        columns = _predictions(learner, block.X, hasattr(learner, "predict_proba"), False)
        predicted.append(columns.pop("prediction"))
        truth.append(block.y)
        if columns:
            chances.append(np.column_stack(list(columns.values())))
    guess, real = np.concatenate(predicted), np.concatenate(truth)
    if hasattr(learner, "classes_"):
        p = np.concatenate(chances) if chances else None
        echo(classification_scores(guess, real, learner.classes_, p))
    else:
        echo(regression_scores(guess, np.asarray(real, dtype=np.float64), float(learner.intercept_[0])))


def _alpha(text: str, loss: Loss) -> float | str:
    if text == "auto":
        return "auto" if loss is Loss.squared else 1.0
    try:
        return positive(float(text)) or 1.0
    except ValueError:
        raise typer.BadParameter(f"--alpha is a number or 'auto', not {text!r}") from None


def _is_classification(task: Task, source: Any) -> bool:
    if task is not Task.auto:
        return task is Task.classification
    for block in source.blocks():
        return bool(block.y.dtype.kind in "OUSb")
    raise ValueError("there are no rows")


def _loaded(path: Path) -> Any:
    import squeak as sq

    learner = sq.load(path)
    if not hasattr(learner, "_values"):
        raise ValueError(f"{path} holds a {type(learner).__name__}; this is for models of squeak fit")
    if not hasattr(learner, "classes_") and learner.dual_coef_.ndim > 1:
        raise ValueError(f"{path} predicts {learner.dual_coef_.shape[1]} outputs at once; the command knows one")
    return learner


def _opened(
    learner: Any,
    data: list[str],
    target: str | None,
    on_bad_rows: BadRows,
    delimiter: str | None,
    header: bool | None,
    na_values: str | None,
) -> Any:
    import squeak as sq

    used = getattr(learner.dictionary_.preprocessing, "column_names", ())
    if target in used:
        raise ValueError(
            f"the model predicts from the column {target!r}, so it is not its target; those are {', '.join(used)}"
        )
    return sq.rows(
        data if len(data) > 1 else data[0],
        target,
        preprocessing=learner.dictionary_.preprocessing,
        on_bad_rows=on_bad_rows.value,
        delimiter=delimiter,
        header=header,
        na_values=names_of(na_values) or (),
    )


def _blocks(source: Any) -> Iterator[Any]:
    """Give the blocks of rows; how missing values are filled was decided when the model was fitted."""
    try:
        yield from source.blocks()
    except ValueError as error:
        fitted = str(error).replace("or fill missing values with", "or fit the model with")
        raise ValueError(fitted) from None


def _predictions(learner: Any, rows: Any, probabilities: bool, std: bool) -> dict[str, Any]:
    """Return the columns of predictions for rows as the kernel takes them."""
    values = learner._values(rows)
    if not hasattr(learner, "classes_"):
        found = {"prediction": values[:, 0]}
        return {**found, "std": learner._std(rows)} if std else found
    from squeak.learners.logistic import probabilities as chances

    two = values.shape[1] == 1
    places = (values[:, 0] > 0).astype(np.intp) if two else values.argmax(axis=1)
    found = {"prediction": learner.classes_[places]}
    if probabilities:
        p = chances(values)
        p = np.hstack([1.0 - p, p]) if two else p
        found |= {f"p({name})": p[:, place] for place, name in enumerate(learner.classes_.tolist())}
    return found
