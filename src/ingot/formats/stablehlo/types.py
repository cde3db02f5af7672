# SPDX-License-Identifier: Apache-2.0
"""MLIR types to shapes: `tensor<2x?xf32>` is `f32[2,?d]`, tokens and tuples are themselves.

A `?` is an open size: the shape is then unknown here (`None`) and the op's converter derives it
(see `dynamic`). A `?` with a bound in its type's extensions (`#stablehlo.bounds<8>`) is XLA's
bounded dimension.

Invariant: a type without an element type in Ingot is refused by name.
"""

from __future__ import annotations

from typing import Any

from ingot.formats.stablehlo.binding import mlir
from ingot.formats.stablehlo.quantization import Quantization, parse_quantized
from ingot.hlo.dtype import DTYPES, DType
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import UnsupportedError

# MLIR's names of element types that are not XLA's in lower case.
_ELEMENTS = {
    "i1": "pred",
    "index": "s64",
    "complex<f32>": "c64",
    "complex<f64>": "c128",
    **{f"i{bits}": f"s{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"u{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}
_TOKEN = "!stablehlo.token"


def element_type(text: str) -> DType:
    """Return the element type that MLIR calls `text`."""
    found = DTYPES.get(_ELEMENTS.get(text, text.lower()))
    if found is not None and (text in _ELEMENTS or found.is_float):
        return found
    raise UnsupportedError(f"Ingot has no element type for '{text}' of StableHLO", code="INGOT0351")


class Types:
    """Shapes by MLIR type, for one module (MLIR keeps one object per type).

    Attributes:
        met_quantized: whether one of the types was quantized.
    """

    __slots__ = ("_elements", "_known", "_quantized", "met_quantized")

    def __init__(self) -> None:
        self.met_quantized = False
        self._quantized: dict[Any, Quantization | None] = {}
        self._known: dict[Any, Shape | None] = {}
        self._elements: dict[Any, DType] = {}

    def shape(self, mlir_type: Any) -> Shape | None:
        """Return the shape, or None when the type leaves a size open."""
        try:
            return self._known[mlir_type]
        except KeyError:
            found = self._known[mlir_type] = self._read(mlir_type)
            return found

    def element(self, mlir_type: Any) -> DType:
        """Return the element type of a tensor type; that of the integers if it is quantized."""
        element = mlir_type.element_type
        found = self._elements.get(element)
        if found is None:
            quantization = self.quantization(mlir_type)
            known = element_type(str(element)) if quantization is None else quantization.storage
            found = self._elements[element] = known
        return found

    def quantization(self, mlir_type: Any) -> Quantization | None:
        """Return the quantization of a quantized tensor type; None for other types."""
        try:
            return self._quantized[mlir_type]
        except KeyError:
            found = self._quantized[mlir_type] = _quantization(mlir_type)
            self.met_quantized = self.met_quantized or found is not None
            return found

    def sizes(self, mlir_type: Any) -> tuple[int | None, ...]:
        """Return the sizes of a tensor type; None where it has `?`."""
        return tuple(
            None if mlir_type.is_dynamic_dim(dim) else mlir_type.get_dim_size(dim)
            for dim in range(mlir_type.rank)
        )

    def _read(self, mlir_type: Any) -> Shape | None:
        if hasattr(mlir_type, "element_type"):
            return self._tensor(mlir_type)
        if str(mlir_type) == _TOKEN:
            return Shape.token()
        if hasattr(mlir_type, "num_types"):
            parts = [self.shape(mlir_type.get_type(n)) for n in range(mlir_type.num_types)]
            known = tuple(part for part in parts if part is not None)
            return Shape.tuple(known) if len(known) == len(parts) else None
        raise UnsupportedError(
            f"Ingot has no shape for the type '{mlir_type}' of StableHLO", code="INGOT0351"
        )

    def _tensor(self, mlir_type: Any) -> Shape | None:
        if not mlir_type.has_rank:
            raise UnsupportedError(f"'{mlir_type}' has no rank", code="INGOT0351")
        element, sizes = self.element(mlir_type), self.sizes(mlir_type)
        known = tuple(size for size in sizes if size is not None)
        if len(known) == len(sizes):
            return Shape.array(element, known)
        bounds = _bounds(mlir_type.encoding)
        if len(bounds) != len(sizes):
            return None
        limits = tuple(b if s is None else s for s, b in zip(sizes, bounds, strict=True))
        if any(limit < 0 for limit in limits):
            return None
        plain = Shape.array(element, limits)
        bounded = tuple(size is None for size in sizes)
        return Shape(plain.dtype, plain.dims, plain.layout, (), bounded)


def _quantization(mlir_type: Any) -> Quantization | None:
    if not hasattr(mlir_type, "element_type"):
        return None
    text = str(mlir_type.element_type)
    return parse_quantized(text) if text.startswith("!quant.") else None


def _bounds(encoding: Any) -> list[int]:
    """Return the bounds of a tensor type's extensions, nothing when it has none."""
    if encoding is None or not str(encoding).startswith("#stablehlo.bounds"):
        return []
    return list(mlir().stablehlo.TypeExtensions(encoding).bounds)
