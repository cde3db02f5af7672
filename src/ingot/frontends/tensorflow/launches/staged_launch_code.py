# SPDX-License-Identifier: Apache-2.0
"""How the launch op runs a program of stages: its results are tensors that the stages made.

A program that computes sizes knows those of its results when it is done. So nothing is allocated
ahead: the block of a result becomes a tensor of TensorFlow's, which gives it back to Ingot's
allocator. A variable's new value has a place already: a stage makes it there, or it is copied.

Invariant: a frame's blocks belong to a tensor, or are freed, on every way out.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.launches.launch_inputs import Call
from ingot.frontends.tensorflow.launches.launch_records import DONE, ResultRow, Variant
from ingot.frontends.tensorflow.launches.launch_runs import report, run_ordinary
from ingot.frontends.tensorflow.launches.run_again_code import hand_out, run_again
from ingot.native.functions import inlined, native
from ingot.native.operations import memcpy, unlikely
from ingot.native.pointers import Array
from ingot.native.types import i32, i64
from ingot.runtime.entries import ingot_free, ingot_stages_run
from ingot.runtime.executor.execute import copy_words
from ingot.runtime.executor.staged_code import Frame, Slot, dims_of, slot_at
from ingot.runtime.records import Buffers


@inlined
def fill_parameters(frame: Frame, call: Call, variant: Variant) -> None:
    """Fill the slots of the parameters."""
    for index in range(variant.num_parameters):
        slot = slot_at(frame, variant.parameters[index])
        slot.data = call.data[index]
        copy_words(dims_of(slot), call.dims[index], variant.ranks[index])


@inlined
def bytes_of(slot: Slot, row: ResultRow) -> i64:
    """Return the bytes of a result."""
    size: i64 = row.element_bytes
    for axis in range(row.rank):
        size *= dims_of(slot)[axis]
    return size


@native
def run_staged(call: Call, variant: Variant, more: Buffers | None) -> i32:
    """Run the stages; hand out what they made."""
    staged = variant.staged
    assert staged is not None
    words = Array[i64].on_stack(staged.frame_words)
    for at in range(staged.frame_words):
        words[at] = 0
    frame = Frame.at(words)
    fill_parameters(frame, call, variant)
    count = call.record.num_outputs
    results = variant.results
    for number in range(count, variant.num_results):
        assert more is not None
        slot_at(frame, results[number].slot).data = more[number - count]
    failed = ingot_stages_run(staged, frame, variant.program.runtime)
    if unlikely(failed != 0):
        return report(call, variant, failed)
    for index in range(count):
        row = results[index]
        slot = slot_at(frame, row.slot)
        hand_out(call, index, dims_of(slot), row.rank, slot.data, bytes_of(slot, row))
    for written in range(count, variant.num_results):
        made = slot_at(frame, results[written].slot)
        block = made.owner
        if block is not None:
            assert more is not None
            target = more[written - count]
            assert target is not None
            memcpy(target, block, bytes_of(made, results[written]))
            ingot_free(block)
    return DONE


@native
def run_any(call: Call, variant: Variant, more: Buffers | None) -> i32:
    """Run any program; see `run_ordinary`."""
    if unlikely(variant.staged is not None):
        return run_staged(call, variant, more)
    if unlikely(variant.runs_again != 0):
        return run_again(call, variant, more)
    return run_ordinary(call, variant, more)
