# SPDX-License-Identifier: Apache-2.0
"""Random inputs for a module that are meaningful for their uses.

They are like those of XLA's MakeFakeArguments: an index of a gather, scatter or dynamic slice is
within the operand, keys of a sort do not repeat, the initial value of a reduction is neutral. The
uses of a parameter are found by following it through ops that move elements and into called
computations.

Source: xla/tests/test_utils.cc (MakeFakeArguments, CreateLiteralForConstrainedUses).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np

from ingot.evaluator import Value
from ingot.hlo.dim import evaluate
from ingot.hlo.dtype import PRED, DType, Kind
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Array
from ingot.hlo.module import Module
from ingot.hlo.opset.indexing import GatherAttributes, ScatterAttributes
from ingot.hlo.shape import Shape
from ingot.semantics.identities import identity_of
from ingot.support.records import mutable, record

Leaf = tuple[Instruction, tuple[int, ...]]
"""A leaf of an instruction's value."""

_MOVES = frozenset(
    {"bitcast", "broadcast", "convert", "copy", "opt-barrier", "reshape", "reverse", "slice",
     "set-dimension-size", "transpose", "get-tuple-element", "tuple"}
)  # fmt: skip
_SLICES = {"dynamic-slice": 1, "dynamic-update-slice": 2}
_FOLDS = frozenset({"add", "and", "maximum", "minimum", "multiply", "or", "xor"})
_REAL_OF = {"c64": np.float32, "c128": np.float64}
_STARTS = frozenset({"reduce", "reduce-window", "select-and-scatter"})


NORMAL, LARGE, ZEROS = "normal", "large", "zeros"
"""Distributions of unconstrained inputs: around 0; of every magnitude; all 0."""


@mutable
class Use:
    """The constraints on a leaf of a parameter.

    Attributes:
        most: greatest index that is in bounds in all uses.
        distinct: no element repeats.
        start: the neutral value of a reduction, if it is one's initial value.
    """

    most: int | None = None
    distinct: bool = False
    start: Any = None

    def bound(self, limit: int) -> None:
        """Record that the leaf is an index of at most `limit`."""
        self.most = max(0, limit) if self.most is None else min(self.most, max(0, limit))


def random_inputs(
    module: Module, seed: int, sizes: Mapping[str, int] | None = None, floats: str = NORMAL
) -> list[Value]:
    """Return a value for each entry parameter.

    Args:
        module: the program.
        seed: the same seed gives the same values.
        sizes: values of symbolic sizes.
        floats: `NORMAL`, `LARGE` or `ZEROS` (which holds for all element types).
    """
    draw = _Draw(np.random.default_rng(seed), floats)
    known = sizes or {}
    return [_value(draw, p, p.shape, (), known) for p in module.entry.parameters]


@record
class _Draw:
    generator: np.random.Generator
    floats: str


def symbols(module: Module) -> list[str]:
    """Return the names of the symbolic sizes of the entry's parameters."""
    found: dict[str, None] = {}
    for shape in module.parameter_shapes:
        for _, leaf in shape.leaves():
            for size in leaf.dims:
                if not isinstance(size, int) and size.is_symbol:
                    found[size.text] = None
    return list(found)


def _value(
    draw: _Draw,
    parameter: Instruction,
    shape: Shape,
    path: tuple[int, ...],
    sizes: Mapping[str, int],
) -> Value:
    if shape.is_tuple:
        return tuple(
            _value(draw, parameter, element, (*path, number), sizes)
            for number, element in enumerate(shape.elements)
        )
    dims = tuple(evaluate(size, sizes) for size in shape.dims)
    if shape.bounded:
        # Any size up to the bound.
        pairs = zip(dims, shape.bounded, strict=True)
        dims = tuple(
            int(draw.generator.integers(0, n, endpoint=True)) if f else n for n, f in pairs
        )
    return _array(draw, shape.dtype, dims, find_use(parameter, path, sizes))


def _array(draw: _Draw, kind: DType, dims: tuple[int, ...], use: Use) -> Array:
    if draw.floats == ZEROS:
        return np.zeros(dims, kind.numpy)
    generator, count = draw.generator, math.prod(dims)
    if use.start is not None:
        return np.full(dims, use.start).astype(kind.numpy)
    if use.most is not None and kind is not PRED:
        most = min(use.most, int(ml_dtypes.iinfo(kind.numpy).max)) if kind.is_integer else use.most
        return generator.integers(0, most, dims, endpoint=True).astype(kind.numpy)
    if use.distinct and kind is not PRED and not kind.is_complex:
        low = 0 if kind.kind is Kind.UNSIGNED else -(count // 2)
        return (low + generator.permutation(count)).reshape(dims).astype(kind.numpy)
    if kind is PRED:
        return generator.integers(0, 2, dims).astype(np.bool_)
    if kind.is_integer:
        limits = ml_dtypes.iinfo(kind.numpy)
        low, high = max(int(limits.min), -100), min(int(limits.max), 100)
        return generator.integers(low, high, dims, endpoint=True).astype(kind.numpy)
    made = _floats(draw, kind, dims)
    return (made + 1j * _floats(draw, kind, dims) if kind.is_complex else made).astype(kind.numpy)


def _floats(draw: _Draw, kind: DType, dims: tuple[int, ...]) -> Array:
    """Return normally distributed numbers, or numbers with uniformly distributed logarithms."""
    if draw.floats == NORMAL:
        return draw.generator.normal(size=dims)
    limits = cast("Any", ml_dtypes.finfo)(_REAL_OF.get(kind.name, kind.numpy))
    low, high = math.log2(float(limits.tiny)), math.log2(float(limits.max))
    return draw.generator.choice((-1.0, 1.0), dims) * 2 ** draw.generator.uniform(low, high, dims)


def find_use(parameter: Instruction, path: tuple[int, ...], sizes: Mapping[str, int]) -> Use:
    """Return the constraints on the leaf at `path` of a parameter."""
    use = Use()
    pending: list[Leaf] = [(parameter, path)]
    seen: set[Leaf] = set()
    while pending:
        leaf = pending.pop()
        if leaf in seen:
            continue
        seen.add(leaf)
        value, inner = leaf
        for user in value.users:
            for number, operand in enumerate(user.operands):
                if operand is value:
                    _constrain(use, user, number, sizes)
                    pending.extend(_followed(user, number, inner))
    return use


def _constrain(use: Use, user: Instruction, number: int, sizes: Mapping[str, int]) -> None:
    """Record the constraints of `user` on its operand `number`."""
    opcode = user.opcode
    if opcode in _SLICES and number >= _SLICES[opcode]:
        window = user.shape if opcode == "dynamic-slice" else user.operands[1].shape
        axis = number - _SLICES[opcode]
        whole = evaluate(user.operands[0].shape.dims[axis], sizes)
        use.bound(whole - evaluate(window.dims[axis], sizes))
    elif opcode == "gather" and number == 1:
        given = user.as_(GatherAttributes)
        for axis in given.start_index_map:
            size = evaluate(user.operands[0].shape.dims[axis], sizes)
            use.bound(size - evaluate(given.slice_sizes[axis], sizes))
    elif opcode == "scatter" and number == len(user.operands) // 2:
        _constrain_scatter(use, user, sizes)
    elif opcode == "sort":
        use.distinct = True
    elif opcode == "set-dimension-size" and number == 1:
        dim: int = user.attributes.dimensions[0]
        use.bound(evaluate(user.shape.dims[dim], sizes))
    elif opcode in _STARTS and number >= len(user.operands) // 2:
        _constrain_start(use, user, number)


def _constrain_scatter(use: Use, user: Instruction, sizes: Mapping[str, int]) -> None:
    given = user.as_(ScatterAttributes)
    operand, numbers = user.operands[0].shape, given.index_map
    window_dims = numbers.operand_window_dims(operand.rank)
    update = user.operands[-1].shape
    window = {
        axis: evaluate(update.dims[dim], sizes)
        for axis, dim in zip(window_dims, numbers.window_dims, strict=True)
    }
    for axis in numbers.index_to_operand:
        use.bound(evaluate(operand.dims[axis], sizes) - window.get(axis, 1))


def _constrain_start(use: Use, user: Instruction, number: int) -> None:
    """Record the neutral value of a reduction whose computation is a single op."""
    if user.opcode == "select-and-scatter":
        if number != 2:
            return
        called = user.attributes.scatter
    else:
        called = user.attributes.to_apply
    element, opcode = user.operands[number].shape.dtype, called.root.opcode
    use.start = identity_of(opcode, element) if opcode in _FOLDS else 0


def _followed(user: Instruction, number: int, path: tuple[int, ...]) -> Iterator[Leaf]:
    """Yield the values that hold the leaf `path` of operand `number` after `user`."""
    if user.opcode == "tuple":
        yield user, (number, *path)
    elif user.opcode == "get-tuple-element":
        if path[:1] == (user.attributes.index,):
            yield user, path[1:]
    elif user.opcode in _MOVES:
        yield user, path
    elif user.opcode in ("fusion", "call"):
        (called,) = user.called_computations
        yield called.parameters[number], path
    elif user.opcode == "while":
        for called in user.called_computations:
            yield called.parameters[0], path
        yield user, path
    elif user.opcode == "conditional" and number > 0:
        yield user.attributes.branch_computations[number - 1].parameters[0], path
