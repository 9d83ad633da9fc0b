"""Run the benchmarks: ``python -m benchmarks [name ...]``; results, pages and pictures are written anew."""

import importlib
import sys

ALL = (
    "limit",
    "scaling",
    "growth",
    "coins",
    "real_data",
    "files",
    "start",
    "samplers",
    "cluster",
    "plan",
    "learners",
    "half",
    "automatic",
    "large",
    "dpp",
    "online",
    "bandits",
    "graphs",
)

if __name__ == "__main__":  # processes that a benchmark starts import this module again
    for name in sys.argv[1:] or ALL:
        if name not in ALL:
            sys.exit(f"no benchmark is called {name!r}; there are {', '.join(ALL)}")
        print(f"── {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").run()
    importlib.import_module("benchmarks.tables").main()
    importlib.import_module("benchmarks.draw").main()
