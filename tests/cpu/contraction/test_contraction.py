# SPDX-License-Identifier: Apache-2.0
"""Contraction kernels against NumPy: shapes, layouts, types, fusions, targets, tilings."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from tests.cpu.contraction.harness import compile_contraction, guarded

from ingot.hlo.builder import Builder
from ingot.llvm.target import TargetSpec, host_features
from ingot.runtime.native import native_runtime

pytestmark = pytest.mark.fast_share(4)

LEVELS = [
    level
    for level, feature in (("avx512", "avx512f"), ("avx2", "avx2"), ("plain", "sse2"))
    if feature in host_features()
]
STORAGE = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "s32": np.int32,
    "s64": np.int64,
    "u8": np.uint8,
    "s8": np.int8,
    "pred": np.bool_,
}
TOLERANCE = {"f32": 2e-5, "f64": 1e-12, "bf16": 1e-2, "f16": 2e-3}


def sample(generator, shape, name="f32"):
    """Return random values that suit the type."""
    if name == "pred":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if name in TOLERANCE:
        return generator.standard_normal(shape).astype(STORAGE[name])
    return generator.integers(0 if name == "u8" else -9, 9, shape).astype(STORAGE[name])


def text_of(name, dims):
    return f"{name}[{','.join(map(str, dims))}]"


def add_dot(b, x, y, batch, lhs_transposed=False, rhs_transposed=False, **given):
    """Add a dot of [batch, m, k] (or [batch, k, m]) and [batch, k, n] (or [batch, n, k])."""
    first = int(batch)
    places = tuple(range(first))
    return b.dot(
        x,
        y,
        lhs_batch_dims=places,
        rhs_batch_dims=places,
        lhs_contracting_dims=(first + (0 if lhs_transposed else 1),),
        rhs_contracting_dims=(first + (1 if rhs_transposed else 0),),
        **given,
    )


def product(dims, transposed=(False, False), name="f32"):
    """Return the computation of one dot; `dims` are (batch or None, m, n, k)."""
    batch, m, n, k = dims
    outer = () if batch is None else (batch,)
    b = Builder("f")
    x = b.parameter(0, text_of(name, (*outer, *((k, m) if transposed[0] else (m, k)))))
    y = b.parameter(1, text_of(name, (*outer, *((n, k) if transposed[1] else (k, n)))))
    return b.build(add_dot(b, x, y, batch is not None, *transposed))


def operands(generator, dims, transposed=(False, False), name="f32"):
    """Return random operands of `product`, and their product in high precision."""
    batch, m, n, k = dims
    outer = () if batch is None else (batch,)
    x = sample(generator, (*outer, *((k, m) if transposed[0] else (m, k))), name)
    y = sample(generator, (*outer, *((n, k) if transposed[1] else (k, n))), name)
    wide = np.float64 if name in TOLERANCE else np.int64
    left = np.swapaxes(x, -1, -2) if transposed[0] else x
    right = np.swapaxes(y, -1, -2) if transposed[1] else y
    return x, y, left.astype(wide) @ right.astype(wide)


def check(compiled, inputs, expected, name="f32", sizes=None, depth=1):
    """Run and compare; nothing beside the result may be written."""
    result, untouched = guarded(expected.shape, STORAGE[name])
    compiled(inputs, [result], sizes)
    assert untouched()
    compare(result, expected, name, depth)
    return result


def compare(result, expected, name="f32", depth=1):
    if name not in TOLERANCE:
        np.testing.assert_array_equal(result, expected.astype(result.dtype))
        return
    scale = max(1.0, float(depth) ** 0.5)
    tolerance = TOLERANCE[name]
    given = result.astype(np.float64)
    np.testing.assert_allclose(given, expected, rtol=tolerance, atol=tolerance * scale)


SHAPES = [
    (None, 1, 1, 1),
    (None, 3, 5, 7),
    (None, 17, 64, 13),
    (None, 64, 17, 31),
    (None, 100, 100, 64),
    (None, 257, 33, 100),
    (None, 1, 257, 100),
    (None, 257, 1, 100),
    (None, 31, 10, 257),
    (3, 17, 17, 5),
    (64, 2, 3, 4),
    (2, 29, 130, 17),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dims", SHAPES, ids=str)
def test_static_shapes(dims, level, generator):
    compiled = compile_contraction(product(dims), TargetSpec.host(level))
    x, y, expected = operands(generator, dims)
    check(compiled, [x, y], expected, depth=dims[-1])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("transposed", [(False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("dims", [(None, 37, 45, 53), (2, 16, 32, 64), (None, 5, 1, 9)], ids=str)
def test_transposed_operands(dims, transposed, level, generator):
    compiled = compile_contraction(product(dims, transposed), TargetSpec.host(level))
    x, y, expected = operands(generator, dims, transposed)
    check(compiled, [x, y], expected, depth=dims[-1])


DOTS = [(None, 1, 257, 100), (None, 1, 1, 77), (2, 3, 33, 70), (None, 4, 7, 64), (3, 2, 1, 40)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["f32", "f64", "s32"])
@pytest.mark.parametrize("dims", DOTS, ids=str)
def test_few_rows_are_dot_products(dims, name, level, generator):
    transposed = (False, True)
    compiled = compile_contraction(product(dims, transposed, name), TargetSpec.host(level))
    assert compiled.schedule.rhs == "dots"
    x, y, expected = operands(generator, dims, transposed, name)
    check(compiled, [x, y], expected, name, depth=dims[-1])


def test_symbolic_dot_products(generator):
    transposed = (False, True)
    compiled = compile_contraction(product((None, 2, "?n", "?k"), transposed))
    assert compiled.schedule.rhs == "dots"
    for n, k in [(0, 5), (1, 1), (13, 0), (21, 100)]:
        x, y, expected = operands(generator, (None, 2, n, k), transposed)
        check(compiled, [x, y], expected, sizes={"n": n, "k": k}, depth=k)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("m", [1, 19, 130, "?m"])
@pytest.mark.parametrize("transposed", [(False, False), (True, False)], ids=str)
def test_one_column(transposed, m, level, generator):
    b = Builder("f")
    x = b.parameter(0, f"f32[2,90,{m}]" if transposed[0] else f"f32[2,{m},90]")
    y, bias = b.parameter(1, "f32[2,90,1]"), b.parameter(2, f"f32[2,{m},1]")
    fused = b.build(b.add(add_dot(b, x, y, True, *transposed), bias))
    compiled = compile_contraction(fused, TargetSpec.host(level))
    rows = 45 if m == "?m" else m
    left, right, expected = operands(generator, (2, rows, 1, 90), transposed)
    offset = sample(generator, expected.shape)
    sizes = {"m": rows} if m == "?m" else None
    check(compiled, [left, right, offset], expected + offset, sizes=sizes, depth=90)


@pytest.mark.parametrize("dims", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5)], ids=str)
def test_empty_results(dims, generator):
    compiled = compile_contraction(product(dims))
    x, y, expected = operands(generator, dims)
    check(compiled, [x, y], expected)


@pytest.mark.parametrize("transposed", [(False, False), (False, True)], ids=str)
def test_empty_sum_is_zero(transposed, generator):
    dims = (2, 17, 33, 0)
    compiled = compile_contraction(product(dims, transposed))
    x, y, expected = operands(generator, dims, transposed)
    result = check(compiled, [x, y], expected)
    assert not result.any()


@pytest.mark.parametrize("transposed", [(False, False), (False, True)], ids=str)
@pytest.mark.parametrize("extents", [(700, 530, 600), (600, 600, 1100)], ids=str)
def test_packed_and_split(extents, transposed, generator):
    dims = (None, *extents)
    compiled = compile_contraction(product(dims, transposed))
    assert compiled.schedule.rhs != "direct"
    x, y, expected = operands(generator, dims, transposed)
    check(compiled, [x, y], expected, depth=dims[-1])


SYMBOLIC = [("m",), ("n",), ("k",), ("b",), ("m", "n"), ("b", "m", "n", "k")]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("names", SYMBOLIC, ids="".join)
def test_symbolic_sizes(names, level, generator):
    static = {"b": 2, "m": 29, "n": 43, "k": 37}
    dims = tuple(f"?{name}" if name in names else size for name, size in static.items())
    compiled = compile_contraction(product(dims), TargetSpec.host(level))
    for size in (0, 1, 5, 64, 67):
        actual = {name: size if name in names else static[name] for name in static}
        x, y, expected = operands(generator, tuple(actual.values()))
        check(compiled, [x, y], expected, sizes=dict.fromkeys(names, size), depth=actual["k"])


@pytest.mark.parametrize("transposed", [(False, True), (True, False), (True, True)], ids=str)
def test_symbolic_transposed(transposed, generator):
    compiled = compile_contraction(product((None, "?m", "?n", "?k"), transposed))
    for m, n, k in [(1, 1, 1), (33, 17, 70), (300, 140, 1030), (7, 0, 3), (3, 7, 0)]:
        x, y, expected = operands(generator, (None, m, n, k), transposed)
        check(compiled, [x, y], expected, sizes={"m": m, "n": n, "k": k}, depth=k)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["f64", "bf16", "s32", "s64", "u8", "pred"])
def test_element_types(name, level, generator):
    dims = (None, 19, 37, 23)
    compiled = compile_contraction(product(dims, name=name), TargetSpec.host(level))
    x, y, expected = operands(generator, dims, name=name)
    if name == "pred":
        expected = expected > 0
    check(compiled, [x, y], expected, name, depth=dims[-1])


@pytest.mark.parametrize("level", LEVELS)
def test_half_precision(level, generator):
    dims = (None, 19, 37, 23)
    compiled = compile_contraction(product(dims, name="f16"), TargetSpec.host(level))
    x, y, expected = operands(generator, dims, name="f16")
    check(compiled, [x, y], expected, "f16", depth=dims[-1])


def test_wide_result_of_narrow_operands(generator):
    b = Builder("f")
    x, y = b.parameter(0, "s8[9,40]"), b.parameter(1, "s8[40,21]")
    fused = b.build(add_dot(b, x, y, False, shape="s32[9,21]"))
    left, right = sample(generator, (9, 40), "s8"), sample(generator, (40, 21), "s8")
    expected = left.astype(np.int64) @ right.astype(np.int64)
    check(compile_contraction(fused), [left, right], expected, "s32")


def test_narrow_result_of_wide_operands(generator):
    b = Builder("f")
    x, y = b.parameter(0, "f32[9,40]"), b.parameter(1, "f32[40,21]")
    fused = b.build(add_dot(b, x, y, False, shape="bf16[9,21]"))
    left, right = sample(generator, (9, 40)), sample(generator, (40, 21))
    expected = (left @ right).astype(ml_dtypes.bfloat16).astype(np.float64)
    result = np.empty((9, 21), ml_dtypes.bfloat16)
    compile_contraction(fused)([left, right], [result])
    same = result.astype(np.float64) == expected
    assert same.mean() > 0.95, "sums are rounded once"


# ---- fusions


def gelu(b, x):
    """Add gelu with tanh."""

    def number(value):
        return b.full(value, x.shape)

    cube = b.multiply(x, b.multiply(x, x))
    inner = b.multiply(number(0.7978845608), b.add(x, b.multiply(number(0.044715), cube)))
    return b.multiply(b.multiply(number(0.5), x), b.add(number(1.0), b.tanh(inner)))


def gelu_reference(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("m", [37, "?m"])
def test_bias_and_relu(m, level, generator):
    b = Builder("f")
    x, y = b.parameter(0, f"f32[{m},70]"), b.parameter(1, "f32[70,45]")
    bias = b.parameter(2, "f32[45]")
    dot = add_dot(b, x, y, False)
    total = b.add(dot, b.broadcast_to(bias, dot.shape.dims, (1,)))
    fused = b.build(b.maximum(total, b.full(0.0, total.shape)))
    compiled = compile_contraction(fused, TargetSpec.host(level))
    left, right, expected = operands(generator, (None, 37, 45, 70))
    offset = sample(generator, (45,))
    sizes = {"m": 37} if m == "?m" else None
    check(compiled, [left, right, offset], np.maximum(expected + offset, 0), sizes=sizes, depth=70)


@pytest.mark.parametrize("k", [70, 1100])
def test_gelu_and_residual(k, generator):
    b = Builder("f")
    x, y = b.parameter(0, f"f32[37,{k}]"), b.parameter(1, f"f32[{k},45]")
    residual = b.parameter(2, "f32[37,45]")
    fused = b.build(b.add(gelu(b, add_dot(b, x, y, False)), residual))
    left, right, expected = operands(generator, (None, 37, 45, k))
    rest = sample(generator, (37, 45))
    compiled = compile_contraction(fused)
    check(compiled, [left, right, rest], gelu_reference(expected) + rest, depth=k)
    in_place = rest.copy()
    compiled([left, right, in_place], [in_place])
    compare(in_place, gelu_reference(expected) + rest, depth=k)


def test_two_outputs(generator):
    b = Builder("f")
    x, y = b.parameter(0, "f32[2,19,33]"), b.parameter(1, "f32[2,33,21]")
    dot = add_dot(b, x, y, True)
    total = b.negate(dot)
    fused = b.build(b.tuple(dot, total))
    left, right, expected = operands(generator, (2, 19, 21, 33))
    first, first_untouched = guarded(expected.shape, np.float32)
    second, second_untouched = guarded(expected.shape, np.float32)
    compile_contraction(fused)([left, right], [first, second])
    assert first_untouched()
    assert second_untouched()
    compare(first, expected, depth=33)
    np.testing.assert_array_equal(second, -first)


def test_transposed_result(generator):
    b = Builder("f")
    x, y = b.parameter(0, "f32[19,33]"), b.parameter(1, "f32[33,21]")
    fused = b.build(b.transpose(add_dot(b, x, y, False), dimensions=(1, 0)))
    left, right, expected = operands(generator, (None, 19, 21, 33))
    check(compile_contraction(fused), [left, right], expected.T, depth=33)


@pytest.mark.parametrize("level", LEVELS)
def test_converted_operand(level, generator):
    b = Builder("f")
    x, y = b.parameter(0, "u8[37,70]"), b.parameter(1, "f32[70,45]")
    wide = b.convert_to(x, "f32")
    scaled = b.multiply(wide, b.full(1 / 255, wide.shape))
    compiled = compile_contraction(b.build(add_dot(b, scaled, y, False)), TargetSpec.host(level))
    assert compiled.schedule.pack_lhs
    left, right = sample(generator, (37, 70), "u8"), sample(generator, (70, 45))
    expected = (left / np.float32(255)).astype(np.float64) @ right.astype(np.float64)
    check(compiled, [left, right], expected, depth=70)


def test_sliced_and_reshaped_operands(generator):
    b = Builder("f")
    x, y = b.parameter(0, "f32[40,80]"), b.parameter(1, "f32[5,7,4,9]")
    part = b.slice(x, slice=((3, 38, 1), (10, 80, 2)))
    fused = b.build(add_dot(b, part, b.reshape_to(y, (35, 36)), False))
    left, right = sample(generator, (40, 80)), sample(generator, (5, 7, 4, 9))
    expected = left[3:38, 10::2].astype(np.float64) @ right.reshape(35, 36).astype(np.float64)
    check(compile_contraction(fused), [left, right], expected, depth=35)


# ---- determinism


def test_same_bits_for_every_tiling_and_order(generator):
    dims = (None, 130, 150, 1300)
    x, y, expected = operands(generator, dims)
    first = check(compile_contraction(product(dims)), [x, y], expected, depth=1300)
    tunings = [
        lambda s: replace(
            s, rows=5, columns=s.lanes * 3, m_block=15, n_block=s.lanes * 6, k_block=96
        ),
        lambda s: replace(s, rhs="packed", n_block=s.columns, k_block=512),
        lambda s: replace(s, store_direct=False, n_block=s.columns * 2, k_block=1300),
    ]
    for tune in tunings:

        def consistent(schedule, tune=tune):
            made = tune(schedule)
            units = -(-130 // made.m_block) * -(-150 // made.n_block)
            return replace(made, units=units, grain=1, chunks=units)

        compiled = compile_contraction(product(dims), tune=consistent)
        result = np.empty(expected.shape, np.float32)
        compiled([x, y], [result], order=lambda count: range(count - 1, -1, -1))
        np.testing.assert_array_equal(result, first)


@pytest.fixture
def runtime():
    made = native_runtime()
    before = made.num_threads
    yield made
    made.set_num_threads(before)


def test_same_bits_for_every_number_of_threads(runtime, generator):
    dims = (2, 300, 290, 257)
    x, y, expected = operands(generator, dims)
    compiled = compile_contraction(product(dims))
    assert compiled.schedule.chunks > 4
    results = []
    for threads in (1, 2, 3):
        runtime.set_num_threads(threads)
        results.append(np.empty(expected.shape, np.float32))
        compiled.run_parallel(runtime, [x, y], [results[-1]])
    compare(results[0], expected, depth=257)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_symbolic_sizes_give_the_bits_of_static_ones(generator):
    dims = (None, 61, 83, 97)
    x, y, expected = operands(generator, dims)
    static = check(compile_contraction(product(dims)), [x, y], expected, depth=97)
    symbolic = compile_contraction(product((None, "?m", "?n", "?k")))
    sizes = {"m": 61, "n": 83, "k": 97}
    result = check(symbolic, [x, y], expected, sizes=sizes, depth=97)
    np.testing.assert_array_equal(result, static)


def test_micro_kernels_are_shared():
    compiled = compile_contraction(product((3, 28, 32, 40)))
    assert compiled.text.count("define internal void @micro_") == len(
        {line.split("(")[0] for line in compiled.text.splitlines() if "define internal" in line}
    )
