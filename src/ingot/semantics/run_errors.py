# SPDX-License-Identifier: Apache-2.0
"""Messages of programs that fail while they run, with the op and line that they come from.

The evaluator and the compiled program both use this, so their messages are the same.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> from ingot.hlo.size_definitions import define_size
    >>> b = Builder("main")
    >>> size = define_size(b, b.parameter(0, "s64[]"), "n")
    >>> negative_size_text(size, -1)
    'the size n is -1, and a size is never negative'
"""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.size_definitions import bare_symbols
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


def negative_size_text(definition: Instruction, count: int | str) -> str:
    """Return the message for a definition whose number is negative."""
    (size,) = bare_symbols(definition.shape)
    return with_origin(f"the size {size} is {count}, and a size is never negative", definition)
