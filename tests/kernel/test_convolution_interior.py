# SPDX-License-Identifier: Apache-2.0
"""Where convolutions need no masks: bounds at the corners of blocks."""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32
from ingot.kernel import expr as ex
from ingot.kernel.elemental.convolution_index import interior
from ingot.kernel.elemental.points import Point, within
from ingot.kernel.expr import walk

ROW, TAP = Dim.symbol("@i"), Dim.symbol("@j")


def _operand(position: int | Dim) -> ex.Expr:
    return ex.load(0, position, F32, mask=within(position, 9, Point(())))


def test_loads_lose_their_masks() -> None:
    found = interior(_operand(ROW * 2 + TAP - 1), ("@j",))
    assert found is not None
    assert not any(item.op == "load" and item.payload.masked for item in walk((found.value,)))
    assert len(found.bounds) == 2


def test_bounds_are_tested_where_they_are_tightest() -> None:
    found = interior(_operand(ROW - TAP), ("@i", "@j"))
    assert found is not None
    corners = {bound.condition.payload.direction: bound.at_last for bound in found.bounds}
    assert corners == {"GE": frozenset({"@j"}), "LT": frozenset({"@i"})}


def test_nonlinear_indices_keep_their_masks() -> None:
    assert interior(_operand(ROW * TAP), ("@i", "@j")) is None


def test_without_masks_there_are_no_bounds() -> None:
    operand = ex.load(0, ROW + TAP, F32)
    found = interior(operand, ("@i",))
    assert found is not None
    assert found.bounds == ()
    assert found.value is operand
