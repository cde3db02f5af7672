# SPDX-License-Identifier: Apache-2.0
"""Ops that StableHLO's specification no longer has, but that XLA still supports.

`einsum` is a dot with dimensions by its labels, `torch_index_select` a gather. Where MLIR has a
rewrite (`cross-replica-sum`), `composites` calls it.

Source: xla/hlo/builder/lib/{matrix,slicing}.cc (Einsum, TorchIndexSelect).
"""

from __future__ import annotations

from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import find
from ingot.hlo.opset.contraction import DotAttributes
from ingot.hlo.opset.indexing import GatherAttributes
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.shape import Shape
from ingot.support.regex import regex

Labels = list[str]
_LABEL = regex(r"\.\.\.|\S")


def _einsum(site: Site) -> Results:
    """Labels of both operands are batch or summed; other labels not in the result are summed."""
    config: str = site.attributes["einsum_config"].value
    inputs, arrow, output = config.partition("->")
    texts = inputs.split(",")
    if not arrow or len(texts) != len(site.operands):
        raise site.unsupported(f"einsum_config '{config}' does not fit its operands")
    wanted = [_labels(text, value.shape.rank) for text, value in zip(texts, site.operands)]  # noqa: B905
    spread = max((label for labels in wanted for label in labels), key=len, default="")
    out = _labels(output, len(output.replace("...", "")) + spread.count("."))
    operands = [
        _summed(site, value, labels, {*out, *(label for other in wanted for label in other
                                               if other is not labels)})
        for value, labels in zip(site.operands, wanted, strict=True)
    ]  # fmt: skip
    if len(operands) == 1:
        return _ordered(site, *operands[0], out)
    return _dot(site, *operands[0], *operands[1], out)


def _labels(text: str, rank: int) -> Labels:
    """Return one label per dimension; those of `...` are dots, counted from the last dimension."""
    found = _LABEL.findall(text)
    if "..." not in found:
        return found
    at, count = found.index("..."), rank - len(found) + 1
    return [*found[:at], *("." * n for n in range(count, 0, -1)), *found[at + 1 :]]


def _summed(
    site: Site, value: Instruction, labels: Labels, kept: set[str]
) -> tuple[Instruction, Labels]:
    """Return an operand summed over the labels that nothing else has."""
    if len(set(labels)) != len(labels):
        raise site.unsupported("a label stands twice in one operand")
    axes = tuple(dim for dim, label in enumerate(labels) if label not in kept)
    if not axes:
        return value, labels
    build: Builder = site.builder
    add = site.conversion.module.take(scalar_computation("add", value.shape.dtype))
    zero = build.constant(0, value.shape.dtype)
    made = build.reduce(value, zero, dimensions=axes, to_apply=add)
    return made, [label for label in labels if label in kept]


def _dot(
    site: Site,
    lhs: Instruction,
    left: Labels,
    rhs: Instruction,
    right: Labels,
    out: Labels,
) -> Results:
    both = [label for label in left if label in right]
    batch = [label for label in both if label in out]
    summed = [label for label in both if label not in out]
    attributes = DotAttributes(
        tuple(map(left.index, batch)),
        tuple(map(left.index, summed)),
        tuple(map(right.index, batch)),
        tuple(map(right.index, summed)),
    )
    free = [[label for label in side if label not in both] for side in (left, right)]
    sizes = dict(zip((*left, *right), (*lhs.shape.dims, *rhs.shape.dims), strict=True))
    labels = [*batch, *free[0], *free[1]]
    element = site.conversion.types.element(site.op.result.type)
    shape = Shape.array(element, tuple(sizes[label] for label in labels))
    return _ordered(site, site.emit(find("dot"), (lhs, rhs), attributes, shape), labels, out)


def _ordered(site: Site, value: Instruction, labels: Labels, out: Labels) -> Results:
    if sorted(labels) != sorted(out):
        raise site.unsupported("a label of the result is in no operand")
    if labels == out:
        return value
    dimensions = DimensionsAttributes(tuple(map(labels.index, out)))
    return site.emit(find("transpose"), (value,), dimensions, None)


def _torch_index_select(site: Site) -> Results:
    """One slice of dimension `dim` per index, beside the same `batch_dims` first dimensions."""
    operand, indices = (value.shape for value in site.operands)
    dim, batch = (int(site.attributes[name].value) for name in ("dim", "batch_dims"))
    dim, batch = dim % operand.rank, batch % (indices.rank + 1)
    after = indices.rank - batch - 1
    shared = tuple(range(batch))
    attributes = GatherAttributes(
        offset_dims=tuple(
            n if n < dim else n + after for n in range(batch, operand.rank) if n != dim
        ),
        collapsed_slice_dims=(dim,),
        start_index_map=(dim,),
        operand_batching_dims=shared,
        start_indices_batching_dims=shared,
        index_vector_dim=indices.rank,
        slice_sizes=tuple(
            1 if n == dim or n < batch else size for n, size in enumerate(operand.dims)
        ),
    )
    return site.emit(find("gather"), site.operands, attributes, site.declared[0])


CONVERTERS: dict[str, Converter] = {
    "stablehlo.einsum": _einsum,
    "stablehlo.torch_index_select": _torch_index_select,
    "stablehlo.unary_einsum": _einsum,
}
