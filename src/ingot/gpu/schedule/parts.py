# SPDX-License-Identifier: Apache-2.0
"""Long sums of products with few blocks: parts of k have blocks of their own.

The first launch stores the sums of each part in scratch, the second one adds them up and makes the
product's stores. Invariant: how many parts there are depends on sizes alone, and they are added in
the order of k.
"""

from __future__ import annotations

from ingot.gpu.machine import BLOCKS, GpuMachine
from ingot.gpu.schedule.strategies import PART, Stage, Threads
from ingot.gpu.schedule.sums import sum_of, with_sums
from ingot.hlo.dim import Dim, ceil_div, product
from ingot.hlo.dtype import PRED
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr
from ingot.kernel.index_math import linearize
from ingot.kernel.ir import Axis, Buffer, ContractionKernel, LoopKernel, Pass, Store
from ingot.support.records import record, replace

LEAST_PART = 512
"""Positions along k that are worth a block."""


@record
class InParts:
    """A product whose sums are cut into parts.

    Attributes:
        first: stores the sums of the part `PART` in scratch, behind the other buffers.
        second: adds the parts up, and makes the product's stores.
        scratch: room for the sums.
    """

    first: ContractionKernel
    second: LoopKernel
    scratch: Buffer

    def last_stage(self, machine: GpuMachine) -> Stage:
        """Return the launch that adds up."""
        blocks = ceil_div(self.second.grid_size, machine.threads)
        return Stage(self.second, Threads(), blocks, machine.threads)


def most_parts(kernel: ContractionKernel, blocks: int | Dim) -> int:
    """Return how many parts the sums of a product of `blocks` blocks are cut into, at most."""
    length = kernel.k.extent
    # Sums of logical values are not additions, and complex sums have no parts.
    is_number = kernel.accumulate is not PRED and not kernel.accumulate.is_complex
    if not isinstance(blocks, int) or not isinstance(length, int) or not is_number or blocks == 0:
        return 1
    return max(1, min(BLOCKS // blocks, length // LEAST_PART))


def in_parts(kernel: ContractionKernel, parts: int) -> InParts:
    """Return the two kernels of a product whose sums are cut into `parts` parts."""
    axes = (Axis(PART, parts), kernel.batch, kernel.m, kernel.n)
    scratch = Buffer(kernel.accumulate, product(axis.extent for axis in axes), True)
    index = linearize(
        [0 if axis.extent == 1 else Dim.symbol(axis.name) for axis in axes],
        [axis.extent for axis in axes],
    )
    number, buffers = len(kernel.buffers), (*kernel.buffers, scratch)
    store = Store(number, index, _accumulator(kernel))
    first = replace(kernel, stores=(store,), buffers=buffers)
    part = ex.load(number, index, kernel.accumulate)
    fold = Pass((axes[0],), (sum_of(0, part),))
    total = ex.reduced(0, 0, kernel.accumulate, frozenset(axis.name for axis in axes[1:]))
    finish = Pass((), (), with_sums(kernel.stores, total))
    return InParts(first, LoopKernel(axes[1:], (fold, finish), buffers), scratch)


def _accumulator(kernel: ContractionKernel) -> Expr:
    names = tuple(sorted(axis.name for axis in (kernel.batch, kernel.m, kernel.n)))
    return ex.make("accumulator", kernel.accumulate, (), names)
