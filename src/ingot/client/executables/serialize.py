# SPDX-License-Identifier: Apache-2.0
"""`Executable.serialize`: a compiled program as bytes, which `ingot.load_executable` loads.

The bytes hold the program before the passes and its compile options; loading compiles it again, or
takes the machine code from the object cache. The bytes have no machine code, so the CPU need not be
the same, and loading runs nothing.

Invariant: bytes of another version of Ingot are refused.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

from ingot.client.executables.container import pack, unpack
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.support.diagnostics import ParseError
from ingot.support.records import record
from ingot.support.versions import VERSION

_MAGIC = b"INGOTEXEC1"


@record
class Saved:
    """The content of the bytes.

    Attributes:
        module: the program before the passes.
        fp: the floating-point licence that it was compiled with.
        disabled: names of the passes that were left out.
        threads: the argument of `ingot.compile`.
    """

    module: Module
    fp: Fp
    disabled: tuple[str, ...]
    threads: int | None


def write_saved(module: Module, fp: Fp, disabled: Iterable[str], threads: int | None) -> bytes:
    """Return a program and its compile options as bytes."""
    from ingot.formats.hlo_text import print_module

    options = {"fp": fp.name, "disabled": sorted(disabled), "threads": threads}
    text = print_module(module).encode("utf-8", "surrogateescape")
    return pack(_MAGIC, (VERSION.encode(), json.dumps(options).encode(), zlib.compress(text, 1)))


def read_saved(data: bytes) -> Saved:
    """Return the arguments of `write_saved`.

    Raises:
        ParseError: INGOT0128, the bytes are incomplete, or of another version of Ingot.
    """
    from ingot.formats.hlo_text import parse_hlo

    try:
        version, options, text = unpack(_MAGIC, data, 3)
    except ValueError as error:
        raise _refused(str(error)) from error
    if version != VERSION.encode():
        made_by = version.decode(errors="backslashreplace")
        raise _refused(f"was serialized by Ingot {made_by}, this is {VERSION}")
    fields: dict[str, Any] = json.loads(options)
    module = parse_hlo(zlib.decompress(text).decode("utf-8", "surrogateescape"))
    return Saved(module, Fp[fields["fp"]], tuple(fields["disabled"]), fields["threads"])


def _refused(why: str) -> ParseError:
    return ParseError(
        f"this serialized executable {why}",
        code="INGOT0128",
        hint="compile the program again and serialize that",
    )
