"""Run the benchmarks: ``python -m benchmarks [name ...]``; results, pages and pictures are written anew.

``python -m benchmarks tables --help`` (or falkon, streams, searches, cluster, plan, scale) tells its options.
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
    "folds",
    "tables",
    "large",
    "scale",
    "dpp",
    "online",
    "streams",
    "bandits",
    "coverage",
    "searches",
    "graphs",
)

if __name__ == "__main__":  # processes that a benchmark starts import this module again
    given = sys.argv[1:]
    first = next((place for place, word in enumerate(given) if word.startswith("-")), len(given))
    names, options = given[:first] or ALL, given[first:]
    with_options = ("tables", "falkon", "streams", "searches", "cluster", "plan", "scale")
    if options and not (len(names) == 1 and names[0] in with_options):
        sys.exit(f"options belong to one of {', '.join(with_options)}: see its --help")
    for name in names:
        if name not in ALL:
            sys.exit(f"no benchmark is called {name!r}; there are {', '.join(ALL)}")
        print(f"── {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").run(*([options] if options else []))
    importlib.import_module("benchmarks.write").main()
    importlib.import_module("benchmarks.draw").main()
