"""Options that several commands share, and what they mean in Python."""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.errors import option

KernelName = StrEnum("KernelName", ["rbf", "laplacian", "matern", "linear"])
"""The kernels that the command knows."""

SamplerName = StrEnum("SamplerName", ["squeak", "kors"])
"""The samplers that read a stream."""

Data = Annotated[list[str], typer.Argument(help="Parquet, CSV or npy: files, a folder, or a glob in quotes.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The .sqk file to write.", show_default=False)]
Names = Annotated[str | None, typer.Option(help="Names, separated by commas.", show_default=False)]


def positive(value: float | None) -> float | None:
    """Refuse what is not a positive, finite number."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{value} is not a positive number")
    return value


KernelChoice = Annotated[KernelName, typer.Option("--kernel", help="How rows are compared.")]
LengthScale = Annotated[str, typer.Option(help="The kernel's width: a number or 'median'.")]
Checkpoint = Annotated[
    Path | None, typer.Option(help="Keep the state of the run here; the same command goes on.", show_default=False)
]
Every = Annotated[float, typer.Option(min=0, help="Seconds between two writes of the checkpoint.")]
Seed = Annotated[int, typer.Option(min=0, help="The random state.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")]


def names_of(text: str | None) -> list[str] | None:
    """Return the names in a list separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def or_none(choice: StrEnum) -> str | None:
    """Return the value of a choice; None for the choice 'none'."""
    return None if choice.value == "none" else choice.value


def kernel_of(name: KernelName, length_scale: str) -> Any:
    """Return the kernel of that name and width."""
    from squeak.kernels import RBF, Laplacian, Linear, Matern

    if name is KernelName.linear:
        return Linear()
    width: float | str = length_scale
    if length_scale not in ("median", "auto", "learned"):
        try:
            width = positive(float(length_scale)) or 1.0
        except ValueError:
            raise typer.BadParameter(
                f"--length-scale is a number, 'median', 'auto' or 'learned', not {length_scale!r}"
            ) from None
    return {KernelName.rbf: RBF, KernelName.laplacian: Laplacian, KernelName.matern: Matern}[name](width)


def refuse_settled(context: typer.Context, settled: set[str], why: str) -> None:
    """Refuse options on the command line that something else has settled."""
    given = sorted(given_options(context) & settled)
    if given:
        raise typer.BadParameter(f"{why}: {', '.join(map(option, given))} cannot change")


def given_options(context: typer.Context) -> set[str]:
    """Return the names of the parameters that stand on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


TlsFile = Annotated[Path | None, typer.Option(help="For a scheduler that asks for TLS.", show_default=False)]


@dataclass(frozen=True)
class Cluster:
    """The options of commands that can learn parts of the rows in several processes."""

    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Learn parts in so many processes and merge them (DISQUEAK).", show_default=False),
    ] = None
    scheduler: Annotated[
        str | None,
        typer.Option(help="The address of a Dask scheduler, to do so on its cluster.", show_default=False),
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
        files = {"tls_ca_file": self.tls_ca, "tls_client_cert": self.tls_cert, "tls_client_key": self.tls_key}
        given = {name: str(path) for name, path in files.items() if path is not None}
        security = distributed.Security(require_encryption=True, **given) if given else None
        try:
            client = distributed.Client(self.scheduler, timeout="10s", security=security)
        except (OSError, ValueError, TimeoutError) as error:
            reason = " ".join(str(error).split())[:200]
            raise OSError(f"no Dask scheduler answers at {self.scheduler}: {reason}") from None
        with client:
            yield
