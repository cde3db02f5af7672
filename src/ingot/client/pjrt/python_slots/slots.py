# SPDX-License-Identifier: Apache-2.0
"""Python slots as methods, decorated with the functions of the C API that they implement.

The files `slots_*.py`, `extensions.py`, `profiler.py` use it. Invariant: a method takes the
function's arguments as a ctypes structure, returns nothing, and raises an exception that becomes
the host's error. Every slot raises PjrtError (INVALID_ARGUMENT) for a handle of another kind; its
own docstring has the other errors.

Example:
    >>> class Example(Slots):
    ...     @slot("PJRT_Client_Destroy", "PJRT_TopologyDescription_Destroy")
    ...     def nothing(self, args):
    ...         pass
    >>> list(Example().table())
    ['PJRT_Client_Destroy', 'PJRT_TopologyDescription_Destroy']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., None])
_NAMES = "pjrt_names"


def slot(*names: str) -> Callable[[Method], Method]:
    """Mark a method as the body of functions of the C API."""

    def mark(method: Method) -> Method:
        setattr(method, _NAMES, names)
        return method

    return mark


class Slots:
    """Some of the Python slots."""

    def table(self) -> dict[str, Callable[[Any], None]]:
        """Return the methods by the names of their slots."""
        return {
            name: getattr(self, key)
            for key, method in vars(type(self)).items()
            for name in getattr(method, _NAMES, ())
        }
