# SPDX-License-Identifier: Apache-2.0
"""Transposes that a reshape makes into operands without constant steps stay out of products."""

from __future__ import annotations

import pytest
from tests.passes.fusion.programs import fuse, kernels_of

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.shape import Shape
from ingot.passes.fusion.kept_apart import unstrided_dims

N = Dim.symbol("n")
REASON = "the product would read its elements at no constant steps"


def product(order: str, sizes: tuple[int, int]) -> str:
    """Return a program that multiplies a reshaped transpose of f32[3,4,6] by columns."""
    moved = ",".join(str((3, 4, 6)[int(dim)]) for dim in order)
    rows, columns = sizes
    return f"""x = f32[3,4,6] parameter(0)
      y = f32[{columns},5] parameter(1)
      t = f32[{moved}] transpose(x), dimensions={{{",".join(order)}}}
      r = f32[{rows},{columns}] reshape(t)
      ROOT d = f32[{rows},5] dot(r, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""


@pytest.mark.parametrize(
    ("order", "sizes", "is_unstrided"),
    [
        ("210", (6, 12), True),  # contracts dimensions in the other order
        ("102", (4, 18), True),  # contracts dimensions that stood apart
        ("021", (18, 4), True),  # rows that stood apart
        ("201", (6, 12), False),  # contracts what stood side by side
        ("120", (24, 3), False),  # rows that stood side by side
    ],
)
def test_torn_rows_and_sums_are_moved_before(
    order: str, sizes: tuple[int, int], *, is_unstrided: bool
) -> None:
    text = product(order, sizes)
    assert (REASON in fuse(text).reasons(fused=False)) == is_unstrided
    assert len(kernels_of(text)) == (2 if is_unstrided else 1)


def test_sums_over_symbolic_dimensions_that_stood_apart() -> None:
    text = """x = f32[?n,4,?m] parameter(0)
      y = f32[?(n*m),5] parameter(1)
      t = f32[4,?n,?m] transpose(x), dimensions={1,0,2}
      r = f32[4,?(n*m)] reshape(t)
      ROOT d = f32[4,5] dot(r, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    assert REASON in fuse(text).reasons(fused=False)


def test_matrices_of_a_batch_may_lie_anywhere() -> None:
    text = """x = f32[3,7,4,6] parameter(0)
      y = f32[12,6,5] parameter(1)
      t = f32[3,4,7,6] transpose(x), dimensions={0,2,1,3}
      r = f32[12,7,6] reshape(t)
      ROOT d = f32[12,7,5] dot(r, y), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={2}, rhs_contracting_dims={1}"""
    assert REASON not in fuse(text).reasons(fused=False)
    assert len(kernels_of(text)) == 1


def test_a_reshape_of_another_operand_tears_nothing() -> None:
    text = """x = f32[3,4,6] parameter(0)
      y = f32[10,6] parameter(1)
      t = f32[4,6,3] transpose(x), dimensions={1,2,0}
      l = f32[24,3] reshape(t)
      u = f32[6,10] transpose(y), dimensions={1,0}
      r = f32[3,20] reshape(u)
      ROOT d = f32[24,20] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    log = fuse(text).log
    assert [line for line in log if REASON in line] == [f"%u not fused into %d: {REASON}"]
    assert len(kernels_of(text)) == 2


@pytest.mark.parametrize(
    ("dims", "order", "reshaped", "unstrided"),
    [
        ((2, 3, 5), (1, 0, 2), (6, 5), {0}),
        ((2, 3, 5), (0, 2, 1), (2, 15), {1}),
        ((2, 3, 5), (2, 0, 1), (5, 6), set()),
        ((2, 1, 5), (2, 1, 0), (5, 2), set()),
        ((2, 1, 5), (1, 0, 2), (10,), set()),
        ((6, 4), (1, 0), (2, 12), {0, 1}),
        ((6, 4), (1, 0), (2, 2, 6), set()),
        ((0, 4), (1, 0), (4, 0), set()),
        ((0, 4), (1, 0), (0, 7), set()),
        ((N, 4), (1, 0), (4 * N,), {0}),
        ((2, 3, N), (1, 0, 2), (3, 2 * N), {1}),
        ((2, 3, N), (1, 2, 0), (3 * N, 2), set()),
    ],
    ids=str,
)
def test_which_dimensions_have_no_stride(dims, order, reshaped, unstrided) -> None:
    b = Builder("main")
    transpose = b.transpose(b.parameter(0, Shape.array("f32", dims)), dimensions=order)
    assert unstrided_dims(transpose, Shape.array("f32", reshaped)) == unstrided
