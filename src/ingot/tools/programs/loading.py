# SPDX-License-Identifier: Apache-2.0
"""Modules from files: the format is given by an option, or found from the data.

This is a thin layer over `ingot.formats.load`: standard input, XLA's names of formats, and the
file's name in diagnostics. PyTorch reads files of `torch.export.save` (`.pt2`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from ingot.client.partition import divided
from ingot.formats.hlo_text import parse
from ingot.formats.load import READERS, WRITERS, sniff
from ingot.formats.load import load as read_module
from ingot.frontends.loading import is_exported_file, load_exported_file
from ingot.hlo.module import Module
from ingot.support.diagnostics import ResourceError

STANDARD_INPUT = "-"
ALIASES = {"hlo": "hlo_text", "pb": "hlo_proto", "snapshot": "hlo_snapshot"}
"""XLA's names of formats -> our names."""

INPUT_FORMATS = (*READERS, *ALIASES)
OUTPUT_FORMATS = (*WRITERS, *ALIASES)


def load(path: str, format_name: str = "") -> Module:
    """Return the module in a file, `-` being standard input.

    Args:
        path: the file.
        format_name: one of `INPUT_FORMATS`; default: found out from the data.

    Raises:
        ParseError: the content is not of that format.
        ResourceError: the file cannot be read.
        UnsupportedError: a program of `torch.export` that cannot be compiled as a whole.
    """
    if not format_name and is_exported_file(path):
        return load_exported_file(path)
    return load_data(read_bytes(path), path, format_name)


def load_device(path: str) -> Module:
    """Return the program that each device runs, of the module in a file; the errors of `load`.

    Raises:
        UnsupportedError: INGOT0360, an op or a value cannot be divided as the program asks.
    """
    if is_exported_file(path):
        return load_exported_file(path)
    data = read_bytes(path)
    return divided(load_data(data, path), sniff(data))


def load_text(text: str, path: str, format_name: str) -> Module:
    """Return the module in a part of a file."""
    return load_data(text.encode("utf-8", "surrogateescape"), path, format_name)


def load_data(data: bytes, path: str, format_name: str = "") -> Module:
    """Return the module in the data of a file."""
    chosen = format_of(format_name) or sniff(data)
    if chosen == "hlo_text":
        return parse(data.decode("utf-8", "surrogateescape"), path)
    return read_module(data, chosen)


def is_proto(data: bytes, format_name: str | None) -> bool:
    """Whether data is a proto, maybe a snapshot with arguments, by its format or content."""
    return (format_of(format_name or "") or sniff(data)) in ("hlo_proto", "hlo_snapshot")


def format_of(name: str) -> str:
    """Return our name of a format."""
    return ALIASES.get(name, name)


MODULE_HINT = "give the path of a module; - is standard input"


def read_bytes(path: str, hint: str = MODULE_HINT) -> bytes:
    """Return the bytes of a file.

    Args:
        path: the file; `-` is standard input.
        hint: what to do if it cannot be read.

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
            hint=hint,
        ) from error


def write_bytes(data: bytes, path: str | None) -> None:
    """Write data to a file, or to standard output.

    Raises:
        ResourceError: INGOT0411 it cannot be written.
    """
    if path is None or path == STANDARD_INPUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be written: {error.strerror}", code="INGOT0411"
        ) from error
