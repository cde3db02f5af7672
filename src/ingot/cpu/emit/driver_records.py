# SPDX-License-Identifier: Apache-2.0
"""The start of the env of drivers that are native functions, and their element types.

A driver's env (`cpu.emit.drivers`) is a struct: this start, then the driver's numbers, then the
addresses of its micro-kernels. The env of an epilogue follows it in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingot.analysis.library import VECTORS
from ingot.cpu.emit.template import Template
from ingot.kernel.driver_parameters import RowBlocks
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.optimization import SHORT
from ingot.llvm.types import Type, vector
from ingot.native.functions import exported_for, inlined
from ingot.native.module import Translation
from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import Known, i64
from ingot.support.records import record

Epilogue = Callable[[Pointer, Pointer, i64, i64, i64, i64, i64, i64], None]
"""Takes its env and rows of sums, then batch, row, rows, row step, column and columns."""

MicroKernelFunction = Callable[[Pointer, Pointer, Pointer, i64, bool, i64, i64, i64], None]
"""Takes A, B, C, the depth, whether sums go on, the columns, and the row steps of A and C."""

SegmentedKernel = Callable[
    [Pointer, Pointer, Pointer, i64, bool, i64, i64, i64, Array[i64], i64], None
]
"""Takes the same, then the table of segments and their number."""


class DriverStart(Struct, is_constant=True):
    """The start of a driver's env: the buffers, the scratch, and what becomes of the sums."""

    lhs: Pointer
    rhs: Pointer
    result: Pointer
    scratch: Pointer
    epilogue: Epilogue | None
    parts: i64


@inlined
def first_row(blocks: RowBlocks, block: i64) -> i64:
    """Return the first row of a row block."""
    return block * blocks.low_rows + min(block, blocks.tall_blocks)


@record
class Elements(Known):
    """The elements of a driver, and the panels that it packs.

    Attributes:
        type: an element's type.
        lanes: lanes of a vector.
        vectors: vectors of a row of a panel.
    """

    type: Type
    lanes: int
    vectors: int = VECTORS

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return self.type.bytes

    @property
    def columns(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def vector(self) -> Type:
        """The type of a vector."""
        return vector(self.type, self.lanes)


def driver_template(
    name: str,
    parameters: tuple[str, ...],
    of: Known,
    functions: Callable[[], Mapping[str, Callable[..., None]]],
) -> Template:
    """Return the code of a driver: each of its native functions, as `{name}_{function}`.

    Args:
        name: the template's name.
        parameters: see `Template`.
        of: the first argument of the functions; env and the number of a chunk follow.
        functions: returns the native functions by name. It is called where their code is not on
            disk, so that what defines them is imported there alone.
    """

    def define(module: ModuleBuilder) -> None:
        exported = [
            exported_for(f"{name}_{symbol}", function, of)
            for symbol, function in functions().items()
        ]
        Translation(module).add(*exported)

    return Template(name, define, parameters, SHORT)
