# SPDX-License-Identifier: Apache-2.0
"""Every unary and binary row against TensorFlow: dtypes, special values, broadcasting."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import SPECIAL, check, numbers, specs_of, trace

from ingot.frontends.tensorflow import hook
from ingot.frontends.tensorflow.lowering.math_ops import binary, unary

BF16 = tf.bfloat16.as_numpy_dtype
FLOATS = (np.float32, np.float64, np.float16, BF16)
NOT_FLOAT = {"Invert", "PopulationCount", "LogicalNot", "Real", "Imag", "ComplexAbs"}
RAW = tf.raw_ops
NEED_MORE = {"Bitcast", "Cast", "CheckNumerics", "CheckNumericsV2", "Complex", "Conj", "Angle"}
UNARY = sorted(
    name for name in unary.RULES if not name.endswith("Grad") and name not in NOT_FLOAT | NEED_MORE
)
# Elementary functions of the evaluator and of TensorFlow (Eigen) differ by their rounding.
LOOSE = {"Erfc": 1e-5, "Cosh": 1e-5, "Sinh": 1e-5, "Tan": 1e-5, "Acosh": 1e-5, "Asinh": 1e-5}


def call(name, *operands):
    """Call a raw op with operands by position."""
    definition = getattr(RAW, name)
    names = definition.__signature__.parameters
    return definition(**dict(zip(names, operands, strict=False)))


@pytest.mark.parametrize("name", UNARY)
def test_unary_rows_agree_on_f32_and_special_values(name):
    values = np.concatenate([SPECIAL, numbers(37, scale=1.5)]).astype(np.float32)
    program = check(lambda x: call(name, x), values, tolerance=LOOSE.get(name))
    assert program.lowered.module.entry.parameters


@pytest.mark.parametrize("dtype", [np.float64, np.float16, BF16])
@pytest.mark.parametrize(
    "name", ["Exp", "Tanh", "Sigmoid", "Sqrt", "Rsqrt", "Neg", "Square", "Log"]
)
def test_unary_rows_agree_on_other_floats(name, dtype):
    check(lambda x: call(name, x), np.abs(numbers(3, 5, dtype=np.float64)).astype(dtype) + dtype(1))


COMPLEX_UNARY = (
    "Abs", "Acos", "Acosh", "Angle", "Asin", "Asinh", "Atan", "Atanh", "Conj", "Cos", "Cosh", "Exp",
    "Expm1", "Imag", "Inv", "Log", "Log1p", "Neg", "Real", "Reciprocal", "Rsqrt", "Sigmoid", "Sign",
    "Sin", "Sinh", "Sqrt", "Square", "Tan", "Tanh",
)  # fmt: skip
COMPLEX_BINARY = (
    "Add", "AddV2", "Div", "DivNoNan", "Equal", "Mul", "MulNoNan", "NotEqual", "Pow", "RealDiv",
    "SquaredDifference", "Sub", "Xdivy", "Xlog1py", "Xlogy",
)  # fmt: skip
COMPLEX_GRADIENTS = (
    "InvGrad",
    "ReciprocalGrad",
    "RsqrtGrad",
    "SigmoidGrad",
    "SqrtGrad",
    "TanhGrad",
)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", COMPLEX_UNARY)
def test_complex_rows(name, dtype):
    ops = {"Abs": tf.abs, "Angle": tf.math.angle, "Real": tf.math.real, "Imag": tf.math.imag}
    check(ops.get(name, lambda x: call(name, x)), numbers(4, 3, dtype=dtype), tolerance=1e-5)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", COMPLEX_BINARY)
def test_complex_binary_rows(name, dtype):
    x, y = numbers(4, 3, dtype=dtype), numbers(4, 3, dtype=dtype, seed=1)
    y[0] = x[0]
    x[1, 1] = 0
    check(lambda x, y: call(name, x, y), x, y, tolerance=1e-5)
    if "NoNan" in name:
        check(lambda x, y: call(name, x, y * 0), x, y)


@pytest.mark.parametrize("name", COMPLEX_GRADIENTS)
def test_complex_gradient_rows(name):
    x, y = numbers(4, 3, dtype=np.complex64), numbers(4, 3, dtype=np.complex64, seed=1)
    check(lambda x, y: call(name, x, y), x, y, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("name", ["Invert", "PopulationCount"])
def test_bit_rows(name, dtype):
    check(lambda x: call(name, x), numbers(9, dtype=dtype))


def test_logical_not():
    check(tf.logical_not, numbers(9, dtype=bool))


@pytest.mark.parametrize("name", sorted(n for n in unary.RULES if n.endswith("Grad")))
def test_gradient_rows(name):
    check(lambda y, dy: call(name, y, dy), np.abs(numbers(4, 5)) + 0.1, numbers(4, 5, seed=1))


@pytest.mark.parametrize("target", ["bool", "int32", "int64", "float16", "float64", "bfloat16"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, bool, np.complex64])
def test_cast(dtype, target):
    check(lambda x: tf.cast(x, target), numbers(3, 4, dtype=dtype, scale=3))


@pytest.mark.parametrize("count", [1, 7, 16, 53])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_a_float_that_no_integer_is_near_becomes_the_nearest(target, count):
    """At any place of a vector, as a constant and as a size; TensorFlow's kernel has no rule."""
    limits = np.iinfo(target)
    ends = [limits.min, limits.max, limits.min - 1, limits.max + 1, 2**31, -(2**31), 2.0**63]
    special = [np.nan, np.inf, -np.inf, -0.0, -0.9, 300.7, -300.7, 3e9, -3e9, 1e30, -1e30]
    wide = np.resize(np.array([*special, *ends], np.float32).astype(np.float64), count)
    want = [
        0 if np.isnan(x) else min(max(int(np.clip(x, -1e38, 1e38)), limits.min), limits.max)
        for x in wide
    ]
    hook.enable()
    try:
        cast = tf.function(lambda x: tf.cast(x, target), jit_compile=True)
        constant = tf.function(lambda: tf.cast(wide, target), jit_compile=True)
        assert cast(wide.astype(np.float32)).numpy().tolist() == want
        assert cast(wide).numpy().tolist() == want
        assert constant().numpy().tolist() == want
    finally:
        hook.disable()


def test_a_size_that_is_cast_is_the_nearest_integer_too():
    def sizes(x):
        return tf.zeros([tf.cast(300.7, tf.int8)]), tf.zeros(
            [tf.cast(tf.cast(tf.shape(x)[0], tf.float32) * 100 - 900, tf.uint8)]
        )

    program = trace(sizes, [tf.TensorSpec([3])])
    assert [item.shape for item in program.evaluate([np.zeros(3, np.float32)])[0]] == [(127,), (0,)]


@pytest.mark.parametrize("target", ["int32", "uint8", "int16", "float32"])
def test_bitcast(target):
    check(lambda x: tf.bitcast(x, target), numbers(3, 4))


@pytest.mark.parametrize("target", [tf.float32, tf.int64, tf.uint8, tf.complex128])
def test_bitcast_of_complex_numbers(target):
    value = (numbers(3, 2) + 1j * numbers(3, 2)).astype(np.complex64)
    check(lambda x: tf.bitcast(x, target), value)


@pytest.mark.parametrize("source", [np.float64, np.int32, np.uint8])
def test_bitcast_to_complex_numbers(source):
    size = 8 // np.dtype(source).itemsize
    check(lambda x: tf.bitcast(x, tf.complex64), numbers(3, size, dtype=source))


def test_bitcast_to_a_wider_type():
    check(lambda x: tf.bitcast(x, tf.int64), numbers(3, 2, dtype=np.int32))


INTEGERS_ONLY = {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"}
LOGICAL = {"LogicalAnd", "LogicalOr"}
BINARY = sorted(set(binary.OPCODES) | set(binary.DIRECTIONS) | {
    "DivNoNan", "FloorDiv", "FloorMod", "MulNoNan", "SquaredDifference", "Xdivy", "Xlog1py", "Xlogy"
})  # fmt: skip
SHAPES = [((4, 5), (4, 5)), ((4, 5), (5,)), ((4, 1), (1, 5)), ((), (3,)), ((2, 1, 3), (4, 1))]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", ["AddV2", "Mul", "Less", "Maximum"])
def test_binary_rows_broadcast(name, shapes):
    left, right = (numbers(*dims, seed=n) for n, dims in enumerate(shapes))
    check(lambda x, y: call(name, x, y), left, right)
    check(lambda x, y: call(name, x, y), left, right, open_sizes=True)


@pytest.mark.parametrize(
    "name", [n for n in BINARY if n not in INTEGERS_ONLY | LOGICAL | {"TruncateDiv"}]
)
def test_binary_rows_on_floats(name):
    left = np.concatenate([np.abs(numbers(20)), [0, 0, 1, 3]]).astype(np.float32)
    right = np.concatenate([np.abs(numbers(20, seed=1)) + 0.1, [1, 0, 0, 2]]).astype(np.float32)
    if name not in ("Pow", "Xlog1py", "Xlogy"):
        left[::3] *= -1
        right[:20:2] *= -1
    check(lambda x, y: call(name, x, y), left, right, tolerance=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
def test_truncating_division_of_floats(dtype):
    """TensorFlow's CPU has no kernel for it; NumPy's numbers are the reference."""
    left = np.array([3, 3, -1, -9, -8.1, 7, np.inf, np.nan], dtype)
    right = np.array([2, -2, 7, 2, -4, 0, 3, 1], dtype)
    program = trace(lambda x, y: call("TruncateDiv", x, y), specs_of([left, right]))
    (found,), _ = program.evaluate([left, right])
    with np.errstate(divide="ignore"):
        wanted = np.trunc(left.astype(np.float64) / right.astype(np.float64))
    np.testing.assert_array_equal(found.astype(np.float64), wanted)


ON_INTEGERS = [
    "AddV2", "Sub", "Mul", "FloorDiv", "FloorMod", "TruncateDiv", "Maximum", "Minimum", "Less",
    "Equal", *sorted(INTEGERS_ONLY),
]  # fmt: skip
ON_WIDE_INTEGERS = [*ON_INTEGERS, "TruncateMod", "SquaredDifference"]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, dtype) for name in ON_WIDE_INTEGERS for dtype in (np.int32, np.int64)),
        *((name, dtype) for name in ON_INTEGERS for dtype in (np.int16, np.uint8)),
    ],
)
def test_binary_rows_on_integers(name, dtype):
    left, right = numbers(50, dtype=dtype), numbers(50, dtype=dtype, seed=1)
    right = np.where(right == 0, dtype(3), right).astype(dtype)
    if name.endswith("Shift"):
        right = np.abs(right).astype(dtype) % 5
    check(lambda x, y: call(name, x, y), left, right)


@pytest.mark.parametrize("name", sorted(LOGICAL))
def test_logical_rows(name):
    check(lambda x, y: call(name, x, y), numbers(8, dtype=bool), numbers(8, dtype=bool, seed=1))


def test_several_operands():
    x, y = numbers(3, 4), numbers(3, 4, seed=1)
    check(lambda x, y: tf.add_n([x, y, x]), x, y)
    check(lambda x, y: tf.clip_by_value(x, -0.5, tf.abs(y)), x, y)
    check(lambda x, y: RAW.ClipByValue(t=x, clip_value_min=-0.5, clip_value_max=0.5) + y, x, y)
    check(lambda x, y: tf.where(x > 0, x, y), x, y)
    check(lambda x, y: tf.where(x[:, :1] > 0, x, y[0]), x, y)
    check(lambda x, y: RAW.Select(condition=x[:, 0] > 0, x=x, y=y), x, y)
    check(lambda x, y: RAW.ApproximateEqual(x=x, y=x + y * 1e-5, tolerance=1e-5), x, y)
    check(lambda x, y: tf.complex(x, y), x, y)
    check(lambda x, y: tf.math.is_inf(x / 0.0), x, y)
