# SPDX-License-Identifier: Apache-2.0
"""Costs of fused computations: flops by op, bytes by how operands are read and results written."""

from __future__ import annotations

import pytest

from ingot.analysis.cost import fusion_cost
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.dim import evaluate

COMBINERS = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
"""
SIZES = {"n": 7}

FLOPS = {
    "x = f32[6,8] parameter(0)  ROOT r = f32[6,8] add(x, x)": 48,
    "x = f32[6,8] parameter(0)  ROOT r = f32[6,8] copy(x)": 0,
    "x = f32[6,8] parameter(0)  ROOT r = f32[8,6] transpose(x), dimensions={1,0}": 0,
    "x = f32[?n,8] parameter(0)  ROOT r = f32[?n,8] exponential(x)": 56,
    """x = f32[?n,8] parameter(0)  y = f32[8,5] parameter(1)
       ROOT r = f32[?n,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""": 560,
    """x = f32[2,9,9,4] parameter(0)  k = f32[3,3,4,6] parameter(1)
       ROOT r = f32[2,7,7,6] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f""": 2
    * 2
    * 7
    * 7
    * 6
    * 3
    * 3
    * 4,
    """x = f32[6,8] parameter(0)  z = f32[] constant(0)
       ROOT r = f32[6] reduce(x, z), dimensions={1}, to_apply=add""": 48,
    """x = f32[6,8] parameter(0)  z = f32[] constant(0)
       ROOT r = f32[6,6] reduce-window(x, z), window={size=1x3}, to_apply=add""": 108,
    """x = f32[60] parameter(0)  i = s32[9,1] parameter(1)  u = f32[9] parameter(2)
       ROOT r = f32[60] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
         scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""": 9,
    "x = f32[3,99] parameter(0)  ROOT r = f32[3,99] sort(x), dimensions={1}, to_apply=less": 2079,
    "x = f32[3,?n] parameter(0)  ROOT r = f32[3,?n] sort(x), dimensions={1}, to_apply=less": 21,
    """x = c64[4,1024] parameter(0)
       ROOT r = c64[4,1024] fft(x), fft_type=FFT, fft_length={1024}""": 5 * 4 * 1024 * 10,
    """x = f32[?n,16] parameter(0)
       ROOT r = c64[?n,9] fft(x), fft_type=RFFT, fft_length={16}""": 7 * 16 * 4 * 5 // 2,
}


@pytest.mark.parametrize("body", FLOPS)
def test_flops(body: str) -> None:
    entry = parse_hlo(f"HloModule m\n{COMBINERS}\nENTRY e {{ {body} }}").entry
    cost = fusion_cost(entry)
    assert evaluate(cost.flops, SIZES) == FLOPS[body]
    is_costly = entry.root.opcode == "exponential"
    assert evaluate(cost.transcendentals, SIZES) == (FLOPS[body] if is_costly else 0)


def test_windows_and_updates_count_the_bytes_that_they_touch() -> None:
    body = """x = f32[100,8] parameter(0)  y = f32[100,8] parameter(1)  i = s32[] parameter(2)
      z = s32[] constant(0)
      s = f32[1,8] dynamic-slice(y, i, z), dynamic_slice_sizes={1,8}
      ROOT r = f32[100,8] dynamic-update-slice(x, s, i, z)"""
    cost = fusion_cost(parse_hlo(f"HloModule m\nENTRY e {{ {body} }}").entry)
    assert (cost.bytes_read, cost.bytes_written) == (32 + 4, 32)
