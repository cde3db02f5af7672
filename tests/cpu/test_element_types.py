# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops and conversions in every element type, bit for bit as the evaluator has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dtype import dtype
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.llvm.target import host_levels

pytestmark = pytest.mark.fast_share(8)

FLOATS = ("f32", "f64", "f16", "bf16")
SIGNED = ("s8", "s16", "s32", "s64")
UNSIGNED = ("u8", "u16", "u32", "u64")
TYPES = (*FLOATS, *SIGNED, *UNSIGNED, "pred")
COUNT = 37
"""Whole vectors and a tail at every width."""

UNARY = {
    "float": ("abs", "negate", "sign", "floor", "ceil", "round-nearest-even", "round-nearest-afz",
              "sqrt", "is-finite"),
    "signed": ("abs", "negate", "sign", "not", "popcnt", "count-leading-zeros"),
    "unsigned": ("not", "popcnt", "count-leading-zeros", "sign"),
    "pred": ("not",),
}  # fmt: skip
BINARY = {
    "float": ("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder"),
    "integer": ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and",
                "or", "xor", "shift-left", "shift-right-arithmetic", "shift-right-logical",
                "power"),
    "pred": ("and", "or", "xor", "maximum", "minimum"),
}  # fmt: skip
LEVELS = host_levels()
# Lower levels convert f16 by integer arithmetic and have no vectors of their own for much else.
RUNS = [
    pytest.param(name, level, marks=() if fast else pytest.mark.slow)
    for name in TYPES
    for level in LEVELS
    for fast in (level == LEVELS[0] or (level == LEVELS[-1] and name in ("f16", "s64")),)
]


def _kind(name: str) -> str:
    if name in FLOATS:
        return "float"
    return "pred" if name == "pred" else "signed" if name in SIGNED else "unsigned"


def _values(name: str, seed: int) -> Any:
    """Return ordinary values and the edges of the type."""
    storage = dtype(name).numpy
    generator = np.random.default_rng(seed)
    if name == "pred":
        return generator.integers(0, 2, COUNT).astype(np.bool_)
    if name in FLOATS:
        values = (generator.standard_normal(COUNT) * 10).astype(storage)
        edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 1e-7, -3e-5,
                 65504.0, 3e38, -3e38]  # fmt: skip
        with np.errstate(over="ignore"):
            values[: len(edges)] = np.array(edges).astype(storage)
        return generator.permutation(values)
    info = np.iinfo(storage)
    values = generator.integers(info.min, info.max, COUNT, storage, endpoint=True)
    small = [0, 1, 2, 3, 5, 7, info.max, info.min, info.max - 1]
    small += [-1, -2, -7] if info.min < 0 else []
    values[: len(small)] = np.array(small, dtype=storage)
    return generator.permutation(values)


def _check(builder: Builder, roots: dict[str, Any], inputs: list[Any], level: str) -> None:
    module = Module.of("types", builder.build(builder.tuple(*roots.values())))
    agrees(module, inputs, exact="signs", level=level, names=[*roots])


@pytest.mark.parametrize(("name", "level"), RUNS)
def test_elementwise_ops(name: str, level: str) -> None:
    kind = _kind(name)
    builder = Builder("main")
    shape = Shape.array(name, (COUNT,))
    x, y = builder.parameter(0, shape), builder.parameter(1, shape)
    roots = {op: builder.emit(op, x) for op in UNARY[kind]}
    binary = BINARY["integer" if kind in ("signed", "unsigned") else kind]
    roots |= {op: builder.emit(op, x, y) for op in binary}
    for direction in ("EQ", "NE", "LT", "LE", "GT", "GE"):
        roots[direction] = builder.compare(x, y, direction=direction)
    roots["select"] = builder.select(roots["LT"], x, y)
    if kind != "pred":
        roots["clamp"] = builder.clamp(builder.minimum(x, y), y, builder.maximum(x, y))
    _check(builder, roots, [_values(name, 1), _values(name, 2)], level)


@pytest.mark.parametrize(("source", "level"), RUNS)
def test_conversions_to_every_type(source: str, level: str) -> None:
    builder = Builder("main")
    x = builder.parameter(0, Shape.array(source, (COUNT,)))
    roots = {
        target: builder.emit("convert", x, shape=x.shape.with_dtype(target))
        for target in TYPES
        if target != source
    }
    _check(builder, roots, [_values(source, 3)], level)


@pytest.mark.parametrize("pair", [("f32", "s32"), ("f64", "u64"), ("f16", "u16"), ("bf16", "s16")])
def test_bits_are_reinterpreted(pair: tuple[str, str]) -> None:
    builder = Builder("main")
    first, second = (
        builder.parameter(n, Shape.array(name, (COUNT,))) for n, name in enumerate(pair)
    )
    roots = {
        "there": builder.bitcast_convert(first, shape=first.shape.with_dtype(pair[1])),
        "back": builder.bitcast_convert(second, shape=second.shape.with_dtype(pair[0])),
    }
    inputs = [_values(name, number) for number, name in enumerate(pair)]
    _check(builder, roots, inputs, LEVELS[0])


@pytest.mark.parametrize("name", [*FLOATS, *SIGNED, *UNSIGNED])
def test_sums_and_extremes(name: str) -> None:
    builder = Builder("main")
    x = builder.parameter(0, Shape.array(name, (5, 70)))
    roots = {
        f"{op} {places}": _reduced(builder, x, op, places)
        for op in ("add", "maximum", "minimum")
        for places in ((0,), (1,), (0, 1))
    }
    integers = np.random.default_rng(4).integers(0, 3, (5, 70)).astype(dtype(name).numpy)
    _check(builder, roots, [integers], LEVELS[len(name) % len(LEVELS)])


def _reduced(builder: Builder, x: Any, op: str, places: tuple[int, ...]) -> Any:
    start = builder.constant({"add": 0, "maximum": 0, "minimum": 9}[op], x.shape.dtype)
    reducer = scalar_computation(op, x.shape.dtype)
    return builder.reduce(x, start, dimensions=places, to_apply=reducer)
