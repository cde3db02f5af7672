# SPDX-License-Identifier: Apache-2.0
"""Which arguments of an execution are donated, as native functions.

For `launch`. Invariant: a mark is valid only for the execution whose number it has, so
nothing has to be cleared.
"""

from __future__ import annotations

from ingot.client.pjrt.c_api import INVALID_ARGUMENT
from ingot.client.pjrt.native_code.emit import arguments, static_error, static_reference
from ingot.client.pjrt.records import Buffer, Error, Executable, Storage
from ingot.native.functions import native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.statics import static_word
from ingot.native.types import i8, i64

DONATED_TWICE = static_error(
    "donated_error",
    INVALID_ARGUMENT,
    "Attempt to donate the same buffer twice in Execute(), or to donate a buffer that the same "
    "call to Execute() also uses (donate_argnums: pass a copy for one of the two arguments).",
)
EXECUTIONS = static_word(i64, "executions")

ExecuteOptions = arguments("PJRT_ExecuteOptions")


@native
def is_used_twice(buffers: Array[Buffer], donated: Array[i8], count: i64, number: i64) -> bool:
    """Return whether a donated argument is used twice.

    Each buffer is marked with the number of this execution, so that one pass finds repeats.
    """
    for index in range(count):
        buffer = buffers[index]
        gives = donated[index]
        if unlikely(buffer.mark == number and buffer.mark_donated | gives != 0):
            return True
        buffer.mark = number
        buffer.mark_donated = gives
    return False


@native
def check_donations(
    executable: Executable,
    buffers: Array[Buffer],
    inputs: Array[Storage],
    donated: Array[i8],
    options: Pointer | None,
) -> Error | None:
    """Record which arguments are donated now; return an error if one is used twice."""
    count = executable.num_arguments
    for index in range(count):
        # Memory that a host view shows is not donated: the buffer is unchanged.
        is_seen = inputs[index].external.load("monotonic") != 0
        donated[index] = i8(0) if is_seen else executable.arguments[index].donated
    if options is not None:
        given = ExecuteOptions.at(options)
        for index in range(given.num_non_donatable_input_indices):
            donated[given.non_donatable_input_indices[index]] = 0
    if unlikely(is_used_twice(buffers, donated, count, EXECUTIONS.fetch_add(1) + 1)):
        return static_reference(DONATED_TWICE)
    return None
