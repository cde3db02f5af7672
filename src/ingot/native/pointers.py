# SPDX-License-Identifier: Apache-2.0
"""Pointers of native functions, and their meaning as plain Python: access to real memory.

`Pointer` is any address, `Struct` a C struct with named fields, `Array` items of one type one after
the other, `Structs` structs one after the other, `Atomic` a word that several threads change. In a
native function they are addresses; in plain Python they are objects that read and write the memory
at their address, so both can work on the same memory. Null is None. Invariant: `at` is the only way
from one class to another, and does nothing to the address.

Example:
    >>> from ingot.native.types import i64
    >>> class Point(Struct):
    ...     x: i64
    ...     name: Pointer | None
    >>> point = Point.on_stack()
    >>> point.x = 5
    >>> Array[i64].at(point)[0], point.name, sizeof(Point)
    (5, None, 16)
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from ingot.native.layout import Field, Record
from ingot.native.memory import item_bytes, on_stack, read, write
from ingot.native.types import IntegerType, NativeType, PointerType, as_type, resolve, type_text
from ingot.support.diagnostics import InternalError
from ingot.support.forking import ForkLock
from ingot.support.regex import regex

T = TypeVar("T")

_INTEGER_FIELD = regex(r"(?:Atomic\[)?(i8|i32|i64)\]?$")
_INTEGER_ITEMS = regex(r"Array\[(i8|i32|i64)\]$")
_atomic_lock = ForkLock()


class Pointer(PointerType):
    """An address of anything; C's `void*`. `pointer + n` is n bytes further."""

    __slots__ = ()

    @overload
    @classmethod
    def at(cls, pointer: Pointer) -> Self: ...
    @overload
    @classmethod
    def at(cls, pointer: Pointer | None) -> Self | None: ...
    @classmethod
    def at(cls, pointer: Pointer | None) -> Self | None:
        """Return the same address as a pointer of this class."""
        return None if pointer is None else cls(pointer.address, pointer)

    def __add__(self, offset: int) -> Pointer:
        return Pointer(self.address + offset, self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pointer) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address:#x})"


class _FieldAccess:
    """A field of a struct in plain Python."""

    def __init__(self, owner: type[Struct], name: str, annotation: object) -> None:
        self.owner, self.name, self.annotation = owner, name, annotation
        self.offset = owner.c_layout.offset(name)

    @cached_property
    def type(self) -> NativeType:
        """The field's type; its annotation may name structs that are defined later."""
        namespace = {**vars(sys.modules[self.owner.__module__]), self.owner.__name__: self.owner}
        return resolve(self.annotation, namespace)

    def __get__(self, struct: Struct | None, owner: object = None) -> Any:
        if struct is None:
            return self
        of: Any = self.type
        if self.owner.c_layout.count(self.name) > 1:
            return of(struct.address + self.offset, struct)
        return read(of, struct.address + self.offset, struct)

    def __set__(self, struct: Struct, value: object) -> None:
        if self.owner.c_layout.count(self.name) > 1:
            raise TypeError(f"'{self.name}' is an array: assign its items")
        write(self.type, struct.address + self.offset, value)


class Struct(Pointer):
    """The base of C structs: the class's annotations are its fields, in order.

    `class Point(Struct, name="IngotPoint")` gives the struct its name in C. `own_line` lists fields
    that start a cache line, `counts` gives the lengths of fields that are arrays within the struct
    (`Array[i64]` with a count), `notes` says what fields are for in the struct's declaration in C.
    """

    __slots__ = ()

    c_layout: ClassVar[Record]
    is_constant: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        name: str = "",
        own_line: tuple[str, ...] = (),
        counts: Mapping[str, int] | None = None,
        notes: Mapping[str, str] | None = None,
        is_constant: bool = False,
    ) -> None:
        cls.is_constant = is_constant
        lengths, texts = counts or {}, notes or {}
        found = {
            field: note
            for base in reversed(cls.__mro__)
            if base is not Struct and issubclass(base, Struct)
            for field, note in vars(base).get("__annotations__", {}).items()
        }
        fields = [
            Field(
                field,
                _kind(kind, _INTEGER_ITEMS if field in lengths else _INTEGER_FIELD),
                lengths.get(field, 1),
                own_line=field in own_line,
                note=texts.get(field, ""),
            )
            for field, kind in found.items()
        ]
        cls.define(Record(name or cls.__name__, *fields), found)

    @classmethod
    def define(cls, layout: Record, annotations: dict[str, Any]) -> None:
        """Give the class its layout, and its fields the types of annotations.

        Raises:
            InternalError: a field has the name of an attribute of pointers.
        """
        cls.c_layout = layout
        for field, annotation in annotations.items():
            if field not in cls.__dict__ and hasattr(cls, field):
                if not isinstance(getattr(cls, field), _FieldAccess):
                    raise InternalError(f"{cls.__name__}.{field}: pointers have a '{field}'")
                continue
            setattr(cls, field, _FieldAccess(cls, field, annotation))

    @classmethod
    def type_of(cls, field: str) -> NativeType:
        """Return the type of a field; KeyError if there is none of that name."""
        access = getattr(cls, field, None)
        if not isinstance(access, _FieldAccess):
            raise KeyError(field)
        return access.type

    @classmethod
    def on_stack(cls) -> Self:
        """Return a new struct that lives as long as the function that makes it."""
        memory = on_stack(cls.c_layout.structure())
        return cls(ctypes.addressof(memory), memory)


def _kind(annotation: object, integers: re.Pattern[str]) -> str:
    found = integers.match(str(annotation))
    return found[1] if found else "ptr"


def struct_of(layout: Record, types: Mapping[str, Any]) -> Any:
    """Return the class of structs with a layout; `types` are those of fields that are addresses.

    The other addresses are `Pointer`. This is for structs that are declared as tables; the type
    checker does not know their fields.
    """
    names = vars(sys.modules["ingot.native.types"])
    made = type(layout.name, (Struct,), {"__annotations__": {}, "__module__": __name__})
    kinds: dict[str, Any] = {"ptr": Pointer, **{name: names[name] for name in ("i8", "i32", "i64")}}
    annotations = {name: types.get(name, kinds[layout.kind(name)]) for name in layout.names}
    made.define(layout, annotations)
    return made


def sizeof(struct: type[Struct]) -> int:
    """Return the bytes of a struct; a constant of native code."""
    return struct.c_layout.size


class _Generic(Pointer):
    """The base of classes over an item type: `Array[i64]` is a class of its own."""

    __slots__ = ()
    item: ClassVar[NativeType]

    if not TYPE_CHECKING:

        @classmethod
        def __class_getitem__(cls, item):
            return cls if isinstance(item, TypeVar) else class_over(cls, item)


@cache
def class_over(base: Any, item: Any) -> type[Any]:
    """Return the class `base[item]`, which is the same for items that may be null."""
    of = as_type(item)
    if of is not item:
        return class_over(base, of)
    return type(f"{base.__name__}[{type_text(of)}]", (base,), {"item": of, "__slots__": ()})


class Array(_Generic, Generic[T]):
    """Items one after the other: `array[index]`. Pointers are items; structs are in `Structs`."""

    __slots__ = ()

    def __getitem__(self, index: int) -> T:
        return read(self.item, self.address + index * item_bytes(self.item), self)

    def __setitem__(self, index: int, value: T) -> None:
        write(self.item, self.address + index * item_bytes(self.item), value)

    @classmethod
    def on_stack(cls, count: int) -> Self:
        """Return a new array that lives as long as the function that makes it."""
        memory = on_stack((ctypes.c_char * max(1, count * item_bytes(cls.item)))())
        return cls(ctypes.addressof(memory), memory)


class Structs(_Generic, Generic[T]):
    """Structs one after the other: `structs[index]` is the address of one of them."""

    __slots__ = ()

    def __getitem__(self, index: int) -> T:
        struct: Any = self.item
        return struct(self.address + index * struct.c_layout.size, self)


class Atomic(_Generic, Generic[T]):
    """The address of a word that several threads read and write.

    Orderings are LLVM's: monotonic, acquire, release, acq_rel, seq_cst.
    """

    __slots__ = ()
    is_inline = True

    def load(self, ordering: str = "acquire") -> T:
        """Return the word."""
        with _atomic_lock:
            return read(self.item, self.address, self)

    def store(self, value: T, ordering: str = "release") -> None:
        """Set the word."""
        with _atomic_lock:
            write(self.item, self.address, value)

    def exchange(self, value: T, ordering: str = "acq_rel") -> T:
        """Set the word; return its value before."""
        return self._update(lambda _: value)

    def fetch_add(self, value: int, ordering: str = "acq_rel") -> T:
        """Add to the word; return its value before."""
        return self._update(lambda before: before + value)

    def fetch_sub(self, value: int, ordering: str = "acq_rel") -> T:
        """Subtract from the word; return its value before."""
        return self._update(lambda before: before - value)

    def fetch_or(self, value: int, ordering: str = "acq_rel") -> T:
        """Set bits of the word; return its value before."""
        return self._update(lambda before: before | value)

    def compare_exchange(self, expected: T, new: T, success: str, failure: str) -> bool:
        """Set the word if it is `expected`; return whether it was."""
        with _atomic_lock:
            found = read(self.item, self.address, self) == expected
            if found:
                write(self.item, self.address, new)
        return found

    def _update(self, change: Callable[[Any], Any]) -> T:
        with _atomic_lock:
            before = read(self.item, self.address, self)
            after = change(before)
            of = self.item
            write(of, self.address, of(after) if isinstance(of, IntegerType) else after)
        return before
