# SPDX-License-Identifier: Apache-2.0
"""The types of native functions: what an annotation means, and its LLVM type.

This is the lowest layer of `ingot.native`. An annotation is `i8`, `i32`, `i64`, `bool`, a class of
pointers (`ingot.native.pointers`), `Callable[[...], ...]` for a function's address, a class of
objects that translation knows (`Known`), or `None` for no result. `X | None` is the type `X`:
pyright checks that code tests for null, to LLVM it makes no difference. Invariant: equal types
compare equal, so the translator converts only where the source does.

Example:
    >>> as_type(i64).llvm.text, as_type(Callable[[i64], None]).result
    ('i64', None)
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ingot.llvm.types import I1, I8, I32, I64, PTR, VOID, Type
from ingot.support.diagnostics import InternalError, SourceLocation
from ingot.support.records import record

ALLOWED_TYPES = "i8, i32, i64, bool, a class of pointers, Callable[[...], ...], or None"


class TranslationError(InternalError):
    """A native function uses Python beyond the subset; the error names the file and the line."""

    def __init__(self, message: str, location: SourceLocation | None, allowed: str) -> None:
        """Record the mistake, where it is, and the remedy."""
        super().__init__(message, location=location, hint=f"allowed is {allowed}")


@record
class IntegerType:
    """A signed integer, or `bool`; as plain Python a function that wraps a number to the width."""

    name: str
    llvm: Type

    def __call__(self, value: int) -> int:
        """Return `value` wrapped to the width of the type."""
        low = int(value) & ((1 << self.llvm.bits) - 1)
        return low - (1 << self.llvm.bits) if low >> (self.llvm.bits - 1) else low

    def holds(self, value: int) -> bool:
        """Return whether a number is one of the type."""
        return self(value) == value if self.llvm is not I1 else value in (0, 1)


if TYPE_CHECKING:
    i8 = int
    i32 = int
    i64 = int
else:
    i8 = IntegerType("i8", I8)
    i32 = IntegerType("i32", I32)
    i64 = IntegerType("i64", I64)

BOOL = IntegerType("bool", I1)
INT64 = IntegerType("i64", I64)
"""`i64` for the type checker, to which `i64` is `int`."""


class PointerType:
    """The base class of addresses: see `ingot.native.pointers`.

    Attributes:
        is_inline: whether a field of this type holds the object itself, not its address.
    """

    __slots__ = ("address", "backing")
    is_inline: ClassVar[bool] = False

    def __init__(self, address: int, backing: object = None) -> None:
        """Point to `address`; `backing` is an object that must live as long as the pointer."""
        self.address = address
        self.backing = backing


class Known:
    """The base class of objects that translation knows; native code holds none at run time.

    A function with a parameter of such a class is translated once for each object it is called
    with, as a template is in C++. Equal objects compare equal and have equal hashes.
    """

    __slots__ = ()


@record
class FunctionType:
    """The address of a function."""

    params: tuple[NativeType, ...]
    result: NativeType


NativeType = IntegerType | FunctionType | type[PointerType] | type[Known] | None


def llvm_type(of: NativeType) -> Type:
    """Return the LLVM type of a type."""
    if isinstance(of, IntegerType):
        return of.llvm
    return VOID if of is None else PTR


def item_type(of: NativeType) -> Type:
    """Return the LLVM type that an array's items are as long as: an address takes 8 bytes."""
    found = llvm_type(of)
    return I64 if found is PTR else found


def is_known(of: NativeType) -> bool:
    """Return whether values of a type are known at translation."""
    return isinstance(of, type) and issubclass(of, Known)


def type_text(of: object) -> str:
    """Return a type as its annotation is written."""
    if isinstance(of, FunctionType):
        return f"Callable[[{', '.join(map(type_text, of.params))}], {type_text(of.result)}]"
    return of.name if isinstance(of, IntegerType) else getattr(of, "__name__", str(of))


def as_type(annotation: Any) -> NativeType:
    """Return the type that the value of an annotation stands for.

    Raises:
        TranslationError: it is not the annotation of a type.
    """
    if annotation is None or isinstance(annotation, (IntegerType, FunctionType)):
        return annotation
    if annotation is bool:
        return BOOL
    if isinstance(annotation, type) and issubclass(annotation, (PointerType, Known)):
        return annotation
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Callable:
        return FunctionType(tuple([as_type(each) for each in args[0]]), as_type(args[1]))
    if origin in (types.UnionType, typing.Union):
        present = [each for each in args if each is not types.NoneType]
        if len(present) == 1:
            return as_type(present[0])
    raise TranslationError(f"{annotation!r} is no type of native code", None, ALLOWED_TYPES)


def resolve(annotation: object, namespace: Mapping[str, Any]) -> NativeType:
    """Return the type of an annotation, which may still be its text."""
    if isinstance(annotation, str):
        annotation = (
            namespace[annotation]
            if annotation in namespace
            else eval(annotation, globals(), dict(namespace))
        )
    return as_type(annotation)
