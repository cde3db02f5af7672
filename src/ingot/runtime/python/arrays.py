# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays in native functions: reading arguments, making outputs.

The lower half of the Python call, over `python.objects`. Invariant: an array that is made owns its
block, which NumPy gives back through our memory handler (NEP 49).
"""

from __future__ import annotations

from ingot.native.functions import inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.python.objects import (
    CPYTHON,
    NEW_ARRAY,
    OWNS_DATA,
    USABLE_ARRAY,
    ArrayObject,
)
from ingot.runtime.records import Buffers, Dims, Output, Param, Program


@inlined
def has_type(array: ArrayObject, param: Param) -> bool:
    """Return whether the items of an array have the type of a parameter."""
    descr = array.descr
    if param.descr == descr:
        return True
    # Not the one dtype object of this type, but perhaps an equal one (from a pickle).
    return descr.type_number == param.type_number and descr.byte_order != ord(">")


@inlined
def is_usable(array: ArrayObject, param: Param, array_type: Pointer) -> bool:
    """Return whether machine code can take an argument, if its dimensions are right too."""
    if array.type != array_type or array.flags & USABLE_ARRAY != USABLE_ARRAY:
        return False
    return has_type(array, param) and i64(array.rank) == param.rank


@native
def read_arguments(
    program: Program, args: Array[ArrayObject], inputs: Buffers, in_dims: Dims
) -> i64:
    """Fill `inputs` and `in_dims` from NumPy arrays.

    Returns the bytes of all arguments, or -1 if one is not just as the program wants it.
    """
    params = program.params
    array_type = CPYTHON.array_type
    total: i64 = 0
    for index in range(program.num_params):
        array = args[index]
        param = params[index]
        if unlikely(not is_usable(array, param, array_type)):
            return -1
        dims = array.dims
        static = param.dims
        size: i64 = param.element_bytes
        for axis in range(param.rank):
            wanted = static[axis]
            given = dims[axis]
            if unlikely(wanted >= 0 and wanted != given):
                return -1
            size *= given
        inputs[index] = array.data
        in_dims[index] = dims
        total += size
    return total


@native
def new_output(output: Output, sizes: Array[i64], data: Pointer) -> ArrayObject | None:
    """Return a new array over the block `data`, or null with an exception."""
    CPYTHON.inc_ref(output.descr)
    dims = Array[i64].at(sizes + output.dims_slot * 8)
    array = CPYTHON.new_from_descr(
        CPYTHON.array_type, output.descr, i32(output.rank), dims, None, data, NEW_ARRAY, None
    )
    if array is None:
        return None
    # From here on NumPy owns the block: it frees it through the handler when the array dies.
    CPYTHON.inc_ref(CPYTHON.memory_handler)
    array.handler = CPYTHON.memory_handler
    array.flags |= OWNS_DATA
    return array


@native
def drop_arrays(arrays: Array[Pointer], count: i64) -> None:
    """Let go of the first `count` arrays."""
    for index in range(count):
        CPYTHON.dec_ref(arrays[index])


@native
def finish(arrays: Array[Pointer], count: i64) -> Pointer | None:
    """Return the result of a call: the one array, or a tuple that takes them."""
    if count == 1:
        return arrays[0]
    result = CPYTHON.tuple_new(count)
    if result is None:
        drop_arrays(arrays, count)
        return None
    for index in range(count):
        CPYTHON.tuple_set_item(result, index, arrays[index])
    return result
