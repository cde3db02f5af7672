"""Which custom calls mean an ordinary computation, and which one.

The evaluator evaluates the computation, the expander puts it in the call's place: such a call has
one meaning and no rule of its own anywhere. Two families are known: what XLA:CPU writes for oneDNN
(`onednn`), and TensorFlow's windows over dimensions of dynamic size (`dynamic_windows`).
"""

from __future__ import annotations

from ingot.hlo import dynamic_windows, onednn
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction


def meaning_of(call: Instruction) -> Computation | None:
    """Return a computation of a custom call's operands that gives its result, if one is known.

    Raises:
        UnsupportedError: the call belongs to a family that is known and asks for what is not.
    """
    if onednn.is_onednn(call):
        return onednn.meaning(call)
    if dynamic_windows.is_dynamic_window(call):
        return dynamic_windows.meaning(call)
    return None
