# SPDX-License-Identifier: Apache-2.0
"""Parts of the library: named LLVM modules, compiled once on a machine, mapped once in a process.

Below the makers of kernels of this package. Invariant: a part's name says all that its code depends
on, so equal names are equal code; a part stays mapped while a program uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import SHORT, Optimization, compile_named
from ingot.llvm.linking import Library, map_objects
from ingot.llvm.target import TargetSpec
from ingot.support.forking import defers_fork
from ingot.support.recent import RecentTable
from ingot.support.records import record

SOURCES = ("support", "llvm", "hlo", "kernel", "emit", "cpu")
"""The packages that make the library's code."""


@record(weakref_slot=True)
class Shared:
    """A part of the library: its name, object and mapped code.

    Attributes:
        make_text: gives its LLVM IR.
        how: what LLVM does with that.
    """

    name: str
    make_text: Callable[[], str]
    how: Optimization
    object: bytes
    library: Library

    @property
    def text(self) -> str:
        """Its LLVM IR."""
        return self.make_text()

    @property
    def addresses(self) -> dict[str, int]:
        """Where its functions lie."""
        return {symbol: self.library.address(symbol) for symbol in self.library.symbols}


@record
class LibraryKernel:
    """A kernel that runs in library code: how it is called, and the parts that it needs."""

    emitted: EmittedKernel
    parts: tuple[Shared, ...]


def shared_addresses(parts: Iterable[Shared]) -> dict[str, int]:
    """Return the addresses of all functions of some parts."""
    found: dict[str, int] = {}
    for part in parts:
        found |= part.addresses
    return found


KEPT_PARTS = 512
"""Parts that stay mapped while no program uses them: what `load_library` loads is a fifth."""

_loaded = RecentTable[tuple[TargetSpec, str], Shared](most=KEPT_PARTS)


@defers_fork
def shared_part(
    target: TargetSpec,
    name: str,
    define: Callable[[ModuleBuilder], object],
    how: Optimization = SHORT,
) -> Shared:
    """Return the part of this name; `define` writes its functions where no object of it is kept.

    What LLVM does with it (`how`) follows from the name.
    """
    found = _loaded.find((target, name))
    if found is not None:
        return found

    def text() -> str:
        module = ModuleBuilder.for_target(name, target)
        define(module)
        return module.text()

    data = compile_named(name, SOURCES, text, target, how)
    return _loaded.keep((target, name), Shared(name, text, how, data, map_objects([data], target)))
