"""Files elsewhere, by their URL: the same rows, no secrets in what is stored; folders that say columns."""

import http.server
import threading
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import KernelRidge, Squeak
from squeak.data.remote import public
from squeak.kernels import RBF

fsspec = pytest.importorskip("fsspec")
SECRET = "wJalrXUtnFEMI"


def frames():
    rng = np.random.default_rng(0)
    return {
        (year, to): pd.DataFrame({"x": rng.standard_normal(60), "y": rng.standard_normal(60)})
        for year in (2019, 2020)
        for to in ("AMS", "Lille é")
    }


def whole():
    parts = [part.assign(year=float(year), to=to) for (year, to), part in frames().items()]
    return pd.concat(parts, ignore_index=True)


def files(ending):
    """Yield the name and the bytes of every file of a table that is cut into folders."""
    for (year, to), part in frames().items():
        content = part.to_parquet() if ending == "parquet" else part.to_csv(index=False).encode()
        yield f"year={year}/to={quote(to)}/part.{ending}", content


def lay_down(folder, ending):
    for name, content in files(ending):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "_SUCCESS").write_text("")
    return folder


@pytest.fixture
def memory():
    """Yield the URL of a folder in fsspec's file system in memory."""
    store = fsspec.filesystem("memory")
    for name, content in files("parquet"):
        store.pipe(f"/squeak-test/{name}", content)
    yield "memory://squeak-test"
    store.rm("/squeak-test", recursive=True)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_names_of_folders_give_columns(ending, tmp_path):
    source = squeak.rows(lay_down(tmp_path, ending), "y")
    X, y = source.collect()
    expected, values = squeak.rows(whole(), "y", categories={"to": ["AMS", "Lille é"], "*": "onehot"}).collect()
    assert source.column_names == ("x", "year", "to")
    assert np.array_equal(X, expected)
    assert np.array_equal(y, values)
    assert squeak.rows(tmp_path / "year=2019", "y", columns=["year"]).collect()[0].tolist() == [[2019.0]] * 120
    classes = squeak.rows(tmp_path, "to", columns=["x"]).collect()[1]
    assert classes.tolist() == whole().to.tolist()


def test_a_column_of_the_file_stands_before_that_of_its_folder(tmp_path):
    (tmp_path / "x=7").mkdir()
    frames()[2019, "AMS"].to_parquet(tmp_path / "x=7" / "a.parquet")
    assert squeak.rows(tmp_path, "y").collect()[0][0, 0] == frames()[2019, "AMS"].x[0]


def test_a_run_over_folders_is_resumed_from_its_checkpoint(tmp_path):
    source = squeak.rows(lay_down(tmp_path / "t", "parquet"), "y", categories={"year": "onehot", "*": "onehot"})
    again = squeak.data.reopen(source.recipe, source.preprocessing)
    assert again.fingerprint == source.fingerprint
    assert np.array_equal(again.collect()[0], source.collect()[0])


def test_files_elsewhere_give_the_rows_of_files_here(memory, tmp_path):
    expected, y = squeak.rows(lay_down(tmp_path, "parquet"), "y").collect()
    for url in (memory, f"{memory}/*/*/*.parquet", f"{memory}/**/part.parquet"):
        source = squeak.rows(url, "y")
        for _ in range(2):
            X, found = source.collect()
            assert np.array_equal(X, expected)
            assert np.array_equal(found, y)
    one = squeak.rows(f"{memory}/year=2019/to=AMS/part.parquet", "y", columns=["x"])
    assert np.array_equal(one.collect()[0], frames()[2019, "AMS"][["x"]].to_numpy())
    assert squeak.data.reopen(one.recipe, one.preprocessing).fingerprint == one.fingerprint


def test_what_is_not_there_is_named(memory):
    with pytest.raises(FileNotFoundError, match=r"there is no file memory://squeak-test/none.csv"):
        squeak.rows(f"{memory}/none.csv")
    with pytest.raises(FileNotFoundError, match=r"no file matches memory://squeak-test/\*.csv"):
        squeak.rows(f"{memory}/*.csv")
    with pytest.raises(ValueError, match="storage_options are for URLs"):
        squeak.rows("x.csv", storage_options={"anonymous": True})


def test_a_file_elsewhere_that_is_replaced_is_an_error(memory):
    source = squeak.rows(f"{memory}/year=2019/to=AMS/part.parquet", "y")
    source.collect()
    fsspec.filesystem("memory").pipe("/squeak-test/year=2019/to=AMS/part.parquet", whole().to_parquet())
    with pytest.raises(ValueError, match="was changed or replaced"):
        source.collect()


def test_a_url_is_shown_without_what_may_be_secret():
    given = f"s3://AKIA:{SECRET}@bucket/a/b.parquet?secret_key={SECRET}#x"
    assert public(given) == "s3://bucket/a/b.parquet"
    assert public("https://host:8080/x.csv?sig=1") == "https://host:8080/x.csv"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one CSV file, in ranges too, where the query has the right word."""

    content = frames()[2019, "AMS"].to_csv(index=False).encode()

    def do_HEAD(self, body=False):
        good = self.path == f"/flights.csv?sig={SECRET}"
        self.send_response(200 if good else 403)
        self.send_header("Content-Length", str(len(self.content) if good else 0))
        self.end_headers()
        if good and body:
            self.wfile.write(self.content)

    def do_GET(self):
        self.do_HEAD(body=True)

    def log_message(self, *words):
        return


def test_a_file_of_a_web_server_is_read_by_its_address(tmp_path):
    pytest.importorskip("aiohttp")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/flights.csv"
        source = squeak.rows(f"{address}?sig={SECRET}", "y")
        assert np.array_equal(source.collect()[0], frames()[2019, "AMS"][["x"]].to_numpy())
        assert source.recipe is None
        Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(source, checkpoint=tmp_path / "run.sqk")
        assert SECRET.encode() not in (tmp_path / "run.sqk").read_bytes()
        with pytest.raises(OSError, match=r"flights.csv") as caught:
            squeak.rows(f"{address}?sig=wrong{SECRET}")
        assert SECRET not in str(caught.value)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def bucket():
    """Yield options for an S3 server on loopback, which has the table in a bucket."""
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        client = boto3.client(
            "s3",
            endpoint_url=f"http://{host}:{port}",
            region_name="us-east-1",
            aws_access_key_id="AKIA",
            aws_secret_access_key=SECRET,
        )
        client.create_bucket(Bucket="flights")
        for name, content in files("parquet"):
            client.put_object(Bucket="flights", Key=f"t/{name}", Body=content)
        client.put_object(Bucket="flights", Key="x.csv.gz", Body=gzipped())
        client.close()
        yield {
            "endpoint_override": f"{host}:{port}",
            "scheme": "http",
            "region": "us-east-1",
            "access_key": "AKIA",
            "secret_key": SECRET,
        }
    finally:
        server.stop()


def gzipped():
    import gzip

    return gzip.compress(whole().to_csv(index=False).encode())


def test_an_object_store_is_read_and_no_secret_is_stored(bucket, tmp_path):
    expected, y = squeak.rows(lay_down(tmp_path / "t", "parquet"), "y").collect()
    for url in ("s3://flights/t", "s3://flights/t/year=*/**/*.parquet"):
        X, found = squeak.rows(url, "y", storage_options=bucket).collect()
        assert np.array_equal(X, expected)
        assert np.array_equal(found, y)
    packed = squeak.rows("s3://flights/x.csv.gz", "y", columns=["x"], storage_options=bucket)
    np.testing.assert_allclose(packed.collect()[0][:, 0], whole().x, rtol=1e-15)
    options = "&".join(f"{name}={quote(bucket[name])}" for name in ("endpoint_override", "scheme", "region"))
    inside = f"s3://AKIA:{SECRET}@flights/t?{options}"
    source = squeak.rows(inside, "y")
    assert np.array_equal(source.collect()[0], expected)
    assert source.recipe is None
    Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(source, checkpoint=tmp_path / "run.sqk")
    KernelRidge(RBF(1.0), max_atoms=20, random_state=0).fit(source).save(tmp_path / "m.sqk")
    for name in ("run.sqk", "m.sqk"):
        stored = (tmp_path / name).read_bytes()
        assert SECRET.encode() not in stored
        assert b"AKIA" not in stored
    with pytest.raises(FileNotFoundError, match=r"there is no file s3://flights/none.parquet$"):
        squeak.rows(f"s3://AKIA:{SECRET}@flights/none.parquet?{options}")
