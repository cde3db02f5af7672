# SPDX-License-Identifier: Apache-2.0
"""Kernels: iteration spaces with what each point computes. Immutable; equal ones have one name.

A `LoopKernel` visits every point of its grid; at each it runs its passes in order. A pass loops
over axes of its own, feeds reductions and stores values; a finished reduction is a value for
every later pass. So `softmax` is a grid over rows with three passes, `reduce_sum(x + y*z)` an
empty grid with two (the sum, then its store).

A `ContractionKernel` is a batched matrix product whose operands are loads and whose stores are
expressions over the accumulator. An `AttentionKernel` is two of them with a softmax between.

Buffers are numbered: operands first, then results. Buffer data is dense and row-major; an index is
an element number.
"""

from __future__ import annotations

import math
from functools import cached_property

from ingot.analysis.direct_convolution import ConvolutionSizes
from ingot.hlo.dim import Dim, product, symbols_of
from ingot.hlo.dtype import DType
from ingot.kernel.expr import Expr, argument, compute, converted, scalar, varies, walk
from ingot.support.records import record


@record
class Axis:
    """A loop variable: 0 <= `name` < extent."""

    name: str
    extent: int | Dim

    @property
    def known_extent(self) -> int:
        """The extent of an axis that is known to have a number."""
        assert isinstance(self.extent, int), f"the extent of {self.name} is symbolic"
        return self.extent


@record
class Buffer:
    """A kernel argument.

    Attributes:
        dtype: element type.
        size: number of elements.
        is_output: whether the kernel writes it.
    """

    dtype: DType
    size: int | Dim
    is_output: bool


@record
class Combiner:
    """How a reduction folds: results as expressions over arguments (accumulators, then inputs)."""

    results: tuple[Expr, ...]

    @property
    def opcode(self) -> str | None:
        """The opcode, when this is one commutative op of the two arguments."""
        if len(self.results) != 1:
            return None
        (result,) = self.results
        plain = len(result.args) == 2 and all(arg.op == "argument" for arg in result.args)
        return result.op if plain and result.args[0] is not result.args[1] else None


@record
class Reduction:
    """A fold over a pass's axes; its value is `reduced(number, …)` afterwards."""

    number: int
    combiner: Combiner
    inits: tuple[Expr, ...]
    inputs: tuple[Expr, ...]


@record
class Store:
    """A write of `value` to element `index` of `buffer`.

    Attributes:
        buffer: number of the buffer.
        index: element; may use `$k`, the k-th of `values`.
        value: the written value.
        values: run-time values of the index.
        mask: where it is false nothing is written.
        combiner: if given, the element becomes combiner(element, value).
    """

    buffer: int
    index: int | Dim
    value: Expr
    values: tuple[Expr, ...] = ()
    mask: Expr | None = None
    combiner: Combiner | None = None

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """Everything that is computed to make the store."""
        mask = (self.mask,) if self.mask is not None else ()
        return (*mask, *self.values, self.value)

    @property
    def is_simple(self) -> bool:
        """Whether it writes everywhere, at indices that axes alone determine."""
        return self.is_once and not self.values

    @property
    def is_once(self) -> bool:
        """Whether axes alone tell where it writes, beside values that all points share."""
        is_plain = self.mask is None and self.combiner is None
        return is_plain and not any(value.axes for value in self.values)


@record
class Pass:
    """One sweep over `axes` at a grid point (no axes: once).

    Attributes:
        axes: what it loops over.
        reductions: what it folds.
        stores: what it writes at each of its points.
        is_running: its points are visited in order, and its stores may use its reductions, as far
            as they have come (a scan).
    """

    axes: tuple[Axis, ...]
    reductions: tuple[Reduction, ...] = ()
    stores: tuple[Store, ...] = ()
    is_running: bool = False

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """Every expression that the pass evaluates at each of its points."""
        found = [value for reduction in self.reductions for value in reduction.inputs]
        for store in self.stores:
            found.extend(store.exprs)
        return tuple(found)


@record
class LoopKernel:
    """A grid and its passes.

    Attributes:
        grid: outer axes, slowest first; points are independent unless `serial`.
        passes: run in order at each grid point.
        buffers: arguments.
        serial: points must run in order, one after the other (scatter).
        local_buffers: numbered after `buffers`; each grid point has them to itself.
        parameters: names of sizes that its schedule needs besides those in the kernel.
    """

    grid: tuple[Axis, ...]
    passes: tuple[Pass, ...]
    buffers: tuple[Buffer, ...]
    serial: bool = False
    local_buffers: tuple[Buffer, ...] = ()
    parameters: tuple[str, ...] = ()

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the grid, then those of each pass."""
        return (*self.grid, *(axis for item in self.passes for axis in item.axes))

    @cached_property
    def stores(self) -> tuple[Store, ...]:
        """The stores of all passes."""
        return tuple(store for item in self.passes for store in item.stores)

    @cached_property
    def has_loops(self) -> bool:
        """Whether a pass has axes of its own: a point is more than its expressions."""
        return any(item.axes for item in self.passes)

    @cached_property
    def exprs(self) -> tuple[Expr, ...]:
        """Every expression, initial values included."""
        found: list[Expr] = []
        for item in self.passes:
            found.extend(item.exprs)
            for reduction in item.reductions:
                found.extend(reduction.inits)
        return tuple(found)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbolic sizes that the kernel needs, sorted."""
        inner = [axis for item in self.passes for axis in item.axes]
        indices = [store.index for item in self.passes for store in item.stores]
        found = kernel_symbols(self.exprs, [*self.grid, *inner], indices)
        return tuple(sorted({*found, *self.parameters}))

    @property
    def grid_size(self) -> int | Dim:
        """Number of grid points."""
        return product(axis.extent for axis in self.grid)


@record
class Patches:
    """How the lhs of a contraction depends on axes behind m and k (a convolution's).

    Attributes:
        m: axes whose row-major product is m.
        k: axes whose row-major product is k.
        along_k: whether loads are dense along the last axis of `k`, else of `m`.
    """

    m: tuple[Axis, ...]
    k: tuple[Axis, ...]
    along_k: bool


@record
class PlainConvolution(ConvolutionSizes):
    """A convolution of operands that lie in memory as they are.

    The lhs is [batch, *sizes, channels], the rhs, the filter, [*window, channels / groups,
    features], the result [batch, *results, features]. In a filter's gradient the rhs is
    [batch, *window, features] and the result [*results, channels, features].

    Attributes:
        lhs, rhs: buffer numbers of the operands.
        is_of_filter: whether it is a filter's gradient.
    """

    lhs: int
    rhs: int
    is_of_filter: bool = False


@record
class ContractionKernel:
    """out[b, m, n] = epilogue(sum over k of lhs[b, m, k] * rhs[b, k, n]).

    Attributes:
        batch, m, n, k: the axes (an extent-1 batch when there is none).
        lhs, rhs: operand elements as expressions over the axes, in the operand's own type.
        accumulate: element type of the sum.
        stores: written once per (b, m, n); values use the `accumulator` leaf.
        buffers: arguments.
        patches: if given, the lhs is over its axes instead of m and k.
    """

    batch: Axis
    m: Axis
    n: Axis
    k: Axis
    lhs: Expr
    rhs: Expr
    accumulate: DType
    stores: tuple[Store, ...]
    buffers: tuple[Buffer, ...]
    patches: Patches | None = None

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbolic sizes that the kernel needs, sorted."""
        exprs = (self.lhs, self.rhs, *(e for store in self.stores for e in store.exprs))
        axes = [self.batch, self.m, self.n, self.k]
        return kernel_symbols(exprs, axes, [store.index for store in self.stores])


@record
class ConvolutionKernel:
    """A convolution that shared code may run, and the kernel that computes the same by itself.

    Attributes:
        convolution: operands, sizes and window; all sizes but the batch are numbers.
        general: the implicit matrix product, with the epilogue among its stores; or, where each
            feature is a sum over its own channel alone, loops, whose last buffer is the result.
        product: if `general` is loops that compute more than the sums, the implicit matrix product,
            whose stores are the epilogue of shared code.
    """

    convolution: PlainConvolution
    general: ContractionKernel | LoopKernel
    product: ContractionKernel | None = None

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Arguments."""
        return self.general.buffers

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbolic sizes that the kernel needs, sorted."""
        return self.general.symbols


@record
class AttentionKernel:
    """softmax(scores(queries * keys)) * values, for each row of queries; nothing of it is stored.

    With s[b, m, n] = scores(sum over k of lhs[b, m, k] * rhs[b, n, k]), r0 their greatest along n,
    p = power(s, shift(r0)) and r1 the sum of p along n, `accumulator` in the stores is the sum over
    n of p[b, m, n] * values[b, n, e]. The weights are not divided by r1: a store does that.

    Attributes:
        batch, m, n, k, e: the axes (an extent-1 batch when there is none).
        lhs, rhs, values: operand elements as expressions over the axes, in the operand's own type.
        accumulate: element type of all sums.
        scores: a score, from the `accumulator` leaf of the first product.
        shift: subtracted from the scores of a row, from `reduced` r0.0. Any number gives
            the same weights, so that powers may be taken with another one and corrected.
        power: from arguments 0, a score, and 1, the shift.
        stores: written once per (b, m, e), or per (b, m) where neither index nor value has e;
            values use the `accumulator` leaf, r0.0 and r1.0.
        buffers: arguments.
    """

    batch: Axis
    m: Axis
    n: Axis
    k: Axis
    e: Axis
    lhs: Expr
    rhs: Expr
    values: Expr
    accumulate: DType
    scores: Expr
    shift: Expr
    power: Expr
    stores: tuple[Store, ...]
    buffers: tuple[Buffer, ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes."""
        return (self.batch, self.m, self.n, self.k, self.e)

    @cached_property
    def greatest(self) -> Reduction:
        """The greatest score of a row, r0."""
        return self._fold(0, "maximum", -math.inf, self.scores)

    @cached_property
    def total(self) -> Reduction:
        """The sum of a row's powers, r1."""
        return self._fold(1, "add", 0, converted(self.power, self.accumulate))

    def _fold(self, number: int, op: str, initial: float, value: Expr) -> Reduction:
        element = value.dtype
        sides = (argument(0, element), argument(1, element))
        start = scalar(initial, element)
        return Reduction(number, Combiner((compute(op, *sides),)), (start,), (value,))

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbolic sizes that the kernel needs, sorted."""
        exprs = (self.lhs, self.rhs, self.values, self.scores, self.shift, self.power)
        stored = tuple(e for store in self.stores for e in store.exprs)
        indices = [store.index for store in self.stores]
        return kernel_symbols((*exprs, *stored), list(self.axes), indices)


@record
class SortKernel:
    """Rows sorted together, stably: element (outer, position, inner) of every operand.

    Attributes:
        outer, length, inner: extents; a row is `length` elements, `inner` apart.
        comparator: whether the left elements come before the right ones; arguments are left and
            right of operand 0, then of operand 1 …
        buffers: arguments; results stand last, in the order of the operands.
        operands: buffer number of each operand.
    """

    outer: int | Dim
    length: int | Dim
    inner: int | Dim
    comparator: Expr
    buffers: tuple[Buffer, ...]
    operands: tuple[int, ...]

    @property
    def elements(self) -> tuple[DType, ...]:
        """Element type of each operand."""
        return tuple(self.buffers[number].dtype for number in self.operands)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbolic sizes that the kernel needs, sorted."""
        return kernel_symbols((), [], [self.outer, self.length, self.inner])


@record
class FftKernel:
    """Fourier transforms of the last dimensions.

    Attributes:
        kind: FFT, IFFT, RFFT or IRFFT.
        lengths: sizes of the transformed dimensions (of the real side, for a real transform).
        batch: transforms.
        element: the complex element type.
        buffers: operand and result.
    """

    kind: str
    lengths: tuple[int, ...]
    batch: int | Dim
    element: DType
    buffers: tuple[Buffer, ...]

    @property
    def inverse(self) -> bool:
        """Whether this goes from spectra to signals."""
        return self.kind in ("IFFT", "IRFFT")

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbolic sizes that the kernel needs, sorted."""
        return kernel_symbols((), [], [self.batch])


@record
class TopKKernel:
    """The first elements of each row in order, with their indices.

    Attributes:
        rows: rows.
        length: elements of a row.
        k: elements that are wanted.
        largest: whether the greatest come first, else the least.
        buffers: operand, values, indices (s32).
    """

    rows: int | Dim
    length: int | Dim
    k: int
    largest: bool
    buffers: tuple[Buffer, ...]

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbolic sizes that the kernel needs, sorted."""
        return kernel_symbols((), [], [self.rows, self.length])


OwnKernel = LoopKernel | ContractionKernel | AttentionKernel | SortKernel | FftKernel | TopKKernel
"""Kernels that say themselves how each element is computed."""

Kernel = ConvolutionKernel | OwnKernel


def general_kernel(kernel: Kernel) -> OwnKernel:
    """Return what computes a convolution without shared code; other kernels as they are."""
    return kernel.general if isinstance(kernel, ConvolutionKernel) else kernel


def kernel_symbols(
    exprs: tuple[Expr, ...], axes: list[Axis], indices: list[int | Dim]
) -> tuple[str, ...]:
    """Return the size names (neither axes nor run-time values) in expressions and extents."""
    sizes: list[int | Dim] = [axis.extent for axis in axes] + indices
    for item in walk(exprs):
        if item.op == "load":
            sizes.append(item.payload.index)
        elif item.op == "index":
            sizes.append(item.payload)
    return tuple(sorted(name for name in symbols_of(sizes) if not varies(name)))
