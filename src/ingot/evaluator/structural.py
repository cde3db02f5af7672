# SPDX-License-Identifier: Apache-2.0
"""Evaluates structural ops: constants, tuples, fusions, barriers, tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ingot.evaluator.own_targets import OWN_TARGETS
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Literal
from ingot.hlo.shape import Shape
from ingot.semantics import custom_calls
from ingot.semantics.assertions import assertion_status, assertion_text, is_assertion
from ingot.semantics.call_layouts import Order, logical_dims, noted_orders, physical_dims
from ingot.semantics.call_meanings import meaning_of
from ingot.semantics.foreign_calls import call_site
from ingot.support.diagnostics import ExecutionError, InternalError, UnsupportedError
from ingot.support.trampoline import Recursion


@evaluates("parameter")
def parameter(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """A parameter's value is the caller's; it has none of its own."""
    raise InternalError("a parameter has no value outside a call", instruction=repr(op))


@evaluates("constant")
def constant(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The literal."""
    return _value(op.attributes.literal)


def _value(literal: Literal) -> Value:
    if literal.shape.is_tuple:
        return tuple(_value(element) for element in literal.elements)
    return literal.value


@evaluates("tuple")
def tuple_(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The tuple of the operands."""
    return tuple(operands)


@evaluates("get-tuple-element")
def get_tuple_element(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """One of the elements."""
    return operands[0][op.attributes.index]


@evaluates("fusion")
def fusion(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """The fused computation's value: fusion only affects how it runs."""
    return (yield context.call(op.attributes.calls, operands, context))


@evaluates("opt-barrier", "add-dependency", "domain")
def first_operand(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The first operand."""
    return operands[0]


@evaluates("after-all")
def after_all(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """A token, which holds nothing."""
    return ()


def _evaluate_target(
    op: Instruction, evaluate: Callable[..., tuple[Any, ...]], operands: Sequence[Any]
) -> Value:
    """Call a registered target on the array leaves; nest its results like the shape."""
    arrays = [
        leaf
        for operand, value in zip(op.operands, operands, strict=True)
        for leaf in _array_leaves(operand.shape, value)
    ]
    call = call_site(op)
    if noted_orders(op) is None:
        return _nest(op.shape, iter(evaluate(call, *arrays)))
    # The call's arrays are in memory order; the target's are in logical order.
    orders = [_orders(shapes) for shapes in (call.operands, call.results)]
    logical = [_to_logical(*pair) for pair in zip(arrays, orders[0], strict=True)]
    results = zip(evaluate(call, *logical), orders[1], strict=True)
    return _nest(op.shape, (_to_physical(*pair) for pair in results))


def _orders(shapes: Sequence[Shape]) -> list[Order]:
    return [shape.layout.minor_to_major for shape in shapes if shape.layout is not None]


def _to_logical(array: Array, order: Order) -> Array:
    return np.transpose(array, logical_dims(range(array.ndim), order))


def _to_physical(array: Array, order: Order) -> Array:
    return np.transpose(array, physical_dims(range(array.ndim), order))


def _array_leaves(shape: Shape, value: Any) -> list[Any]:
    if not shape.is_tuple:
        return [value] if shape.is_array else []
    pairs = zip(shape.elements, value, strict=True)
    return [leaf for element, part in pairs for leaf in _array_leaves(element, part)]


def _nest(shape: Shape, results: Iterator[Any]) -> Value:
    if shape.is_tuple:
        return tuple(_nest(element, results) for element in shape.elements)
    return np.asarray(next(results), shape.dtype.numpy) if shape.is_array else ()


@evaluates("custom-call")
def custom_call(
    op: Instruction, operands: Sequence[Any], context: Context
) -> Value | Recursion[Value]:
    """Assertions, annotations that change no value, XLA's own, and registered targets."""
    if is_assertion(op):
        if not operands[0]:
            error = ExecutionError(assertion_text(op), code="INGOT0505")
            error.status = assertion_status(op)
            raise error
        return ()
    if custom_calls.is_annotation(op):
        found: Array = operands[0]
        return found
    target = op.attributes.custom_call_target
    meaning = meaning_of(op)
    if meaning is not None:
        return context.call(meaning, operands, context)
    if target in OWN_TARGETS:
        return OWN_TARGETS[target](op, operands, context)
    registered = custom_calls.find(target)
    if registered is not None and registered.evaluate is not None:
        return _evaluate_target(op, registered.evaluate, operands)
    raise UnsupportedError(
        f"the evaluator does not know custom call target '{target}'",
        code="INGOT0253",
        instruction=repr(op),
        hint=custom_calls.missing_hint(target),
    )
