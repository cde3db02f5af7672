# SPDX-License-Identifier: Apache-2.0
"""What a `SymbolicGradient` node calls: the gradient of a function, made where it is captured.

TensorFlow 1 differentiates a call of a function (`Defun`) with such a node, whose kernel builds the
gradient when it runs. `capture` makes the node a call of a function that is named after the first
one; its graph, a copy of that function's with the gradients after it, is built here.

Invariant: the function takes the first one's inputs, then a gradient of each of its outputs; it
gives a gradient of each of the inputs, zeros where there is none.
Source: TensorFlow's `core/kernels/function_ops.cc`, `common_runtime/function.cc`.
"""

from __future__ import annotations

from typing import Any

from ingot.frontends.tensorflow.api.modules import (
    function_def_to_graph,
    gradients_util,
    ops,
    tensorflow,
)
from ingot.support.diagnostics import UnsupportedError

_SUFFIX = "__symbolic_gradient"


def gradient_name(name: str) -> str:
    """Return the name of a function's gradient."""
    return name + _SUFFIX


def differentiated(name: str) -> str | None:
    """Return the name of the function whose gradient is called `name`, or None."""
    return name.removesuffix(_SUFFIX) if name.endswith(_SUFFIX) else None


def gradient_graph(owner: Any, definition: Any) -> Any:
    """Return the graph of the gradient of a function that `owner` holds, of its FunctionDef."""
    with owner.as_default():
        graph = function_def_to_graph.function_def_to_graph(definition)
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    with graph.as_default():
        seeds = [tensorflow.compat.v1.placeholder(item.dtype, item.shape) for item in outputs]
        pairs = [
            (output, seed)
            for output, seed in zip(outputs, seeds, strict=True)
            if output.dtype.is_floating or output.dtype.is_complex
        ]
        try:
            found = gradients_util._GradientsHelper(
                [output for output, _ in pairs],
                inputs,
                grad_ys=[seed for _, seed in pairs],
                src_graph=graph,
            )
        except LookupError as error:
            raise UnsupportedError(str(error), code="INGOT0310") from error
        gradients = [
            tensorflow.zeros_like(item) if found_ is None else ops.convert_to_tensor(found_)
            for item, found_ in zip(inputs, found, strict=True)
        ]
    graph.inputs = [*inputs, *seeds]
    graph.outputs = gradients
    return graph
