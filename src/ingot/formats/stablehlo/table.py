# SPDX-License-Identifier: Apache-2.0
"""The table of converters: every op that Ingot reads, by its MLIR name.

Families with another form in HLO have a file each; the rest is generated from the op table.
"""

from __future__ import annotations

import importlib
from functools import cache

from ingot.formats.stablehlo import generated
from ingot.formats.stablehlo.scope import Converter
from ingot.hlo.opdef import table

# Loaded when the table is built: control flow needs the conversion, which needs this table.
_FAMILIES = (
    *("shaping", "computing", "control", "structural", "composites", "deprecated"),
    *("devices", "shardy", "dynamic", "quantized"),
)


@cache
def converters() -> dict[str, Converter]:
    """Return the converters by MLIR name."""
    made = generated.converters(table())
    for family in _FAMILIES:
        made.update(importlib.import_module(f"ingot.formats.stablehlo.{family}").CONVERTERS)
    return made
