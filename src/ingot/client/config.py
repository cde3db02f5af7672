# SPDX-License-Identifier: Apache-2.0
"""`ingot.config`: the settings of docs/flags.md in code.

A setting is one row of `support.flags`. Besides the environment, it can be set by `update` for the
process, and by a `with` block for one thread or task. The block takes precedence over the process,
and the process over the environment.

Example:
    >>> with config(fp="exact"):
    ...     config.fp
    'exact'
    >>> config.fp
    'default'
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, Unpack

from ingot.client.options import Settings, checked
from ingot.runtime.native import default_cache_limit, default_num_threads, native_runtime
from ingot.support import flags
from ingot.support.diagnostics import FlagError
from ingot.support.text import did_you_mean

_OF_THE_PROCESS = ("allocator_cache_bytes", "num_threads")
"""Settings that the runtime holds for all threads."""


class Config:
    """The settings in force are its attributes; `ingot.config` is the only instance."""

    def __call__(self, **settings: Unpack[Settings]) -> AbstractContextManager[None]:
        """Return a context manager in which the settings hold, in this thread or task only.

        Args:
            settings: names and values of docs/flags.md.

        Raises:
            FlagError: INGOT0600, there is no such setting, it does not take the value, or it is
                one for the whole process.
        """
        for name in _OF_THE_PROCESS:
            if name in settings:
                raise FlagError(
                    f"{name} is one setting for the whole process, not for a block of one thread",
                    hint=f"use ingot.config.update({name}=...)"
                    + (", or ingot.compile(..., threads=...)" if name == "num_threads" else ""),
                )
        return flags.override_values(checked(settings))

    def update(self, **settings: Unpack[Settings]) -> None:
        """Set settings for the process: every thread, from now on.

        Raises:
            FlagError: INGOT0600, there is no such setting, or it does not take the value.
        """
        values = checked(settings)
        flags.set_process_values(values)
        _apply(values)

    def reset(self) -> None:
        """Undo `update`: the environment holds again."""
        _apply(flags.reset_process_values())

    def as_dict(self) -> dict[str, Any]:
        """Return the values in force here, by name."""
        return {flag.name: flag.value() for flag in flags.ALL_FLAGS}

    def __getattr__(self, name: str) -> Any:
        for flag in flags.ALL_FLAGS:
            if flag.name == name:
                return flag.value()
        hint = did_you_mean(name, [flag.name for flag in flags.ALL_FLAGS])
        raise AttributeError(f"Ingot has no setting '{name}'" + (f"; {hint}" if hint else ""))

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *(flag.name for flag in flags.ALL_FLAGS)])

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items())
        return f"ingot.config({values})"


def _apply(names: Collection[str]) -> None:
    """Pass the settings that hold for the whole process to the runtime."""
    if "num_threads" in names:
        native_runtime().set_num_threads(default_num_threads())
    if "allocator_cache_bytes" in names:
        native_runtime().set_cache_limit(default_cache_limit())


config = Config()
