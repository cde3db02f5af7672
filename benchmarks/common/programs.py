# SPDX-License-Identifier: Apache-2.0
"""The programs that are measured: names, inputs, and how far results may differ.

Every engine gets the same inputs. Ingot and jaxlib's XLA even get the same HLO: Ingot reads the
text that JAX lowers to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Shape = tuple[int, ...]
Maker = Callable[[np.random.Generator, Shape], np.ndarray]


def normal(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return normal floats."""
    return generator.standard_normal(shape, dtype=np.float32)


def uniform(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return floats in 0..1: large sums of them have a small relative error."""
    return generator.random(shape, dtype=np.float32)


def complex_normal(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return complex numbers of normal parts."""
    return normal(generator, (*shape, 2)).view(np.complex64)[..., 0]


def weights(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return normal floats of the size that keeps a layer's output at that of its input."""
    return normal(generator, shape) * np.float32(shape[0] ** -0.5)


def labels(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return class numbers 0..9."""
    return generator.integers(0, 10, shape, dtype=np.int32)


class Samples:
    """Draws the numbers of arguments, always the same."""

    def __init__(self) -> None:
        """Start from seed 0."""
        self.generator = np.random.default_rng(0)

    def __call__(self, shape: Shape | int, scale: float = 1.0) -> np.ndarray:
        """Return normal numbers f32[shape]."""
        return self.generator.standard_normal(shape, np.float32) * np.float32(scale)

    def uniform(self, low: float, high: float, shape: Shape | int) -> np.ndarray:
        """Return uniform numbers f32[shape]."""
        return self.generator.uniform(low, high, shape).astype(np.float32)

    def integers(self, high: int, shape: Shape | int) -> np.ndarray:
        """Return numbers s32[shape] from 0 to `high` - 1."""
        return self.generator.integers(0, high, shape, dtype=np.int32)


OP_ENGINES = ("Ingot", "XLA")
"""The engines that run what stands in a section of its own."""


@dataclass(frozen=True, slots=True)
class Program:
    """One row of the table.

    Attributes:
        name: before the `:` its key in the `FUNCTIONS` of `jax_programs` and the like.
        shapes: shapes of the inputs.
        makers: how inputs are made; the last one serves all that follow.
        flops: floating-point operations, to show how near the machine's limit a row is.
        bytes: bytes that must be moved, likewise.
        tolerance: largest error allowed, relative to the largest element of a result.
        quick: whether `--quick` runs it.
        section: title of its tables where it stands apart; only `OP_ENGINES` run it then.
    """

    name: str
    shapes: tuple[Shape, ...]
    makers: tuple[Maker, ...] = (normal,)
    flops: float = 0
    bytes: float = 0
    tolerance: float = 2e-5
    quick: bool = False
    section: str = ""

    @property
    def function(self) -> str:
        """The framework function's name."""
        return self.name.split(":")[0]

    def inputs(self) -> list[np.ndarray]:
        """Return the inputs, always the same."""
        generator = np.random.default_rng(0)
        makers = self.makers + (self.makers[-1],) * len(self.shapes)
        return [make(generator, shape) for make, shape in zip(makers, self.shapes, strict=False)]


def _matmul(size: int, *, quick: bool = False) -> Program:
    return Program(f"matmul: {size}", ((size, size),) * 2, flops=2 * size**3, quick=quick)


def _pointwise(function: str, *, quick: bool = False) -> Program:
    size = 1 << 20
    return Program(f"{function}: 1M", ((size,),), bytes=8 * size, quick=quick)


def _rows(function: str) -> Program:
    return Program(f"{function}: 512x1024", ((512, 1024),), bytes=8 * 512 * 1024, quick=True)


_MILLIONS = 1 << 24
_LAYER = ((128, 784), (128,), (784, 512), (512,), (512, 10), (10,))
_LAYER_MAKERS = (normal, labels, weights, normal, weights, normal)

PROGRAMS: tuple[Program, ...] = (
    Program(
        "sum(x+y*z): 16M",
        ((_MILLIONS,),) * 3,
        (uniform,),
        bytes=12 * _MILLIONS,
        tolerance=1e-4,
    ),
    Program("x+y*z: 16M", ((_MILLIONS,),) * 3, bytes=16 * _MILLIONS),
    _rows("softmax"),
    _rows("layernorm"),
    _pointwise("gelu tanh", quick=True),
    _pointwise("gelu erf"),
    _pointwise("exp"),
    Program("column sums: 4096x1024", ((4096, 1024),), (uniform,), bytes=4 << 22),
    Program("transpose: 2048x2048", ((2048, 2048),), bytes=8 << 22),
    _matmul(64),
    _matmul(512, quick=True),
    _matmul(1024),
    Program(
        "matmul+bias+gelu: 512x768x3072",
        ((512, 768), (768, 3072), (3072,)),
        (normal, weights, normal),
        flops=2 * 512 * 768 * 3072,
    ),
    Program(
        "batched matmul: 96x(128,64,128)",
        ((96, 128, 64), (96, 64, 128)),
        flops=2 * 96 * 128 * 64 * 128,
    ),
    Program("gemv: 768x3072", ((1, 768), (768, 3072)), bytes=4 * 768 * 3072),
    Program("matvec: 3072x768", ((3072, 768), (768,)), bytes=4 * 768 * 3072),
    Program("complex chain: 1M", ((1 << 20,),) * 2, (complex_normal,), bytes=24 << 20),
    Program("complex exp: 1M", ((1 << 20,),), (complex_normal,), bytes=16 << 20),
    Program("complex matmul: 256", ((256, 256),) * 2, (complex_normal,), flops=8 * 256**3),
    Program("MLP train step: 128x784x512x10", _LAYER, _LAYER_MAKERS, tolerance=1e-4, quick=True),
    Program("tiny call: 4", ((4,), (4,)), quick=True),
)


@dataclass(slots=True)
class Timing:
    """Seconds per call (or per compilation) in every round."""

    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return float(np.median(self.seconds))

    def ratio(self, other: Timing) -> float:
        """Return how many times slower `other` is: the median of the rounds' own ratios."""
        pairs = zip(other.seconds, self.seconds, strict=True)
        return float(np.median([theirs / ours for theirs, ours in pairs]))
