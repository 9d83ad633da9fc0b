"""What predictions for a file will take, or learning it as a stream, from the same for some of its rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from squeak.cli.forecast import Forecast, count_rows

MEASURED = 3.0
"""Seconds of work by which all of it is reckoned, or two blocks."""


def of_prediction(source: Any, learner: Any, write: Callable[[Any], None], **asked: Any) -> Forecast:
    """Predict some of the rows as a command does, and say what all of them take.

    ``write``: takes a batch of predictions. ``asked``: what ``predict_arrow`` takes beside the rows.
    """

    def done() -> Iterator[int]:
        for batch in learner.predict_arrow(source, **asked):
            write(batch)
            yield batch.num_rows

    return _of_blocks("prediction", source, done())


def of_stream(source: Any, model: Any) -> Forecast:
    """Let an online learner predict and learn some of the rows as a command does, and say what all of them take."""
    from squeak.online.checkpoint import POINTS

    done = (len(tested.y) for tested in model.test_then_train_blocks(source, n_blocks=POINTS))
    return _of_blocks("learning", source, done)


def _of_blocks(stage: str, source: Any, done: Iterator[int]) -> Forecast:
    """Say what a pass over all rows takes, from its first blocks; those to come are as fast as the later half.

    ``done``: does the work of a block, and gives the number of its rows.
    """
    start, (rows, exact) = time.process_time(), count_rows(source)  # which the command itself does not ask for
    begin = time.perf_counter()
    read, marks = 0, [(0, 0.0)]
    for block in done:
        read += block
        marks.append((read, time.perf_counter() - begin))
        if len(marks) > 2 and marks[-1][1] > MEASURED:
            break
    before, (last, spent) = marks[len(marks) // 2], marks[-1]
    price = (spent - before[1]) / (last - before[0]) if last > before[0] else spent / last
    whole = spent + price * max(0, rows - last)
    return Forecast({"start": start, stage: whole}, rows, exact, 1, 0.0, None, spent)
