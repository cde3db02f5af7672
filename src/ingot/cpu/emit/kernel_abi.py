# SPDX-License-Identifier: Apache-2.0
"""How kernels are called: env slots, phases, and the start of every kernel function.

A kernel is one or more functions `void k(ptr env, i64 chunk)`. `env` holds 8-byte slots: buffer
addresses, the scratch address, symbolic sizes. The host program fills env and runs the phases one
after the other; the chunks of a phase run in any order on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.template import Template
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim, evaluate
from ingot.llvm import types as lt
from ingot.llvm.builder import ALIGNED_STACK, FunctionBuilder, ModuleBuilder
from ingot.llvm.index import Index
from ingot.llvm.values import Value
from ingot.support.records import fresh, record, replace

Numbers = np.ndarray[Any, Any]
"""An array of numbers in memory."""


@record
class Phase:
    """One parallel loop: call `symbol(env, chunk)` for each chunk."""

    symbol: str
    chunks: int | Dim


@record
class CodeSlot:
    """A slot of env that holds the address of a function or of one of the kernel's tables."""

    symbol: str


Held = TypeVar("Held")


@record
class RuntimeSlot:
    """A slot of env that holds the address of the runtime record."""


Slot = str | int | Dim | CodeSlot | RuntimeSlot
"""The content of a slot of env: the size of that name, a number or size, an address."""


@record(weakref_slot=True)
class EmittedKernel:
    """A kernel as the host program runs it.

    Attributes:
        phases: parallel loops, one after the other.
        buffers: number of buffer slots at the start of env; then scratch, then `symbols`.
        symbols: the contents of the slots behind.
        scratch_bytes: bytes that all phases share.
        templates: the library code that it calls.
        order: which of the fusion's buffers each buffer slot holds; empty: as they come.
        behind: the fusion's buffers whose addresses come behind `symbols`, as the start of an env.
        behind_symbols: the contents of the slots behind those and another slot for the scratch.
        tables: arrays whose addresses slots hold, by symbol.
    """

    phases: tuple[Phase, ...]
    buffers: int
    symbols: tuple[Slot, ...]
    scratch_bytes: int | Dim = 0
    templates: tuple[Template, ...] = ()
    order: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    behind_symbols: tuple[str, ...] = ()
    tables: Mapping[str, Numbers] = fresh(factory=dict)

    @property
    def slots(self) -> int:
        """Slots of env."""
        behind = len(self.behind) + (1 + len(self.behind_symbols) if self.behind_symbols else 0)
        return self.first_behind + behind

    @property
    def first_behind(self) -> int:
        """The first slot behind `symbols`."""
        return self.buffers + 1 + len(self.symbols)

    @property
    def code(self) -> tuple[str, ...]:
        """The functions that the host program calls or names in env."""
        held = (slot.symbol for slot in self.symbols if isinstance(slot, CodeSlot))
        return (*(phase.symbol for phase in self.phases), *held)

    def env(
        self, buffers: Sequence[Held], scratch: Held, held: Callable[[Slot], Held]
    ) -> list[Held]:
        """Return what env holds, slot by slot.

        Args:
            buffers: the fusion's buffers.
            scratch: the scratch.
            held: returns what a slot of `symbols` holds.
        """
        first = [buffers[number] for number in self.order] or buffers
        last = [buffers[number] for number in self.behind]
        if self.behind_symbols:
            last += [scratch, *map(held, self.behind_symbols)]
        return [*first, scratch, *map(held, self.symbols), *last]


def with_sizes(made: EmittedKernel, values: Mapping[str, int]) -> EmittedKernel:
    """Return how code for every size is called at the sizes in `values`."""
    phases = (Phase(phase.symbol, evaluate(phase.chunks, values)) for phase in made.phases)
    sizes = tuple(values[slot] if isinstance(slot, str) else slot for slot in made.symbols)
    scratch = evaluate(made.scratch_bytes, values)
    return replace(made, phases=tuple(phases), symbols=sizes, scratch_bytes=scratch)


def open_kernel(
    module: ModuleBuilder,
    symbol: str,
    buffers: int,
    symbols: tuple[str, ...],
    fma: bool,
    *,
    is_simple: bool = False,
) -> tuple[FunctionBuilder, ValueEmitter, Value]:
    """Start a kernel function; return it with its emitter and the chunk.

    `is_simple`: it has so little to do, or waits so much for memory, that LLVM's level 0 is enough
    (`llvm.optimization.SIMPLE`).
    """
    params = [("env", lt.PTR), ("chunk", lt.I64)]
    attributes = f"nounwind {ALIGNED_STACK}"
    f = module.function(symbol, lt.VOID, params, attrs=attributes, opt_level_0=is_simple)
    env, chunk = f.params
    return f, bind_env(f, env, buffers, symbols, fma), chunk


def for_units(
    f: FunctionBuilder, chunk: Index, grain: Index, units: Index, body: Callable[[Value], object]
) -> None:
    """Run `body` for each unit of a chunk."""
    first = f.as_value(f.imul(chunk, grain))
    f.for_range(f.imin(f.iadd(first, grain), units), body, start=first)


def scratch_of(f: FunctionBuilder, buffers: int) -> Value:
    """Return the scratch address of a kernel function."""
    env = f.params[0]
    return f.at_entry(lambda: _slot(f, env, buffers, lt.PTR))


def bind_env(
    f: FunctionBuilder, env: Value, buffers: int, symbols: tuple[str, ...], fma: bool
) -> ValueEmitter:
    """Return an emitter over the slots of `env`, which are read when they are first needed."""
    numbers = {name: buffers + 1 + n for n, name in enumerate(symbols)}
    emitter = ValueEmitter(f, {}, {}, fma)
    emitter.buffers = _Slots[int](lambda number: _slot(f, env, number, lt.PTR), f)
    emitter.names = _Slots[str](lambda name: _slot(f, env, numbers[name], lt.I64), f)
    return emitter


def _slot(f: FunctionBuilder, env: Value, number: int, type_: lt.Type) -> Value:
    return f.load(type_, f.gep(env, number * SLOT_BYTES), 8, invariant=True)


Key = TypeVar("Key")


class _Slots(dict[Key, Any]):
    """Values of env, by number or name; each is loaded at the function's entry, if it is used."""

    def __init__(self, read: Callable[[Key], Value], f: FunctionBuilder) -> None:
        super().__init__()
        self._read = read
        self._function = f

    def __missing__(self, key: Key) -> Value:
        found = self[key] = self._function.at_entry(lambda: self._read(key))
        return found
