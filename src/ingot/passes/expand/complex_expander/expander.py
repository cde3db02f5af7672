# SPDX-License-Identifier: Apache-2.0
"""The complex expander: afterwards complex numbers are only moved, split and joined.

Computation by computation, `rules` turn every op on complex arrays into ops on their parts; an op
without a rule (custom-call, fft, collectives …) is a border: it keeps complex operands and results.
Kernels then only need `real`, `imag`, `complex` and moves of whole numbers.

Moves (transpose, slice, gather …) that only borders read stay complex: moving one c64 is cheaper
than moving two f32, and an update in place stays one. A select between results of arithmetic does
not stay complex. All other values are parts, so values between kernels are contiguous real arrays,
vectors need no shuffles, and dots are real dots.

Source: the idea is XLA's complex handling in elemental_ir_emitter.cc, done on whole arrays.
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.dtype import C64, C128
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.census import types
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.passes.expand.complex_expander.calls import Versions, remove_dead
from ingot.passes.expand.complex_expander.rules import MOVES, RULES, Site, rule_of, stays_complex
from ingot.passes.expand.complex_expander.split_values import SplitValues, has_complex
from ingot.passes.inline import replace_by_call


@module_pass("complex-expander", *types((C64, C128)))
def complex_expander(module: Module, context: PassContext) -> bool:
    """Writes complex arithmetic on parts, except in computations that a border calls."""
    computations = module.post_order()
    if not any(has_complex(i.shape) for one in computations for i in one.instructions):
        return False
    if not any(map(_works_on_complex, computations)):
        return False
    versions = Versions(module, lambda computation: _split(computation, versions))
    _split_in_place(module.entry, versions)
    for computation in module.post_order():
        outer = (*computation.parameters, computation.root)
        inner = computation is not module.entry and _works_on_complex(computation)
        if inner and not any(has_complex(value.shape) for value in outer):
            _split_in_place(computation, versions)
    return True


def _works_on_complex(computation: Computation) -> bool:
    return any(_is_split(instruction) for instruction in computation.instructions)


def _touches(instruction: Instruction) -> bool:
    return has_complex(instruction.shape) or any(has_complex(o.shape) for o in instruction.operands)


_STRUCTURAL = ops_with(Trait.LEAF, Trait.TUPLE, also=("real", "imag", "complex"))


def _is_move(instruction: Instruction) -> bool:
    """Whether an op only moves numbers, so that it may stay complex."""
    if instruction.opcode == "scatter":
        return not _works_on_complex(instruction.attributes.to_apply)
    if instruction.opcode == "select":
        return not any(map(_is_pair, instruction.operands))
    return instruction.opcode in MOVES


def _is_pair(value: Instruction) -> bool:
    """Whether arithmetic computes a complex number, so that its parts are available."""
    computed = value.opcode in RULES and value.opcode not in _STRUCTURAL
    return value.opcode == "complex" or (computed and not stays_complex(value))


def _is_split(instruction: Instruction) -> bool:
    """Whether an op on complex numbers must be rewritten."""
    if instruction.opcode in _STRUCTURAL or not _touches(instruction) or _is_move(instruction):
        return False
    if stays_complex(instruction):
        return False
    return rule_of(instruction.opcode) is not None or instruction.opcode == "fusion"


def _split_in_place(computation: Computation, versions: Versions) -> None:
    splits = _split(computation, versions)
    computation.set_root(splits.whole(splits.of(computation.root)))
    remove_dead(splits)


def _split(computation: Computation, versions: Versions) -> SplitValues:
    """Split the ops of a computation; the old ones stay until the root is set."""
    for instruction in computation.instructions:
        if instruction.opcode == "fusion" and _touches(instruction):
            replace_by_call(instruction, instruction.attributes.calls, instruction.operands)
    splits = SplitValues(computation)
    is_entry = computation.module is not None and computation.module.entry is computation
    order = computation.post_order()
    moved = _stay_whole(order, computation.root if is_entry else None)
    for instruction in order:
        if _touches(instruction):
            _split_one(Site(instruction, splits, versions), instruction in moved)
    return splits


def _split_one(site: Site, stays: bool) -> None:
    instruction, splits = site.instruction, site.splits
    rule = rule_of(instruction.opcode)
    if rule is None or (stays and _is_move(instruction)):
        for number, operand in enumerate(instruction.operands):
            whole = splits.whole(splits.of(operand))
            instruction.computation.replace_operand(instruction, number, whole)
        return
    made = rule(site)
    if not isinstance(made, Instruction) or has_complex(made.shape):
        splits.set(instruction, made)
    elif made is not instruction:
        instruction.computation.replace_all_uses(instruction, made)


def _takes_whole(user: Instruction) -> bool:
    return rule_of(user.opcode) is None or stays_complex(user)


def _stay_whole(order: list[Instruction], root: Instruction | None) -> set[Instruction]:
    """Return the moves whose results only borders use, or other such moves.

    `root` is the root if it is a border.
    """
    found: set[Instruction] = set()
    for instruction in reversed(order):
        is_move = instruction.has(Trait.TUPLE) or _is_move(instruction)
        if not is_move or (instruction.is_root and instruction is not root):
            continue
        if all(user in found or _takes_whole(user) for user in instruction.users):
            found.add(instruction)
    return found
