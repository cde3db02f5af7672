# SPDX-License-Identifier: Apache-2.0
"""The verifier of kernels: a case for each constraint."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from tests.kernel.texts import SAMPLES

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import BF16, C64, F32, F64, PRED, S32, S64
from ingot.hlo.opdef import NO_ATTRIBUTES
from ingot.hlo.opset.elementwise import CompareAttributes
from ingot.kernel import expr as ex
from ingot.kernel import verifier
from ingot.kernel.ir import (
    Axis,
    Buffer,
    Combiner,
    ContractionKernel,
    ConvolutionKernel,
    FftKernel,
    Kernel,
    LoopKernel,
    Pass,
    PlainConvolution,
    Reduction,
    SortKernel,
    Store,
    TopKKernel,
)
from ingot.kernel.parse import parse_kernel
from ingot.kernel.verifier import broken_constraint, verify_kernel
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


CONVOLUTION = PlainConvolution(1, (), (), 1, 1, 1, (), 0, 2)
SUMMED = ex.make("accumulator", F32, (), ("@b", "@m", "@n"))
PRODUCT = ContractionKernel(
    *(Axis(f"@{name}", 4) for name in "bmnk"),
    ex.load(0, Dim.symbol("@m") + Dim.symbol("@k"), F32),
    ex.load(1, Dim.symbol("@k") + Dim.symbol("@n"), F32),
    F32,
    (Store(2, Dim.symbol("@m"), SUMMED),),
    (Buffer(F32, 7, False), Buffer(F32, 7, False), Buffer(F32, 4, True)),
)
LESS = ex.make("compare", PRED, (ex.argument(0, F32), ex.argument(1, F32)), CompareAttributes("LT"))
SORT = SortKernel(2, 5, 1, LESS, SUM.buffers, (1,))
FFT = FftKernel("FFT", (8,), 2, C64, (Buffer(C64, 16, False), Buffer(C64, 16, True)))
TOP_K = TopKKernel(
    2, 8, 3, True, (Buffer(F32, 16, False), Buffer(F32, 6, True), Buffer(S32, 6, True))
)
ATTENTION = parse_kernel(SAMPLES["attention"])

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
    "op": _stored(ex.make("add", F32, (ZERO,), NO_ATTRIBUTES)),
    "op_type": _stored(ex.make("compare", F32, (ZERO, ZERO), CompareAttributes("LT"))),
    "op_attributes": _stored(ex.make("exponential", F32, (ZERO,), NO_ATTRIBUTES)),
    "op_elementwise": _stored(ex.make("reshape", F32, (ZERO,), NO_ATTRIBUTES)),
    "store_combiner": _storing(replace(STORE, combiner=Combiner(()))),
    "size": replace(SUM, buffers=(Buffer(F32, -32, False), SUM.buffers[1])),
    "local_output": replace(SUM, local_buffers=(Buffer(F32, 4, False),)),
    "convolution_buffers": ConvolutionKernel(CONVOLUTION, SUM),
    "convolution_rank": ConvolutionKernel(replace(CONVOLUTION, rhs=1, sizes=(4,)), SUM),
    "accumulator": replace(PRODUCT, accumulate=F64),
    "sort_operands": replace(SORT, operands=(2,)),
    "sort_comparator": replace(SORT, comparator=ex.argument(1, F32)),
    "fft_kind": replace(FFT, kind="DCT"),
    "fft_buffers": replace(FFT, element=F32),
    "top_k_buffers": replace(TOP_K, buffers=SUM.buffers),
    "attention_types": replace(
        ATTENTION, power=ex.make("convert", BF16, (ex.argument(0, F32),), NO_ATTRIBUTES)
    ),
}


def test_a_sum_of_rows_is_valid() -> None:
    verify_kernel(SUM)
    verify_kernel(_storing(replace(STORE, mask=TRUE)))
    assert TRUE.dtype is PRED


@pytest.mark.parametrize("kernel", [PRODUCT, SORT, FFT, TOP_K], ids=lambda k: type(k).__name__)
def test_every_kind_of_kernel_has_valid_ones(kernel: Kernel) -> None:
    assert broken_constraint(kernel) is None


@pytest.mark.parametrize("label", BROKEN)
def test_a_broken_kernel_is_refused_by_its_constraint(label: str) -> None:
    with pytest.raises(InternalError, match=f"INGOT0932.*{label}:") as found:
        verify_kernel(BROKEN[label], "some-pass")
    assert "some-pass" in str(found.value)


def test_every_constraint_has_a_case() -> None:
    source = inspect.getsource(verifier)
    assert set(re.findall(r'yield "(\w+)"', source)) == set(BROKEN)
