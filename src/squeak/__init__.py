"""squeak: kernel learning at scale, on a small weighted dictionary of the rows.

One pass over the data (:class:`Squeak`) leaves a :class:`Dictionary` chosen by ridge leverage scores; every kernel
problem is then solved on the dictionary.
"""

from squeak import kernels, leverage, online, samplers
from squeak._version import __version__
from squeak.core.dictionary import Dictionary
from squeak.core.sources import rows
from squeak.core.storage import load, save
from squeak.samplers import Disqueak, Kors, Squeak, merge

__all__ = [
    "Dictionary",
    "Disqueak",
    "Kors",
    "Squeak",
    "__version__",
    "kernels",
    "leverage",
    "load",
    "merge",
    "online",
    "rows",
    "samplers",
    "save",
]
