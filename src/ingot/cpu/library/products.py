"""Plain products in library code: drivers and micro-kernels of every size.

Makes kernels of `kernel.product.Product`. Invariant: the numbers of a product are in its env, its
code depends on its form alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ingot.cpu.emit.kernel_abi import CodeSlot, EmittedKernel, Phase, SharedCode
from ingot.cpu.emit.microkernel import MicroKernel, shared
from ingot.cpu.emit.packing import cell_type
from ingot.cpu.emit.product import emit_product_driver, micro_kernel
from ingot.cpu.emit.product_ahead import PACKING, emit_driver_ahead
from ingot.cpu.library.parts import LibraryKernel, Shared, shared_part
from ingot.cpu.vectors import vectors_of
from ingot.hlo.dtype import F32
from ingot.kernel.contraction_schedule import cell_bits
from ingot.kernel.ir import ContractionKernel
from ingot.kernel.product import Form, Placement, Product, heights_of, plain_product
from ingot.kernel.register_block import VECTORS
from ingot.llvm.target import TargetSpec

PLACEMENTS: tuple[Placement, ...] = ("direct", "packed", "transposed")
AHEAD: tuple[Placement, ...] = ("packed", "transposed")
DENSE = (True, False)


def shared_micro_kernel(target: TargetSpec, kernel: SharedCode) -> Shared:
    """Return a micro-kernel's code."""
    return shared_part(target, kernel.name, lambda module: kernel.define(module, linkage=""))


def product_driver(target: TargetSpec, form: Form) -> Shared:
    """Return the code of the driver of a form of plain products."""
    name = f"product_{form.name}"
    emit = emit_driver_ahead if form.ahead else emit_product_driver
    return shared_part(target, name, lambda module: emit(module, name, form, target))


def product_kernel(target: TargetSpec, kernel: ContractionKernel) -> LibraryKernel | None:
    """Return how the library runs a contraction, if it is a plain product."""
    vectors = vectors_of(target)
    plain = plain_product(kernel, vectors)
    if plain is None:
        return None
    driver = product_driver(target, plain.form)
    needed = _micro_kernels(plain)
    packing = Phase(driver.name + PACKING, plain.blocks.pack_chunks)
    phases = (packing,) if plain.form.ahead else ()
    emitted = EmittedKernel(
        (*phases, Phase(driver.name, plain.blocks.chunks)),
        len(plain.buffers),
        (*plain.parameters, *(CodeSlot(item.name) for item in needed)),
        scratch_bytes=plain.blocks.scratch_bytes,
        order=plain.buffers,
    )
    parts = (shared_micro_kernel(target, item) for item in dict.fromkeys(needed))
    return LibraryKernel(emitted, (driver, *parts))


def _micro_kernels(plain: Product) -> tuple[MicroKernel, ...]:
    """Return the micro-kernels of a product, in the order of `emit.product.MICRO_KERNELS`."""
    return tuple(
        micro_kernel(plain.form, rows, masked=masked)
        for masked in (False, plain.has_rest)
        for rows in plain.heights
    )


def common_products(target: TargetSpec) -> Iterator[Shared]:
    """Load what f32 products need."""
    vectors = vectors_of(target)
    lanes = vectors.lanes(cell_bits(F32), 1)
    for is_dense, placement in product(DENSE, PLACEMENTS):
        yield product_driver(target, Form(F32, lanes, placement, is_dense))
    for placement in AHEAD:
        yield product_driver(target, Form(F32, lanes, placement, is_dense=True, ahead=True))
    for is_dense, rows, masked in product(DENSE, heights_of(vectors), (False, True)):
        form = Form(F32, lanes, "direct", is_dense)
        yield shared_micro_kernel(target, micro_kernel(form, rows, masked=masked))
    cell = cell_type(F32)
    for rows, masked in product(heights_of(vectors), (False, True)):
        across = shared(cell, lanes, rows, VECTORS, masked=masked, a_step=None, a_row=1)
        yield shared_micro_kernel(target, across)
