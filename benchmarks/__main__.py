"""Run the benchmarks: ``python -m benchmarks [name ...]``; all of them when none is named."""

from __future__ import annotations

import sys

from benchmarks import cluster, coins, files, graphs, limit, plan, real_data, samplers, scaling, start

ALL = {"limit": limit.run, "scaling": scaling.run, "coins": coins.run, "real_data": real_data.run}
ALL |= {"files": files.run, "start": start.run, "samplers": samplers.run, "cluster": cluster.run, "plan": plan.run}
ALL |= {"graphs": graphs.run}

if __name__ == "__main__":  # processes that a benchmark starts import this module again
    for name in sys.argv[1:] or ALL:
        if name not in ALL:
            sys.exit(f"no benchmark is called {name!r}; there are {', '.join(ALL)}")
        print(f"── {name}", flush=True)
        ALL[name]()
