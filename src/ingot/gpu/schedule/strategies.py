# SPDX-License-Identifier: Apache-2.0
"""The strategies of the GPU: the work of the threads of a block, in fields of its own.

A strategy is decided by its `match` function (`decide`) and spelled out by its emitter
(`gpu.emit.kernel`). Invariant: plain data; equal schedules are equal code.
"""

from __future__ import annotations

from typing import Literal

from ingot.hlo.dim import Dim
from ingot.kernel.expr import Expr
from ingot.kernel.fft import build as fft
from ingot.kernel.ir import Axis, Buffer, Kernel
from ingot.support.records import record


@record
class Threads:
    """A thread for each grid point, which runs all passes, folds and scans in order."""

    name = "a thread per point"


@record
class InOrder:
    """Updates in the order of the grid, in parallel where they cannot meet.

    Attributes:
        apart: grid axes whose points write different elements: each thread has a point of these,
            and visits the points of the others in order.
    """

    name = "in order"

    apart: tuple[Axis, ...]


@record
class SortedUpdates:
    """A thread for each element that is updated, which makes its updates in the order of the grid.

    Attributes:
        elements: buffer of the elements that grid points update, in ascending order.
        points: buffer of the points' numbers in the grid, those of one element in order.
    """

    name = "sorted updates"

    elements: int
    points: int


@record
class WarpRows:
    """A warp folds each grid point: its lanes run along the last axis of each pass."""

    name = "a warp per row"


@record
class WarpScan:
    """A warp walks each grid point's running fold, an element for each lane at a time."""

    name = "a warp per scan"


@record
class BlockRows:
    """A block folds each grid point: its threads run along the last axis of each pass."""

    name = "a block per row"


@record
class Columns:
    """The lanes of a warp are neighbours on a grid axis; the warps of a block share the rows.

    Attributes:
        axis: the grid axis.
    """

    name = "columns"

    axis: Axis


@record
class TransposeTiles:
    """Loads across the axis of the stores go through padded tiles in shared memory.

    Attributes:
        along: the grid axis that stores walk with stride one.
        across: the grid axis that the transposed loads walk with stride one.
        loads: the transposed loads.
    """

    name = "transposed tiles"

    along: Axis
    across: Axis
    loads: tuple[Expr, ...]


PART = "@part"
"""The axis of the parts of a long sum, in a stage that has parts."""


@record
class TiledContraction:
    """A block computes a tile of the product, from tiles of both operands in shared memory.

    Attributes:
        lhs_along_k: whether neighbouring threads read neighbours along k of the lhs, else along m.
        rhs_along_k: likewise for the rhs, else along n.
        tile: rows, and columns, of the product that a block computes.
        depth: positions along k that are in shared memory at a time.
        part: positions along k that a block adds up, a multiple of `depth` (None: all).
    """

    name = "tiled contraction"

    lhs_along_k: bool
    rhs_along_k: bool
    tile: int
    depth: int
    part: int | None = None


@record
class Feed:
    """How an operand comes into shared memory.

    Attributes:
        along_k: whether rows of shared memory are along k, else along m or n.
        neighbours_along_k: whether neighbouring threads read neighbours along k.
        chunks: whether 16 bytes that lie together in memory are copied at a time, asynchronously.
    """

    along_k: bool
    neighbours_along_k: bool
    chunks: bool


@record
class TensorCores:
    """A block computes a tile of the product by products of warps (mma.sync).

    Attributes:
        lhs: how the lhs is fed.
        rhs: how the rhs is fed.
        tile: rows, and columns, of the product that a block computes.
        depth: positions along k that are in shared memory at a time.
        part: positions along k that a block adds up, a multiple of `depth` (None: all).
    """

    name = "tensor cores"

    lhs: Feed
    rhs: Feed
    tile: int
    depth: int
    part: int | None = None


@record
class SortBuffers:
    """Where the elements of a sort are, by buffer numbers in the order of the operands.

    Attributes:
        results: the last stage leaves them here.
        scratch: stages alternate between these and the results; none if there is one stage.
        keys: operands of which a tile's elements are in shared memory while it is compared.
    """

    results: tuple[int, ...]
    scratch: tuple[int, ...]
    keys: tuple[int, ...]


@record
class SortTiles:
    """A block sorts a tile of a row, or several short rows.

    Attributes:
        buffers: where elements are.
        slots: slots of a row in a tile: a power of two.
    """

    name = "sorted tiles"

    buffers: SortBuffers
    slots: int


@record
class MergeRuns:
    """A block makes a tile of the merge of two neighbouring sorted runs, of a width each.

    Attributes:
        buffers: where elements are.
    """

    name = "merged runs"

    buffers: SortBuffers


@record
class Selection:
    """A block finds the first elements of a part of a row, a tile of new ones at a time.

    All parts but the last are full and have at least as many elements as are wanted, so those that
    are found lie one after the other.

    Attributes:
        comparator: the order, of arguments left and right; equal elements go by their index.
        source: buffer of the elements, and that of their indices (if it is missing, an element's
            index is its position in the row).
        target: buffers of the elements and indices that are found.
        length: elements of a row.
        pitch: elements between rows of the source.
        part: elements of a part.
        parts: parts of a row.
        slots: elements that a block compares at a time: a power of two.
    """

    name = "selection"

    comparator: Expr
    source: tuple[int, ...]
    target: tuple[int, int]
    length: int | Dim
    pitch: int | Dim
    part: int | Dim
    parts: int | Dim
    slots: int


@record
class SequenceTransforms:
    """A block transforms a few sequences, pass by pass from one tile to another.

    Attributes:
        stage: the transform.
        inverse: whether real and imaginary parts are exchanged on the way in and out.
        source: buffer that the stage reads.
        target: buffer that it writes.
        sequences: how many a block has.
        room: complex elements of a sequence in a tile.
        tiles: buffer with the tiles of every block, where shared memory is too small for them.
    """

    name = "transforms of sequences"

    stage: fft.Stage
    inverse: bool
    source: int
    target: int
    sequences: int
    room: int
    tiles: int | None


@record
class ChirpConvolution:
    """A thread for each element: a step of transforms that are convolutions with a chirp.

    Between the steps are transforms of a length with small factors. The chirp's own transform is
    made with those of the sequences, behind them.

    Attributes:
        step: sequences times the chirp, and the chirp; the products of transforms; the results.
        stage: the transform.
        inverse: whether real and imaginary parts are exchanged on the way in and out.
        source: buffer that the step reads.
        target: buffer that it writes.
        room: elements of a sequence that is convolved.
    """

    name = "convolution with a chirp"

    step: Literal["begin", "multiply", "end"]
    stage: fft.Stage
    inverse: bool
    source: int
    target: int
    room: int


@record
class SpectrumFold:
    """A thread for each element: real transforms are taken out of half-length ones, or packed.

    Attributes:
        stage: the step of the transform.
        source: buffer that the stage reads.
        target: buffer that it writes.
    """

    name = "fold of spectra"

    stage: fft.FoldStage
    source: int
    target: int


Strategy = (
    Threads
    | InOrder
    | SortedUpdates
    | WarpScan
    | WarpRows
    | BlockRows
    | Columns
    | TransposeTiles
    | TiledContraction
    | SortTiles
    | MergeRuns
    | Selection
    | SequenceTransforms
    | ChirpConvolution
    | SpectrumFold
    | TensorCores
)


@record
class Widths:
    """The widths that a stage is launched for, one after the other: first, 2 * first, ... < end."""

    first: int
    end: int | Dim


@record
class Stage:
    """One launch: what the threads of its blocks do.

    Attributes:
        kernel: the emitted kernel; a strategy may have rewritten it. Its buffers are those of the
            kernel that is scheduled, then the schedule's scratch. The extent of a pass may vary
            with the grid, which no kernel has before it is scheduled.
        strategy: what the threads of a block do.
        blocks: blocks of the grid.
        threads: threads of a block.
        widths: if given, it is launched once for each, and its last parameter says for which.
    """

    kernel: Kernel
    strategy: Strategy
    blocks: int | Dim
    threads: int
    widths: Widths | None = None


@record
class GpuSchedule:
    """How a kernel runs on a GPU.

    Attributes:
        stages: launches, one after the other.
        scratch: buffers that the stages share, numbered after the kernel's.
        sizes: names of the symbolic sizes that every stage gets.
        refused: strategies earlier in the table, and why each did not take the kernel.
    """

    stages: tuple[Stage, ...]
    scratch: tuple[Buffer, ...] = ()
    sizes: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def strategy(self) -> str:
        """How it runs, in words."""
        return ", then ".join(dict.fromkeys(stage.strategy.name for stage in self.stages))


def one_stage(kernel: Kernel, strategy: Strategy, blocks: int | Dim, threads: int) -> GpuSchedule:
    """Return the schedule of a kernel that is one launch."""
    return GpuSchedule((Stage(kernel, strategy, blocks, threads),))
