# SPDX-License-Identifier: Apache-2.0
"""Literals: constant values, arrays or tuples of them, immutable.

Equality and hash are bitwise (so NaN equals the same NaN, and 0.0 differs from -0.0): constants
are merged only if no program can distinguish them.

Example:
    >>> Literal.of([1, 2], "s32").shape.to_string()
    's32[2]{0}'
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.hlo.dtype import DType, dtype, from_numpy
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import VerifyError
from ingot.support.records import record

Array = np.ndarray[Any, np.dtype[Any]]


@record
class Literal:
    """A constant: `array` for array shapes, `elements` for tuples."""

    shape: Shape
    array: Array | None = None
    elements: tuple[Literal, ...] = ()

    @staticmethod
    def of(value: Any, element: str | DType | None = None) -> Literal:
        """Return the literal of a NumPy array, number or nested list (row-major copy)."""
        storage = dtype(element).numpy if element is not None else None
        array = np.array(value, dtype=storage, order="C")
        array.flags.writeable = False
        return Literal(Shape.array(from_numpy(array.dtype), array.shape), array)

    @staticmethod
    def tuple(elements: tuple[Literal, ...]) -> Literal:
        """Return a tuple literal."""
        return Literal(Shape.tuple(tuple(e.shape for e in elements)), None, elements)

    @property
    def value(self) -> Array:
        """The array (row-major, read-only); VerifyError for tuples."""
        if self.array is None:
            raise VerifyError("a tuple literal has no single array", code="INGOT0205")
        return self.array

    @property
    def nbytes(self) -> int:
        """Bytes of the array, or of all arrays of a tuple."""
        if self.array is None:
            return sum(element.nbytes for element in self.elements)
        return self.array.nbytes

    @property
    def is_splat(self) -> bool:
        """Whether there is at least one element and all are bitwise the same."""
        if self.array is None or self.array.size == 0:
            return False
        if self.array.size == 1:
            return True
        data = self.array.reshape(-1)
        raw = data.view(np.uint8).reshape(data.size, -1)
        return bool((raw == raw[0]).all())

    @property
    def scalar(self) -> Any:
        """The first element as a NumPy scalar (the value of a splat)."""
        return self.value.reshape(-1)[0]

    def _key(self) -> tuple[object, ...]:
        data = self.array.tobytes() if self.array is not None else b""
        return (self.shape.dtype.name, self.shape.dims, data, self.elements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and (
            self is other or (self.shape.dims == other.shape.dims and self._key() == other._key())
        )

    def __hash__(self) -> int:
        small = self.array is not None and self.array.size <= 64
        data = self.array.tobytes() if self.array is not None and small else b""
        return hash((self.shape.dtype.name, self.shape.dims, data, self.elements))
