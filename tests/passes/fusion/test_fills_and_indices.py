# SPDX-License-Identifier: Apache-2.0
"""Fills that are updated in place and read elsewhere; indices of gathers that others use, too."""

import numpy as np
from tests.support.against_evaluator import agrees

import ingot

UPDATED = """HloModule updated

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }

ENTRY main {
  x = f32[40] parameter(0)
  i = s32[40,1] parameter(1)
  c = f32[] constant(0)
  zeros = f32[40] broadcast(c), dimensions={}
  positive = pred[40] compare(x, zeros), direction=GT
  chosen = f32[40] select(positive, x, zeros)
  first = f32[40] scatter(zeros, i, chosen), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  doubled = f32[40] add(x, x)
  second = f32[40] scatter(zeros, i, doubled), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT both = (f32[40], f32[40]) tuple(first, second)
}
"""

SHARED = """HloModule shared

ENTRY main {
  table = f32[3,5,20] parameter(0)
  x = f32[3,33] parameter(1)
  y = f32[3,33] floor(x)
  z = f32[3,33] multiply(y, y)
  k = s32[3,33] convert(z)
  i = INDICES
  found = f32[3,5,33] gather(table, i), offset_dims={1}, collapsed_slice_dims={2},
    start_index_map={2}, operand_batching_dims={0}, start_indices_batching_dims={0},
    index_vector_dim=2, slice_sizes={1,5,1}
  w = f32[3,5,33] broadcast(z), dimensions={0,2}
  ROOT r = f32[3,5,33] multiply(found, w)
}
"""


def test_updates_have_a_fill_of_their_own():
    """No other kernel reads the zeros, and no copy of them is made."""
    module = ingot.parse_hlo(UPDATED)
    executable = ingot.compile(module)
    updates = [kernel for kernel in executable.kernels if "scatter" in kernel.opcodes]
    assert any({"select", "broadcast"} <= set(kernel.opcodes) for kernel in updates)
    assert "copy" not in str(executable.as_text("hlo"))
    random = np.random.default_rng(0)
    x = random.standard_normal(40).astype(np.float32)
    agrees(module, [x, random.integers(-3, 43, (40, 1)).astype(np.int32)], executable=executable)


def test_indices_are_computed_once_in_the_kernel_that_gathers():
    table = np.random.default_rng(0).standard_normal((3, 5, 20)).astype(np.float32)
    x = np.linspace(-3, 5, 99, dtype=np.float32).reshape(3, 33)
    for indices in ("s32[3,33] copy(k)", "s32[3,33,1] reshape(k)"):
        module = ingot.parse_hlo(SHARED.replace("INDICES", indices))
        executable = ingot.compile(module)
        assert len(executable.kernels) == 1
        agrees(module, [table, x], executable=executable)
