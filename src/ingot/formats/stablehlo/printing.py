# SPDX-License-Identifier: Apache-2.0
"""StableHLO out: what XLA makes of an HLO proto."""

from __future__ import annotations

from ingot.formats.hlo_proto.writer import print_hlo_proto
from ingot.formats.stablehlo.binding import bytecode_of_hlo, parse_mlir
from ingot.hlo.module import Module


def print_stablehlo(module: Module) -> str:
    """Return a module as StableHLO text.

    Raises:
        UnsupportedError: jaxlib is not installed (INGOT0350), or XLA cannot convert the module.
    """
    parsed = parse_mlir(bytecode_of_hlo(print_hlo_proto(module)))
    with parsed.context:
        return str(parsed)
