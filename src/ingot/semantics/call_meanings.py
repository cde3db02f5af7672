# SPDX-License-Identifier: Apache-2.0
"""Which custom calls mean an ordinary computation, and which one.

The evaluator evaluates the computation, the expander puts it in the call's place: such a call has
one meaning and no rule of its own anywhere. Two families are known: what XLA:CPU writes for oneDNN
(`onednn`), and TensorFlow's windows over dimensions of dynamic size (`dynamic_windows`).

Invariant: the computation gives the call's shape. Shapes and config of a call are its writer's:
what does not fit is a `VerifyError` that names the call, whatever the family's code meets.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.verifier import verify_computation
from ingot.semantics import dynamic_windows, onednn
from ingot.support.diagnostics import VerifyError

_MISFITS = (
    ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError,
    ValueError,
)  # fmt: skip
"""What code that reads a config meets in one that is not as its proto says."""


def meaning_of(call: Instruction) -> Computation | None:
    """Return a computation of a custom call's operands that gives its result, if one is known.

    Raises:
        UnsupportedError: the call belongs to a family that is known and asks for what is not.
        VerifyError: INGOT0210, its operands, result or config do not fit each other.
    """
    if onednn.is_onednn(call):
        return _checked(call, onednn.meaning)
    if dynamic_windows.is_dynamic_window(call):
        return _checked(call, dynamic_windows.meaning)
    return None


def _checked(call: Instruction, meaning: Callable[[Instruction], Computation]) -> Computation:
    try:
        found = meaning(call)
        verify_computation(found)
    except VerifyError as error:
        raise _misfit(call, error.diagnostic.message) from error
    except _MISFITS as error:
        raise _misfit(call, f"its operands or its config are none ({error})") from error
    if not found.root.shape.compatible(call.shape):
        raise _misfit(call, f"it gives {found.root.shape}, declared as {call.shape}")
    return found


def _misfit(call: Instruction, reason: str) -> VerifyError:
    return VerifyError(
        f"custom call '{call.attributes.custom_call_target}': {reason}",
        code="INGOT0210",
        notes=("constraint custom_call_meaning",),
        instruction=repr(call),
        op_name=call.metadata.op_name,
        location=call.metadata.location,
    )
