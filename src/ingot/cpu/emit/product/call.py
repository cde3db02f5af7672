# SPDX-License-Identifier: Apache-2.0
"""Which driver of the library runs a product, and with what.

Invariant: a driver's code depends on the variant of its products alone.
"""

from __future__ import annotations

from ingot.cpu.emit.driver_records import driver_template
from ingot.cpu.emit.drivers import DriverCall, DriverPart
from ingot.cpu.emit.kernel_abi import Phase
from ingot.cpu.emit.product.parts import Products, micro_kernel
from ingot.cpu.emit.template import Template, template_of
from ingot.kernel.product.product import Product
from ingot.kernel.product.variant import ProductVariant
from ingot.support.lazy import value_at_home


def product_template(variant: ProductVariant) -> Template:
    """Return the driver of a variant: the function `{name}_units`, and one that packs ahead."""
    module = "small_matrices" if variant.rows else "driver"
    table = "FUNCTIONS_AHEAD" if variant.ahead else "FUNCTIONS"
    functions = value_at_home(f"ingot.cpu.emit.product.{module}", table)
    return driver_template(f"product_{variant.name}", Product.NAMES, Products(variant), functions)


def product_call(plan: Product) -> DriverCall:
    """Return how a driver runs a plain product."""
    code = product_template(plan.variant)
    phases = [Phase(f"{code.name}_units", plan.blocks.chunks)]
    if plan.variant.ahead:
        phases.insert(0, Phase(f"{code.name}_packing", plan.blocks.pack_chunks))
    micro = tuple(template_of(micro_kernel(plan.variant, block)) for block in plan.micro_blocks)
    return DriverCall(
        code,
        tuple(phases),
        plan.operands,
        plan.result,
        (DriverPart(plan.parameters, micro),),
        plan.blocks.scratch_bytes,
        plan.value("group_columns") if plan.variant.is_rhs_ahead else plan.value("n_block"),
        plan.first,
    )
