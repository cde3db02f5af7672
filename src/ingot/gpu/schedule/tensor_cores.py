# SPDX-License-Identifier: Apache-2.0
"""Which products run on tensor cores, and how their operands come into shared memory.

The products of tensor cores are exact in the type of the sum. They are added up in another order
than k's and, of 16-bit floats, as the hardware rounds, which is not always to the nearest. f32 has
none here: they would round operands to tf32.

An operand that is the plain load of a dense axis, whose rows begin at multiples of 16 bytes, is
copied in chunks; any other is computed element by element.
"""

from __future__ import annotations

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.contractions import inner_axis, largest_tile, tiled
from ingot.gpu.schedule.strategies import Feed, GpuSchedule, TensorCores
from ingot.gpu.schedule.sums import is_along
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import BF16, F16, F32, F64, S8, S32, DType
from ingot.kernel.expr import Expr, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, ContractionKernel, Kernel
from ingot.support.records import replace

SUMS: dict[DType, DType] = {BF16: F32, F16: F32, S8: S32, F64: F64}
"""Element types that tensor cores multiply, and what they add the products up in."""

SINCE = 80
"""The first compute capability that has all of them."""

DEPTH_BYTES = 64
"""Bytes along k that are in shared memory at a time."""

CHUNK_BYTES = 16
"""Bytes that a thread copies at a time."""


def match_tensor_cores(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return the schedule of a product on tensor cores, or why it has none."""
    if not isinstance(kernel, ContractionKernel):
        return "it is no contraction"
    kernel = replace(kernel, lhs=_narrow(kernel.lhs), rhs=_narrow(kernel.rhs))
    element = kernel.lhs.dtype
    if kernel.rhs.dtype is not element or SUMS.get(element) is not kernel.accumulate:
        return (
            f"tensor cores do not add products of {element} and {kernel.rhs.dtype} "
            f"up in {kernel.accumulate}"
        )
    if machine.capability < SINCE:
        return f"{machine.name} has no tensor cores for {element}"
    size = element.bits // 8
    # Larger tiles of f64 would need more registers for sums than a warp has.
    tile = largest_tile(kernel) if size < F64.bits // 8 else min(largest_tile(kernel), 64)
    lhs, rhs = _feed(kernel, is_lhs=True), _feed(kernel, is_lhs=False)
    return tiled(kernel, TensorCores(lhs, rhs, tile, DEPTH_BYTES // size), machine)


def _narrow(operand: Expr) -> Expr:
    """Return an operand without a conversion that loses nothing."""
    if operand.op != "convert":
        return operand
    (given,) = operand.args
    return given if SUMS.get(given.dtype) is operand.dtype else operand


def _feed(kernel: ContractionKernel, *, is_lhs: bool) -> Feed:
    operand = kernel.lhs if is_lhs else kernel.rhs
    along_k = is_along(operand, inner_axis(kernel, is_lhs=is_lhs).name)
    # Bytes cannot be transposed on the way from shared memory to registers.
    is_row = along_k or operand.dtype is S8
    dense = _dense_axis(kernel, is_lhs=is_lhs, along_k=is_row)
    return Feed(is_row, along_k, dense is not None and _has_chunks(operand, dense))


def _dense_axis(kernel: ContractionKernel, *, is_lhs: bool, along_k: bool) -> Axis | None:
    """Return the axis that rows of shared memory are along, if it is one axis in memory."""
    if along_k:
        return inner_axis(kernel, is_lhs=is_lhs)
    patches = kernel.patches
    if not is_lhs:
        return kernel.n
    if patches is None:
        return kernel.m
    return patches.m[-1] if patches.m else None


def _has_chunks(operand: Expr, dense: Axis) -> bool:
    """Whether 16 bytes of an operand along an axis lie together, at a multiple of 16 bytes."""
    if operand.op != "load":
        return False
    access = operand.payload
    count = CHUNK_BYTES * 8 // operand.dtype.bits
    masks = operand.args[: 1 if access.masked else 0]
    if len(operand.args) > len(masks):
        return False
    if not all(_is_same_in_chunks(mask, dense.name, count) for mask in masks):
        return False
    return dim.known_multiple_of(dense.extent, count) and _steps_by_one(
        access.index, dense.name, count
    )


def _steps_by_one(index: int | Dim, axis: str, count: int) -> bool:
    """Whether an index is the position on an axis plus a multiple of `count`."""
    rest = dim.substitute(index, {axis: 0})
    return coefficient(index, axis) == 1 and dim.known_multiple_of(rest, count)


def _is_same_in_chunks(mask: Expr, axis: str, count: int) -> bool:
    """Whether a mask has one value for all of `count` positions on an axis, from a multiple on."""
    for node in walk((mask,)):
        if axis not in node.axes or node.op in ("and", "or", "not", "index"):
            continue
        if node.op != "compare" or node.payload.direction not in ("GE", "LT"):
            return False
        left, right = node.args
        if left.op != "index" or right.op != "index" or left.args or right.args:
            return False
        limit: int | Dim = right.payload
        if axis in right.axes or not dim.known_multiple_of(limit, count):
            return False
        if not _steps_by_one(left.payload, axis, count):
            return False
    return True
