# SPDX-License-Identifier: Apache-2.0
"""Products of every element type run in drivers: integers wrap, narrow operands are converted."""

import ml_dtypes
import numpy as np
import pytest

import ingot
from ingot.client import compile
from ingot.llvm.target import TargetSpec, host_levels

LEVELS = [level for level in host_levels() if level != "plain"]
NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "s8": np.int8, "u8": np.uint8,
    "s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32, "s64": np.int64,
    "u64": np.uint64,
}  # fmt: skip
TYPES = [
    # lhs, rhs, result
    *((name, name, name) for name in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")),
    *(("s8", "s8", "s32"), ("u8", "s8", "s32"), ("u8", "u8", "u32"), ("s16", "s16", "s32")),
    *(("u16", "u16", "u32"), ("u16", "s16", "s32"), ("s32", "s32", "s64")),
    *(
        ("bf16", "bf16", "f32"),
        ("f16", "f16", "f32"),
        ("bf16", "f32", "f32"),
        ("f32", "f16", "f32"),
    ),
]
CASES = [
    # m, n, k, batch, lhs is [k, m], rhs is [n, k]
    (13, 33, 31, 0, False, False),
    (20, 40, 17, 3, True, False),
    (65, 130, 1025, 0, False, True),
    (7, 9, 3, 5, True, True),
    (1, 48, 64, 2, False, False),
    (3, 70, 129, 0, False, True),
    # small matrices, each in one register block
    (8, 16, 8, 300, False, False),
    (5, 3, 7, 11, True, False),
    (12, 20, 30, 5, False, False),
    # fewer columns than a vector of words has lanes
    (9, 2, 40, 0, False, False),
]


def _values(generator, name, shape):
    if name in ("f16", "bf16", "f32"):
        return generator.uniform(-1, 1, shape).astype(NUMPY[name])
    limits = np.iinfo(NUMPY[name])
    found = generator.integers(limits.min, limits.max, shape, NUMPY[name], endpoint=True)
    found.flat[:3] = limits.min
    return found


def _program(types, lhs, rhs, result, first, left, right):
    shapes = [
        f"{name}[{','.join(map(str, dims))}]"
        for name, dims in zip(types, (lhs, rhs, result), strict=True)
    ]
    batches = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if first else ""
    return ingot.parse_hlo(f"""\
HloModule product

ENTRY main {{
  x = {shapes[0]} parameter(0)
  y = {shapes[1]} parameter(1)
  ROOT z = {shapes[2]} dot(x, y), {batches}lhs_contracting_dims={{{first + 1 - left}}}, \
rhs_contracting_dims={{{first + right}}}
}}
""")


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("types", TYPES, ids="_".join)
def test_sums_of_every_type(types, level, generator):
    runs_in_drivers = level == "avx512" or NUMPY[types[2]]().itemsize >= 4
    for m, n, k, batch, left, right in CASES:
        outer = (batch,) if batch else ()
        lhs = (*outer, k, m) if left else (*outer, m, k)
        rhs = (*outer, n, k) if right else (*outer, k, n)
        program = _program(types, lhs, rhs, (*outer, m, n), len(outer), left, right)
        executable = compile(program, target=TargetSpec.host(level))
        (kernel,) = executable.inspection.compiled.kernels.compiled.values()
        assert (kernel.code is None) == runs_in_drivers
        x, y = _values(generator, types[0], lhs), _values(generator, types[1], rhs)
        a, b = np.swapaxes(x, -1, -2) if left else x, np.swapaxes(y, -1, -2) if right else y
        if types[2] == "f32":
            expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
            np.testing.assert_allclose(executable(x, y), expected, atol=2e-6 * k**0.5)
        else:
            expected = np.matmul(a.astype(NUMPY[types[2]]), b.astype(NUMPY[types[2]]))
            np.testing.assert_array_equal(executable(x, y), expected)


@pytest.mark.parametrize("level", LEVELS)
def test_conversions_before_a_product_are_packed_away(level, generator):
    program = ingot.parse_hlo("""\
HloModule quantized

ENTRY main {
  x = s8[20,31] parameter(0)
  y = u8[31,50] parameter(1)
  a = s32[20,31] convert(x)
  b = s32[31,50] convert(y)
  ROOT z = s32[20,50] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""")
    executable = compile(program, target=TargetSpec.host(level))
    names = [
        part.name
        for kernel in executable.inspection.compiled.kernels.compiled.values()
        for part in kernel.shared
    ]
    words = "quads" if TargetSpec.host(level).has_byte_quads else "pairs"
    assert any(name.endswith(f"_s8_u8_{words}") for name in names)
    x, y = _values(generator, "s8", (20, 31)), _values(generator, "u8", (31, 50))
    np.testing.assert_array_equal(executable(x, y), x.astype(np.int32) @ y.astype(np.int32))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("between", ["bf16", "f16"])
def test_weights_of_bytes_are_multiplied_as_they_lie(between, level, generator):
    # What a front end writes for `mm(x, weights.to(x.dtype)) * scales`: all bytes are such floats.
    for m in (3, 16, 40):
        program = ingot.parse_hlo(f"""\
HloModule weights

ENTRY main {{
  x = {between}[{m},600] parameter(0)
  y = u8[37,600] parameter(1)
  scales = {between}[37] parameter(2)
  w = {between}[37,600] convert(y)
  d = {between}[{m},37] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  scale = {between}[{m},37] broadcast(scales), dimensions={{1}}
  ROOT z = {between}[{m},37] multiply(d, scale)
}}
""")
        executable = compile(program, target=TargetSpec.host(level))
        assert [kernel.strategy for kernel in executable.kernels] == ["product"]
        x, y = _values(generator, between, (m, 600)), _values(generator, "u8", (37, 600))
        y.flat[:3] = 255
        scales = _values(generator, between, (37,))
        found, expected = executable(x, y, scales), ingot.evaluate(program, x, y, scales)
        np.testing.assert_allclose(
            found.astype(np.float32), expected.astype(np.float32), rtol=2e-2, atol=1.0
        )
