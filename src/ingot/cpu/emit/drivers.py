"""Calls of convolution drivers: library code that is given its numbers and what follows it.

A driver's env is operands and result; scratch; its parameters; addresses of micro-kernels; the
address of an epilogue and the env that it takes. Where the sums are the result there is no
epilogue (0), and the host program fills that env. Else the kernel is a small function of its own,
which fills it and names the kernel's epilogue.

Invariant: sizes are in the parameters only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from ingot.cpu.emit.contraction_epilogue import emit_epilogue
from ingot.cpu.emit.kernel_abi import SLOT_BYTES, CodeSlot, EmittedKernel, Phase, SharedCode
from ingot.cpu.emit.microkernel import MicroKernel
from ingot.cpu.vectors import vectors_of
from ingot.kernel.contraction_schedule import schedule_contraction
from ingot.kernel.ir import ContractionKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import Type
from ingot.llvm.values import Value

BUFFERS = 3
EPILOGUE = (lt.PTR, lt.PTR, lt.I64, lt.I64, lt.I64, lt.I64, lt.I64)
"""Types of an epilogue's parameters; see `emit_epilogue`."""


@dataclass(frozen=True, slots=True)
class DriverEnv:
    """What a driver finds in its env.

    Attributes:
        image, taps, result: the buffers.
        scratch: the scratch.
        given: the parameters by name.
        micro_kernels: addresses of the micro-kernels.
        epilogue: address of the epilogue, 0 if there is none.
        outer: the env that the epilogue takes.
    """

    image: Value
    taps: Value
    result: Value
    scratch: Value
    given: dict[str, Value]
    micro_kernels: tuple[Value, ...]
    epilogue: Value
    outer: Value


def open_driver(
    module: ModuleBuilder, symbol: str, parameters: tuple[str, ...], micro_kernels: int
) -> tuple[FunctionBuilder, DriverEnv]:
    """Start a driver's function `void symbol(ptr env, i64 chunk)`."""
    f = module.function(
        symbol, lt.VOID, [("env", lt.PTR), ("chunk", lt.I64)], attrs="nounwind uwtable"
    )
    slots = count()

    def slot(type_: Type) -> Value:
        return f.load(type_, f.gep(f.params[0], next(slots) * SLOT_BYTES), 8, invariant=True)

    image, taps, result, scratch = (slot(lt.PTR) for _ in range(BUFFERS + 1))
    given = {name: slot(lt.I64) for name in parameters}
    micro = tuple(slot(lt.PTR) for _ in range(micro_kernels))
    return f, DriverEnv(image, taps, result, scratch, given, micro, slot(lt.PTR), slot(lt.PTR))


@dataclass(frozen=True, slots=True)
class DriverCall:
    """How one convolution runs in a driver.

    Attributes:
        code: the driver's module.
        phases: its functions.
        operands: buffer numbers of image and taps.
        parameters: values of the driver's parameters.
        micro_kernels: the micro-kernels in the order of its env.
        scratch_bytes: bytes of scratch.
        n_block: columns of the rows that an epilogue reads.
    """

    code: SharedCode
    phases: tuple[Phase, ...]
    operands: tuple[int, int]
    parameters: tuple[int, ...]
    micro_kernels: tuple[MicroKernel, ...]
    scratch_bytes: int
    n_block: int

    @property
    def needed(self) -> tuple[SharedCode, ...]:
        """What it needs of the library."""
        return (self.code, *self.micro_kernels)

    def without_epilogue(self, result: int) -> EmittedKernel:
        """Return how the host program calls the driver: its sums are buffer `result`."""
        micro = (CodeSlot(item.name) for item in self.micro_kernels)
        return EmittedKernel(
            self.phases,
            BUFFERS,
            (*self.parameters, *micro, 0, 0),
            scratch_bytes=self.scratch_bytes,
            order=(*self.operands, result),
        )

    def with_epilogue(
        self, module: ModuleBuilder, symbol: str, kernel: ContractionKernel, target: TargetSpec
    ) -> EmittedKernel:
        """Emit a kernel whose sums go through its epilogue."""
        vectors = vectors_of(target)
        schedule = replace(schedule_contraction(kernel, vectors), n_block=self.n_block)
        epilogue = emit_epilogue(module, f"{symbol}_epilogue", kernel, schedule, target)
        phases: list[Phase] = []
        for number, phase in enumerate(self.phases):
            name = f"{symbol}_{number}"
            self._emit_phase(module, (name, phase.symbol), kernel, Value(lt.PTR, epilogue.text))
            phases.append(Phase(name, phase.chunks))
        return EmittedKernel(
            tuple(phases),
            len(kernel.buffers),
            (),
            scratch_bytes=self.scratch_bytes,
            micro_kernels=self.needed,
        )

    def _emit_phase(
        self,
        module: ModuleBuilder,
        names: tuple[str, str],
        kernel: ContractionKernel,
        epilogue: Value,
    ) -> None:
        """Emit the function that fills a driver's env and calls it."""
        symbol, called = names
        f = module.function(
            symbol, lt.VOID, [("env", lt.PTR), ("chunk", lt.I64)], attrs="nounwind uwtable"
        )
        env, chunk = f.params

        def held(number: int) -> Value:
            return f.load(lt.PTR, f.gep(env, number * SLOT_BYTES), 8)

        def code(item: MicroKernel) -> Value:
            return Value(lt.PTR, module.declare(item.name, lt.VOID, []).text)

        first = [held(number) for number in (*self.operands, self.operands[0])]
        first.append(held(len(kernel.buffers)))
        last = [*map(code, self.micro_kernels), epilogue, env]
        data = b"".join(
            number.to_bytes(SLOT_BYTES, "little", signed=True) for number in self.parameters
        )
        numbers = module.global_bytes(f"{symbol}_parameters", data)
        behind = (len(first) + len(self.parameters)) * SLOT_BYTES
        inner = f.alloca(lt.I8, behind + len(last) * SLOT_BYTES, 64)
        f.memcpy(f.gep(inner, len(first) * SLOT_BYTES), numbers, len(data))
        for start, values in ((0, first), (behind, last)):
            for number, value in enumerate(values):
                f.store(value, f.gep(inner, start + number * SLOT_BYTES), 8)
        f.call(module.declare(called, lt.VOID, [lt.PTR, lt.I64]), [inner, chunk])
        f.ret()
