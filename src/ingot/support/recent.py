# SPDX-License-Identifier: Apache-2.0
"""Tables of values in use and, up to a limit, of the most recent ones.

They are for values that are costly to make again but not interned: kernels, parts of the library. A
value that is in use is found however old it is; an unused one stays while it is among the latest.
All methods are thread-safe, also across a fork.

Invariant: the weights of the values that only the table holds add up to at most `most`, not
counting one value.

Example:
    >>> class Kernel:
    ...     pass
    >>> table, first = RecentTable[str, Kernel](most=1), Kernel()
    >>> for key, kernel in (("a", first), ("b", Kernel()), ("c", Kernel())):
    ...     _ = table.keep(key, kernel)
    >>> del kernel, _
    >>> table.find("a") is first, table.find("b") is None, table.find("c") is None
    (True, True, False)
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from ingot.support.forking import ForkLock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentTable(Generic[K, V]):
    """Values by key, see the module; their type must allow weak references."""

    def __init__(self, most: int) -> None:
        """Make a table that holds unused values of a total weight of `most`."""
        self.most = most
        self._alive: weakref.WeakValueDictionary[K, V] = weakref.WeakValueDictionary()
        self._latest: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0
        # Reentrant, since dropping a value may run any code, this method included.
        self._lock = ForkLock()

    def find(self, key: K) -> V | None:
        """Return the value of a key, if it is in use or among the latest."""
        with self._lock:
            held = self._latest.get(key)
            if held is None:
                return self._alive.get(key)
            self._latest.move_to_end(key)
            return held[0]

    def keep(self, key: K, value: V, weight: int = 1) -> V:
        """Return the value of a key; if there is none, store and return `value`."""
        with self._lock:
            found = self._alive.setdefault(key, value)
            if found is value and key not in self._latest:
                self._latest[key] = value, weight
                self._weight += weight
            while self._weight > self.most and len(self._latest) > 1:
                _, (_, dropped) = self._latest.popitem(last=False)
                self._weight -= dropped
            return found

    def clear(self) -> None:
        """Remove all values; those in use stay alive, but are not found again."""
        with self._lock:
            self._alive.clear()
            self._latest.clear()
            self._weight = 0

    def __len__(self) -> int:
        return len(self._alive)
