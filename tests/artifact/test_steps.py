# SPDX-License-Identifier: Apache-2.0
"""Host programs as data: words, text, and what the runtime makes of them."""

import ctypes
import struct

import numpy as np
import pytest

from ingot.artifact.steps import (
    CONSTANTS,
    COPY,
    FIRST_INPUT,
    NUMBER,
    TEMP,
    Slot,
    Step,
    Steps,
)  # fmt: skip
from ingot.runtime.native import native_runtime

IN, OUT = FIRST_INPUT, FIRST_INPUT + 1
COPY_8 = Step((Slot(OUT, 0), Slot(IN, 8), Slot(NUMBER, 8)), ((COPY, 1),))


def _run(steps: Steps, inputs, outputs, temp=None, constants=b""):
    """Run steps whose functions are the runtime's or given by address."""
    runtime = native_runtime()
    block = np.frombuffer(steps.block({COPY: runtime.address(COPY)}, constants), np.uint8)
    run = runtime.function("ingot_steps_run", ctypes.c_int32, *[ctypes.c_void_p] * 6)

    def table(arrays):
        return (ctypes.c_void_p * len(arrays))(*[item.ctypes.data for item in arrays])

    arena = temp.ctypes.data if temp is not None else None
    return run(runtime.record, table(inputs), table(outputs), arena, None, block.ctypes.data)


def test_text_names_functions_and_slots():
    steps = Steps.of(
        1,
        1,
        [0],
        [
            Step((Slot(IN, 64), Slot(OUT, 0), Slot(TEMP, 128)), (("k_a", 3), ("k_b", 1))),
            Step((Slot(CONSTANTS, 0), Slot(NUMBER, 7), Slot(NUMBER, "code")), (("k_c", 2),)),
        ],
    )
    assert str(steps).splitlines() == [
        "k_a over 3 chunks, k_b over 1 chunks: input 0 at 64, output 0, temp at 128",
        "k_c over 2 chunks: constants, 7, code",
    ]


def test_block_holds_addresses_and_ends_where_the_constants_start():
    steps = Steps.of(0, 1, [], [Step((Slot(OUT, 0),), (("k", 1),))])
    block = steps.block({"k": 0x1234}, b"constants")
    assert len(steps) % 64 == 0
    assert block[len(steps) :] == b"constants"
    assert 0x1234 in struct.unpack(f"<{len(steps) // 8}q", block[: len(steps)])
    with pytest.raises(KeyError):
        steps.block({}, b"")


def test_copy_between_inputs_arena_and_outputs():
    x, y, temp = np.arange(4.0), np.zeros(2), np.zeros(2)
    steps = Steps.of(
        1,
        1,
        [],
        [
            Step((Slot(TEMP, 8), Slot(IN, 24), Slot(NUMBER, 8)), ((COPY, 1),)),
            Step((Slot(OUT, 0), Slot(TEMP, 8), Slot(NUMBER, 8)), ((COPY, 1),)),
            Step((Slot(OUT, 8), Slot(CONSTANTS, 8), Slot(NUMBER, 8)), ((COPY, 1),)),
        ],
    )
    assert _run(steps, [x], [y], temp, np.array([5.0, 6.0]).tobytes()) == 0
    assert temp.tolist() == [0.0, 3.0]
    assert y.tolist() == [3.0, 6.0]


def test_every_chunk_of_every_phase_runs():
    seen = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    def kernel(env, chunk):
        seen.append((ctypes.c_int64.from_address(env).value, chunk))

    address = ctypes.cast(kernel, ctypes.c_void_p).value
    steps = Steps.of(0, 0, [], [Step((Slot(NUMBER, 7),), (("k", 5), ("k", 1)))])
    words = tuple(address if word == "k" else word for word in steps.words)
    assert _run(Steps(words), [], []) == 0
    assert sorted(seen[:5]) == [(7, chunk) for chunk in range(5)]
    assert seen[5:] == [(7, 0)]


def test_sizes_are_copied():
    block = np.frombuffer(Steps.of(0, 0, [64, 12, 3], [COPY_8]).block({COPY: 0}, b""), np.uint8)
    function = native_runtime().function(
        "ingot_steps_sizes", ctypes.c_int32, *[ctypes.c_void_p] * 3
    )
    sizes = np.full(4, -1)
    assert function(None, sizes.ctypes.data, block.ctypes.data) == 0
    assert sizes.tolist() == [64, 12, 3, -1]


def test_no_steps_at_all():
    assert _run(Steps.of(0, 0, [], []), [], []) == 0
