# SPDX-License-Identifier: Apache-2.0
"""Errors as JSON and back, so that a child process can report them to its parent.

An error of Ingot's keeps its class and every fact; any other becomes an `InternalError` with the
traceback, since it is a bug of the child.

Example:
    >>> error = error_from(error_as_json(ResourceError("no memory", code="INGOT0401")))
    >>> type(error).__name__, error.diagnostic.code
    ('ResourceError', 'INGOT0401')
"""

from __future__ import annotations

import traceback
from dataclasses import asdict
from typing import Any

from ingot.support.diagnostics import (
    ArgumentError,
    Diagnostic,
    ExecutionError,
    FlagError,
    IngotError,
    InternalError,
    ParseError,
    ResourceError,
    SourceLocation,
    Span,
    UnsupportedError,
    VerifyError,
)

_CLASSES = {
    one.__name__: one
    for one in (
        ArgumentError,
        ExecutionError,
        FlagError,
        InternalError,
        ParseError,
        ResourceError,
        UnsupportedError,
        VerifyError,
    )
}


def error_as_json(error: Exception) -> dict[str, Any]:
    """Return an error as JSON-ready data."""
    if isinstance(error, MemoryError):
        error = ResourceError("out of memory", code="INGOT0401")
    if not isinstance(error, IngotError):
        trace = "".join(traceback.format_exception(error))
        error = InternalError(f"{type(error).__name__}: {error}", notes=(trace,))
    return {"class": type(error).__name__, **asdict(error.diagnostic)}


def error_from(facts: dict[str, Any]) -> IngotError:
    """Return the error that `error_as_json` wrote."""
    row: dict[str, Any] = dict(facts)
    kind = _CLASSES[row.pop("class")]
    if row["span"] is not None:
        row["span"] = Span(**row["span"])
    if row["location"] is not None:
        row["location"] = SourceLocation(**row["location"])
    row["notes"] = tuple(row["notes"])
    return kind(Diagnostic(**row))
