"""A Dask client for a command: of processes of our own, or of a cluster at an address."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def cluster(workers: int | None, scheduler: str | None, tls: dict[str, Path | None]) -> Iterator[None]:
    """Have a Dask client active: of processes of our own, or of the cluster at an address."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise ImportError("--workers and --scheduler need dask: pip install 'squeak-learn[dask]'") from None
    if scheduler is not None:
        files = {name: str(path) for name, path in tls.items() if path is not None}
        security = None
        if files:
            names = {"ca": "tls_ca_file", "cert": "tls_client_cert", "key": "tls_client_key"}
            security = distributed.Security(
                require_encryption=True, **{names[name]: path for name, path in files.items()}
            )
        try:
            client = distributed.Client(scheduler, timeout="10s", security=security)
        except (OSError, ValueError, TimeoutError) as error:
            reason = " ".join(str(error).split())[:200]
            raise OSError(f"no Dask scheduler answers at {scheduler}: {reason}") from None
        with client:
            yield
        return
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield
