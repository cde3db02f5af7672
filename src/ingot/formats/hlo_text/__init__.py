# SPDX-License-Identifier: Apache-2.0
"""HLO text: XLA's own syntax, read into a module and printed back.

`parse` reads what XLA dumps; what `print_module` prints, XLA reads. See `parser.py`, `printer.py`.
`parse_hlo` is `parse` under the name that `ingot` exports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.support.lazy import names_at_home

if TYPE_CHECKING:
    from ingot.formats.hlo_text.parser import parse, parse_hlo
    from ingot.formats.hlo_text.printer import print_computation, print_module

__all__ = ["parse", "parse_hlo", "print_computation", "print_module"]

__getattr__ = names_at_home(
    __name__,
    {
        "parse": ".parser",
        "parse_hlo": ".parser",
        "print_computation": ".printer",
        "print_module": ".printer",
    },
)
