# SPDX-License-Identifier: Apache-2.0
"""Which program the kernel of a launch op runs: the one for the sizes and values of its inputs.

A variant that was compiled for values of inputs has guards, which are compared with the inputs'
bytes; others pay nothing.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.launches.launch_inputs import Call
from ingot.frontends.tensorflow.launches.launch_records import Guard, Variant
from ingot.native.functions import inlined, native
from ingot.native.pointers import Array, Structs
from ingot.native.types import i8, i64
from ingot.runtime.records import Buffers, Param


@inlined
def meets_guards(guards: Structs[Guard], count: i64, data: Buffers) -> bool:
    """Return whether the bytes of inputs are what guards say."""
    for index in range(count):
        guard = guards[index]
        given = Array[i8].at(data[guard.input])
        assert given is not None
        wanted = Array[i8].at(guard.data)
        for at in range(guard.bytes):
            if given[at] != wanted[at]:
                return False
    return True


@inlined
def has_sizes(param: Param, dims: Array[i64]) -> bool:
    """Return whether an input of the right rank has every static size of a parameter."""
    for axis in range(param.rank):
        wanted = param.dims[axis]
        if wanted >= 0 and wanted != dims[axis]:
            return False
    return True


@inlined
def fits(variant: Variant, call: Call) -> bool:
    """Return whether a variant is for these inputs."""
    count = call.record.num_inputs
    for index in range(count):
        if call.ranks[index] != variant.ranks[index]:
            return False
    for number in range(count):
        if not has_sizes(variant.program.params[number], call.dims[number]):
            return False
    return meets_guards(variant.guards, variant.num_guards, call.data)


@native
def find(call: Call) -> Variant | None:
    """Return the variant that takes these inputs, or null."""
    variant = call.record.variants.load()
    while variant is not None:
        if fits(variant, call):
            return variant
        variant = variant.next
    return None
