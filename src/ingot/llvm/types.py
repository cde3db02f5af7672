# SPDX-License-Identifier: Apache-2.0
"""LLVM types as interned, frozen values.

The base of the text IR builder. Invariants: equal types are the same object, so `is` compares types
and a type can key a table; only types that LLVM has are made (no vector of vectors). The text of a
type is LLVM's own spelling.

Example:
    >>> from ingot.llvm.types import F32, vector
    >>> str(vector(F32, 16))
    '<16 x float>'
    >>> vector(F32, 16) is vector(F32, 16), vector(F32, 16).bytes, vector(F32, 1) is F32
    (True, 64, True)
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import Literal

from ingot.support.diagnostics import InternalError
from ingot.support.interning import InternTable
from ingot.support.records import record

Kind = Literal["integer", "float", "pointer", "vector", "array", "struct", "void"]


@record(eq=False, weakref_slot=True)
class Type:
    """One LLVM type; made by the constants and functions of this module only.

    `bits` is the value's width without padding, `suffix` what intrinsic names append (`v16f32`),
    `lane_kind` the kind of a scalar or of a vector's lanes ("" for other types).
    """

    text: str
    kind: Kind
    bits: int
    suffix: str
    lane_kind: Literal["integer", "float", "pointer", ""] = ""
    is_float: bool = False
    scalar: Type | None = None
    lanes: int = 1
    fields: tuple[Type, ...] = ()
    alignment: int = field(default=1)

    def __str__(self) -> str:
        """Return LLVM's text of the type."""
        return self.text

    def __repr__(self) -> str:
        """Return LLVM's text of the type, for messages."""
        return f"Type({self.text})"

    @property
    def is_vector(self) -> bool:
        """Whether this is `<n x element>`."""
        return self.kind == "vector"

    @property
    def element(self) -> Type:
        """The lane type of a vector, the item type of an array, or the type itself."""
        return self if self.scalar is None else self.scalar

    @property
    def bytes(self) -> int:
        """Bytes that a value of this type takes in memory (i1 takes one), padding included."""
        if self.kind == "vector":
            return self.lanes * self.element.bytes
        return (self.bits + 7) // 8

    def with_element(self, element: Type) -> Type:
        """Return the type of the same shape (scalar, or as many lanes) over another element."""
        return vector(element, self.lanes) if self.kind == "vector" else element


def _integer(bits: int) -> Type:
    return Type(f"i{bits}", "integer", bits, f"i{bits}", "integer", alignment=max(1, bits // 8))


def _float(text: str, suffix: str, bits: int) -> Type:
    return Type(text, "float", bits, suffix, "float", is_float=True, alignment=bits // 8)


I1, I8, I16, I32, I64 = (_integer(bits) for bits in (1, 8, 16, 32, 64))
# In memory it is a pair of 64-bit words (c128), aligned as they are.
I128 = Type("i128", "integer", 128, "i128", "integer", alignment=8)
F16 = _float("half", "f16", 16)
BF16 = _float("bfloat", "bf16", 16)
F32 = _float("float", "f32", 32)
F64 = _float("double", "f64", 64)
PTR = Type("ptr", "pointer", 64, "p0", "pointer", alignment=8)
VOID = Type("void", "void", 0, "")

_SCALARS = frozenset(("integer", "float", "pointer"))
_LATEST = 512
_vectors = InternTable[tuple[Type, int], Type]()
_arrays = InternTable[tuple[Type, int], Type](_LATEST)
_structs = InternTable[tuple[Type, ...], Type](_LATEST)
_pointers = InternTable[int, Type](_LATEST)
_pointers.keep(0, PTR)


def pointer(address_space: int = 0) -> Type:
    """Return the pointer type of an address space (NVPTX: 1 global, 3 shared, 5 local)."""
    found = _pointers.find(address_space)
    if found is None:
        text = f"ptr addrspace({address_space})"
        made = Type(text, "pointer", 64, f"p{address_space}", "pointer", alignment=8)
        found = _pointers.keep(address_space, made)
    return found


@lru_cache(maxsize=_LATEST)
def vector(element: Type, lanes: int) -> Type:
    """Return `<lanes x element>`; one lane is the element itself, so that widths can be generic.

    Raises:
        InternalError: the element is not a scalar, or there is no lane.
    """
    if lanes == 1 and element.scalar is None:
        return element
    found = _vectors.find((element, lanes))
    if found is None:
        if lanes < 2 or element.kind not in _SCALARS:
            raise InternalError(f"there is no vector of {lanes} x {element.text}")
        made = Type(
            f"<{lanes} x {element.text}>",
            "vector",
            element.bits * lanes,
            f"v{lanes}{element.suffix}",
            element.lane_kind,
            is_float=element.is_float,
            scalar=element,
            lanes=lanes,
            alignment=element.alignment,
        )
        found = _vectors.keep((element, lanes), made)
    return found


def array(element: Type, count: int) -> Type:
    """Return `[count x element]`.

    Raises:
        InternalError: the count is negative, or the element void.
    """
    found = _arrays.find((element, count))
    if found is None:
        if count < 0 or element is VOID:
            raise InternalError(f"there is no array of {count} x {element.text}")
        made = Type(
            f"[{count} x {element.text}]",
            "array",
            element.bytes * 8 * count,
            "",
            scalar=element,
            lanes=count,
            alignment=element.alignment,
        )
        found = _arrays.keep((element, count), made)
    return found


def struct(*fields: Type) -> Type:
    """Return the literal struct `{ fields }` with C layout (natural alignment of each field).

    Raises:
        InternalError: a field is void.
    """
    found = _structs.find(fields)
    if found is None:
        if VOID in fields:
            raise InternalError(f"there is no struct of {fields}")
        offset, widest = 0, 1
        for item in fields:
            offset = -(-offset // item.alignment) * item.alignment + item.bytes
            widest = max(widest, item.alignment)
        size = -(-offset // widest) * widest
        text = "{ " + ", ".join(item.text for item in fields) + " }"
        suffix = f"sl_{''.join(item.suffix for item in fields)}s"
        made = Type(text, "struct", size * 8, suffix, fields=fields, alignment=widest)
        found = _structs.keep(fields, made)
    return found


def is_bool(type: Type) -> bool:
    """Whether the type is i1 or a vector of i1."""
    return type.element is I1
