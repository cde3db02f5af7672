# SPDX-License-Identifier: Apache-2.0
"""Calls of the drivers of convolutions: their templates, their phases and their micro-kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.cpu.emit.contraction.microkernel import MicroKernel, on_panels, shared
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.driver_records import Elements, driver_template
from ingot.cpu.emit.drivers import DriverCall, DriverPart
from ingot.cpu.emit.kernel_abi import Phase
from ingot.cpu.emit.template import Template, template_of
from ingot.hlo.dtype import DType
from ingot.kernel.contraction.micro_blocks import MicroBlock
from ingot.kernel.convolution.direct import Direct, DirectPart
from ingot.kernel.convolution.filter_gradient import FilterGradient
from ingot.kernel.convolution.winograd import Winograd
from ingot.kernel.ir import PlainConvolution
from ingot.support.lazy import value_at_home
from ingot.support.records import replace


def _functions(module: str) -> Callable[[], Any]:
    """Return how the native functions of a module of this package are found."""
    return value_at_home(f"ingot.cpu.emit.convolution.{module}", "FUNCTIONS")


# ---- direct convolutions


def on_panel(of: Elements, block: MicroBlock) -> MicroKernel:
    """Return the micro-kernel of a block, whose rhs is packed in panels."""
    common = shared(of.type, of.lanes, block, masked=block.columns % of.lanes > 0)
    return on_panels(common, of.columns)


def direct_kernel(of: Elements, block: MicroBlock, taps: int = 0) -> MicroKernel:
    """Return the micro-kernel of a convolution's row blocks.

    Args:
        of: type of operands and sums, and the panels.
        block: the sums.
        taps: see `MicroKernel`; 0 unless the convolution is depthwise.
    """
    return replace(on_panel(of, block), a_step=1, is_segmented=True, taps=taps)


def direct_template(element: DType, panel: tuple[int, int]) -> Template:
    """Return the driver of an element type and (vectors, lanes): `{name}_taps`, `{name}_units`."""
    vectors, lanes = panel
    of = Elements(cell_type(element), lanes, vectors)
    name = f"direct_{element.name}x{lanes}x{vectors}"
    return driver_template(name, DirectPart.NAMES, of, _functions("direct"))


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
    return tuple(template_of(direct_kernel(of, one, taps)) for one in plan.micro_blocks(part))


# ---- gradients of filters


def gradient_kernel(of: Elements, block: MicroBlock) -> MicroKernel:
    """Return the micro-kernel of a block of channels."""
    return replace(on_panel(of, block), a_row=1, is_segmented=True)


def filter_gradient_template(element: DType, panel: tuple[int, int]) -> Template:
    """Return the driver of an element type and (vectors, lanes): the function `{name}_units`."""
    vectors, lanes = panel
    of = Elements(cell_type(element), lanes, vectors)
    name = f"filter_gradient_{element.name}x{lanes}x{vectors}"
    return driver_template(name, FilterGradient.NAMES, of, _functions("filter_gradient"))


def filter_gradient_call(
    given: PlainConvolution, result: int | None, plan: FilterGradient
) -> DriverCall:
    """Return how a filter's gradient is summed; `result`: see `DriverCall`."""
    code = filter_gradient_template(plan.element, plan.panel)
    of = Elements(cell_type(plan.element), plan.panel[1], plan.panel[0])
    micro = tuple(template_of(gradient_kernel(of, block)) for block in plan.micro_blocks)
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
    return driver_template(name, Winograd.NAMES, of, _functions("winograd"))


def winograd_call(given: PlainConvolution, result: int | None, plan: Winograd) -> DriverCall:
    """Return how a convolution runs by Winograd's algorithm; `result`: see `DriverCall`."""
    code = winograd_template(plan.element, plan.lanes)
    of = Elements(cell_type(plan.element), plan.lanes)
    micro = (template_of(replace(on_panel(of, plan.micro_block), a_step=1)),)
    return DriverCall(
        code,
        (Phase(f"{code.name}_taps", plan.taps_chunks), Phase(f"{code.name}_units", plan.chunks)),
        (given.lhs, given.rhs),
        result,
        (DriverPart(plan.parameters, micro),),
        plan.scratch_bytes,
        plan.value("n_block"),
    )
