# SPDX-License-Identifier: Apache-2.0
"""StableHLO in: MLIR text, MLIR bytecode and VHLO portable artifacts to HLO modules.

`print_stablehlo` prints what XLA makes of an HLO proto.

jaxlib reads MLIR (`binding`); this package walks the resulting module (`conversion`) and makes HLO,
with one row per op (`table`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.support.lazy import names_at_home

if TYPE_CHECKING:
    from ingot.formats.stablehlo.parse import Exported, parse_exported, parse_stablehlo
    from ingot.formats.stablehlo.printing import print_stablehlo

__all__ = ["Exported", "parse_exported", "parse_stablehlo", "print_stablehlo"]

__getattr__ = names_at_home(
    __name__,
    {
        "Exported": ".parse",
        "parse_exported": ".parse",
        "parse_stablehlo": ".parse",
        "print_stablehlo": ".printing",
    },
)
