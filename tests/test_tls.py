"""A cluster that speaks TLS: the same bits through Python and through the command, and one error for strangers."""

import shutil
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak.__main__ import main
from squeak.kernels import RBF
from squeak.places import Cluster, use

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates"),
]

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
X = np.random.default_rng(0).standard_normal((2_000, 2))
Y = np.sin(X[:, 0])


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with rows, an authority of ours and one of strangers, and a certificate that each signed."""
    folder = tmp_path_factory.mktemp("tls")
    for who in ("ours", "strange"):
        openssl(folder, "req", "-x509", *KEY, "-keyout", f"{who}-ca.key", "-out", f"{who}-ca.pem", "-subj", "/CN=a")
        openssl(folder, "req", *KEY, "-keyout", f"{who}.key", "-out", f"{who}.csr", "-subj", "/CN=b")
        signed = ("-CA", f"{who}-ca.pem", "-CAkey", f"{who}-ca.key", "-CAcreateserial", "-out", f"{who}.pem")
        openssl(folder, "x509", "-req", "-in", f"{who}.csr", *signed)
    for number, rows in enumerate(np.array_split(np.arange(len(X)), 4)):
        pd.DataFrame(X[rows], columns=["a", "b"]).assign(y=Y[rows]).to_parquet(folder / f"{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def security(folder):
    cert, key = str(folder / "ours.pem"), str(folder / "ours.key")
    both = {
        f"tls_{who}_{what}": path
        for who in ("client", "scheduler", "worker")
        for what, path in (("cert", cert), ("key", key))
    }
    return distributed.Security(require_encryption=True, tls_ca_file=str(folder / "ours-ca.pem"), **both)


@pytest.fixture(scope="module")
def cluster(security):
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,  # threads that speak through sockets all the same
        protocol="tls://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        security=security,
    ) as cluster:
        yield cluster


def dictionary():
    return squeak.Disqueak(RBF(1.0), ridge=5.0, n_leaves=4, random_state=0).fit(X).dictionary_


def model():
    return squeak.KernelRidge(RBF(1.0), alpha=1.0, dictionary=X[:40], random_state=0)


def test_a_dictionary_and_a_fit_come_through_tls(cluster, security, folder):
    source = squeak.rows(folder / "*.parquet", "y")
    alone, fitted = dictionary(), model().fit(source)
    assert cluster.scheduler_address.startswith("tls://")
    with distributed.Client(cluster, security=security, set_as_default=False) as client, use(Cluster(client)):
        assert dictionary() == alone
        assert np.array_equal(model().fit(source).dual_coef_, fitted.dual_coef_)
        workers = client.scheduler_info()["workers"]
    assert len(workers) == 2
    assert all(address.startswith("tls://") for address in workers)


def ran(monkeypatch, capsys, *arguments):
    """Run a command here; return its code and the last line of its errors."""
    monkeypatch.setattr(sys, "argv", ["squeak", *map(str, arguments)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code, capsys.readouterr().err


def certificates(folder, authority="ours", who="ours"):
    return (
        *("--tls-ca", folder / f"{authority}-ca.pem"),
        *("--tls-cert", folder / f"{who}.pem"),
        *("--tls-key", folder / f"{who}.key"),
    )


@pytest.mark.parametrize("what", ["dictionary", "fit"])
def test_the_command_gives_the_same_through_tls(what, cluster, folder, tmp_path, monkeypatch, capsys):
    options = [what, folder / "*.parquet", "--target", "y", "--max-atoms", 30, "-q"]
    there = ("--scheduler", cluster.scheduler_address, *certificates(folder))
    code, told = ran(monkeypatch, capsys, *options, *there, "--out", tmp_path / "there.sqk")
    assert code == 0, told
    code, told = ran(monkeypatch, capsys, *options, "--workers", 1, "--out", tmp_path / "here.sqk")
    assert code == 0, told
    there, here = (squeak.load(tmp_path / f"{name}.sqk") for name in ("there", "here"))
    if what == "dictionary":
        assert there == here
    else:
        assert np.array_equal(there.dual_coef_, here.dual_coef_)


REFUSED = {
    "no certificates": ("tls", (), "it asks for --tls-ca, --tls-cert and --tls-key"),
    "no encryption": ("tcp", (), "it asks for --tls-ca, --tls-cert and --tls-key"),
    "a stranger's certificate": ("tls", ("ours", "strange"), "it asks for an authority that it knows"),
    "another authority": ("tls", ("strange", "ours"), "TLS certificate does not match"),
    "no encryption, with certificates": ("tcp", ("ours", "ours"), "with TLS its address begins with tls://"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_client_that_is_refused_gets_one_clear_error(case, cluster, folder, tmp_path, monkeypatch, capsys):
    protocol, names, words = REFUSED[case]
    address = cluster.scheduler_address.replace("tls://", f"{protocol}://")
    options = ["dictionary", folder / "*.parquet", "--target", "y", "--out", tmp_path / "d.sqk", "-q"]
    files = certificates(folder, *names) if names else ()
    code, told = ran(monkeypatch, capsys, *options, "--scheduler", address, *files)
    assert code == 1
    assert f"no Dask scheduler answers at {address}" in told.splitlines()[-1]
    assert words in told.splitlines()[-1]
    assert not (tmp_path / "d.sqk").exists()


def test_files_of_tls_that_cannot_serve_are_named(folder, tmp_path, monkeypatch, capsys):
    options = ["dictionary", folder / "*.parquet", "--target", "y", "--out", tmp_path / "d.sqk", "-q"]
    there = ("--scheduler", "tls://127.0.0.1:9")
    for files, code, words in (
        (("--tls-ca", folder / "ours-ca.pem"), 2, "give --tls-ca, --tls-cert and --tls-key"),
        (certificates(folder, "lost"), 1, "lost-ca.pem"),
        (certificates(folder, who="lost"), 1, "lost.pem"),
        (("--tls-ca", folder / "ours-ca.pem", "--tls-cert", folder / "0.parquet"), 1, "cannot be used"),
    ):
        found, told = ran(monkeypatch, capsys, *options, *there, *files)
        assert found == code, told
        assert words in told
    found, told = ran(monkeypatch, capsys, *options, *certificates(folder))
    assert found == 2
    assert "are for --scheduler" in told
