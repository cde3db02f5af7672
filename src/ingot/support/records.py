"""`record`: a frozen dataclass whose instances cost as little to make as any object's.

What is made for every instruction and every kernel of a program is made often: the constructor of
`@dataclass(frozen=True)` goes through `object.__setattr__` for each field and takes ten times as
long as one that assigns. A record is frozen for the type checker, which checks all of `src/`, and a
plain dataclass at run time.

Invariant: nobody assigns to a field of a record; its hash is that of its fields.

Example:
    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), hash(Point(1)) == hash(Point(1, 0))
    (Point(x=1, y=0), True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class")


@overload
def record(cls: type[_Class], /) -> type[_Class]: ...


@overload
def record(
    *, kw_only: bool = False, weakref_slot: bool = False
) -> Callable[[type[_Class]], type[_Class]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(
    cls: type[_Class] | None = None, /, *, kw_only: bool = False, weakref_slot: bool = False
) -> type[_Class] | Callable[[type[_Class]], type[_Class]]:
    """Make `cls` a record: with slots, compared by its fields (`weakref_slot`: held weakly)."""

    def make(cls: type[_Class]) -> type[_Class]:
        hashes = "__hash__" not in vars(cls)
        return dataclass(
            slots=True, unsafe_hash=hashes, kw_only=kw_only, weakref_slot=weakref_slot
        )(cls)

    return make if cls is None else make(cls)
