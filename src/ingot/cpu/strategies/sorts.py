# SPDX-License-Identifier: Apache-2.0
"""Strategies of sorts in code of the library, of every size.

The code of a sort depends on the key, its direction and the element types, or on the comparator and
these. Few elements are sorted by a network (`sorting_network`), which is asked before.

Invariant: what depends on sizes is in env.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.kernel_abi import CodeSlot, EmittedKernel
from ingot.cpu.emit.sort.keyed_row import FLAG_BYTES, PART_BYTES, KeyedSort, record_type
from ingot.cpu.emit.sort.keyed_sort import keyed_phases, keyed_template
from ingot.cpu.emit.sort.merge_sort import Compared
from ingot.cpu.emit.sort.merged_rows import merge_code
from ingot.cpu.emit.sort.quicksort import FUNCTIONS, Quicksort
from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part
from ingot.cpu.strategies.request import Request
from ingot.hlo import dim
from ingot.hlo.dtype import F32, S32
from ingot.kernel import expr as ex
from ingot.kernel.ir import SortKernel
from ingot.kernel.sort.keys import RecordKind, one_zero_one_nan, total_order
from ingot.kernel.sort.sort import BLOCK, KeyedVariant, keyed_variant, schedule_sort
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.target import TargetSpec


def match_sort(request: Request) -> LibraryKernel | str:
    """Return how the library runs a sort by one key, or why the comparator is no such order."""
    kernel = request.kernel_as(SortKernel)
    variant = keyed_variant(kernel)
    if isinstance(variant, str):
        return variant
    parts = tuple(_parts(request.target, variant))
    schedule = schedule_sort(kernel)
    records = dim.round_up(kernel.length, BLOCK) + BLOCK
    area = records * (variant.record.bits // 8) + FLAG_BYTES
    is_dense = isinstance(kernel.inner, int) and kernel.inner == 1
    arrays = 1 if is_dense and KeyedSort.of(variant, request.target).in_result else 2
    scratch = schedule.areas * area * (arrays * variant.record.num_words)
    numbers = (kernel.length, kernel.inner, schedule.rows, schedule.grain)
    quicksort = Quicksort(record_type(variant))
    called = (CodeSlot(quicksort.symbol(name)) for name in FUNCTIONS)
    emitted = EmittedKernel(
        keyed_phases(parts[0].name, schedule),
        2 * len(kernel.operands),
        parts[0].template.given(*numbers, schedule.part, schedule.parts, area, *called),
        scratch + schedule.part_chunks * PART_BYTES,
        order=_order(kernel),
    )
    return LibraryKernel(emitted, parts)


def match_merge_sort(request: Request) -> LibraryKernel:
    """Return how the library runs a sort by any comparator.

    Scratch has two areas for each row that is sorted at a time, of `length` elements each.
    """
    kernel = request.kernel_as(SortKernel)
    of = Compared(kernel.comparator, kernel.elements, request.target.has_fma)
    schedule = schedule_sort(kernel)
    code = list(merge_code(of, schedule))
    area = dim.round_up(kernel.length * of.bytes, LINE_BYTES)
    numbers = (kernel.length, kernel.inner, schedule.rows, schedule.grain)
    emitted = EmittedKernel(
        tuple(phase for _, phases in code for phase in phases),
        2 * len(kernel.operands),
        code[0][0].given(*numbers, schedule.part, schedule.parts, area),
        schedule.areas * area * 2,
        order=_order(kernel),
    )
    return LibraryKernel(emitted, tuple([library_part(request.target, each) for each, _ in code]))


def _order(kernel: SortKernel) -> tuple[int, ...]:
    """Return the buffers as env holds them: the operands, then the results."""
    first_result = len(kernel.buffers) - len(kernel.operands)
    return (*kernel.operands, *range(first_result, len(kernel.buffers)))


def common_sorts(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what sorts of f32 and s32 need, alone and with positions."""
    number = ex.argument(0, F32)
    keys = (ex.argument(0, S32), total_order(number), total_order(one_zero_one_nan(number)))
    for key in keys:
        element = S32 if key.op == "argument" else F32
        yield from _parts(target, KeyedVariant(key, False, (element,), RecordKind.KEY_32))
        yield from _parts(target, KeyedVariant(key, False, (element, S32), RecordKind.WORD))


def _parts(target: TargetSpec, variant: KeyedVariant) -> Iterator[LibraryPart]:
    """Load the code of a variant, then what it calls."""
    yield library_part(target, keyed_template(variant, target))
    yield library_part(target, Quicksort(record_type(variant)).template(target))
