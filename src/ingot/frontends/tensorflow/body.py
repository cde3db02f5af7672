"""The body that replaces a TensorFlow function: reads, one launch, writes.

    ReadVariableOp ...  ->  IngotLaunch  ->  outputs, AssignVariableOp ...

The signature stays what it was, so callers see no difference. TensorLists cross as one stacked
tensor (`TensorListStack` before, `TensorListFromTensor` after the launch).

Invariant: every effect is a control output of the body, and every read comes before the launch that
comes before every write.
Source: TensorFlow's `framework/function.proto` (names of tensors inside a FunctionDef are
`node:output_argument:index`).
"""

from __future__ import annotations

from typing import Any

from ingot.frontends.tensorflow.binding import Binding
from ingot.frontends.tensorflow.captured import CapturedFunction, Shape, TensorType
from ingot.frontends.tensorflow.launch import VariableInput
from ingot.frontends.tensorflow.modules import (
    attr_value_pb2,
    attributes,
    dtypes,
    function_pb2,
    tensor_util,
)
from ingot.frontends.tensorflow.random_state import has_random_state, make_random_state

INGOT_COMPILE = "_IngotCompile"
"""Attribute of functions that Ingot compiles; gradients inherit it."""

_DROPPED = (attributes.XLA_COMPILE, attributes.NO_INLINE)


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
        return TensorType("int32", (1,))
    handle = function.output_handles[result.output]
    own = function.output_types[result.output]
    return handle if own.dtype == "variant" and handle is not None else own


class BodyWriter:
    """Writes the FunctionDef that replaces `original`."""

    def __init__(
        self, original: Any, function: CapturedFunction, binding: Binding, direct: bool
    ) -> None:
        """Start with the original's signature and attributes.

        `direct`: the launch takes the handles of variables and needs no reads and writes around.
        """
        self._direct = direct
        self._function = function
        self._binding = binding
        self._arguments = [item.name for item in original.signature.input_arg]
        self._outputs = [item.name for item in original.signature.output_arg]
        self.definition: Any = function_pb2.FunctionDef()
        self.definition.signature.CopyFrom(original.signature)
        del self.definition.signature.control_output[:]
        self.definition.signature.is_stateful = binding.has_effects
        for key, value in original.attr.items():
            if key not in _DROPPED:
                self.definition.attr[key].CopyFrom(value)
        self.definition.attr[INGOT_COMPILE].b = True
        for key, value in original.arg_attr.items():
            self.definition.arg_attr[key].CopyFrom(value)

    def write(self, op: str, launch: int, process: int) -> Any:
        """Return the definition with its nodes; `launch` and `process` are attributes of `op`."""
        self._write_random_state()
        sources, types = self._write_sources()
        kinds = launch_output_types(self._function, self._binding, self._direct)
        if self._binding.results or self._binding.has_effects:
            node = self._node("launch", op, sources)
            node.attr["Tin"].list.SetInParent()
            node.attr["Tout"].list.SetInParent()
            node.attr["Tin"].list.type.extend(types)
            node.attr["Tout"].list.type.extend(kinds)
            node.attr["launch"].i = launch
            node.attr["process"].i = process
            # Reads too: a write that the caller orders after this function must wait for them.
            if self._binding.has_effects or self._reads_variables():
                self._control_output("launch")
        for index in range(len(kinds)):
            if self._binding.results[index].is_length:
                continue
            self._write_result(index, f"launch:outputs:{index}")
        for output, source in self._binding.handed_on:
            self.definition.ret[self._outputs[output]] = self._arguments[source]
        return self.definition

    def _reads_variables(self) -> bool:
        inputs = self._function.inputs
        return any(inputs[item.input].is_variable for item in self._binding.parameters)

    def _node(self, name: str, op: str, inputs: list[str]) -> Any:
        node = self.definition.node_def.add()
        node.name, node.op = name, op
        node.input.extend(inputs)
        return node

    def _control_output(self, node: str) -> None:
        name = f"effect_{node}"
        self.definition.control_ret[name] = node
        self.definition.signature.control_output.append(name)

    def _write_random_state(self) -> None:
        """Make the handle of the hidden variable: an argument that the signature does not have."""
        if not has_random_state(self._function.inputs):
            return
        handle = self._function.inputs[-1].handle
        assert handle is not None
        assert handle.shape is not None
        (count,) = handle.shape
        assert count is not None
        node = self._node("random_state", "VarHandleOp", [])
        node.attr["dtype"].type = type_number(handle.dtype)
        node.attr["shape"].shape.dim.add().size = count
        node.attr["shared_name"].s = make_random_state(count).encode()
        node.attr["container"].s = b""
        self._arguments.append("random_state:resource:0")

    def _write_sources(self) -> tuple[list[str], list[int]]:
        names: list[str] = []
        types: list[int] = []
        for index, parameter in enumerate(self._binding.parameters):
            item = self._function.inputs[parameter.input]
            argument = self._arguments[parameter.input]
            kind = item.type if item.handle is None else item.handle
            if item.type.dtype == "resource" and self._direct:
                kind = item.type
            elif item.type.dtype == "resource":
                node = self._node(f"read_{index}", "ReadVariableOp", [argument])
                node.attr["dtype"].type = type_number(kind.dtype)
                argument = f"read_{index}:value:0"
            elif item.type.dtype == "variant":
                shape = self._shape_constant(f"element_{index}", kind.shape)
                node = self._node(f"stack_{index}", "TensorListStack", [argument, shape])
                node.attr["element_dtype"].type = type_number(kind.dtype)
                node.attr["num_elements"].i = -1
                argument = f"stack_{index}:tensor:0"
            else:
                kind = item.type
            names.append(argument)
            types.append(type_number(kind.dtype))
        return names, types

    def _shape_constant(self, name: str, shape: Shape) -> str:
        sizes = -1 if shape is None else [-1 if size is None else size for size in shape]
        return self._integers(name, sizes)

    def _write_result(self, index: int, tensor: str) -> None:
        result = self._binding.results[index]
        kind = result_type(self._function, self._binding, index)
        if result.variable is not None:
            argument = self._arguments[result.variable]
            node = self._node(f"write_{index}", "AssignVariableOp", [argument, tensor])
            node.attr["dtype"].type = type_number(kind.dtype)
            self._control_output(f"write_{index}")
            return
        assert result.output is not None
        if (
            self._function.output_types[result.output].dtype == "variant"
            and kind.dtype != "variant"
        ):
            tensor = self._write_elements(index, tensor, kind.dtype)
            shape = self._shape_constant(f"shape_{index}", kind.shape)
            node = self._node(f"list_{index}", "TensorListFromTensor", [tensor, shape])
            node.attr["element_dtype"].type = type_number(kind.dtype)
            node.attr["shape_type"].type = type_number("int32")
            tensor = f"list_{index}:output_handle:0"
        self.definition.ret[self._outputs[result.output]] = tensor

    def _write_elements(self, index: int, tensor: str, dtype: str) -> str:
        """Take the rows of a list's buffer that are elements: as many as the next result says."""
        first, step = (
            self._integers(f"{name}_{index}", [n]) for name, n in (("begin", 0), ("step", 1))
        )
        inputs = [tensor, first, f"launch:outputs:{index + 1}", step]
        node = self._node(f"elements_{index}", "StridedSlice", inputs)
        node.attr["T"].type = type_number(dtype)
        node.attr["Index"].type = type_number("int32")
        return f"elements_{index}:output:0"

    def _integers(self, name: str, values: int | list[int]) -> str:
        node = self._node(name, "Const", [])
        node.attr["dtype"].type = type_number("int32")
        made = tensor_util.make_tensor_proto(values, dtype=dtypes.int32)
        node.attr["value"].tensor.CopyFrom(made)
        return f"{name}:output:0"


def truth(value: Any) -> bool:
    """Return a function attribute as a bool, whether it is a proto, a bool or missing."""
    return bool(value.b) if isinstance(value, attr_value_pb2.AttrValue) else bool(value)
