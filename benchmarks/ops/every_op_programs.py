# SPDX-License-Identifier: Apache-2.0
"""Every op with every element type that it is common with: names, sizes, inputs.

What they do is in `every_op_functions`, under the part of the name before the `:`; the part behind
it is the element type. Sizes are those at which a call takes tens to hundreds of microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from benchmarks.common.programs import Maker, Program, Shape

SECTION = "Every op"

DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "u8": np.uint8, "u32": np.uint32, "u64": np.uint64,
    "pred": np.bool_, "c64": np.complex64, "c128": np.complex128,
}  # fmt: skip

TOLERANCES = {"f16": 1e-2, "bf16": 0.1, "f8e4m3fn": 0.2, "f8e5m2": 0.2, "f64": 1e-9, "c128": 1e-9}

FLOATS = ("f32", "f64", "f16", "bf16")
COMPLEX = ("c64", "c128")
INTEGERS = ("s8", "s32", "s64", "u8", "u32", "u64")
COMMON = ("f32", "f64", "bf16", "s32", "u8")
CONVERTED = (*FLOATS, "s8", "s32", "s64", "pred", "f8e4m3fn", "f8e5m2")
LINEAR = ("f32", "f64", "c64")
REAL = ("f32", "f64", "bf16")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Makes numbers of an element type within bounds; integers are 1..99 unless `limit` says."""

    dtype: str
    low: float = 0.1
    high: float = 0.9
    limit: int = 100

    def __call__(self, generator: np.random.Generator, shape: Shape) -> np.ndarray:
        """Return an array of them."""
        kind = np.dtype(DTYPES[self.dtype])
        if kind == np.bool_:
            return generator.integers(0, 2, shape).astype(kind)
        if kind.kind in "iu":
            return generator.integers(1, self.limit, shape).astype(kind)
        numbers = generator.uniform(self.low, self.high, shape)
        if kind.kind == "c":
            return (numbers + 1j * generator.uniform(self.low, self.high, shape)).astype(kind)
        return numbers.astype(np.float32).astype(kind)


@dataclass(frozen=True, slots=True)
class Dominant:
    """Makes Hermitian matrices with a strong diagonal: factored by any algorithm, well behaved."""

    dtype: str

    def __call__(self, generator: np.random.Generator, shape: Shape) -> np.ndarray:
        """Return an array of them."""
        numbers = Numbers(self.dtype)(generator, shape)
        size = shape[-1]
        strong = numbers @ np.conj(np.swapaxes(numbers, -1, -2)) + size * np.eye(size)
        return strong.astype(DTYPES[self.dtype])


@dataclass(frozen=True, slots=True)
class Places:
    """Makes indices 0..limit - 1 (s32)."""

    limit: int

    def __call__(self, generator: np.random.Generator, shape: Shape) -> np.ndarray:
        """Return an array of them."""
        return generator.integers(0, self.limit, shape, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Row:
    """Ops that take the same element types and sizes.

    Attributes:
        names: their keys in `every_op_functions`.
        dtypes: element types.
        shapes: shapes of the inputs.
        makers: how inputs are made where it is not `Numbers` of the element type.
        low, high: bounds of the inputs.
    """

    names: str
    dtypes: tuple[str, ...]
    shapes: tuple[Shape, ...]
    makers: dict[int, Maker] | None = None
    low: float = 0.1
    high: float = 0.9

    def programs(self) -> list[Program]:
        """Return a program for each op and element type."""
        return [self._program(name, dtype) for name in self.names.split() for dtype in self.dtypes]

    def _program(self, name: str, dtype: str) -> Program:
        plain = Numbers(dtype, self.low, self.high)
        special = self.makers or {}
        makers = tuple(special.get(number, plain) for number in range(len(self.shapes)))
        tolerance = TOLERANCES.get(dtype, 1e-4)
        return Program(
            f"{name}: {dtype}", self.shapes, makers, tolerance=tolerance, section=SECTION
        )


LINE, SQUARE, WIDE, BOX = (1 << 18,), (512, 512), (1 << 16,), (64, 64, 64)
IMAGE = (4, 56, 56, 32)
SMALL_IMAGE = (2, 28, 28, 32)

ROWS = (
    Row("exp expm1 log log1p sin cos tan tanh sinh cosh asin acos atan asinh atanh sqrt rsqrt cbrt "
        "logistic erf erfc erf_inv lgamma digamma bessel_i0e bessel_i1e floor round sign neg abs "
        "is_finite reduce_precision", FLOATS, (LINE,)),
    Row("acosh", FLOATS, (LINE,), low=1.1, high=3),
    Row("exp log log1p expm1 sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh sqrt "
        "rsqrt logistic neg abs sign real imag conj", ("c64",), (LINE,)),
    Row("exp log sin sqrt tanh", ("c128",), (LINE,)),
    Row("add sub mul div rem max min pow atan2 nextafter", FLOATS, (LINE, LINE)),
    Row("igamma igammac zeta", ("f32",), (LINE, LINE), low=1.5, high=3),
    Row("add mul div pow", COMPLEX, (LINE, LINE)),
    Row("add mul div rem max bitwise_and", INTEGERS, (LINE, LINE)),
    Row("shift_left shift_right_arithmetic", ("s8", "s32", "s64"), (LINE, LINE),
        {1: Numbers("s8", limit=7)}),
    Row("population_count clz bitwise_not neg abs sign", ("s8", "s32", "s64"), (LINE,)),
    Row(" ".join(f"to_{dtype}" for dtype in CONVERTED),
        (*CONVERTED, "u8", "u32"), (LINE,)),
    Row("select", COMMON, (LINE, LINE, LINE), {0: Numbers("pred")}),
    Row("less clamp_between", COMMON, (LINE, LINE)),
    Row("reverse strided_slice iota cumsum cumprod cummax", COMMON, (LINE,)),
    Row("reverse_both slice_inner cumsum_columns roll tril diagonal transpose pad repeat tile",
        COMMON, (SQUARE,)),
    Row("outer_sum", COMMON, ((512,), (512,))),
    Row("transpose_021", COMMON, ((32, 64, 128),)),
    Row("sort argsort", COMMON, (WIDE,)),
    Row("sort_rows sort_columns median", COMMON, ((256, 256),)),
    Row("top_10", COMMON, ((64, 4096),)),
    Row("sum_0 sum_1 max_0 max_1 max_all prod_1 argmax_0 argmax_1 argmax_all", COMMON, (SQUARE,)),
    # XLA's sum of this many bf16 is 65,536 where 131,018 is right: nothing to compare with.
    Row("sum_all", ("f32", "f64", "s32", "u8"), (SQUARE,)),
    Row("sum3_0 sum3_1 sum3_2", COMMON, (BOX,)),
    Row("gather_rows", COMMON, ((4096, 64), (4096,)), {1: Places(4096)}),
    Row("gather_columns", COMMON, (SQUARE, (512,)), {1: Places(512)}),
    Row("take_along", COMMON, (SQUARE, SQUARE), {1: Places(512)}),
    Row("scatter_add_rows scatter_set_rows", COMMON, ((1024, 64), (4096,), (4096, 64)),
        {1: Places(1024)}),
    Row("scatter_max", COMMON, ((1024,), WIDE, WIDE), {1: Places(1024)}),
    Row("scatter_add_columns", COMMON, (SQUARE, (512,), SQUARE), {1: Places(512)}),
    Row("dynamic_update_slice", COMMON, (SQUARE, (64, 64), ()), {2: Places(9)}),
    Row("dynamic_slice", COMMON, (SQUARE, ()), {1: Places(9)}),
    Row("concatenate_0", COMMON, ((200, 500), (301, 500))),
    Row("concatenate_1", COMMON, ((500, 100), (500, 33))),
    Row("stack", COMMON, (LINE, LINE)),
    Row("interior_pad window_max", COMMON, ((256, 256),)),
    Row("max_pool_2 max_pool_3", COMMON, (IMAGE,)),
    Row("sum_pool_nchw", COMMON, ((4, 32, 56, 56),)),
    Row("max_pool_2_gradient max_pool_3_gradient", REAL, (IMAGE, (4, 28, 28, 32))),
    Row("sum_pool_gradient", REAL, ((4, 28, 28, 32),)),
    Row("softmax softmax_0 logsumexp var_0 var_all norm", REAL, (SQUARE,)),
    Row("batch_norm", REAL, ((8, 28, 28, 64),)),
    Row("dot", (*COMMON, "c64"), ((128, 256), (256, 192))),
    Row("dot_tn", COMMON, ((256, 128), (256, 192))),
    Row("dot_nt", COMMON, ((128, 256), (192, 256))),
    Row("matvec vecmat", COMMON, (SQUARE, (512,))),
    Row("batched_small", COMMON, ((256, 8, 8), (256, 8, 8))),
    Row("batched", COMMON, ((16, 64, 32), (16, 32, 48))),
    Row("inner", COMMON, (LINE, LINE)),
    Row("outer", COMMON, ((512,), (512,))),
    Row("attention_scores", COMMON, ((4, 32, 4, 16), (4, 32, 4, 16))),
    Row("convolution convolution_stride_2 convolution_dilated convolution_transposed", REAL,
        (SMALL_IMAGE, (3, 3, 32, 32))),
    Row("convolution_depthwise", REAL, (SMALL_IMAGE, (3, 3, 1, 32))),
    Row("convolution", REAL, (SMALL_IMAGE, (1, 1, 32, 64))),
    Row("convolution_nchw", REAL, ((2, 32, 28, 28), (32, 32, 3, 3))),
    Row("convolution_1d", REAL, ((4, 512, 32), (5, 32, 32))),
    Row("convolution_3d", REAL, ((1, 12, 12, 12, 16), (3, 3, 3, 16, 16))),
    Row("convolve", ("f32",), (WIDE, (64,))),
    Row("fft ifft", COMPLEX, ((64, 1024),)),
    Row("fft_of_1000", COMPLEX, ((64, 1000),)),
    Row("fft_of_1021", COMPLEX, ((64, 1021),)),
    Row("fft_2d", COMPLEX, ((128, 128),)),
    Row("rfft", ("f32", "f64"), ((64, 1024),)),
    Row("irfft", COMPLEX, ((64, 513),)),
    Row("random_uniform random_normal random_bits random_integers random_permutation "
        "random_categorical random_bernoulli", ("u32",), ((2,),)),
    *(
        row
        for dtype in LINEAR
        for row in (
            Row("cholesky inverse determinant lu", (dtype,), ((128, 128),), {0: Dominant(dtype)}),
            Row("eigenvalues", (dtype,), ((64, 64),), {0: Dominant(dtype)}),
            Row("cholesky", (dtype,), ((100, 8, 8),), {0: Dominant(dtype)}),
            Row("triangular_solve solve", (dtype,), ((128, 128), (128, 64)), {0: Dominant(dtype)}),
            Row("triangular_solve", (dtype,), ((100, 8, 8), (100, 8, 4)), {0: Dominant(dtype)}),
            Row("qr_r singular_values", (dtype,), ((128, 64),)),
        )
    ),
)  # fmt: skip


_IDENTITIES = frozenset(f"to_{dtype}: {dtype}" for dtype in DTYPES)


def programs() -> list[Program]:
    """Return all of them; conversions of a type to itself are nothing."""
    every = [program for row in ROWS for program in row.programs()]
    return [program for program in every if program.name not in _IDENTITIES]
