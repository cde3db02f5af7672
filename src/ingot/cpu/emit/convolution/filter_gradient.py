# SPDX-License-Identifier: Apache-2.0
"""The driver of filter gradients: `void units(ptr env, i64 chunk)`, one unit for each chunk.

Constants of a contraction kernel are parameters here
(`kernel.convolution.filter_gradient.PARAMETERS`), so one function serves every size. Sums are added
up in the result, or in a tile of the scratch that an epilogue reads at the end.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from functools import lru_cache

from ingot.analysis.library import VECTORS
from ingot.cpu.emit.contraction.microkernel import (
    MOST_SHARED,
    MicroKernel,
    on_panels,
    shared_across,
)
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.convolution.direct_operands import DirectEmitter, PanelPacker, RowCopier
from ingot.cpu.emit.drivers import DriverCall, DriverEnv, DriverPart, open_driver
from ingot.cpu.emit.kernel_abi import Phase
from ingot.cpu.emit.template import Template, template_of
from ingot.hlo.dtype import DType
from ingot.kernel.convolution.filter_gradient import MAX_LINES, PARAMETERS, FilterGradient
from ingot.kernel.ir import PlainConvolution
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.values import Value
from ingot.support.records import record, replace

LOW, TALL, LOW_REST, TALL_REST = range(4)
MICRO_KERNELS = 4
"""Micro-kernels in env; `rest`: columns behind the whole panels."""


@lru_cache(maxsize=MOST_SHARED)
def micro_kernel(element: DType, lanes: int, rows: int, rest: int = 0) -> MicroKernel:
    """Return the micro-kernel of a block of channels; `rest` columns of the panel, 0: all."""
    vectors, masked = -(-rest // lanes) or VECTORS, rest % lanes > 0
    common = shared_across(cell_type(element), lanes, rows, vectors, masked=masked)
    return on_panels(replace(common, is_segmented=True), VECTORS * lanes)


def filter_gradient_template(element: DType, lanes: int) -> Template:
    """Return the driver of an element type: the function `{name}_units`."""
    name = f"filter_gradient_{element.name}x{lanes}"

    def define(module: ModuleBuilder) -> None:
        f, env = open_driver(module, f"{name}_units", PARAMETERS, MICRO_KERNELS)
        _Unit(f, element, (VECTORS, lanes), env).emit()
        f.ret()

    return Template(name, define, PARAMETERS)


def filter_gradient_call(
    given: PlainConvolution, result: int | None, plan: FilterGradient
) -> DriverCall:
    """Return how a filter's gradient is summed; `result`: see `DriverCall`."""
    code = filter_gradient_template(plan.element, plan.lanes)
    micro = tuple(
        template_of(micro_kernel(plan.element, plan.lanes, rows, rest))
        for rest in (0, plan.rest)
        for rows in plan.heights
    )
    return DriverCall(
        code,
        (Phase(f"{code.name}_units", plan.chunks),),
        (given.lhs, given.rhs),
        result,
        (DriverPart(plan.parameters, micro),),
        plan.scratch_bytes,
        VECTORS * plan.lanes,
    )


@record
class _Group:
    """A group of the gradient: its first image, plane and line, its lines and images.

    Attributes:
        is_first: whether no sums are there before it.
    """

    image: Value
    plane: Value
    line: Value
    lines: Value
    images: Value
    is_first: Value


class _Unit(DirectEmitter):
    """Emits the unit of a chunk."""

    def __init__(
        self, f: FunctionBuilder, element: DType, panel: tuple[int, int], env: DriverEnv
    ) -> None:
        super().__init__(f, element, panel, env)
        given = env.given
        number, channel_unit = self.divide(env.chunk, given["channel_units"])
        self.first = f.mul(channel_unit, given["unit_blocks"])
        after = f.imin(f.iadd(self.first, given["unit_blocks"]), given["row_blocks"])
        self.after = f.as_value(after)
        self.channel = self.first_row(self.first)
        self.count = f.sub(self.first_row(self.after), self.channel)
        self.feature = f.as_value(f.imul(number, self.columns))
        self.left = f.sub(given["features"], self.feature)
        own = replace(env, given={**given, "copied": self.count})
        self.packer = PanelPacker(f, element, panel, own)
        self.copier = RowCopier(f, element, panel, own)
        self.signature = [type_ for _, type_ in micro_kernel(element, panel[1], 1).params]
        self.tile = self.at(env.scratch, (env.chunk, given["chunk_elements"]))
        self.copy = f.gep(self.tile, given["tile_elements"], self.cell)
        self.rows = f.gep(self.copy, given["copy_elements"], self.cell)
        self.table = f.alloca(lt.I64, MAX_LINES, 64)

    def emit(self) -> None:
        """Emit the unit: group by group, then the epilogue."""
        f, given = self.f, self.given

        def plane(image: Value, number: Value) -> None:
            f.for_range(
                given["gradient_1"],
                lambda line: self._group(self._at(image, number, line)),
                step=given["unit_lines"],
                at_least_once=True,
            )

        def images(image: Value) -> None:
            f.for_range(
                given["gradient_0"], lambda number: plane(image, number), at_least_once=True
            )

        f.if_(f.icmp("eq", given["images"], f.const(lt.I64, 0)), self._clear)
        f.for_range(given["images"], images, step=given["unit_images"])
        self._finish()

    def _at(self, image: Value, plane: Value, line: Value) -> _Group:
        f, given = self.f, self.given
        lines = f.imin(f.sub(given["gradient_1"], line), given["unit_lines"])
        count = f.imin(f.sub(given["images"], image), given["unit_images"])
        begun = f.or_(f.or_(image, plane), line)
        is_first = f.icmp("eq", begun, f.const(lt.I64, 0))
        return _Group(image, plane, line, f.as_value(lines), f.as_value(count), is_first)

    # ---- operands

    def _group(self, group: _Group) -> None:
        """Emit a group: its operands made ready, then the products of all taps."""
        f, given = self.f, self.given
        f.for_range(
            group.images, lambda number: self._copy_image(group, number), at_least_once=True
        )
        line = f.mul(f.add(f.mul(group.image, given["gradient_0"]), group.plane), self._lines)
        line = f.add(line, group.line)
        position = f.mul(line, given["gradient_2"])
        start = f.gep(self.at(self.env.rhs, (position, given["features"])), self.feature, self.cell)
        depth = f.mul(f.mul(group.images, group.lines), given["gradient_2"])
        self.packer.pack(start, self.rows, depth, self.left)
        f.for_range(self._taps, lambda tap: self._tap(group, tap), at_least_once=True)

    @property
    def _taps(self) -> Value:
        f, given = self.f, self.given
        return f.mul(given["planes"], f.mul(given["result_1"], given["result_2"]))

    @property
    def _lines(self) -> Value:
        return self.given["gradient_1"]

    def _copy_image(self, group: _Group, number: Value) -> None:
        """Emit the copy of an image's rows, and where its lines begin."""
        f, given = self.f, self.given
        image = f.add(group.image, number)
        plane = f.mul(given["size_1"], f.mul(given["size_2"], given["channels"]))
        start = self.at(self.env.lhs, (image, f.mul(given["size_0"], plane)))
        start = f.gep(start, self.channel, self.cell)
        z = f.sub(f.mul(group.plane, given["plane_step"]), given["low_0"])
        y = f.sub(f.mul(group.line, given["stride_1"]), given["low_1"])
        to = f.mul(number, given["image_step"])
        copy = f.gep(self.copy, to, self.cell)
        lines = (f.const(lt.I64, 0), group.lines)
        self.copier.planes(copy, start, (z, y), lines, given["copied"])
        entries = f.gep(self.table, f.mul(number, group.lines), lt.I64)

        def entry(line: Value) -> None:
            offset = f.add(to, f.mul(line, given["line_step"]))
            f.store(offset, f.gep(entries, line, lt.I64), 8)

        f.for_range(group.lines, entry, at_least_once=True)

    # ---- products

    def _tap(self, group: _Group, tap: Value) -> None:
        """Emit the products of a tap, block by block of channels."""
        f, given, env = self.f, self.given, self.env
        rest, tap_2 = self.divide(tap, given["result_2"])
        tap_0, tap_1 = self.divide(rest, given["result_1"])
        start = self.at(
            self.copy, (tap_0, given["tap_0"]), (tap_1, given["tap_1"]), (tap_2, given["tap_2"])
        )
        sums, step = self._sums(tap)
        is_whole = f.icmp("sge", self.left, f.const(lt.I64, self.columns))
        low, tall = (
            f.select(is_whole, env.micro_kernels[whole], env.micro_kernels[rest])
            for whole, rest in ((LOW, LOW_REST), (TALL, TALL_REST))
        )
        accumulate = f.not_(group.is_first)
        segments = f.mul(group.images, group.lines)

        def block(number: Value) -> None:
            channel = f.sub(self.first_row(number), self.channel)
            args = [
                f.gep(start, channel, self.cell),
                self.rows,
                self.at(sums, (channel, step)),
                given["gradient_2"],
                accumulate,
                self.left,
                given["row_step"],
                step,
                self.table,
                segments,
            ]
            run = f.select(f.icmp("slt", number, given["tall_blocks"]), tall, low)
            f.call_indirect(run, lt.VOID, self.signature, args)

        f.for_range(self.after, block, start=self.first, at_least_once=True)

    def _sums(self, tap: Value) -> tuple[Value, Value]:
        """Return where a tap's sums begin, and their step from channel to channel."""
        f, given, env = self.f, self.given, self.env
        is_plain = env.is_plain(f)
        row = self._row(tap)
        direct = f.gep(self.at(env.result, (row, given["features"])), self.feature, self.cell)
        columns = f.const(lt.I64, self.columns)
        tile = self.at(self.tile, (f.mul(tap, self.count), columns))
        return f.select(is_plain, direct, tile), f.select(is_plain, given["features"], columns)

    def _clear(self) -> None:
        """Emit sums of no images."""
        f = self.f
        columns = self.bytes(f.as_value(f.imin(self.left, self.columns)))

        def tap(number: Value) -> None:
            sums, step = self._sums(number)

            def channel(number: Value) -> None:
                f.memset(self.at(sums, (number, step)), 0, columns)

            f.for_range(self.count, channel, at_least_once=True)

        f.for_range(self._taps, tap, at_least_once=True)

    def _row(self, tap: Value) -> Value:
        """Return the first row of a tap's results."""
        return self.f.add(self.f.mul(tap, self.given["channels"]), self.channel)

    def _finish(self) -> None:
        """Emit the epilogue, tap by tap."""
        f = self.f
        zero, one = f.const(lt.I64, 0), f.const(lt.I64, 1)
        columns = f.as_value(f.imin(self.left, self.columns))

        def tap(number: Value) -> None:
            sums = self.at(self.tile, (f.mul(number, self.count), self.columns))
            block = [zero, self._row(number), self.count, one, self.feature, columns]
            self.env.finish(f, sums, block)

        f.for_range(self._taps, tap, at_least_once=True)
