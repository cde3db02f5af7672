# SPDX-License-Identifier: Apache-2.0
"""Custom calls that are equivalent to an ordinary computation, and that computation.

The evaluator evaluates the computation, the expander replaces the call by it: such a call has one
meaning and no rule of its own elsewhere. Two families are known: XLA:CPU's calls of oneDNN
(`onednn`) and TensorFlow's windows over dimensions of dynamic size (`dynamic_windows`).

Invariant: the computation has the call's shape. The shapes and config of a call are its writer's:
whatever in them is invalid becomes a `VerifyError` that names the call.
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
"""Errors of code that reads a config which is not as its proto says."""


def meaning_of(call: Instruction) -> Computation | None:
    """Return a computation of a custom call's operands that gives its result, if one is known.

    Raises:
        UnsupportedError: the call belongs to a known family and asks for something unsupported.
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
