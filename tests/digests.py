"""What must not change: the results of fixed cases, in short form, compared with those stored.

    python -m tests.digests                    compare every case with tests/data/digests.json
    python -m tests.digests samplers bandits   only cases whose names contain one of these words
    python -m tests.digests --write            store the results of today (of the cases named, or of all)
    python -m tests.digests --list             the names of the cases

Whole numbers, truth values and text are compared exactly. An array of floats is kept as its sum, its norm and up to
eight of its entries, to 12 digits, and compared with a tolerance, since versions of BLAS add in different orders.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.cases import CASES, bandits, commands, dpp, graphs, kernels, learners, online, samplers, sources

STORED = Path(__file__).parent / "data" / "digests.json"
ENTRIES = 8
SHORT = 12
ROOMS = (samplers, kernels, learners, online, graphs, bandits, dpp, sources, commands)


def digest(value: Any) -> Any:
    """Return a value in short form, as JSON data."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(word, str) for word in value):
        value = np.array(value)
    array = np.asarray(value)
    if array.dtype.kind == "O":
        array = array.astype(str)
    if array.dtype.kind in "US":
        return _exact(array, [str(word) for word in array.ravel()])
    if array.dtype.kind in "biu":
        return _exact(array, [int(number) for number in array.ravel()])
    if array.dtype.kind != "f":
        raise TypeError(f"a case returned a {array.dtype} array")
    flat = array.ravel().astype(np.float64)
    found = {"type": array.dtype.str, "shape": list(array.shape)}
    places = np.unique(np.linspace(0, len(flat) - 1, min(ENTRIES, len(flat))).round().astype(int))
    found["entries"] = [_digits(number) for number in flat[places]]
    if len(flat) > 1:
        finite = flat[np.isfinite(flat)]
        found |= {"sum": _digits(finite.sum()), "norm": _digits(np.linalg.norm(finite))}
    return found


def _digits(number: Any) -> Any:
    """Return a float to 12 digits; JSON has no word for those that are not finite."""
    return float(f"{number:.11e}") if np.isfinite(number) else str(number)


def _exact(array: Any, values: list[Any]) -> Any:
    if array.ndim == 0:
        return {"exactly": values[0]}
    if len(values) <= SHORT:
        return {"shape": list(array.shape), "exactly": values}
    first, last = values[:3], values[-3:]
    text = json.dumps(values, ensure_ascii=True)
    return {"shape": list(array.shape), "ends": first + last, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def differences(before: Any, now: Any, rtol: float) -> list[str]:
    """Say in which entries a digest differs from the one before it; an empty list where they agree."""
    floats = isinstance(before, dict) and isinstance(now, dict) and "entries" in before and "entries" in now
    if not floats:
        return [] if before == now else [f"before {_shown(before)}, now {_shown(now)}"]
    if (before["type"], before["shape"]) != (now["type"], now["shape"]):
        return [f"before {before['type']}{before['shape']}, now {now['type']}{now['shape']}"]
    size = max(1, int(np.prod(before["shape"])))
    norm = before.get("norm", 0.0)
    scales = {"norm": norm, "sum": norm * np.sqrt(size), "entries": norm / np.sqrt(size)}
    found = []
    for name, scale in scales.items():
        if name in before:
            pairs = zip(np.atleast_1d(before[name]).tolist(), np.atleast_1d(now[name]).tolist(), strict=True)
            for place, (old, new) in enumerate(pairs):
                if not _close(old, new, rtol, scale):
                    what = f"sampled entry {place}" if name == "entries" else name
                    found.append(f"{what} was {old!r}, is {new!r}")
    return found


def _close(old: Any, new: Any, rtol: float, scale: float) -> bool:
    if isinstance(old, str) or isinstance(new, str):
        return str(old) == str(new)
    return bool(abs(new - old) <= rtol * max(abs(old), abs(scale)))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:297] + "..."


def results(name: str) -> dict[str, Any]:
    """Run one case and return its digests."""
    with tempfile.TemporaryDirectory() as folder:
        return {key: digest(value) for key, value in CASES[name].run(Path(folder)).items()}


def stored() -> dict[str, Any]:
    """Return the digests on file."""
    return json.loads(STORED.read_text(encoding="utf8")) if STORED.exists() else {}


def compared(name: str, before: dict[str, Any] | None) -> list[str]:
    """Run one case and say what differs from the digests on file."""
    return changes(name, before, results(name))


def changes(name: str, before: dict[str, Any] | None, now: dict[str, Any]) -> list[str]:
    """Say what differs between two sets of digests of one case."""
    if before is None:
        return [f"{name}: it is not on file; write it with python -m tests.digests --write {name!r}"]
    found = [f"{name}: value {key!r} is gone" for key in before if key not in now]
    found += [f"{name}: value {key!r} is new" for key in now if key not in before]
    for key in now:
        if key in before:
            found += [f"{name}: {key}: {text}" for text in differences(before[key], now[key], CASES[name].rtol)]
    return found


def write(found: dict[str, Any]) -> None:
    """Store digests, one value a line, so that a change is seen in the history."""
    lines = []
    for name in sorted(found):
        values = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in found[name].items()]
        lines.append(f" {json.dumps(name)}: {{\n" + ",\n".join(values) + "\n }")
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf8")


def main(arguments: list[str] | None = None) -> int:
    """Compare, write or list; return 1 where anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.digests", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="words of the cases' names; all cases where there are none")
    parser.add_argument("--write", action="store_true", help="store what the cases give today")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--times", action="store_true", help="print the seconds of each case")
    options = parser.parse_args(arguments)
    chosen = [name for name in CASES if not options.names or any(word in name for word in options.names)]
    if not chosen:
        parser.error(f"no case is called like {options.names}")
    if options.list:
        print("\n".join(chosen))
        return 0
    before, now, bad = stored(), {}, 0
    begin = time.perf_counter()
    for name in chosen:
        start = time.perf_counter()
        now[name] = results(name)
        if options.times:
            print(f"{time.perf_counter() - start:7.2f} s  {name}")
        if not options.write:
            found = changes(name, before.get(name), now[name])
            for line in found:
                print(line)
            bad += bool(found)
    if options.write:
        kept = before if options.names else {}
        write({**kept, **now})
    gone = [name for name in before if name not in CASES] if not options.names and not options.write else []
    for name in gone:
        print(f"{name}: it is on file, but there is no such case")
    seconds = time.perf_counter() - begin
    print(f"{len(chosen)} cases in {seconds:.1f} s: {'written' if options.write else f'{bad} differ'}")
    return 1 if bad or gone else 0


if __name__ == "__main__":
    sys.exit(main())
