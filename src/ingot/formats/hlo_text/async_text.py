# SPDX-License-Identifier: Apache-2.0
"""XLA's short form of asynchronous ops: `negate-start(x)`, `negate-update(s)`, `negate-done(u)`.

A start that wraps a single op is written with that op's name and attributes; in the graph it is an
`async-start` that calls a computation of parameters and that op. Ingot prints the long form, which
XLA reads too.

Source: xla/hlo/parser/hlo_parser.cc (CreateInstruction, async ops).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, make_dataclass, replace
from functools import cache
from typing import Any

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Codec, OpDef, attribute, find
from ingot.hlo.opset.structural import ParameterAttributes
from ingot.hlo.opset.transfer import AsyncStartAttributes
from ingot.hlo.shape import Shape
from ingot.support.records import record

_START = "-start"
_OWN = ("async_group_id", "async_execution_thread")


@record
class AsyncStart:
    """A start in short form: its own part, and the op that it wraps."""

    definition: OpDef
    attributes: AsyncStartAttributes
    wrapped: Instruction


def short_form(opcode: str, table: Mapping[str, OpDef]) -> OpDef | None:
    """Return how an opcode like `negate-start` is read, or None when it is none.

    A start takes the attributes of the op that it wraps and those of `async-start`.
    """
    base, _, stage = opcode.rpartition("-")
    if base not in table or stage not in ("start", "update", "done"):
        return None
    if stage != "start":
        return find(f"async-{stage}")
    return _start_of(table[base])


@cache
def _start_of(wrapped: OpDef) -> OpDef:
    both = make_dataclass(
        f"{wrapped.attributes.__name__}OfStart",
        (
            ("async_group_id", "int | None", attribute(Codec.INT, None)),
            ("async_execution_thread", str, attribute(Codec.STRING, "")),
        ),
        bases=(wrapped.attributes,),
        unsafe_hash=True,
        kw_only=True,
    )
    return replace(wrapped, name=wrapped.name + _START, attributes=both)


def is_short_start(definition: OpDef) -> bool:
    """Whether `definition` came from `short_form` of a start."""
    return definition.attributes.__name__.endswith("OfStart")


def long_form(
    definition: OpDef, attributes: Any, operands: tuple[Instruction, ...], shape: Shape
) -> AsyncStart:
    """Return the start that calls a computation of its own for a start in short form."""
    wrapped = find(definition.name.removesuffix(_START))
    inner = wrapped.attributes(
        **{row.name: getattr(attributes, row.name) for row in fields(wrapped.attributes)}
    )
    computation = Computation("async_computation")
    parameters = tuple(
        computation.insert(_parameter(number, operand.shape))
        for number, operand in enumerate(operands)
    )
    made = Instruction(wrapped.name, wrapped, parameters, shape.elements[1], inner)
    computation.set_root(computation.insert(made))
    own = {name: getattr(attributes, name) for name in _OWN}
    return AsyncStart(find("async-start"), AsyncStartAttributes(calls=computation, **own), made)


def _parameter(number: int, shape: Shape) -> Instruction:
    attributes = ParameterAttributes(number)
    return Instruction(f"param_{number}", find("parameter"), (), shape, attributes)
