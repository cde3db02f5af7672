"""Patches of images: windows taken out as they are, or folded with a filter by max and plus.

Each tap of the window is one strided slice of the padded image. Source: TensorFlow's
`kernels/extract_image_patches_op.cc`, `dilation_ops.cc`.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.tensors import neutral
from ingot.frontends.tensorflow.lowering.values import Value
from ingot.frontends.tensorflow.lowering.windows import Layout, paddings
from ingot.hlo.instruction import Instruction


def _taps(
    op: Op, image: Instruction, kernel: tuple[int, int], rates: str, outside: Instruction
) -> dict[tuple[int, int], Instruction]:
    """Return, for each tap of the window, what it sees at each place of the result."""
    b = op.b
    layout = Layout(4, channels_first=False)
    strides, dilations = (layout.pick(op.attribute(name)) for name in ("strides", rates))
    sizes = layout.sizes(image.shape.dims)
    pads = paddings(op, layout, sizes, kernel, strides, dilations)
    counts: list[int] = []
    for axis, size in enumerate(sizes):
        if not isinstance(size, int):
            raise op.error("patches need image sizes that are known at compile time")
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        counts.append(max((size + sum(pads[axis]) - reach) // strides[axis] + 1, 0))
        image = b.padded(image, axis + 1, *pads[axis], outside)
    found: dict[tuple[int, int], Instruction] = {}
    for tap in np.ndindex(kernel):
        part = image
        for axis, place in enumerate(tap):
            start = place * dilations[axis]
            end = start + (counts[axis] - 1) * strides[axis] + 1 if counts[axis] else start
            part = b.sliced(part, axis + 1, start, end, strides[axis])
        found[tap[0], tap[1]] = part
    return found


def _patches(op: Op) -> Value:
    image = op.tensor(0)
    rows, columns = Layout(4, channels_first=False).pick(op.attribute("ksizes"))
    zero = op.b.constant(0, image.shape.dtype)
    taps = _taps(op, image, (rows, columns), "rates", zero)
    return op.b.concatenated(list(taps.values()), 3)


def _dilation(op: Op) -> Value:
    """The greatest of image plus filter over the window; what is outside does not count."""
    b, image, kernel = op.b, op.tensor(0), op.tensor(1)
    rows, columns, channels = kernel.shape.static_dims
    element = image.shape.dtype
    outside = b.constant(neutral("maximum", element), element)
    made: Instruction | None = None
    for (row, column), part in _taps(op, image, (rows, columns), "rates", outside).items():
        tap = b.sliced(b.sliced(kernel, 0, row, row + 1), 1, column, column + 1)
        term = b.binary("add", part, b.reshape_to(tap, (channels,)))
        made = term if made is None else b.maximum(made, term)
    if made is None:
        raise op.error("a filter without taps")
    return made


RULES: dict[str, Rule] = {"Dilation2D": _dilation, "ExtractImagePatches": _patches}
