# SPDX-License-Identifier: Apache-2.0
"""`record`: a frozen dataclass whose instances are as cheap to make as any object.

Objects for every instruction and every kernel of a program are made often. The constructor of
`@dataclass(frozen=True)` calls `object.__setattr__` for each field and takes ten times as long as
one that assigns. A record is frozen for the type checker, which checks all of `src/`, and a plain
dataclass at run time.

Invariant: fields of a record are never assigned; its hash is that of its fields.

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
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, TypeVar, dataclass_transform, get_origin, overload

_Class = TypeVar("_Class")
_Instance = TypeVar("_Instance")
_Item = TypeVar("_Item")


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
    """Make `cls` a record: with slots, compared by fields; `weakref_slot`: as for `dataclass`."""

    def make(cls: type[_Class]) -> type[_Class]:
        hashes = "__hash__" not in vars(cls)
        return dataclass(
            slots=True, unsafe_hash=hashes, kw_only=kw_only, weakref_slot=weakref_slot
        )(cls)

    return make if cls is None else make(cls)


def replace(instance: _Instance, **changes: Any) -> _Instance:
    """Return a copy of a dataclass instance with some fields changed.

    It takes a third of the time of `dataclasses.replace`, which looks up the fields at each call.
    """
    values = {name: getattr(instance, name) for name in _arguments(type(instance))}
    values.update(changes)
    return type(instance)(**values)


def fresh(kind: type[_Item]) -> Callable[[], _Item]:
    """Return the class that makes an empty collection of a type such as `dict[str, int]`.

    For default factories: calling the class takes a tenth of the time of calling `dict[str, int]`.
    """
    return get_origin(kind) or kind


@lru_cache(maxsize=1 << 10)
def _arguments(cls: Any) -> tuple[str, ...]:
    """Return the names of the fields that the constructor takes."""
    return tuple([field.name for field in fields(cls) if field.init])
