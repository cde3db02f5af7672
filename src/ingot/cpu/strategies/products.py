# SPDX-License-Identifier: Apache-2.0
"""The strategy of plain products: drivers of the library, of every size.

Invariant: sizes are numbers in env; the code depends on element type, lanes and placements alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ingot.analysis.library import VECTORS
from ingot.cpu.emit.contraction.microkernel import shared
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.product.call import product_call, product_template
from ingot.cpu.emit.product.parts import micro_kernel
from ingot.cpu.emit.template import template_of
from ingot.cpu.library.parts import LibraryPart, library_part
from ingot.cpu.strategies.plans import Driven, driven
from ingot.cpu.strategies.request import Request
from ingot.hlo.dtype import F32
from ingot.kernel.contraction.micro_blocks import BlockMaker, heights_of
from ingot.kernel.contraction.operands import cell_bits
from ingot.kernel.ir import ContractionKernel
from ingot.kernel.product.product import plain_product
from ingot.kernel.product.variant import Placement, ProductVariant
from ingot.kernel.product.ways import packs_first
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.support.records import replace

PLACEMENTS: tuple[Placement, ...] = ("direct", "packed", "transposed")
AHEAD: tuple[Placement, ...] = ("packed", "transposed")
DENSE = (True, False)


def match_product(request: Request) -> Driven | str:
    """Return how the library runs a plain product."""
    kernel = request.kernel_as(ContractionKernel)
    found = plain_product(kernel, request.vectors)
    if isinstance(found, str):
        return found
    return driven(kernel, request.target, product_call(found))


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
    if packs_first(vectors, "packed"):
        first = ProductVariant(F32, lanes, "packed", is_dense=True, packs_first=True)
        yield library_part(target, product_template(first))
        for rows, columns in product(heights_of(vectors), widths):
            block = first.block(rows, columns, packs=True)
            yield library_part(target, template_of(micro_kernel(first, block)))
    for rows, masked in product(heights_of(vectors), (False, True)):
        block = BlockMaker(F32, lanes).block(rows, VECTORS * lanes)
        across = replace(shared(cell_type(F32), lanes, block, masked=masked), a_row=1)
        yield library_part(target, template_of(across))
