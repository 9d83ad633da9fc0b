"""The command in processes of its own: forked from one that has imported everything, a tenth of a new one's cost.

SQUEAK_COMMANDS=new starts a new interpreter for each; ``make test-slow`` does.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


class Server:
    """The process that runs the command, and kills it where it is told to; see tests/killing.py."""

    def __init__(self, words, *options, **environment):
        self._words = str(words) + "/"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.killing", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**ENVIRONMENT, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **environment},
        )

    def run(self, folder, arguments, kill=None, environment=None):
        request = {"folder": str(folder), "arguments": arguments, "kill": kill, "words": self._words}
        self._process.stdin.write(json.dumps(request | {"environment": environment or {}}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def said(self, stream="err"):
        return (Path(self._words) / f"said.{stream}").read_text()

    def end(self):
        self._process.stdin.close()
        assert self._process.wait(timeout=60) == 0
        self._process.stdout.close()


@cache
def _server():
    words = tempfile.TemporaryDirectory()
    server = Server(words.name, "--plain")
    atexit.register(words.cleanup)
    atexit.register(server.end)
    return server


def command(*arguments, module=True, cwd=None, new=False, **environment):
    """Run the command and return how it ended: ``returncode``, ``stdout`` and ``stderr``."""
    start = [sys.executable, "-m", "squeak"] if module else [str(Path(sys.executable).with_name("squeak"))]
    line = [*start, *map(str, arguments)]
    if new or not module or os.environ.get("SQUEAK_COMMANDS") == "new":
        env = ENVIRONMENT | environment
        return subprocess.run(line, capture_output=True, text=True, env=env, timeout=300, cwd=cwd, check=False)
    server = _server()
    answer = server.run(cwd or os.getcwd(), line[3:], environment=environment)
    return subprocess.CompletedProcess(line, answer["code"], server.said("out"), server.said())
