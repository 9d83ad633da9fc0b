"""What predictions for a file will take, from those for some of its rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from squeak.cli.forecast import Forecast, count_rows

PREDICTED = 3.0
"""Seconds for which rows are predicted to learn what one takes, or two blocks."""


def of_prediction(source: Any, learner: Any, write: Callable[[Any], None], **asked: Any) -> Forecast:
    """Predict some of the rows as a command does, and say what all of them take.

    ``write``: takes a batch of predictions. ``asked``: what ``predict_arrow`` takes beside the rows.
    """
    start, begin = time.process_time(), time.perf_counter()
    rows, exact = count_rows(source)
    read, marks = 0, []
    for batch in learner.predict_arrow(source, **asked):
        write(batch)
        read += batch.num_rows
        marks.append((read, time.perf_counter() - begin))
        if len(marks) > 1 and marks[-1][1] > PREDICTED:
            break
    first, last = marks[0], marks[-1]
    if read < rows and len(marks) > 1:
        spent = first[1] + (last[1] - first[1]) / (last[0] - first[0]) * (rows - first[0])
    else:
        spent = last[1] * rows / read
    return Forecast({"start": start, "prediction": spent}, rows, exact, 1, 0.0, None, last[1])
