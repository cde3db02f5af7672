# SPDX-License-Identifier: Apache-2.0
"""Cases of the differential run: one small program with inputs and how near its results must be.

A case builds its instructions into a builder that other cases share, so that one module holds many
of them and real XLA compiles once for all. `values` and `special_values` make the inputs.

Invariant: a case is a function of its name; nothing is drawn at run time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import DType, Kind, dtype
from ingot.hlo.instruction import Instruction

Array = np.ndarray[Any, np.dtype[Any]]
Build = Callable[[Builder, Sequence[Instruction]], Instruction]

SIGNED = ("s2", "s4", "s8", "s16", "s32", "s64")
UNSIGNED = ("u2", "u4", "u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
NARROW_FLOATS = (
    "f8e3m4", "f8e4m3", "f8e4m3fn", "f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2", "f8e5m2fnuz",
)  # fmt: skip
FLOATS = ("bf16", "f16", "f32", "f64")
COMPLEX = ("c64", "c128")


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near a result must be: units in the last place, of the value or of the largest value.

    Attributes:
        ulps: allowed between the evaluator and Ingot's CPU.
        xla_ulps: allowed between the evaluator and real XLA.
        of_largest: units are those of the array's largest finite value (sums that cancel).
        reason: why real XLA may be farther off.
    """

    ulps: float = 0
    xla_ulps: float = 0
    of_largest: bool = False
    reason: str = ""


EXACT = Nearness()
ALONE = (1, 1)


@dataclass(frozen=True, slots=True)
class Case:
    """One program.

    Attributes:
        name: unique; opcode first.
        inputs: one array per parameter.
        build: adds the program, given its parameters; returns its result.
        nearness: how near results must be.
        elementwise: output element i depends on input elements i only (denormals can be left out).
        grid: replicas and partitions that it runs on; inputs and results of several devices have
            the device as their first dimension.
    """

    name: str
    inputs: tuple[Array, ...]
    build: Build
    nearness: Nearness = EXACT
    elementwise: bool = False
    grid: tuple[int, int] = ALONE

    @property
    def opcode(self) -> str:
        """The opcode that the case is about."""
        return self.name.split(" ", 1)[0]


def seed_of(name: str) -> np.random.Generator:
    """Return the generator that belongs to a name."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def special_values(element: str | DType) -> Array:
    """Return the numbers at which implementations differ."""
    kind = dtype(element)
    if kind.kind is Kind.PRED:
        return np.array([False, True])
    if kind.is_integer:
        limits = ml_dtypes.iinfo(kind.numpy)
        low, high = int(limits.min), int(limits.max)
        near = (0, 1, 2, 3, -1, -2, 7, kind.bits - 1, kind.bits, low, low + 1, high - 1, high)
        fitting = dict.fromkeys(value for value in near if low <= value <= high)
        return np.array(list(fitting), object).astype(kind.numpy)
    if kind.is_complex:
        parts = np.array([0.0, -0.0, 1.0, -2.5, 0.3, np.inf, -np.inf, np.nan])
        real, imaginary = np.meshgrid(parts, parts)
        made = np.empty(real.size, kind.numpy)
        made.real, made.imag = real.reshape(-1), imaginary.reshape(-1)
        return made
    return _special_floats(kind)


def _special_floats(kind: DType) -> Array:
    limits = ml_dtypes.finfo(kind.numpy)
    least, denormal = float(limits.tiny), float(limits.smallest_subnormal)
    most = float(limits.max)
    values = [
        0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, -0.7, 7.25, np.pi, 100.0, -20.0,
        most, -most, most / 2, least, -least, 3 * least, denormal, -denormal, np.nan, np.inf,
        -np.inf, 1 + float(limits.eps), 1 - float(limits.eps) / 2, 1e-3, 88.0, -104.0, 1e4, 12345.6,
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        return np.array(values).astype(kind.numpy)


def values(element: str | DType, dims: Sequence[int], generator: np.random.Generator) -> Array:
    """Return moderate numbers of every sign and of several magnitudes."""
    kind, shape = dtype(element), tuple(dims)
    if kind.kind is Kind.PRED:
        return generator.integers(0, 2, shape).astype(np.bool_)
    if kind.is_integer:
        limits = ml_dtypes.iinfo(kind.numpy)
        low, high = max(int(limits.min), -100), min(int(limits.max), 100)
        return generator.integers(low, high, shape, endpoint=True).astype(kind.numpy)
    if kind.is_complex:
        return (generator.normal(size=shape) + 1j * generator.normal(size=shape)).astype(kind.numpy)
    return (generator.normal(size=shape) * 2.0 ** generator.integers(-3, 4, shape)).astype(
        kind.numpy
    )


def small_integers(
    element: str | DType, dims: Sequence[int], generator: np.random.Generator
) -> Array:
    """Return whole numbers from -4 to 4, whose sums and products are exact in most types."""
    kind = dtype(element)
    low = 0 if kind.kind in (Kind.PRED, Kind.UNSIGNED) else -2 if kind.bits <= 4 else -4
    high = 1 if kind.kind is Kind.PRED or kind.bits <= 4 else 4
    return generator.integers(low, high, tuple(dims), endpoint=True).astype(kind.numpy)


def outer(first: Array, second: Array) -> tuple[Array, Array]:
    """Return every pair of values of two lists, as two lists."""
    return np.repeat(first, second.size), np.tile(second, first.size)


def unique(cases: Iterable[Case]) -> list[Case]:
    """Return the cases; fail when two have one name."""
    found = list(cases)
    names = [case.name for case in found]
    assert len(set(names)) == len(names), sorted(n for n in set(names) if names.count(n) > 1)[:5]
    return found
