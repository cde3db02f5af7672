# SPDX-License-Identifier: Apache-2.0
"""The frame of a foreign call, as emitted adapters read it.

Operands and results have their data and the dimensions that the target knows, in any layout. Static
sizes are numbers and cost no instruction.
"""

from __future__ import annotations

from ingot.hlo.shape import Shape
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Index
from ingot.llvm.types import I64, PTR
from ingot.llvm.values import Value
from ingot.runtime.records import CALL_FRAME
from ingot.semantics.custom_calls import CallSite
from ingot.support.records import record


@record
class Argument:
    """One operand or result of the call, in emitted code: its bytes, shape and dimensions."""

    data: Value
    shape: Shape
    dims: tuple[Index, ...]

    def size(self, f: FunctionBuilder, first: int = 0) -> Index:
        """Emit the number of elements of the dimensions from `first` on."""
        total: Index = 1
        for size in self.dims[first:]:
            total = f.imul(total, size)
        return total

    def bytes(self, f: FunctionBuilder, first: int = 0) -> Index:
        """Emit the number of bytes of the dimensions from `first` on."""
        return f.imul(self.size(f, first), self.shape.dtype.bytes)


def read_frame(
    f: FunctionBuilder, frame: Value, call: CallSite
) -> tuple[Value, list[Argument], list[Argument]]:
    """Emit the loads of a frame; return the runtime, the operands and the results."""
    sides = (("operands", "operand_dims", call.operands), ("results", "result_dims", call.results))
    found: list[list[Argument]] = []
    for data, dims, shapes in sides:
        base, sizes = CALL_FRAME.load(f, frame, data), CALL_FRAME.load(f, frame, dims)
        found.append(
            [
                Argument(
                    f.load(PTR, f.gep(base, number, PTR)),
                    shape,
                    _dims(f, f.gep(sizes, number, PTR), shape),
                )
                for number, shape in enumerate(shapes)
            ]
        )
    return CALL_FRAME.load(f, frame, "runtime"), found[0], found[1]


def _dims(f: FunctionBuilder, slot: Value, shape: Shape) -> tuple[Index, ...]:
    return tuple(
        size if isinstance(size, int) else f.load(I64, f.gep(f.load(PTR, slot), dim, I64))
        for dim, size in enumerate(shape.dims)
    )
