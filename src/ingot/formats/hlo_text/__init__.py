# SPDX-License-Identifier: Apache-2.0
"""HLO text: XLA's own syntax, read into a module and printed back.

`parse` reads what XLA dumps; what `print_module` prints, XLA reads. See `parser.py`, `printer.py`.
`parse_hlo` is `parse` under the name that `ingot` exports.

The other files, those that import others first:

* `instruction_parser`: the parser of one instruction: `ROOT %name = shape opcode(operands),
  attribute=value, …`;
* `async_text`: XLA's short form of asynchronous ops: `negate-start(x)`, `negate-update(s)`,
  `negate-done(u)`;
* `attribute_text`: attributes in HLO text: one table row per `Codec`, a reading and a writing
  function;
* `header_text`: HLO text around the computations: the `HloModule` line, stack frames, metadata;
* `opcodes`: XLA's opcodes as text: they tell an op that Ingot lacks from a misspelt one;
* `entry_layout`: the entry's signature in the header:
  `entry_computation_layout={(f32[3,3]{0,1})->f32[3]{0}}`;
* `kept_text`: attributes in HLO text that Ingot keeps as text and prints back, and the form of some
  of them;
* `literal_text`: literals in HLO text: `{ { 1, 2 }, { 3, 4 } }`, `(1, nan)`, `nan(0x123)`, both
  ways;
* `window_text`: windows in HLO text: `{size=3x3 stride=2x2 pad=1_1x0_1 rhs_dilate=2x2}`, both ways;
* `shape_text`: shapes in HLO text: `f32[2,?n,<=8]{1,0:T(8,128)}`, tuples of them, and symbolic
  sizes;
* `reader`: a position in the text, the patterns taken there, and errors that point at it.
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
