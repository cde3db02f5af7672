# SPDX-License-Identifier: Apache-2.0
"""Converter of `shape_assertion`, a custom call by which JAX checks a condition on sizes.

The first operand is the condition, the others are the numbers in its text, which has LLVM's
`formatv` syntax: `{0}`, `{2,=5}` (5 wide, centred), `{{` for a brace.

Invariant: an assertion is of sizes; one of data is refused, as XLA refuses it.
Source: StableHLO's `transforms/StablehloRefineShapes.cpp`, JAX's `export/shape_poly.py`.

Example:
    >>> filled("{0} == {1,=5}|{{", ["3", "4"])
    '3 ==   4  |{'
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingot.formats.stablehlo.attributes import text_of
from ingot.formats.stablehlo.equal_sizes import equate
from ingot.formats.stablehlo.scope import Results, Site
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion
from ingot.support.diagnostics import ParseError
from ingot.support.regex import regex

_SPECIFIER = regex(r"\{\{|\{(\d+)(?:,(?:(.)?([-=+]))?(\d+))?(?::[^}]*)?\}")
_ALIGN = {"-": "<", "=": "^", "+": ">", None: ">"}
_TEXT = "error_message"


def shape_assertion(site: Site) -> Results:
    """Add an assertion of JAX's on sizes; one that two sizes are equal makes them one."""
    flag, *numbers = site.operands
    text = text_of(site.attributes, _TEXT) if _TEXT in site.attributes else "it does not hold"
    _check(site, text)
    if flag.opcode == "compare":
        left, right = (site.conversion.sizes_of(operand) for operand in flag.operands)
        if left is not None and right is not None and flag.attributes.direction == "EQ":
            equate(left[0], right[0])
    found = [site.conversion.sizes_of(number) for number in numbers]
    texts = ["?" if sizes is None else str(sizes[0]) for sizes in found]
    emit_assertion(site.builder, flag, filled(text, texts))
    return []


def filled(text: str, values: Sequence[str]) -> str:
    """Return a text with its specifiers replaced by values."""

    def value(match: re.Match[str]) -> str:
        number, pad, alignment, width = match.groups()
        if number is None:
            return "{"
        return f"{values[int(number)]:{pad or ' '}{_ALIGN[alignment]}{width or 0}}"

    return _SPECIFIER.sub(value, text)


def _check(site: Site, text: str) -> None:
    """Raise ParseError for texts that XLA refuses, with XLA's message."""
    given = site.attributes
    if "has_side_effect" not in given or not given["has_side_effect"].value:
        raise _refused("`shape_assertion` custom calls must set `has_side_effect = true`.")
    _check_operand(site, 0, "assert_what", Shape.array(PRED, ()))
    for number in range(1, len(site.operands)):
        _check_operand(site, number, "error_message_input", Shape.array(S32, ()))
    for match in _SPECIFIER.finditer(text):
        if match[1] is not None and int(match[1]) >= len(site.operands) - 1:
            raise _refused(
                "expects error_message to contain format specifiers with error_message_input "
                f"index less than {len(site.operands) - 1}. Found specifier {match[0]}"
            )


def _check_operand(site: Site, number: int, what: str, shape: Shape) -> None:
    operand = site.operands[number]
    if not operand.shape.compatible(shape):
        kind = "i1" if shape.dtype is PRED else "i32"
        raise _refused(
            f"expects {what} (operand #{number}) to be a constant of type tensor<{kind}>"
        )
    if _is_data(site, operand):
        raise _refused(f"expects static {what} (operand #{number})")


def _is_data(site: Site, operand: Instruction) -> bool:
    """Whether an operand is an argument of the program; those of functions may be sizes."""
    entry = site.conversion.entry().attributes["sym_name"].value
    return operand.opcode == "parameter" and site.scope.computation.name == entry


def _refused(why: str) -> ParseError:
    return ParseError(why, code="INGOT0125")
