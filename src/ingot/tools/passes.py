# SPDX-License-Identifier: Apache-2.0
"""The registry of passes: every `Pass` of the compiler, found by its name.

There is no list: the package `ingot.passes` and its subpackages are loaded, and the registry has
every concrete subclass of `Pass` in them.

Example:
    >>> registry()["dce"].__name__
    'dead_code_elimination'
    >>> make("dce").name
    'dce'
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any

import ingot.passes
from ingot.hlo.rewrite.pass_base import Pass
from ingot.passes.late import LatePass
from ingot.support.diagnostics import ExecutionError
from ingot.support.regex import regex
from ingot.support.text import did_you_mean

_CALL = regex(r"([\w.-]+)(?:\{(.*)\})?")


@cache
def registry() -> dict[str, type[Pass]]:
    """Return every pass by name."""
    for module in pkgutil.walk_packages(ingot.passes.__path__, "ingot.passes."):
        importlib.import_module(module.name)
    return {
        found.name: found
        for found in sorted(_subclasses(Pass), key=lambda found: getattr(found, "name", ""))
        if hasattr(found, "name") and not getattr(found, "__abstractmethods__", None)
    }


def _subclasses(base: type[Any]) -> Iterator[type[Any]]:
    for found in base.__subclasses__():
        if found is LatePass:  # A row of a pipeline stands for a pass that is found itself.
            continue
        yield found
        yield from _subclasses(found)


def options_of(found: type[Pass]) -> tuple[Field[Any], ...]:
    """Return the options of a pass: its fields."""
    return fields(found)


def option_text(option: Field[Any]) -> str:
    """Return an option with its default."""
    return option.name if option.default is MISSING else f"{option.name}={option.default!r}"


def summary(found: type[Pass]) -> str:
    """Return the first line of a pass's docstring."""
    return (found.__doc__ or "").strip().split("\n")[0]


def make(text: str) -> Pass:
    """Return the pass of a text `name` or `name{option=value,option=value}`.

    Raises:
        ExecutionError: INGOT0520 there is no such pass or option.
    """
    match = _CALL.fullmatch(text.strip())
    name, given = match.groups() if match is not None else (text, "")
    found = registry().get(name)
    if found is None:
        raise ExecutionError(
            f"there is no pass '{name}'",
            code="INGOT0520",
            hint=did_you_mean(name, registry()) or "ingot opt --list-passes has them all",
        )
    known = {option.name: option for option in options_of(found)}
    values: dict[str, Any] = {}
    for part in filter(None, (given or "").split(",")):
        key, _, value = part.partition("=")
        option = known.get(key.strip().replace("-", "_"))
        if option is None:
            raise ExecutionError(
                f"pass {name} has no option '{key}'",
                code="INGOT0520",
                hint=f"its options: {', '.join(known) or 'none'}",
            )
        values[option.name] = _read(value.strip(), option, name)
    return found(**values)


def _read(text: str, option: Field[Any], name: str) -> Any:
    """Return the value of an option, of the type that its default has."""
    default: Any = option.default
    kind: Any = default.__class__
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return int(text) if kind is int else float(text) if kind is float else text
    except (KeyError, ValueError) as error:
        raise ExecutionError(
            f"option {option.name} of pass {name} does not take '{text}'",
            code="INGOT0520",
            hint=f"its default is {option.default!r}",
        ) from error


def split_list(text: str) -> list[str]:
    """Return the parts of `a,b{x=1,y=2},c`."""
    return [part for part in re.findall(r"[^,{]+(?:\{[^}]*\})?", text) if part.strip()]
