# SPDX-License-Identifier: Apache-2.0
"""Strategies of plain convolutions: drivers of the library, of every size.

Each asks `kernel` whether a driver takes a kernel, and makes the driver's call. Invariant: sizes
are numbers in env; the code depends on element type and lanes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ingot.analysis.library import VECTORS
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
from ingot.cpu.emit.template import template_of
from ingot.cpu.library.parts import LibraryPart, library_part
from ingot.cpu.strategies.plans import Driven, driven
from ingot.cpu.strategies.request import Request
from ingot.hlo.dtype import F32
from ingot.kernel.contraction.micro_blocks import BlockMaker, heights_of
from ingot.kernel.contraction.operands import cell_bits
from ingot.kernel.convolution.direct import direct_convolution, side_by_side
from ingot.kernel.convolution.direct_parts import tap_rows
from ingot.kernel.convolution.filter_gradient import filter_gradient as filter_gradient_of
from ingot.kernel.convolution.plain import result_of_sums
from ingot.kernel.convolution.winograd import winograd
from ingot.kernel.ir import ConvolutionKernel, PlainConvolution
from ingot.kernel.verifier import verify_kernel
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.support.records import replace

_Plan = TypeVar("_Plan")


def match_filter_gradient(request: Request) -> Driven | str:
    """Return how the library runs the gradient of a filter."""
    kernel = request.kernel_as(ConvolutionKernel)
    return _convolved(request, kernel, filter_gradient_of, filter_gradient_call)


def match_winograd(request: Request) -> Driven | str:
    """Return how the library runs a convolution by Winograd's algorithm."""
    return _convolved(request, request.kernel_as(ConvolutionKernel), winograd, winograd_call)


def match_direct(request: Request) -> Driven | str:
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
) -> Driven | str:
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
    return driven(kernel, request.target, call)


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
