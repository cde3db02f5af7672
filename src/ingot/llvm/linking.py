# SPDX-License-Identifier: Apache-2.0
"""From ELF objects to code that can be called: `link_object` maps them into the process.

The image of the objects (`image`) is copied to pages of its own. Invariants: undefined symbols are
an `InternalError` with their names, before anything is mapped; no page is ever both writable and
executable. All functions are thread-safe.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import struct
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingot.llvm.image import PAGE, Image
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import InternalError, ResourceError
from ingot.support.forking import defers_fork

LIBRARY_SYMBOLS = (
    *("memcpy", "memmove", "memset", "memcmp", "bcmp", "malloc", "free", "aligned_alloc"),
    *("fma", "fmaf", "fmod", "fmodf", "sched_yield", "syscall", "clock_gettime"),
    *("floor", "floorf", "ceil", "ceilf", "trunc", "truncf", "rint", "rintf"),
    *("nearbyint", "nearbyintf", "roundeven", "roundevenf", "lgamma", "lgammaf"),
)
"""C and libm functions that LLVM may call on its own or that programs may import by name."""

_names = itertools.count()
_EXECUTED = mmap.PROT_READ | mmap.PROT_EXEC
_FAILED = ctypes.c_void_p(-1).value


class Library:
    """Code mapped into the process; it stays mapped as long as this object lives."""

    __slots__ = ("__weakref__", "_addresses", "_owners", "name")

    def __init__(self, name: str, addresses: Mapping[str, int], owners: tuple[object, ...]) -> None:
        """Hold the addresses and `owners`; `link_object` is the caller."""
        self.name = name
        self._addresses = dict(addresses)
        self._owners = owners

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that the library defines."""
        return tuple(self._addresses)

    def address(self, symbol: str) -> int:
        """Return the address of a symbol that one of the objects defines.

        Raises:
            InternalError: no object defines it; the notes list the symbols that there are.
        """
        found = self._addresses.get(symbol)
        if found is None:
            raise InternalError(
                f"library '{self.name}' has no symbol '{symbol}'",
                notes=(f"it defines {', '.join(self._addresses) or 'nothing'}",),
            )
        return found

    def function(self, symbol: str, result: Any, *params: Any) -> Callable[..., Any]:
        """Return a ctypes function for a symbol; it keeps the library alive."""
        function: Any = ctypes.CFUNCTYPE(result, *params)(self.address(symbol))
        function.library = self
        return function


@defers_fork
def link_object(
    objects: Sequence[bytes],
    imports: Mapping[str, int] | None = None,
    owners: tuple[object, ...] = (),
) -> Library:
    """Map ELF objects into the process; `imports` gives addresses of symbols they need.

    `owners` are kept alive as long as the library: they own the memory at those addresses.
    The C and libm functions of `LIBRARY_SYMBOLS` are found without being given. Raises
    InternalError (INGOT0931) naming the symbols that nobody defines.
    """
    image = Image(objects)
    bound = _bind(image.foreign, imports or {})
    image.place_code()
    image.place_slots()
    code_bytes = image.reserve(0, PAGE)
    image.place_data()
    content = image.content()
    start = _map(len(content))
    for at, target in image.pointers:
        struct.pack_into("<Q", content, at, start + target)
    for at, name, addend in image.imports:
        struct.pack_into("<Q", content, at, bound[name] + addend)
    # Not an array of the image's length: ctypes caches every array type forever.
    ctypes.memmove(start, ctypes.byref(ctypes.c_char.from_buffer(content)), len(content))
    if _system().mprotect(start, code_bytes, _EXECUTED):
        _system().munmap(start, len(content))
        raise ResourceError("the system allows no new executable memory")
    addresses = {name: start + image.position_of(name) for name in image.defined}
    library = Library(f"ingot{next(_names)}", addresses, owners)
    # Not at exit: other threads may run the code until then.
    weakref.finalize(library, _system().munmap, start, len(content)).atexit = False
    return library


def map_objects(
    objects: Sequence[bytes], target: TargetSpec, imports: Mapping[str, int] | None = None
) -> Library:
    """Return `link_object` of code for `target`; of another architecture's, nothing is mapped."""
    if target.is_foreign:
        return Library(f"ingot{next(_names)}", {}, ())
    return link_object(objects, imports)


def _map(size: int) -> int:
    """Return the address of new pages."""
    found = _system().mmap(
        None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )
    if found in (None, _FAILED):
        raise ResourceError(f"there is no memory for {size} bytes of code")
    return int(found)


def _bind(names: Sequence[str], given: Mapping[str, int]) -> dict[str, int]:
    """Return an address for each of `names`."""
    bound: dict[str, int] = {}
    missing: list[str] = []
    for name in names:
        address = given.get(name) or (name in LIBRARY_SYMBOLS and _library_address(name))
        if address:
            bound[name] = address
        else:
            missing.append(name)
    if missing:
        raise InternalError(
            f"unresolved symbols: {', '.join(missing)}",
            code="INGOT0931",
            hint="give their addresses to link_object, or emit code that does not need them",
        )
    return bound


@functools.cache
def _library_address(name: str) -> int:
    """Return the address of a function of `LIBRARY_SYMBOLS`, 0 if this machine lacks it."""
    for library in (_system(), ctypes.CDLL("libm.so.6")):
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


@functools.cache
def _system() -> Any:
    """Return the C library."""
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_long,
    )
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library
