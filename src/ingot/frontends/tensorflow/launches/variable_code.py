# SPDX-License-Identifier: Apache-2.0
"""Direct access to variables by native functions: read without a copy, write in place.

It works on the objects of `variable_objects`. What it saves is one op per read and per write.

The protocol is that of TensorFlow's own kernels: all variables are locked in the order of their
addresses. A variable that is only read is unlocked again once its buffer is held by a reference.
One that is written stays locked; its buffer is written in place if nobody else holds it and the
program allows it, and otherwise a new one takes its place when the program has succeeded.

A variant may have been compiled for the value of a variable, so it is looked for under the locks.
Where none fits, the values of small variables are copied for `miss`, and the locks are released.

A variable that comes as several inputs, all of which are only read, is locked and held once: the
forward function of a gradient gives a variable to the backward one again for each loop around it.

Invariants: every lock and reference is released on every way out; a variable never holds a
buffer that somebody else saw before and that changed.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.api import capi, kernel_api
from ingot.frontends.tensorflow.api import variable_objects as objects
from ingot.frontends.tensorflow.api.kernel_api import Tensor
from ingot.frontends.tensorflow.api.variable_objects import (
    DELETE_SLOT,
    NOTIFY_DELETED_SLOT,
    Counted,
    TensorBuffer,
    TensorInterface,
    TensorObject,
    Variable,
)
from ingot.frontends.tensorflow.launches.launch_inputs import Call
from ingot.frontends.tensorflow.launches.launch_records import (
    DONE,
    NO_VARIANT,
    VariableRow,
    Variant,
)
from ingot.frontends.tensorflow.launches.launch_variants import find
from ingot.frontends.tensorflow.launches.staged_launch_code import run_any
from ingot.native.functions import cold, inlined, native
from ingot.native.operations import address_of, unlikely
from ingot.native.pointers import Array, Pointer, Struct, Structs, sizeof
from ingot.native.statics import static_text
from ingot.native.types import i8, i32, i64
from ingot.runtime.records import Buffers, SharedMemory

NOT_FOUND = static_text(
    "not_found",
    "Could not find variable. This could mean that the variable has been deleted. In TF1, it can "
    "also mean the variable is uninitialized. It is one that a function compiled by Ingot uses.",
)
TWICE = static_text(
    "twice",
    "Ingot: the same variable was given twice as an argument, and the function writes it.",
)
NOT_READY = static_text(
    "not_ready",
    "Ingot: a variable that the function uses is not initialized, or was given another shape after "
    "the function was traced.",
)

_LOCKED, _HOLDS_BUFFER, _HAS_NEW_TENSOR, _HAS_SHARED_TENSOR, _REPEATED = 0, 1, 2, 3, 4


class Held(Struct):
    """The variables of one execution; the arrays are on its stack, with an item for each."""

    call: Call
    count: i64
    repeated: i64  # 1: a variable that is only read is there twice
    variables: Array[Variable]
    order: Array[i64]  # their numbers by address
    modes: Array[i64]  # what is to be done at the end; see `finish`
    buffers: Array[TensorBuffer | None]
    tensors: Structs[TensorObject]  # new values that could not be made in place
    more: Buffers  # where the program makes new values
    owners: Array[Tensor]  # of new values in shared memory


@inlined
def row_of(held: Held, index: i64) -> VariableRow:
    """Return what is known of a variable."""
    return held.call.record.variables[index]


@inlined
def tensor_of(variable: Variable) -> TensorObject:
    """Return the value of a variable."""
    return TensorObject.at(variable.tensor)


@inlined
def data_of(tensor: TensorObject) -> Pointer | None:
    """Return the memory of a tensor; null for an empty one."""
    buffer = tensor.buffer
    if buffer is None:
        return None
    return buffer.data


@cold
@native
def delete(counted: Counted) -> None:
    """Delete what nobody refers to any more, as `RefCounted::Unref` does."""
    counted.table[NOTIFY_DELETED_SLOT](counted)
    counted.table[DELETE_SLOT](counted)


@inlined
def release(counted: Counted) -> None:
    """Give back one reference."""
    if unlikely(counted.references.fetch_sub(1) == 1):
        delete(counted)


@native
def release_variables(held: Held) -> None:
    """Give back the references to variables that were found."""
    found = Array[Variable | None].at(held.variables)
    for index in range(held.count):
        variable = found[index]
        if variable is not None:
            release(variable)


@native
def look_up_all(held: Held) -> bool:
    """Fill `variables`; return whether all were found."""
    outcome = Array[i64].on_stack(1)
    found = Array[Variable | None].at(held.variables)
    are_found = True
    for index in range(held.count):
        found[index] = None
        handle = objects.handle_from_input(held.call.context, i32(row_of(held, index).input))
        objects.look_up(outcome, held.call.context, handle, found + 8 * index)
        are_found = are_found and found[index] is not None
    return are_found


@native
def sort(held: Held) -> None:
    """Put the numbers into `order` by address; mostly they are in order already."""
    for index in range(held.count):
        mine = address_of(held.variables[index])
        at: i64 = index
        while at > 0 and address_of(held.variables[held.order[at - 1]]) > mine:
            held.order[at] = held.order[at - 1]
            at -= 1
        held.order[at] = index


@inlined
def is_repeated(held: Held, at: i64) -> bool:
    """Return whether a variable is the one before it in the order."""
    if at == 0:
        return False
    before = held.variables[held.order[at - 1]]
    return before == held.variables[held.order[at]]


@native
def lock_all(held: Held) -> bool:
    """Lock each variable once; return whether one is there twice."""
    has_repeated = False
    for at in range(held.count):
        if is_repeated(held, at):
            has_repeated = True
        else:
            objects.lock_mutex(held.variables[held.order[at]].mutex)
    return has_repeated


@native
def unlock_all(held: Held) -> None:
    """Unlock what `lock_all` locked."""
    for at in range(held.count):
        if not is_repeated(held, at):
            objects.unlock_mutex(held.variables[held.order[at]].mutex)


@native
def are_ready(held: Held) -> bool:
    """Fill `data` with the variables' memory; return whether all are initialized and fit."""
    are_good = True
    for index in range(held.count):
        variable = held.variables[index]
        row = row_of(held, index)
        tensor = tensor_of(variable)
        held.call.data[row.input] = data_of(tensor)
        is_good = variable.is_initialized != 0 and tensor.elements == row.elements
        are_good = are_good and is_good
    return are_good


@cold
@native
def copy_small(held: Held) -> None:
    """Point `data` at copies of the small variables, and at nothing for the others."""
    for index in range(held.count):
        row = row_of(held, index)
        copy = row.copy
        memory = Array[i8].at(held.call.data[row.input])
        for at in range(row.copy_bytes):
            assert copy is not None
            assert memory is not None
            Array[i8].at(copy)[at] = memory[at]
        held.call.data[row.input] = copy


@inlined
def prepare_read(variable: Variable) -> i64:
    """Hold the buffer and unlock; a variable with sparse writers stays locked instead."""
    buffer = tensor_of(variable).buffer
    if buffer is None or variable.copies_on_read != 0:
        return _LOCKED
    buffer.references.fetch_add(1)
    objects.unlock_mutex(variable.mutex)
    return _HOLDS_BUFFER


@inlined
def is_in_place(shared: SharedMemory | None, buffer: TensorBuffer) -> bool:
    """Return whether a buffer is where the program wants it."""
    if shared is None:
        return True
    return shared.holds(shared.runtime, buffer.data) != 0


@inlined
def tensor_in(owner: Tensor) -> TensorObject:
    """Return the tensor that a TF_Tensor holds."""
    return TensorObject.at(Array[TensorInterface].at(owner)[0].tensor)


@cold
@native
def make_shared(held: Held, index: i64, shared: SharedMemory, size: i64) -> bool:
    """Let a new value be made in new memory that the device reaches; false if there is none."""
    row = row_of(held, index)
    block = shared.allocate(shared.runtime, size)
    if block is None:
        return False
    owner = kernel_api.new_tensor(
        row.type, row.dims, i32(row.rank), block, size, shared.free, shared.runtime
    )
    held.owners[index] = owner
    held.more[row.result - held.call.record.num_outputs] = block
    return True


@inlined
def prepare_write(held: Held, index: i64, variant: Variant) -> i64:
    """Let a new value be made in place, or in a new tensor if that must not be."""
    row = row_of(held, index)
    output = variant.program.outputs[row.result]
    number = row.result - held.call.record.num_outputs
    held.more[number] = held.call.data[row.input]
    old = tensor_of(held.variables[index])
    buffer = old.buffer
    if buffer is None:
        return _LOCKED
    shared = variant.shared
    is_alone = output.alias_param == row.input and buffer.references.load() == 1
    if is_alone and is_in_place(shared, buffer):
        return _LOCKED
    size = row.elements * output.element_bytes
    if shared is not None and make_shared(held, index, shared, size):
        return _HAS_SHARED_TENSOR
    tensor = held.tensors[index]
    objects.construct_tensor(tensor, row.type, old)
    held.more[number] = data_of(tensor)
    return _HAS_NEW_TENSOR


@cold
@native
def is_repeated_written(held: Held) -> bool:
    """Return whether a variable that is there twice is written; it needs one place for its value.

    Equal variables are neighbours in the order, so a written one is beside its like.
    """
    is_written = False
    for at in range(held.count):
        if is_repeated(held, at):
            first = row_of(held, held.order[at - 1])
            second = row_of(held, held.order[at])
            is_written = is_written or first.result >= 0 or second.result >= 0
    return is_written


@cold
@native
def prepare_repeated(held: Held, variant: Variant) -> None:
    """Do what `prepare` does, once for each variable: the first to come locks and holds it."""
    for at in range(held.count):
        index = held.order[at]
        if is_repeated(held, at):
            held.modes[index] = _REPEATED
        else:
            prepare_one(held, index, variant)


@inlined
def prepare_one(held: Held, index: i64, variant: Variant) -> None:
    """Hold the buffer of a variable that is read, or say where its new value is made."""
    variable = held.variables[index]
    held.buffers[index] = tensor_of(variable).buffer
    if row_of(held, index).result < 0:
        held.modes[index] = prepare_read(variable)
    else:
        held.modes[index] = prepare_write(held, index, variant)


@native
def prepare(held: Held, variant: Variant) -> None:
    """Hold the buffers that are read, and say where new values are made."""
    if unlikely(held.repeated == 1):
        prepare_repeated(held, variant)
        return
    for index in range(held.count):
        prepare_one(held, index, variant)


@native
def finish(held: Held, is_good: bool) -> None:
    """Put new tensors in place if the program succeeded; give back locks and buffers."""
    for index in range(held.count):
        variable = held.variables[index]
        mode = held.modes[index]
        if mode == _HAS_NEW_TENSOR:
            if is_good:
                objects.move_tensor(tensor_of(variable), held.tensors[index])
            objects.destroy_tensor(held.tensors[index])
        if mode == _HAS_SHARED_TENSOR:
            owner = held.owners[index]
            if is_good:
                objects.move_tensor(tensor_of(variable), tensor_in(owner))
            kernel_api.delete_tensor(owner)
        buffer = held.buffers[index]
        if mode == _HOLDS_BUFFER and buffer is not None:
            release(buffer)
        elif mode != _REPEATED:
            objects.unlock_mutex(variable.mutex)


@native
def run_locked(held: Held) -> i32:
    """Run the variant that fits, with the variables locked; give the locks back."""
    call = held.call
    variant = find(call)
    if variant is None:
        copy_small(held)
        unlock_all(held)
        return NO_VARIANT
    prepare(held, variant)
    ran = run_any(call, variant, held.more)
    if unlikely(ran != DONE):
        copy_small(held)
    finish(held, ran == DONE and kernel_api.get_code(call.status) == 0)
    return ran


@native
def fails(held: Held) -> bool:
    """Lock the variables; else say in the status what is wrong with them, and lock nothing."""
    status = held.call.status
    if not look_up_all(held):
        kernel_api.set_status(status, capi.FAILED_PRECONDITION, NOT_FOUND)
        return True
    sort(held)
    held.repeated = 0
    is_written = False
    if unlikely(lock_all(held)):
        held.repeated = 1
        is_written = is_repeated_written(held)
    if is_written or not are_ready(held):
        unlock_all(held)
        problem = TWICE if is_written else NOT_READY
        kernel_api.set_status(status, capi.INVALID_ARGUMENT, problem)
        return True
    return False


@native
def attempt_with_variables(call: Call) -> i32:
    """Run the variant that fits; the inputs of the launch may be handles of variables."""
    count = call.record.num_variables
    held = Held.on_stack()
    held.call = call
    held.count = count
    held.variables = Array[Variable].on_stack(count)
    held.order = Array[i64].on_stack(count)
    held.modes = Array[i64].on_stack(count)
    held.buffers = Array[TensorBuffer | None].on_stack(count)
    tensors = Array[i64].on_stack(count * (sizeof(TensorObject) // 8))
    held.tensors = Structs[TensorObject].at(tensors)
    held.more = Buffers.on_stack(count)
    held.owners = Array[Tensor].on_stack(count)
    result: i32 = DONE
    if not fails(held):
        result = run_locked(held)
    release_variables(held)
    return result
