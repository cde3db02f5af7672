# SPDX-License-Identifier: Apache-2.0
"""The decorators of native functions, and of the functions that they call.

`@native`, `@inlined` and `@exported` functions are translated; `@external` ones are in another
module, and `@emitted` and `@Vectors` ones emit their own instructions. `@cold` marks one that
hardly ever runs.

All but `@Vectors` are also callable as plain Python, where arguments and results are checked
against the annotations. Invariant: decorating looks at nothing; annotations and sources are read
when a module is built (`ingot.native.module`) or the function is called.

Example:
    >>> from ingot.native.pointers import Array, Atomic
    >>> from ingot.native.types import i64
    >>> @native
    ... def count_up(word: Atomic[i64], by: i64) -> bool:
    ...     return word.fetch_add(by) == 0
    >>> word = Atomic[i64].at(Array[i64].on_stack(1))
    >>> count_up(word, 2), count_up(word, 2), word.load()
    (True, False, 4)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cached_property
from types import ModuleType, NoneType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from ingot.llvm.builder import ALIGNED_STACK
from ingot.llvm.types import Type
from ingot.llvm.values import Value
from ingot.native.memory import converted, function_at, stack_frame
from ingot.native.types import Known, NativeType, as_type, is_known, llvm_type, resolve
from ingot.support.diagnostics import InternalError

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

_FIRST_ADDRESS = 1 << 56
"""Addresses of functions in plain Python, which no memory has."""


class Signature:
    """A Python function with the types of its parameters and of its result.

    Attributes:
        known: objects that parameters stand for (`Native.specialised`); these are no parameters.
    """

    def __init__(self, function: Callable[..., Any], **types: Any) -> None:
        """Describe `function`; `types` replace annotations of parameters."""
        self.function: Any = function
        self.name: str = self.function.__name__
        self.known: Mapping[str, Known] = {}
        self._given = types
        self.__doc__ = function.__doc__

    @property
    def namespace(self) -> dict[str, Any]:
        """The names that the function sees outside of itself, as they are now."""
        code, cells = self.function.__code__, self.function.__closure__ or ()
        closure = {
            name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)
        }
        return {**self.function.__globals__, **closure, **self.known}

    @cached_property
    def params(self) -> list[tuple[str, NativeType]]:
        """Name and type of each parameter."""
        notes = {**self.function.__annotations__, **self._given}
        names = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        namespace = self.namespace
        given = [name for name in names if name not in self.known]
        return [(name, resolve(notes[name], namespace)) for name in given]

    @cached_property
    def result(self) -> NativeType:
        """The type of the result."""
        return resolve(self.function.__annotations__["return"], self.namespace)

    @cached_property
    def address(self) -> int:
        """The address of the function in plain Python."""
        return _new_address(self)

    def __call__(self, *args: Any) -> Any:
        """Run as plain Python.

        Raises:
            TypeError: an argument or the result has another type than declared.
        """
        values = [converted(of, value) for (_, of), value in zip(self.params, args, strict=True)]
        return converted(self.result, self._run(values))

    def _run(self, values: list[Any]) -> Any:
        return self.function(*values)


def _new_address(function: Callable[..., Any]) -> int:
    made = _FIRST_ADDRESS + 16 * len(function_at)
    function_at[made] = function
    return made


class HostFunction:
    """A function of the host in plain Python, which native functions call by its address."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Give `function` an address."""
        self._function = function
        self.address = _new_address(self)

    def __call__(self, *args: Any) -> Any:
        """Call it."""
        return self._function(*args)


class Native(Signature):
    """A function that is translated.

    Attributes:
        symbol: its exported name, "" if it has none.
        is_inlined: whether calls are replaced by its instructions.
        is_cold: whether it hardly ever runs.
    """

    def __init__(
        self, function: Callable[..., Any], symbol: str = "", is_inlined: bool = False, **types: Any
    ) -> None:
        """Describe `function`; see `Signature`."""
        super().__init__(function, **types)
        self.symbol = symbol
        self.is_inlined = is_inlined
        self.is_cold = False

    def specialised(self, known: tuple[Known, ...], symbol: str = "") -> Native:
        """Return the function for some objects, which its `Known` parameters stand for, in order.

        `symbol`: its exported name, "" if it has none.
        """
        made = Native(self.function, symbol, self.is_inlined, **self._given)
        made.is_cold = self.is_cold
        names = [name for name, of in self.params if is_known(of)]
        made.known = dict(zip(names, known, strict=True))
        return made

    @property
    def identity(self) -> tuple[object, ...]:
        """The Python function and the objects that it is translated for."""
        return (self.function, *self.known.values())

    def _run(self, values: list[Any]) -> Any:
        with stack_frame():
            return self.function(*values)

    @property
    def attributes(self) -> str:
        """LLVM's attributes of the function."""
        if self.is_cold:
            return "nounwind noinline cold"
        if self.is_inlined:
            return "alwaysinline nounwind"
        # Code for known objects is code of kernels, which keeps vectors.
        return f"nounwind {ALIGNED_STACK}" if self.known else "nounwind"


def native(function: F) -> F:
    """Make a function native, to be called by native functions only."""
    return cast(F, Native(function))


def inlined(function: F) -> F:
    """Make a function native, and inline it at every call."""
    return cast(F, Native(function, is_inlined=True))


def exported(symbol: str, **types: Any) -> Callable[[F], F]:
    """Make a function native, and export it by its symbol.

    `types` replace the annotations of parameters, for types that only run time knows.
    """
    return lambda function: cast(F, Native(function, symbol, **types))


def cold(function: F) -> F:
    """Mark a native function that hardly ever runs: it is not inlined."""
    cast(Native, function).is_cold = True
    return function


class External(Signature):
    """A function of another module, which has the name `symbol` there."""

    def __init__(self, function: Callable[..., Any], symbol: str) -> None:
        """Describe `function`, which has no body."""
        super().__init__(function)
        self.symbol = symbol

    def _run(self, values: list[Any]) -> Any:
        found = _replaced.get(self.symbol)
        if found is None:
            raise InternalError(
                f"'{self.symbol}' has no meaning as plain Python",
                hint=f"give it one: with replaced({self.symbol}=function): ...",
            )
        return found(*values)


def exported_for(symbol: str, function: Callable[..., Any], *known: Known) -> Callable[..., Any]:
    """Return a native function for some objects that translation knows, exported as `symbol`."""
    return cast(Native, function).specialised(known, symbol)


def external(symbol: str) -> Callable[[F], F]:
    """Declare a function of another module; its body is `...`."""
    return lambda function: cast(F, External(function, symbol))


def symbol_of(function: Callable[..., Any]) -> str:
    """Return the symbol of an exported or external function."""
    return cast(Native | External, function).symbol


def llvm_signature(function: Callable[..., Any]) -> tuple[Type, list[Type]]:
    """Return the LLVM types of the result and of the parameters of a function."""
    of = cast(Signature, function)
    return llvm_type(of.result), [llvm_type(each) for _, each in of.params]


def external_symbols(file: ModuleType) -> list[str]:
    """Return the symbols of the external functions that a Python module declares or imports."""
    return sorted({each.symbol for each in vars(file).values() if isinstance(each, External)})


def exported_of(file: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the exported functions that a Python module defines or imports, by symbol."""
    found = [each for each in vars(file).values() if isinstance(each, Native) and each.symbol]
    return {each.symbol: each for each in found}


_replaced: dict[str, Callable[..., Any]] = {}


@contextmanager
def replaced(**functions: Callable[..., Any]) -> Generator[None]:
    """Give external functions, by their symbols, a meaning as plain Python in the `with` block."""
    before = dict(_replaced)
    _replaced.update(functions)
    try:
        yield
    finally:
        _replaced.clear()
        _replaced.update(before)


class Emitted(Signature):
    """A function whose instructions a Python function emits, with the builder.

    Attributes:
        emit: takes the `FunctionBuilder`, then for each argument its value, or the object where
            translation knows it.
    """

    def __init__(self, function: Callable[..., Any], emit: Callable[..., Value | None]) -> None:
        """Describe `function`, which is the meaning as plain Python."""
        super().__init__(function)
        self.emit = emit


def emitted(emit: Callable[..., Any]) -> Callable[[F], F]:
    """Make a function beyond the subset, whose instructions `emit(f, *values)` emits."""
    return lambda function: cast(F, Emitted(function, emit))


class Vectors(Emitted, Generic[P, R]):
    """A function of vectors; it has no meaning as plain Python.

    `@Vectors[[Array[i64], i64], bool]` decorates what emits its instructions, `emit(f, *values)`;
    the types are those of the function's parameters and of its result.
    """

    def __init__(self, emit: Callable[..., Value | None]) -> None:
        """Describe the function whose instructions `emit` emits."""
        super().__init__(emit, emit)

    @cached_property
    def params(self) -> list[tuple[str, NativeType]]:
        """The type of each parameter; callers give no names."""
        return [("", as_type(each)) for each in self._types[0]]

    @cached_property
    def result(self) -> NativeType:
        """The type of the result."""
        return as_type(self._types[1])

    @property
    def _types(self) -> tuple[tuple[Any, ...], Any]:
        # `Generic` sets this on what a class with its types in brackets makes.
        params, result = cast(Any, self).__orig_class__.__args__
        return params, None if result is NoneType else result

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Call it in native code."""
            ...

    def _run(self, values: list[Any]) -> Any:
        raise InternalError(f"'{self.name}' is code of vectors: it has no meaning as plain Python")
