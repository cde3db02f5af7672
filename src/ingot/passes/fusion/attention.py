# SPDX-License-Identifier: Apache-2.0
"""Attention fusion: two products with a softmax between become one kernel.

Runs before `fusion`, which sees a fused computation as something finished. The kernel keeps a block
of rows of scores in the cache, so that scores never reach memory (`kernel.attention`). It pays
where the scores are much larger than the operands; short sequences stay three kernels.

Other readers of the scores or the weights (a gradient that keeps them) need them in memory: then
nothing is fused. Values of rows that are read elsewhere, such as the sums for a gradient that
computes the weights again, are further results of the kernel.

Invariant: the results differ from those of three kernels by the order of sums, and by a division
of each sum instead of each weight; where rows of weights are exact they are the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.analysis.attention import Attention, attention_of, keeps_last, row_of
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.passes.fusion.fusion import controlled_computations
from ingot.passes.fusion.groups import Decision, Group, Grouping, GroupKind
from ingot.passes.fusion.outline import outline
from ingot.passes.fusion.products import CONTRACTIONS
from ingot.passes.fusion.recompute import is_cheap_to_recompute, moves_last
from ingot.support.graphs import reachable

MIN_QUERIES, MIN_KEYS = 32, 96
"""Rows and columns of scores from which on the kernel is faster than three.

AVX-512, one thread, f32 heads of 64, 2026-11-27: 24 times 96x96 takes as long as three, 128x128
0.88 of it, 512x512 0.75; with a causal mask 0.85, 0.74, 0.5. 16 queries with 1024 keys take 1.09.
bf16 in tiles (AMX): 12 times 128x128 0.83, 512x512 0.68, 2048x2048 0.42; causal 0.69, 0.24, 0.13
(2026-12-01).
"""

MAX_DEPTH = 256
"""Depth of heads up to which a block of queries, its sums and its scores stay in the cache."""

REASON = "a part of attention: the scores never reach memory"

_ELEMENTWISE = ops_with(Trait.ELEMENTWISE)
_RESHAPES = ops_with(Trait.RESHAPE_LIKE)
_COMPUTED = ops_with(Trait.ELEMENTWISE, Trait.SHAPING, Trait.CONSTANT_LIKE)
_FOLDS = ops_with(FusionClass.CONTRACTION, FusionClass.REDUCTION)


@module_pass("attention-fusion", "dot")
def attention_fusion(module: Module, context: PassContext) -> bool:
    """Makes one kernel of attention where that pays."""
    if context.fp < Fp.CONTRACT:
        return False
    changed = False
    for computation in controlled_computations(module):
        grouping = Grouping()
        for dot in [i for i in computation.post_order() if i.opcode == "dot"]:
            group = _group(computation, dot, grouping)
            if group is not None:
                grouping.group_of.update(dict.fromkeys(group.roots, group))
                context.remarks.extend(_decisions(group))
        changed |= outline(computation, grouping)
    return changed


def _decisions(group: Group) -> Iterable[Decision]:
    inside = (one for one in group.members if one not in group.roots)
    return [Decision(one.name, group.main.name, True, REASON) for one in inside]


def _group(computation: Computation, dot: Instruction, grouping: Grouping) -> Group | None:
    """Return the kernel of the attention whose second product is `dot`, or None."""
    found = attention_of(dot)
    if found is None or not _pays(found):
        return None
    between = _between(found)
    if not _is_by_element_or_row(found, between):
        return None
    members = dict.fromkeys((*between, *_sources(found, between)))
    others = [one for one in members if one is not dot and _is_read_outside(one, members)]
    inside = [one for one in others if one in between]
    if any(one.shape.dims != found.greatest.shape.dims for one in inside):
        return None
    if _depends_on_itself(computation, inside, members):
        return None
    result = _behind(dot, members)
    group = Group([result, *inside], GroupKind.CONTRACTION)
    group.members.update(members)
    return group


def _pays(found: Attention) -> bool:
    """Whether the kernel is faster than three, as far as sizes say."""
    *_, queries, keys = found.first.shape.dims
    if not isinstance(queries, int) or not isinstance(keys, int):
        return False
    depth, width = found.depth, found.width
    if not isinstance(depth, int) or not isinstance(width, int):
        return False
    is_large = queries >= MIN_QUERIES and keys >= MIN_KEYS
    return is_large and 1 <= depth <= MAX_DEPTH and 1 <= width <= MAX_DEPTH


def _between(found: Attention) -> dict[Instruction, None]:
    """Return the instructions from the first product to the second that depend on the first."""
    known: dict[Instruction, bool] = {found.first: True}
    stack = [found.second]
    while stack:
        item = stack[-1]
        if item in known:
            stack.pop()
            continue
        pending = [operand for operand in item.operands if operand not in known]
        if not (item.opcode in _COMPUTED or item.opcode in _FOLDS):
            known[item] = False
            stack.pop()
        elif pending and (item.opcode != "dot" or item is found.second):
            stack += pending
        else:
            known[item] = any(known.get(operand, False) for operand in item.operands)
            stack.pop()
    return {item: None for item, depends in known.items() if depends}


def _is_by_element_or_row(found: Attention, between: dict[Instruction, None]) -> bool:
    """Whether every op between the products computes a score, or a row, from its own index.

    Anything else that is made of scores (their transpose, a sum of all) needs them in memory.
    """
    is_row = {found.first: False, found.greatest: True, found.total: True}
    for item in between:
        if item is found.second or item in is_row:
            continue
        sides = {is_row[operand] for operand in item.operands if operand in between}
        if len(sides) > 1:
            return False
        (of_row,) = sides
        if item.opcode == "broadcast" and of_row and row_of(item) is not None:
            of_row = False
        elif item.opcode in _RESHAPES:
            if not of_row and not keeps_last(item):
                return False
        elif item.opcode not in _ELEMENTWISE:
            return False
        is_row[item] = of_row
    return True


def _sources(found: Attention, between: dict[Instruction, None]) -> Iterable[Instruction]:
    """Return the values computed before the scores: operands of the products, masks, constants."""
    moved = CONTRACTIONS["dot"]
    members: dict[Instruction, None] = {}
    factors = [*found.first.operands, found.second.operands[1 - found.side]]
    stack = [(factor, moved) for factor in factors]
    stack += [
        (operand, _COMPUTED)
        for item in between
        if item.opcode != "dot"
        for operand in item.operands
        if operand not in between
    ]
    while stack:
        item, allowed = stack.pop()
        if item in members or item in between or not _is_computed(item, allowed):
            continue
        members[item] = None
        stack.extend((operand, allowed) for operand in item.operands)
    return members


def _is_computed(item: Instruction, allowed: frozenset[str] | Iterable[str]) -> bool:
    if item.opcode == "constant":
        return item.attributes.literal.is_splat
    if item.opcode == "parameter" or item.opcode not in allowed or not item.shape.is_array:
        return False
    if allowed is _COMPUTED and item.opcode == "transpose" and moves_last(item):
        return False  # a row of a mask would be read in steps, again for each batch
    return item.opcode not in _ELEMENTWISE or is_cheap_to_recompute(item)


def _is_read_outside(item: Instruction, members: dict[Instruction, None]) -> bool:
    return item.is_root or any(user not in members for user in item.users)


def _depends_on_itself(
    computation: Computation, roots: Iterable[Instruction], members: dict[Instruction, None]
) -> bool:
    """Whether the kernel would read a value computed from one of its further results."""
    outside = [user for root in roots for user in root.users if user not in members]
    if not outside:
        return False
    order = {item: number for number, item in enumerate(computation.post_order())}
    last = max(order[item] for item in members)
    behind = reachable(outside, lambda item: item.users if order[item] < last else ())
    return any(item in members for item in behind)


def _behind(dot: Instruction, members: dict[Instruction, None]) -> Instruction:
    """Return the result of the kernel: the second product, moved or converted; adds to members."""
    result, passed = dot, [dot]
    while len(passed[-1].users) == 1 and not passed[-1].is_root:
        (user,) = passed[-1].users
        if not _is_done_in_stores(user):
            break
        passed.append(user)
        if user.opcode not in _RESHAPES:
            result = user
    members.update(dict.fromkeys(passed[: passed.index(result) + 1]))
    return result


def _is_done_in_stores(item: Instruction) -> bool:
    """Whether the kernel can do an op where it writes its result."""
    return item.opcode in _RESHAPES or item.opcode == "transpose" or item.opcode == "convert"
