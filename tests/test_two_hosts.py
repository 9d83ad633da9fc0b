"""A cluster on two hosts with a slow and lossy way between them: the bits of one thread, or one clear error."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests import chaos, two_hosts

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("ip") is None,
        reason="only root, with the command ip, makes network namespaces",
    ),
]

RUNS, SECONDS = 12, 90.0
"""Runs, and seconds within which each must have ended."""


@pytest.mark.parametrize(("place", "cut"), [(0, 0.0), (0, 0.004), (1, 0.004)])
def test_two_hosts_with_delay_and_loss(place, cut, tmp_path):
    """The client is on the host of the scheduler, or on the other one: then its connection is cut as well."""
    direct, door = (f"tcp://{two_hosts.HOSTS[0]}:{port}" for port in (two_hosts.SCHEDULER, two_hosts.DOORS[0]))
    scheduler = ("distributed.cli.dask_scheduler", "--host", two_hosts.HOSTS[0], "--port", str(two_hosts.SCHEDULER))
    relay = ("tests.two_hosts", "relay", str(place), str(cut), str(tmp_path / "relay.json"))
    with (
        two_hosts.namespaces() as hosts,
        two_hosts.kept_alive(hosts[0], *scheduler, "--no-dashboard"),
        two_hosts.kept_alive(hosts[0], *relay),
        two_hosts.kept_alive(hosts[0], *two_hosts.worker(0, direct)),
        two_hosts.kept_alive(hosts[1], *two_hosts.worker(1, door)),
    ):
        words = ("client", (direct, door)[place], str(tmp_path), str(RUNS), str(SECONDS))
        line = ["ip", "netns", "exec", hosts[place], sys.executable, "-m", "tests.two_hosts", *words]
        environment = chaos.environment() | {"SQUEAK_WORKER_WAIT": "30"}
        done = subprocess.run(
            line,
            env=environment,
            cwd=chaos.ROOT,
            timeout=RUNS * SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    ends = [json.loads(text) for text in (tmp_path / "ends.jsonl").read_text().splitlines()]
    counts = json.loads((tmp_path / "relay.json").read_text())
    log = chaos.Log(os.environ.get("SQUEAK_CHAOS_LOG"))
    kind = f"connection cut, client on the {('first', 'second')[place]} host"
    for run in ends:
        if run["cuts"]:
            log.note(kind, run["cuts"], run["end"], run["seconds"])
    assert len(ends) == RUNS
    assert {run["end"] for run in ends} <= ({"same bits", "clear error"} if cut else {"same bits"}), ends
    assert sum(run["end"] == "same bits" for run in ends) >= RUNS // 2, ends
    assert counts["chunks"] > 100
    assert (log.count() >= 3) == (cut > 0.0), counts
