# SPDX-License-Identifier: Apache-2.0
"""What a tensor of the captured function is while it is lowered.

A value is an HLO instruction, or an array known at compile time (`Known`), or a handle: a variable
or a TensorList. Shapes, axes and paddings are `Known`; their elements may be symbolic sizes
(`Dim`), so `tf.shape(x)[0]` of an open batch is known too, and stays known through arithmetic.

Invariant: `Known.array` has NumPy type `object` exactly when some element is a `Dim`; a bool,
integer or float array otherwise, of the storage type of `Known.element`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

import numpy as np

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DTYPES, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import mutable, record

Array = np.ndarray[Any, np.dtype[Any]]
Size = int | Dim
Sizes = tuple[Size, ...]

_ELEMENTS = {
    "bool": "pred", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128", "float8_e5m2": "f8e5m2",
    "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e4m3b11fnuz": "f8e4m3b11fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
    **{f"int{bits}": f"s{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"qint{bits}": f"s{bits}" for bits in (8, 16, 32)},
    **{f"quint{bits}": f"u{bits}" for bits in (8, 16)},
}  # fmt: skip


def element_of(name: str) -> DType:
    """Return the HLO element type of TensorFlow's type `name`; UnsupportedError for no number."""
    found = _ELEMENTS.get(name)
    if found is None:
        raise UnsupportedError(
            f"tensors of type {name} cannot be compiled",
            code="INGOT0311",
            hint="keep them outside the function with jit_compile=True",
        )
    return DTYPES[found]


@record(eq=False)
class Known:
    """An array that is known at compile time."""

    array: Array
    element: DType

    @staticmethod
    def of(values: Any, element: DType) -> Known:
        """Return the known array of a number, size, list or array."""
        raw = np.asarray(values, dtype=object)
        if any(isinstance(item, Dim) for item in raw.ravel()):
            return Known(raw, element)
        return Known(np.asarray(values).astype(element.numpy), element)

    @staticmethod
    def sizes(values: Iterable[Size], element: DType) -> Known:
        """Return a known vector of sizes."""
        return Known.of(object_array(list(values)), element)

    @property
    def is_symbolic(self) -> bool:
        """Whether some element is a symbolic size."""
        return self.array.dtype == object

    @property
    def shape(self) -> Shape:
        """The HLO shape."""
        return Shape.array(self.element, self.array.shape)


def plain_size(item: Any) -> Any:
    """Return an element of a known array as Python's own number, or the symbolic size it is."""
    return item if isinstance(item, Dim | int | float | bool) else item.item()


def object_array(values: list[Size]) -> Array:
    """Return a vector of objects (NumPy would look for a shape inside them)."""
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


@record
class Variable:
    """A resource: the variable that is input `index` of the lowered function."""

    index: int
    element: DType
    dims: Sizes


@record(eq=False)
class TensorList:
    """A TensorList: its elements stacked in one buffer, and how many there are.

    A list whose length is a size has as many rows. A list that is *counted* has its length in an
    `s32[]` instruction, and its elements in the first rows.

    Attributes:
        buffer: `[rows, *element]`; None before the shape of an element is known.
        length: how many elements there are.
        element: element type of the buffer; for a list of lists, of the inner lists'.
        dims: the shape of an element; for a list of lists, of an inner list's buffer.
        declared: the shape of an element as the program gave it, in the same computation: -1 for a
            size that is open, and alone for any shape.
        bound: how many elements there can be, where the program says it.
        lengths: of a list of lists, `s32[rows]`: the inner lists' lengths.
        of_lists: whether the elements are lists.
    """

    buffer: Instruction | None
    length: Size | Instruction
    element: DType
    dims: Sizes | None = None
    bound: Size | None = None
    lengths: Instruction | None = None
    of_lists: bool = False
    declared: Known | Instruction | None = None

    @property
    def is_counted(self) -> bool:
        """Whether only run time knows the length."""
        return isinstance(self.length, Instruction)

    @property
    def rows(self) -> Size:
        """How many rows the buffer has."""
        assert self.buffer is not None
        return self.buffer.shape.dims[0]


@mutable(eq=False)
class ElementArray:
    """What a stack or a TensorArray that is a resource holds: see `resource_arrays`.

    Attributes:
        element: element type of the elements.
        elements: each element; None where nothing was written, or where it was read for good.
        dims: the shape of an element, where the program says it.
        grows: whether a write behind the end makes it longer.
        most: greatest number of elements.
        clears: whether an element is read once.
        adds: whether what is written to one index is added up: it holds gradients.
        gradients: the arrays of its gradients by their source.
    """

    element: DType
    elements: list[Instruction | None]
    dims: Sizes | None = None
    grows: bool = False
    most: int | None = None
    clears: bool = False
    adds: bool = False
    gradients: dict[str, Variable] = field(default_factory=dict[str, Variable])


@record(eq=False)
class Text:
    """A constant string tensor: what assertions say. No other op takes it."""

    array: Array


Value = Instruction | Known | Variable | TensorList | Text


def dims_of(value: Value) -> Sizes:
    """Return the dimensions of a tensor value."""
    if isinstance(value, Known):
        return value.array.shape
    if isinstance(value, Instruction):
        return value.shape.dims
    if isinstance(value, Text):
        return value.array.shape
    raise UnsupportedError(f"a {type(value).__name__} is used as a tensor", code="INGOT0311")


def sizes_in(value: Value) -> Sizes:
    """Return every size that a value says something of: its dimensions, and symbolic elements."""
    if isinstance(value, Known) and value.is_symbolic:
        return tuple(item for item in value.array.ravel() if isinstance(item, Dim))
    if isinstance(value, TensorList):
        held = () if value.buffer is None else value.buffer.shape.dims
        sizes: tuple[object, ...] = (value.length, value.bound, *held)
        return tuple(size for size in sizes if isinstance(size, int | Dim))
    return value.dims if isinstance(value, Variable) else dims_of(value)


def dtype_of(value: Value) -> DType:
    """Return the element type of a value."""
    if isinstance(value, Text):
        raise UnsupportedError("strings cannot be compiled", code="INGOT0311")
    return value.shape.dtype if isinstance(value, Instruction) else value.element
