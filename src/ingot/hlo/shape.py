# SPDX-License-Identifier: Apache-2.0
"""Shapes and layouts: element type, dimensions, order in memory; or a tuple of shapes.

Immutable values. A dimension is an `int` or a `Dim`; both print so that static shapes read
exactly as XLA prints them (`f32[2,3]{1,0}`), symbolic ones as `f32[?n,3]`. Layouts are XLA's
minor-to-major order; shapes that differ only in layout are `compatible`.

Example:
    >>> str(Shape.array("f32", (2, 3))), str(Shape.tuple((Shape.array("s32", ()),)))
    ('f32[2,3]{1,0}', '(s32[])')
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import field
from functools import lru_cache

from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import OPAQUE, TOKEN, TUPLE, DType, Kind, dtype
from ingot.support.diagnostics import UnsupportedError, VerifyError
from ingot.support.records import record

MAX_NESTING = 128
"""Nested tuples at most: XLA's protos end at 100. Code may recurse over them."""

MAX_LEAVES = 1 << 20
"""Arrays in a tuple at most: a tuple that contains another one twice doubles their number."""


@record
class Layout:
    """Order of dimensions in memory, minor first, and XLA's tiles kept as text."""

    minor_to_major: tuple[int, ...]
    suffix: str = ""

    def __str__(self) -> str:
        inner = ",".join(map(str, self.minor_to_major))
        return "{" + inner + (":" + self.suffix if self.suffix else "") + "}"

    @staticmethod
    @lru_cache(maxsize=64)
    def row_major(rank: int) -> Layout:
        """Return the default layout of `rank` dimensions."""
        return Layout(tuple(range(rank - 1, -1, -1)))


@record
class Shape:
    """The shape of a value.

    Attributes:
        dtype: element type; TUPLE for tuples, TOKEN and OPAQUE for those.
        dims: dimensions, major first; empty for tuples.
        layout: order in memory, or None where it does not matter.
        elements: element shapes of a tuple.
        bounded: dimensions that XLA calls dynamic with a static bound (`<=n`).
        is_buffer: whether this is the memory of an array, not its value (`b(f32[2])`).
    """

    dtype: DType
    dims: tuple[int | Dim, ...] = ()
    layout: Layout | None = None
    elements: tuple[Shape, ...] = ()
    bounded: tuple[bool, ...] = ()
    is_buffer: bool = False
    _hash: int = field(default=0, init=False, compare=False, repr=False)
    _text: str = field(default="", init=False, compare=False, repr=False)
    _bytes: int | Dim = field(default=-1, init=False, compare=False, repr=False)
    _nesting: int = field(default=0, init=False, compare=False, repr=False)
    _count: int = field(default=1, init=False, compare=False, repr=False)

    @staticmethod
    def array(
        element: str | DType, dims: tuple[int | Dim, ...], layout: Layout | None = None
    ) -> Shape:
        """Return an array shape; the default layout is row-major."""
        return Shape(dtype(element), tuple(dims), layout or Layout.row_major(len(dims)))

    @staticmethod
    def tuple(elements: tuple[Shape, ...]) -> Shape:
        """Return the shape of a tuple.

        Raises:
            UnsupportedError: INGOT0109, tuples are nested too deeply, or have too many arrays.
        """
        found = Shape(TUPLE, (), None, elements)
        nesting = 1 + max([element._nesting for element in elements], default=0)
        count = sum([element._count for element in elements])
        if nesting > MAX_NESTING or count > MAX_LEAVES:
            raise UnsupportedError(
                f"a tuple of {count} arrays, nested {nesting} deep",
                code="INGOT0109",
                hint=f"at most {MAX_NESTING} deep and {MAX_LEAVES} arrays: use a flat one",
            )
        object.__setattr__(found, "_nesting", nesting)
        object.__setattr__(found, "_count", count)
        return found

    @staticmethod
    def token() -> Shape:
        """Return the shape of a token."""
        return Shape(TOKEN)

    @staticmethod
    def opaque() -> Shape:
        """Return the opaque shape."""
        return Shape(OPAQUE)

    def __reduce__(self) -> tuple[type[Shape], tuple[object, ...]]:
        # Without the cached hash: the hash of a text differs between processes.
        facts = (self.dtype, self.dims, self.layout, self.elements, self.bounded, self.is_buffer)
        return Shape, facts

    def __hash__(self) -> int:
        known = self._hash
        if not known:
            known = hash((self.dtype.name, self.dims, self.elements)) or 1
            object.__setattr__(self, "_hash", known)
        return known

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def is_tuple(self) -> bool:
        """Whether this is a tuple."""
        return self.dtype is TUPLE

    @property
    def parts(self) -> tuple[Shape, ...]:
        """The elements of a tuple; any other shape alone."""
        return self.elements if self.is_tuple else (self,)

    @property
    def is_array(self) -> bool:
        """Whether this holds elements (not a tuple, token or opaque)."""
        return self.dtype.storage is not None

    @property
    def is_static(self) -> bool:
        """Whether every dimension is an int."""
        for size in self.dims:
            if not isinstance(size, int):
                return False
        return not self.elements or all(element.is_static for element in self.elements)

    @property
    def is_scalar(self) -> bool:
        """Whether this is an array with no dimensions."""
        return self.is_array and not self.dims

    @property
    def size(self) -> int | Dim:
        """Number of elements of an array."""
        return dim_math.product(self.dims)

    @property
    def bytes(self) -> int | Dim:
        """Bytes of the dense buffer of an array; the sum over a tuple's leaves."""
        known = self._bytes
        if known == -1:
            known = self._count_bytes()
            object.__setattr__(self, "_bytes", known)
        return known

    def _count_bytes(self) -> int | Dim:
        if self.is_tuple:
            total: int | Dim = 0
            for leaf in self.elements:
                total = total + leaf.bytes
            return total
        return self.size * self.dtype.bytes if self.is_array else 0

    @property
    def packed_bits(self) -> int | Dim:
        """Bits of the elements of an array, narrow ones packed; a pred takes 8."""
        return self.size * (8 if self.dtype.kind is Kind.PRED else self.dtype.bits)

    @property
    def static_dims(self) -> tuple[int, ...]:
        """The dimensions as ints; VerifyError when one is symbolic."""
        found: list[int] = []
        for size in self.dims:
            if not isinstance(size, int):
                raise VerifyError(f"shape {self} has a symbolic size", code="INGOT0204")
            found.append(size)
        return tuple(found)

    def leaves(self) -> list[tuple[tuple[int, ...], Shape]]:
        """Return (index path, shape) of every leaf, in order; an array is its own leaf."""
        if not self.is_tuple:
            return [((), self)]
        return [
            ((number, *path), leaf)
            for number, element in enumerate(self.elements)
            for path, leaf in element.leaves()
        ]

    def at(self, path: tuple[int, ...]) -> Shape:
        """Return the shape at an index path into nested tuples."""
        found = self
        for number in path:
            found = found.elements[number]
        return found

    def with_dtype(self, element: str | DType) -> Shape:
        """Return the same dimensions with another element type."""
        chosen = dtype(element)
        if chosen is self.dtype:
            return self
        return Shape(chosen, self.dims, self.layout, self.elements, self.bounded, self.is_buffer)

    def with_dims(self, dims: tuple[int | Dim, ...]) -> Shape:
        """Return the same element type with other dimensions, row-major."""
        return Shape.array(self.dtype, dims)

    def with_dim(self, axis: int, size: int | Dim) -> Shape:
        """Return the same element type and dimensions but for the size of one, row-major."""
        return self.with_dims((*self.dims[:axis], size, *self.dims[axis + 1 :]))

    def compatible(self, other: Shape) -> bool:
        """Whether both are equal except for layouts."""
        return self is other or (
            self.dtype is other.dtype
            and self.dims == other.dims
            and self.is_buffer == other.is_buffer
            and len(self.elements) == len(other.elements)
            and all(a.compatible(b) for a, b in zip(self.elements, other.elements, strict=True))
        )

    def takes(self, given: Shape, known: Container[str] = ()) -> bool:
        """Whether `given` is this shape, where dimensions that are a bare size match any size.

        `known`: sizes that have a value already, and match only that.
        """
        return self is given or (
            self.dtype is given.dtype
            and len(self.dims) == len(given.dims)
            and all(
                have == want
                or (isinstance(want, Dim) and want.is_symbol and want.text not in known)
                for have, want in zip(given.dims, self.dims, strict=True)
            )
            and self.is_buffer == given.is_buffer
            and len(self.elements) == len(given.elements)
            and all(a.takes(b, known) for a, b in zip(self.elements, given.elements, strict=True))
        )

    def to_string(self, *, with_layout: bool = True) -> str:
        """Return XLA's text of the shape."""
        if self.is_tuple:
            inner = ", ".join(e.to_string(with_layout=with_layout) for e in self.elements)
            return f"({inner})"
        if not self.is_array:
            return f"{self.dtype.name}[]"
        bounded = self.bounded or (False,) * self.rank
        dims = ",".join(
            ("<=" if flag else "") + size_text(size)
            for size, flag in zip(self.dims, bounded, strict=True)
        )
        text = f"{self.dtype.name}[{dims}]"
        layout = self.layout if with_layout else None
        if layout is not None and (self.dims or layout.suffix):
            text += str(layout)
        return f"b({text})" if self.is_buffer else text

    def __str__(self) -> str:
        # Cached: shape rules write it into messages that are rarely shown.
        if not self._text:
            object.__setattr__(self, "_text", self.to_string())
        return self._text


def size_text(size: int | Dim) -> str:
    """Return a size as attributes print it: `3`, `?n` or `?(n+1)`."""
    if isinstance(size, int):
        return str(size)
    return f"?{size}" if size.is_symbol else f"?({size})"


def scalar(element: str | DType) -> Shape:
    """Return the shape of one element."""
    return Shape.array(element, ())


def dynamic_dims(shapes: Iterable[Shape]) -> list[tuple[int, int]]:
    """Return (number of the leaf, dimension) of every dynamic dimension, leaves counted over all.

    Example:
        >>> from ingot.hlo.dtype import F32
        >>> dynamic_dims([Shape(F32, (2,)), Shape(F32, (3, 4), bounded=(False, True))])
        [(1, 1)]
    """
    leaves = [leaf for shape in shapes for _, leaf in shape.leaves()]
    return [(n, dim) for n, leaf in enumerate(leaves) for dim, f in enumerate(leaf.bounded) if f]
