# SPDX-License-Identifier: Apache-2.0
"""The verifier of kernels: constraints that hold for every kernel, whoever made it.

Runs after every kernel pass that changed a kernel (`INGOT_DEBUG=1`, and in tests) and on parsed
kernels (`kernel.parse`). In debug mode (`INGOT_DEBUG=4`) it runs on kernels that no pass sees, too:
those that strategies and schedules make. A constraint has a label, which the error names.

Example:
    >>> from ingot.hlo.dtype import F32
    >>> from ingot.kernel.ir import Buffer, Pass
    >>> kernel = LoopKernel((Axis("@0", 4),), (Pass(()),), (Buffer(F32, 4, True),))
    >>> verify_kernel(kernel)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import PRED, S32, DType
from ingot.hlo.opdef import Trait, find
from ingot.hlo.shape import Shape
from ingot.kernel.expr import LEAVES, Expr, axis_names, varies, walk
from ingot.kernel.ir import (
    AttentionKernel,
    Axis,
    Buffer,
    Combiner,
    ContractionKernel,
    ConvolutionKernel,
    FftKernel,
    Kernel,
    LoopKernel,
    PlainConvolution,
    Reduction,
    SortKernel,
    Store,
    TopKKernel,
)
from ingot.support.diagnostics import InternalError, VerifyError
from ingot.support.records import record, replace


def verify_kernel(kernel: Kernel, pass_name: str = "", *, launch: Axes = None) -> None:
    """Check a kernel.

    Args:
        kernel: the kernel that is checked.
        pass_name: the pass or strategy that made it, for the error.
        launch: if a schedule made it of a kernel, for one of several launches: the axes that this
            launch has beside the kernel's. The extents of passes may then vary with the grid.

    Raises:
        InternalError: INGOT0932, with the label of the constraint that does not hold.
    """
    broken = broken_constraint(kernel, launch)
    if broken is not None:
        raise InternalError(broken, code="INGOT0932", pass_name=pass_name)


def broken_constraint(kernel: Kernel, launch: Axes = None) -> str | None:
    """Return the label of a constraint that does not hold and the reason, None if all do.

    Args:
        kernel: the kernel that is checked.
        launch: as for `verify_kernel`.
    """
    found = _broken(kernel, launch)
    return next((f"{label}: {message}" for label, message in found), None)


Axes = frozenset[str] | None
"""Names of axes, if any are known beside a kernel's own."""

Broken = Iterator[tuple[str, str]]
"""Yields the label of a constraint that does not hold, and the reason."""

Folds = dict[int, tuple[Reduction, frozenset[str]]]
"""Reductions that are finished, with the axes that their values vary with."""


@record
class _Scope:
    """What may stand in an expression.

    Attributes:
        buffers: of the kernel.
        names: axes.
        folds: reductions that are finished.
        total: type of the sum of a contraction, where it is finished.
    """

    buffers: tuple[Buffer, ...]
    names: frozenset[str]
    folds: Folds
    total: DType | None = None

    def buffer(self, number: int) -> Buffer | None:
        """Return a buffer by its number, None where there is none."""
        return self.buffers[number] if 0 <= number < len(self.buffers) else None


def _broken(kernel: Kernel, launch: Axes) -> Broken:
    yield from _broken_buffers(kernel.buffers)
    if isinstance(kernel, ConvolutionKernel):
        yield from _broken_convolution(kernel.convolution, len(kernel.buffers))
        if kernel.product is not None:
            yield from _broken_contraction(kernel.product, None)
        kernel = kernel.general
    if isinstance(kernel, LoopKernel):
        yield from _broken_loop(kernel, launch)
    elif isinstance(kernel, ContractionKernel):
        yield from _broken_contraction(kernel, launch)
    elif isinstance(kernel, AttentionKernel):
        yield from _broken_attention(kernel)
    elif isinstance(kernel, SortKernel):
        yield from _broken_sort(kernel)
    elif isinstance(kernel, FftKernel):
        yield from _broken_fft(kernel)
    else:
        yield from _broken_top_k(kernel)


def _broken_loop(kernel: LoopKernel, launch: Axes) -> Broken:
    yield from _broken_axes(kernel.grid, kernel.grid)
    yield from _broken_buffers(kernel.local_buffers)
    if not all(buffer.is_output for buffer in kernel.local_buffers):
        yield "local_output", "a local buffer that nothing may write"
    grid = frozenset(axis.name for axis in kernel.grid)
    scope = _Scope((*kernel.buffers, *kernel.local_buffers), grid, {})
    for item in kernel.passes:
        known = frozenset[str]() if launch is None else grid | launch
        yield from _broken_axes(item.axes, (*kernel.grid, *item.axes), known)
        inside = replace(scope, names=grid | {axis.name for axis in item.axes})
        numbers = [fold.number for fold in item.reductions]
        if len(set(numbers)) < len(numbers):
            yield "reduction_number", f"two reductions have one number: {numbers}"
        for fold in item.reductions:
            yield from _broken_reduction(fold, scope, inside)
        visible = dict(scope.folds)
        for fold in item.reductions:
            scope.folds[fold.number] = fold, grid
            if item.is_running:
                visible[fold.number] = fold, inside.names
        for store in item.stores:
            yield from _broken_store(store, replace(inside, folds=visible))


def _broken_contraction(kernel: ContractionKernel, launch: Axes) -> Broken:
    batch, m, n, k = axes = (kernel.batch, kernel.m, kernel.n, kernel.k)
    more = launch or frozenset[str]()
    patches = kernel.patches
    inner = (m, k) if patches is None else (*patches.m, *patches.k)
    yield from _broken_axes(axes, axes)
    yield from _broken_axes(inner, (batch, n, *inner))
    lhs = _Scope(kernel.buffers, more.union(axis.name for axis in (batch, *inner)), {})
    yield from _broken_exprs((kernel.lhs,), lhs)
    rhs = more.union((batch.name, n.name, k.name))
    yield from _broken_exprs((kernel.rhs,), replace(lhs, names=rhs))
    after = replace(lhs, names=more.union((batch.name, m.name, n.name)), total=kernel.accumulate)
    for store in kernel.stores:
        yield from _broken_store(store, after)


def _broken_attention(kernel: AttentionKernel) -> Broken:
    batch, m, n, k, e = (axis.name for axis in kernel.axes)
    yield from _broken_axes(kernel.axes, kernel.axes)
    rows = frozenset((batch, m))
    plain = _Scope(kernel.buffers, rows | {k}, {})
    yield from _broken_exprs((kernel.lhs,), plain)
    yield from _broken_exprs((kernel.rhs,), replace(plain, names=frozenset((batch, n, k))))
    yield from _broken_exprs((kernel.values,), replace(plain, names=frozenset((batch, n, e))))
    scores = replace(plain, names=rows | {n}, total=kernel.accumulate)
    yield from _broken_exprs((kernel.scores,), scores)
    yield from _broken_arguments((kernel.power,), [kernel.scores.dtype.name] * 2)
    if kernel.power.dtype is not kernel.scores.dtype or not kernel.accumulate.is_float:
        yield "attention_types", f"{kernel.power.dtype} of {kernel.scores.dtype}, summed up"
        return
    folds: Folds = {0: (kernel.greatest, rows)}
    yield from _broken_exprs((kernel.shift,), replace(plain, names=rows, folds=folds))
    after = replace(scores, names=rows | {e}, folds={**folds, 1: (kernel.total, rows)})
    for store in kernel.stores:
        yield from _broken_store(store, after)


def _broken_sort(kernel: SortKernel) -> Broken:
    wrong = [number for number in kernel.operands if not 0 <= number < len(kernel.buffers)]
    if wrong or not kernel.operands:
        yield "sort_operands", f"operands {kernel.operands} of {len(kernel.buffers)} buffers"
        return
    types = [element.name for element in kernel.elements for _ in range(2)]
    yield from _broken_arguments((kernel.comparator,), types)
    if kernel.comparator.dtype is not PRED:
        yield "sort_comparator", f"a comparator gives {kernel.comparator.dtype}"
    yield from _broken_sizes((kernel.outer, kernel.length, kernel.inner))


def _broken_fft(kernel: FftKernel) -> Broken:
    if kernel.kind not in ("FFT", "IFFT", "RFFT", "IRFFT"):
        yield "fft_kind", f"{kernel.kind} is no transform"
    if not kernel.element.is_complex or len(kernel.buffers) != 2:
        yield "fft_buffers", f"a transform of {len(kernel.buffers)} buffers in {kernel.element}"
    yield from _broken_sizes((*kernel.lengths, kernel.batch))


def _broken_top_k(kernel: TopKKernel) -> Broken:
    types = [buffer.dtype for buffer in kernel.buffers]
    if len(types) != 3 or types[0] is not types[1] or types[2] is not S32:
        yield "top_k_buffers", f"values and indices of {', '.join(map(str, types))}"
    yield from _broken_sizes((kernel.rows, kernel.length, kernel.k))


def _broken_buffers(buffers: tuple[Buffer, ...]) -> Broken:
    yield from _broken_sizes(buffer.size for buffer in buffers)


def _broken_sizes(sizes: Iterable[int | Dim]) -> Broken:
    for size in sizes:
        is_negative = isinstance(size, int) and size < 0
        if is_negative or any(map(varies, symbols_of((size,)))):
            yield "size", f"the size {size} is negative or varies"


def _broken_convolution(given: PlainConvolution, buffers: int) -> Broken:
    yield from _broken_sizes((given.batch,))
    if not (0 <= given.lhs < buffers and 0 <= given.rhs < buffers):
        yield "convolution_buffers", f"buffers {given.lhs} and {given.rhs} of {buffers}"
    rank = len(given.window)
    if not rank == len(given.sizes) == len(given.results):
        yield "convolution_rank", f"{given.sizes} to {given.results} by {rank} dimensions"


def _broken_axes(
    axes: tuple[Axis, ...],
    together: tuple[Axis, ...],
    known: frozenset[str] = frozenset(),
) -> Broken:
    """Check axes among all that are known together; extents may vary with those in `known`."""
    names = [axis.name for axis in together]
    if len(set(names)) < len(names):
        yield "axes_unique", f"two axes have one name: {', '.join(names)}"
    for axis in axes:
        if not axis.name.startswith("@"):
            yield "axis_name", f"the axis {axis.name} has the name of a size"
        if any(varies(name) and name not in known for name in symbols_of((axis.extent,))):
            yield "axis_extent", f"the extent {axis.extent} of {axis.name} varies"
        if isinstance(axis.extent, int) and axis.extent < 0:
            yield "axis_extent", f"{axis.name} has the extent {axis.extent}"


def _broken_reduction(fold: Reduction, before: _Scope, inside: _Scope) -> Broken:
    if fold.number in before.folds:
        yield "reduction_number", f"two reductions have the number {fold.number}"
    count = len(fold.inputs)
    if not count == len(fold.inits) == len(fold.combiner.results):
        yield "reduction_arity", f"reduction {fold.number} has other inputs, inits and results"
    for init, value, result in zip(fold.inits, fold.inputs, fold.combiner.results, strict=False):
        if not init.dtype == value.dtype == result.dtype:
            types = f"{init.dtype}, {value.dtype} and {result.dtype}"
            yield "reduction_types", f"reduction {fold.number} folds {types}"
    yield from _broken_combiner(fold.combiner, [value.dtype.name for value in fold.inputs])
    yield from _broken_exprs(fold.inits, before)
    yield from _broken_exprs(fold.inputs, inside)


def _broken_combiner(combiner: Combiner, types: list[str]) -> Broken:
    yield from _broken_arguments(combiner.results, types * 2)


def _broken_arguments(results: tuple[Expr, ...], types: list[str]) -> Broken:
    """Check expressions over arguments of some types alone."""
    for node in walk(results):
        if node.op == "argument":
            if not 0 <= node.payload < len(types):
                yield "combiner_argument", f"argument {node.payload} of {len(types)}"
            elif node.dtype.name != types[node.payload]:
                yield "combiner_argument", f"argument {node.payload} is {node.dtype}"
        elif node.op not in LEAVES:
            yield from _broken_op(node)
        elif node.op != "constant":
            yield "combiner_leaf", f"a combiner has {node.op}"


def _broken_store(store: Store, scope: _Scope) -> Broken:
    target = scope.buffer(store.buffer)
    if target is None:
        yield "buffer_number", f"a store to buffer {store.buffer}"
        return
    if not target.is_output:
        yield "store_output", f"a store to buffer {store.buffer}, which is an input"
    if target.dtype is not store.value.dtype:
        yield "store_type", f"{store.value.dtype} into {target.dtype}"
    if store.mask is not None and store.mask.dtype is not PRED:
        yield "mask_type", f"a store's mask is {store.mask.dtype}"
    if store.combiner is not None:
        if len(store.combiner.results) != 1:
            yield "store_combiner", f"an element becomes {len(store.combiner.results)}"
        yield from _broken_combiner(store.combiner, [store.value.dtype.name])
    yield from _broken_index(store.index, store.values, scope.names)
    yield from _broken_exprs(store.exprs, scope)


def _broken_exprs(exprs: tuple[Expr, ...], scope: _Scope) -> Broken:
    for node in walk(exprs):
        if node.op == "load":
            yield from _broken_load(node, scope)
        elif node.op == "index":
            yield from _broken_index(node.payload, node.args, scope.names)
        elif node.op == "reduced":
            yield from _broken_value(node, scope)
        elif node.op == "accumulator" and scope.total is not None:
            if node.dtype is not scope.total or not node.axes <= scope.names:
                yield "accumulator", f"the sum is {scope.total}, not {node.dtype}, or has no axis"
        elif node.op in ("argument", "accumulator"):
            yield "leaf", f"{node.op} stands outside of what has one"
        elif node.op != "constant":
            yield from _broken_op(node)


def _broken_load(node: Expr, scope: _Scope) -> Broken:
    access = node.payload
    source = scope.buffer(access.buffer)
    if source is None:
        yield "buffer_number", f"a load from buffer {access.buffer}"
    elif source.dtype is not node.dtype:
        yield "load_type", f"{node.dtype} from {source.dtype}"
    if access.masked and (not node.args or node.args[0].dtype is not PRED):
        yield "mask_type", "a masked load has no pred first"
    yield from _broken_index(access.index, node.args[access.masked :], scope.names)


def _broken_index(index: int | Dim, values: Iterable[Expr], names: frozenset[str]) -> Broken:
    values = tuple(values)
    outside = axis_names(index) - names
    if outside:
        yield "index_axes", f"the index {index} has {', '.join(sorted(outside))}, which is not here"
    for name in symbols_of((index,)):
        if name[0] == "$" and int(name[1:]) >= len(values):
            yield "index_values", f"the index {index} has {len(values)} values"
    for value in values:
        if not (value.dtype.is_integer or value.dtype is PRED):
            yield "index_values", f"a value of the index {index} is {value.dtype}"


def _broken_value(node: Expr, scope: _Scope) -> Broken:
    number: int
    output: int
    number, output, axes = node.payload
    if number not in scope.folds:
        yield "reduced_known", f"reduction {number} is not finished here"
        return
    fold, varies = scope.folds[number]
    if output >= len(fold.inputs):
        yield "reduced_output", f"output {output} of reduction {number}"
    elif fold.inputs[output].dtype is not node.dtype:
        yield "reduced_type", f"{node.dtype} of {fold.inputs[output].dtype}"
    if not axes <= varies | scope.names:
        yield "reduced_axes", f"reduction {number} does not vary with {', '.join(sorted(axes))}"


def _broken_op(node: Expr) -> Broken:
    """Check an op by its own rule, on scalars."""
    definition = find(node.op)
    if not definition.has(Trait.ELEMENTWISE) and node.op != "bitcast-convert":
        yield "op_elementwise", f"{node.op} is not computed element by element"
        return
    if not isinstance(node.payload, definition.attributes):
        yield "op_attributes", f"{node.op} has {node.payload}"
        return
    operands = tuple(Shape.array(arg.dtype, ()) for arg in node.args)
    declared = Shape.array(node.dtype, ())
    try:
        found = definition.result(operands, node.payload, declared).dtype
    except VerifyError as error:
        yield "op", error.diagnostic.message
        return
    if found is not node.dtype:
        yield "op_type", f"{node.op} gives {found}, not {node.dtype}"
