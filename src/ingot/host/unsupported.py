# SPDX-License-Identifier: Apache-2.0
"""Errors about ops without a kernel name the user's op and its source line."""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import replace


def with_origin(error: UnsupportedError, fused: Computation) -> UnsupportedError:
    """Return the error with the user's op and line, if it lacks them.

    They are those of the first instruction whose opcode the message names, or of the root.
    """
    found = error.diagnostic
    if found.op_type or found.location is not None:
        return error
    words = found.message.split()
    named = [i for i in fused.instructions if i.opcode in words and i.metadata.op_type]
    culprit = next(iter(named), fused.root)
    origin = culprit.metadata
    return UnsupportedError(
        replace(
            found,
            instruction=found.instruction or repr(culprit),
            op_type=origin.op_type,
            op_name=origin.op_name,
            location=origin.location,
            hint=found.hint or "compute this part outside the compiled function",
        )
    )
