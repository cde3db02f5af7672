# SPDX-License-Identifier: Apache-2.0
"""Groups of devices: which group one belongs to. What devices then do together is up to the host.

Source: TensorFlow's `kernels/collective_ops.cc`.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Known, Value
from ingot.hlo.dtype import S32
from ingot.semantics.assertions import emit_assertion


def _assign_group(op: Op) -> tuple[Value, ...]:
    """Take the devices of each group `[groups, size]`, one device, and the first group's key."""
    b, groups = op.b, op.tensor(0)
    device, base = (b.reshape_to(op.tensor(n), ()) for n in (1, 2))
    is_member = b.reduced("or", b.compared("EQ", groups, device), (1,))
    emit_assertion(b, b.reduced("or", is_member, (0,)), "device_index is in no group")
    number = b.iota_of(S32, is_member.shape.dims, 0)
    row = b.reduced("add", b.select(is_member, number, b.zeros(number.shape)), (0,))
    return Known.of(groups.shape.dims[1], S32), b.add(base, row)


RULES: dict[str, Rule] = {"CollectiveAssignGroupV2": _assign_group}
