"""Files elsewhere, by their URL: object stores, HDFS and web servers, through file systems of pyarrow and fsspec.

Credentials are found by those libraries, or given as options; they are kept by the open file system alone, and no
recipe, model, checkpoint or message has them.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote, urlsplit

BY_ARROW = {
    "s3": "S3FileSystem",
    "gs": "GcsFileSystem",
    "gcs": "GcsFileSystem",
    "abfs": "AzureFileSystem",
    "abfss": "AzureFileSystem",
    "hdfs": "HadoopFileSystem",
}
"""Kinds of URLs that pyarrow has a file system for; fsspec has all others."""

BY_ADDRESS = ("http", "https")
"""Kinds of URLs whose files are known by the whole address, and whose folders cannot be listed."""


@dataclass(frozen=True)
class RemoteFile:
    """A file elsewhere, with the little of a local path that readers ask for.

    ``url``: without user, password and query, for messages and to open it again. ``private``: whether it was opened
    with options or with credentials in its URL, without which it may not be opened again.
    """

    url: str
    path: str = field(compare=False)
    filesystem: Any = field(compare=False, repr=False)
    private: bool = field(compare=False)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.parts[-1]

    @property
    def parts(self) -> tuple[str, ...]:
        """The folders on the way and the name, without a web address's query."""
        return tuple(part for part in urlsplit(self.url).path.split("/") if part)

    def resolve(self) -> RemoteFile:
        """Return the file: its URL is whole."""
        return self

    def __str__(self) -> str:
        return self.url

    def stamp(self) -> tuple[int, ...]:
        """Return its size and when it was last changed, where that is known."""
        found = self._info()
        return int(found.size or 0), int(found.mtime_ns or 0)

    def open(self) -> Any:
        """Return its bytes as they stand, to be read at any place."""
        return self.filesystem.open_input_file(self.path)

    def stream(self) -> Any:
        """Return its bytes from the first on, unpacked where its name says that they are packed."""
        import pyarrow as pa

        packed = pa.Codec.detect(self.name).name if self.name.endswith((".gz", ".bz2", ".zst", ".lz4")) else None
        return self.filesystem.open_input_stream(self.path, compression=packed)

    def _info(self) -> Any:
        import pyarrow.fs as pf

        found = self.filesystem.get_file_info(self.path)
        if found.type != pf.FileType.File:
            raise FileNotFoundError(f"there is no file {self.url}")
        return found


def find_remote(url: str, options: Mapping[str, Any], known: Sequence[str]) -> list[RemoteFile]:
    """Return the files that a URL stands for: one, those of a folder, or those of a glob, in order of their names.

    ``options``: of the file system. ``known``: how the names of a folder's files end that are read.
    """
    import pyarrow.fs as pf

    shown = public(url)
    filesystem, path = _filesystem(url, options)
    kind = shown.partition("://")[0]
    prefix = shown.removesuffix(path.strip("/")) if shown.endswith(path.strip("/")) else f"{kind}://"
    private = bool(options) or shown != url

    def made(at: str) -> RemoteFile:
        return RemoteFile(shown if at == path else prefix + at.lstrip("/"), at, filesystem, private)

    try:
        if glob.has_magic(path) and kind not in BY_ADDRESS:
            parts = path.split("/")
            first = next(number for number, part in enumerate(parts) if glob.has_magic(part))
            found = [one for one in _listed(filesystem, "/".join(parts[:first])) if _matches(one.split("/"), parts)]
            if not found:
                raise FileNotFoundError(f"no file matches {shown}")
            return [made(one) for one in found]
        info = filesystem.get_file_info(path)
        if info.type == pf.FileType.File:
            return [made(path)]
        if info.type == pf.FileType.Directory and kind not in BY_ADDRESS:
            base = path.rstrip("/")
            found = [one for one in _listed(filesystem, base) if _is_read(one[len(base) :], known)]
            if not found:
                raise FileNotFoundError(f"the folder {shown} has no Parquet, CSV, JSON lines or Arrow files")
            return [made(one) for one in found]
    except FileNotFoundError:
        raise
    except OSError as error:
        raise OSError(f"{shown} cannot be read: {' '.join(str(error).split())[:300]}") from None
    raise FileNotFoundError(f"there is no file {shown}")


def public(url: str) -> str:
    """Return a URL without its user, password, query and fragment, in which secrets may stand."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _filesystem(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the file system of a URL, and what the file is called there."""
    import pyarrow.fs as pf

    parts = urlsplit(url)
    made = getattr(pf, BY_ARROW.get(parts.scheme, ""), None)
    if made is None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ImportError(f"{parts.scheme}:// needs fsspec: pip install 'squeak-learn[remote]'") from None
        filesystem, path = url_to_fs(url, **options)
        return pf.PyFileSystem(pf.FSSpecHandler(filesystem)), path
    if not options:
        return pf.FileSystem.from_uri(url)  # type: ignore[no-any-return]
    place = unquote(parts.netloc.rpartition("@")[2] + parts.path)
    given: dict[str, Any] = {}
    if parts.scheme == "hdfs":
        given, place = {"host": parts.hostname or "default", "port": parts.port or 8020}, unquote(parts.path)
    elif parts.scheme.startswith("abfs") and parts.username:  # abfs://container@account.dfs.core.windows.net/path
        given, place = {"account_name": (parts.hostname or "").partition(".")[0]}, parts.username + parts.path
    return made(**{**given, **options}), place


def _listed(filesystem: Any, base: str) -> list[str]:
    import pyarrow.fs as pf

    found = filesystem.get_file_info(pf.FileSelector(base, recursive=True, allow_not_found=True))
    return sorted(one.path for one in found if one.type == pf.FileType.File)


def _is_read(path: str, known: Sequence[str]) -> bool:
    parts = [part for part in path.split("/") if part]
    return path.lower().endswith(tuple(known)) and not any(part.startswith((".", "_")) for part in parts)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
