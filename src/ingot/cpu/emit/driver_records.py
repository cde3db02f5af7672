# SPDX-License-Identifier: Apache-2.0
"""What drivers that are native functions know: the start of their env, and their elements.

A driver's env (`cpu.emit.drivers`) is a struct: this start, then the driver's numbers, then the
addresses of its micro-kernels. What follows it in memory is the env of an epilogue.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.analysis.library import VECTORS
from ingot.llvm.types import Type, vector
from ingot.native.pointers import Pointer, Struct
from ingot.native.types import Known, i64
from ingot.support.records import record

Epilogue = Callable[[Pointer, Pointer, i64, i64, i64, i64, i64, i64], None]
"""Takes its env and rows of sums, then batch, row, rows, row step, column and columns."""

MicroKernelFunction = Callable[[Pointer, Pointer, Pointer, i64, bool, i64, i64, i64], None]
"""Takes A, B, C, the depth, whether sums go on, the columns, and the row steps of A and C."""


class DriverStart(Struct, is_constant=True):
    """The start of a driver's env: the buffers, the scratch, and what becomes of the sums."""

    lhs: Pointer
    rhs: Pointer
    result: Pointer
    scratch: Pointer
    epilogue: Epilogue | None
    parts: i64


@record
class Elements(Known):
    """The elements of a driver: their type, and how many lanes a vector of them has."""

    type: Type
    lanes: int

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return self.type.bytes

    @property
    def columns(self) -> int:
        """Columns of a panel."""
        return VECTORS * self.lanes

    @property
    def vector(self) -> Type:
        """The type of a vector."""
        return vector(self.type, self.lanes)
