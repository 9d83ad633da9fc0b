"""The folder of a tree's finished nodes: what is there is not computed again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from squeak.core import state, storage
from squeak.core.outputs import replacing


class Keep:
    """The folder of a run's finished nodes, or nothing at all; the seed of the run is kept with them."""

    def __init__(self, folder: Path | None, seed: int) -> None:
        self.folder, self.seed = folder, seed

    @classmethod
    def open(cls, folder: str | os.PathLike[str] | None, description: dict[str, Any], seed: int) -> Keep:
        """Open or make the folder; one that holds another run is refused."""
        if folder is None:
            return cls(None, seed)
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(f"the checkpoint of a tree is a folder; {path} is a file")
        path.mkdir(parents=True, exist_ok=True)
        facts = path / "run.json"
        if facts.exists():
            try:
                known = json.loads(facts.read_text())
                before, seed = dict(known["description"]), state.checked({"seed": state.seed()}, {}, known)["seed"]
            except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
                raise storage.StorageError(f"{facts} is damaged: {error}") from None
            for name, value in json.loads(json.dumps(description)).items():
                if before.get(name) != value:
                    raise ValueError(f"{path} holds a run of other {name}: finish it, or name another folder")
        else:
            if any(path.iterdir()):
                raise ValueError(f"{path} holds other files: name an empty folder, or one that does not exist")
            with replacing(facts) as stream:
                stream.write(json.dumps({"description": description, "seed": seed}, indent=1).encode())
        return cls(path, seed)

    def _path(self, node: int) -> Path | None:
        return None if self.folder is None else self.folder / f"node-{node}.sqk"

    def load(self, node: int, read: Callable[[Path], Any]) -> Any:
        """Return what a node came to where it was finished before, else None."""
        path = self._path(node)
        if path is None or not path.exists():
            return None
        return read(path)

    def save(self, node: int, d: Any) -> None:
        """Keep what a node came to."""
        path = self._path(node)
        if path is not None:
            d.save(path)
