# SPDX-License-Identifier: Apache-2.0
"""Calls of the Winograd driver (`cpu.emit.convolution.winograd`): its template and its phases."""

from __future__ import annotations

from ingot.analysis.library import VECTORS
from ingot.cpu.emit.contraction.microkernel import MicroKernel, on_panels, shared_along
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.convolution.winograd import taps, units
from ingot.cpu.emit.driver_records import Elements
from ingot.cpu.emit.drivers import DriverCall, DriverPart
from ingot.cpu.emit.kernel_abi import Phase
from ingot.cpu.emit.template import Template, template_of
from ingot.hlo.dtype import DType
from ingot.kernel.convolution.winograd import Winograd
from ingot.kernel.ir import PlainConvolution
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import SHORT
from ingot.native.functions import exported_for
from ingot.native.module import Translation


def micro_kernel(element: DType, lanes: int, rows: int) -> MicroKernel:
    """Return the micro-kernel of the planes' products."""
    common = shared_along(cell_type(element), lanes, rows, VECTORS, masked=False)
    return on_panels(common, VECTORS * lanes)


def winograd_template(element: DType, lanes: int) -> Template:
    """Return the driver of an element type: the functions `{name}_taps` and `{name}_units`."""
    name = f"winograd_{element.name}x{lanes}"
    of = Elements(cell_type(element), lanes)

    def define(module: ModuleBuilder) -> None:
        functions = [exported_for(f"{name}_{each.name}", each, of) for each in (taps, units)]
        Translation(module).add(*functions)

    return Template(name, define, Winograd.NAMES, SHORT)


def winograd_call(given: PlainConvolution, result: int | None, plan: Winograd) -> DriverCall:
    """Return how a convolution runs by Winograd's algorithm; `result`: see `DriverCall`."""
    code = winograd_template(plan.element, plan.lanes)
    micro = (template_of(micro_kernel(plan.element, plan.lanes, plan.value("rows"))),)
    return DriverCall(
        code,
        (Phase(f"{code.name}_taps", plan.taps_chunks), Phase(f"{code.name}_units", plan.chunks)),
        (given.lhs, given.rhs),
        result,
        (DriverPart(plan.parameters, micro),),
        plan.scratch_bytes,
        plan.value("n_block"),
    )
