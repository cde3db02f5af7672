# SPDX-License-Identifier: Apache-2.0
"""Writes a launch into a body: reads, one launch, writes.

    ReadVariableOp ...  ->  IngotLaunch  ->  outputs, AssignVariableOp ...

TensorLists cross as one stacked tensor (`TensorListStack` before, `TensorListFromTensor` after the
launch). A list of lists that only gradients see is for TensorFlow a list of tensors, the elements
of a list each (`TensorListConcatV2`, `TensorListSplit`).

Invariant: every read comes before the launch, which comes before every write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.frontends.tensorflow.graphs.binding import Binding
from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    Shape,
    TensorRef,
    TensorType,
)
from ingot.frontends.tensorflow.graphs.list_shapes import element_shape_of
from ingot.frontends.tensorflow.graphs.random_state import has_random_state, make_random_state
from ingot.frontends.tensorflow.launches.body import (
    Body,
    launch_output_types,
    result_type,
    type_number,
)
from ingot.frontends.tensorflow.launches.launch import Launch
from ingot.frontends.tensorflow.launches.launch_op import (
    LAUNCH_OP,
    PROCESS_MARK,
    STATEFUL_LAUNCH_OP,
)
from ingot.support.records import record

LIST_NODE = "ingot_list_{launch}_{parameter}"
"""The name of the node that stacks the list that a parameter of a launch is."""


@record
class Program:
    """A function that is compiled, or a part of one, and how TensorFlow runs it.

    Attributes:
        of: the name of the function that it is, or is a part of.
        function: what is compiled.
        binding: its parameters and results.
        direct: whether the launch takes the handles of variables, so that no reads and writes are
            needed around it.
        launch: the launch's record.
    """

    of: str
    function: CapturedFunction
    binding: Binding
    direct: bool
    launch: Launch

    @property
    def op(self) -> str:
        """The launch op: stateful if it must run."""
        is_stateful = self.direct or self.binding.has_effects
        return STATEFUL_LAUNCH_OP if is_stateful else LAUNCH_OP

    @property
    def runs(self) -> bool:
        """Whether there is anything to run."""
        return bool(self.binding.results) or self.binding.has_effects

    @property
    def reads_variables(self) -> bool:
        """Whether some parameter is a variable's value."""
        inputs = self.function.inputs
        return any(inputs[item.input].is_variable for item in self.binding.parameters)


class LaunchWriter:
    """Writes one launch into a body, with what stands around it.

    Attributes:
        effects: the nodes that others must wait for, and that must run.
    """

    def __init__(
        self,
        body: Body,
        program: Program,
        arguments: Sequence[str],
        prefix: str = "",
        waits_for: Sequence[str] = (),
    ) -> None:
        """Write `program` for the tensors `arguments`, after the nodes `waits_for`.

        `prefix` goes before the names of its nodes.
        """
        self._body = body
        self._program = program
        self._function, self._binding = program.function, program.binding
        self._prefix = prefix
        self._arguments = list(arguments)
        self._waits_for = [f"^{name}" for name in waits_for]
        self.effects: list[str] = []

    def write(self) -> list[str]:
        """Write the nodes; return the tensor that each output of the function is."""
        self._write_random_state()
        sources, types = self._write_sources()
        program, binding = self._program, self._binding
        kinds = launch_output_types(self._function, binding, program.direct)
        if program.runs:
            node = self._node("launch", program.op, sources)
            node.attr["Tin"].list.SetInParent()
            node.attr["Tout"].list.SetInParent()
            node.attr["Tin"].list.type.extend(types)
            node.attr["Tout"].list.type.extend(kinds)
            node.attr["launch"].i = program.launch.address
            node.attr["process"].i = PROCESS_MARK
            # Reads too: a write that the caller orders after this function must wait for them.
            if binding.has_effects or program.reads_variables:
                self.effects.append(node.name)
        outputs = [""] * len(self._function.outputs)
        for index in range(len(kinds)):
            result = binding.results[index]
            if result.is_length:
                continue
            tensor = f"{self._prefix}launch:outputs:{index}"
            if result.variable is not None:
                self._write_variable(index, result.variable, tensor)
            elif result.output is not None:
                outputs[result.output] = self._write_output(index, result.output, tensor)
        for output, source in binding.handed_on:
            outputs[output] = self._arguments[source]
        return outputs

    def _node(self, name: str, op: str, inputs: list[str]) -> Any:
        return self._body.add_node(self._prefix + name, op, [*inputs, *self._waits_for])

    def _write_random_state(self) -> None:
        """Make the handle of the hidden variable: an argument that the signature does not have."""
        if not has_random_state(self._function.inputs):
            return
        handle = self._function.inputs[-1].handle
        assert handle is not None
        assert handle.shape is not None
        (count,) = handle.shape
        assert count is not None
        name, is_made = make_random_state(count)
        node = self._node("random_state", "VarHandleOp", [])
        node.attr["dtype"].type = type_number(handle.dtype)
        node.attr["shape"].shape.dim.add().size = count
        node.attr["shared_name"].s = name.encode()
        node.attr["container"].s = b""
        self._arguments.append(f"{self._prefix}random_state:resource:0")
        if not is_made:
            self._write_first_state(self._arguments[-1], count, handle.dtype)

    def _write_first_state(self, handle: str, count: int, dtype: str) -> None:
        """Assign zeros to the hidden variable if it has no value; all else waits for that."""
        kind = type_number(dtype)
        zeros = self._integers("random_zeros", [0] * count, dtype)
        has_value = self._node("random_has_value", "VarIsInitializedOp", [handle])
        pred = f"{has_value.name}:is_initialized:0"
        switch = self._node("random_switch", "Switch", [zeros, pred])
        missing = f"{switch.name}:output_false:0"
        write = self._node("random_first", "AssignVariableOp", [handle, missing])
        done = self._node("random_made", "Identity", [missing, f"^{write.name}"])
        sources = [f"{done.name}:output:0", f"{switch.name}:output_true:0"]
        merge = self._node("random_ready", "Merge", sources)
        merge.attr["N"].i = 2
        for node in (switch, done, merge):
            node.attr["T"].type = kind
        write.attr["dtype"].type = kind
        self._waits_for.append(f"^{merge.name}")

    def _write_sources(self) -> tuple[list[str], list[int]]:
        names: list[str] = []
        types: list[int] = []
        for index, parameter in enumerate(self._binding.parameters):
            item = self._function.inputs[parameter.input]
            argument = self._arguments[parameter.input]
            kind = item.type if item.handle is None else item.handle
            if item.type.dtype == "resource" and self._program.direct:
                kind = item.type
            elif item.type.dtype == "resource":
                node = self._node(f"read_{index}", "ReadVariableOp", [argument])
                node.attr["dtype"].type = type_number(kind.dtype)
                argument = f"{node.name}:value:0"
            elif parameter.is_lengths:
                argument = names[-1].replace(":tensor:", ":lengths:")
                kind = TensorType("int64", (None,))
            elif item.type.dtype == "variant":
                argument = self._write_array(index, argument, kind, of_lists=item.of_lists)
            else:
                kind = item.type
            names.append(argument)
            types.append(type_number(kind.dtype))
        return names, types

    def _write_array(self, index: int, argument: str, kind: TensorType, *, of_lists: bool) -> str:
        """Return the elements of a list as one tensor; of a list of lists, end to end."""
        name = LIST_NODE.format(launch=self._program.launch.identifier, parameter=index)
        if of_lists:
            shape = self._integers(f"element_{index}", -1)
            none = self._integers(f"leading_{index}", [], "int64")
            inputs = [self._untyped(index, argument), shape, none]
            node = self._node(name, "TensorListConcatV2", inputs)
            node.attr["shape_type"].type = type_number("int32")
        else:
            shape = self._shape_constant(f"element_{index}", kind.shape)
            node = self._node(name, "TensorListStack", [argument, shape])
            node.attr["num_elements"].i = -1
        node.attr["element_dtype"].type = type_number(kind.dtype)
        return f"{node.name}:tensor:0"

    def _untyped(self, index: int, argument: str) -> str:
        """Return a list of lists as one whose elements TensorFlow's shape inference knows not.

        They are tensors, each the rows of a list; TensorFlow, which traced it, expects lists.
        """
        node = self._node(f"untyped_{index}", "EnsureShape", [argument])
        node.attr["T"].type = type_number("variant")
        node.attr["shape"].shape.SetInParent()
        return f"{node.name}:output:0"

    def _shape_constant(self, name: str, shape: Shape) -> str:
        sizes = -1 if shape is None else [-1 if size is None else size for size in shape]
        return self._integers(name, sizes)

    def _write_variable(self, index: int, variable: int, tensor: str) -> None:
        kind = result_type(self._function, self._binding, index)
        node = self._node(f"write_{index}", "AssignVariableOp", [self._arguments[variable], tensor])
        node.attr["dtype"].type = type_number(kind.dtype)
        self.effects.append(node.name)

    def _write_output(self, index: int, output: int, tensor: str) -> str:
        kind = result_type(self._function, self._binding, index)
        if self._function.output_types[output].dtype != "variant" or kind.dtype == "variant":
            return tensor
        if self._binding.results[index + 1].of_lists:
            open_size = self._integers(f"open_{index}", [-1])
            rest = self._element_shape(index, tensor, kind)
            zero = self._integers(f"zero_{index}", 0)
            joined = self._node(f"piece_{index}", "ConcatV2", [open_size, rest, zero])
            joined.attr["N"].i = 2
            joined.attr["T"].type = joined.attr["Tidx"].type = type_number("int32")
            lengths = f"{self._prefix}launch:outputs:{index + 1}"
            inputs = [tensor, f"{joined.name}:output:0", lengths]
            node = self._node(f"list_{index}", "TensorListSplit", inputs)
        else:
            elements = self._write_elements(index, tensor, kind.dtype)
            shape = self._shape_in_list(index, output)
            if shape is None:
                shape = self._element_shape(index, elements, kind)
            node = self._node(f"list_{index}", "TensorListFromTensor", [elements, shape])
        node.attr["element_dtype"].type = type_number(kind.dtype)
        node.attr["shape_type"].type = type_number("int32")
        return f"{node.name}:output_handle:0"

    def _shape_in_list(self, index: int, output: int) -> str | None:
        """Return the shape that the user's list has for TensorFlow: elements may have others.

        A list that a gradient takes says all that is known: an empty one then has a shape.
        """
        if output >= self._function.shown:
            return None
        found = element_shape_of(self._function, output)
        if found is None:
            return None
        if not isinstance(found, TensorRef):
            sizes = found if isinstance(found, int) else list(found)
            return self._integers(f"shape_{index}", sizes)
        numbers = {item.name: number for number, item in enumerate(self._function.inputs)}
        given = self._arguments[numbers[found.node]]
        node = self._node(f"given_{index}", "TensorListElementShape", [given])
        node.attr["shape_type"].type = type_number("int32")
        return f"{node.name}:element_shape:0"

    def _write_elements(self, index: int, tensor: str, dtype: str) -> str:
        """Take the rows of a list's buffer that are elements: as many as the next result says."""
        first, step = self._integers(f"begin_{index}", [0]), self._integers(f"step_{index}", [1])
        end = f"{self._prefix}launch:outputs:{index + 1}"
        node = self._slice(f"elements_{index}", dtype, [tensor, first, end, step])
        return f"{node.name}:output:0"

    def _slice(self, name: str, dtype: str, inputs: list[str]) -> Any:
        """Write a slice of operand 0 by begins, ends and steps."""
        node = self._node(name, "StridedSlice", inputs)
        node.attr["T"].type = type_number(dtype)
        node.attr["Index"].type = type_number("int32")
        return node

    def _element_shape(self, index: int, elements: str, kind: TensorType) -> str:
        """Return the shape of an element; what is not known is found when the program runs.

        An empty list tells the shape of its elements only if it was given all of it.
        """
        if kind.shape is not None and None not in kind.shape:
            return self._shape_constant(f"shape_{index}", kind.shape)
        node = self._node(f"sizes_{index}", "Shape", [elements])
        node.attr["T"].type = type_number(kind.dtype)
        node.attr["out_type"].type = type_number("int32")
        one = self._integers(f"one_{index}", [1])
        made = self._slice(f"shape_{index}", "int32", [f"{node.name}:output:0", one, one, one])
        made.attr["end_mask"].i = 1
        return f"{made.name}:output:0"

    def _integers(self, name: str, values: int | list[int], dtype: str = "int32") -> str:
        return self._body.add_integers(self._prefix + name, values, dtype)


def write_body(original: Any, program: Program) -> Any:
    """Return the FunctionDef that runs `program` in place of `original`."""
    body = Body(original)
    body.definition.signature.is_stateful = program.binding.has_effects
    writer = LaunchWriter(body, program, body.arguments)
    for output, tensor in enumerate(writer.write()):
        body.set_output(output, tensor)
    for node in writer.effects:
        body.add_effect(node)
    return body.definition
