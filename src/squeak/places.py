"""Where tasks run: threads of this process, other processes, a Dask cluster, or an engine of your own.

Nothing here is needed for threads, which are the default, nor for a Dask cluster, which is found where its client
is active.

Examples
--------
>>> import numpy as np
>>> from squeak import Disqueak
>>> from squeak.kernels import RBF
>>> from squeak.places import Threads, use
>>> X = np.random.default_rng(0).standard_normal((2000, 2))
>>> with use(Threads()):
...     len(Disqueak(RBF(1.0), ridge=5.0, n_leaves=4, random_state=0).fit(X).nodes_)
7
"""

from squeak.core.dask_cluster import Cluster
from squeak.core.executors import Executors, Processes, Threads
from squeak.core.places import use
from squeak.core.tasks import ClusterError, Place

__all__ = ["Cluster", "ClusterError", "Executors", "Place", "Processes", "Threads", "use"]
