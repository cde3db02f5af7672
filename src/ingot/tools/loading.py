"""Modules from files: the format by the option, the name's ending, or the first bytes.

| format | endings | what it is |
|---|---|---|
| `hlo` | .hlo .txt | HLO text |
| `stablehlo` | .mlir .mlirbc | StableHLO: MLIR text, bytecode or a portable artifact |
| `proto` | .pb .hlo_proto | `HloModuleProto` or an `HloProto`, HLO snapshots too |
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from ingot.formats.hlo_text import parse
from ingot.formats.stablehlo import parse_stablehlo
from ingot.hlo.module import Module
from ingot.support.diagnostics import ResourceError

ENDINGS = {
    ".hlo": "hlo", ".txt": "hlo", ".mlir": "stablehlo", ".mlirbc": "stablehlo",
    ".pb": "proto", ".hlo_proto": "proto",
}  # fmt: skip
STANDARD_INPUT = "-"
_BYTECODE = b"ML\xefR"


def _hlo(data: bytes, name: str) -> Module:
    return parse(data.decode("utf-8"), name)


def _stablehlo(data: bytes, name: str) -> Module:
    return parse_stablehlo(data if data.startswith(_BYTECODE) else data.decode("utf-8"))


READERS: dict[str, Callable[[bytes, str], Module]] = {"hlo": _hlo, "stablehlo": _stablehlo}
"""Format -> reader of bytes and the name of the file."""


def load(path: str, format_name: str = "") -> Module:
    """Return the module in a file, `-` being standard input.

    Args:
        path: the file.
        format_name: one of `READERS`; default: by the ending, then by the content.

    Raises:
        ParseError: the content is not of that format.
        ResourceError: the file cannot be read.
    """
    data = read_bytes(path)
    chosen = format_name or ENDINGS.get(Path(path).suffix) or guess(data)
    return READERS[chosen](data, path)


def read_bytes(path: str) -> bytes:
    """Return the bytes of a file.

    Raises:
        ResourceError: INGOT0411 it cannot be read.
    """
    if path == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be read: {error.strerror}",
            code="INGOT0411",
            hint="give the path of a module; - is standard input",
        ) from error


def guess(data: bytes) -> str:
    """Return the format that bytes look like."""
    if data.startswith(_BYTECODE):
        return "stablehlo"
    start = data.lstrip()[:4096]
    if start.startswith(b"HloModule") or b"\nHloModule" in start:
        return "hlo"
    if b"module" in start and b"func" in start:
        return "stablehlo"
    return "hlo" if data.isascii() else "proto"
