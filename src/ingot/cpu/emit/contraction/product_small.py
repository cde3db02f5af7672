# SPDX-License-Identifier: Apache-2.0
"""Drivers of many products of small matrices, each of which one register block holds.

`void product(ptr env, i64 chunk)` goes from matrix to matrix: nothing is called or divided for one.
The general driver takes 1.04 (16x16) to 9.7 times (2x2) as long (AVX2, one thread, 2026-11-28).

Invariant: as in `product`.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.microkernel import Block, shared
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.drivers import open_driver
from ingot.cpu.emit.kernel_abi import units_of_chunk
from ingot.kernel.contraction.product_variant import PARAMETERS, ProductVariant
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.values import Value
from ingot.support.records import replace


def emit_small_driver(module: ModuleBuilder, symbol: str, variant: ProductVariant) -> None:
    """Emit the driver of a variant of products of small matrices."""
    f, env = open_driver(module, symbol, PARAMETERS, 0)
    given, cell = env.given, cell_type(variant.element)
    first, last = units_of_chunk(f, env.chunk, given["grain"], given["units"])
    common = shared(cell, variant.lanes, variant.rows, variant.vectors, masked=variant.has_rest)
    a_step = 1 if variant.is_dense else None
    spec = replace(common, a_step=a_step, accumulates=False, rows_ahead=0)
    steps = [given[name] for name in ("lhs_batch", "rhs_batch", "out_batch")]
    starts = [
        f.gep(start, f.mul(first, step), cell)
        for start, step in zip((env.lhs, env.rhs, env.result), steps, strict=True)
    ]
    strides = {
        "a_row": given["lhs_row"],
        "a_step": given["lhs_step"],
        "b_step": given["rhs_step"],
        "c_row": given["out_row"],
    }

    def matrix(_: Value, matrices: list[Value]) -> list[Value]:
        a, b, c = matrices
        depth = variant.depth or given["k"]
        Block(spec, f, (a, b, c), (depth, f.const(lt.I1, 0), given["n"]), strides).emit()
        return [f.gep(one, step, cell) for one, step in zip(matrices, steps, strict=True)]

    f.loop(first, last, 1, starts, matrix)
    f.ret()
