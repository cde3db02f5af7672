# SPDX-License-Identifier: Apache-2.0
"""Cases of ops that are algorithms: FFT, Cholesky, triangular solve, batch norm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tests.differential.case import Array, Case, Nearness, seed_of, values
from tests.differential.shaping_cases import build_one

from ingot.hlo.shape import Shape

SOLVE = Nearness(ulps=4096, xla_ulps=4096, of_largest=True, reason="order of elimination")
_TRANSFORM = Nearness(ulps=256, xla_ulps=256, of_largest=True, reason="order of summation")
_NORM = Nearness(ulps=512, xla_ulps=512, of_largest=True, reason="order of summation")


def transforms() -> Iterator[Case]:
    """FFTs of all kinds, of lengths that are powers of two, primes and products."""
    for lengths in ((1,), (2,), (8,), (7,), (12,), (31,), (100,), (4, 6), (5, 3), (2, 3, 4)):
        for batch in ((), (3,)):
            for single in (True, False):
                complex_, real = ("c64", "f32") if single else ("c128", "f64")
                half = (*lengths[:-1], lengths[-1] // 2 + 1)
                for kind, source, target, dims, result in (
                    ("FFT", complex_, complex_, lengths, lengths),
                    ("IFFT", complex_, complex_, lengths, lengths),
                    ("RFFT", real, complex_, lengths, half),
                    ("IRFFT", complex_, real, half, lengths),
                ):
                    name = f"fft {kind} {source}{[*batch, *lengths]} rank {len(lengths)}"
                    data = values(source, (*batch, *dims), seed_of(name))
                    if kind == "IRFFT":
                        data = _half_of_real(lengths, batch, seed_of(name)).astype(data.dtype)
                    shape = Shape.array(target, (*batch, *result))
                    build = build_one("fft", shape=shape, fft_type=kind, fft_length=lengths)
                    yield Case(name, (data,), build, _TRANSFORM)


def _half_of_real(
    lengths: tuple[int, ...], batch: tuple[int, ...], generator: np.random.Generator
) -> Array:
    """Return half of the spectrum of real numbers: of others IRFFT's meaning is not defined."""
    data = generator.normal(size=(*batch, *lengths))
    axes = tuple(range(len(batch), data.ndim))
    return np.fft.rfftn(data, axes=axes)


def factors() -> Iterator[Case]:
    """Cholesky factors and triangular solves: sides, transposes, unit diagonals, batches."""
    for element in ("f32", "f64", "c64", "c128"):
        for dims in ((1, 1), (3, 3), (17, 17), (2, 5, 5), (0, 3, 3)):
            for lower in (True, False):
                name = f"cholesky {element}{list(dims)} {'lower' if lower else 'upper'}"
                data = _positive(element, dims, seed_of(name))
                yield Case(name, (data,), _triangle("cholesky", lower), SOLVE)
            for left in (True, False):
                for lower in (True, False):
                    for transposed in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
                        for unit in (False, True):
                            yield _solve(element, dims, left, lower, transposed, unit)


def _triangle(opcode: str, lower: bool) -> object:
    """Return a program whose other triangle is zero: XLA leaves it undefined."""

    def build(b, given):  # type: ignore[no-untyped-def]
        found = b.emit(opcode, *given, lower=lower)
        shape = found.shape.with_dtype("s32")
        rank = shape.rank
        rows = b.iota(shape=shape, iota_dimension=rank - 2)
        columns = b.iota(shape=shape, iota_dimension=rank - 1)
        kept = b.compare(rows, columns, direction="GE" if lower else "LE")
        return b.select(kept, found, b.full(0, found.shape))

    return build


def _positive(element: str, dims: tuple[int, ...], generator: np.random.Generator) -> Array:
    half = values(element, dims, generator)
    size = np.eye(dims[-1], dtype=half.dtype) * half.dtype.type(dims[-1] * 8)
    return (half @ np.conj(np.swapaxes(half, -1, -2)) + size).astype(half.dtype)


def _solve(
    element: str, dims: tuple[int, ...], left: bool, lower: bool, transposed: str, unit: bool
) -> Case:
    name = (
        f"triangular-solve {element}{list(dims)} {'left' if left else 'right'}"
        f" {'lower' if lower else 'upper'} {transposed}{' unit' if unit else ''}"
    )
    generator = seed_of(name)
    matrix = values(element, dims, generator) / 8
    matrix = (matrix + 2 * np.eye(dims[-1])).astype(matrix.dtype)
    others = (*dims[:-1], 4) if left else (*dims[:-2], 4, dims[-1])
    build = build_one(
        "triangular-solve", left_side=left, lower=lower, transpose_a=transposed, unit_diagonal=unit
    )
    return Case(name, (matrix, values(element, others, generator)), build, SOLVE)


def norms() -> Iterator[Case]:
    """Batch norm, its training form and its gradient, over every feature dimension."""
    for element in ("f32", "f64", "bf16", "f16"):
        for dims, feature in (((4, 3), 1), ((2, 5, 5, 3), 3), ((2, 3, 4, 4), 1), ((3, 7), 0)):
            for opcode in ("batch-norm-training", "batch-norm-inference", "batch-norm-grad"):
                name = f"{opcode} {element}{list(dims)} {feature}"
                generator = seed_of(name)
                size = (dims[feature],)
                vectors = [values(element, size, generator) for _ in range(4)]
                vectors[3] = np.abs(vectors[3]) + vectors[3].dtype.type(0.5)
                data = values(element, dims, generator)
                inputs = {
                    "batch-norm-training": (data, *vectors[:2]),
                    "batch-norm-inference": (data, *vectors),
                    "batch-norm-grad": (data, vectors[0], vectors[1], vectors[3],
                                        values(element, dims, generator)),
                }[opcode]  # fmt: skip
                build = build_one(opcode, epsilon=0.01, feature_index=feature)
                yield Case(name, inputs, build, _NORM)


def cases() -> Iterator[Case]:
    """Every case of this file."""
    for family in (transforms, factors, norms):
        yield from family()
