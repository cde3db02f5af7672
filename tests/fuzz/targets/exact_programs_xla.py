# SPDX-License-Identifier: Apache-2.0
"""The programs of `exact_programs` on real XLA: what the evaluator says is what XLA says.

XLA demands that a fold begins with its neutral value, and makes a reshape of one over dimensions of
one element whatever it begins with; of a `dynamic-slice` or `gather` of a `dynamic-slice` it adds
the starts and forgets that each is clamped. Programs with either are not compared.
"""

from __future__ import annotations

from tests.differential.engine import on_xla
from tests.fuzz.program_case import read_case
from tests.fuzz.target import Target
from tests.fuzz.targets.exact_programs import generate

from ingot.hlo.instruction import Instruction


def check(data: bytes) -> str:
    """Compare real XLA with the evaluator."""
    case = read_case(data)
    instructions = case.module.entry.instructions
    if any(_forgets_start(op) or _adds_starts(op) for op in instructions):
        return ""
    return case.difference("xla", on_xla(case.module, list(case.inputs)), case.wanted())


def _forgets_start(op: Instruction) -> bool:
    """Whether XLA leaves out what a fold begins with."""
    if op.opcode != "reduce":
        return False
    result = op.shape.elements[0] if op.shape.is_tuple else op.shape
    return result.size == op.operands[0].shape.size


def _adds_starts(op: Instruction) -> bool:
    """Whether a dynamic slice or a gather reads, however far back, from a dynamic slice."""
    if op.opcode not in ("dynamic-slice", "gather"):
        return False
    stack, seen = [op.operands[0]], set[Instruction]()
    while stack:
        item = stack.pop()
        if item.opcode in ("dynamic-slice", "gather"):
            return True
        if item not in seen:
            seen.add(item)
            stack.extend(item.operands)
    return False


TARGET = Target("exact_programs_xla", ".hlo", generate, check, share=0.5)
