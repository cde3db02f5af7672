# SPDX-License-Identifier: Apache-2.0
"""Calls of drivers: library code for products and convolutions, given its numbers and an epilogue.

The env of a driver holds, in this order: operands and result; scratch; the address of an epilogue,
0 if the sums are the result; the number of parts that the work is divided into; for each part its
parameters and the addresses of its micro-kernels (`cpu.emit.driver_records`); then an env for code
of the kernel's own, with its buffers and symbolic sizes. The host program fills env and calls the
driver. Only the epilogue is compiled for the kernel. Where an operand does not begin with its
buffer, a phase before the driver computes its address.

Invariant: sizes are in the parameters only.
"""

from __future__ import annotations

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.contraction.epilogue import emit_epilogue
from ingot.cpu.emit.kernel_abi import CodeSlot, EmittedKernel, Phase, bind_env
from ingot.cpu.emit.template import Template
from ingot.emit.values.types import memory_type
from ingot.hlo.dim import Dim
from ingot.kernel.contraction.epilogue import EpilogueSchedule
from ingot.kernel.expr import Expr
from ingot.kernel.ir import ContractionKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.support.records import record, replace

BUFFERS = 3
"""Buffers of every driver: two operands and the result."""


@record
class DriverPart:
    """Arguments of a driver for a part of its work.

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
        parts: its arguments for each part.
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
        """The templates that must be compiled before it runs."""
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
        self,
        module: ModuleBuilder,
        symbol: str,
        kernel: ContractionKernel,
        epilogue: EpilogueSchedule | None,
        target: TargetSpec,
    ) -> EmittedKernel:
        """Emit the kernel's own code; return how all of it is called.

        Args:
            module: gets the code.
            symbol: how the names of its functions begin.
            kernel: the kernel.
            epilogue: how its results are made of the sums, None where they are the sums.
            target: the target.
        """
        # The driver does not touch a result that an epilogue stores: an operand stands in for it.
        result, slot = self.operands[0] if self.result is None else self.result, 0
        if epilogue is not None:
            slot = CodeSlot(f"{symbol}_epilogue")
            emit_epilogue(module, slot.symbol, kernel, epilogue, target)
        made = self._called(result, slot)
        own = {"behind": tuple(range(len(kernel.buffers))), "behind_symbols": kernel.symbols}
        made = replace(made, **own, templates=self.needed)
        if self.first == (None, None):
            return made
        addresses = Phase(f"{symbol}_addresses", 1)
        self._emit_addresses(module, addresses.symbol, kernel, made, target)
        return replace(made, phases=(addresses, *made.phases))

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
        f = module.function(symbol, lt.VOID, params, attrs="nounwind", opt_level_0=True)
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
