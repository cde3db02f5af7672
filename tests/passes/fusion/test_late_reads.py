# SPDX-License-Identifier: Apache-2.0
"""Values of updates that read several other parts of what is updated: in one kernel before it."""

from __future__ import annotations

import pytest
from tests.passes.fusion.programs import fuse, kernels_of

REASON = "it reads several other parts of an array that is updated in place"


def stencil(rows: int, columns: int, element: str) -> str:
    """Return a program that sets the inside of a grid to the sum of the four neighbours."""
    inside = f"{element}[{rows - 2},{columns - 2}]"

    def part(row: int, column: int) -> str:
        ends = f"[{row}:{row + rows - 2}], [{column}:{column + columns - 2}]"
        return f"{inside} slice(x), slice={{{ends}}}"

    return f"""x = {element}[{rows},{columns}] parameter(0)
      one = s32[] constant(1)
      north = {part(0, 1)}
      south = {part(2, 1)}
      west = {part(1, 0)}
      east = {part(1, 2)}
      a = {inside} add(north, south)
      b = {inside} add(west, east)
      c = {inside} add(a, b)
      ROOT d = {element}[{rows},{columns}] dynamic-update-slice(x, c, one, one)"""


@pytest.mark.parametrize("element", ["f32", "s8", "bf16", "f64"])
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (3, 7), (31, 17), (5, 67)], ids=str)
def test_a_stencil_is_computed_before_its_update(rows: int, columns: int, element: str) -> None:
    text = stencil(rows, columns, element)
    assert len(kernels_of(text)) == 2
    assert REASON in fuse(text).reasons(fused=False)


@pytest.mark.parametrize(("rows", "columns"), [(2, 9), (3, 3)], ids=str)
def test_an_update_of_at_most_one_element_reads_in_time(rows: int, columns: int) -> None:
    assert len(kernels_of(stencil(rows, columns, "f32"))) <= 1


def test_one_other_part_is_copied() -> None:
    # A copy of the part takes no longer than one of the value.
    text = """x = f32[67] parameter(0)
      u = f32[31] parameter(1)
      one = s32[] constant(1)
      s = f32[31] slice(x), slice={[30:61]}
      m = f32[31] multiply(s, u)
      ROOT d = f32[67] dynamic-update-slice(x, m, one)"""
    assert len(kernels_of(text)) == 2
    assert REASON not in fuse(text).reasons(fused=False)


def test_small_parts_are_copied_before_a_large_update() -> None:
    text = """x = f32[67] parameter(0)
      zero = s32[] constant(0)
      a = f32[1] slice(x), slice={[60:61]}
      b = f32[1] slice(x), slice={[65:66]}
      s = f32[1] add(a, b)
      n = f32[] reshape(s)
      w = f32[59] broadcast(n), dimensions={}
      ROOT d = f32[67] dynamic-update-slice(x, w, zero)"""
    kernels_of(text)
    assert REASON not in fuse(text).reasons(fused=False)


def test_the_elements_that_are_written_may_be_read_among_others() -> None:
    # x[1:] += x[:-1]: one of two parts is read in time, so no more is copied than is written.
    text = """x = f32[67] parameter(0)
      one = s32[] constant(1)
      before = f32[66] slice(x), slice={[0:66]}
      here = f32[66] slice(x), slice={[1:67]}
      s = f32[66] add(before, here)
      ROOT d = f32[67] dynamic-update-slice(x, s, one)"""
    assert len(kernels_of(text)) == 2
    assert REASON not in fuse(text).reasons(fused=False)


def test_gathers_of_a_scattered_array_are_multiplied_before() -> None:
    dimensions = """offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,5}"""
    text = f"""x = f32[13,5] parameter(0)
      i = s32[37,1] parameter(1)
      j = s32[37,1] parameter(2)
      k = s32[37,1] parameter(3)
      a = f32[37,5] gather(x, i), {dimensions}
      b = f32[37,5] gather(x, j), {dimensions}
      m = f32[37,5] multiply(a, b)
      ROOT d = f32[13,5] scatter(x, k, m), update_window_dims={{1}}, inserted_window_dims={{0}}, \
scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add"""
    assert len(kernels_of(text)) == 2
