# SPDX-License-Identifier: Apache-2.0
"""The verifier of loop kernels: a case for each constraint."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, PRED, S32, S64
from ingot.hlo.opdef import NO_ATTRIBUTES
from ingot.kernel import expr as ex
from ingot.kernel import verifier
from ingot.kernel.ir import Axis, Buffer, Combiner, LoopKernel, Pass, Reduction, Store
from ingot.kernel.verifier import verify_kernel
from ingot.support.diagnostics import InternalError
from ingot.support.records import replace

ROW, COLUMN = Dim.symbol("@0"), Dim.symbol("@1")
X = ex.load(0, 4 * ROW + COLUMN, F32)
ZERO = ex.constant(np.float32(0))
ADD = Combiner((ex.make("add", F32, (ex.argument(0, F32), ex.argument(1, F32)), NO_ATTRIBUTES),))
FOLD = Reduction(0, ADD, (ZERO,), (X,))
TOTAL = ex.reduced(0, 0, F32, frozenset({"@0"}))
STORE = Store(1, ROW, TOTAL)
SUM = LoopKernel(
    (Axis("@0", 8),),
    (Pass((Axis("@1", 4),), (FOLD,)), Pass((), (), (STORE,))),
    (Buffer(F32, 32, False), Buffer(F32, 8, True)),
)
"""Sums of eight rows of four."""


def _folding(fold: Reduction) -> LoopKernel:
    return replace(SUM, passes=(replace(SUM.passes[0], reductions=(fold,)), SUM.passes[1]))


def _storing(store: Store) -> LoopKernel:
    return replace(SUM, passes=(SUM.passes[0], replace(SUM.passes[1], stores=(store,))))


def _stored(value: ex.Expr) -> LoopKernel:
    return _storing(replace(STORE, value=value))


TRUE, NUMBER = ex.constant(np.bool_(True)), ex.constant(np.int32(1))

BROKEN = {
    "axes_unique": replace(SUM, grid=(Axis("@0", 8), Axis("@0", 8))),
    "axis_name": replace(SUM, grid=(Axis("@0", 8), Axis("n", 8))),
    "axis_extent": replace(SUM, grid=(Axis("@0", 8), Axis("@2", ROW))),
    "reduction_number": replace(SUM, passes=(SUM.passes[0], *SUM.passes)),
    "reduction_arity": _folding(replace(FOLD, inits=())),
    "reduction_types": _folding(replace(FOLD, inits=(ex.constant(np.float64(0)),))),
    "combiner_argument": _folding(replace(FOLD, combiner=Combiner((ex.argument(2, F32),)))),
    "combiner_leaf": _folding(replace(FOLD, combiner=Combiner((X,)))),
    "buffer_number": _storing(replace(STORE, buffer=2)),
    "store_output": _storing(replace(STORE, buffer=0)),
    "store_type": _stored(NUMBER),
    "mask_type": _storing(replace(STORE, mask=NUMBER)),
    "index_axes": _storing(replace(STORE, index=COLUMN)),
    "index_values": _storing(replace(STORE, index=ROW + Dim.symbol("$0"))),
    "load_type": _stored(ex.make("convert", F32, (ex.load(0, ROW, S64),), NO_ATTRIBUTES)),
    "leaf": _stored(ex.argument(0, F32)),
    "reduced_known": _stored(ex.reduced(1, 0, F32, frozenset())),
    "reduced_output": _stored(ex.reduced(0, 1, F32, frozenset())),
    "reduced_type": _stored(
        ex.make("convert", F32, (ex.reduced(0, 0, S32, frozenset()),), NO_ATTRIBUTES)
    ),
    "reduced_axes": _stored(ex.reduced(0, 0, F32, frozenset({"@1"}))),
    "op_arity": _stored(ex.make("add", F32, (ZERO,), NO_ATTRIBUTES)),
    "op_types": _stored(ex.make("select", F32, (NUMBER, ZERO, ZERO), NO_ATTRIBUTES)),
}


def test_a_sum_of_rows_is_valid() -> None:
    verify_kernel(SUM)
    verify_kernel(_storing(replace(STORE, mask=TRUE)))
    assert TRUE.dtype is PRED


@pytest.mark.parametrize("label", BROKEN)
def test_a_broken_kernel_is_refused_by_its_constraint(label: str) -> None:
    with pytest.raises(InternalError, match=f"INGOT0932.*{label}") as found:
        verify_kernel(BROKEN[label], "some-pass")
    assert "some-pass" in str(found.value)


def test_every_constraint_has_a_case() -> None:
    source = inspect.getsource(verifier)
    assert set(re.findall(r'yield "(\w+)"', source)) == set(BROKEN)
