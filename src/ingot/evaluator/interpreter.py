# SPDX-License-Identifier: Apache-2.0
"""Evaluates modules, computations and single instructions.

Walks a computation operands first and applies each instruction's rule. Symbolic sizes get their
values from the arguments' actual shapes. Every result is checked against its declared shape, so a
wrong rule or a wrong shape inference is found where it happens.

Example:
    >>> import numpy as np
    >>> from ingot.hlo.builder import Builder
    >>> from ingot.hlo.module import Module
    >>> b = Builder("main")
    >>> x = b.parameter(0, "f32[?n]")
    >>> evaluate(Module.of("m", b.build(b.add(x, x))), [np.float32([1, 2])])
    array([2., 4.], dtype=float32)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ingot.evaluator.devices import some_device
from ingot.evaluator.dynamic import declared, is_dynamic, sized
from ingot.evaluator.registry import Array, Context, Rule, RunState, Value, rule_of
from ingot.evaluator.stored import plain, with_storage
from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.dim import bare_sizes
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import FAMILIES
from ingot.hlo.shape import Shape
from ingot.hlo.size_definitions import is_size_definition, size_order
from ingot.support.arguments import require_type
from ingot.support.diagnostics import InternalError, ResourceError, VerifyError
from ingot.support.trampoline import Recursion, run

for _family in FAMILIES:
    importlib.import_module(f"ingot.evaluator.{_family}")


_TOO_LARGE = ("array is too big", "dimension exceeded", "Maximum allowed")
"""NumPy's messages about arrays that are too large."""


def evaluate(module: Module, inputs: Sequence[Value], *, step_limit: int | None = None) -> Value:
    """Return the value of the module's entry computation on `inputs`, one per parameter.

    Raises:
        VerifyError: INGOT0252 when an input does not have its parameter's shape.
        ResourceError: INGOT0251 when loops take more than `step_limit` iterations together.
    """
    require_type(module, Module, "the program")
    require_type(inputs, Sequence, "the inputs")
    require_type(step_limit, (int, type(None)), "step_limit")
    return evaluate_computation(module.entry, list(map(_input, inputs)), step_limit=step_limit)


def _input(given: Any) -> Value:
    """Return a caller's argument, with numbers and lists made arrays."""
    if isinstance(given, tuple):
        return tuple(map(_input, given))  # pyright: ignore[reportUnknownArgumentType]
    try:
        return _as_value(given)
    except ValueError as error:
        raise VerifyError(f"an input is no array: {error}", code="INGOT0252") from error


def evaluate_computation(
    computation: Computation, arguments: Sequence[Value], *, step_limit: int | None = None
) -> Value:
    """Return the value of a computation."""
    context = Context(_call, {}, RunState(step_limit))
    with np.errstate(all="ignore"), some_device():
        return plain(run(_call(computation, arguments, context)))


def evaluate_instruction(
    instruction: Instruction,
    operands: Sequence[Value],
    *,
    sizes: Mapping[str, int] | None = None,
    step_limit: int | None = None,
) -> Value:
    """Return the value of one instruction whose operands have the given values."""
    context = Context(_call, dict(sizes or {}), RunState(step_limit))
    with np.errstate(all="ignore"):
        return run(_apply(instruction, operands, context, is_dynamic(instruction)))


def _call(computation: Computation, arguments: Sequence[Value], outer: Context) -> Recursion[Value]:
    if len(arguments) != len(computation.parameters):
        raise VerifyError(
            f"{computation.name} takes {len(computation.parameters)} inputs, got {len(arguments)}",
            code="INGOT0252",
        )
    context = Context(outer.call, _bind(computation, arguments, outer.sizes), outer.state)
    values: dict[Instruction, Value] = {}
    for parameter, argument in zip(computation.parameters, arguments, strict=True):
        values[parameter] = _argument(parameter, argument, context)
    order = context.state.orders.get(computation)
    if order is None:
        order = context.state.orders[computation] = _order(computation, context)
    for instruction, has_dynamic_sizes in order:
        operands = [values[operand] for operand in instruction.operands]
        try:
            result = yield from _apply(instruction, operands, context, has_dynamic_sizes)
        except (MemoryError, ValueError) as error:
            raise _too_large(instruction, error) from None
        values[instruction] = result
    return values[computation.root]


def _too_large(instruction: Instruction, error: MemoryError | ValueError) -> Exception:
    """Return an Ingot error for arrays that NumPy cannot make; other errors unchanged."""
    text = str(error)
    if isinstance(error, ValueError) and not any(part in text for part in _TOO_LARGE):
        return error
    origin = instruction.metadata
    return ResourceError(
        f"out of memory while evaluating {instruction.shape}: {text}",
        code="INGOT0401",
        instruction=repr(instruction),
        op_type=origin.op_type,
        op_name=origin.op_name,
        location=origin.location,
        hint="use smaller sizes",
    )


def _order(computation: Computation, context: Context) -> list[tuple[Instruction, bool]]:
    """Return the instructions to evaluate, operands first, and whether sizes are dynamic."""
    needed = _needed(computation, context.state.acting) - set(computation.parameters)
    order = size_order(computation, context.sizes)
    return [(item, is_dynamic(item)) for item in order if item in needed]


def _needed(computation: Computation, acting: dict[Computation, bool]) -> set[Instruction]:
    """Return the instructions that the root and side effects need: no others are evaluated."""
    needed: set[Instruction] = {
        one for one in computation.calls_and_effects if is_size_definition(one)
    }
    effects = [one for one in computation.calls_and_effects if has_side_effect(one, acting)]
    stack = [computation.root, *effects, *(o for one in needed for o in one.operands)]
    while stack:
        item = stack.pop()
        if item not in needed:
            needed.add(item)
            stack.extend(item.operands)
            stack.extend(item.control_predecessors)
    return needed


def _apply(
    instruction: Instruction,
    operands: Sequence[Value],
    context: Context,
    has_dynamic_sizes: bool,
) -> Recursion[Value]:
    rule = rule_of(instruction)
    if has_dynamic_sizes:
        actual, cut = sized(instruction, operands, context)
        found = rule(actual, cut, context)
        value = _as_value((yield found) if isinstance(found, Generator) else found)
        value = declared(instruction, value, context)
        value = with_storage(instruction, operands, value, context, _at_once(rule))
    else:
        found = rule(instruction, operands, context)
        value = _as_value((yield found) if isinstance(found, Generator) else found)
    if instruction.definition.may_have_effects:
        for name, number in _bare_sizes(instruction.shape, value):
            context.sizes.setdefault(name, number)
    if not _fits(value, instruction.shape, context):
        raise InternalError(
            f"{instruction.opcode} evaluates to {_describe(value)}, declared {instruction.shape}",
            instruction=repr(instruction),
        )
    return value


def _at_once(rule: Rule) -> Callable[..., Value]:
    """Return a rule for arrays of dynamic size; computations on scalars have none."""

    def evaluate(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
        found = rule(op, operands, context)
        return run(found) if isinstance(found, Generator) else found

    return evaluate


def _as_value(value: Any) -> Value:
    """Return `value` with NumPy's scalars made arrays of rank 0."""
    if isinstance(value, tuple):
        return tuple(_as_value(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    found: Array = np.asanyarray(value)
    return found


def _bind(
    computation: Computation, arguments: Sequence[Value], outer: Mapping[str, int]
) -> dict[str, int]:
    """Return the symbolic sizes: those of the caller, and the parameters' own."""
    sizes = dict(outer)
    for parameter, argument in zip(computation.parameters, arguments, strict=True):
        sizes.update(_bare_sizes(parameter.shape, argument))
    return sizes


def _bare_sizes(shape: Shape, value: Value) -> Iterator[tuple[str, int]]:
    """Yield the sizes that are a whole dimension of `shape`, and their numbers in `value`."""
    for path, leaf in shape.leaves():
        if leaf.is_array and not leaf.is_static:
            yield from bare_sizes(leaf.dims, np.shape(_at(value, path)))


def _at(value: Any, path: tuple[int, ...]) -> Any:
    for number in path:
        if not isinstance(value, tuple) or number >= len(value):  # pyright: ignore
            return None  # It is refused when it is checked against its parameter.
        value = value[number]  # pyright: ignore[reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


def _argument(parameter: Instruction, argument: Value, context: Context) -> Value:
    value = _as_value(argument)
    if not _fits(value, parameter.shape, context):
        raise VerifyError(
            f"parameter {parameter.attributes.number} is {parameter.shape}, "
            f"the argument is {_describe(value)}",
            code="INGOT0252",
            instruction=repr(parameter),
        )
    return value


def _fits(value: Value, shape: Shape, context: Context) -> bool:
    if isinstance(value, tuple):
        return len(value) == len(shape.elements) and all(
            _fits(item, element, context)
            for item, element in zip(value, shape.elements, strict=True)
        )
    if not shape.is_array:
        return False
    if value.shape == shape.dims:
        return value.dtype == shape.dtype.numpy
    dims = context.dims(shape)
    if shape.bounded and len(value.shape) == len(dims):
        # A dynamic dimension may be shorter than its bound.
        pairs = zip(value.shape, dims, shape.bounded, strict=True)
        dims = tuple(have if flag and have <= most else most for have, most, flag in pairs)
    return value.dtype == shape.dtype.numpy and value.shape == dims


def _describe(value: Value) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_describe(item) for item in value) + ")"
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"
