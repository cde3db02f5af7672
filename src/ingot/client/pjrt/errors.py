# SPDX-License-Identifier: Apache-2.0
"""Failures of Python slots: conversion of exceptions to PJRT errors, with Ingot's own text.

Invariant: no exception leaves a slot; each becomes a `PJRT_Error*` with the closest of absl's codes
and the whole diagnostic as its message.
"""

from __future__ import annotations

import traceback
from typing import Any

from ingot.client.pjrt.c_api import (
    INTERNAL,
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
    record,
)
from ingot.client.pjrt.trampolines import Target
from ingot.runtime.foreign.ffi.api import ERROR_CODES
from ingot.support.diagnostics import (
    ExecutionError,
    FlagError,
    IngotError,
    ParseError,
    ResourceError,
    UnsupportedError,
    VerifyError,
)

_CODES: tuple[tuple[type[IngotError], int], ...] = (
    (UnsupportedError, UNIMPLEMENTED),
    (ResourceError, RESOURCE_EXHAUSTED),
    (ParseError, INVALID_ARGUMENT),
    (VerifyError, INVALID_ARGUMENT),
    (FlagError, INVALID_ARGUMENT),
    (ExecutionError, INTERNAL),
)


class PjrtError(Exception):
    """A failure with absl's code, for the host."""

    def __init__(self, code: int, message: str) -> None:
        """Carry `message`."""
        super().__init__(message)
        self.code = code


def _code_of(problem: IngotError) -> int:
    """Return absl's code: a failed foreign call's own status, or that of the kind of error."""
    if isinstance(problem, ExecutionError) and problem.status in ERROR_CODES:
        return ERROR_CODES.index(problem.status)
    return next((code for kind, code in _CODES if isinstance(problem, kind)), INTERNAL)


def error_of(problem: BaseException) -> PjrtError:
    """Return the PJRT error for an exception."""
    if isinstance(problem, PjrtError):
        return problem
    if isinstance(problem, IngotError):
        return PjrtError(_code_of(problem), str(problem))
    if isinstance(problem, MemoryError):
        return PjrtError(RESOURCE_EXHAUSTED, "out of memory")
    text = "".join(traceback.format_exception(problem))
    return PjrtError(INTERNAL, f"Ingot failed: {problem}\n{text}")


class ErrorFactory:
    """Makes error records; filled in when the machine code is linked."""

    def __init__(self) -> None:
        """Start without the native function."""
        self.new: Any = None

    def make(self, problem: BaseException) -> int:
        """Return the address of a new error, which the receiver owns."""
        told = error_of(problem)
        data = str(told).encode(errors="backslashreplace")
        return int(self.new(told.code, data, len(data)) or 0)

    def target(self, name: str, slot: Any) -> Target:
        """Return a slot as a function for a trampoline, of addresses: arguments to error."""
        structure: Any = record(name).structure

        def call(address: int) -> int:
            try:
                slot(structure.from_address(address))
            except BaseException as problem:
                return self.make(problem)
            return 0

        return call
