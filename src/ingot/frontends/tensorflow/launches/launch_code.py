# SPDX-License-Identifier: Apache-2.0
"""The machine code of the launch op: what TensorFlow calls to run a compiled function.

Native functions over the records of `launch_records`. One execution of the op reads the inputs'
sizes and pointers through TensorFlow's C API, picks the variant that was compiled for their ranks,
asks the program for the output sizes, allocates the outputs and runs the program. No Python and no
GIL, except when no variant fits: then `miss` calls the Python trampoline, which compiles one or
sets the status, and when the program refuses: then `failed` calls the one that explains why.

Invariant: every TF_Tensor and TF_Status that a launch makes is deleted on every way out.
Source: TensorFlow's `tensorflow/c/kernels.h`; statuses are those of `runtime.records.c_header`.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.tensorflow.api import capi, kernel_api
from ingot.frontends.tensorflow.api.kernel_api import Construction, Context, Status
from ingot.frontends.tensorflow.launches import ready_code
from ingot.frontends.tensorflow.launches.launch_inputs import Call, run_kernel
from ingot.frontends.tensorflow.launches.launch_records import (
    DONE,
    FOREIGN,
    NO_VARIANT,
    PROCESS,
    LaunchRecord,
)
from ingot.frontends.tensorflow.launches.launch_variants import find
from ingot.frontends.tensorflow.launches.staged_launch_code import run_any
from ingot.frontends.tensorflow.launches.trampolines import miss
from ingot.frontends.tensorflow.launches.variable_code import attempt_with_variables
from ingot.native.functions import exported, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.statics import external_data, static_text
from ingot.native.types import i32, i64

_PROCESS = external_data(Array[i64], PROCESS)
_PROCESS_NAME = static_text("attribute_process", "process")
_LAUNCH_NAME = static_text("attribute_launch", "launch")
_FOREIGN = static_text("foreign", FOREIGN)


def launch_functions(with_variables: bool) -> list[Callable[..., object]]:
    """Return every function of the op.

    Args:
        with_variables: whether launches may take handles of variables.
    """
    kernel = _kernel(attempt_any if with_variables else attempt)
    return [create, delete, shape, kernel, ready_code.compute]


@exported("ingot_launch_create")
def create(construction: Construction) -> LaunchRecord | None:
    """Return the launch record that the op's attributes name."""
    status = kernel_api.new_status()
    process = Array[i64].on_stack(1)
    process[0] = 0
    kernel_api.get_attribute(construction, _PROCESS_NAME, process, status)
    address = Array[i64].on_stack(1)
    address[0] = 0
    kernel_api.get_attribute(construction, _LAUNCH_NAME, address, status)
    record = Array[LaunchRecord | None].at(address)[0]
    if unlikely(process[0] != _PROCESS[0]):
        kernel_api.set_status(status, capi.INVALID_ARGUMENT, _FOREIGN)
        kernel_api.fail_construction(construction, status)
        record = None
    kernel_api.delete_status(status)
    if record is not None:
        record.kernels.fetch_add(1)
    return record


@exported("ingot_launch_delete")
def delete(record: LaunchRecord | None) -> None:
    """Count a kernel less; the record itself lives as long as the process."""
    if record is not None:
        record.kernels.fetch_sub(1)


@exported("ingot_launch_shape")
def shape(context: Pointer, status: Status) -> None:
    """Leave the shapes open: they are set in Python, where they are known."""
    kernel_api.set_unknown_shape(context, status)


@native
def attempt(call: Call) -> i32:
    """Run the variant that fits."""
    variant = find(call)
    if variant is None:
        return NO_VARIANT
    return run_any(call, variant, None)


@native
def attempt_any(call: Call) -> i32:
    """Run the variant that fits; inputs may be handles of variables."""
    if call.record.num_variables == 0:
        return attempt(call)
    return attempt_with_variables(call)


def _kernel(attempt_now: Callable[[Call], i32]) -> Callable[[LaunchRecord, Context], None]:
    """Return the kernel."""

    @native
    def launch(call: Call) -> None:
        found = attempt_now(call)
        while found != DONE:
            identifier = call.record.identifier
            miss(identifier, call.ranks, call.dims, call.data, i64(found), call.status)
            good = kernel_api.get_code(call.status) == 0
            found = attempt_now(call) if good else DONE

    @exported("ingot_launch_compute")
    def compute(record: LaunchRecord, context: Context) -> None:
        run_kernel(record, context, launch)

    return compute
