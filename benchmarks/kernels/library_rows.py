# SPDX-License-Identifier: Apache-2.0
"""The kernels of `benchmarks.kernels.libraries`: fixed rows, and a draw of shapes by the day.

What a row's function is in each library stands in `library_functions`. The draw cannot be tuned to:
its seed is the date, and its shapes are of no round numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.common.programs import Samples

MILLION = 1 << 20
Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel.

    Attributes:
        name: of the row.
        function: its key in the tables of `library_functions`.
        arguments: makes the arrays.
        options: what the function takes besides.
        tolerance: largest difference of a result, relative to its largest element.
    """

    name: str
    function: str
    arguments: Callable[[Samples], Arrays]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tolerance: float = 1e-4


def _normal(*shapes: tuple[int, ...]) -> Callable[[Samples], Arrays]:
    return lambda samples: tuple(samples(shape) for shape in shapes)


def _positive(shape: tuple[int, ...]) -> Callable[[Samples], Arrays]:
    return lambda samples: (samples.uniform(0.1, 10.0, shape),)


def _complex(*shape: int) -> Callable[[Samples], Arrays]:
    return lambda samples: (samples((*shape, 2)).view(np.complex64)[..., 0],)


def _bf16(*shapes: tuple[int, ...]) -> Callable[[Samples], Arrays]:
    return lambda samples: tuple(samples(shape).astype(ml_dtypes.bfloat16) for shape in shapes)


def _bytes(*shapes: tuple[int, ...]) -> Callable[[Samples], Arrays]:
    return lambda samples: tuple(samples.integers(127, shape).astype(np.int8) for shape in shapes)


def _definite(batch: int, size: int) -> Callable[[Samples], Arrays]:
    def make(samples: Samples) -> Arrays:
        square = samples((batch, size, size))
        return square @ square.swapaxes(1, 2) + size * np.eye(size, dtype=np.float32), samples(
            (batch, size, 1)
        )

    return make


def _matmul(*sizes: int) -> Row:
    m, k, n = sizes if len(sizes) == 3 else sizes * 3
    return Row(f"product {'x'.join(map(str, sizes))}", "product", _normal((m, k), (k, n)))


def _convolution(
    name: str, image: tuple[int, ...], taps: tuple[int, ...], stride: int = 1, groups: int = 1
) -> Row:
    """Return a row of a convolution: image [batch, height, width, channels], taps [h, w, i, o]."""
    options = {"stride": stride, "groups": groups}
    return Row(f"convolution {name}", "convolution", _normal(image, taps), options)


def _pointwise(function: str) -> Row:
    return Row(f"{function} of 4M", function, _positive((4 * MILLION,)))


FIXED: tuple[Row, ...] = (
    Row("sort of 1M", "sort", _normal((MILLION,))),
    Row("argsort of 1M", "argsort", _normal((MILLION,))),
    Row("sort of rows 1000x1000", "sort", _normal((1000, 1000))),
    Row("sort of 1M s32", "sort", lambda samples: (samples.integers(1 << 30, MILLION),)),
    Row("top 100 of 1M", "top", _normal((MILLION,)), {"k": 100}),
    Row("FFT 512x4096", "fft", _complex(512, 4096)),
    Row("real FFT 512x4096", "rfft", _normal((512, 4096))),
    Row("real FFT of 1M", "rfft", _normal((MILLION,))),
    Row("2-D FFT 512x512", "fft2", _complex(512, 512)),
    _convolution("3x3, 128 channels by themselves", (1, 56, 56, 128), (3, 3, 1, 128), 1, 128),
    _convolution("3x3, 64 to 64, 8x56x56", (8, 56, 56, 64), (3, 3, 64, 64)),
    _convolution("3x3, 512 to 512, 7x7", (1, 7, 7, 512), (3, 3, 512, 512)),
    _convolution("1x1, 256 to 64, 8x56x56", (8, 56, 56, 256), (1, 1, 256, 64)),
    _convolution("7x7 by 2, 3 to 64, 224x224", (1, 224, 224, 3), (7, 7, 3, 64), 2),
    _matmul(64),
    _matmul(256),
    _matmul(1024),
    _matmul(2048),
    _matmul(1, 4096, 4096),
    _matmul(8, 4096, 4096),
    Row("batched product 96x128x64x128", "product", _normal((96, 128, 64), (96, 64, 128))),
    Row("bf16 product 512x1024x1024", "product", _bf16((512, 1024), (1024, 1024)), {}, 2e-2),
    Row("s8 product 512x1024x1024", "product of bytes", _bytes((512, 1024), (1024, 1024))),
    Row(
        "linear 512x1024x1024, bias, GELU",
        "linear",
        _normal((512, 1024), (1024, 1024), (1024,)),
    ),
    Row("attention 16x512x64", "attention", _normal(*[(1, 16, 512, 64)] * 3)),
    _pointwise("exponential"),
    _pointwise("logarithm"),
    _pointwise("tanh"),
    _pointwise("erf"),
    Row("sum of 16M", "sum", _normal((16 * MILLION,)), {}, 1e-3),
    Row("sum of columns 4096x1024", "sum of columns", _normal((4096, 1024))),
    Row("softmax 512x1024", "softmax", _normal((512, 1024))),
    Row("layer norm 512x1024", "layer norm", _normal((512, 1024), (1024,), (1024,))),
    Row("cumulative sum of 1M", "cumulative sum", _positive((MILLION,)), {}, 1e-3),
    Row("transpose 2048x2048", "transpose", _normal((2048, 2048))),
    Row(
        "65536 of 100000 rows of 64",
        "rows",
        lambda samples: (samples((100_000, 64)), samples.integers(100_000, 65_536)),
    ),
    Row("Cholesky 64x32x32", "cholesky", _definite(64, 32)),
    Row("solve 64x32x32", "solve", _definite(64, 32)),
    Row("SVD 64x32x32", "singular values", _normal((64, 32, 32)), {}, 1e-3),
    Row("SVD 1024x8x8", "singular values", _normal((1024, 8, 8)), {}, 1e-3),
    Row("eigenvalues 5000x3x3", "eigenvalues", _definite(5000, 3), {}, 1e-3),
)


def drawn(day: date) -> tuple[Row, ...]:
    """Return rows whose shapes the day decides: the same on all machines, other ones tomorrow."""
    generator = np.random.default_rng(day.toordinal())

    def size(low: int, high: int) -> int:
        return int(np.exp(generator.uniform(np.log(low), np.log(high))))

    rows: list[Row] = []
    for _ in range(4):
        rows.append(_matmul(size(1, 700), size(30, 1500), size(30, 1500)))
    for _ in range(3):
        side, channels, features = size(7, 60), size(8, 300), size(8, 300)
        taps, stride = int(generator.choice([1, 3, 5])), int(generator.choice([1, 2]))
        rows.append(
            _convolution(
                f"{taps}x{taps} by {stride}, {channels} to {features}, {side}x{side}",
                (size(1, 8), side, side, channels),
                (taps, taps, channels, features),
                stride,
            )
        )
    for function in ("sort", "argsort", "rfft", "softmax", "sum of columns", "cumulative sum"):
        shape = (size(10, 2000), size(20, 3000))
        name = f"{function} {shape[0]}x{shape[1]}"
        rows.append(Row(name, function, _normal(shape), {}, 1e-3))
    for function in ("exponential", "tanh", "erf", "sum"):
        length = size(1000, 8 * MILLION)
        rows.append(Row(f"{function} of {length}", function, _positive((length,)), {}, 1e-3))
    return tuple(rows)
