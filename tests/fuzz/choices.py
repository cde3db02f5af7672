# SPDX-License-Identifier: Apache-2.0
"""What strategies there are, generated from the code: the choices that the compiler can make.

A strategy is written down in a record of `kernel/` (a schedule, a form, a plan), so the table of
strategies is what those records can hold: each value of a truth value or a `Literal`, `None` or
something, a known or a symbolic number, what a default says or something else. So it is with
records of `cpu/`. What has no record is a function of `kernel/` that `cpu/` asks for a decision:
`None` or something, a truth value, or another kernel than it was given. It *applies* where it does
not give `None`, false or its argument.

Example:
    assert choices_of(LoopSchedule)["masks_all_blocks"] == ("True", "False")
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any, Literal

from ingot.cpu.emit.drivers import DriverCall
from ingot.hlo.dim import Dim

APPLIES = "applies"
_ANSWERS = (None, False)


@cache
def records(package: str) -> tuple[type, ...]:
    """Return the public dataclasses of a package, less those that are state or only a base."""
    found: list[type] = []
    for module in _modules(package):
        for name, value in vars(module).items():
            if not isinstance(value, type) or not dataclasses.is_dataclass(value):
                continue
            is_here = value.__module__ == module.__name__ and not name.startswith("_")
            is_base = bool(value.__subclasses__())
            if is_here and value.__hash__ is not None and not is_base:
                found.append(value)
    return tuple(found)


@cache
def deciders() -> dict[str, tuple[Any, Callable[..., Any]]]:
    """Return functions of `kernel` that modules of `cpu` call: by name, with the caller."""
    found: dict[str, tuple[Any, Callable[..., Any]]] = {}
    for module in _modules("ingot.cpu"):
        for name, value in vars(module).items():
            home = getattr(value, "__module__", "") or ""
            if home.startswith("ingot.kernel.") and _decides(value):
                found[f"{module.__name__}.{name}"] = (module, value)
    return found


def _decides(function: Any) -> bool:
    """Whether a function can say no: `None`, false, or what it was given."""
    written = inspect.unwrap(function)
    if not isinstance(written, types.FunctionType):
        return False
    hints = typing.get_type_hints(written)
    result = hints.pop("return", None)
    says_nothing = type(None) in typing.get_args(result)
    return result is bool or says_nothing or result in hints.values()


def _modules(package: str) -> Iterator[types.ModuleType]:
    holder = importlib.import_module(package)
    for item in pkgutil.walk_packages(holder.__path__, f"{package}."):
        yield importlib.import_module(item.name)


def label(cls: type) -> str:
    """Return a class's name in the table."""
    return f"{cls.__module__.removeprefix('ingot.')}.{cls.__qualname__}"


def function_label(function: Callable[..., Any]) -> str:
    """Return a deciding function's name in the table."""
    return f"{function.__module__.removeprefix('ingot.')}.{function.__name__}: {APPLIES}"


_LATE_NAMES = {"DriverCall": DriverCall}
"""Names in annotations that modules import for type checkers alone."""


@cache
def choices_of(cls: type) -> dict[str, tuple[str, ...]]:
    """Return the fields of a record that are choices, with what each can be."""
    hints = typing.get_type_hints(cls, localns=_LATE_NAMES)
    found: dict[str, tuple[str, ...]] = {}
    for field in dataclasses.fields(cls):
        values = _values(hints[field.name], field)
        if values:
            found[field.name] = values
    return found


def _values(hint: Any, field: dataclasses.Field[Any]) -> tuple[str, ...]:
    if hint is bool:
        return "True", "False"
    if typing.get_origin(hint) is Literal:
        return tuple(map(repr, typing.get_args(hint)))
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else ()
    if type(None) in members:
        return "None", "given"
    if int in members and Dim in members:
        return "number", "symbolic"
    return () if field.default is dataclasses.MISSING else ("default", "other")


def value_of(cls: type, field: str, value: Any) -> str:
    """Return which choice a value of a field is."""
    values = choices_of(cls)[field]
    if "None" in values:
        return "None" if value is None else "given"
    if "symbolic" in values:
        return "symbolic" if isinstance(value, Dim) else "number"
    if "default" in values:
        default = next(f.default for f in dataclasses.fields(cls) if f.name == field)
        return "default" if value == default else "other"
    return repr(value)


@cache
def all_choices(package: str) -> tuple[str, ...]:
    """Return every choice of every record of a package; `made` of records without choices."""
    found: list[str] = []
    for cls in records(package):
        choices = choices_of(cls)
        rows = [f"{field}={value}" for field, values in choices.items() for value in values]
        found += [f"{label(cls)}: {row}" for row in rows or ["made"]]
    return tuple(found)


def watch(note: Callable[[str], None]) -> None:
    """Call `note` with each choice that is made in this process from now on."""
    for package in ("ingot.kernel", "ingot.cpu"):
        for cls in records(package):
            _watch_class(cls, note)
    wrapped: dict[int, Callable[..., Any]] = {}
    for module, function in deciders().values():
        made = wrapped.setdefault(id(function), _watched(function, note))
        for name, value in vars(module).items():
            if value is function:
                setattr(module, name, made)
                break


def _watch_class(cls: type, note: Callable[[str], None]) -> None:
    build: Callable[..., None] = cls.__init__
    fields, name = tuple(choices_of(cls)), label(cls)

    @wraps(build)
    def init(self: Any, *args: Any, **options: Any) -> None:
        build(self, *args, **options)
        for field in fields:
            note(f"{name}: {field}={value_of(cls, field, getattr(self, field))}")
        if not fields:
            note(f"{name}: made")

    cls.__init__ = init  # type: ignore[misc]


def _watched(function: Callable[..., Any], note: Callable[[str], None]) -> Callable[..., Any]:
    name = function_label(function)

    @wraps(function)
    def asked(*args: Any, **options: Any) -> Any:
        made = function(*args, **options)
        if not any(made is answer for answer in (*_ANSWERS, *args)):
            note(name)
        return made

    return asked
