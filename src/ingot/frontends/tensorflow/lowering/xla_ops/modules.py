# SPDX-License-Identifier: Apache-2.0
"""`XlaCallModule`: a StableHLO program inside a TensorFlow function, as JAX's `jax2tf` makes it.

The program is read by `formats.stablehlo` and called. It takes the index of the platform, where it
is made for several, and tokens, which order effects, beside the op's operands. Its calls of
TensorFlow functions (`call_tf_function`, which JAX's `call_tf` makes) become calls of what these
lower to.

Source: TensorFlow's `compiler/tf2xla/kernels/xla_call_module_op.cc`, `xla_call_module_loader.cc`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ingot.frontends.tensorflow.api import xla_flags
from ingot.frontends.tensorflow.graphs.captured import FunctionRef
from ingot.frontends.tensorflow.lowering.context.frame import Frame
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.frontends.tensorflow.lowering.walk import graph
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S32, S64, TOKEN
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.control import CallAttributes
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import is_assertion
from ingot.semantics.custom_calls import config_text
from ingot.support.diagnostics import ParseError
from ingot.support.regex import regex

if TYPE_CHECKING:
    from ingot.formats.stablehlo import Exported

_TOKEN = "!stablehlo.token"
_CALL_TARGET = "tf.call_tf_function"
_CALLED = regex(r"called_index = (\d+)")
_SAYS_OPEN_SIZES = 8
"""The first version whose modules say whether they are made for several sizes."""


def _call_module(op: Op) -> tuple[Value, ...]:
    operands = op.tensors()
    platforms = [str(name) for name in op.attribute("platforms", ()) or ()]
    platform = _platform(op, platforms)
    if len(platforms) > 1:
        operands.insert(0, op.b.constant(platform, S32))

    def sizes(types: tuple[str, ...]) -> dict[str, Size]:
        return {
            f"d{number}_{axis}": size
            for number, operand in enumerate(_arguments(op, types, operands))
            if operand is not None
            for axis, size in enumerate(operand.shape.dims)
        }

    program = _parsed(op, sizes)
    entry = program.module.entry
    if len(platforms) > 1:
        index = next(item for item in entry.parameters if item.shape.dtype is not TOKEN)
        operands[0] = op.b.constant(platform, S64 if index.shape.dtype is S64 else S32)
    _check(op, program, operands)
    if "shape_assertions" in _disabled_checks(op):
        _drop_assertions(program)
    _lower_calls(op, program)
    given = [
        op.b.emit("after-all") if operand is None else operand
        for operand in _arguments(op, program.argument_types, operands)
    ]
    made = op.b.emit("call", *given, to_apply=entry)
    if not made.shape.is_tuple:
        return (made,)
    return tuple(
        op.b.element_of(made, number)
        for number, shape in enumerate(made.shape.elements)
        if shape.dtype is not TOKEN
    )


def _parsed(op: Op, sizes: Callable[[tuple[str, ...]], dict[str, Size]]) -> Exported:
    from ingot.formats.stablehlo import parse_exported

    text = op.attribute("module")
    try:
        return parse_exported(text.encode() if isinstance(text, str) else bytes(text), sizes)
    except ParseError as error:
        found = error.diagnostic
        if found.code != "INGOT0120":
            raise
        raise op.error(f"Cannot deserialize computation: {found.message}", found.hint) from error


def _platform(op: Op, platforms: Sequence[str]) -> int:
    """Return the index of the CPU among the platforms that the program was made for."""
    if platforms and "CPU" not in platforms and "platform" not in _disabled_checks(op):
        raise op.error(f"The current platform CPU is not among the platforms {list(platforms)}")
    return platforms.index("CPU") if "CPU" in platforms else 0


def _arguments(
    op: Op, types: Sequence[str], operands: Sequence[Instruction]
) -> list[Instruction | None]:
    """Return what the program gets as its arguments; None is a token."""
    tokens = types.count(_TOKEN)
    if len(types) - tokens != len(operands):
        platform = int(len(operands) > len(op))
        raise op.error(
            f"Incorrect number of arguments passed to XlaCallModule = {len(op)}. The module main "
            f"function takes {len(types)} arguments of which {platform} platform index arguments, "
            f"0 dimension arguments and {tokens} token arguments."
        )
    rest = iter(operands)
    return [None if kind == _TOKEN else next(rest) for kind in types]


def _check(op: Op, program: Exported, operands: Sequence[Instruction]) -> None:
    """Refuse what TensorFlow refuses, in its words."""
    types = program.argument_types
    says = int(op.attribute("version", _SAYS_OPEN_SIZES)) >= _SAYS_OPEN_SIZES
    if says and not program.has_open_sizes and any("?" in kind or "*" in kind for kind in types):
        raise op.error("Module has dynamic shapes")
    arguments = _arguments(op, types, operands)
    parameters = program.module.entry.parameters
    for number, (operand, parameter) in enumerate(zip(arguments, parameters, strict=True)):
        if operand is None or parameter.shape.compatible(operand.shape):
            continue
        why = "dimension sizes must match for static dimensions"
        if parameter.shape.dtype is not operand.shape.dtype:
            why = "element types must match"
        elif parameter.shape.rank != operand.shape.rank:
            why = "rank must match"
        raise op.error(
            f"invalid refinement for argument {number}, refinement {why} in {types[number]} -> "
            f"{_type_text(operand.shape)}"
        )


def _type_text(shape: Shape) -> str:
    """Return a shape as MLIR's text."""
    name = shape.dtype.name
    element = {"pred": "i1", "c64": "complex<f32>", "c128": "complex<f64>"}.get(name, name)
    element = re.sub(r"^s(\d)", r"i\1", re.sub(r"^u(\d)", r"ui\1", element))
    return "tensor<" + "x".join([*map(str, shape.dims), element]) + ">"


def _disabled_checks(op: Op) -> frozenset[str]:
    here = map(str, op.attribute("disabled_checks", ()) or ())
    return frozenset([*here, *xla_flags.current().call_module_disabled_checks])


def _computations(program: Exported) -> list[Computation]:
    return list(program.module.computations.values())


def _drop_assertions(program: Exported) -> None:
    for computation in _computations(program):
        for item in filter(is_assertion, computation.calls_and_effects):
            computation.remove(item)


def _lower_calls(op: Op, program: Exported) -> None:
    """Put what TensorFlow functions lower to in the place of their calls."""
    for computation in _computations(program):
        for item in computation.instructions:
            if item.opcode != "custom-call":
                continue
            if item.attributes.custom_call_target == _CALL_TARGET:
                to_apply = CallAttributes(_called_function(op, item))
                call = computation.add("call", item.operands, to_apply, metadata=item.metadata)
                computation.transfer_control_deps(item, call)
                computation.replace_all_uses(item, call)
                computation.remove(item)


def _called_function(op: Op, call: Instruction) -> Computation:
    """Return a TensorFlow function as a computation that takes and gives what its call does."""
    functions = op.attribute("function_list", ()) or ()
    match = _CALLED.search(config_text(call))
    number = int(match[1]) if match else len(functions)
    if number >= len(functions) or not isinstance(functions[number], FunctionRef):
        raise op.error(f"a call_tf_function calls function {number} of {len(functions)}")
    callee = op.scope.library[functions[number].name]
    frame = Frame(callee.name, op.b.program)
    b = frame.builder
    given = [b.parameter(at, operand.shape) for at, operand in enumerate(call.operands)]
    tokens = [item for item in given if item.shape.dtype is TOKEN]
    values = [item for item in given if item.shape.dtype is not TOKEN]
    if len(values) < len(callee.inputs):
        raise op.error(f"'{callee.name}' takes {len(callee.inputs)} arguments, not {len(values)}")
    # Sizes of results may come after the arguments.
    made = graph.run(callee, frame, values[: len(callee.inputs)])
    results = [*tokens, *(frame.tensor(value) for value in made)]
    root = b.tuple(*results) if call.shape.is_tuple else results[0]
    if not root.shape.compatible(call.shape):
        raise op.error(f"'{callee.name}' gives {root.shape}, and its call {call.shape}")
    return b.build(root)


RULES: dict[str, Rule] = {"XlaCallModule": _call_module}
