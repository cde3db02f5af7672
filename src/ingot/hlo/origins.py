# SPDX-License-Identifier: Apache-2.0
"""What to say of an instruction when the program runs and something fails."""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.support.diagnostics import Diagnostic


def with_origin(message: str, instruction: Instruction, hint: str = "") -> str:
    """Return a message with the op, node and line that `instruction` comes from."""
    origin = instruction.metadata
    found = Diagnostic(
        message,
        op_type=origin.op_type,
        op_name=origin.op_name,
        location=origin.location,
        hint=hint,
    )
    return found.render_facts()
