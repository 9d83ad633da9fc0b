"""Run the benchmarks: ``python -m benchmarks [name ...]``; results, pages and pictures are written anew.

``python -m benchmarks tables --help``, falkon, streams, searches or scale, tells the options of some of them.
"""

import importlib
import sys

ALL = (
    "limit",
    "scaling",
    "growth",
    "many",
    "coins",
    "real_data",
    "files",
    "start",
    "samplers",
    "cluster",
    "plan",
    "learners",
    "falkon",
    "half",
    "automatic",
    "tables",
    "large",
    "scale",
    "dpp",
    "online",
    "streams",
    "bandits",
    "searches",
    "graphs",
)

if __name__ == "__main__":  # processes that a benchmark starts import this module again
    given = sys.argv[1:]
    first = next((place for place, word in enumerate(given) if word.startswith("-")), len(given))
    names, options = given[:first] or ALL, given[first:]
    if options and list(names) not in (["tables"], ["falkon"], ["streams"], ["searches"], ["scale"]):
        sys.exit("options belong to one of tables, falkon, streams, searches and scale: see its --help")
    for name in names:
        if name not in ALL:
            sys.exit(f"no benchmark is called {name!r}; there are {', '.join(ALL)}")
        print(f"── {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").run(*([options] if options else []))
    importlib.import_module("benchmarks.write").main()
    importlib.import_module("benchmarks.draw").main()
