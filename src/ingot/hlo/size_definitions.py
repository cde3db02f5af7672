# SPDX-License-Identifier: Apache-2.0
"""Sizes that instructions define, known only while the program runs.

A symbolic size (`f32[?n]`) is usually that of a parameter. It may also be computed:

    k = s64[] ...
    n = pred[?n] custom-call(k), custom_call_target="ingot.size"

defines `n`: the array has `k` elements, which nobody reads. A `while` defines the sizes that are a
whole dimension of its state and that are not known outside: they may differ in each iteration, and
after the loop they have their last values. A `conditional` does so for those of its result.

Instructions with a size in their shape or attributes come after its definition, without being its
users: `size_order` returns the order in which a computation runs.

Invariant: a size is defined once, and no definition is of a size that a program parameter has.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("main")
    >>> defined = define_size(b, b.parameter(0, "s64[]"), "n")
    >>> str(defined.shape), [i.opcode for i in size_order(b.build(defined), frozenset())]
    ('pred[?n]{0}', ['parameter', 'custom-call'])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, reached
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, ops_with
from ingot.hlo.module import Module
from ingot.hlo.opset.library_calls import SIZE
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import VerifyError
from ingot.support.graphs import needs_first

_DEFINING = ops_with(RegionKind.BRANCH)


def define_size(builder: Builder, count: Instruction, name: str) -> Instruction:
    """Add the definition of the size `name` as `count`, an integer of rank 0; return `pred[?name]`.

    A program in which `count` is negative ends with an error.
    """
    shape = Shape.array(PRED, (Dim.symbol(name),))
    return builder.emit("custom-call", count, shape=shape, custom_call_target=SIZE)


def is_size_definition(instruction: Instruction) -> bool:
    """Whether an instruction is a custom call that defines a size."""
    if instruction.opcode != "custom-call":
        return False
    return instruction.attributes.custom_call_target == SIZE


def bare_symbols(shape: Shape) -> Iterator[str]:
    """Yield the sizes that are a whole dimension of an array in `shape`."""
    for _, leaf in shape.leaves():
        for size in leaf.dims:
            if isinstance(size, Dim) and size.is_symbol:
                yield size.text


def parameter_symbols(computation: Computation) -> frozenset[str]:
    """Return the sizes that a computation's parameters bind."""
    return frozenset(
        name for parameter in computation.parameters for name in bare_symbols(parameter.shape)
    )


def used_symbols(instruction: Instruction) -> frozenset[str]:
    """Return the sizes that must be known before an instruction runs, without its operands' sizes.

    Sizes that a loop or branch binds itself are among them: nothing outside defines them.
    """
    found = _of_instruction(instruction)
    for called in instruction.called_computations:
        for computation in reached(called):
            for inner in computation.instructions:
                found |= _of_instruction(inner)
    return found


def _of_instruction(instruction: Instruction) -> frozenset[str]:
    shapes = symbols_of(size for _, leaf in instruction.shape.leaves() for size in leaf.dims)
    return shapes | symbols_of(_sizes_in(instruction.attributes))


def _sizes_in(value: Any) -> Iterator[Dim]:
    if isinstance(value, Dim):
        yield value
    elif isinstance(value, tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _sizes_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _sizes_in(getattr(value, field.name))


def definitions(computation: Computation, known: Iterable[str]) -> dict[str, Instruction]:
    """Return the sizes that a computation defines, and where; `known`: those from outside.

    Raises:
        VerifyError: INGOT0219, a size is defined twice.
    """
    outside = parameter_symbols(computation).union(known)
    found: dict[str, Instruction] = {}
    for instruction in computation.calls_and_effects:
        if is_size_definition(instruction):
            (size,) = bare_symbols(instruction.shape)
            if size in found or size in outside:
                raise _defined_twice(instruction, size)
            found[size] = instruction
    loops = any(one.opcode in _DEFINING for one in computation.calls_and_effects)
    for instruction in computation.post_order() if loops else ():
        if instruction.opcode in _DEFINING:
            for size in bare_symbols(instruction.shape):
                if size not in outside:
                    found.setdefault(size, instruction)
    return found


def _defined_twice(instruction: Instruction, size: str) -> VerifyError:
    return VerifyError(
        f"the size {size} is defined twice",
        code="INGOT0219",
        instruction=repr(instruction),
        location=instruction.metadata.location,
        hint="give each size that the program computes a name of its own",
    )


def size_order(computation: Computation, known: Iterable[str]) -> list[Instruction]:
    """Return the instructions, operands and definitions of sizes before those that need them.

    `known`: the sizes that are known before the computation runs.
    """
    return in_size_order(computation.post_order(), definitions(computation, known))


def in_size_order(order: list[Instruction], found: Mapping[str, Instruction]) -> list[Instruction]:
    """Return `order` with each definition before the uses of its size, otherwise unchanged."""
    if not found:
        return order

    def before(item: Instruction) -> list[Instruction]:
        needed = [found[name] for name in used_symbols(item) if name in found]
        return [*item.operands, *item.control_predecessors, *needed]

    return needs_first(order, before)


def find_changed_size(module: Module) -> Instruction | None:
    """Return a loop or branch that would change a size from outside, if there is one.

    A size that differs between iterations has a name that only the loop defines.
    """
    pending = [(module.entry, frozenset[str]())] if _open_controls(module) else []
    seen: set[tuple[Computation, frozenset[str]]] = set()
    while pending:
        seen.add(pending[-1])
        inside, outer = pending.pop()
        controls = [one for one in inside.calls_and_effects if one.called_computations]
        if not controls:
            continue
        found = definitions(inside, outer)
        bound = outer | parameter_symbols(inside)
        for one in controls:
            known = bound | {name for name, definer in found.items() if definer is not one}
            if one.opcode in _DEFINING and _changes(one, known):
                return one
            called = [(inner, known) for inner in one.called_computations]
            pending += [item for item in called if item not in seen]
    return None


def _changes(control: Instruction, known: frozenset[str]) -> bool:
    """Whether a loop or branch changes one of the known sizes of its result."""
    if control.opcode == "while":
        body = control.attributes.body
        pairs = [(body.parameters[0].shape, body.root.shape)]
    else:
        branches = control.attributes.branch_computations
        pairs = [(control.shape, branch.root.shape) for branch in branches]
    return not all(want.compatible(have) or want.takes(have, known) for want, have in pairs)


def _open_controls(module: Module) -> list[Instruction]:
    """Return the loops and branches of a module that have a symbolic size in their shape."""
    return [
        one
        for computation in module.computations.values()
        for one in computation.calls_and_effects
        if one.opcode in _DEFINING and not one.shape.is_static
    ]


def defines_sizes(module: Module) -> bool:
    """Whether some instruction of a module defines a size."""
    return module.analysis(_defines_sizes)


def _defines_sizes(module: Module) -> bool:
    held = module.computations.values()
    if any(is_size_definition(i) for c in held for i in c.calls_and_effects):
        return True
    names = [name for one in _open_controls(module) for name in bare_symbols(one.shape)]
    return bool(names) and not parameter_symbols(module.entry).issuperset(names)
