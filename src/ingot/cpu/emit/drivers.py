# SPDX-License-Identifier: Apache-2.0
"""Calls of drivers: library code for products and convolutions, given its numbers and an epilogue.

The env of a driver holds, in this order: operands and result; scratch; the address of an epilogue,
0 if the sums are the result; the number of parts that the work is divided into; for each part its
parameters and the addresses of its micro-kernels; then an env for code of the kernel's own, with
its buffers and symbolic sizes. The host program fills env and calls the driver. Only the epilogue
is compiled for the kernel. Where an operand does not begin with its buffer, a phase before the
driver computes its address.

Invariant: sizes are in the parameters only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.contraction.epilogue import emit_epilogue
from ingot.cpu.emit.kernel_abi import CodeSlot, EmittedKernel, Phase, bind_env
from ingot.cpu.emit.template import Template
from ingot.emit.values.types import memory_type
from ingot.hlo.dim import Dim
from ingot.kernel.contraction.operands import oriented
from ingot.kernel.contraction.schedule import schedule_contraction
from ingot.kernel.expr import Expr
from ingot.kernel.ir import ContractionKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import Type
from ingot.llvm.values import Value
from ingot.support.records import record, replace

BUFFERS = 3
PARTS = BUFFERS + 2
"""Slot that holds the number of parts, behind the scratch and the epilogue."""

EPILOGUE = (lt.PTR, lt.PTR, *[lt.I64] * 6)
"""Types of an epilogue's parameters; see `emit_epilogue`."""


@record
class DriverEnv:
    """What a driver finds in its env.

    Attributes:
        lhs, rhs, result: the buffers.
        scratch: the scratch.
        chunk: number of the chunk in its part.
        given: the part's parameters by name.
        micro_kernels: addresses of the micro-kernels.
        epilogue: address of the epilogue, 0 if there is none.
        outer: the env that the epilogue takes.
    """

    lhs: Value
    rhs: Value
    result: Value
    scratch: Value
    chunk: Value
    given: dict[str, Value]
    micro_kernels: tuple[Value, ...]
    epilogue: Value
    outer: Value

    def is_plain(self, f: FunctionBuilder) -> Value:
        """Return whether the sums are the result."""
        return f.icmp("eq", self.epilogue, f.zero(lt.PTR))

    def finish(self, f: FunctionBuilder, sums: Value, block: Sequence[Value]) -> None:
        """Call the epilogue, if there is one, on rows of sums.

        `block`: batch, row, rows, row step, column and columns (`emit_epilogue`).
        """
        arguments = [self.outer, sums, *block]

        def run() -> None:
            f.call_indirect(self.epilogue, lt.VOID, list(EPILOGUE), arguments)

        f.if_(f.icmp("ne", self.epilogue, f.zero(lt.PTR)), run)


def open_driver(
    module: ModuleBuilder,
    symbol: str,
    parameters: tuple[str, ...],
    micro_kernels: int,
    first_chunk: str = "",
) -> tuple[FunctionBuilder, DriverEnv]:
    """Start a driver's function `void symbol(ptr env, i64 chunk)`.

    `first_chunk`: the parameter that says how many chunks the parts before have; without it there
    is one part.
    """
    f = module.function(symbol, lt.VOID, [("env", lt.PTR), ("chunk", lt.I64)], attrs="nounwind")
    env, chunk = f.params

    def slot(type_: Type, base: Value, number: int) -> Value:
        return f.load(type_, f.gep(base, number * SLOT_BYTES), 8, invariant=True)

    lhs, rhs, result, scratch, epilogue = (slot(lt.PTR, env, number) for number in range(PARTS))
    parts, block = slot(lt.I64, env, PARTS), f.gep(env, (PARTS + 1) * SLOT_BYTES)
    size = f.const(lt.I64, (len(parameters) + micro_kernels) * SLOT_BYTES)
    outer = f.gep(block, f.mul(parts, size))
    if first_chunk:
        number_of_first = parameters.index(first_chunk)

        def later(number: Value, values: list[Value]) -> list[Value]:
            following = f.gep(env_block, f.mul(number, size))
            is_there = f.icmp("sle", slot(lt.I64, following, number_of_first), chunk)
            return [f.select(is_there, following, values[0])]

        env_block = block
        (block,) = f.loop(1, parts, 1, [block], later)
        chunk = f.sub(chunk, slot(lt.I64, block, number_of_first))
    given = {name: slot(lt.I64, block, number) for number, name in enumerate(parameters)}
    micro = tuple(slot(lt.PTR, block, len(parameters) + number) for number in range(micro_kernels))
    return f, DriverEnv(lhs, rhs, result, scratch, chunk, given, micro, epilogue, outer)


class DriverEmitter:
    """The common part of driver emitters: env, and the values that all compute from it.

    Attributes:
        f: the function.
        env: what it finds in its env.
        given: the part's parameters by name.
        cell: type of the elements that `at` counts.
    """

    def __init__(self, f: FunctionBuilder, env: DriverEnv, cell: Type) -> None:
        """Emit into `f`, whose env is `env`."""
        self.f = f
        self.env = env
        self.given = env.given
        self.cell = cell

    def at(self, base: Value, *terms: tuple[Value, Value | int], cell: Type | None = None) -> Value:
        """Return the address of element sum(a * b) of `base`; `cell`: another type of elements."""
        f = self.f
        offset: Value | int = 0
        for a, b in terms:
            offset = f.iadd(offset, f.imul(a, b))
        return f.gep(base, offset, cell or self.cell)

    def first_row(self, block: Value) -> Value:
        """Return the first row of a row block: tall ones, of one row more, come before low ones."""
        f, given = self.f, self.given
        tall_before = f.as_value(f.imin(block, given["tall_blocks"]))
        return f.add(f.mul(block, given["low_rows"]), tall_before)


@record
class DriverPart:
    """What a driver is given for a part of its work.

    Attributes:
        parameters: values of the driver's parameters.
        micro_kernels: the micro-kernels in the order of its env.
    """

    parameters: tuple[int | Dim, ...]
    micro_kernels: tuple[Template, ...]


@record
class DriverCall:
    """How one product or convolution runs in a driver.

    Attributes:
        code: the driver.
        phases: its functions.
        operands: buffer numbers of lhs and rhs.
        result: buffer number of the result, None where an epilogue takes the sums.
        parts: what it is given for each part.
        scratch_bytes: bytes of scratch.
        n_block: columns of the rows that an epilogue reads.
        first: indices of the first elements of lhs and rhs in their buffers, None for 0.
    """

    code: Template
    phases: tuple[Phase, ...]
    operands: tuple[int, int]
    result: int | None
    parts: tuple[DriverPart, ...]
    scratch_bytes: int
    n_block: int
    first: tuple[Expr | None, Expr | None] = (None, None)

    @property
    def needed(self) -> tuple[Template, ...]:
        """What it needs of the library."""
        return (self.code, *(micro for part in self.parts for micro in part.micro_kernels))

    @property
    def needs_code(self) -> bool:
        """Whether the kernel needs code of its own."""
        return self.result is None or self.first != (None, None)

    def without_code(self) -> EmittedKernel:
        """Return how the host program calls a driver that needs no code of the kernel's own."""
        assert self.result is not None, "an epilogue takes the sums"
        return self._called(self.result, 0)

    def with_code(
        self, module: ModuleBuilder, symbol: str, kernel: ContractionKernel, target: TargetSpec
    ) -> EmittedKernel:
        """Emit the kernel's own code; return how all of it is called."""
        # The driver does not touch a result that an epilogue stores: an operand stands in for it.
        result, epilogue = self.operands[0] if self.result is None else self.result, 0
        if self.result is None:
            epilogue = CodeSlot(f"{symbol}_epilogue")
            self._emit_epilogue(module, epilogue.symbol, kernel, target)
        made = self._called(result, epilogue)
        own = {"behind": tuple(range(len(kernel.buffers))), "behind_symbols": kernel.symbols}
        made = replace(made, **own, templates=self.needed)
        if self.first == (None, None):
            return made
        addresses = Phase(f"{symbol}_addresses", 1)
        self._emit_addresses(module, addresses.symbol, kernel, made, target)
        return replace(made, phases=(addresses, *made.phases))

    def _emit_epilogue(
        self, module: ModuleBuilder, symbol: str, kernel: ContractionKernel, target: TargetSpec
    ) -> None:
        """Emit the epilogue that a kernel's sums go through."""
        vectors = Vectors.of(target)
        schedule = replace(schedule_contraction(kernel, vectors), n_block=self.n_block)
        kernel = oriented(kernel) if schedule.swapped else kernel
        emit_epilogue(module, symbol, kernel, schedule, target)

    def _emit_addresses(
        self,
        module: ModuleBuilder,
        symbol: str,
        kernel: ContractionKernel,
        made: EmittedKernel,
        target: TargetSpec,
    ) -> None:
        """Emit `void addresses(env, chunk)`, which stores where operands begin."""
        params = [("env", lt.PTR), ("chunk", lt.I64)]
        f = module.function(symbol, lt.VOID, params, attrs="nounwind", is_quick=True)
        env = f.params[0]
        held = f.at_entry(lambda: f.gep(env, made.first_behind * SLOT_BYTES))
        emitter = bind_env(f, held, len(kernel.buffers), kernel.symbols, target.has_fma)
        for slot, (number, first) in enumerate(zip(self.operands, self.first, strict=True)):
            if first is not None:
                memory = memory_type(kernel.buffers[number].dtype)
                address = f.gep(emitter.buffers[number], emitter.value(first), memory)
                f.store(address, f.gep(env, slot * SLOT_BYTES), 8)
        f.ret()

    def _called(self, result: int, epilogue: int | CodeSlot) -> EmittedKernel:
        blocks = (
            slot
            for part in self.parts
            for slot in (
                *self.code.given(*part.parameters),
                *(CodeSlot(item.name) for item in part.micro_kernels),
            )
        )
        return EmittedKernel(
            self.phases,
            BUFFERS,
            (epilogue, len(self.parts), *blocks),
            scratch_bytes=self.scratch_bytes,
            order=(*self.operands, result),
        )
