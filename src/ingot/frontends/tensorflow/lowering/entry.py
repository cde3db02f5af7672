# SPDX-License-Identifier: Apache-2.0
"""The entry computation: parameters and results as the binding says, then the walk.

Lowering is repeated while it learns that sizes of different inputs are one (see `sizes`), and while
ops ask for values and sizes of the call (see `constants`): each attempt starts with simpler
parameter shapes and more constants, so it ends after at most one attempt per symbol and input.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.tensorflow.graphs.binding import Binding, LoweredFunction, Parameter
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, CapturedInput, TensorType
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size, without_bound
from ingot.frontends.tensorflow.lowering.context.constants import ValueNeededError
from ingot.frontends.tensorflow.lowering.context.frame import Frame
from ingot.frontends.tensorflow.lowering.context.program import Program, symbol_of
from ingot.frontends.tensorflow.lowering.context.sizes import SizeLearnedError
from ingot.frontends.tensorflow.lowering.context.specialiser import Specialiser
from ingot.frontends.tensorflow.lowering.context.values import (
    Sizes,
    TensorList,
    Value,
    Variable,
    element_of,
)
from ingot.frontends.tensorflow.lowering.list_ops.nested_lists import of_pieces, pieces_of
from ingot.frontends.tensorflow.lowering.list_ops.state import length_of
from ingot.frontends.tensorflow.lowering.walk import graph
from ingot.frontends.tensorflow.variants.specialisation import CallArguments
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Alias, Module
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import UnsupportedError

_TAKEN = {"resource": "variable", "variant": "TensorList whose elements are known"}
"""What compiled code can take of the types that stand for something else."""


def lower(
    captured: CapturedFunction, binding: Binding, name: str, arguments: CallArguments | None = None
) -> LoweredFunction:
    """Return the HLO module of a captured function.

    Args:
        captured: the function.
        binding: its parameters and results.
        name: the module's name.
        arguments: the call that the program is for: what it cannot leave to run time it asks of
            them. Without, the program is for all calls.

    Raises:
        UnsupportedError: an op cannot be compiled; names it, the node and the user's file:line.
    """
    specialiser = Specialiser(captured, binding, arguments)
    while True:
        program = specialiser.program()
        try:
            module = _attempt(program, name)
        except SizeLearnedError as learned:
            program.learned.append(learned)
        except ValueNeededError as needed:
            if not program.learned:
                specialiser.fix(needed)
        except Exception:
            # Where sizes are not yet one, it says nothing about the function.
            if not program.learned:
                raise
        else:
            if not program.learned:
                if arguments is not None:
                    arguments.computed = _varying_names(program)
                return LoweredFunction(captured, binding, module)
        specialiser.learn(program.learned)


def _attempt(program: Program, name: str) -> Module:
    frame = Frame("main", program)
    captured, binding = program.captured, program.binding
    parameters, lengths = _entry_parameters(frame)
    inputs: list[Value] = []
    for index, item in enumerate(captured.inputs):
        value = _input_value(frame, index, item, parameters.get(index), lengths.get(index))
        inputs.append(value)
        if isinstance(value, Variable) and index in parameters:
            frame.state[value] = program.known.get(index, parameters[index])
    outputs = graph.run(captured, frame, inputs)
    results: list[Instruction] = []
    for result in binding.results:
        if result.output is not None:
            value = outputs[result.output]
            if result.is_length and isinstance(value, TensorList):
                if not result.of_lists:
                    results.append(frame.builder.reshape_to(length_of(frame.builder, value), (1,)))
            elif result.output in captured.lists_of_lists and isinstance(value, TensorList):
                _need_elements(captured, result.output, value)
                results += pieces_of(frame, value)
            else:
                results.append(_output(captured, frame, result.output, value))
        elif result.variable is not None:
            results.append(_variable_result(frame, captured, result.variable, inputs))
    results = [_of_exact_sizes(frame, result) for result in results]
    module = Module.of(name, frame.builder.build(frame.builder.tuple(*results)))
    # A program that another one may follow must leave its variables as they were.
    is_last = not (program.has_rooms or program.varying)
    module.aliases = _aliases(module, binding) if is_last else ()
    return module


def _varying_names(program: Program) -> dict[int, str]:
    """Return by parameter the names of arguments that sizes are computed from."""
    inputs = program.captured.inputs
    return {program.parameter_of(index): inputs[index].name for index in sorted(program.varying)}


def _entry_parameters(frame: Frame) -> tuple[dict[int, Instruction], dict[int, Instruction]]:
    """Make the parameters; return them by input, and those with the lengths of lists in a list."""
    program = frame.program
    parameters: dict[int, Instruction] = {}
    lengths: dict[int, Instruction] = {}
    for number, item in enumerate(program.binding.parameters):
        name = program.input_name(item.input)
        if item.is_lengths:
            made = frame.builder.parameter(number, _lengths_shape(program, item), f"{name}_lengths")
            lengths[item.input] = made
        else:
            shape = _parameter_shape(program, item.input)
            made = parameters[item.input] = frame.builder.parameter(number, shape, name)
        made.metadata = program.input_metadata(item.input)
        program.parameters[made] = item.input
    _bind_sizes(frame, [*parameters.values(), *lengths.values()])
    return parameters, lengths


def _of_exact_sizes(frame: Frame, value: Instruction) -> Instruction:
    """Return a result's first elements where only they count: a tensor has one size."""
    if not any(value.shape.bounded):
        return value
    b, dims = frame.builder, list(value.shape.dims)
    for axis, is_bounded in enumerate(value.shape.bounded):
        if is_bounded:
            size = b.emit("get-dimension-size", value, dimensions=(axis,))
            dims[axis] = computed_size(frame, size)
            value = without_bound(b, value, axis)
    zeros = [b.constant(0, S64)] * len(dims)
    return b.emit("dynamic-slice", value, *zeros, dynamic_slice_sizes=tuple(dims))


def _aliases(module: Module, binding: Binding) -> tuple[Alias, ...]:
    """Return the donations whose shapes allow it; what fails leaves variables as they were."""
    given = module.parameter_shapes
    made = module.result_shape.elements
    return tuple(
        Alias((result,), parameter, survives_failure=True)
        for result, parameter in binding.donations
        if made[result].compatible(given[parameter])
    )


def _value_type(item: CapturedInput) -> TensorType:
    if item.type.dtype not in ("resource", "variant"):
        return item.type
    if item.handle is None:
        raise UnsupportedError(
            f"input '{item.name}' is a {item.type.dtype} that is not a {_TAKEN[item.type.dtype]}",
            code="INGOT0311",
            hint="keep tables, iterators and datasets outside the function with jit_compile=True",
        )
    return item.handle


def _dims(program: Program, index: int) -> Sizes:
    item = program.captured.inputs[index]
    shape = _value_type(item).shape
    if shape is None:
        raise UnsupportedError(
            f"the rank of input '{item.name}' is not known",
            code="INGOT0311",
            hint="give it a shape in the input signature; single sizes may be None",
        )
    if item.type.dtype == "variant":
        shape = (None, *shape)
    return program.input_dims(index, shape)


def _parameter_shape(program: Program, index: int) -> Shape:
    element = element_of(_value_type(program.captured.inputs[index]).dtype)
    return Shape.array(element, _dims(program, index))


def _lengths_shape(program: Program, item: Parameter) -> Shape:
    count = Dim.symbol(symbol_of(item.input, 0, is_lengths=True))
    return Shape.array(S64, program.equalities.simplify((count,)))


def _bind_sizes(frame: Frame, parameters: Sequence[Instruction]) -> None:
    """Make every symbol's run-time value available: the size of a parameter's dimension."""
    for parameter in parameters:
        for axis, size in enumerate(parameter.shape.dims):
            if isinstance(size, Dim) and size.is_symbol and str(size) not in frame.sizes:
                found = frame.builder.emit("get-dimension-size", parameter, dimensions=(axis,))
                frame.sizes[str(size)] = frame.builder.convert_to(found, S64)


def _input_value(
    frame: Frame,
    index: int,
    item: CapturedInput,
    parameter: Instruction | None,
    lengths: Instruction | None,
) -> Value:
    program = frame.program
    if item.type.dtype == "resource":
        if item.handle is None or item.handle.shape is None:
            # Only an op that touches it is an error.
            return Variable(index, element_of("float32"), ())
        return Variable(index, element_of(item.handle.dtype), _dims(program, index))
    if item.type.dtype == "variant" and parameter is not None:
        if lengths is not None:
            return of_pieces(frame.builder, parameter, lengths)
        shape = _parameter_shape(program, index)
        return TensorList(parameter, shape.dims[0], shape.dtype, shape.dims[1:])
    if parameter is None:
        # The binding left it out: it is only handed on, or not used. A handle has no data either.
        return Variable(index, element_of("float32"), ())
    return program.known.get(index, parameter)


def _output(captured: CapturedFunction, frame: Frame, index: int, value: Value) -> Instruction:
    if isinstance(value, TensorList):
        return _need_elements(captured, index, value)
    if isinstance(value, Variable):
        raise UnsupportedError(
            f"output {index} of '{captured.name}' is a variable's handle", code="INGOT0311"
        )
    return frame.tensor(value)


def _need_elements(captured: CapturedFunction, index: int, value: TensorList) -> Instruction:
    """Return the buffer of a list that is output `index`; an error if it has none."""
    if value.buffer is not None:
        return value.buffer
    made = next(node for node in captured.nodes if node.name == captured.outputs[index].node)
    raise UnsupportedError(
        f"output {index} of '{captured.name}' is a TensorList of unknown elements",
        code="INGOT0311",
        op_type=made.op,
        op_name=made.name,
        location=made.location,
        hint="give the TensorArray a size and an element shape",
    )


def _variable_result(
    frame: Frame, captured: CapturedFunction, index: int, inputs: list[Value]
) -> Instruction:
    variable = inputs[index]
    if not isinstance(variable, Variable) or variable not in frame.state:
        raise UnsupportedError(
            f"variable '{captured.inputs[index].name}' is given no value on some path",
            code="INGOT0311",
            hint="initialise the variable before the function runs",
        )
    return frame.tensor(frame.state[variable])
