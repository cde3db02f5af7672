"""Evaluates structural ops: constants, tuples, fusions, barriers, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.assertions import assertion_text, is_assertion
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Literal
from ingot.support.diagnostics import ExecutionError, InternalError, UnsupportedError


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
    """The operands together."""
    return tuple(operands)


@evaluates("get-tuple-element")
def get_tuple_element(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """One of the elements."""
    return operands[0][op.attributes.index]


@evaluates("fusion")
def fusion(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The fused computation's value: a fusion says how to run, not what."""
    return context.call(op.attributes.calls, operands, context)


@evaluates("opt-barrier", "add-dependency")
def first_operand(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The first operand."""
    return operands[0]


@evaluates("after-all")
def after_all(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """A token, which holds nothing."""
    return ()


@evaluates("custom-call")
def custom_call(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Assertions, and the annotation that changes no value, have a meaning here."""
    if is_assertion(op):
        if not operands[0]:
            raise ExecutionError(assertion_text(op), code="INGOT0505")
        return ()
    target = op.attributes.custom_call_target
    if target == "Sharding":
        found: Array = operands[0]
        return found
    raise UnsupportedError(
        f"the evaluator does not know custom call target '{target}'",
        code="INGOT0253",
        instruction=repr(op),
        hint="run the program on a backend that registers the target",
    )
