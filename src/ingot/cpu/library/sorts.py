# SPDX-License-Identifier: Apache-2.0
"""Sorts by one key in library code: of every size, one form per key, direction and element types.

A strategy of `kernel.ir.SortKernel`. Invariant: what depends on sizes is in env.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.cpu.emit.sort.keyed_sort import emit_keyed_sort
from ingot.cpu.emit.sort.sort_phases import phases_of
from ingot.cpu.emit.template import Template
from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part
from ingot.cpu.strategies.request import Request
from ingot.hlo import dim
from ingot.hlo.dtype import F32, PRED, S32
from ingot.hlo.opdef import NO_ATTRIBUTES
from ingot.hlo.opset.elementwise import CompareAttributes
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr
from ingot.kernel.ir import SortKernel
from ingot.kernel.sort.sort import KEYED_PARAMETERS, KeyedForm, keyed_form, schedule_sort
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.target import TargetSpec

WORD_BYTES = 8


def match_sort(request: Request) -> LibraryKernel | str:
    """Return how the library runs a sort by one key."""
    kernel = request.kernel
    assert isinstance(kernel, SortKernel), "it is asked about sorts"
    form = keyed_form(kernel)
    if isinstance(form, str):
        return form
    code = _code(request.target, form)
    schedule = schedule_sort(kernel)
    area = dim.floordiv(kernel.length * WORD_BYTES + (LINE_BYTES - 1), LINE_BYTES) * LINE_BYTES
    first_result = len(kernel.buffers) - len(kernel.operands)
    numbers = (kernel.length, kernel.inner, schedule.rows, schedule.grain)
    emitted = EmittedKernel(
        phases_of(code.name, schedule),
        2 * len(kernel.operands),
        (*numbers, schedule.part, schedule.parts, area),
        schedule.areas * area * (2 * form.words),
        order=(*kernel.operands, *range(first_result, len(kernel.buffers))),
        strategy="sort by key",
    )
    return LibraryKernel(emitted, (code,))


def common_sorts(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what sorts of f32 and s32 need, alone and with positions."""
    number = ex.argument(0, F32)
    keys = (ex.argument(0, S32), _total_order(number), _total_order(_one_zero_one_nan(number)))
    for key, only_key in product(keys, (True, False)):
        element = S32 if key.op == "argument" else F32
        yield _code(target, KeyedForm(key, False, (element,) if only_key else (element, S32), 1))


def _one_zero_one_nan(number: Expr) -> Expr:
    """Return an f32 with signed zeros made one number, and all NaNs: how JAX sorts."""
    zero, nan = (ex.constant(np.float32(value)) for value in (0, np.nan))
    positive = ex.make("select", F32, (_compare(number, zero, "EQ"), zero, number), NO_ATTRIBUTES)
    return ex.make("select", F32, (_compare(number, number, "NE"), nan, positive), NO_ATTRIBUTES)


def _total_order(number: Expr) -> Expr:
    """Return the s32 that `passes.expand` compares for an f32 in total order."""
    bits = ex.make("bitcast-convert", S32, (number,), NO_ATTRIBUTES)
    zero, most = (ex.constant(np.int32(value)) for value in (0, np.iinfo(np.int32).max))
    turned = ex.make("xor", S32, (bits, most), NO_ATTRIBUTES)
    return ex.make("select", S32, (_compare(bits, zero, "LT"), turned, bits), NO_ATTRIBUTES)


def _compare(left: Expr, right: Expr, direction: str) -> Expr:
    return ex.make("compare", PRED, (left, right), CompareAttributes(direction))


def _code(target: TargetSpec, form: KeyedForm) -> LibraryPart:
    name = f"sort_{form.name}"

    def define(module: ModuleBuilder) -> None:
        emit_keyed_sort(module, name, form, target)

    return library_part(target, Template(name, define, KEYED_PARAMETERS))
