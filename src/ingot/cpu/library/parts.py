"""Parts of the library: named LLVM modules, compiled once on a machine, mapped once in a process.

Below the makers of kernels of this package. Invariant: a part's name says all that its code depends
on, so equal names are equal code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import SHORT_PASSES, compile_named
from ingot.llvm.linking import Library, link_object
from ingot.llvm.target import TargetSpec
from ingot.support.records import record

SOURCES = ("support", "llvm", "hlo", "kernel", "cpu")
"""The packages that make the library's code."""


@record
class Shared:
    """A part of the library: its name, object and mapped code; `make_text` gives its LLVM IR."""

    name: str
    make_text: Callable[[], str]
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


_loaded: dict[tuple[TargetSpec, str], Shared] = {}
_lock = threading.Lock()


def shared_part(
    target: TargetSpec,
    name: str,
    define: Callable[[ModuleBuilder], object],
    passes: Sequence[str] = SHORT_PASSES,
) -> Shared:
    """Return the part of this name; `define` writes its functions where no object of it is kept.

    `passes` are LLVM's; they follow from the name.
    """
    found = _loaded.get((target, name))
    if found is not None:
        return found

    def text() -> str:
        module = ModuleBuilder(name, vector_bits=target.vector_bits)
        define(module)
        return module.text()

    data = compile_named(name, SOURCES, text, target, passes)
    with _lock:
        if (target, name) not in _loaded:
            _loaded[target, name] = Shared(name, text, data, link_object([data]))
        return _loaded[target, name]
