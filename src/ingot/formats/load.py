# SPDX-License-Identifier: Apache-2.0
"""`load` and `dump`: a module from a file or bytes of any format, and back.

The data itself determines the format, not the file's name: MLIR bytecode has a magic number, MLIR
text and HLO text begin with words of their own, an artifact of `jax.export` contains MLIR bytecode,
and any other binary data is a proto.

Example:
    >>> module = load("HloModule m ENTRY e { ROOT x = f32[2] parameter(0) }")
    >>> load(dump(module, "hlo_proto")).name, sniff(dump(module, "hlo_proto"))
    ('m', 'hlo_proto')
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ingot.formats.hlo_proto import (
    Snapshot,
    parse_hlo_proto,
    print_hlo_proto,
    print_snapshot,
)
from ingot.formats.hlo_text import parse_hlo, print_module
from ingot.formats.stablehlo import parse_stablehlo
from ingot.formats.stablehlo.binding import is_bytecode
from ingot.formats.stablehlo.exported import artifact_of, require_artifact
from ingot.formats.stablehlo.isolated import parse_isolated
from ingot.hlo.module import Module
from ingot.support.arguments import bytes_of, encodable, require_type
from ingot.support.diagnostics import ParseError, UnsupportedError
from ingot.support.flags import ISOLATED_READER
from ingot.support.regex import regex
from ingot.support.text import did_you_mean

# The first words of MLIR text and HLO text, after comments and blank lines.
_BLANK = regex(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_MLIR = regex(r'module\b(?!\s*=)|func\.func\b|"builtin\.module"|#\w+\s*=|!\w+\s*=|\{-#')
# This many bytes are enough to distinguish text from a proto.
_HEAD = 4096
_Function = TypeVar("_Function")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


READERS: dict[str, Callable[[bytes], Module]] = {
    "hlo_text": lambda data: parse_hlo(_text(data)),
    "hlo_proto": parse_hlo_proto,
    "hlo_snapshot": parse_hlo_proto,
    "stablehlo": parse_isolated,
    "mlir": parse_isolated,
    "jax_export": lambda data: parse_isolated(require_artifact(data)),
}
"""Readers of any data, whatever it is."""
_TRUSTED_READERS: dict[str, Callable[[bytes], Module]] = {
    **READERS,
    "stablehlo": parse_stablehlo,
    "mlir": lambda data: parse_stablehlo(_text(data)),
    "jax_export": lambda data: parse_stablehlo(require_artifact(data)),
}
"""Readers of intact data: MLIR ends the process on some damaged data."""
WRITERS: dict[str, Callable[[Module], bytes]] = {
    "hlo_text": lambda module: print_module(module).encode("utf-8", "surrogateescape"),
    "hlo_proto": print_hlo_proto,
    "hlo_snapshot": lambda module: print_snapshot(Snapshot(module)),
}


def sniff(data: bytes) -> str:
    """Return the format of `data`: a key of `READERS` (`stablehlo` is bytecode, `mlir` text)."""
    if is_bytecode(data):
        return "stablehlo"
    head = data[:_HEAD]
    if not _is_text(head):
        return "hlo_proto" if artifact_of(data) is None else "jax_export"
    text = _text(head)
    blank = _BLANK.match(text)
    start = blank.end() if blank is not None else 0
    return "mlir" if _MLIR.match(text, start) else "hlo_text"


def _is_text(head: bytes) -> bool:
    """Whether the bytes have no control characters but blanks: a proto's lengths and tags do."""
    return not any(byte < 32 and byte not in b"\t\n\r\f" for byte in head)


def load(source: str | bytes | Path, format: str = "", *, isolated: bool | None = None) -> Module:
    """Return the module of a file or of data.

    Args:
        source: a path, the data, or text (a string of one line that names a file is its path).
        format: a key of `READERS`; default: found out from the data.
        isolated: whether StableHLO is read in a child process, which damaged data may end without
            harm here; default: `INGOT_ISOLATED_READER`, whose default is yes.

    Raises:
        ParseError: the data is not of the format.
        ResourceError: INGOT0413, INGOT0414, the child does not start, or takes too long.
        UnsupportedError: the format, an op or an element type is not known.
    """
    require_type(format, str, "the format")
    data = data_of(source)
    is_isolated = ISOLATED_READER.value() if isolated is None else isolated
    readers = READERS if is_isolated else _TRUSTED_READERS
    return _choose(readers, format or sniff(data), "read")(data)


def dump(module: Module, format: str = "hlo_text") -> bytes:
    """Return the module as data of `format`, a key of `WRITERS`."""
    require_type(module, Module, "what is written")
    require_type(format, str, "the format")
    return _choose(WRITERS, format, "write")(module)


def has_global_shapes(format: str) -> bool:
    """Whether programs of a format have global shapes: XLA's may be of one device already."""
    return format in ("mlir", "stablehlo", "jax_export")


def _choose(table: dict[str, _Function], format: str, what: str) -> _Function:
    if format not in table:
        known = ", ".join(table)
        hint = did_you_mean(format, table) or f"one of: {known}"
        raise UnsupportedError(
            f"there is no format '{format}' to {what}", code="INGOT0353", hint=hint
        )
    return table[format]


def data_of(source: str | bytes | Path) -> bytes:
    """Return the bytes of a file or of data, as `load` takes them."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes_of(source, "the data")
    require_type(source, (str, os.PathLike), "the source")
    if source == "":
        raise ParseError("the program is empty", code="INGOT0124", hint=_FORMS)
    if isinstance(source, str) and not _is_path(source):
        return encodable(source).encode("utf-8", "surrogateescape")
    try:
        return Path(source).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: no file has such a name.
        reason = error.strerror if isinstance(error, OSError) else error
        hint = f"if this is no path: {_FORMS}" if isinstance(source, str) else ""
        raise ParseError(
            f"cannot read the file '{source!s}': {reason}", code="INGOT0124", hint=hint
        ) from error


_FORMS = "HLO text begins with 'HloModule', StableHLO with 'module' or 'func.func'"


def _is_path(text: str) -> bool:
    """Whether a string is a path rather than the text of a module."""
    return "\n" not in text and "{" not in text
