"""A Dask client for a command: of processes of our own, or of a cluster at an address."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

TlsFile = Annotated[Path | None, typer.Option(help="A file for a scheduler that asks for TLS.", show_default=False)]


@dataclass(frozen=True)
class Cluster:
    """The options of commands that can learn parts of the rows in several processes."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Learn parts of the rows in this many processes and merge them (DISQUEAK).",
            show_default=False,
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        typer.Option(help="The address of a Dask scheduler, to do the same on its cluster.", show_default=False),
    ] = None
    tls_ca: TlsFile = None
    tls_cert: TlsFile = None
    tls_key: TlsFile = None

    def wanted(self) -> bool:
        """Tell whether other processes are asked for; only in one way, or it is a mistake."""
        if self.workers is not None and self.scheduler is not None:
            raise typer.BadParameter(
                "--workers starts processes here, --scheduler uses a cluster: give one of them"
            )
        if self.scheduler is None and not (self.tls_ca is self.tls_cert is self.tls_key is None):
            raise typer.BadParameter("--tls-ca, --tls-cert and --tls-key are for --scheduler")
        return self.workers is not None or self.scheduler is not None

    @contextlib.contextmanager
    def client(self) -> Iterator[None]:
        """Have a Dask client active: of processes of our own, or of the cluster at an address."""
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError:
            raise ImportError("--workers and --scheduler need dask: pip install 'squeak-learn[dask]'") from None
        if self.scheduler is None:
            local = distributed.LocalCluster(
                n_workers=self.workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
            )
            with local as cluster, distributed.Client(cluster):
                yield
            return
        with self._connected(distributed):
            yield

    def _connected(self, distributed: Any) -> Any:
        """Return a client of the scheduler, or say in one line why there is none."""
        files = {"tls_ca_file": self.tls_ca, "tls_client_cert": self.tls_cert, "tls_client_key": self.tls_key}
        given = {name: str(path) for name, path in files.items() if path is not None}
        security = distributed.Security(require_encryption=True, **given) if given else None
        try:
            usable = security is None or security.get_connection_args("client")["ssl_context"] is not None
        except OSError as error:
            raise OSError(f"the files of TLS ({', '.join(given.values())}) cannot be used: {error}") from None
        if not usable:
            raise typer.BadParameter("TLS takes three files: give --tls-ca, --tls-cert and --tls-key")
        try:
            return distributed.Client(self.scheduler, timeout="10s", security=security)
        except (OSError, ValueError, TimeoutError, TypeError, RuntimeError, AssertionError) as error:
            reason = " ".join(str(error).split())[:200] or "the connection was closed"
            need = "an authority that it knows" if given else "--tls-ca, --tls-cert and --tls-key"
            hint = (
                ""
                if "Timed out" in reason
                else f" (with TLS its address begins with tls://, and it asks for {need})"
            )
            raise OSError(f"no Dask scheduler answers at {self.scheduler}: {reason}{hint}") from None
