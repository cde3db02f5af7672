# SPDX-License-Identifier: Apache-2.0
"""Micro-kernels of tiles: up to two by two tiles of sums, in the registers of AMX.

A driver gives the tiles the shape of a register block (`shape_tiles`), then calls the micro-kernel
of as many tiles (`TileKernel`). Tiles 0 and 1 are the block's upper sums, 2 and 3 its lower ones; 4
and 5 hold rows of A, 6 and 7 words of B. The last tile of a row or column may be smaller; a step
along k is always of 16 words. `kernel.product.tiles` decides which products run so.

Invariant: whoever has shaped tiles releases them (`release_tiles`) before it returns.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.block_function import stride_params
from ingot.kernel.product.tiles import SIDE
from ingot.kernel.product.variant import WORD_BYTES
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, FunctionRef, ModuleBuilder
from ingot.llvm.types import Type
from ingot.llvm.values import Value
from ingot.native.functions import Vectors, inlined
from ingot.native.pointers import Struct
from ingot.native.types import i64
from ingot.support.records import record

PALETTE = 1
"""The number of the set of shapes that all CPUs with AMX have: eight tiles of 1 KB."""

ROWS_OF_A, COLUMNS_OF_B = (4, 5), (6, 7)
"""The tiles of A and of B."""

ROW_BYTES = SIDE * WORD_BYTES


@record
class TileKernel:
    """C[rows, columns] (+)= A[rows, k] * B[k, columns] in tiles of words.

    Attributes:
        sums: type of the sums, F32 or I32.
        signs: whether bytes of A and of B are signed.
        rows, columns: tiles of a block.
        b_row: step from row to row of B, in words.
    """

    sums: Type
    signs: tuple[bool, bool]
    rows: int
    columns: int
    b_row: int
    is_shared: bool = True

    @property
    def product(self) -> str:
        """The instruction that multiplies two tiles."""
        if self.sums.is_float:
            return "tdpbf16ps"
        return f"tdpb{''.join('s' if is_signed else 'u' for is_signed in self.signs)}d"

    @property
    def name(self) -> str:
        """A name that says all of it: equal names, equal code."""
        return f"shared_tiles_{self.product}_{self.rows}x{self.columns}_{self.b_row}"

    @property
    def strides(self) -> dict[str, int | None]:
        """Its strides by name, in words; None: a parameter."""
        return {"a_row": None, "b_row": self.b_row, "c_row": None}

    @property
    def params(self) -> list[tuple[str, Type]]:
        """The parameters of any other micro-kernel; the depth counts words."""
        params: list[tuple[str, Type]] = [("a", lt.PTR), ("b", lt.PTR), ("c", lt.PTR)]
        params += [("depth", lt.I64), ("accumulate", lt.I1), ("columns", lt.I64)]
        return params + stride_params(self)

    def define(self, module: ModuleBuilder, linkage: str = "internal") -> FunctionRef:
        """Define the function in a module."""
        f = module.function(
            self.name, lt.VOID, self.params, linkage=linkage, attrs="nounwind noinline"
        )
        _Tiles(self, f).emit()
        f.ret()
        return f.reference


class _Tiles:
    """Emits a micro-kernel.

    Attributes:
        sums: number of each tile of sums, with the rows and columns of the tiles before it.
        operands: the tiles of A and of B, as they are first used.
    """

    def __init__(self, spec: TileKernel, f: FunctionBuilder) -> None:
        self.spec, self.f = spec, f
        self.a, self.b, self.c, self.depth, self.goes_on = f.params[:5]
        self.a_step, self.c_step = (self._bytes(step) for step in f.params[6:])
        self.b_step = f.const(lt.I64, spec.b_row * WORD_BYTES)
        self.sums = [
            (2 * row + column, row, column)
            for row in range(spec.rows)
            for column in range(spec.columns)
        ]
        used = [
            tile for _, row, column in self.sums for tile in (ROWS_OF_A[row], COLUMNS_OF_B[column])
        ]
        self.operands = list(dict.fromkeys(used))

    def emit(self) -> None:
        """Emit the products, and load and store the sums."""
        f = self.f
        f.if_(self.goes_on, lambda: self._each_sum("tileload"), self._zeros)
        steps = f.as_value(f.iceildiv(self.depth, SIDE))
        b_bytes = f.imul(self.b_step, SIDE)
        for operand in self.operands:
            self._load(operand, self.a, self.b)

        def step(_: Value, carried: list[Value]) -> list[Value]:
            a, b = carried
            following = [f.gep(a, ROW_BYTES), f.gep(b, b_bytes)]
            self._multiply(following)
            return following

        f.loop(1, steps, 1, [self.a, self.b], step)
        self._multiply([])
        self._each_sum("tilestore")

    def _multiply(self, following: list[Value]) -> None:
        """Emit the products of a step along k.

        Each tile of A and B is loaded from the next step as soon as its last product has begun:
        `following` are the addresses of A and B there, or nothing. The CPU does not rename tiles.
        """
        f, spec = self.f, self.spec
        for number, row, column in self.sums:
            tiles = [
                f.const(lt.I8, tile) for tile in (number, ROWS_OF_A[row], COLUMNS_OF_B[column])
            ]
            f.intrinsic(f"llvm.x86.{spec.product}", lt.VOID, tiles)
            if following and column + 1 == spec.columns:
                self._load(ROWS_OF_A[row], *following)
            if following and row + 1 == spec.rows:
                self._load(COLUMNS_OF_B[column], *following)

    def _load(self, tile: int, a: Value, b: Value) -> None:
        """Emit the load of a tile of A or of B, from a step along k."""
        f = self.f
        if tile in ROWS_OF_A:
            row = ROWS_OF_A.index(tile)
            self._move("tileload", tile, f.gep(a, f.imul(self.a_step, row * SIDE)), self.a_step)
        else:
            column = COLUMNS_OF_B.index(tile)
            self._move("tileload", tile, f.gep(b, column * ROW_BYTES), self.b_step)

    def _zeros(self) -> None:
        for number, _, _ in self.sums:
            self.f.intrinsic("llvm.x86.tilezero", lt.VOID, [self.f.const(lt.I8, number)])

    def _each_sum(self, move: str) -> None:
        f = self.f
        for number, row, column in self.sums:
            line = f.gep(self.c, f.imul(self.c_step, row * SIDE))
            self._move(move, number, f.gep(line, column * ROW_BYTES), self.c_step)

    def _move(self, move: str, tile: int, at: Value, step: Value) -> None:
        """Emit the load or store of a tile whose rows lie `step` bytes apart."""
        f = self.f
        name = {"tileload": "tileloadd64", "tilestore": "tilestored64"}[move]
        f.intrinsic(f"llvm.x86.{name}", lt.VOID, [f.const(lt.I8, tile), at, step])

    def _bytes(self, words: Value) -> Value:
        return self.f.as_value(self.f.imul(words, WORD_BYTES))


class TileShapes(Struct):
    """The shapes of all tiles, as the CPU reads them: bytes of their rows, then their rows.

    `block` is the block that they were made for: 0, or its rows times 2^32 plus its columns.
    """

    palette: i64
    reserved: i64
    bytes_of_sums: i64
    bytes_of_operands: i64
    unused: i64
    more: i64
    rows: i64
    end: i64
    block: i64


@Vectors[[TileShapes], None]
def load_shapes(f: FunctionBuilder, shapes: Value) -> None:
    """Give the tiles these shapes; they hold zeros then."""
    f.intrinsic("llvm.x86.ldtilecfg", lt.VOID, [shapes])


@Vectors[[], None]
def release_tiles(f: FunctionBuilder) -> None:
    """Give the tiles up: they have no state any more that a thread's switch would save."""
    f.intrinsic("llvm.x86.tilerelease", lt.VOID, [])


@inlined
def no_shapes(shapes: TileShapes) -> None:
    """Begin with tiles of no shape."""
    shapes.palette = PALETTE
    shapes.reserved = 0
    shapes.unused = 0
    shapes.more = 0
    shapes.end = 0
    shapes.block = 0


@inlined
def shape_tiles(shapes: TileShapes, rows: i64, columns: i64) -> None:
    """Shape the tiles for a block of `rows` by `columns`, unless they have its shape."""
    block = (rows << 32) + columns
    if block != shapes.block:
        shapes.block = block
        upper = min(rows, SIDE)
        lower = max(rows - SIDE, 1)
        left = min(columns, SIDE) * WORD_BYTES
        right = max(columns - SIDE, 1) * WORD_BYTES
        both = left + (right << 16)
        shapes.bytes_of_sums = both + (both << 32)
        shapes.bytes_of_operands = ROW_BYTES + (ROW_BYTES << 16) + (both << 32)
        sums = upper + (upper << 8) + (lower << 16) + (lower << 24)
        shapes.rows = sums + (upper << 32) + (lower << 40) + (SIDE << 48) + (SIDE << 56)
        load_shapes(shapes)
