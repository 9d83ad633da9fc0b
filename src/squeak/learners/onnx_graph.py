"""A graph of ONNX, node by node: names, constants, and inner graphs that loops and branches run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from squeak.core.types import Array

OPSET, ML_OPSET, IR_VERSION = 17, 2, 8
"""Versions of the operators and of the file: old enough for every runtime of the last years."""

BLOCK_VALUES = 2**18
"""Kernel values that are computed at a time: 2 MB of them, whatever the number of rows."""

MOST_BYTES = 2**31 - 2**20
"""A file of ONNX holds less than 2 GiB."""


def import_onnx() -> Any:
    """Return the library ``onnx``, or say how to install it."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise ImportError("ONNX files need the library onnx: pip install 'squeak-learn[onnx]'") from None
    return onnx


class Graph:
    """Nodes in the order in which they are added; every tensor is known by its name.

    An inner graph, which a loop or a branch runs, shares the names and the constants of the outermost one.

    ``prefix``: how the names of tensors begin; the names of inputs must not. ``outer``: the graph that this one is
    within.
    """

    def __init__(self, prefix: str = "squeak/", outer: Graph | None = None) -> None:
        self.onnx: Any = import_onnx() if outer is None else outer.onnx
        self.prefix: str = prefix if outer is None else outer.prefix
        self.nodes: list[Any] = []
        self.constants: dict[Any, Any] = {} if outer is None else outer.constants
        self._totals: dict[str, int] = {"names": 0, "bytes": 0} if outer is None else outer._totals

    def name(self) -> str:
        """Return a name that no tensor has yet."""
        self._totals["names"] += 1
        return f"{self.prefix}{self._totals['names']}"

    def constant(self, values: Any) -> str:
        """Return the name of a constant; equal ones are one. Types are numpy's: float64, int64, text or bool."""
        array = np.array(values, order="C")
        key = array.dtype.str, array.shape, hashlib.blake2b(array.tobytes(), digest_size=16).digest()
        if key not in self.constants:
            self._totals["bytes"] += array.nbytes
            if self._totals["bytes"] > MOST_BYTES:
                raise ValueError(
                    "the model's numbers take more than 2 GB, which no ONNX file holds: use fewer atoms"
                )
            plain = array.astype(object) if array.dtype.kind == "U" else array
            self.constants[key] = self.onnx.numpy_helper.from_array(plain, self.name())
        return str(self.constants[key].name)

    def __call__(self, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its result; inputs that are not names are constants."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        result = self.name()
        self.nodes.append(self.onnx.helper.make_node(operator, names, [result], domain=domain, **attributes))
        return result

    def rows_of(self, x: str) -> str:
        """Return the number of rows of a tensor, as a vector of one number."""
        return self("Gather", self("Shape", x), [0], axis=0)

    def inner(self, build: Callable[[Graph], list[str]], inputs: Sequence[Any] = (), truths: int = 0) -> Any:
        """Return an inner graph; ``build`` adds its nodes and returns its outputs.

        The first ``truths`` outputs are truth values, and all others float64.
        """
        helper, kinds, graph = self.onnx.helper, self.onnx.TensorProto, Graph(outer=self)
        outputs = [
            helper.make_tensor_value_info(name, kinds.BOOL if place < truths else kinds.DOUBLE, None)
            for place, name in enumerate(build(graph))
        ]
        return helper.make_graph(graph.nodes, self.name(), inputs, outputs)

    def when(self, condition: str, then: Callable[[Graph], str], otherwise: Callable[[Graph], str]) -> str:
        """Return what one of two inner graphs gives."""
        graphs = {
            "then_branch": self.inner(lambda graph: [then(graph)]),
            "else_branch": self.inner(lambda graph: [otherwise(graph)]),
        }
        return self("If", condition, **graphs)

    def by_blocks(self, x: str, size: int, build: Callable[[Graph, str], list[str]]) -> list[str]:
        """Return what ``build`` makes of the rows of a tensor, of which it sees ``size`` at a time at most.

        A loop: blocks are of one length, so that their results can be stacked; the last ones of the last block are
        the last row again, and are cut off.
        """
        n = self.rows_of(x)
        blocks = self("Max", self("Div", self("Add", n, [size - 1]), [size]), [1])
        length = self("Div", self("Sub", self("Add", n, blocks), [1]), blocks)
        steps = self("Range", np.int64(0), self("Squeeze", length), np.int64(1))
        last = self("Sub", n, [1])

        def body(graph: Graph) -> list[str]:
            start = graph("Mul", number, length)
            places = graph("Min", graph("Add", start, steps), last)
            return [graph("Identity", go_on), *build(graph, graph("Gather", x, places, axis=0))]

        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        number, go_on = self.name(), self.name()
        inputs = [
            helper.make_tensor_value_info(number, kinds.INT64, []),
            helper.make_tensor_value_info(go_on, kinds.BOOL, []),
        ]
        inside = self.inner(body, inputs, truths=1)
        stacked = [self.name() for _ in inside.output[1:]]
        trips = self("Squeeze", blocks), self.constant(True)
        self.nodes.append(helper.make_node("Loop", trips, stacked, body=inside))
        shapes = [self("Slice", self("Shape", one), [-1], [np.iinfo(np.int64).max]) for one in stacked]
        shapes = [self("Concat", [-1], width, axis=0) for width in shapes]
        flat = [self("Reshape", one, shape) for one, shape in zip(stacked, shapes, strict=True)]
        return [self("Slice", one, [0], n, [0]) for one in flat]

    def over_columns(self, x: str, fixed: Array, add: Callable[[Graph, str], str]) -> str:
        """Return Σ over columns of ``add`` (x_j − y_j) for all rows x and fixed rows y, shape (n, m).

        A scan: one column after the other is added, so that no array of rows times rows times columns is made.
        """
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        total, left, right = (self.name() for _ in range(3))
        start = self("Mul", self("Gather", x, [0], axis=1), np.zeros((1, len(fixed))))

        def body(graph: Graph) -> list[str]:
            return [graph("Add", total, add(graph, graph("Sub", left, right)))]

        inputs = [
            helper.make_tensor_value_info(name, kinds.DOUBLE, shape)
            for name, shape in ((total, [None, len(fixed)]), (left, [None, 1]), (right, [len(fixed)]))
        ]
        columns = self("Unsqueeze", self("Transpose", x, perm=[1, 0]), [2])
        return self("Scan", start, columns, fixed.T, body=self.inner(body, inputs), num_scan_inputs=2)
