# SPDX-License-Identifier: Apache-2.0
"""`ingot.load`: a module from a file, from bytes, or from what a framework exports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from ingot.formats import load as formats
from ingot.hlo.module import Module


def load(source: Any, format: str = "", *, isolated: bool | None = None) -> Module:
    """Return the module in a file, in bytes, or in an `ExportedProgram` of `torch.export`.

    Args:
        source: a path; HLO or StableHLO as text; StableHLO bytecode or a proto as bytes; or what
            `torch.export.export` gives.
        format: of a file or data: see `ingot.formats.load.load`; default: found out from the data.
        isolated: of a file or data: whether StableHLO is read in a child process.

    Raises:
        ArgumentError: INGOT0513, it is none of these.
        ParseError: the data is no program.
        UnsupportedError: an exported program that cannot be compiled as a whole.
    """
    export: Any = sys.modules.get("torch.export")
    if export is not None and isinstance(source, export.ExportedProgram):
        from ingot.frontends.torch.exported import module_of

        return module_of(source)
    return formats.load(cast("str | bytes | Path", source), format, isolated=isolated)
