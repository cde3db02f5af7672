# SPDX-License-Identifier: Apache-2.0
"""The verifier of loop kernels: what must hold of every kernel, whoever made it.

Runs after every kernel pass in debug mode (`INGOT_DEBUG=4`) and in tests (`kernel.loop.pipeline`).
A constraint has a label, which the error names.

Example:
    >>> from ingot.hlo.dtype import F32
    >>> from ingot.kernel.ir import Buffer, Pass
    >>> kernel = LoopKernel((Axis("@0", 4),), (Pass(()),), (Buffer(F32, 4, True),))
    >>> verify_kernel(kernel)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import PRED
from ingot.hlo.opdef import find
from ingot.kernel.expr import LEAVES, Expr, axis_names, varies, walk
from ingot.kernel.ir import Axis, Buffer, Combiner, LoopKernel, Reduction, Store
from ingot.support.diagnostics import InternalError


def verify_kernel(kernel: LoopKernel, pass_name: str = "") -> None:
    """Check a kernel.

    Args:
        kernel: what is checked.
        pass_name: the pass that made it, for the error.

    Raises:
        InternalError: INGOT0932, with the label of the constraint that does not hold.
    """
    broken = next(_broken(kernel), None)
    if broken is not None:
        label, message = broken
        raise InternalError(f"{label}: {message}", code="INGOT0932", pass_name=pass_name)


Broken = Iterator[tuple[str, str]]
"""Yields the label of a constraint that does not hold, and what is wrong."""


def _broken(kernel: LoopKernel) -> Broken:
    yield from _broken_axes(kernel.grid, kernel.grid)
    known: dict[int, tuple[Reduction, frozenset[str]]] = {}
    grid = frozenset(axis.name for axis in kernel.grid)
    for item in kernel.passes:
        yield from _broken_axes(item.axes, (*kernel.grid, *item.axes))
        names = grid | {axis.name for axis in item.axes}
        for fold in item.reductions:
            yield from _broken_reduction(kernel, fold, grid, names, known)
        visible = dict(known)
        for fold in item.reductions:
            known[fold.number] = fold, grid
            if item.is_running:
                visible[fold.number] = fold, names
        for store in item.stores:
            yield from _broken_store(kernel, store, names, visible)


def _broken_axes(axes: tuple[Axis, ...], together: tuple[Axis, ...]) -> Broken:
    names = [axis.name for axis in together]
    if len(set(names)) < len(names):
        yield "axes_unique", f"two axes have one name: {', '.join(names)}"
    for axis in axes:
        if not axis.name.startswith("@"):
            yield "axis_name", f"the axis {axis.name} has the name of a size"
        if any(map(varies, symbols_of((axis.extent,)))):
            yield "axis_extent", f"the extent {axis.extent} of {axis.name} varies"
        if isinstance(axis.extent, int) and axis.extent < 0:
            yield "axis_extent", f"{axis.name} has the extent {axis.extent}"


Folds = dict[int, tuple[Reduction, frozenset[str]]]
"""Reductions that are finished, with the axes that their values vary with."""


def _broken_reduction(
    kernel: LoopKernel, fold: Reduction, grid: frozenset[str], names: frozenset[str], known: Folds
) -> Broken:
    if fold.number in known:
        yield "reduction_number", f"two reductions have the number {fold.number}"
    count = len(fold.inputs)
    if not count == len(fold.inits) == len(fold.combiner.results):
        yield "reduction_arity", f"reduction {fold.number} has other inputs, inits and results"
    for init, value, result in zip(fold.inits, fold.inputs, fold.combiner.results, strict=False):
        if not init.dtype == value.dtype == result.dtype:
            types = f"{init.dtype}, {value.dtype} and {result.dtype}"
            yield "reduction_types", f"reduction {fold.number} folds {types}"
    yield from _broken_combiner(fold.combiner, [value.dtype.name for value in fold.inputs])
    yield from _broken_exprs(kernel, fold.inits, grid, known)
    yield from _broken_exprs(kernel, fold.inputs, names, known)


def _broken_combiner(combiner: Combiner, types: list[str]) -> Broken:
    for node in walk(combiner.results):
        if node.op == "argument":
            if not 0 <= node.payload < 2 * len(types):
                yield "combiner_argument", f"argument {node.payload} of {2 * len(types)}"
            elif node.dtype.name != types[node.payload % len(types)]:
                yield "combiner_argument", f"argument {node.payload} is {node.dtype}"
        elif node.op in LEAVES and node.op != "constant":
            yield "combiner_leaf", f"a combiner has {node.op}"


def _broken_store(kernel: LoopKernel, store: Store, names: frozenset[str], known: Folds) -> Broken:
    target = _buffer(kernel, store.buffer)
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
        yield from _broken_combiner(store.combiner, [store.value.dtype.name])
    yield from _broken_index(store.index, store.values, names)
    yield from _broken_exprs(kernel, store.exprs, names, known)


def _broken_exprs(
    kernel: LoopKernel, exprs: tuple[Expr, ...], names: frozenset[str], known: Folds
) -> Broken:
    for node in walk(exprs):
        if node.op == "load":
            yield from _broken_load(kernel, node, names)
        elif node.op == "index":
            yield from _broken_index(node.payload, node.args, names)
        elif node.op == "reduced":
            yield from _broken_value(node, names, known)
        elif node.op in ("argument", "accumulator"):
            yield "leaf", f"{node.op} stands outside of what has one"
        elif node.op != "constant":
            yield from _broken_op(node)


def _broken_load(kernel: LoopKernel, node: Expr, names: frozenset[str]) -> Broken:
    access = node.payload
    source = _buffer(kernel, access.buffer)
    if source is None:
        yield "buffer_number", f"a load from buffer {access.buffer}"
    elif source.dtype is not node.dtype:
        yield "load_type", f"{node.dtype} from {source.dtype}"
    if access.masked and (not node.args or node.args[0].dtype is not PRED):
        yield "mask_type", "a masked load has no pred first"
    yield from _broken_index(access.index, node.args[access.masked :], names)


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


def _broken_value(node: Expr, names: frozenset[str], known: Folds) -> Broken:
    number: int
    output: int
    number, output, axes = node.payload
    if number not in known:
        yield "reduced_known", f"reduction {number} is not finished here"
        return
    fold, varies = known[number]
    if output >= len(fold.inputs):
        yield "reduced_output", f"output {output} of reduction {number}"
    elif fold.inputs[output].dtype is not node.dtype:
        yield "reduced_type", f"{node.dtype} of {fold.inputs[output].dtype}"
    if not axes <= varies | names:
        yield "reduced_axes", f"reduction {number} does not vary with {', '.join(sorted(axes))}"


def _broken_op(node: Expr) -> Broken:
    least, greatest = find(node.op).arity
    if not least <= len(node.args) <= (len(node.args) if greatest is None else greatest):
        yield "op_arity", f"{node.op} of {len(node.args)} operands"
    if node.op == "compare" and node.dtype is not PRED:
        yield "op_types", f"a comparison is {node.dtype}"
    if node.op == "select" and [arg.dtype for arg in node.args] != [PRED, node.dtype, node.dtype]:
        yield "op_types", f"select of {', '.join(str(arg.dtype) for arg in node.args)}"


def _buffer(kernel: LoopKernel, number: int) -> Buffer | None:
    buffers = (*kernel.buffers, *kernel.kept)
    return buffers[number] if 0 <= number < len(buffers) else None
