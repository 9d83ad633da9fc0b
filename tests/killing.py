"""Runs the command again and again in processes that are forked from this one, and kills them where it is told to.

Each line of the input asks for one run; each line of the output says how it ended. A fork costs a tenth of a new
interpreter. This process starts no thread, so that a fork of it is whole. Blocks are as small as they may be, so
that there are many places to be killed at; with --plain they are as large as always.
"""

import json
import os
import signal
import sys
import time

import matplotlib as mpl
import pyarrow.csv
import pyarrow.parquet
import scipy.linalg
import sklearn.utils

import squeak.bandits
import squeak.dpp
import squeak.graphs
import squeak.learners
import squeak.online
import squeak.report
from squeak.cli import main
from squeak.data import blocks as sources
from squeak.data import source
from tests.samplers.runs import kill_at_step_of_write

SMALL_BLOCKS = 8
"""Bytes of a block, so that blocks have as few rows as they may."""


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_block(number):
    """Kill this process when it takes its nth block of rows, over all passes."""
    cut, count = source.cut, [0]

    def counting(*arguments):
        for block in cut(*arguments):
            count[0] += 1
            if count[0] == number:
                die()
            yield block

    source.cut = counting


def run(request):
    """Run the command to its end, or to the place where it is to die."""
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, name in ((1, "said.out"), (2, "said.err")):
        os.dup2(os.open(request["words"] + name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    kill = request["kill"] or ["never"]
    if kill[0] == "write":
        kill_at_step_of_write(kill[1], kill[2])
    if kill[0] == "block":
        kill_at_block(kill[1])
    sys.argv = ["squeak", *request["arguments"]]
    try:
        main()
    except SystemExit as left:
        sys.stdout.flush()
        os._exit(left.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    os._exit(99)


def serve():
    """Answer requests until there are no more."""
    if "--plain" not in sys.argv:
        sources.BLOCK_BYTES = SMALL_BLOCKS
    mpl.use("Agg")
    assert all((pyarrow.csv, pyarrow.parquet, scipy.linalg, sklearn.utils))  # imported before the forks
    assert all((squeak.bandits, squeak.dpp, squeak.graphs, squeak.learners, squeak.online, squeak.report))
    for line in sys.stdin:
        request = json.loads(line)
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            run(request)
        kill = request["kill"]
        if kill is not None and kill[0] == "after":
            time.sleep(kill[1])
            os.kill(child, signal.SIGKILL)  # not waited for yet, so the number is still its own
        _, status = os.waitpid(child, 0)
        answer = {"code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - began}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
