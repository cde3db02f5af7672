"""Code of a program on its way to the machine: LLVM modules, kernels, loops that are functions.

What `cpu.kernels` makes and the host program calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.cpu.library import Shared, shared_addresses
from ingot.hlo.instruction import Instruction
from ingot.kernel.ir import Kernel
from ingot.llvm.linking import Library
from ingot.passes.buffers.buffer_table import Slice
from ingot.support.records import record


@dataclass(eq=False, slots=True)
class Code:
    """One LLVM module of kernels on its way to machine code.

    Attributes:
        text: LLVM IR.
        object: ELF object, once compiled.
        library: the mapped code, once linked; kept alive here.
    """

    text: str
    object: bytes = b""
    library: Library | None = None


@record
class CompiledKernel:
    """A kernel and its code.

    Attributes:
        name: its symbol, `k_` and the fingerprint.
        kernel: what it computes.
        emitted: how to call it.
        code: the module that it was compiled in, None if all its code is the library's.
        shared: what it needs of the library.
    """

    name: str
    kernel: Kernel
    emitted: EmittedKernel
    code: Code | None
    shared: tuple[Shared, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """LLVM IR of the modules that hold its code."""
        return _all_of(self.code, self.shared, lambda part: part.text)

    @property
    def objects(self) -> tuple[bytes, ...]:
        """Those modules' ELF objects."""
        return _all_of(self.code, self.shared, lambda part: part.object)

    def addresses(self) -> dict[str, int]:
        """Return the address of every function that a host program names to run it."""
        found = shared_addresses(self.shared)
        found |= {symbol: table.ctypes.data for symbol, table in self.emitted.tables.items()}
        if self.code is not None:
            library = self.code.library
            assert library is not None, "the kernels are not finished"
            own = (symbol for symbol in self.emitted.code if symbol not in found)
            found |= {symbol: library.address(symbol) for symbol in own}
        return found


@record
class RegisterLoop:
    """A loop that is one function (`cpu.register_loops`).

    Attributes:
        emitted: how to call it.
        places: whose addresses its buffer slots hold.
    """

    emitted: EmittedKernel
    places: tuple[Slice, ...]


@record
class CompiledLoops:
    """The register loops of a program and their code.

    Attributes:
        loops: by the outermost `while` of each.
        code: the module that holds them; None if there are none.
        shared: what they need of the library.
    """

    loops: dict[Instruction, RegisterLoop]
    code: Code | None = None
    shared: tuple[Shared, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """LLVM IR of the modules that hold the code."""
        return _all_of(self.code, self.shared, lambda part: part.text)

    @property
    def objects(self) -> tuple[bytes, ...]:
        """Those modules' ELF objects."""
        return _all_of(self.code, self.shared, lambda part: part.object)

    def addresses(self) -> dict[str, int]:
        """Return the address of every loop."""
        if self.code is None:
            return {}
        library = self.code.library
        assert library is not None, "the loops are not finished"
        symbols = (symbol for loop in self.loops.values() for symbol in loop.emitted.code)
        return {symbol: library.address(symbol) for symbol in symbols}


_Part = TypeVar("_Part")


def _all_of(
    code: Code | None, shared: tuple[Shared, ...], part: Callable[[Code | Shared], _Part]
) -> tuple[_Part, ...]:
    own = () if code is None else (part(code),)
    return own + tuple(map(part, shared))
