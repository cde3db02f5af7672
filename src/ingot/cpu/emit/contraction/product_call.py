# SPDX-License-Identifier: Apache-2.0
"""Which driver of the library runs a product, and with what.

Invariant: a driver's code depends on the variant of its products alone.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.product import emit_product_driver
from ingot.cpu.emit.contraction.product_ahead import PACKING, emit_driver_ahead
from ingot.cpu.emit.contraction.product_both import emit_driver_both
from ingot.cpu.emit.contraction.product_complex import emit_complex_driver
from ingot.cpu.emit.contraction.product_parts import micro_kernel
from ingot.cpu.emit.contraction.product_small import emit_small_driver
from ingot.cpu.emit.drivers import DriverCall, DriverPart
from ingot.cpu.emit.kernel_abi import Phase
from ingot.cpu.emit.template import Template, template_of
from ingot.kernel.contraction.product import Product
from ingot.kernel.contraction.product_variant import PARAMETERS, ProductVariant
from ingot.llvm.builder import ModuleBuilder


def product_template(variant: ProductVariant) -> Template:
    """Return the driver of a variant: the function `{name}`, and one that packs ahead."""
    name = f"product_{variant.name}"

    def define(module: ModuleBuilder) -> None:
        if variant.is_complex:
            emit_complex_driver(module, name, variant)
        elif variant.operands is not None and not variant.is_dots:
            emit_driver_both(module, name, variant)
        elif variant.rows:
            emit_small_driver(module, name, variant)
        elif variant.ahead:
            emit_driver_ahead(module, name, variant)
        else:
            emit_product_driver(module, name, variant)

    return Template(name, define, PARAMETERS)


def product_call(plan: Product) -> DriverCall:
    """Return how a driver runs a plain product."""
    code = product_template(plan.variant)
    packing = Phase(code.name + PACKING, plan.blocks.pack_chunks)
    micro = tuple(
        template_of(micro_kernel(plan.variant, rows, columns))
        for columns in (plan.variant.columns, plan.rest or plan.variant.columns)
        for rows in plan.heights
        if not plan.variant.rows
    )
    return DriverCall(
        code,
        (*([packing] if plan.variant.ahead else []), Phase(code.name, plan.blocks.chunks)),
        plan.operands,
        plan.result,
        (DriverPart(plan.parameters, micro),),
        plan.blocks.scratch_bytes,
        plan.value("n_block"),
        plan.first,
    )
