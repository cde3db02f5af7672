# SPDX-License-Identifier: Apache-2.0
"""Run-time indices of every integer type: clamped by slices and gathers, dropped by scatters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo.dtype import dtype
from ingot.llvm.target import TargetSpec, host_levels

pytestmark = pytest.mark.fast_share(4)

INDICES = {
    "s8": (-128, 127, 3),
    "u8": (255, 2),
    "s32": (-(2**31), 2**31 - 1, 6),
    "u32": (2**32 - 1, 1),
    "s64": (-(2**63), 2**63 - 1, 5),
    "u64": (2**63 + 5, 2**64 - 1, 4),
}

PROGRAMS = {
    "dynamic-slice": """ENTRY e { x = f32[10,3] parameter(0)
      i = TYPE[3] parameter(1)
      c = TYPE[1] slice(i), slice={[0:1]}
      s = TYPE[] reshape(c)
      z = TYPE[] constant(0)
      ROOT d = f32[4,3] dynamic-slice(x, s, z), dynamic_slice_sizes={4,3} }""",
    "dynamic-update-slice": """ENTRY e { x = f32[10,3] parameter(0)
      i = TYPE[3] parameter(1)
      u = f32[3,3] parameter(2)
      c = TYPE[1] slice(i), slice={[0:1]}
      s = TYPE[] reshape(c)
      z = TYPE[] constant(0)
      ROOT d = f32[10,3] dynamic-update-slice(x, u, s, z) }""",
    "gather": """ENTRY e { x = f32[10,3] parameter(0)
      i = TYPE[3] parameter(1)
      ROOT d = f32[3,2,3] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={},
        start_index_map={0}, index_vector_dim=1, slice_sizes={2,3} }""",
    "scatter": """add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[10,3] parameter(0)
      i = TYPE[3] parameter(1)
      u = f32[3,3] parameter(2)
      ROOT d = f32[10,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
}


def _check(text: str, inputs: list[Any], level: str) -> None:
    agrees(parse(f"HloModule m\n{text}"), inputs, rtol=1e-6, level=level)


@pytest.mark.parametrize("element", INDICES)
@pytest.mark.parametrize("op", PROGRAMS)
def test_extreme_indices(op: str, element: str) -> None:
    text = PROGRAMS[op].replace("TYPE", element)
    x = np.arange(30, dtype=np.float32).reshape(10, 3)
    for number, value in enumerate(INDICES[element]):
        places = np.array([value, 0, value], dtype=dtype(element).numpy)
        inputs = [x, places, -np.ones((3, 3), np.float32)]
        levels = host_levels()
        _check(text, inputs[: text.count("parameter(") - 2 * (op == "scatter")],
               levels[number % len(levels)])  # fmt: skip


@pytest.mark.parametrize("vector_dim", [0, 1, 2])
@pytest.mark.parametrize("level", host_levels())
def test_index_vectors_along_any_dimension(vector_dim: int, level: str) -> None:
    generator = np.random.default_rng(vector_dim)
    dims = [4, 5]
    dims.insert(vector_dim, 2)
    shape = ",".join(map(str, dims))
    places = generator.integers(-2, 12, dims).astype(np.int32)
    x = generator.standard_normal((9, 8, 3)).astype(np.float32)
    updates = generator.standard_normal((4, 3, 5, 2)).astype(np.float32)
    gather = f"""ENTRY e {{ x = f32[9,8,3] parameter(0)
      i = s32[{shape}] parameter(1)
      ROOT d = f32[4,3,5,2] gather(x, i), offset_dims={{1,3}}, collapsed_slice_dims={{0}},
        start_index_map={{1,0}}, index_vector_dim={vector_dim}, slice_sizes={{1,3,2}} }}"""
    _check(gather, [x, places], level)
    scatter = f"""add {{ a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }}
    ENTRY e {{ x = f32[9,8,3] parameter(0)
      i = s32[{shape}] parameter(1)
      u = f32[4,3,5,2] parameter(2)
      ROOT d = f32[9,8,3] scatter(x, i, u), update_window_dims={{1,3}}, inserted_window_dims={{0}},
        scatter_dims_to_operand_dims={{1,0}}, index_vector_dim={vector_dim}, to_apply=add }}"""
    _check(scatter, [x, places, updates], level)


def test_batching_dimensions() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((6, 8, 3)).astype(np.float32)
    places = generator.integers(-1, 9, (4, 6, 1)).astype(np.int32)
    gather = """ENTRY e { x = f32[6,8,3] parameter(0)
      i = s32[4,6,1] parameter(1)
      ROOT d = f32[4,6,3] gather(x, i), offset_dims={2}, collapsed_slice_dims={1},
        start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={1},
        index_vector_dim=2, slice_sizes={1,1,3} }"""
    _check(gather, [x, places], host_levels()[0])
    scatter = """max { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] maximum(a, b) }
    ENTRY e { x = f32[6,8,3] parameter(0)
      i = s32[4,6,1] parameter(1)
      u = f32[4,6,3] parameter(2)
      ROOT d = f32[6,8,3] scatter(x, i, u), update_window_dims={2}, inserted_window_dims={1},
        scatter_dims_to_operand_dims={1}, input_batching_dims={0},
        scatter_indices_batching_dims={1}, index_vector_dim=2, to_apply=max }"""
    updates = generator.standard_normal((4, 6, 3)).astype(np.float32)
    _check(scatter, [x, places, updates], host_levels()[0])


def test_masked_lanes_read_nothing_at_any_level() -> None:
    """Half of a vector is masked for good: LLVM must not read it (see `Memory.masked_load`)."""
    text = """low { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT m = f32[] minimum(a, b) }
    ENTRY e { x = f32[?n,3] parameter(0)
      c = f32[] constant(3.125)
      p = f32[?(n+1),5] pad(x, c), padding=0_1x0_2
      d = f32[?(n+1),10] concatenate(p, p), dimensions={1}
      i = f32[] constant(100)
      ROOT r = f32[] reduce(d, i), dimensions={0,1}, to_apply=low }"""
    for level in host_levels():
        _check(text, [np.full((2, 3), 5, np.float32)], level)


@pytest.mark.parametrize("element", ["u8", "f32"])
@pytest.mark.parametrize("level", host_levels())
def test_gaps_before_the_first_element_read_nothing(element: str, level: str) -> None:
    """Lane 0 lies before the operand: the others are no known way from where its index is."""
    text = f"""HloModule m
    ENTRY e {{ x = {element}[?n] parameter(0)
      c = {element}[] constant(7)
      ROOT p = {element}[?(max(0,n-1)+n+3)] pad(x, c), padding=1_2_1 }}"""
    module = parse(text)
    executable = ingot.compile(module, target=TargetSpec.host(level))
    for size in (0, 1, 2, 3, 17, 64, 1000):
        inputs = [np.arange(size).astype(dtype(element).numpy)]
        np.testing.assert_array_equal(executable(*inputs), evaluate(module, inputs))


def test_every_third_of_every_second_of_nothing() -> None:
    text = """HloModule m
    ENTRY e { x = f32[?n] parameter(0)
      a = f32[?(floordiv(n+1,2))] slice(x), slice={[0:?n:2]}
      ROOT b = f32[?(floordiv(floordiv(n+1,2)+2,3))] slice(a),
        slice={[0:?(floordiv(n+1,2)):3]} }"""
    executable = ingot.compile(parse(text))
    for size in range(9):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(executable(x), x[::2][::3])
