"""From ELF objects to code that can be called: `link_object` maps them into the process.

LLJIT with JITLink does it. Invariant: what is missing is found before linking: symbols that nobody
defines are an `InternalError` with their names. All functions are thread-safe.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingot.llvm.binding import llvm
from ingot.llvm.machines import make_machine
from ingot.llvm.symbols import read_symbols
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import InternalError

LIBRARY_SYMBOLS = (
    *("memcpy", "memmove", "memset", "memcmp", "bcmp", "malloc", "free", "aligned_alloc"),
    *("fma", "fmaf", "fmod", "fmodf", "sched_yield", "syscall", "clock_gettime"),
    *("floor", "floorf", "ceil", "ceilf", "trunc", "truncf", "rint", "rintf"),
    *("nearbyint", "nearbyintf", "roundeven", "roundevenf", "lgamma", "lgammaf"),
)
"""C and libm functions that LLVM may call on its own or that programs may import by name."""

_names = itertools.count()
_link_lock = threading.Lock()
_libraries_lock = threading.Lock()


class Library:
    """Code mapped into the process; it stays mapped as long as this object lives."""

    __slots__ = ("_addresses", "_owners", "_tracker", "name")

    def __init__(
        self, name: str, addresses: Mapping[str, int], tracker: Any, owners: tuple[object, ...]
    ) -> None:
        """Hold the linked code and `owners`; `link_object` is the caller."""
        self.name = name
        self._addresses = dict(addresses)
        self._tracker = tracker
        self._owners = owners

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that the library defines."""
        return tuple(self._addresses)

    def address(self, symbol: str) -> int:
        """Return the address of a symbol that one of the objects defines."""
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


def link_object(
    objects: Sequence[bytes],
    imports: Mapping[str, int] | None = None,
    owners: tuple[object, ...] = (),
) -> Library:
    """Map ELF objects into the process; `imports` gives addresses of symbols they need.

    `owners` are what must live as long as the library: what lies at those addresses.
    The C and libm functions of `LIBRARY_SYMBOLS` are found without being given. Raises
    InternalError (INGOT0931) naming the symbols that nobody defines.
    """
    given = dict(imports or {})
    defined: list[str] = []
    needed: dict[str, None] = {}
    for data in objects:
        symbols = read_symbols(data)
        defined.extend(symbols.defined)
        needed.update(dict.fromkeys(symbols.undefined))
    bound = _bind([name for name in needed if name not in set(defined)], given)
    with _link_lock:
        name = f"ingot{next(_names)}"
        builder = llvm.JITLibraryBuilder()
        for data in objects:
            builder.add_object_img(data)
        for symbol, address in bound.items():
            builder.import_symbol(symbol, address)
        for symbol in defined:
            builder.export_symbol(symbol)
        try:
            tracker = builder.link(_jit(), name)
        except RuntimeError as error:
            raise InternalError(f"cannot link '{name}': {error}", code="INGOT0931") from None
    return Library(name, {symbol: tracker[symbol] for symbol in defined}, tracker, owners)


def _bind(names: Sequence[str], given: Mapping[str, int]) -> dict[str, int]:
    """Return an address for each of `names`."""
    bound: dict[str, int] = {}
    missing: list[str] = []
    for name in names:
        if name == "_GLOBAL_OFFSET_TABLE_":
            continue
        address = given.get(name) or _library_address(name)
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


def _library_address(name: str) -> int:
    """Return the address of a C or libm function that programs may use, or 0."""
    if name not in LIBRARY_SYMBOLS:
        return 0
    for library in _system_libraries():
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


_libraries: list[ctypes.CDLL] = []


def _system_libraries() -> list[ctypes.CDLL]:
    with _libraries_lock:
        if not _libraries:
            _libraries.extend([ctypes.CDLL(None), ctypes.CDLL("libm.so.6")])
    return _libraries


_lljit: Any = None


def _jit() -> Any:
    """Return the process's one LLJIT; it is never destroyed, because code may run until exit."""
    global _lljit
    if _lljit is None:
        machine = make_machine(TargetSpec.host(), 2)
        _lljit = llvm.create_lljit_compiler(machine, use_jit_link=True)
    return _lljit
