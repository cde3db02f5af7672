# SPDX-License-Identifier: Apache-2.0
"""The driver of many products of small matrices, each of which one register block holds.

`units(env, chunk)` goes from matrix to matrix: nothing is called or divided for one. The general
driver takes 1.04 (16x16) to 9.7 times (2x2) as long (AVX2, one thread, 2026-11-28).

Invariant: as in `driver`.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.microkernel import Block, shared
from ingot.cpu.emit.driver_records import DriverStart
from ingot.cpu.emit.product.parts import Part, Products
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value
from ingot.native.functions import Vectors, native
from ingot.native.pointers import Pointer, Struct, sizeof
from ingot.native.types import i64
from ingot.support.records import replace


class Matrices(Struct):
    """The first elements of the operands and of the result of a product."""

    a: Pointer
    b: Pointer
    c: Pointer


@native
def small_units(of: Products, env: DriverStart, chunk: i64) -> None:
    """Multiply a chunk of matrices."""
    part = Part.at(env + sizeof(DriverStart))
    matrices = Matrices.on_stack()
    first = chunk * part.grain
    for number in range(first, min(first + part.grain, part.units)):
        matrices.a = env.lhs + number * part.lhs_batch * of.bytes
        matrices.b = env.rhs + number * part.rhs_batch * of.bytes
        matrices.c = env.result + number * part.out_batch * of.bytes
        multiply(of, part, matrices)


@Vectors[[Products, Part, Matrices], None]
def multiply(f: FunctionBuilder, of: Products, part: Value, matrices: Value) -> None:
    """Multiply two matrices."""
    variant = of.variant
    block = variant.block(variant.rows, variant.columns)
    common = shared(of.cell, variant.lanes, block, masked=variant.has_rest)
    spec = replace(common, a_step=1 if variant.is_dense else None, accumulates=False)

    def number(name: str) -> Value:
        return f.load(lt.I64, Part.c_layout.address(f, part, name), invariant=True)

    strides = {
        "a_row": number("lhs_row"),
        "a_step": number("lhs_step"),
        "b_step": number("rhs_step"),
        "c_row": number("out_row"),
    }
    a, b, c = (Matrices.c_layout.load(f, matrices, name) for name in Matrices.c_layout.names)
    depth = variant.depth or number("k")
    Block(spec, f, (a, b, c), (depth, f.const(lt.I1, 0), number("n")), strides).emit()


FUNCTIONS = {"units": small_units}
"""The functions of the driver."""
