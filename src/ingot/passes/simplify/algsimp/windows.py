# SPDX-License-Identifier: Apache-2.0
"""Parts of convolutions: only the part that is taken is computed.

A partitioner that gathers an image lets every device take its rows of the convolution; networks
with causal convolutions pad both sides and cut off one.
"""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.rewrite.pattern import m
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.hlo.window import WindowDimension
from ingot.support.records import record, replace


@record
class _Cut:
    """A spatial dimension of a convolution of which a part is taken.

    Attributes:
        number: its number among the spatial dimensions.
        input: its number in the input.
        output: its number in the result.
        one: its dimension of the window.
        extent: the input's size.
        count: how many windows there are.
        taken: how many of them are taken.
    """

    number: int
    input: int
    output: int
    one: WindowDimension
    extent: int
    count: int
    taken: int

    @property
    def spread(self) -> int:
        """The elements of the padded input that the windows that are taken see."""
        return self.one.reach(self.taken)


@rule(
    m.slice(m.convolution(..., name="inner")),
    example="""
        a = f32[2,12,5] convolution(f32[2,9,3] x, f32[4,3,5] w),
          window={size=4 pad=3_3}, dim_labels=b0f_0io->b0f
        b = f32[2,9,5] slice(a), slice={[0:2], [0:9], [0:5]}""",
)
def slice_of_convolution(
    root: Instruction, inner: Instruction, build: RuleBuilder
) -> Instruction | None:
    """slice(convolution(x)) => convolution(slice(x)), where rows or columns are cut off"""
    cuts = _cuts(root, inner)
    bounds = root.attributes.slice
    if not cuts or any(stride != 1 for _, _, stride in bounds):
        return None
    value = inner.operands[0]
    box = [(0, size, 1) for size in value.shape.dims]
    window = list(inner.as_(ConvolutionAttributes).window)
    for cut in cuts:
        start = bounds[cut.output][0]
        if not isinstance(start, int):
            return None
        begin = start * cut.one.stride - cut.one.low
        end = begin + cut.spread
        first, last = (min(max(edge, 0), cut.extent) for edge in (begin, end))
        if first == last:  # They see padding only.
            return None
        box[cut.input] = (first, last, 1)
        window[cut.number] = replace(cut.one, low=first - begin, high=end - last)
    return _convolved(inner, build.slice(value, slice=tuple(box)), window, root)


@rule(
    m.dynamic_slice(...),
    example="""
        j = s32[] constant(0)
        a = f32[2,5,5] convolution(f32[2,9,3] x, f32[3,3,5] w),
          window={size=3 stride=2 pad=1_1}, dim_labels=b0f_0io->b0f
        b = f32[2,2,5] dynamic-slice(a, j, s32[] i, j), dynamic_slice_sizes={2,2,5}""",
)
def dynamic_slice_of_convolution(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """dynamic-slice(convolution(x)) => convolution(dynamic-slice(pad(x))), of rows or columns"""
    inner = root.operands[0]
    cuts = _cuts(root, inner) if inner.opcode == "convolution" else []
    if not cuts:
        return None
    value = inner.operands[0]
    padding = [(0, 0, 0)] * value.shape.rank
    sizes = list(value.shape.dims)
    starts = [build.constant(0, S64)] * value.shape.rank
    window = list(inner.as_(ConvolutionAttributes).window)
    for cut in cuts:
        least, most = (build.constant(bound, S64) for bound in (0, cut.count - cut.taken))
        given = build.convert_to(root.operands[1 + cut.output], S64)
        start = build.clamp(least, given, most)
        starts[cut.input] = build.multiply(start, build.constant(cut.one.stride, S64))
        padding[cut.input] = (cut.one.low, cut.one.high, 0)
        sizes[cut.input] = cut.spread
        window[cut.number] = replace(cut.one, low=0, high=0)
    zero = build.constant(0, value.shape.dtype)
    padded = build.pad(value, zero, padding=tuple(padding))
    part = build.dynamic_slice(padded, *starts, dynamic_slice_sizes=tuple(sizes))
    return _convolved(inner, part, window, root)


def _cuts(root: Instruction, inner: Instruction) -> list[_Cut]:
    """Return the dimensions of which a part is taken; none if another use needs the rest."""
    if inner.use_count != 1 or inner.control_predecessors:
        return []
    given = inner.as_(ConvolutionAttributes)
    labels = given.labels
    found: list[_Cut] = []
    for output, letter in enumerate(labels.output):
        count, taken = inner.shape.dims[output], root.shape.dims[output]
        if count == taken:
            continue
        if not letter.isdigit():
            return []
        number, input = int(letter), labels.lhs.index(letter)
        extent, one = inner.operands[0].shape.dims[input], given.window[number]
        if isinstance(extent, Dim) or isinstance(count, Dim) or isinstance(taken, Dim):
            return []
        if one.base_dilation != 1 or taken == 0:
            return []
        found.append(_Cut(number, input, output, one, extent, count, taken))
    return found


def _convolved(
    inner: Instruction, value: Instruction, window: list[WindowDimension], root: Instruction
) -> Instruction:
    """Return a convolution of another input, of the shape of its part."""
    made = inner.computation.add(
        "convolution",
        (value, inner.operands[1]),
        replace(inner.as_(ConvolutionAttributes), window=tuple(window)),
        shape=root.shape,
        metadata=inner.metadata,
    )
    made.extra = dict(inner.extra)
    return made
