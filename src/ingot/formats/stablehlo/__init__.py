# SPDX-License-Identifier: Apache-2.0
"""StableHLO in: MLIR text, MLIR bytecode and VHLO portable artifacts to HLO modules.

`print_stablehlo` prints what XLA makes of an HLO proto.

jaxlib reads MLIR (`binding`); this package walks the resulting module (`conversion`) and makes HLO,
with one row per op (`table`).
"""

from ingot.formats.hlo_proto import print_hlo_proto
from ingot.formats.stablehlo.binding import bytecode_of_hlo, parse_mlir
from ingot.formats.stablehlo.parse import Exported, parse_exported, parse_stablehlo
from ingot.hlo.module import Module

__all__ = ["Exported", "parse_exported", "parse_stablehlo", "print_stablehlo"]


def print_stablehlo(module: Module) -> str:
    """Return a module as StableHLO text.

    Raises:
        UnsupportedError: jaxlib is not installed (INGOT0350), or XLA cannot convert the module.
    """
    parsed = parse_mlir(bytecode_of_hlo(print_hlo_proto(module)))
    with parsed.context:
        return str(parsed)
