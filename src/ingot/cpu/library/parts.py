# SPDX-License-Identifier: Apache-2.0
"""Parts of the library: templates that are compiled once on a machine, mapped once in a process.

Below `cpu.strategies`, which says what runs in them. Invariant: a part stays mapped while a program
uses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.cpu.emit.template import Template
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_named
from ingot.llvm.linking import Library, map_objects
from ingot.llvm.optimization import Optimization
from ingot.llvm.target import TargetSpec
from ingot.support.forking import defers_fork
from ingot.support.later import Later
from ingot.support.recent import RecentTable
from ingot.support.records import record

SOURCES = ("support", "llvm", "native", "hlo", "kernel", "emit", "cpu")
"""The packages that make the library's code."""


@record(eq=False, weakref_slot=True)
class LibraryPart:
    """A template on a target, and the code that is made of it.

    Attributes:
        template: its text.
        target: what it is compiled for.
        made: the object.
        mapped: the object in the process.
    """

    template: Template
    target: TargetSpec
    made: Later[bytes]
    mapped: Later[Library]

    @property
    def name(self) -> str:
        """The template's name."""
        return self.template.name

    @property
    def how(self) -> Optimization:
        """What LLVM does with it."""
        return self.template.how

    @property
    def text(self) -> str:
        """Its LLVM IR."""
        return _text_of(self.template, self.target)

    @property
    def object(self) -> bytes:
        """Its object, once compiled."""
        return self.made.result()

    @property
    def addresses(self) -> dict[str, int]:
        """Where its functions lie, once compiled."""
        library = self.mapped.result()
        return {symbol: library.address(symbol) for symbol in library.symbols}


@record
class LibraryKernel:
    """A kernel that runs in library code: how it is called, and the parts that it needs."""

    emitted: EmittedKernel
    parts: tuple[LibraryPart, ...]


def shared_addresses(parts: Iterable[LibraryPart]) -> dict[str, int]:
    """Return the addresses of all functions of some parts."""
    found: dict[str, int] = {}
    for part in parts:
        found |= part.addresses
    return found


CACHED_PARTS = 512
"""Parts that stay mapped while no program uses them: what `load_library` loads is a fifth."""

_loaded = RecentTable[tuple[TargetSpec, str], LibraryPart](most=CACHED_PARTS)


@defers_fork
def library_part(target: TargetSpec, template: Template) -> LibraryPart:
    """Return the part of a template; where no object of it is kept, begin to compile it."""
    name = template.name
    found = _loaded.find((target, name))
    if found is not None:
        return found
    text = partial(_text_of, template, target)
    made = compile_named(name, SOURCES, text, target, template.how)
    made.begin()
    mapped = Later(lambda: map_objects([made.result()], target))
    return _loaded.keep((target, name), LibraryPart(template, target, made, mapped))


def _text_of(template: Template, target: TargetSpec) -> str:
    module = ModuleBuilder.for_target(template.name, target)
    template.define(module)
    return module.text()
