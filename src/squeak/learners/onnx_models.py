"""A fitted learner as an ONNX file: columns to rows, rows to values, values to answers."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak._version import __version__
from squeak.core.outputs import check_place, replacing
from squeak.core.types import Array, Rows
from squeak.data import Preprocessing
from squeak.learners.expansion import Expansion
from squeak.learners.formula import Answers, Classes, Clusters, Cosines, Experts, Function, Numbers
from squeak.learners.grown import Trees
from squeak.learners.onnx_columns import encoded_rows, input_columns
from squeak.learners.onnx_graph import BLOCK_VALUES, IR_VERSION, ML_OPSET, OPSET, Graph
from squeak.learners.onnx_kernels import kernel_values, not_exported

SMALLEST_BLOCK, LARGEST_BLOCK = 16, 4096


def write_onnx(
    path: str | os.PathLike[str],
    name: str,
    functions: Sequence[Function],
    answers: Answers,
    preprocessing: Preprocessing | None,
    width: int | None,
) -> None:
    """Write a model to an ONNX file, whole or not at all.

    ``name``: of the model's class. ``functions``: those whose sum the model is. ``answers``: what becomes of the
    sum. ``width``: the number of columns of a row; None for objects.
    """
    target = Path(path)
    check_place(target)
    if width is None:
        raise not_exported(
            next(one.kernel for one in functions if isinstance(one, Expansion)), "it compares objects"
        )
    columns = input_columns(preprocessing, width)
    prefix = "squeak/"
    while any(column["name"].startswith(prefix) for column in columns):
        prefix += "/"
    graph = Graph(prefix)
    rows = encoded_rows(graph, preprocessing)
    results = _answers(graph, _values(graph, rows, functions, answers), answers)
    helper, kinds = graph.onnx.helper, graph.onnx.TensorProto
    for column in columns:
        if column["name"] in (*results, ""):
            raise ValueError(
                f"the column {column['name']!r} cannot be an input of an ONNX file: it has no name, or that of an "
                "output; give it another name, and fit again"
            )
    inputs = [
        helper.make_tensor_value_info(
            column["name"], kinds.STRING if column["kind"] == "category" else kinds.DOUBLE, ["n", column["columns"]]
        )
        for column in columns
    ]
    outputs = [helper.make_tensor_value_info(name, kind, shape) for name, (_, kind, shape) in results.items()]
    for answer, (found, _, _) in results.items():
        graph.nodes.append(helper.make_node("Identity", [found], [answer]))
    made = helper.make_model(
        helper.make_graph(graph.nodes, name, inputs, outputs, list(graph.constants.values())),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        ir_version=IR_VERSION,
        producer_name="squeak",
        producer_version=__version__,
    )
    helper.set_model_props(made, {"model": name, "columns": json.dumps(columns, ensure_ascii=False)})
    graph.onnx.checker.check_model(made)
    with replacing(target) as stream:
        stream.write(made.SerializeToString())


def _values(graph: Graph, rows: str, functions: Sequence[Function], answers: Answers) -> list[str]:
    """Return the sum of the functions, shape (n, outputs), and k(x, x), shape (n, 1), where answers ask for it.

    All of it is NaN in rows that hold a number that is not finite: a predictor of squeak refuses such a row.
    """

    def block(inside: Graph, x: str) -> list[str]:
        parts = [_function(inside, x, function) for function in functions]
        own = [kernel_values(inside, x, answers.kernel, None)] if isinstance(answers, Clusters) else []
        return [_sum(inside, parts), *own]

    widest = max(_width(function) for function in functions)
    size = int(np.clip(BLOCK_VALUES // widest, SMALLEST_BLOCK, LARGEST_BLOCK))
    values, *own = graph.by_blocks(rows, size, block)
    finite = graph("ReduceSum", graph("Mul", rows, 0.0), [1])
    return [graph("Add", values, finite), *own]


def _width(function: Function) -> int:
    """Return how many numbers a row becomes on its way through a function, at most."""
    if isinstance(function, Cosines):
        return len(function.offsets)
    if isinstance(function, Experts):
        return max(len(one) for expert in function.experts for one in expert)
    return len(function.roots) if isinstance(function, Trees) else len(function)


def _sum(graph: Graph, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else graph("Sum", *parts)


def _function(graph: Graph, x: str, function: Function) -> str:
    """Return the values of a function for a block of rows, shape (n, outputs)."""
    if isinstance(function, Expansion):
        values = kernel_values(graph, x, function.kernel, dense(function.atoms))
        found = graph("MatMul", values, function.coef)
        return graph("Add", found, function.intercept) if np.any(function.intercept) else found
    if isinstance(function, Experts):
        return _blended(graph, x, function)
    if isinstance(function, Trees):
        return _leaves(graph, x, function)
    turns = graph("Add", graph("MatMul", x, function.frequencies / (2.0 * np.pi)), function.offsets / (2.0 * np.pi))
    part = graph("Abs", graph("Sub", turns, graph("Round", turns)))  # older runtimes have no cosine in float64
    cosines = graph("Sin", graph("Mul", graph("Sub", 0.25, part), 2.0 * np.pi))
    found = graph("Mul" if function.mixing.ndim == 1 else "MatMul", cosines, function.mixing)
    return graph("Add", found, function.intercept) if np.any(function.intercept) else found


def _leaves(graph: Graph, x: str, function: Trees) -> str:
    """Return the values of trees: every row goes down all of them at once, a split at a time.

    ONNX has an operator for trees, but it compares and adds in float32.
    """
    kinds, columns, trees = graph.onnx.TensorProto, function.columns, len(function.roots)
    numbers = graph("Reshape", x, [-1])
    ones = graph("Cast", graph("Add", graph("Mul", graph("Gather", x, [0], axis=1), 0.0), 1.0), to=kinds.INT64)
    rows = graph("Sub", graph("CumSum", ones, np.int64(0)), [1])
    node = graph("Mul", ones, function.roots[None])
    children = function.children.ravel()
    for _ in range(function.depth):
        places = graph("Add", graph("Mul", rows, [columns]), graph("Gather", function.feature, node, axis=0))
        right = graph(
            "Greater", graph("Gather", numbers, places, axis=0), graph("Gather", function.threshold, node, axis=0)
        )
        below = graph("Add", graph("Mul", node, [2]), graph("Cast", right, to=kinds.INT64))
        node = graph("Gather", children, below, axis=0)
    own = np.zeros((trees, len(function.scale)))
    own[np.arange(trees), function.output] = 1.0
    found = graph("Add", graph("MatMul", graph("Gather", function.value, node, axis=0), own), function.baseline)
    return graph("Mul", found, function.scale)


def _blended(graph: Graph, x: str, function: Experts) -> str:
    """Return the experts' values times their shares; an expert sees the rows in which it has a share, if any."""
    tree, experts = function.tree, function.experts
    if not len(tree.low):
        return _sum(graph, [_function(graph, x, one) for one in experts[0]])
    empty = graph("Mul", graph("Gather", x, [0], axis=1), np.zeros((1, experts[0][0].coef.shape[1])))
    shares, parts = {0: graph("Add", graph("Mul", graph("Gather", x, [0], axis=1), 0.0), 1.0)}, []
    along = graph("MatMul", x, tree.directions.T)
    right = graph("Clip", graph("Div", graph("Sub", along, tree.low), tree.high - tree.low), 0.0, 1.0)
    for place, children in enumerate(tree.children.tolist()):
        to_right = graph("Gather", right, [place], axis=1)
        for child, part in zip(children, (graph("Sub", 1.0, to_right), to_right), strict=True):
            share = graph("Mul", shares[place], part)
            if child >= 0:
                shares[child] = share
            else:
                parts.append(_part(graph, x, share, empty, experts[-1 - child]))
    return _sum(graph, parts)


def _part(graph: Graph, x: str, share: str, empty: str, expert: list[Expansion]) -> str:
    """Return an expert's values times its share, 0 for the rows in which it has none."""

    def then(inside: Graph) -> str:
        some = inside(
            "Transpose", inside("NonZero", inside("Greater", inside("Squeeze", share, [1]), 0.0)), perm=[1, 0]
        )
        places = inside("Squeeze", some, [1])
        values = _sum(inside, [_function(inside, inside("Gather", x, places, axis=0), one) for one in expert])
        return inside("ScatterND", empty, some, inside("Mul", values, inside("Gather", share, places, axis=0)))

    there = graph("Greater", graph("ReduceMax", share, keepdims=0), 0.0)
    return graph.when(there, then, lambda inside: inside("Identity", empty))


Result = tuple[str, int, list[Any]]
"""A tensor, its type and its shape."""


def _answers(graph: Graph, values: list[str], answers: Answers) -> dict[str, Result]:
    """Return the outputs by their names, which are those of the methods whose answers they are."""
    kinds, found = graph.onnx.TensorProto, values[0]
    if isinstance(answers, Numbers):
        shape = ["n"] if answers.single else ["n", None]
        return {"predict": (graph("Squeeze", found, [1]) if answers.single else found, kinds.DOUBLE, shape)}
    if isinstance(answers, Classes):
        return _class_answers(graph, found, answers)
    if not isinstance(answers, Clusters):
        return {"transform": (found, kinds.DOUBLE, ["n", None])}
    nearest = graph("ArgMin", found, axis=1, keepdims=0)
    own = values[1]
    squared = graph("Add", found, own)
    least = graph("Mul", graph("Add", own, answers.norms), answers.rounding)
    apart = graph("Sqrt", graph("Where", graph("Less", squared, least), 0.0, squared))
    return {"predict": (nearest, kinds.INT64, ["n"]), "transform": (apart, kinds.DOUBLE, ["n", None])}


def _class_answers(graph: Graph, scores: str, answers: Classes) -> dict[str, Result]:
    kinds, two = graph.onnx.TensorProto, len(answers.classes) == 2
    logits = scores
    if answers.beside:
        own = np.arange(1 if two else len(answers.classes))
        scores, logits = (graph("Gather", scores, places, axis=1) for places in (own, own + len(own)))
    classes, kind = _labels(answers.classes, kinds)
    if two:
        single = graph("Squeeze", scores, [1])
        places = graph("Cast", graph("Greater", single, 0.0), to=kinds.INT64)
    else:
        single, places = scores, graph("ArgMax", scores, axis=1, keepdims=0)
    found: dict[str, Result] = {
        "predict": (graph("Gather", classes, places, axis=0), kind, ["n"]),
        "decision_function": (single, kinds.DOUBLE, ["n"] if two else ["n", len(classes)]),
    }
    if answers.slope is not None:
        logits = graph("Add", graph("Mul", logits, answers.slope), np.asarray(answers.offsets, dtype=np.float64))
        if two:
            chances = graph("Concat", graph("Sigmoid", graph("Neg", logits)), graph("Sigmoid", logits), axis=1)
        else:
            chances = graph("Softmax", logits, axis=1)
        found["predict_proba"] = (chances, kinds.DOUBLE, ["n", len(classes)])
    return found


def _labels(classes: Any, kinds: Any) -> tuple[Any, int]:
    """Return classes as ONNX has them, and their type."""
    if classes.dtype.kind == "O" and all(isinstance(one, str) for one in classes):
        classes = classes.astype(str)
    types = {"U": (str, kinds.STRING), "b": (bool, kinds.BOOL), "f": (np.float64, kinds.DOUBLE)}
    types |= dict.fromkeys("iu", (np.int64, kinds.INT64))
    if classes.dtype.kind not in types:
        raise TypeError(f"classes of type {classes.dtype} cannot be exported to ONNX: make them text or numbers")
    form, kind = types[classes.dtype.kind]
    return classes.astype(form), kind


def dense(atoms: Rows) -> Array:
    """Return atoms as a dense array of float64."""
    return np.asarray(atoms.toarray() if sp.issparse(atoms) else atoms, dtype=np.float64)
