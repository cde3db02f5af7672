# SPDX-License-Identifier: Apache-2.0
"""Products whose operands do not begin with their buffers: slices, at run-time indices as well."""

import re

import ml_dtypes
import numpy as np
import pytest

import ingot
from ingot.client import compile
from ingot.llvm.target import TargetSpec, host_levels

LEVELS = [level for level in host_levels() if level != "plain"]
NUMPY = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
TYPES = [("f32", "f32"), ("bf16", "bf16"), ("f16", "f32"), ("s8", "s32")]
M, K, N, STACK = 5, 48, 33, 4
CONTRACTED = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def _values(generator, name, shape):
    if name == "s8":
        return generator.integers(-128, 128, shape, np.int8)
    return generator.uniform(-1, 1, shape).astype(NUMPY[name])


def _checked(text, level=""):
    target = TargetSpec.host(level) if level else TargetSpec.host()
    executable = compile(ingot.parse_hlo(text), target=target)
    (kernel,) = [item for item in executable.kernels if "dot" in item.opcodes]
    assert kernel.strategy == "product", kernel.refused
    return executable


def _assert_near(result, expected, name):
    result = np.asarray(result)
    if name == "s32":
        np.testing.assert_array_equal(result, expected)
        return
    loose = 2e-2 if name == "bf16" else 1e-5
    np.testing.assert_allclose(
        result.astype(expected.dtype), expected, atol=loose * np.abs(expected).max()
    )


def _wide(x):
    return x.astype(np.int32 if x.dtype == np.int8 else np.float64)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("name", "result"), TYPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_an_operand_that_is_a_dynamic_slice_of_a_stack(name, result, transposed, level, generator):
    """The index is clamped, as dynamic-slice says."""
    stack, contracted = ((STACK, N, K), 1) if transposed else ((STACK, K, N), 0)
    text = f"""\
HloModule expert

ENTRY main {{
  x = {name}[{M},{K}] parameter(0)
  w = {name}[{",".join(map(str, stack))}] parameter(1)
  e = s32[] parameter(2)
  zero = s32[] constant(0)
  one = {name}[1,{stack[1]},{stack[2]}] dynamic-slice(w, e, zero, zero), \
dynamic_slice_sizes={{1,{stack[1]},{stack[2]}}}
  r = {name}[{stack[1]},{stack[2]}] reshape(one)
  ROOT d = {result}[{M},{N}] dot(x, r), lhs_contracting_dims={{1}}, \
rhs_contracting_dims={{{contracted}}}
}}
"""
    executable = _checked(text, level)
    x, w = _values(generator, name, (M, K)), _values(generator, name, stack)
    for given, index in ((0, 0), (2, 2), (STACK - 1, STACK - 1), (-7, 0), (99, STACK - 1)):
        one = _wide(w[index])
        expected = _wide(x) @ (one.T if transposed else one)
        _assert_near(executable(x, w, np.int32(given)), expected, result)


@pytest.mark.parametrize(("m", "k", "n"), [(20, 512, 2752), (130, 200, 300), (5, 64, 33)])
def test_a_slice_is_multiplied_as_a_whole_array_is(m, k, n):
    """Where an operand begins makes no difference to the driver."""
    head = f"HloModule m ENTRY e {{ x = f32[{m},{k}] parameter(0) "
    product = f"ROOT d = f32[{m},{n}] dot(x, y), {CONTRACTED} }}"
    whole = f"{head} y = f32[{k},{n}] parameter(1) {product}"
    part = f"""{head} w = f32[3,{k},{n}] parameter(1) i = s32[] parameter(2) o = s32[] constant(0)
      s = f32[1,{k},{n}] dynamic-slice(w, i, o, o), dynamic_slice_sizes={{1,{k},{n}}}
      y = f32[{k},{n}] reshape(s) {product}"""
    drivers = [
        re.findall(r"product_\w+", compile(ingot.parse_hlo(text)).as_text("schedule"))
        for text in (whole, part)
    ]
    assert len(drivers[0]) == 1
    assert drivers[0] == drivers[1]


@pytest.mark.parametrize("name", ["f32", "bf16"])
def test_slices_on_both_sides_and_an_epilogue(name, generator):
    text = f"""\
HloModule both

ENTRY main {{
  x = {name}[{STACK},{M},{K}] parameter(0)
  w = {name}[{K},{3 * N}] parameter(1)
  bias = {name}[{N}] parameter(2)
  e = s64[2] parameter(3)
  first = s64[1] slice(e), slice={{[0:1]}}
  second = s64[1] slice(e), slice={{[1:2]}}
  i = s64[] reshape(first)
  j = s64[] reshape(second)
  twice = s64[] add(j, j)
  zero = s64[] constant(0)
  one = {name}[1,{M},{K}] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={{1,{M},{K}}}
  lhs = {name}[{M},{K}] reshape(one)
  rhs = {name}[{K},{N}] dynamic-slice(w, zero, twice), dynamic_slice_sizes={{{K},{N}}}
  d = f32[{M},{N}] dot(lhs, rhs), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = {name}[{M},{N}] broadcast(bias), dimensions={{1}}
  wide = f32[{M},{N}] convert(b)
  ROOT r = f32[{M},{N}] add(d, wide)
}}
"""
    executable = _checked(text)
    x, w = _values(generator, name, (STACK, M, K)), _values(generator, name, (K, 3 * N))
    bias = _values(generator, name, (N,))
    for i, j in ((0, 0), (3, 15), (1, 1000)):
        column = min(2 * j, 2 * N)
        expected = _wide(x[i]) @ _wide(w[:, column : column + N]) + _wide(bias)
        _assert_near(executable(x, w, bias, np.array([i, j])), expected, name)


def test_a_slice_at_a_constant_index(generator):
    text = f"""\
HloModule heads

ENTRY main {{
  x = f32[64,{3 * K}] parameter(0)
  w = f32[2,{K},{N}] parameter(1)
  s = f32[64,{K}] slice(x), slice={{[0:64], [{K}:{2 * K}]}}
  t = f32[1,{K},{N}] slice(w), slice={{[1:2], [0:{K}], [0:{N}]}}
  r = f32[{K},{N}] reshape(t)
  ROOT d = f32[64,{N}] dot(s, r), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
    executable = _checked(text)
    x, w = _values(generator, "f32", (64, 3 * K)), _values(generator, "f32", (2, K, N))
    _assert_near(executable(x, w), _wide(x[:, K : 2 * K]) @ _wide(w[1]), "f32")


def test_matrices_that_begin_anywhere_are_gathered(generator):
    """A batch has one step from matrix to matrix, which an index for each is not."""
    text = f"""\
HloModule gathered

ENTRY main {{
  x = f32[6,{M},{K}] parameter(0)
  w = f32[{STACK},{K},{N}] parameter(1)
  e = s32[6] parameter(2)
  g = f32[6,{K},{N}] gather(w, e), offset_dims={{1,2}}, collapsed_slice_dims={{0}}, \
start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{K},{N}}}
  ROOT d = f32[6,{M},{N}] dot(x, g), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}
"""
    executable = compile(ingot.parse_hlo(text))
    x, w = _values(generator, "f32", (6, M, K)), _values(generator, "f32", (STACK, K, N))
    e = np.array([3, 0, 1, 1, 2, 3], np.int32)
    _assert_near(executable(x, w, e), np.einsum("bmk,bkn->bmn", _wide(x), _wide(w[e])), "f32")
