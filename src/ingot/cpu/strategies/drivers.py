# SPDX-License-Identifier: Apache-2.0
"""Strategies of plain products and convolutions: drivers of the library, of every size.

Each asks `kernel` whether a driver takes a kernel, and
makes the driver's call. If the sums are the result and operands begin with their buffers, nothing
is compiled; else a little code of the kernel's own is (`cpu.strategies.plans`). Invariant: sizes
are numbers in env; the code depends on element type, lanes and placements alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import TypeVar

from ingot.analysis.library import VECTORS
from ingot.cpu.emit.contraction.microkernel import shared
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.convolution.calls import (
    direct_call,
    direct_kernel,
    direct_template,
    filter_gradient_call,
    filter_gradient_template,
    gradient_kernel,
    winograd_call,
    winograd_template,
)
from ingot.cpu.emit.driver_records import Elements
from ingot.cpu.emit.drivers import DriverCall
from ingot.cpu.emit.product.call import product_call, product_template
from ingot.cpu.emit.product.parts import micro_kernel
from ingot.cpu.emit.template import template_of
from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part
from ingot.cpu.strategies.plans import CodePlan, driver_code
from ingot.cpu.strategies.request import Request
from ingot.hlo.dtype import F32
from ingot.kernel.contraction.micro_blocks import BlockMaker, heights_of
from ingot.kernel.contraction.operands import cell_bits
from ingot.kernel.convolution.direct import direct_convolution, side_by_side
from ingot.kernel.convolution.direct_parts import tap_rows
from ingot.kernel.convolution.filter_gradient import filter_gradient as filter_gradient_of
from ingot.kernel.convolution.plain import result_of_sums
from ingot.kernel.convolution.winograd import winograd
from ingot.kernel.ir import (
    ContractionKernel,
    ConvolutionKernel,
    Kernel,
    PlainConvolution,
    general_kernel,
)
from ingot.kernel.product.product import plain_product
from ingot.kernel.product.variant import Placement, ProductVariant
from ingot.kernel.verifier import verify_kernel
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.support.records import replace

_Plan = TypeVar("_Plan")

Driven = LibraryKernel | CodePlan | str
"""The plan of a kernel that a driver runs, or why it does not."""

PLACEMENTS: tuple[Placement, ...] = ("direct", "packed", "transposed")
AHEAD: tuple[Placement, ...] = ("packed", "transposed")
DENSE = (True, False)


def match_product(request: Request) -> Driven:
    """Return how the library runs a plain product."""
    kernel = request.kernel_as(ContractionKernel)
    found = plain_product(kernel, request.vectors)
    if isinstance(found, str):
        return found
    return _driven(kernel, request.target, product_call(found))


def match_filter_gradient(request: Request) -> Driven:
    """Return how the library runs the gradient of a filter."""
    kernel = request.kernel_as(ConvolutionKernel)
    return _convolved(request, kernel, filter_gradient_of, filter_gradient_call)


def match_winograd(request: Request) -> Driven:
    """Return how the library runs a convolution by Winograd's algorithm."""
    return _convolved(request, request.kernel_as(ConvolutionKernel), winograd, winograd_call)


def match_direct(request: Request) -> Driven:
    """Return how the library sums a convolution directly."""
    kernel = side_by_side(request.kernel_as(ConvolutionKernel), request.vectors)
    if request.context.debug:
        verify_kernel(kernel, "joined groups")
    return _convolved(request, kernel, direct_convolution, direct_call)


def _convolved(
    request: Request,
    kernel: ConvolutionKernel,
    plan_of: Callable[[ConvolutionKernel, Vectors], _Plan | str],
    call_of: Callable[[PlainConvolution, int | None, _Plan], DriverCall],
) -> Driven:
    """Return how a driver runs a convolution that `plan_of` plans for it, or why it does not.

    Args:
        request: says what it runs on.
        kernel: the convolution, as it is asked about or in another form.
        plan_of: returns the driver's plan, or why it has none.
        call_of: returns the driver's call.
    """
    found = plan_of(kernel, request.vectors)
    if isinstance(found, str):
        return found
    call = call_of(kernel.convolution, result_of_sums(kernel), found)
    return _driven(kernel, request.target, call)


def _driven(kernel: Kernel, target: TargetSpec, call: DriverCall) -> LibraryKernel | CodePlan:
    """Return the plan of a driver's call."""
    if call.needs_code:
        general = general_kernel(kernel)
        assert isinstance(general, ContractionKernel), "loop kernels have no code for a driver"
        return driver_code(general, target, call)
    parts = tuple(library_part(target, item) for item in dict.fromkeys(call.needed))
    return LibraryKernel(call.without_code(), parts)


def common_products(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what f32 products need."""
    vectors = Vectors.of(target)
    lanes = vectors.lanes(cell_bits(F32), 1)
    for is_dense, placement in product(DENSE, PLACEMENTS):
        yield library_part(
            target, product_template(ProductVariant(F32, lanes, placement, is_dense))
        )
    for placement in AHEAD:
        variant = ProductVariant(F32, lanes, placement, is_dense=True, ahead=True)
        yield library_part(target, product_template(variant))
    # Columns that are left over behind whole blocks have blocks of fewer vectors: the last of them
    # whole, or masked, or of half the lanes.
    lacking = (0, 1, lanes // 2)
    widths = [count * lanes - less for count in range(1, VECTORS + 1) for less in lacking]
    variants = [ProductVariant(F32, lanes, "direct", is_dense) for is_dense in DENSE]
    variants.append(ProductVariant(F32, lanes, "packed", is_dense=True))
    for variant, rows, columns in product(variants, heights_of(vectors), widths):
        yield library_part(target, template_of(micro_kernel(variant, variant.block(rows, columns))))
    for rows, masked in product(heights_of(vectors), (False, True)):
        block = BlockMaker(F32, lanes).block(rows, VECTORS * lanes)
        across = replace(shared(cell_type(F32), lanes, block, masked=masked), a_row=1)
        yield library_part(target, template_of(across))


def common_convolutions(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what f32 convolutions need."""
    vectors = Vectors.of(target)
    lanes = vectors.lanes(cell_bits(F32), 1)
    yield library_part(target, winograd_template(F32, lanes))
    of = Elements(cell_type(F32), lanes)
    yield library_part(target, direct_template(F32, (of.vectors, lanes)))
    yield library_part(target, filter_gradient_template(F32, (of.vectors, lanes)))
    panels = BlockMaker(F32, lanes, of.columns)
    for rows in heights_of(vectors):
        block = panels.block(rows, of.columns)
        yield library_part(target, template_of(gradient_kernel(of, block)))
        yield library_part(target, template_of(direct_kernel(of, block)))
    taps = 3
    most = tap_rows(taps, VECTORS, vectors)
    for rows in range(most // 2, most + 1):
        block = replace(panels.block(rows, of.columns), rows_ahead=0)
        yield library_part(target, template_of(direct_kernel(of, block, taps)))
