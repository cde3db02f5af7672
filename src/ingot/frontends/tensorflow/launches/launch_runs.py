# SPDX-License-Identifier: Apache-2.0
"""How the launch op runs an ordinary program: allocate its outputs, and execute.

An output of the op is allocated by TensorFlow. The results after the op's own outputs are new
values of variables, which have a place already. Statuses are those of `runtime.records.c_header`.
"""

from __future__ import annotations

from ingot.artifact.abi import CANCELLED
from ingot.frontends.tensorflow.api import capi, kernel_api
from ingot.frontends.tensorflow.launches.launch_inputs import Call
from ingot.frontends.tensorflow.launches.launch_records import (
    DONE,
    ENDED_TEXT,
    OUT_OF_MEMORY_TEXT,
    Variant,
)
from ingot.frontends.tensorflow.launches.trampolines import failed
from ingot.native.functions import cold, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array
from ingot.native.statics import static_text
from ingot.native.types import i32, i64
from ingot.runtime.entries import ingot_execute, ingot_prepare
from ingot.runtime.executor.execute import OUT_OF_MEMORY
from ingot.runtime.records import Buffers, Output

NO_MEMORY = static_text("memory", OUT_OF_MEMORY_TEXT)
ENDED = static_text("cancelled", f"Ingot: the function {ENDED_TEXT}")
INTERRUPTED = static_text("interrupted", "Ingot: a signal came while an error was told.")


@cold
@native
def report(call: Call, variant: Variant, code: i64) -> i32:
    """Say why a program failed; return what the launch does next, as an attempt.

    The low half of the code is the status of a program, or of a stage.
    """
    # Without Python, which would raise KeyboardInterrupt here, and not in the user's program.
    if i32(code) == CANCELLED:
        kernel_api.set_status(call.status, capi.CANCELLED, ENDED)
        return DONE
    if i32(code) == OUT_OF_MEMORY:
        kernel_api.set_status(call.status, capi.RESOURCE_EXHAUSTED, NO_MEMORY)
    else:
        kernel_api.set_status(call.status, capi.INTERNAL, INTERRUPTED)
    return failed(call.record.identifier, variant, call.dims, code, call.status)


@inlined
def dims_in(sizes: Array[i64], output: Output) -> Array[i64]:
    """Return the dimensions of an output."""
    return Array[i64].at(sizes + output.dims_slot * 8)


@inlined
def hand_in(outputs: Buffers, more: Buffers | None, first: i64, end: i64) -> None:
    """Let results be made where variables want them."""
    for index in range(first, end):
        assert more is not None
        outputs[index] = more[index - first]


@native
def run_ordinary(call: Call, variant: Variant, more: Buffers | None) -> i32:
    """Allocate the outputs and execute.

    `more` is memory for the results after the op's own outputs. Returns `DONE` or, when nothing was
    done, `TRY_EXACT` or `TRY_ROOM`.
    """
    program = variant.program
    record = call.record
    sizes = Array[i64].on_stack(program.num_sizes)
    prepared = ingot_prepare(program, call.dims, sizes)
    if unlikely(prepared != 0):
        return report(call, variant, i64(prepared))
    outputs = Buffers.on_stack(program.num_outputs)
    for index in range(record.num_outputs):
        output = program.outputs[index]
        tensor = kernel_api.allocate_output(
            call.context,
            i32(index),
            record.output_types[index],
            dims_in(sizes, output),
            i32(output.rank),
            sizes[output.bytes_slot],
            call.status,
        )
        if unlikely(kernel_api.get_code(call.status) != 0):
            return DONE
        outputs[index] = kernel_api.tensor_data(tensor)
        kernel_api.delete_tensor(tensor)
    hand_in(outputs, more, record.num_outputs, program.num_outputs)
    ran = ingot_execute(program, call.data, outputs, sizes)
    if unlikely(ran != 0):
        return report(call, variant, i64(ran))
    return DONE
