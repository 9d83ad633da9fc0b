"""The command ``squeak serve``, asked by a real client over a socket of this machine."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest

import squeak
from tests.commands import ENVIRONMENT, ROOT

pytest.importorskip("starlette", reason="starlette is not installed: nothing was served")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: nothing was served")
from squeak.cli import serving
from squeak.cli.answering import Answering, RefusedError
from squeak.cli.deploying import serve
from squeak.cli.serving import listening, server_of


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return a folder with models: of a table, of classes, of an array, and one that does not predict."""
    folder = tmp_path_factory.mktemp("serve")
    rng = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(
        {
            "size": rng.gamma(4.0, 25.0, n),
            "town": rng.choice(["Gent", "Lille", "<b>Mons</b>"], n),
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
            "open": pd.to_timedelta(rng.uniform(0, 1e4, n).round(3), "s"),
        }
    )
    y = (2.0 * frame["size"] + 50.0 * (frame["town"] == "Gent") + rng.normal(0, 5, n)).to_numpy()
    frame.loc[::9, "size"] = np.nan
    source = squeak.rows(frame, y, scale="standard", missing="median")
    found = {"table": squeak.KernelRidge(max_atoms=40, random_state=0).fit(source)}
    source = squeak.rows(frame, np.where(y > 200, "dear", "cheap"), scale="standard", missing="median")
    found["classes"] = squeak.KernelClassifier(max_atoms=40, random_state=0).fit(source)
    X = rng.random((n, 3))
    found["array"] = squeak.KernelRidge(max_atoms=30, random_state=0).fit(X, np.column_stack([X[:, 0], X[:, 1]]))
    found["components"] = squeak.KernelPCA(2, max_atoms=30, random_state=0).fit(X)
    for name, model in found.items():
        model.save(folder / f"{name}.sqk")
    frame.to_parquet(folder / "rows.parquet")
    return folder


class Client:
    """Asks the server of a model."""

    def __init__(self, model, port):
        self.model, self.port = model, port

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method, path, body=None, connection=None, **headers):
        """Return status and answer; a body that is not bytes is sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body, headers = json.dumps(body).encode(), {"Content-Type": "application/json", **headers}
        here = connection or self.connect()
        here.request(method, path, body, headers)
        answer = here.getresponse()
        content = answer.read()
        if connection is None:
            here.close()
        is_json = answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(content) if is_json else content.decode()

    def predict(self, *rows, connection=None, **more):
        return self.ask("POST", "/predict", {"rows": list(rows), **more}, connection)


class Running:
    """Servers of models in threads of this process, started when they are first asked for."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}

    def __call__(self, name):
        """Return a client of the server of a model."""
        if name not in self.running:
            model, at = squeak.load(self.folder / f"{name}.sqk"), listening("127.0.0.1", 0)
            server = server_of(Answering(model, f"{name}.sqk", most=50), "127.0.0.1", most_bytes=20_000)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
            thread.start()
            self.running[name] = Client(model, at.getsockname()[1]), server, thread
        return self.running[name][0]

    def end(self):
        for _, server, thread in self.running.values():
            server.should_exit = True
            thread.join(timeout=60)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def served(models):
    running = Running(models)
    yield running
    running.end()


def started(folder, name, *options):
    """Return the command in a process of its own, and a client of it."""
    line = [sys.executable, "-m", "squeak", "serve", f"{name}.sqk", "--port", "0", *map(str, options)]
    env = ENVIRONMENT | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(line, cwd=folder, env=env, text=True, **pipes)
    said = process.stdout.readline()
    assert said.startswith("KernelRidge of table.sqk at http://127.0.0.1:"), process.communicate()[1]
    port = int(said.partition("http://127.0.0.1:")[2].partition(" ")[0])
    return process, Client(squeak.load(folder / f"{name}.sqk"), port)


def ended(process, how):
    """Return exit code, output and errors of a server that is told to end."""
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def as_json(frame):
    """Return the rows of a table as JSON has them."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    for row in rows:
        row["sold"] = row["sold"] and pd.Timestamp(row["sold"]).isoformat()
        row["open"] = row["open"] and pd.Timedelta(row["open"]).total_seconds()
    return rows


def test_predictions_and_intervals_are_those_of_the_model(models, served):
    frame = pd.read_parquet(models / "rows.parquet")[:20]
    server = served("table")
    status, found = server.predict(*as_json(frame), coverage=0.8)
    assert status == 200, found
    assert found["predictions"] == pytest.approx(server.model.predict(frame).tolist(), rel=1e-12)
    low, high = server.model.predict_interval(frame, 0.8)
    assert found["low"] == pytest.approx(low.tolist(), rel=1e-12)
    assert found["high"] == pytest.approx(high.tolist(), rel=1e-12)
    assert found["coverage"] == 0.8
    row = as_json(frame[1:2])[0]
    assert "low" not in server.predict(row, coverage=None)[1]
    extended = {**row, "id": 7, "sold": row["sold"] + "+00:00"}
    assert server.predict(extended)[1]["predictions"] == server.predict(row)[1]["predictions"]
    status, found = server.predict(*[{**row, "town": "Rome"}] * 6)
    assert "'Rome'" in found["warnings"][0]


def test_classes_have_probabilities(models, served):
    frame = pd.read_parquet(models / "rows.parquet")[:20]
    server = served("classes")
    status, found = server.predict(*as_json(frame))
    assert status == 200, found
    assert found["predictions"] == server.model.predict(frame).tolist()
    expected = [
        dict(zip(("cheap", "dear"), row, strict=True)) for row in server.model.predict_proba(frame).tolist()
    ]
    for got, ours in zip(found["probabilities"], expected, strict=True):
        assert got == pytest.approx(ours)
    assert served("classes").ask("GET", "/model")[1]["classes"] == ["cheap", "dear"]


def test_arrays_are_lists(served):
    server = served("array")
    status, found = server.predict([0.1, 0.2, 0.3], [1, 0, 0])
    assert status == 200, found
    expected = server.model.predict([[0.1, 0.2, 0.3], [1, 0, 0]])
    assert np.allclose(found["predictions"], expected)
    assert server.predict([0.1, None, 0.3])[0] == 422
    assert server.predict([0.1, 0.3]) == (422, {"error": "row 0 must be a list of 3 numbers"})


def test_the_model_is_described_and_is_well(served):
    assert served("table").ask("GET", "/health") == (200, {"status": "ok", "model": "KernelRidge"})
    status, said = served("table").ask("GET", "/model")
    assert status == 200
    assert [one["kind"] for one in said["columns"]] == ["number", "category", "date", "duration"]
    assert said["answers"] == ["predictions", "low", "high"]
    assert (said["most_rows"], said["most_bytes"]) == (50, 20_000)
    assert said["columns"][2]["typical"].startswith("2024-")
    for path in ("/", "/report"):
        status, page = served("table").ask("GET", path)
        assert status == 200
        assert page.startswith("<!doctype html>")
        assert "<b>Mons" not in page


GOOD = {"size": 1.0, "town": "Gent", "sold": "2024-01-31", "open": 60}
BAD = {
    "no JSON": (b"{", 400, "the body is not JSON"),
    "not a number": (b'{"rows": [{"size": NaN}]}', 400, "NaN is not a number of JSON"),
    "deep": (b"[" * 9_000 + b"]" * 9_000, 400, "nested too deeply"),
    "long number": (b'{"rows": [{"size": ' + b"9" * 5_000 + b"}]}", 400, "the body is not JSON"),
    "a list": ([1], 422, "a list of rows"),
    "no rows": ({"rows": []}, 422, "there are no rows"),
    "not a row": ({"rows": [5]}, 422, "a row is an object"),
    "mixed": ({"rows": [GOOD, [1]]}, 422, "row 1 is not an object"),
    "another word": ({"rows": [GOOD], "code": "1"}, 422, '"code" is not known here'),
    "coverage": ({"rows": [GOOD], "coverage": 2}, 422, "coverage must lie between 0 and 1"),
    "a column": ({"rows": [{**GOOD, "size": "x"}]}, 422, "row 0: the column 'size' takes a number, not \"x\""),
    "a huge number": ({"rows": [{**GOOD, "size": 10**400}]}, 422, "the column 'size' takes a number"),
    "a date": ({"rows": [{**GOOD, "sold": "31/01/2024"}]}, 422, "takes a date like"),
    "a duration": ({"rows": [{**GOOD, "open": 1e300}]}, 422, "takes a number of seconds"),
    "a category": ({"rows": [{**GOOD, "town": {"a": 1}}]}, 422, "takes text"),
    "half a character": (b'{"rows": [{"\\ud800": 1}]}', 422, "there is no column 'size'"),
    "half a category": (json.dumps({"rows": [{**GOOD, "town": "\ud800"}]}).encode(), 422, "ud800"),
    "a lost column": ({"rows": [{"siz": 1, **dict(list(GOOD.items())[1:])}]}, 422, "did you mean 'siz'?"),
    "rows": ({"rows": [GOOD] * 51}, 413, "there are 51 rows, and a request may have 50"),
    "bytes": ({"rows": [{**GOOD, "town": "x" * 30_000}]}, 413, "the body may have 20,000 bytes"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_told_why(served, name):
    body, status, words = BAD[name]
    got, said = served("table").ask("POST", "/predict", body, **{"Content-Type": "application/json"})
    assert (got, list(said)) == (status, ["error"])
    assert words in said["error"]


def test_a_gap_that_a_model_cannot_fill_is_told():
    frame = pd.DataFrame({"size": np.arange(30.0), "town": ["Gent", "Lille", "Mons"] * 10})
    model = squeak.KernelRidge(max_atoms=10, random_state=0).fit(squeak.rows(frame, frame["size"].to_numpy()))
    with pytest.raises(RefusedError, match="row 0: column 'size' is nan: this model takes no gaps"):
        Answering(model, "m.sqk", most=5).answer({"rows": [{"size": None, "town": "Gent"}]})


def test_other_paths_methods_hosts_and_types(served):
    server = served("table")
    assert server.ask("GET", "/etc/passwd") == (404, {"error": "there is no /etc/passwd"})
    assert server.ask("GET", "/predict") == (405, {"error": "GET is not for /predict"})
    assert server.ask("POST", "/predict", b"{}", **{"Content-Type": "text/plain"})[0] == 415
    for host, said in (
        ("evil.example:80", "evil.example"),
        ("", "nothing"),
        ("localhost.evil.example", "localhost.evil.example"),
    ):
        refused = {"error": f"the header Host names {said}, not this machine"}
        assert server.ask("GET", "/health", Host=host) == (400, refused)
    assert server.ask("GET", "/health", Host="LOCALHOST:1")[0] == 200
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n")
        assert b" 400 " in raw.recv(1000).splitlines()[0]
    assert server.predict(GOOD)[0] == 200


def test_too_many_connections_are_told_in_json(served, monkeypatch):
    server = served("table")
    monkeypatch.setattr(serving, "CONNECTIONS", 3)
    open_ones = [server.connect() for _ in range(2)]
    for connection in open_ones:
        assert server.ask("GET", "/health", connection=connection)[0] == 200
    status, said = server.ask("GET", "/health")
    assert (status, said) == (503, {"error": "the server has 3 connections at most; try again soon"})
    open_ones += [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(140)]
    assert server.ask("GET", "/health") == (status, said)  # also where uvicorn's own limit would be
    for connection in open_ones:
        connection.close()
    deadline = time.monotonic() + 30
    while server.ask("GET", "/health")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def load(server, clients, requests):
    """Return how many answers were not what they should be, when so many clients ask at once."""
    expected, right = server.predict(GOOD), []

    def client():
        connection = server.connect()
        right.extend(server.predict(GOOD, connection=connection) == expected for _ in range(requests // clients))
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert expected[0] == 200
    return requests - sum(right)


def test_eight_clients_at_once(served):
    assert load(served("table"), 8, 160) == 0


@pytest.mark.slow
def test_ten_thousand_requests_by_eight_clients(models):
    process, server = started(models, "table")

    def memory():
        with open(f"/proc/{process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    load(server, 8, 400)
    before, began = memory(), time.perf_counter()
    assert load(server, 8, 10_000) == 0
    print(f"{10_000 / (time.perf_counter() - began):.0f} requests a second, {memory() - before:+.1f} MB")
    assert memory() - before < 30
    assert ended(process, signal.SIGINT) == (0, "stopped\n", "")


def half_a_request(server, tell):
    """Send half a request, call ``tell``, send the rest, and return the first line of the answer."""
    body = json.dumps({"rows": [GOOD]}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body[:5])
        assert server.ask("GET", "/health")[0] == 200  # so that the first part has been read
        tell()
        time.sleep(0.2)
        raw.sendall(body[5:])
        return raw.recv(10_000).splitlines()[0]


def test_a_request_under_way_is_answered_before_the_end(served):
    server = served("classes")

    def tell():
        served.running["classes"][1].should_exit = True

    assert half_a_request(server, tell) == b"HTTP/1.1 200 OK"
    served.running["classes"][2].join(timeout=60)
    with pytest.raises(ConnectionRefusedError):
        server.ask("GET", "/health")
    del served.running["classes"]


@pytest.mark.slow
def test_a_signal_ends_the_command_when_all_is_answered(models):
    process, server = started(models, "table")
    assert half_a_request(server, lambda: process.send_signal(signal.SIGTERM)) == b"HTTP/1.1 200 OK"
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "stopped\n", "")


def test_an_error_within_is_told_in_the_log_alone(served, monkeypatch, caplog):
    def fail(X):
        raise RuntimeError("a secret of the machine")

    server = served("array")
    model = served.running["array"][0].model
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "predict", lambda self, X: fail(X))
        status, said = server.predict([0.1, 0.2, 0.3])
    assert (status, "secret" in said["error"]) == (500, False)
    assert server.predict([0.1, 0.2, 0.3])[0] == 200


def served_by_command(path, port=0):
    return serve(path, host="127.0.0.1", port=port, max_rows=1, max_bytes=100)


def test_a_missing_library_is_named(models, monkeypatch):
    monkeypatch.delitem(sys.modules, "squeak.cli.serving")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match=r"squeak-learn\[serve\]"):
        served_by_command(models / "table.sqk")


def test_what_cannot_be_served_is_refused(models):
    with pytest.raises(ValueError, match="holds a KernelPCA; models that predict can be served"):
        served_by_command(models / "components.sqk")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 cannot be had: Address already in use"):
            served_by_command(models / "table.sqk", port)
