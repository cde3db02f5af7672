# SPDX-License-Identifier: Apache-2.0
"""The table of converters: every op that Ingot reads, by its MLIR name.

Families with another form in HLO have a file each; the rest is generated from the op table.
"""

from __future__ import annotations

from functools import cache

from ingot.formats.stablehlo.scope import Converter
from ingot.hlo.opdef import table


@cache
def converters() -> dict[str, Converter]:
    """Return the converters by MLIR name."""
    # Imported here: a process that finds its programs on the disk converts nothing.
    from ingot.formats.stablehlo import (
        composites,
        computing,
        control,
        deprecated,
        devices,
        dynamic,
        generated,
        quantized,
        shaping,
        shardy,
        structural,
    )

    made = generated.converters(table())
    for family in (
        *(shaping, computing, control, structural, composites, deprecated),
        *(devices, shardy, dynamic, quantized),
    ):
        made.update(family.CONVERTERS)
    return made
