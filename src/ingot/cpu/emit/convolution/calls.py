# SPDX-License-Identifier: Apache-2.0
"""Calls of the drivers of convolutions: their templates, their phases and their micro-kernels."""

from __future__ import annotations

from functools import lru_cache

from ingot.cpu.emit.contraction.microkernel import (
    MOST_SHARED,
    MicroKernel,
    on_panels,
    shared_across,
    shared_along,
)
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.convolution import direct, filter_gradient, winograd
from ingot.cpu.emit.driver_records import Elements, driver_template
from ingot.cpu.emit.drivers import DriverCall, DriverPart
from ingot.cpu.emit.kernel_abi import Phase
from ingot.cpu.emit.template import Template, template_of
from ingot.hlo.dtype import DType
from ingot.kernel.convolution.direct import Direct, DirectPart
from ingot.kernel.convolution.filter_gradient import FilterGradient
from ingot.kernel.convolution.winograd import Winograd
from ingot.kernel.ir import PlainConvolution
from ingot.support.records import replace

# ---- direct convolutions


@lru_cache(maxsize=MOST_SHARED)
def direct_kernel(of: Elements, rows: int, *, rest: int = 0, taps: int = 0) -> MicroKernel:
    """Return the micro-kernel of a convolution's row blocks.

    Args:
        of: type of operands and sums, and the panels.
        rows: rows of a block.
        rest: columns of the panel that exist; 0: all.
        taps: see `MicroKernel`; 0 unless the convolution is depthwise.
    """
    vectors, masked = -(-(rest or of.columns) // of.lanes), rest % of.lanes > 0
    common = shared_along(of.type, of.lanes, rows, vectors, masked=masked)
    panels = on_panels(replace(common, is_segmented=True), of.columns)
    # Depthwise taps are few.
    return replace(panels, taps=taps, rows_ahead=0) if taps else panels


def direct_template(element: DType, panel: tuple[int, int]) -> Template:
    """Return the driver of an element type and (vectors, lanes): `{name}_taps`, `{name}_units`."""
    vectors, lanes = panel
    of = Elements(cell_type(element), lanes, vectors)
    name = f"direct_{element.name}x{lanes}x{vectors}"
    return driver_template(name, DirectPart.NAMES, of, taps=direct.taps, units=direct.units)


def direct_call(given: PlainConvolution, result: int | None, plan: Direct) -> DriverCall:
    """Return how a convolution is summed directly; `result`: see `DriverCall`."""
    code = direct_template(plan.element, plan.panel)
    parts = tuple(DriverPart(part.parameters, _direct_kernels(plan, part)) for part in plan.parts)
    return DriverCall(
        code,
        (
            *([Phase(f"{code.name}_taps", plan.packing_chunks)] if plan.packing_chunks else []),
            Phase(f"{code.name}_units", plan.chunks),
        ),
        (given.lhs, given.rhs),
        result,
        parts,
        plan.scratch_bytes,
        plan.parts[0].value("n_block"),
    )


def _direct_kernels(plan: Direct, part: DirectPart) -> tuple[Template, ...]:
    """Return a part's micro-kernels, in the order of its env."""
    of = Elements(cell_type(plan.element), plan.panel[1], plan.panel[0])
    taps = part.value("segment") if plan.is_depthwise else 0
    return tuple(
        template_of(direct_kernel(of, rows, rest=rest, taps=taps))
        for rest in (0, plan.rest)
        for rows in part.heights
    )


# ---- gradients of filters


@lru_cache(maxsize=MOST_SHARED)
def gradient_kernel(of: Elements, rows: int, rest: int = 0) -> MicroKernel:
    """Return the micro-kernel of a block of channels; `rest` columns of the panel, 0: all."""
    vectors, masked = -(-rest // of.lanes) or of.vectors, rest % of.lanes > 0
    common = shared_across(of.type, of.lanes, rows, vectors, masked=masked)
    return on_panels(replace(common, is_segmented=True), of.columns)


def filter_gradient_template(element: DType, lanes: int) -> Template:
    """Return the driver of an element type: the function `{name}_units`."""
    of, name = Elements(cell_type(element), lanes), f"filter_gradient_{element.name}x{lanes}"
    return driver_template(name, FilterGradient.NAMES, of, units=filter_gradient.units)


def filter_gradient_call(
    given: PlainConvolution, result: int | None, plan: FilterGradient
) -> DriverCall:
    """Return how a filter's gradient is summed; `result`: see `DriverCall`."""
    code = filter_gradient_template(plan.element, plan.lanes)
    of = Elements(cell_type(plan.element), plan.lanes)
    micro = tuple(
        template_of(gradient_kernel(of, rows, rest))
        for rest in (0, plan.rest)
        for rows in plan.heights
    )
    return DriverCall(
        code,
        (Phase(f"{code.name}_units", plan.chunks),),
        (given.lhs, given.rhs),
        result,
        (DriverPart(plan.parameters, micro),),
        plan.scratch_bytes,
        of.columns,
    )


# ---- Winograd's algorithm


def winograd_template(element: DType, lanes: int) -> Template:
    """Return the driver of an element type: the functions `{name}_taps` and `{name}_units`."""
    of, name = Elements(cell_type(element), lanes), f"winograd_{element.name}x{lanes}"
    return driver_template(name, Winograd.NAMES, of, taps=winograd.taps, units=winograd.units)


def winograd_call(given: PlainConvolution, result: int | None, plan: Winograd) -> DriverCall:
    """Return how a convolution runs by Winograd's algorithm; `result`: see `DriverCall`."""
    code = winograd_template(plan.element, plan.lanes)
    of = Elements(cell_type(plan.element), plan.lanes)
    common = shared_along(of.type, of.lanes, plan.value("rows"), of.vectors, masked=False)
    micro = (template_of(on_panels(common, of.columns)),)
    return DriverCall(
        code,
        (Phase(f"{code.name}_taps", plan.taps_chunks), Phase(f"{code.name}_units", plan.chunks)),
        (given.lhs, given.rhs),
        result,
        (DriverPart(plan.parameters, micro),),
        plan.scratch_bytes,
        plan.value("n_block"),
    )
