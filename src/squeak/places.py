"""Where tasks run: threads of this process, other processes, a Dask cluster, or an engine of your own.

Nothing here is needed for threads, which are the default, nor for a Dask cluster, which is found where its client
is active.

Examples
--------
>>> from squeak.places import Threads, use
>>> with use(Threads()) as here:
...     here.map_ordered(abs, [-1, -2])
[1, 2]
"""

from squeak.core.dask_cluster import Cluster
from squeak.core.executors import Executors, Processes, Threads
from squeak.core.places import use
from squeak.core.tasks import ClusterError, Place

__all__ = ["Cluster", "ClusterError", "Executors", "Place", "Processes", "Threads", "use"]
