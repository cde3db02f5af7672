# SPDX-License-Identifier: Apache-2.0
"""A part of a program as a program: values of removed instructions become inputs.

Values that the remaining instructions need of others become inputs, with the evaluator's values, so
the remaining instructions compute the same as in the whole. A value that cannot be an input (a
token, an array of symbolic size) remains, with all that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from ingot.evaluator import Value, evaluate
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.support.diagnostics import IngotError
from ingot.tools.programs.cases import Case

GRID = ("replica_count", "num_partitions")
"""The fields of a module's header that hold for every part of it."""


def values_of(case: Case) -> dict[str, Value]:
    """Return the value of each instruction of the entry by name; {} if it cannot be evaluated."""
    if case.inputs is None:
        return {}
    probe = case.module.clone()
    entry = probe.entry
    items = entry.post_order()
    names = [item.name for item in items]
    entry.set_root(Builder(entry).emit("tuple", *items))
    try:
        with np.errstate(all="ignore"):
            found = evaluate(probe, case.inputs)
    except IngotError:
        return {}
    assert isinstance(found, tuple)
    return dict(zip(names, found, strict=True))


def subgraph(case: Case, kept: Collection[str], values: Mapping[str, Value]) -> Case | None:
    """Return the case with only the entry's instructions `kept`; None if nothing remains.

    Its results are the kept ones of `case`; if there are none, the values that no kept instruction
    uses.

    Args:
        case: the whole.
        kept: names of instructions of the entry.
        values: the result of `values_of(case)`; without them inputs are unknown.
    """
    module = case.module.clone()
    entry = module.entry
    roots, outputs = _results(entry, set(kept), case.outputs)
    if not roots:
        return None
    alone = len(roots) == 1
    entry.set_root(roots[0] if alone else Builder(entry).emit("tuple", *roots))
    inputs = None if case.inputs is None or not values else list(case.inputs)
    for item in _given(entry, set(kept)):
        parameter = Builder(entry).parameter(len(entry.parameters), item.shape)
        if inputs is not None:
            inputs.append(values[item.name])
        entry.replace_all_uses(item, parameter)
    return cleaned(Case(module, None if inputs is None else tuple(inputs), outputs), kept)


def _results(
    entry: Computation, kept: set[str], outputs: tuple[int | None, ...]
) -> tuple[list[Instruction], tuple[int | None, ...]]:
    """Return the results of a part, with their numbers among the results of the first program."""
    root, whole = entry.root, results_of(entry)
    numbers = outputs or tuple(range(len(whole)))
    found = [
        (item, number) for item, number in zip(whole, numbers, strict=True) if item.name in kept
    ]
    if not found:
        chosen = [item for item in entry.post_order() if item.name in kept and item is not root]
        inner = set(chosen)
        found = [(item, None) for item in chosen if inner.isdisjoint(item.users)]
    return [item for item, _ in found], tuple(number for _, number in found)


def results_of(entry: Computation) -> list[Instruction]:
    """Return the results of a computation: the operands of a tuple at its root, or the root."""
    return list(entry.root.operands) if entry.root.opcode == "tuple" else [entry.root]


def _given(entry: Computation, kept: set[str]) -> list[Instruction]:
    """Return the instructions that become inputs: needed, not kept, and possible inputs."""
    given: dict[Instruction, None] = {}
    root = entry.root
    pending, seen = [root], {root}
    if root.opcode == "tuple":
        kept = kept | {root.name}
    while pending:
        item = pending.pop()
        if item is not root and item.name not in kept and _can_be_given(item):
            given[item] = None
            continue
        fresh = [one for one in item.operands if one not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return list(given)


def _can_be_given(item: Instruction) -> bool:
    leaves = [leaf for _, leaf in item.shape.leaves()]
    is_plain = all(leaf.is_array and leaf.is_static and not leaf.bounded for leaf in leaves)
    return is_plain and bool(leaves) and not is_free(item)


def is_free(item: Instruction) -> bool:
    """Whether an instruction costs a reader nothing: a parameter, or a constant of one number."""
    return item.opcode == "parameter" or (item.opcode == "constant" and item.shape.rank == 0)


def cleaned(case: Case, kept: Collection[str] = ()) -> Case:
    """Return the case without dead instructions (but effects in `kept`), inputs and computations.

    The case's module is changed; it must be the caller's own.
    """
    module, entry = case.module, case.module.entry
    for item in reversed(entry.post_order()):
        acts = item.name in kept and has_side_effect(item)
        if not item.users and item is not entry.root and not acts and item.opcode != "parameter":
            entry.remove(item)
    inputs = _renumbered(entry, case.inputs)
    for computation in set(module.computations.values()) - set(module.post_order()):
        module.remove(computation)
    module.aliases = ()
    module.extra = {name: text for name, text in module.extra.items() if name in GRID}
    return Case(module, inputs, case.outputs)


def _renumbered(entry: Computation, inputs: tuple[Value, ...] | None) -> tuple[Value, ...] | None:
    """Remove parameters that nothing uses; return the inputs of the others."""
    before = list(entry.parameters)
    used = [bool(item.users) or item is entry.root for item in before]
    for item, stays in zip(before, used, strict=True):
        if not stays:
            entry.remove(item)
    for number, item in enumerate(entry.parameters):
        entry.set_attributes(item, replace(item.attributes, number=number))
    if inputs is None:
        return None
    return tuple(value for value, stays in zip(inputs, used, strict=True) if stays)


def named(module: Module, computation: str, name: str) -> Instruction:
    """Return an instruction of a copy of a module."""
    return next(one for one in module.computations[computation].instructions if one.name == name)
