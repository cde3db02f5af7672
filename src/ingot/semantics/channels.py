# SPDX-License-Identifier: Apache-2.0
"""How `send` and `recv` of a channel pair up, and when a received value is available.

The evaluator and the compiler both use this, so that they know the same pairs and refuse the same
programs: a received value is available once its `recv-done` has run, and not before.

Source: xla/hlo/transforms/collectives/collective_permute_decomposer.cc (the frontend attribute).
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.support.diagnostics import UnsupportedError
from ingot.support.regex import regex

_PAIRS = regex(r"_xla_send_recv_source_target_pairs=\"?(\{(?:\{\d+,\d+\},?)*\})")
_PAIR = regex(r"\{(\d+),(\d+)\}")
DONE_OF = {"send": "send-done", "recv": "recv-done"}
"""The ops at the ends of a channel, and those that wait for them."""


def channel_pairs(op: Instruction, devices: int) -> tuple[tuple[int, int], ...]:
    """Return (source, target) of a channel; if none are named, each device sends to itself."""
    text = op.extra.get("frontend_attributes", "").replace(" ", "")
    found = _PAIRS.search(text)
    if found is None:
        return tuple((device, device) for device in range(devices))
    return tuple((int(source), int(target)) for source, target in _PAIR.findall(found[1]))


def require_done(op: Instruction) -> None:
    """Refuse a `recv` whose value is read before its `recv-done`.

    Raises:
        UnsupportedError: INGOT0300, so it is.
    """
    for user in op.users:
        if user.opcode == "get-tuple-element" and user.attributes.index == 0:
            raise _refused(user, f"the value of %{op.name} before its recv-done")


def require_done_inside(start: Instruction, called: Computation) -> None:
    """Refuse an asynchronous computation that sends or receives: its done ops cannot be outside.

    Raises:
        UnsupportedError: INGOT0300, so it is.
    """
    for op in called.instructions:
        if op.opcode in DONE_OF and not any(user.opcode == DONE_OF[op.opcode] for user in op.users):
            raise _refused(start, f"{op.opcode} without {op.opcode}-done in what runs beside")


def _refused(op: Instruction, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"neither Ingot nor XLA supports {what} on the CPU",
        instruction=repr(op),
        op_name=op.metadata.op_name,
        location=op.metadata.location,
        hint="let the value go through send-done and recv-done in the computation of send and recv",
    )
