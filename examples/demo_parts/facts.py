# SPDX-License-Identifier: Apache-2.0
"""What Ingot made of a function, as plain data: ops in, kernels out, bytes, reasons, texts.

The bytes that TensorFlow moves without fusion are counted from the traced graph: every op reads its
inputs and writes its outputs, but for the ops that only hand a buffer on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ingot
import ingot.tensorflow
from demo_parts.measured import Facts, Kernel

_NOT_COUNTED = frozenset({"Placeholder", "Const", "NoOp", "Identity", "IdentityN"})
"""Nodes that are no work in any engine."""
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_HAND_ON = frozenset(
    {"AssignVariableOp", "BroadcastGradientArgs", "ExpandDims", "ReadVariableOp", "Reshape"}
    | {"Shape", "Squeeze", "StopGradient"}
)
"""Ops that move no elements in TensorFlow: they share a buffer or look at a shape."""
_UPDATES = frozenset({"AssignAddVariableOp", "AssignSubVariableOp"})


def of(concrete: Any) -> Facts:
    """Return the facts about a concrete function, or about the jit function that it calls."""
    executable = _executable(concrete)
    operations = list(_operations(concrete.graph))
    text = executable.as_text("hlo_before")
    return Facts(
        sum(operation.type not in _CALLS for operation in operations),
        sum(map(_bytes_moved, operations)),
        sum(map(len, ingot.parse_hlo(text).computations.values())),
        tuple(map(_kernel, executable.kernels)),
        tuple(_copies(executable.as_text("hlo"))),
        executable.fusion_log,
        {stage: executable.as_text(stage) for stage in ("hlo", "kernel", "llvm_optimized")},
    )


def _executable(concrete: Any) -> Any:
    compiled = ingot.tensorflow.executables()
    name = concrete.name
    names = [name.decode() if isinstance(name, bytes) else name]
    names += [op.get_attr("f").name for op in concrete.graph.get_operations() if op.type in _CALLS]
    return next(compiled[name][-1] for name in names if name in compiled)


def _kernel(info: Any) -> Kernel:
    lines = tuple(f"{line.rsplit('/', 1)[-1]}" for line in info.lines)
    numbers = (int(info.bytes_read), int(info.bytes_written), int(info.flops))
    return Kernel(info.kind, info.opcodes, lines, *numbers)


def _copies(hlo: str) -> Iterator[int]:
    """Yield the bytes of each copy that the host program makes: they take time too."""
    for instruction in ingot.parse_hlo(hlo).entry.instructions:
        if instruction.opcode == "copy":
            yield int(instruction.shape.bytes)


def _operations(graph: Any) -> Iterator[Any]:
    """Yield the ops of a graph and of the functions that it calls."""
    for operation in graph.get_operations():
        if operation.type in _NOT_COUNTED:
            continue
        yield operation
        if operation.type in _CALLS:
            yield from _operations(graph._get_function(operation.get_attr("f").name).graph)


def _bytes_moved(operation: Any) -> int:
    if operation.type in _CALLS | _HAND_ON:
        return 0
    if operation.type in _UPDATES:  # reads the variable and the value, writes the variable
        return 3 * _size(operation.inputs[1])
    return sum(map(_size, operation.inputs)) + sum(map(_size, operation.outputs))


def _size(tensor: Any) -> int:
    """Return a tensor's bytes; what has no known size (a shape, a handle) counts as nothing."""
    elements = tensor.shape.num_elements()
    is_data = tensor.dtype.name not in ("resource", "variant", "string")
    return tensor.dtype.size * elements if is_data and elements is not None else 0
