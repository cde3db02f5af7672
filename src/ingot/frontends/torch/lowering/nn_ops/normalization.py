# SPDX-License-Identifier: Apache-2.0
"""Batch, layer and group normalization, and their gradients.

Statistics are computed in f32 for half types, in two passes (mean, then squares of differences).
Source: PyTorch's `aten/src/ATen/native/Normalization.cpp`, `layer_norm.cpp`, `group_norm.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.guards import guarded, reshaped
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("aten")

Given = Instruction | None


def _mean(b: ArrayBuilder, x: Instruction, axes: Sequence[int]) -> Instruction:
    count = dim_math.product(x.shape.dims[axis] for axis in axes)
    total = b.reduced("add", x, axes)
    return b.divide(total, b.like(count, total.shape))


def _moments(
    b: ArrayBuilder, x: Instruction, axes: Sequence[int]
) -> tuple[Instruction, Instruction]:
    """Return mean and (biased) variance over `axes`."""
    kept = tuple(axis for axis in range(x.shape.rank) if axis not in axes)
    average = _mean(b, x, axes)
    centred = b.subtract(x, b.spread(average, x.shape.dims, kept))
    return average, _mean(b, b.multiply(centred, centred), axes)


def _scaled(
    b: ArrayBuilder, x: Instruction, weight: Given, bias: Given, axes: tuple[int, ...]
) -> Instruction:
    """Return x * weight + bias, whose dimensions are `axes` of x."""
    for opcode, vector in (("multiply", weight), ("add", bias)):
        if vector is not None:
            wide = b.convert_to(vector, x.shape.dtype)
            x = b.emit(opcode, x, b.spread(wide, x.shape.dims, axes))
    return x


# ---- batch normalization

_CHANNEL = (1,)


def _others(x: Instruction) -> tuple[int, ...]:
    return tuple(axis for axis in range(x.shape.rank) if axis != 1)


def _inverse(b: ArrayBuilder, variance: Instruction, epsilon: float) -> Instruction:
    return b.rsqrt(b.binary("add", variance, epsilon))


def _batch_norm(
    op: Op,
    given: Instruction,
    weight: Given,
    bias: Given,
    old: tuple[Given, Given],
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Instruction, ...]:
    """Return the result, the gradient's inputs, and new statistics (if there are old ones)."""
    b = op.b
    x = b.convert_to(given, wider(given.shape.dtype))
    wide = x.shape.dtype
    before = [None if item is None else b.convert_to(item, wide) for item in old]
    if training:
        average, variance = _moments(b, x, _others(x))
    else:
        average, variance = before
        if average is None or variance is None:
            raise op.error("statistics are not given, and the batch's are not to be used")
    inverse = _inverse(b, variance, epsilon)
    if weight is None:
        y = b.normalized(x, average, inverse, _CHANNEL)
    else:
        factor = b.multiply(inverse, b.convert_to(weight, wide))
        y = b.normalized(x, average, factor, _CHANNEL)
    y = _scaled(b, y, None, bias, _CHANNEL)
    count = dim_math.product(x.shape.dims[axis] for axis in _others(x))
    after: list[Instruction] = []
    for earlier, now in zip(before, (average, variance), strict=True):
        if earlier is None:
            continue
        if not training:
            after.append(earlier)
            continue
        if now is variance:
            whole = b.like(count, now.shape)
            now = b.multiply(now, b.divide(whole, b.binary("add", whole, -1)))
        kept = b.binary("multiply", earlier, 1 - momentum)
        after.append(b.add(kept, b.binary("multiply", now, momentum)))
    saved = (average, inverse)
    made = [b.convert_to(y, op.shape_of(0).dtype)]
    for number, value in enumerate(saved, 1):
        shape = op.shape_of(number)
        made.append(b.zeros(shape) if shape.dims == (0,) else b.convert_to(value, shape.dtype))
    return (*made, *after)


def _as_results(op: Op, made: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return values in the element types that PyTorch gives the results."""
    return tuple(
        op.b.convert_to(value, op.shape_of(number).dtype) for number, value in enumerate(made)
    )


@RULES.rule("_native_batch_norm_legit_functional")
def _functional(
    op: Op,
    x: Instruction,
    weight: Given,
    bias: Given,
    mean: Instruction,
    variance: Instruction,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Instruction, ...]:
    old = (mean, variance)
    made = _batch_norm(op, x, weight, bias, old, training, momentum, epsilon)
    return _as_results(op, made)


@RULES.rule("_batch_norm_with_update_functional")
def _with_update(
    op: Op,
    x: Instruction,
    weight: Given,
    bias: Given,
    mean: Instruction,
    variance: Instruction,
    momentum: float,
    epsilon: float,
) -> tuple[Instruction, ...]:
    """Training; the fourth result is a reserve that the CPU does not use."""
    made = _batch_norm(op, x, weight, bias, (mean, variance), True, momentum, epsilon)
    return _as_results(op, (*made[:3], op.b.zeros(op.shape_of(3)), *made[3:]))


@RULES.rule("_batch_norm_no_update")
def _no_update(
    op: Op,
    x: Instruction,
    weight: Given,
    bias: Given,
    mean: Given,
    variance: Given,
    momentum: float,
    epsilon: float,
) -> tuple[Instruction, ...]:
    made = _batch_norm(op, x, weight, bias, (mean, variance), False, momentum, epsilon)
    return (*made[:3], op.b.zeros(op.shape_of(3)))


@RULES.rule("_native_batch_norm_legit_no_training")
def _no_training(
    op: Op,
    x: Instruction,
    weight: Given,
    bias: Given,
    mean: Instruction,
    variance: Instruction,
    momentum: float,
    epsilon: float,
) -> tuple[Instruction, ...]:
    return _batch_norm(op, x, weight, bias, (mean, variance), False, momentum, epsilon)[:3]


@RULES.rule("_native_batch_norm_legit.no_stats")
def _no_stats(
    op: Op,
    x: Instruction,
    weight: Given,
    bias: Given,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Instruction, ...]:
    return _batch_norm(op, x, weight, bias, (None, None), training, momentum, epsilon)


@RULES.rule("native_batch_norm")
def _native_batch_norm(
    op: Op,
    x: Instruction,
    weight: Given,
    bias: Given,
    mean: Given,
    variance: Given,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Instruction, ...]:
    if training and (mean is not None or variance is not None):
        raise op.error("it writes its statistics in place")
    return _batch_norm(op, x, weight, bias, (mean, variance), training, momentum, epsilon)[:3]


def _batch_norm_gradient(
    op: Op,
    gradient: Instruction,
    x: Instruction,
    weight: Given,
    running: tuple[Given, Given],
    saved: tuple[Given, Given],
    training: bool,
    epsilon: float,
    mask: Sequence[bool],
) -> tuple[Given, ...]:
    """Return the gradients for input, weight and bias, each if the mask asks for it."""
    b, element = op.b, x.shape.dtype
    wide = wider(element)
    dy, image = b.convert_to(gradient, wide), b.convert_to(x, wide)
    average, inverse = saved if training else running
    if average is None or inverse is None:
        raise op.error("the statistics of the forward pass are not given")
    average, inverse = b.convert_to(average, wide), b.convert_to(inverse, wide)
    if not training:
        inverse = _inverse(b, inverse, epsilon)
    axes = _others(x)
    normal = b.normalized(image, average, inverse, _CHANNEL)
    bias_gradient = b.reduced("add", dy, axes)
    weight_gradient = b.reduced("add", b.multiply(dy, normal), axes)
    found: list[Given] = [None, None, None]
    if mask[0]:
        count = b.like(dim_math.product(x.shape.dims[axis] for axis in axes), average.shape)
        made = dy
        if training:
            shift, tilt = (b.divide(item, count) for item in (bias_gradient, weight_gradient))
            dims = x.shape.dims
            made = b.subtract(made, b.spread(shift, dims, _CHANNEL))
            made = b.subtract(made, b.multiply(normal, b.spread(tilt, dims, _CHANNEL)))
        factor = inverse if weight is None else b.multiply(inverse, b.convert_to(weight, wide))
        made = b.multiply(made, b.spread(factor, x.shape.dims, _CHANNEL))
        found[0] = b.convert_to(made, op.shape_of(0).dtype)
    if mask[1]:
        found[1] = b.convert_to(weight_gradient, op.shape_of(1).dtype)
    if mask[2]:
        found[2] = b.convert_to(bias_gradient, op.shape_of(2).dtype)
    return tuple(found)


@RULES.rule("native_batch_norm_backward", "batch_norm_backward")
def _batch_norm_backward(
    op: Op,
    gradient: Instruction,
    x: Instruction,
    weight: Given,
    mean: Given,
    variance: Given,
    saved_mean: Given,
    saved_inverse: Given,
    training: bool,
    epsilon: float,
    mask: Sequence[bool],
    reserve: object = None,
) -> tuple[Given, ...]:
    del reserve  # nothing was kept for it
    running, saved = (mean, variance), (saved_mean, saved_inverse)
    return _batch_norm_gradient(op, gradient, x, weight, running, saved, training, epsilon, mask)


# ---- layer and group normalization


def _statistics(op: Op, average: Instruction, inverse: Instruction) -> list[Instruction]:
    """Return the second and the third result, as PyTorch passes them to the gradient."""
    made: list[Instruction] = []
    for number, value in enumerate((average, inverse), 1):
        shape = op.shape_of(number)
        made.append(op.b.reshape_to(op.b.convert_to(value, shape.dtype), shape.dims))
    return made


@RULES.rule("native_layer_norm")
def _layer_norm(
    op: Op,
    given: Instruction,
    normalized: Sequence[Size],
    weight: Given,
    bias: Given,
    epsilon: float,
) -> tuple[Instruction, ...]:
    b, rank = op.b, given.shape.rank
    x = b.convert_to(given, wider(given.shape.dtype))
    outer = tuple(range(rank - len(normalized)))
    inner = tuple(range(rank - len(normalized), rank))
    average, variance = _moments(b, x, inner)
    inverse = _inverse(b, variance, epsilon)
    y = _scaled(b, b.normalized(x, average, inverse, outer), weight, bias, inner)
    return (b.convert_to(y, op.shape_of(0).dtype), *_statistics(op, average, inverse))


@RULES.rule("native_layer_norm_backward")
def _layer_norm_backward(
    op: Op,
    gradient: Instruction,
    x: Instruction,
    normalized: Sequence[Size],
    mean: Instruction,
    inverse: Instruction,
    weight: Given,
    bias: Given,
    mask: Sequence[bool],
) -> tuple[Given, ...]:
    del bias
    b, rank, dims = op.b, x.shape.rank, x.shape.dims
    wide = wider(x.shape.dtype)
    outer = tuple(range(rank - len(normalized)))
    inner = tuple(range(rank - len(normalized), rank))
    dy, image = b.convert_to(gradient, wide), b.convert_to(x, wide)
    rows = dims[: len(outer)]
    average, factor = (b.reshape_to(b.convert_to(item, wide), rows) for item in (mean, inverse))
    normal = b.normalized(image, average, factor, outer)
    found: list[Given] = [None, None, None]
    if mask[0]:
        made = _row_gradient(b, _scaled(b, dy, weight, None, inner), normal, factor, outer, inner)
        found[0] = b.convert_to(made, op.shape_of(0).dtype)
    if mask[1]:
        found[1] = _reduced(op, 1, b.multiply(dy, normal), outer)
    if mask[2]:
        found[2] = _reduced(op, 2, dy, outer)
    return tuple(found)


def _row_gradient(
    b: ArrayBuilder,
    dy: Instruction,
    normal: Instruction,
    factor: Instruction,
    outer: tuple[int, ...],
    inner: tuple[int, ...],
) -> Instruction:
    """Return the gradient for an array whose rows (the dimensions `inner`) are normalized."""
    dims = dy.shape.dims
    shift = b.spread(_mean(b, dy, inner), dims, outer)
    tilt = b.spread(_mean(b, b.multiply(dy, normal), inner), dims, outer)
    rest = b.subtract(b.subtract(dy, shift), b.multiply(normal, tilt))
    return b.multiply(rest, b.spread(factor, dims, outer))


@RULES.rule("_weight_norm_interface_backward")
def _weight_norm_backward(
    op: Op, dw: Instruction, v: Instruction, g: Instruction, norms: Instruction, dim: int
) -> tuple[Instruction, ...]:
    """Return the gradients of v and g in w = v * g / norms, whose norms are over the other axes.

    Source: torch/native/WeightNorm.cpp.
    """
    b, rank, dtype = op.b, v.shape.rank, wider(v.shape.dtype)
    axis = op.axis(dim, rank)
    others = tuple(number for number in range(rank) if number != axis)
    dw, v, g, norms = (b.convert_to(item, dtype) for item in (dw, v, g, norms))
    size = (v.shape.dims[axis],)
    scale, norm = b.reshape_to(g, size), b.reshape_to(norms, size)
    sums = b.reduced("add", b.multiply(dw, v), others)
    wide = [
        b.spread(item, v.shape.dims, (axis,))
        for item in (b.divide(scale, norm), b.divide(sums, b.multiply(norm, norm)))
    ]
    dv = b.multiply(wide[0], b.subtract(dw, b.multiply(v, wide[1])))
    dg = b.reshape_to(b.divide(sums, norm), op.shape_of(1).dims)
    return tuple(
        b.convert_to(item, op.shape_of(number).dtype) for number, item in enumerate((dv, dg))
    )


def _reduced(op: Op, number: int, x: Instruction, axes: tuple[int, ...]) -> Instruction:
    """Return the sum over `axes` as result `number`."""
    shape = op.shape_of(number)
    return reshaped(op.b, op.b.convert_to(op.b.reduced("add", x, axes), shape.dtype), shape.dims)


def _grouped(op: Op, x: Instruction, channels: Size, groups: int, wide: DType) -> Instruction:
    """Return images as `[batch, groups, channels per group, space]`."""
    batch, _, *space = x.shape.dims
    x = guarded(op.b, x, (batch, channels, *space))
    dims = (batch, groups, dim_math.floordiv(channels, groups), dim_math.product(space))
    # PyTorch has checked that groups have one size, which a symbol does not show.
    return reshaped(op.b, op.b.convert_to(x, wide), dims)


def _channels(b: ArrayBuilder, vector: Given, like: Shape) -> Given:
    """Return a vector over channels as `[groups, channels per group]`."""
    if vector is None:
        return None
    return reshaped(b, b.convert_to(vector, like.dtype), like.dims[1:3])


@RULES.rule("native_group_norm")
def _group_norm(
    op: Op,
    given: Instruction,
    weight: Given,
    bias: Given,
    batch: Size,
    channels: Size,
    space: Size,
    groups: int,
    epsilon: float,
) -> tuple[Instruction, ...]:
    b = op.b
    del batch, space  # the operand's
    wide = wider(given.shape.dtype)
    x = _grouped(op, given, channels, groups, wide)
    average, variance = _moments(b, x, (2, 3))
    inverse = _inverse(b, variance, epsilon)
    y = b.normalized(x, average, inverse, (0, 1))
    y = _scaled(b, y, _channels(b, weight, x.shape), _channels(b, bias, x.shape), (1, 2))
    y = reshaped(b, b.convert_to(y, op.shape_of(0).dtype), op.shape_of(0).dims)
    return (y, *_statistics(op, average, inverse))


@RULES.rule("native_group_norm_backward")
def _group_norm_backward(
    op: Op,
    gradient: Instruction,
    given: Instruction,
    mean: Instruction,
    inverse: Instruction,
    weight: Given,
    batch: Size,
    channels: Size,
    space: Size,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Given, ...]:
    del batch, space
    b = op.b
    wide = wider(given.shape.dtype)
    x, dy = (_grouped(op, item, channels, groups, wide) for item in (given, gradient))
    average, factor = (b.convert_to(item, wide) for item in (mean, inverse))
    normal = b.normalized(x, average, factor, (0, 1))
    found: list[Given] = [None, None, None]
    if mask[0]:
        scaled = _scaled(b, dy, _channels(b, weight, x.shape), None, (1, 2))
        made = _row_gradient(b, scaled, normal, factor, (0, 1), (2, 3))
        shape = op.shape_of(0)
        found[0] = reshaped(b, b.convert_to(made, shape.dtype), shape.dims)
    if mask[1]:
        found[1] = _reduced(op, 1, b.multiply(dy, normal), (0, 3))
    if mask[2]:
        found[2] = _reduced(op, 2, dy, (0, 3))
    return tuple(found)
