# SPDX-License-Identifier: Apache-2.0
"""Indices in lanes where lane 0 lies outside of what a mask lets through, before position 0."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import ingot
from ingot.emit.values.indices import IndexEmitter, Lanes
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo.dim import Dim, floordiv, mod
from ingot.hlo.dim import evaluate as value_of
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I64, PTR, VOID

LANE = Dim.symbol("@i")
INDICES = [
    3 * floordiv(LANE - 1, 2),
    3 * floordiv(LANE - 1, 2) + mod(LANE - 1, 2),
    5 * floordiv(LANE - 2, 4) + LANE,
    7 * floordiv(LANE - 3, 4) + 2 * mod(LANE - 3, 4),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_lanes_from_0_on_are_right_behind_a_negative_one(index: Dim) -> None:
    """Masks let lanes through where nothing negative is divided; before them lie others."""
    target = TargetSpec.host()
    module = ModuleBuilder("test", vector_bits=target.vector_bits)
    f = module.function("f", VOID, [("from", PTR), ("to", PTR)])
    start, to = f.params
    emitter = IndexEmitter(f, {"@i": f.load(I64, start)})
    emitter.lanes = Lanes("@i", 8, aligned=8)
    f.store(emitter.spread_index(emitter.index(index), 8), to)
    f.ret()
    library = link_object([compile_object(module.text(), target)])
    function = library.function("f", None, ctypes.c_void_p, ctypes.c_void_p)
    for first in (0, 8):
        starts, found = np.array([first]), np.zeros(8, np.int64)
        function(starts.ctypes.data, found.ctypes.data)
        lanes = range(first, first + 8)
        wanted = [value_of(index, {"@i": lane}) for lane in lanes]
        np.testing.assert_array_equal(found[3:], wanted[3:])


@pytest.mark.slow
def test_a_dilated_and_padded_image_of_bytes() -> None:
    """Lane 0 lies in the padding: its quotient, as of a number without sign, led 2**63 too far."""
    text = """ENTRY e { x = u8[19,1,3,1] parameter(0)
      k = u8[2,3,1,33] parameter(1)
      ROOT c = u8[3,17,2,33] convolution(x, k), dim_labels=10bf_01io->b10f,
        window={size=2x3 stride=2x2 pad=0_4x1_-2 lhs_dilate=3x2} }"""
    module = parse(text)
    generator = np.random.default_rng(0)
    inputs = [
        generator.integers(0, 9, dims).astype("u1") for dims in ((19, 1, 3, 1), (2, 3, 1, 33))
    ]
    np.testing.assert_array_equal(ingot.compile(module)(*inputs), evaluate(module, inputs))
