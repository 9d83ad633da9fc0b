"""Which files a name means, of which kind they are, and what readers of all kinds of files share."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from squeak.core.advice import Advice, InputError
from squeak.data.preprocessing import missing_column
from squeak.data.remote import RemoteFile, find_remote, public

PARQUET = (".parquet", ".pq", ".parq")
PACKED = ("", ".gz", ".bz2", ".zst", ".lz4")
CSV = tuple(f"{ending}{packed}" for ending in (".csv", ".tsv", ".txt") for packed in PACKED)
JSON = tuple(f"{ending}{packed}" for ending in (".jsonl", ".ndjson") for packed in PACKED)
ARROW = (".arrow", ".arrows", ".feather", ".ipc")
KINDS = (("parquet", PARQUET), ("csv", CSV), ("json", JSON), ("arrow", ARROW), ("npy", (".npy",)))


AnyPath = Path | RemoteFile
"""A file, here or elsewhere."""

DATABASES = re.compile(r"(sqlite|duckdb|postgres(ql)?|mysql|mariadb|oracle|mssql|snowflake|bigquery)(\+\w+)?://")
"""URLs that lead to databases and never to files."""

ENGINES = {".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb"}
"""Databases by the endings of their files."""


def find_files(source: Any, options: Mapping[str, Any] | None = None) -> list[AnyPath]:
    """Return the files that a path, a URL, a folder, a glob or a list of them stands for, in order of their names.

    ``options``: of the file system that a URL leads to.
    """
    if isinstance(source, list | tuple):
        found = [path for one in source for path in find_files(one, options)]
        seen: set[AnyPath] = set()
        for path in found:
            if path.resolve() in seen:
                raise ValueError(f"{path} is named twice")
            seen.add(path.resolve())
        return found
    if is_url(source):
        if DATABASES.match(source):
            raise InputError(f"{public(source)} is a database", Advice("pass {} too", "query", "SELECT …"))
        return [*find_remote(source, options or {}, [end for kind, ends in KINDS if kind != "npy" for end in ends])]
    if options:
        raise ValueError(f"storage_options are for URLs; {os.fspath(source)} is a file here")
    text = os.fspath(source)
    path = Path(text).expanduser()
    if path.is_dir():
        inside = sorted(
            entry
            for entry in path.rglob("*")
            if entry.is_file() and file_kind(entry) and not is_hidden(entry.relative_to(path))
        )
        if not inside:
            raise FileNotFoundError(f"the folder {text} has no Parquet, CSV, JSON lines, Arrow or npy files")
        return [*inside]
    if path.exists():
        if engine := ENGINES.get(path.suffix.lower()):
            words = f"pass its URL, {engine}:///{text}, and {{}}"
            raise InputError(f"{text} looks like a database", Advice(words, "query", "SELECT …"))
        return [path]
    if glob.has_magic(text):
        matching = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())
        if not matching:
            raise FileNotFoundError(f"no file matches {text}")
        return [*matching]
    raise FileNotFoundError(f"there is no file {text}")


def is_url(source: Any) -> bool:
    """Tell whether a name is a URL, such as that of a database or of a file elsewhere."""
    return isinstance(source, str) and re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+://", source) is not None


def is_hidden(path: Path) -> bool:
    """Tell whether a folder leaves a file out: its name, or that of a folder on the way, begins with . or _."""
    return any(part.startswith((".", "_")) for part in path.parts)


def file_kind(path: AnyPath) -> str:
    """Return parquet, csv, json, arrow or npy by the file's name; empty for anything else."""
    name = path.name.lower()
    for kind, endings in KINDS:
        if name.endswith(endings):
            return kind
    return ""


def tell_apart(paths: Sequence[AnyPath]) -> dict[AnyPath, str]:
    """Return a short name for each file; with its folder where two have the same."""
    names = Counter(path.name for path in paths)
    return {path: path.name if names[path.name] == 1 else str(Path(*path.parts[-2:])) for path in paths}


def compare_kinds(kinds: dict[str, str], first: dict[str, str], place: str, first_place: str) -> None:
    """Refuse a file whose columns are not those of the first."""
    for name, kind in first.items():
        if name not in kinds:
            raise ValueError(f"{place} has other columns than {first_place}: {missing_column(name, kinds)}")
        if kinds[name] != kind and "empty" not in (kinds[name], kind):
            raise ValueError(
                f"{place} has other columns than {first_place}: {name!r} is {kinds[name]}, in {first_place} {kind}"
            )


Wanted = Callable[[Sequence[str]], Sequence[str]]
"""Which of the columns of a file are needed."""


def recipe_of(paths: Sequence[AnyPath]) -> dict[str, Any] | None:
    """Return how to open files again, as JSON data; None where that takes options, which may be secrets."""
    if any(isinstance(path, RemoteFile) and path.private for path in paths):
        return None
    return {"paths": [str(path.resolve()) for path in paths]}


def open_seekable(path: AnyPath) -> Any:
    """Return the bytes of a file as they stand, to be read at any place."""
    import pyarrow as pa

    return path.open() if isinstance(path, RemoteFile) else pa.OSFile(str(path))


def open_stream(path: AnyPath) -> Any:
    """Return the bytes of a file from the first on, unpacked where its name says that they are packed."""
    import pyarrow as pa

    return path.stream() if isinstance(path, RemoteFile) else pa.input_stream(str(path))


def sample(path: AnyPath) -> bytes:
    """Return a file's size, its first and last 64 kB and, of a file here, 64 stretches of 4 kB in between."""
    size = _stamp(path)[0]
    parts = [size.to_bytes(8, "little")]
    between = [] if isinstance(path, RemoteFile) else [(size * number // 64, 4_096) for number in range(1, 64)]
    with open_seekable(path) as stream:
        for begin, length in [(0, 65_536), (max(0, size - 65_536), 65_536), *between]:
            stream.seek(begin)
            parts.append(stream.read(length))
    return b"".join(parts)


class Unchanged:
    """Files as they were when they were opened; each pass asks whether they still are.

    ``labels``: their names in messages.
    """

    def __init__(self, paths: Sequence[AnyPath], labels: dict[AnyPath, str]) -> None:
        self._labels = {path.resolve(): labels[path] for path in paths}
        self._stamps = {path: _stamp(path) for path in self._labels}

    def __getstate__(self) -> dict[str, Any]:
        """Take along the sizes of files here: another machine may have copies, with numbers and times of their own.

        Whoever sent it checks these at the end (:meth:`RowSource.check_unchanged`).
        """
        stamps = {
            path: stamp if isinstance(path, RemoteFile) else stamp[:1] for path, stamp in self._stamps.items()
        }
        return {"_labels": self._labels, "_stamps": stamps}

    def check(self, path: AnyPath | None = None) -> None:
        """Refuse a file, or any of them, that was changed or replaced since."""
        for one in self._stamps if path is None else [path.resolve()]:
            before = self._stamps[one]
            if _stamp(one)[: len(before)] != before:
                raise ValueError(
                    f"{self._labels[one]} was changed or replaced after it was opened, so that its rows "
                    "are of two states; open it again with squeak.rows, or read a copy that does not change"
                )


def _stamp(path: AnyPath) -> tuple[int, ...]:
    if isinstance(path, RemoteFile):
        return path.stamp()
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


def unreadable(error: BaseException, label: str, what: str) -> Exception:
    """Return the error that a damaged file deserves; a missing one keeps its own."""
    reason = " ".join(str(error).split())[:200]
    if isinstance(error, FileNotFoundError | PermissionError):
        return error
    article = "an" if what.startswith("A") else "a"
    return ValueError(f"{label} is cut short, damaged, or not {article} {what}: {reason}")
