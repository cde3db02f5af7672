# SPDX-License-Identifier: Apache-2.0
r"""A program with its inputs as one file: HLO text whose first comments are the inputs.

    // INPUT: f32[3] {1, nan, -0}
    HloModule ...

There is one literal for each leaf of each entry parameter, in order. `ingot run`, `ingot bisect`,
`ingot diff` and `ingot reduce` read these inputs, so a case can be read, changed and run by hand.

Example:
    >>> inputs_in("// INPUT: f32[2] {1, 2}\nHloModule m ...")
    [array([1., 2.], dtype=float32)]
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.evaluator import Value
from ingot.formats.hlo_text import print_module
from ingot.hlo.literal import Array
from ingot.hlo.module import Module
from ingot.support.records import record
from ingot.tools.programs.literals import literal_text, read_literal
from ingot.tools.programs.platforms import flat

INPUT = "// INPUT: "
"""The beginning of a line with a literal."""


@record
class Case:
    """A program and its inputs.

    Attributes:
        module: the program, which is not changed.
        inputs: a value for each entry parameter; None if there are none: it runs on random ones.
        outputs: for each result the number of that result in the first program, None for another
            value.
    """

    module: Module
    inputs: tuple[Value, ...] | None
    outputs: tuple[int | None, ...] = ()

    def text(self, *, with_metadata: bool = True) -> str:
        """Return the file."""
        lines = input_lines(self.inputs or ())
        return "\n".join([*lines, print_module(self.module, with_metadata=with_metadata)])


def input_lines(inputs: Sequence[Value]) -> list[str]:
    """Return the comment lines of the inputs, one for each leaf."""
    return [f"{INPUT}{literal_text(leaf)}" for value in inputs for leaf in flat(value)]


def inputs_in(text: str, name: str = "<case>") -> list[Array]:
    """Return the arrays in the comments of a file.

    Raises:
        ParseError: a line has no literal.
    """
    lines = (line for line in text.splitlines() if line.startswith(INPUT))
    return [read_literal(line.removeprefix(INPUT), name) for line in lines]
