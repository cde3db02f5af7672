# SPDX-License-Identifier: Apache-2.0
"""Legality of contractions: what may be computed in their kernels, around a product.

`legality` asks here about products. A kernel with a product computes ops that move or cast elements
on the way into it, and what follows element by element on the way out.
"""

from __future__ import annotations

from ingot.analysis.direct_convolution import is_driven, moves_features
from ingot.analysis.epilogues import chain_operands, ends_contraction
from ingot.analysis.frames import ONE, Frame
from ingot.hlo.dim import product
from ingot.hlo.dtype import BF16, S8, S16, U8
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.hlo.opset.contraction import DotAttributes
from ingot.passes.fusion.groups import Group, Grouping, GroupKind
from ingot.passes.fusion.recompute import LITERALS

_IN_WORDS = frozenset({S8, U8, S16, BF16})
"""Types of factors that one instruction multiplies several of, if they are adjacent in memory."""

LEAST_READS = 4
"""How often a product reads each element, from which on rounding it once pays: 4x1024x1024 of f32
rounded to s8 took 0.50 of the time, to bf16 0.93; 64x512x512 0.24 and 0.58 (AVX-512, one thread,
2026-11-27)."""

REDUCTIONS = ops_with(FusionClass.REDUCTION)

CONTRACTIONS = {
    "dot": frozenset(
        {
            "convert",
            "transpose",
            "reshape",
            "broadcast",
            "constant",
            "slice",
            "copy",
            "dynamic-slice",
        }
    ),
    "convolution": frozenset({"convert", "copy"}),
}
"""Contractions, and the ops that can be fused into the operands of each."""

_FEW_OPS = 12
"""Ops on the way from a reduction, as between a variance and the scale of a normalization."""

IN_PRODUCT = "it is better computed where the product is made"


def is_number(value: Instruction) -> bool:
    """Whether all elements of a value are one constant."""
    while value.opcode == "broadcast":
        value = value.operands[0]
    return value.opcode == "constant"


def is_prologue(group: Group, user: Instruction) -> bool:
    """Whether operands of `user` feed the contraction of `group`."""
    return user is group.dot or user in group.prologue


def feeds_prologue(group: Group, producer: Instruction) -> bool:
    """Whether a contraction's operands are read from `producer`; it may have thousands of users."""
    users = (group.dot, *group.prologue)
    return any(user is not None and producer in user.operands for user in users)


def _is_rounded(operand: Instruction, dot: Instruction) -> bool:
    """Whether an operand is a conversion to factors in words, and each is read many times."""
    if operand.opcode != "convert" or dot.opcode != "dot":
        return False
    element = operand.shape.dtype
    if element not in _IN_WORDS or operand.operands[0].shape.dtype.bits <= element.bits:
        return False
    sums, lhs = dot.shape.size, dot.operands[0].shape
    depth = product(lhs.dims[dim] for dim in dot.as_(DotAttributes).lhs_contracting_dims)
    products, elements = sums * depth, operand.shape.size
    if not isinstance(products, int) or not isinstance(elements, int):
        return False
    return products >= LEAST_READS * elements


def reads_operand_from_memory(dot: Instruction, producer: Instruction) -> bool:
    """Whether the kernel of a contraction does not compute `producer`, which its operands read.

    It reads each element many times, so only ops that move or cast elements are fused into it.
    """
    if dot.shape.dtype.is_complex or (dot.opcode == "convolution" and is_driven(dot)):
        # The library runs it, and reads its operands from memory.
        return True
    return producer.opcode not in CONTRACTIONS[dot.opcode] or _is_rounded(producer, dot)


def is_end_of_product(producer: Instruction) -> bool:
    """Whether the kernel of a product should make `producer`, where a reduction or several read it.

    These kernels hold no product, which goes through memory in any case: then its sum with another
    array may as well, and that array is read once. A normalization of 512x256 and the product
    before it, of depth 256, took 0.97 of the time; a scale alone would only make the product's
    kernel longer, 16x128x128 of depth 64 by 15 % (Intel Xeon with AMX, one thread, 2026-11-29). Not
    if the value is wider, and not if it takes a reduction, which may be one of the kernel's own.
    """
    if not producer.has(Trait.ELEMENTWISE) or not ends_contraction(producer):
        return False
    item, others = producer, list[Instruction]()
    while item.opcode not in CONTRACTIONS:
        chain = chain_operands(item)
        others += [one for one in item.operands if one is not chain[0]]
        item = chain[0]
    dims, narrow = producer.shape.dims, producer.shape.dtype.bits <= item.shape.dtype.bits
    reads_array = any(one.shape.dims == dims and one.opcode not in LITERALS for one in others)
    return narrow and reads_array and not any(map(_takes_reduction, others))


def _takes_reduction(value: Instruction) -> bool:
    """Whether a value is made of a reduction, by few ops that each read it alone."""
    for _ in range(_FEW_OPS):
        if value.opcode in REDUCTIONS:
            return True
        made = [one for one in value.operands if not is_number(one)]
        if len(made) != 1 or value.opcode in CONTRACTIONS:
            return False
        (value,) = made
    return False


def why_not_dot(
    grouping: Grouping, producer: Instruction, group: Group, frame: Frame | None
) -> str:
    """Return why a contraction does not join the kernel of its epilogue; empty if it does.

    Args:
        grouping: all kernels so far.
        producer: the contraction.
        group: the kernel of what reads it.
        frame: where the kernel reads it, relative to its points; None: at several indices.
    """
    if group.kind is not GroupKind.LOOP or group.dot is not None:
        return f"a {group.kind.value} kernel holds no further contraction"
    own = None if frame is None else tuple(axis for axis in frame if axis != ONE)
    if own is None or (own != group.main_frame and not _is_moved(producer, group, own)):
        return "the epilogue does not read the product element by element"
    if any(group.frame_without_ones(root) != group.main_frame for root in group.roots):
        return "a result of the kernel has another shape"
    if len(grouping.groups_with(producer)) > 0:
        return "the product has several consumers"
    return ""


def _is_moved(producer: Instruction, group: Group, own: Frame) -> bool:
    """Whether a kernel ends with a convolution's features before its space, as its driver can."""
    root = group.main
    if producer.opcode != "convolution" or root.opcode != "transpose" or len(group.roots) > 1:
        return False
    images = producer.shape.dims[0] != 1
    moved = (*own[:images], own[-1], *own[images:-1])
    if moved != group.main_frame or root.shape.dtype is not producer.shape.dtype:
        return False
    taken = CONTRACTIONS[producer.opcode]
    is_read = all(operand.opcode not in taken for operand in producer.operands)
    return is_read and moves_features(producer)
