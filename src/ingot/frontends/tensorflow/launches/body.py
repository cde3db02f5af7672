# SPDX-License-Identifier: Apache-2.0
"""The body that replaces a TensorFlow function: one launch (`launch_writer`), or several.

The signature stays what it was, so callers see no difference.

Invariant: every effect is a control output of the body.
Source: TensorFlow's `framework/function.proto` (names of tensors inside a FunctionDef are
`node:output_argument:index`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.frontends.tensorflow.api.modules import (
    attr_value_pb2,
    attributes,
    dtypes,
    function_pb2,
    tensor_util,
)
from ingot.frontends.tensorflow.graphs.binding import Binding
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, TensorType
from ingot.frontends.tensorflow.launches.launch import VariableInput

INGOT_COMPILE = "_IngotCompile"
"""Attribute of functions that Ingot compiles; gradients inherit it."""

DROPPED_ATTRIBUTES = (attributes.XLA_COMPILE, attributes.NO_INLINE)
"""Attributes of functions that a body in their place has not."""


def type_number(name: str) -> int:
    """Return the TF_DataType of a type name."""
    return int(dtypes.as_dtype(name).as_datatype_enum)


def launch_output_types(
    function: CapturedFunction, binding: Binding, direct: bool = False
) -> list[int]:
    """Return the TF_DataType of each output of the op; `direct`: it writes variables itself."""
    return [
        type_number(result_type(function, binding, at).dtype)
        for at, result in enumerate(binding.results)
        if result.variable is None or not direct
    ]


def variable_inputs(function: CapturedFunction, binding: Binding) -> list[VariableInput]:
    """Return the handles that a launch with direct access takes."""
    results = {result.variable: at for at, result in enumerate(binding.results)}
    rows: list[VariableInput] = []
    for at, parameter in enumerate(binding.parameters):
        item = function.inputs[parameter.input]
        if item.type.dtype != "resource":
            continue
        assert item.handle is not None
        assert item.handle.shape is not None
        dims = tuple(size for size in item.handle.shape if size is not None)
        kind = type_number(item.handle.dtype)
        result = results.get(parameter.input, -1)
        rows.append(VariableInput(at, result, dims, kind, dtypes.as_dtype(item.handle.dtype).size))
    return rows


def result_type(function: CapturedFunction, binding: Binding, index: int) -> TensorType:
    """Return the type of result `index` as the launch op gives it."""
    result = binding.results[index]
    if result.variable is not None:
        handle = function.inputs[result.variable].handle
        assert handle is not None
        return handle
    assert result.output is not None
    if result.is_length:
        return TensorType("int64", (None,)) if result.of_lists else TensorType("int32", (1,))
    handle = function.output_handles[result.output]
    own = function.output_types[result.output]
    return handle if own.dtype == "variant" and handle is not None else own


class Body:
    """A FunctionDef with the signature of `original`, in the making.

    Attributes:
        original: the FunctionDef whose signature it has.
        definition: the FunctionDef.
        arguments: the names of its inputs.
    """

    def __init__(self, original: Any, name: str = "") -> None:
        """Start with the original's signature and attributes; `name`: another name for it."""
        self.original = original
        self.definition: Any = function_pb2.FunctionDef()
        self.definition.signature.CopyFrom(original.signature)
        del self.definition.signature.control_output[:]
        if name:
            self.definition.signature.name = name
        for key, value in original.attr.items():
            if key not in DROPPED_ATTRIBUTES:
                self.definition.attr[key].CopyFrom(value)
        self.definition.attr[INGOT_COMPILE].b = True
        for key, value in original.arg_attr.items():
            self.definition.arg_attr[key].CopyFrom(value)
        self.arguments = [item.name for item in original.signature.input_arg]
        self._outputs = [item.name for item in original.signature.output_arg]

    def add_node(self, name: str, op: str, inputs: Sequence[str]) -> Any:
        """Add a node; return its NodeDef."""
        node = self.definition.node_def.add()
        node.name, node.op = name, op
        node.input.extend(inputs)
        return node

    def add_integers(self, name: str, values: int | list[int], dtype: str = "int32") -> str:
        """Add a constant; return its tensor."""
        node = self.add_node(name, "Const", [])
        node.attr["dtype"].type = type_number(dtype)
        made = tensor_util.make_tensor_proto(values, dtype=dtypes.as_dtype(dtype))
        node.attr["value"].tensor.CopyFrom(made)
        return f"{name}:output:0"

    def add_effect(self, node: str) -> None:
        """Let a node run even if nobody looks at its outputs."""
        name = f"effect_{node}"
        if name in self.definition.control_ret:
            return
        self.definition.control_ret[name] = node
        self.definition.signature.control_output.append(name)

    def set_output(self, output: int, tensor: str) -> None:
        """Say what an output is."""
        self.definition.ret[self._outputs[output]] = tensor


def as_bool(value: Any) -> bool:
    """Return a function attribute as a bool, whether it is a proto, a bool or missing."""
    return bool(value.b) if isinstance(value, attr_value_pb2.AttrValue) else bool(value)
