# SPDX-License-Identifier: Apache-2.0
"""Which driver of the library runs a product, and with what.

Invariant: a driver's code depends on the form of its products alone.
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
from ingot.kernel.contraction.product import Product
from ingot.kernel.contraction.product_form import Form
from ingot.llvm.builder import ModuleBuilder
from ingot.support.records import record


@record
class ProductCode:
    """The functions of a form of products: `{name}`, and one that packs where it packs ahead."""

    form: Form

    @property
    def name(self) -> str:
        """A name that says all of it."""
        return f"product_{self.form.name}"

    def define(self, module: ModuleBuilder, linkage: str = "") -> None:
        """Define the functions in a module of the library."""
        if self.form.is_complex:
            emit_complex_driver(module, self.name, self.form)
        elif self.form.operands is not None:
            emit_driver_both(module, self.name, self.form)
        elif self.form.rows:
            emit_small_driver(module, self.name, self.form)
        elif self.form.ahead:
            emit_driver_ahead(module, self.name, self.form)
        else:
            emit_product_driver(module, self.name, self.form)


def product_call(plan: Product) -> DriverCall:
    """Return how a driver runs a plain product."""
    code = ProductCode(plan.form)
    packing = Phase(code.name + PACKING, plan.blocks.pack_chunks)
    micro = tuple(
        micro_kernel(plan.form, rows, columns)
        for columns in (plan.form.columns, plan.rest or plan.form.columns)
        for rows in plan.heights
        if not plan.form.rows
    )
    return DriverCall(
        "product",
        code,
        (*([packing] if plan.form.ahead else []), Phase(code.name, plan.blocks.chunks)),
        plan.operands,
        plan.result,
        (DriverPart(plan.parameters, micro),),
        plan.blocks.scratch_bytes,
        plan.value("n_block"),
    )
