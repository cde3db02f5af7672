# SPDX-License-Identifier: Apache-2.0
"""Intern tables: equal values are one object, as long as it is alive.

Interned values (sizes, expressions, types of LLVM) are compared by identity, so a table must never
have two objects for one key; and it must not keep all values alive. Both hold for any number of
threads, without a lock: a lock could be held by another thread while the process forks, or by the
thread in which the collector drops a value.

Invariant: while an object that `keep` returned is alive, every `find` and `keep` of an equal key
returns it.

Example:
    >>> class Point:
    ...     pass
    >>> table = InternTable[tuple[int, int], Point]()
    >>> point = table.keep((1, 2), Point())
    >>> table.keep((1, 2), Point()) is point, table.find((1, 3)) is None, len(table)
    (True, True, 1)
    >>> del point
    >>> len(table)
    0
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# `WeakValueDictionary`'s function: removes an entry atomically, if its value is dead.
_remove_dead: Any = getattr(weakref, "_remove_dead_weakref")  # noqa: B009


class _Reference(weakref.ref[Any]):
    """A value of a table, and its key."""

    __slots__ = ("key",)
    key: Any


class InternTable(Generic[K, V]):
    """Weak values by key, and strong references to the `latest` new ones.

    Attributes:
        reference: returns the weak reference to the value of a key, or None; for callers to which
            the cost of calling `find` matters.
    """

    __slots__ = ("_drop", "_latest", "_references", "reference")

    def __init__(self, latest: int = 0) -> None:
        """Begin empty."""
        references: dict[K, _Reference] = {}
        self._references = references
        self.reference: Callable[[K], weakref.ref[V] | None] = references.get
        self._latest: deque[V] | None = deque(maxlen=latest) if latest else None
        # Bound here: values die after this module's names are gone, when the interpreter exits.
        remove = _remove_dead

        def drop(reference: _Reference) -> None:
            remove(references, reference.key)

        self._drop = drop

    def find(self, key: K) -> V | None:
        """Return the value of an equal key, None if there is none."""
        reference = self._references.get(key)
        return None if reference is None else reference()

    def keep(self, key: K, value: V) -> V:
        """Return the value of an equal key; if there is none, store and return `value`."""
        made = _Reference(value, self._drop)
        made.key = key
        while True:
            # Atomic, so that of several threads one is first.
            held = self._references.setdefault(key, made)
            found = value if held is made else held()
            if found is not None:
                break
            _remove_dead(self._references, key)
        if held is made and self._latest is not None:
            self._latest.append(value)
        return found

    def __len__(self) -> int:
        return len(self._references)
