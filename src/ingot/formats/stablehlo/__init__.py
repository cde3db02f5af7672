# SPDX-License-Identifier: Apache-2.0
"""StableHLO in: MLIR text, MLIR bytecode and VHLO portable artifacts to HLO modules.

jaxlib reads MLIR (`binding`); this package walks the resulting module (`conversion`) and makes HLO,
with one row per op (`table`).
"""

from ingot.formats.stablehlo.parse import Exported, parse_exported, parse_stablehlo

__all__ = ["Exported", "parse_exported", "parse_stablehlo"]
