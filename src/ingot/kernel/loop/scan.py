# SPDX-License-Identifier: Apache-2.0
"""From a fused scan (`analysis.scans`) to a loop kernel with a running value.

The grid is every dimension but the scanned one. One pass walks that dimension in order, folds, and
stores the running value at every step. The scan's operands are computed on the way, as in any loop
kernel.
"""

from __future__ import annotations

from ingot.analysis.frames import ONE, FrameMap
from ingot.analysis.scans import Scan
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.elemental.points import Point
from ingot.kernel.elemental.rules import elemental_lowering
from ingot.kernel.index_math import linearize
from ingot.kernel.ir import Axis, LoopKernel, Pass, Reduction, Store
from ingot.kernel.loop.build import axis_name, buffers_of, combiner_of, point_of


def build_scan_kernel(fused: Computation, scan: Scan) -> LoopKernel:
    """Return the kernel of a fused computation whose root is a scan."""
    root = fused.root
    dims = root.operands[0].shape.dims
    count = len(root.operands) // 2
    frames = FrameMap()
    frame = frames.axes_for(dims)
    extents = {axis_name(n): extent for n, extent in enumerate(frames.extents)}
    lowering = elemental_lowering(fused, extents)
    point = point_of(frame)
    scanned = frame[scan.dimension]
    if scan.is_reverse:
        index: list[int | Dim] = list(point.index)
        index[scan.dimension] = dims[scan.dimension] - 1 - index[scan.dimension]
        point = Point(tuple(index))
    inputs = tuple(lowering.operand(root, n, point) for n in range(count))
    inits = tuple(lowering.operand(root, count + n, Point(())) for n in range(count))
    fold = Reduction(0, combiner_of(root), inits, inputs)
    where = linearize(point.index, dims)
    first = len(fused.parameters)
    names = frozenset(extents)
    stores = tuple(
        Store(first + n, where, ex.reduced(0, n, value.dtype, names))
        for n, value in enumerate(inputs)
    )
    axes = {axis: Axis(axis_name(axis), frames.extents[axis]) for axis in frame if axis != ONE}
    sweep = Pass((axes.pop(scanned),), (fold,), stores, is_running=True)
    return LoopKernel(tuple(axes.values()), (sweep,), buffers_of(fused))
