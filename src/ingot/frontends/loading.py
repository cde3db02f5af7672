# SPDX-License-Identifier: Apache-2.0
"""`ingot.load`: a module from a file, from bytes, or from what a framework exports."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from ingot.formats import load as formats
from ingot.hlo.module import Module
from ingot.support.arguments import require_type
from ingot.support.diagnostics import ResourceError

EXPORTED_SUFFIX = ".pt2"
"""How the name of a file of `torch.export.save` ends."""


def load(source: Any, format: str = "", *, isolated: bool | None = None) -> Module:
    """Return the module in a file, in bytes, or in an `ExportedProgram` of `torch.export`.

    Args:
        source: a path; HLO or StableHLO as text; StableHLO bytecode or a proto as bytes; or what
            `torch.export.export` gives. A path that ends in `.pt2` is of `torch.export.save`.
        format: of a file or data: see `ingot.formats.load.load`; default: found out from the data.
        isolated: of a file or data: whether StableHLO is read in a child process.

    Raises:
        ArgumentError: INGOT0513, it is none of these.
        ParseError: the data is no program.
        ResourceError: INGOT0411, the file cannot be read.
        UnsupportedError: an exported program that cannot be compiled as a whole.
    """
    export: Any = sys.modules.get("torch.export")
    if export is not None and isinstance(source, export.ExportedProgram):
        from ingot.frontends.torch.exported import module_of

        return module_of(source)
    require_type(format, str, "the format")
    if not format and is_exported_file(source):
        return load_exported_file(str(source))
    return formats.load(cast("str | bytes | Path", source), format, isolated=isolated)


def is_exported_file(source: object) -> bool:
    """Whether a source is the path of a file of `torch.export.save`, by its name."""
    if not isinstance(source, str | Path):
        return False
    text = str(source)
    return text.endswith(EXPORTED_SUFFIX) and "\n" not in text


def load_exported_file(path: str) -> Module:
    """Return the module in a file of `torch.export.save`.

    Raises:
        ResourceError: INGOT0411, PyTorch cannot read it, or is not installed.
        UnsupportedError: the program cannot be compiled as a whole.
    """
    if find_spec("torch") is None:
        raise ResourceError(
            f"{path} cannot be read: PyTorch is not installed",
            code="INGOT0411",
            hint="pip install 'ingot-compiler[torch]'",
        )
    # PyTorch takes a second to load.
    from ingot.frontends.torch.exported import load_exported

    return load_exported(path)
