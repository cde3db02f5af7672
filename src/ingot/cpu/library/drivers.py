# SPDX-License-Identifier: Apache-2.0
"""Plain products and convolutions in library code: drivers and micro-kernels of every size.

Makes kernels of `cpu.emit.drivers.DriverCall`. Invariant: sizes are numbers in env, the code
depends on element type, lanes and placements alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ingot.cpu.emit.contraction.microkernel import shared
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.contraction.product_call import ProductCode
from ingot.cpu.emit.contraction.product_parts import micro_kernel
from ingot.cpu.emit.convolution import direct as direct_convolution
from ingot.cpu.emit.convolution import filter_gradient
from ingot.cpu.emit.convolution.direct import DirectCode
from ingot.cpu.emit.convolution.filter_gradient import FilterGradientCode
from ingot.cpu.emit.convolution.winograd import WinogradCode
from ingot.cpu.emit.driver_calls import driver_call
from ingot.cpu.emit.kernel_abi import SharedCode
from ingot.cpu.library.parts import LibraryKernel, Shared, shared_part
from ingot.cpu.vectors import vectors_of
from ingot.hlo.dtype import F32
from ingot.kernel.contraction.product import heights_of
from ingot.kernel.contraction.product_form import Form, Placement
from ingot.kernel.contraction.register_block import VECTORS
from ingot.kernel.contraction.schedule import cell_bits
from ingot.kernel.ir import ContractionKernel, LoopKernel
from ingot.llvm.target import TargetSpec

PLACEMENTS: tuple[Placement, ...] = ("direct", "packed", "transposed")
AHEAD: tuple[Placement, ...] = ("packed", "transposed")
DENSE = (True, False)


def shared_code(target: TargetSpec, code: SharedCode) -> Shared:
    """Return a driver's or micro-kernel's code."""
    return shared_part(target, code.name, lambda module: code.define(module, linkage=""))


def driver_kernel(
    target: TargetSpec, kernel: ContractionKernel | LoopKernel
) -> LibraryKernel | None:
    """Return how the library runs a plain product or convolution whose sums are its result."""
    call = driver_call(kernel, vectors_of(target))
    if call is None or call.result is None:
        return None
    parts = tuple(shared_code(target, item) for item in dict.fromkeys(call.needed))
    return LibraryKernel(call.without_epilogue(), parts)


def common_products(target: TargetSpec) -> Iterator[Shared]:
    """Load what f32 products need."""
    vectors = vectors_of(target)
    lanes = vectors.lanes(cell_bits(F32), 1)
    for is_dense, placement in product(DENSE, PLACEMENTS):
        yield shared_code(target, ProductCode(Form(F32, lanes, placement, is_dense)))
    for placement in AHEAD:
        form = Form(F32, lanes, placement, is_dense=True, ahead=True)
        yield shared_code(target, ProductCode(form))
    # Columns that are left over behind whole blocks have blocks of fewer vectors.
    widths = [count * lanes - less for count in range(1, VECTORS + 1) for less in (0, 1)]
    for is_dense, rows, columns in product(DENSE, heights_of(vectors), widths):
        form = Form(F32, lanes, "direct", is_dense)
        yield shared_code(target, micro_kernel(form, rows, columns))
    cell = cell_type(F32)
    for rows, masked in product(heights_of(vectors), (False, True)):
        across = shared(cell, lanes, rows, VECTORS, masked=masked, a_step=None, a_row=1)
        yield shared_code(target, across)


def common_convolutions(target: TargetSpec) -> Iterator[Shared]:
    """Load what f32 convolutions need."""
    vectors = vectors_of(target)
    lanes = vectors.lanes(cell_bits(F32), 1)
    yield shared_code(target, WinogradCode(F32, lanes))
    panel = (VECTORS, lanes)
    yield shared_code(target, DirectCode(F32, panel))
    yield shared_code(target, FilterGradientCode(F32, lanes))
    for rows in heights_of(vectors):
        yield shared_code(target, filter_gradient.micro_kernel(F32, lanes, rows, masked=False))
    for rows, is_depthwise in product(heights_of(vectors), (False, True)):
        yield shared_code(
            target,
            direct_convolution.micro_kernel(
                F32, panel, rows, masked=False, is_depthwise=is_depthwise
            ),
        )
