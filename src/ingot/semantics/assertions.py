# SPDX-License-Identifier: Apache-2.0
"""Assertions: a custom call that ends the program when its operand, a `pred[]`, is false.

    check = () custom-call(flag), custom_call_target="ingot.assert",
            custom_call_has_side_effect=true, backend_config="x must be positive"

Front ends emit it, backends turn it into an early return with a run error, and the evaluator raises
`ExecutionError`. The text is the instruction's `backend_config`, as JSON writes a string. Where the
failure has a class of its own, absl's name for it comes before the text: `["OUT_OF_RANGE",
"text"]`.
"""

from __future__ import annotations

import json

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.semantics.run_errors import with_origin

TARGET = "ingot.assert"
_TEXT = "backend_config"


def emit_assertion(
    builder: Builder, flag: Instruction, message: str, status: str = ""
) -> Instruction:
    """Add an assertion that `flag`, a `pred[]`, is true.

    Args:
        builder: builds the computation that gets it.
        flag: the `pred[]` that must be true.
        message: the error message when it is false.
        status: absl's name for that failure, such as `OUT_OF_RANGE`; empty for an invalid argument.
    """
    made = builder.emit(
        "custom-call",
        flag,
        shape=Shape.tuple(()),
        custom_call_target=TARGET,
        custom_call_has_side_effect=True,
    )
    made.extra[_TEXT] = json.dumps([status, message] if status else message)
    return made


def is_assertion(instruction: Instruction) -> bool:
    """Whether an instruction is an assertion."""
    return (
        instruction.opcode == "custom-call" and instruction.attributes.custom_call_target == TARGET
    )


def always_holds(instruction: Instruction) -> bool:
    """Whether an instruction is an assertion that is true at compile time."""
    if not is_assertion(instruction) or instruction.operands[0].opcode != "constant":
        return False
    return bool(instruction.operands[0].attributes.literal.value)


def assertions(module: Module) -> list[Instruction]:
    """Return the module's assertions in the order by which run errors number them."""
    return [
        instruction
        for computation in module.post_order()
        for instruction in computation.calls_and_effects
        if is_assertion(instruction)
    ]


def assertion_text(assertion: Instruction) -> str:
    """Return the error message of an assertion, with the op and line that it comes from."""
    return with_origin(_said(assertion)[1], assertion)


def assertion_status(assertion: Instruction) -> str:
    """Return absl's name for the failure of an assertion; empty for an invalid argument."""
    return _said(assertion)[0]


def _said(assertion: Instruction) -> tuple[str, str]:
    """Return the status and the text of an assertion."""
    said = json.loads(assertion.extra.get(_TEXT, '"an assertion failed"'))
    if isinstance(said, str):
        return "", said
    status, text = said
    return status, text
