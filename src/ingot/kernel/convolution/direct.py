# SPDX-License-Identifier: Apache-2.0
"""Direct convolutions of every size: sums over segments of the image's memory.

The sum of a result runs over *segments*: runs of k whose image elements lie side by side (a row of
the window, or the channels of a pixel, or a part of them). The offset of each segment from the
first element of the window is the same for every result, so one table of offsets serves all, and
neighbouring results along the last dimension are a constant step apart. So register blocks read the
image in place. Where windows meet padding, a unit first copies the rows that it needs, with zeros
around them.

A unit is some *lines* (rows of the result along the last dimension) by a block of features. It
loops over panels of features, and over the pieces of each panel: as many segments as fit into the
L1 cache, for all register blocks of the unit. Panels of the taps are packed before the units run;
where each panel has only one unit, that unit packs its pieces itself. The convolution of a dilated
input is several dense ones, its parts (`analysis.direct_convolution`).

Invariant: each sum adds its products in order of k, as in every other contraction kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ingot.analysis.direct_convolution import DIMENSIONS, MIN_FEATURES, Part, Sizes, parts_of
from ingot.analysis.library import VECTORS
from ingot.hlo.dim import Dim, ceil_div
from ingot.hlo.dtype import DType
from ingot.kernel.contraction.micro_blocks import BlockMaker, MicroBlock
from ingot.kernel.contraction.operands import cell_bits
from ingot.kernel.contraction.register_block import most_rows
from ingot.kernel.convolution.direct_parts import (
    MAX_ALL_CHUNKS,
    DirectNumbers,
    RegisterBlock,
    plan_part,
    tap_rows,
)
from ingot.kernel.convolution.plain import driven_element, joined_groups
from ingot.kernel.driver_parameters import SCRATCH_CHUNKS, Chunks, DriverParameters
from ingot.kernel.ir import ConvolutionKernel, LoopKernel
from ingot.kernel.product.product import NO_DRIVER
from ingot.llvm.machine_model import Vectors
from ingot.support.records import mutable, record, replace


@record
class DirectPart(DriverParameters):
    """A part of a convolution that is summed directly."""

    NAMES = DirectNumbers.c_layout.names


@record
class Direct:
    """How a convolution is summed directly.

    Attributes:
        parts: its parts.
        element: type of operands and sums.
        panel: vectors of a row of a register block, lanes of one.
        packing_chunks: chunks of panels that are packed before.
        chunks: chunks of units.
        scratch_bytes: bytes of scratch.
        rest: columns that are left over behind the whole panels.
        is_depthwise: whether each feature is a sum over its own channel alone.
    """

    parts: tuple[DirectPart, ...]
    element: DType
    panel: tuple[int, int]
    packing_chunks: int
    chunks: int | Dim
    scratch_bytes: int
    rest: int
    is_depthwise: bool

    def micro_blocks(self, part: DirectPart) -> tuple[MicroBlock, ...]:
        """Return the blocks of a part's micro-kernels, in the order of its env."""
        vectors, lanes = self.panel
        found = BlockMaker(self.element, lanes, vectors * lanes).in_panels(part.heights, self.rest)
        # Depthwise taps are few.
        return tuple(replace(one, rows_ahead=0) for one in found) if self.is_depthwise else found


def direct_convolution(kernel: ConvolutionKernel, vectors: Vectors) -> Direct | str:
    """Return how the shared driver sums a convolution, or why it cannot or would be slow."""
    given, general = kernel.convolution, kernel.general
    if given.is_of_filter:
        return "it is the gradient of a filter"
    if not 1 <= len(given.window) <= DIMENSIONS:
        return f"the window does not have 1 to {DIMENSIONS} dimensions"
    is_loop = isinstance(general, LoopKernel)
    element = driven_element(kernel, vectors)
    if element is None:
        return NO_DRIVER
    sizes = Sizes.of(given)
    lanes = vectors.lanes(cell_bits(element), 1)
    panel = _group_panel(sizes, lanes)
    if panel is not None and not is_loop and general.batch.extent == 1:
        # Groups side by side, a panel each: they share the copied rows.
        sizes = replace(sizes, are_joined=True)
    else:
        panel = sizes.panel(lanes)
    if is_loop and not sizes.is_depthwise:
        return "each feature is not a sum over its own channel alone"
    if is_loop and kernel.product is not None:
        return "its epilogue is part of loops"
    cell = cell_bits(element) // 8
    rows = most_rows(panel[0], vectors)
    if sizes.is_depthwise:
        rows = tap_rows(sizes.segment(cell), panel[0], vectors)
    return sizes.refusal(panel, cell) or _plan(sizes, element, RegisterBlock(*panel, rows, cell))


def side_by_side(kernel: ConvolutionKernel, vectors: Vectors) -> ConvolutionKernel:
    """Return a convolution whose groups are joined where each fills a panel; others as they are.

    The epilogue of a depthwise one, whose groups have one feature, is joined too.
    """
    given = kernel.convolution
    if kernel.product is not None:
        return joined_groups(kernel) or kernel
    lanes = vectors.lanes(cell_bits(kernel.general.buffers[given.lhs].dtype), 1)
    panel = _group_panel(Sizes.of(given), lanes)
    return kernel if panel is None else joined_groups(kernel) or kernel


def _group_panel(sizes: Sizes, lanes: int) -> tuple[int, int] | None:
    """Return the panel that a group fills, if it has as many features as channels."""
    width = sizes.group_features
    if sizes.unit_groups == 1 or width != sizes.group_channels:
        return None
    if width == VECTORS * lanes:
        return VECTORS, lanes
    is_vector = MIN_FEATURES <= width <= lanes and width & (width - 1) == 0
    return (1, width) if is_vector else None


def _plan(sizes: Sizes, element: DType, block: RegisterBlock) -> Direct:
    parts = tuple(parts_of(sizes))
    max_chunks = min(SCRATCH_CHUNKS, ceil_div(MAX_ALL_CHUNKS, max(1, len(parts))))
    found = [plan_part(part, block) for part in parts]
    n_block = min(plan["n_block"] for plan in found)
    if any(plan["n_block"] != n_block for plan in found):
        found = [plan_part(part, block, n_block) for part in parts]
    used = _lay_out(found, parts, block.columns, max_chunks)
    return Direct(
        tuple(used.parts),
        element,
        (block.vectors, block.lanes),
        used.packing,
        used.chunks,
        block.cell * used.elements,
        sizes.unit_features % block.columns,
        sizes.is_depthwise,
    )


@mutable
class _Used:
    """Parts, with their chunks of packing and of units, and their elements of scratch."""

    packing: int = 0
    chunks: int | Dim = 0
    elements: int = 0
    parts: list[DirectPart] = field(default_factory=list[DirectPart])


def _lay_out(
    plans: Sequence[dict[str, int]], parts: Sequence[Part], columns: int, max_chunks: int
) -> _Used:
    """Give each part its chunks and its parts of the scratch: packed panels, then chunks."""
    used = _Used()
    for plan, part in zip(plans, parts, strict=True):
        plan["first_packing"], plan["panels_at"] = used.packing, used.elements
        panels = part.sizes.unit_groups * plan["panels"] * plan["is_packed"]
        if part.depth:
            used.packing += ceil_div(panels, plan["panel_grain"])
        used.elements += panels * part.depth * columns
    for plan, part in zip(plans, parts, strict=True):
        units = part.sizes.batch * part.outer * plan["line_units"] * plan["blocks"]
        chunks = Chunks.of(units, max_chunks)
        counts = {"units": units, "grain": chunks.grain, "first_chunk": used.chunks}
        numbers = {**plan, **counts, "chunks_at": used.elements}
        used.parts.append(DirectPart(tuple(numbers[name] for name in DirectPart.NAMES)))
        used.chunks += chunks.count
        used.elements += chunks.room * plan["chunk_elements"]
    return used
