# SPDX-License-Identifier: Apache-2.0
"""Tuples taken apart and put together again."""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import m
from ingot.hlo.rewrite.rule import rule


@rule(
    m.get_tuple_element(m.tuple(..., name="inner")),
    example="""
        t = (f32[4], f32[3]) tuple(f32[4] x, f32[3] y)
        a = f32[3] get-tuple-element(t), index=1""",
)
def element_of_tuple(root: Instruction, inner: Instruction) -> Instruction:
    """get-tuple-element(tuple(x, y), 1) => y"""
    index: int = root.attributes.index
    return inner.operands[index]


@rule(
    m.tuple(..., where=lambda i: bool(i.operands)),
    example="""
        x = f32[4] get-tuple-element((f32[4], f32[3]) t), index=0
        y = f32[3] get-tuple-element(t), index=1
        a = (f32[4], f32[3]) tuple(x, y)""",
)
def tuple_of_elements(root: Instruction) -> Instruction | None:
    """tuple(get-tuple-element(t, 0), get-tuple-element(t, 1), ...) => t"""
    first = root.operands[0]
    if first.opcode != "get-tuple-element":
        return None
    whole = first.operands[0]
    if len(whole.shape.elements) != len(root.operands):
        return None
    rebuilt = all(
        element.opcode == "get-tuple-element"
        and element.operands[0] is whole
        and element.attributes.index == number
        for number, element in enumerate(root.operands)
    )
    return whole if rebuilt else None
