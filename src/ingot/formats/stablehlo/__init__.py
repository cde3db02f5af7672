# SPDX-License-Identifier: Apache-2.0
"""StableHLO in: MLIR text, MLIR bytecode and VHLO portable artifacts to HLO modules.

Reading MLIR is jaxlib's work (`binding`); this package walks what it gives (`conversion`) and makes
HLO, one row per op (`table`).
"""

from ingot.formats.stablehlo.parse import Exported, parse_exported, parse_stablehlo

__all__ = ["Exported", "parse_exported", "parse_stablehlo"]
