# SPDX-License-Identifier: Apache-2.0
"""Element types: one table of XLA's primitive types with their NumPy storage.

Every layer uses this table (size, kind, storage); no layer keeps a list of its own. Names are XLA's
text names. Storage is NumPy's or ml_dtypes' type; sub-byte types are stored one element per byte in
NumPy, as ml_dtypes does.

Source: xla/xla_data.proto (PrimitiveType), xla/primitive_util.h.

Example:
    >>> dtype("bf16").bits, dtype("f32").numpy.name
    (16, 'float32')
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, cast

import ml_dtypes
import numpy as np

from ingot.support.diagnostics import VerifyError
from ingot.support.records import record


class Kind(StrEnum):
    """The kind of an element type."""

    PRED = "pred"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    COMPLEX = "complex"
    OTHER = "other"


@record(eq=False)
class DType:
    """An element type; instances are interned, so `is` compares them.

    Attributes:
        name: XLA's text name.
        kind: the kind of the elements.
        bits: width of one element in bits (0 for token, tuple, opaque).
        storage: the NumPy type that holds elements, or None.
        mantissa: explicit mantissa bits of a float type.
    """

    name: str
    kind: Kind
    bits: int
    storage: np.dtype[Any] | None
    mantissa: int = 0

    def __repr__(self) -> str:
        return self.name

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy storage type; VerifyError for types that hold no array data."""
        if self.storage is None:
            raise VerifyError(f"element type {self.name} holds no array data", code="INGOT0201")
        return self.storage

    @property
    def bytes(self) -> int:
        """Bytes that one element takes in a buffer."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether elements are real floating-point numbers."""
        return self.kind is Kind.FLOAT

    @property
    def is_narrow_float(self) -> bool:
        """Whether elements are floats narrower than f32, in which sums are made (`wider`)."""
        return self.is_float and self.bits < 32

    @property
    def is_complex(self) -> bool:
        """Whether elements are complex numbers."""
        return self.kind is Kind.COMPLEX

    @property
    def is_integer(self) -> bool:
        """Whether elements are integers, signed or unsigned (pred is not)."""
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED)

    @property
    def is_signed(self) -> bool:
        """Whether elements are signed integers."""
        return self.kind is Kind.SIGNED


def _table() -> dict[str, DType]:
    floats = {
        "f4e2m1fn": (ml_dtypes.float4_e2m1fn, 4, 1),
        "f8e3m4": (ml_dtypes.float8_e3m4, 8, 4),
        "f8e4m3": (ml_dtypes.float8_e4m3, 8, 3),
        "f8e4m3fn": (ml_dtypes.float8_e4m3fn, 8, 3),
        "f8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 8, 3),
        "f8e4m3b11fnuz": (ml_dtypes.float8_e4m3b11fnuz, 8, 3),
        "f8e5m2": (ml_dtypes.float8_e5m2, 8, 2),
        "f8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 8, 2),
        "f8e8m0fnu": (ml_dtypes.float8_e8m0fnu, 8, 0),
        "bf16": (ml_dtypes.bfloat16, 16, 7),
        "f16": (np.float16, 16, 10),
        "f32": (np.float32, 32, 23),
        "f64": (np.float64, 64, 52),
    }
    rows = [DType("pred", Kind.PRED, 1, np.dtype(np.bool_))]
    for bits in (1, 2, 4, 8, 16, 32, 64):
        signed = getattr(ml_dtypes, f"int{bits}") if bits < 8 else f"int{bits}"
        unsigned = getattr(ml_dtypes, f"uint{bits}") if bits < 8 else f"uint{bits}"
        rows.append(DType(f"s{bits}", Kind.SIGNED, bits, np.dtype(signed)))
        rows.append(DType(f"u{bits}", Kind.UNSIGNED, bits, np.dtype(unsigned)))
    for name, (storage, bits, mantissa) in floats.items():
        rows.append(DType(name, Kind.FLOAT, bits, np.dtype(storage), mantissa))
    rows.append(DType("c64", Kind.COMPLEX, 64, np.dtype(np.complex64), 23))
    rows.append(DType("c128", Kind.COMPLEX, 128, np.dtype(np.complex128), 52))
    rows.extend(DType(name, Kind.OTHER, 0, None) for name in ("token", "tuple", "opaque"))
    return {row.name: row for row in rows}


DTYPES: dict[str, DType] = _table()
_BY_STORAGE = {row.storage: row for row in DTYPES.values() if row.storage is not None}

PRED = DTYPES["pred"]
S8, S16, S32, S64 = (DTYPES[f"s{bits}"] for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (DTYPES[f"u{bits}"] for bits in (8, 16, 32, 64))
BF16, F16, F32, F64 = (DTYPES[name] for name in ("bf16", "f16", "f32", "f64"))
C64, C128 = DTYPES["c64"], DTYPES["c128"]
COMPLEX_OF = {F32: C64, F64: C128}
"""The complex type whose parts a float type is."""
REAL_OF = {C64: F32, C128: F64}
"""The type of the real and the imaginary part of a complex type."""
TOKEN, TUPLE, OPAQUE = DTYPES["token"], DTYPES["tuple"], DTYPES["opaque"]


def dtype(name: str | DType) -> DType:
    """Return the element type called `name` (XLA's text name); an element type is returned as is.

    Raises:
        VerifyError: INGOT0202 no element type has the name.
    """
    if isinstance(name, DType):
        return name
    found = DTYPES.get(name)
    if found is None:
        raise VerifyError(f"unknown element type '{name}'", code="INGOT0202")
    return found


def from_numpy(storage: Any) -> DType:
    """Return the element type whose NumPy storage is `storage`: anything that `np.dtype` takes.

    Raises:
        VerifyError: INGOT0203 no element type has this storage.
    """
    found = _BY_STORAGE.get(np.dtype(storage))
    if found is None:
        raise VerifyError(f"NumPy type {np.dtype(storage)} has no HLO type", code="INGOT0203")
    return found


def rounded_to(storage: np.dtype[Any], numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return floats as those of a NumPy type of this table, rounded to nearest even.

    ml_dtypes 0.6 rounds everything between the two least numbers of f8e8m0fnu up; 0.7 does not.
    """
    if storage == DTYPES["f8e8m0fnu"].storage:
        least = np.float32(2.0**-127)
        nearer = (numbers > least) & (numbers < least * np.float32(1.5))
        numbers = np.where(nearer, least, numbers)
    return numbers.astype(storage)


def wider(element: DType) -> DType:
    """Return the type in which values of `element` are accumulated: f32 for narrower floats."""
    return F32 if element.is_narrow_float else element


def has_infinity(element: DType) -> bool:
    """Whether a float type has infinities; some of at most 8 bits have finite values only."""
    return bool(np.isinf(np.array(np.inf).astype(element.numpy)))


def _finite(element: DType, end: str) -> float:
    info = cast("Any", ml_dtypes.finfo(element.numpy))
    return float(getattr(info, end))


def least(element: DType) -> Any:
    """Return the least value of a real element type: -inf, or the least number if there is none."""
    if element.is_float:
        return -np.inf if has_infinity(element) else least_finite(element)
    return least_finite(element)


def least_finite(element: DType) -> Any:
    """Return the least value of a real element type that is a number."""
    if element.is_float:
        return _finite(element, "min")
    return -(1 << (element.bits - 1)) if element.is_signed else 0


def greatest(element: DType) -> Any:
    """Return the greatest value of a real element type: inf, or the greatest number."""
    if element.is_float:
        return np.inf if has_infinity(element) else _finite(element, "max")
    return (1 << (element.bits - element.is_signed)) - 1
