# SPDX-License-Identifier: Apache-2.0
"""The kernel of `Ingot_XlaCompile`: whether a launch has a program for the inputs.

It reads the inputs as the launch op would and looks for a variant. Where there is none it calls the
trampoline `request`, which has one compiled, at once or in the background; meanwhile the trampoline
sets `quiet`, and no Python code is involved.

Invariant: the answer is true only if the launch op, given the same inputs, finds a variant.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.api import kernel_api
from ingot.frontends.tensorflow.api.kernel_api import Context
from ingot.frontends.tensorflow.launches.launch_inputs import Call, run_kernel
from ingot.frontends.tensorflow.launches.launch_records import LaunchRecord
from ingot.frontends.tensorflow.launches.launch_variants import find
from ingot.frontends.tensorflow.launches.trampolines import request
from ingot.native.functions import exported, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array
from ingot.native.types import i8

_BOOL = 10
"""TF_BOOL."""


@native
def answer(call: Call) -> None:
    """Output whether there is a variant for the inputs; ask for one if there is none."""
    record = call.record
    is_ready = find(call) is not None
    if unlikely(not is_ready and record.quiet.load() == 0):
        request(record.identifier, call.ranks, call.dims, call.data)
        is_ready = find(call) is not None
    tensor = kernel_api.allocate_output(call.context, 0, _BOOL, None, 0, 1, call.status)
    if kernel_api.get_code(call.status) == 0:
        value = Array[i8].at(kernel_api.tensor_data(tensor))
        assert value is not None
        value[0] = i8(is_ready)
        kernel_api.delete_tensor(tensor)


@exported("ingot_ready_compute")
def compute(record: LaunchRecord, context: Context) -> None:
    """Run the kernel."""
    run_kernel(record, context, answer)
