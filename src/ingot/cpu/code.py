# SPDX-License-Identifier: Apache-2.0
"""Code of a program on its way to the machine: LLVM modules, kernels, loops that are functions.

What `cpu.kernels` makes and the host program calls.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.cpu.library.parts import LibraryPart, shared_addresses
from ingot.hlo.instruction import Instruction
from ingot.kernel.ir import Kernel, LoopKernel
from ingot.kernel.schedule.loop_schedule import LoopSchedule
from ingot.llvm.linking import Library
from ingot.llvm.optimization import Optimization
from ingot.passes.buffers.buffer_table import Slice
from ingot.support.records import mutable, record


@mutable(eq=False)
class Code:
    """One LLVM module of kernels on its way to machine code.

    Attributes:
        text: LLVM IR.
        how: what LLVM does with it.
        shared: the library code that its kernels call, also those that another program uses.
        object: ELF object, once compiled.
        library: the mapped code, once linked; kept alive here.
    """

    text: str
    how: Optimization
    shared: tuple[LibraryPart, ...]
    object: bytes = b""
    library: Library | None = None


class _Compiled:
    """Base of records with code: in a module of the program's own, and in parts of the library."""

    __slots__ = ("__weakref__",)
    code: Code | None
    shared: tuple[LibraryPart, ...]

    @property
    def _modules(self) -> tuple[Code | LibraryPart, ...]:
        return self.shared if self.code is None else (self.code, *self.shared)

    @property
    def llvm_modules(self) -> tuple[tuple[str, Optimization], ...]:
        """The modules that hold the code: LLVM IR, and what LLVM does with it."""
        return tuple((module.text, module.how) for module in self._modules)

    @property
    def bytes(self) -> int:
        """Bytes of the texts and objects of the program's own module."""
        return 0 if self.code is None else len(self.code.text) + len(self.code.object)

    def _own_addresses(self, symbols: Iterable[str]) -> dict[str, int]:
        """Return the addresses of functions of the program's own module."""
        if self.code is None:
            return {}
        library = self.code.library
        assert library is not None, "the code is not finished"
        return {symbol: library.address(symbol) for symbol in symbols}


@record
class CompiledKernel(_Compiled):
    """A kernel and its code.

    Attributes:
        name: its symbol, `k_` and the fingerprint.
        kernel: what it computes.
        emitted: how to call it.
        code: the module that it was compiled in, None if all its code is the library's.
        shared: what it needs of the library.
        strategy: the name of the strategy that took it.
        refused: strategies that come before it, and why each does not take the kernel.
    """

    name: str
    kernel: Kernel
    emitted: EmittedKernel
    code: Code | None
    shared: tuple[LibraryPart, ...]
    strategy: str
    refused: tuple[tuple[str, str], ...]

    def addresses(self) -> dict[str, int]:
        """Return the address of every function that a host program names to run it."""
        found = shared_addresses(self.shared)
        found |= {symbol: table.ctypes.data for symbol, table in self.emitted.tables.items()}
        own = (symbol for symbol in self.emitted.code if symbol not in found)
        return found | self._own_addresses(own)


@record
class InlinedKernel:
    """A small kernel of loops, which is emitted where it is called.

    Attributes:
        kernel: what it computes.
        schedule: how it runs; it is one chunk, or none.
        refused: strategies of loops that come before its own, and why each does not take it.
    """

    kernel: LoopKernel
    schedule: LoopSchedule
    refused: tuple[tuple[str, str], ...]


@record
class RegisterLoop:
    """A loop that is one function (`cpu.register_loops`).

    Attributes:
        emitted: how to call it.
        slices: parts of buffers whose addresses its buffer slots hold.
    """

    emitted: EmittedKernel
    slices: tuple[Slice, ...]


@record
class CompiledLoops(_Compiled):
    """The register loops of a program and their code.

    Attributes:
        loops: by the outermost `while` of each.
        code: the module that holds them; None if there are none.
        shared: the library code that they call.
    """

    loops: dict[Instruction, RegisterLoop]
    code: Code | None = None
    shared: tuple[LibraryPart, ...] = ()

    def addresses(self) -> dict[str, int]:
        """Return the address of every loop."""
        loops = self.loops.values()
        return self._own_addresses(symbol for loop in loops for symbol in loop.emitted.code)
