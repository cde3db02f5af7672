# SPDX-License-Identifier: Apache-2.0
"""Single ops that are measured: sizes and inputs. Ingot and XLA alone take part.

What they do is in `jax_ops`, under the part of the name before the `:`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.common.programs import Maker, Program, Shape, complex_normal, normal, uniform

SECTION = "Single ops"
_MILLION = 1 << 20


@dataclass(frozen=True, slots=True)
class Below:
    """Makes numbers 0..limit - 1 (s32), in order if `is_sorted`."""

    limit: int
    is_sorted: bool = False

    def __call__(self, generator: np.random.Generator, shape: Shape) -> np.ndarray:
        """Return an array of them."""
        numbers = generator.integers(0, self.limit, shape, dtype=np.int32)
        return np.sort(numbers) if self.is_sorted else numbers


def key(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return the key of a random generator (u32)."""
    return generator.integers(0, 1 << 32, shape, dtype=np.uint32)


def _op(name: str, *shapes: Shape, makers: tuple[Maker, ...] = (normal,), flops: float = 0):
    return Program(name, shapes, makers, flops=flops, tolerance=1e-4, section=SECTION)


def _convolution(
    name: str, image: Shape, kernel: Shape, stride: int = 1, *others: Shape
) -> Program:
    points = image[0] * (image[1] // stride) * (image[2] // stride)
    return _op(name, image, kernel, *others, flops=2 * points * int(np.prod(kernel)))


_IMAGES, _TAPS = (8, 56, 56, 64), (3, 3, 64, 64)
_BOX = ((64, 128, 128),)

OPS: tuple[Program, ...] = (
    _convolution("convolution 3x3: 8x56x56x64", _IMAGES, _TAPS),
    *(
        _convolution(f"convolution 3x3: {batch}x{size}x{size}x{features}",
                     (batch, size, size, features), (3, 3, features, features))
        for batch, size, features in ((1, 56, 64), (8, 28, 128), (8, 14, 256), (8, 7, 512))
    ),
    _convolution("convolution 3x3, bias, relu: 8x56x56x64", _IMAGES, _TAPS, 1, (64,)),
    _op("convolution 3x3 NCHW: 8x64x56x56", (8, 64, 56, 56), (64, 64, 3, 3),
        flops=2 * 8 * 56 * 56 * 9 * 64 * 64),
    _convolution("convolution 3x3 stride 2: 8x56x56x64", _IMAGES, _TAPS, 2),
    _convolution("convolution 3x3 stride 2: 8x28x28x128", (8, 28, 28, 128), (3, 3, 128, 256), 2),
    _convolution("convolution 1x1 stride 2: 8x56x56x64", _IMAGES, (1, 1, 64, 128), 2),
    _convolution("convolution 1x1: 8x56x56x64", _IMAGES, (1, 1, 64, 256)),
    _convolution("convolution 7x7 stride 2: 4x112x112x3", (4, 112, 112, 3), (7, 7, 3, 64), 2),
    _convolution("convolution 7x7 stride 2: 8x224x224x3", (8, 224, 224, 3), (7, 7, 3, 64), 2),
    _convolution("convolution of 32 groups: 8x28x28x128", (8, 28, 28, 128), (3, 3, 4, 128)),
    _convolution("convolution depthwise: 8x56x56x64", _IMAGES, (3, 3, 1, 64)),
    _op("input gradient: 8x56x56x64", _IMAGES, _TAPS, flops=6 * 8 * 56 * 56 * 3 * 64 * 64),
    _op("input gradient of stride 2: 8x28x28x128", (8, 28, 28, 128), (3, 3, 64, 128),
        flops=2 * 8 * 28 * 28 * 9 * 64 * 128),
    _op("filter gradient: 8x56x56x64", _IMAGES, _IMAGES, flops=6 * 8 * 56 * 56 * 3 * 64 * 64),
    _op("max pool: 8x56x56x64", _IMAGES),
    _op("transpose 201: 64x256x128", (64, 256, 128)),
    _op("transpose 0213: 32x128x12x64", (32, 128, 12, 64)),
    _op("concatenate: 1000x803", (1000, 500), (1000, 300)),
    _op("pad, slice: 1000x1000", (1000, 1000)),
    _op("roll: 1024x1024", (1024, 1024)),
    _op("reverse: 1024x1024", (1024, 1024)),
    _op("gather rows: 50000 of 100000x64", (100_000, 64), (50_000,), makers=(normal, Below(10**5))),
    _op("gather: 1M of 1M", (_MILLION,), (_MILLION,), makers=(normal, Below(_MILLION))),
    _op("gather: 1M of 16M", (_MILLION << 4,), (_MILLION,), makers=(normal, Below(_MILLION << 4))),
    _op("segment sum: 1M to 1000", (_MILLION,), (_MILLION,), makers=(uniform, Below(1000))),
    _op("segment sum: 100000x16 to 1000", (10**5, 16), (10**5,), makers=(uniform, Below(1000))),
    _op("segment sum: 1M in order to 1000", (_MILLION,), (_MILLION,),
        makers=(uniform, Below(1000, is_sorted=True))),
    _op("segment sum: 100000x16 in order to 1000", (10**5, 16), (10**5,),
        makers=(uniform, Below(1000, is_sorted=True))),
    _op("bincount: 1M to 256", (_MILLION,), makers=(Below(256),)),
    _op("sort: 1M", (_MILLION,)),
    _op("argsort: 1M", (_MILLION,)),
    _op("sort: 1000x1000", (1000, 1000)),
    _op("top 100: 1M", (_MILLION,)),
    _op("top 10: 256x4096", (256, 4096)),
    _op("cumulative sum: 1M", (_MILLION,), makers=(uniform,)),
    _op("cumulative sum of rows: 1024x1024", (1024, 1024), makers=(uniform,)),
    _op("cumulative sum of columns: 1024x1024", (1024, 1024), makers=(uniform,)),
    _op("cumulative maximum: 1M", (_MILLION,)),
    _op("window sum 64: 256k", (1 << 18,), makers=(uniform,)),
    _op("fft: 1024x1024", (1024, 1024), makers=(complex_normal,)),
    _op("real fft: 1M", (_MILLION,)),
    _op("threefry bits: 1M", (2,), makers=(key,)),
    _op("philox bits: 1M", (4,), makers=(key,)),
    _op("normal numbers: 1M", (2,), makers=(key,)),
    *(_op(f"sum over {axes}: 64x128x128", *_BOX, makers=(uniform,)) for axes in
      ("all", "0", "1", "2", "01", "02", "12")),
    _op("argmax of rows: 4096x1000", (4096, 1000)),
    _op("argmax: 1M", (_MILLION,)),
    _op("argmax of columns: 1000x4096", (1000, 4096)),
    _op("while loop: 100000 steps", ()),
    _op("updates in a loop: 1000x256", (1000, 256)),
)  # fmt: skip
