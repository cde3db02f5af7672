# SPDX-License-Identifier: Apache-2.0
"""Calls inlined: `call`, `map`, conditionals, and fusions of a given module.

A conditional with a known branch is that branch. One in a reducer, a comparator or a `map` becomes
a select: such a computation runs for each element, often for several at once, so both branches are
computed and one result is selected. Other loops and branches of the program are not changed.

XLA's dumps after its optimizations have fusions for its own emitters; Ingot decides its own. The
defuser runs first, so that every pass sees plain ops.

Source: xla/service/call_inliner.cc, map_inliner.cc, simplify_conditional.cc, defuser.cc,
conditional_to_select.cc (which does it for `map`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, reached
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.fingerprint import fingerprint_computation
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.hlo.rewrite.pattern import splat_of
from ingot.hlo.rewrite.rule import RuleBuilder
from ingot.hlo.shape import Shape
from ingot.passes.inline import called_by, inline, inline_all
from ingot.support.records import replace


@module_pass("call-inliner", "call", ensures={"flat-calls"})
def call_inliner(module: Module, context: PassContext) -> bool:
    """Replaces calls by the bodies of their computations, except those that `unfolding` keeps."""
    return inline_all(module, called_by("call"))


@module_pass("map-inliner", "map")
def map_inliner(module: Module, context: PassContext) -> bool:
    """Replaces `map` of elementwise computations by their ops on whole arrays."""
    changed = False
    for computation in reached(module.entry):
        work = [i for i in computation.calls_and_effects if i.opcode == "map"]
        while work:
            mapping = work.pop()
            made = _widened(mapping)
            if made is not None:
                result, inner = made
                computation.substitute(mapping, result)
                work.extend(one for one in inner if one.parent is not None)
                changed = True
    return changed


_WIDENED = ops_with(Trait.LEAF, Trait.TUPLE, Trait.ELEMENTWISE, also=("map",))


def _widened(mapping: Instruction) -> tuple[Instruction, list[Instruction]] | None:
    """Return the mapped computation applied to whole arrays, and the maps that result.

    None if it has other ops than elementwise ones and maps.
    """
    mapped: Computation = mapping.attributes.to_apply
    body = mapped.post_order()
    maps: list[Instruction] = []
    if not all(i.opcode in _WIDENED for i in body):
        return None
    build = RuleBuilder(mapping.computation, mapping.metadata)
    dims = mapping.shape.dims
    wide = dict(zip(mapped.parameters, mapping.operands, strict=True))
    for instruction in body:
        if instruction.opcode == "constant":
            literal = build.constant(instruction.attributes.literal)
            wide[instruction] = build.broadcast_to(literal, dims)
        if instruction in wide:
            continue
        operands = [wide[operand] for operand in instruction.operands]
        if instruction.opcode == "tuple":
            wide[instruction] = build.tuple(*operands)
        elif instruction.opcode == "get-tuple-element":
            wide[instruction] = build.element_of(operands[0], instruction.attributes.index)
        else:
            shape = Shape.array(instruction.shape.dtype, dims)
            made = wide[instruction] = build.like(instruction, *operands, shape=shape)
            if made.opcode == "map":
                every = replace(made.attributes, dimensions=tuple(range(len(dims))))
                made.computation.set_attributes(made, every)
                maps.append(made)
    return wide[mapped.root], maps


@module_pass("simplify-conditional", "conditional")
def simplify_conditional(module: Module, context: PassContext) -> bool:
    """Inlines the branch of a `conditional` that is known, and branches that are all equal."""
    return inline_all(module, _taken)


def _taken(instruction: Instruction) -> tuple[Computation, Sequence[Instruction]] | None:
    """Return the branch of a conditional that is taken and its operand, where that is known."""
    if instruction.opcode != "conditional" or instruction.is_ordered:
        return None
    number = _known_branch(instruction)
    if number is None:
        return None
    branches: tuple[Computation, ...] = instruction.attributes.branch_computations
    return branches[number], (instruction.operands[1 + number],)


def _known_branch(conditional: Instruction) -> int | None:
    """Return the number of the branch that is taken, or None when that is not known."""
    branches: tuple[Computation, ...] = conditional.attributes.branch_computations
    index, *operands = conditional.operands
    value = splat_of(index)
    if value is not None:
        if index.shape.dtype is PRED:
            return 0 if value else 1
        return int(value) if 0 <= int(value) < len(branches) else len(branches) - 1
    same_operand = all(operand is operands[0] for operand in operands)
    if same_operand and len({len(branch) for branch in branches}) == 1:
        return 0 if len({fingerprint_computation(branch) for branch in branches}) == 1 else None
    return None


@module_pass("defuser", "fusion")
def defuser(module: Module, context: PassContext) -> bool:
    """Replaces every fusion by the body of its computation."""
    for computation in module.post_order():
        fusions = {i for i in computation.calls_and_effects if i.opcode == "fusion"}
        if fusions:
            _free(computation, fusions)
    return inline_all(module, called_by("fusion"))


def _free(computation: Computation, fusions: set[Instruction]) -> None:
    """Remove control dependencies of fusions: they ordered uses of buffers that are gone."""
    for instruction in computation.instructions:
        if instruction in fusions:
            instruction.run_after(())
        elif fusions.intersection(instruction.control_predecessors):
            others = (p for p in instruction.control_predecessors if p not in fusions)
            instruction.run_after(tuple(others))


_CONTROL = ops_with(
    RegionKind.BRANCH, RegionKind.CALL, RegionKind.FUSION, RegionKind.SCAN, RegionKind.FOREIGN
)


@module_pass("conditional-to-select", "conditional")
def conditional_to_select(module: Module, context: PassContext) -> bool:
    """Replaces conditionals in computations that are applied to elements."""
    flattened = [
        _flatten(applied)
        for computation in module.post_order()
        for op in computation.instructions
        if op.opcode not in _CONTROL
        for applied in op.called_computations
    ]
    return any(flattened)


def _flatten(computation: Computation) -> bool:
    changed = False
    # Branches may contain conditionals, which the next round finds.
    while found := [i for i in computation.post_order() if i.opcode == "conditional"]:
        for conditional in found:
            computation.replace(conditional, _selected(computation, conditional))
        changed = True
    return changed


def _selected(computation: Computation, conditional: Instruction) -> Instruction:
    """Return the result of the selected branch; of the last one if the index is out of range."""
    build = Builder(computation, conditional.metadata)
    index, *operands = conditional.operands
    branches = conditional.attributes.branch_computations
    results = [inline(computation, b, (o,)) for b, o in zip(branches, operands, strict=True)]
    value = results[-1]
    for number in range(len(results) - 2, -1, -1):
        taken = index
        if index.shape.dtype is not PRED:
            this = build.constant(number, index.shape.dtype)
            taken = build.compare(index, this, direction="EQ")
        value = _select(build, taken, results[number], value)
    return value


def _select(build: Builder, taken: Instruction, yes: Instruction, no: Instruction) -> Instruction:
    if not yes.shape.is_tuple:
        return build.select(taken, yes, no)
    elements = range(len(yes.shape.elements))
    pairs = [(build.element_of(yes, n), build.element_of(no, n)) for n in elements]
    return build.tuple(*(_select(build, taken, *pair) for pair in pairs))
