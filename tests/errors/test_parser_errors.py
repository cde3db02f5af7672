# SPDX-License-Identifier: Apache-2.0
"""Each file in tests/errors/parser: a text that is not HLO text, and the diagnostic it must give.

The diagnostic stands below the line `=====`. `python -m tests.errors.test_parser_errors` writes it
anew into every file; read the difference before committing it.
"""

from pathlib import Path

import pytest

from ingot.formats.hlo_text import parse, print_module
from ingot.support.diagnostics import IngotError, ParseError, UnsupportedError, VerifyError

CASES = sorted((Path(__file__).parent / "parser").glob("*.hlo"))
SEPARATOR = "=====\n"


def diagnostic(path: Path) -> str:
    """Return what parsing the text of `path` says."""
    text, _, _ = path.read_text().partition(SEPARATOR)
    try:
        parse(text, path.name)
    except IngotError as error:
        return str(error) + "\n"
    return "no error\n"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_diagnostic_is_the_one_in_the_file(path: Path):
    _, separator, wanted = path.read_text().partition(SEPARATOR)
    assert separator
    assert diagnostic(path) == wanted


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_diagnostic_points_into_the_text(path: Path):
    text, _, _ = path.read_text().partition(SEPARATOR)
    with pytest.raises((ParseError, VerifyError, UnsupportedError)) as caught:
        parse(text, path.name)
    span = caught.value.diagnostic.span
    assert span is not None
    assert span.source_name == path.name
    assert span.source_line == text.split("\n")[span.line - 1]
    assert 1 <= span.column <= len(span.source_line) + 1


def test_deep_nesting_is_a_diagnostic_and_not_a_crash():
    for inner in ("(" * 100_000, "[" * 100_000, "{" * 100_000):
        for text in (
            f"HloModule m ENTRY e {{ ROOT x = {inner}",
            f"HloModule m ENTRY e {{ ROOT x = f32[2] constant({inner}",
            f"HloModule m ENTRY e {{ ROOT x = f32[2] abs(x), sharding={inner}",
            f"HloModule m ENTRY e {{ ROOT x = f32[?{inner}",
            f"HloModule m ENTRY e (x: {inner}",
            f"HloModule m, input_output_alias={inner}",
        ):
            with pytest.raises(ParseError):
                parse(text)


def test_a_long_chain_of_calls_is_read_in_any_order():
    count = 3000
    chain = [
        f"f{i} {{ x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f{i + 1} }}"
        for i in range(count)
    ]
    last = f"f{count} {{ ROOT x = f32[] parameter(0) }}"
    module = parse(
        "HloModule m\n" + "\n".join([*chain, last]) + "\nENTRY e { ROOT c = f32[] constant(1) }"
    )
    assert len(module.computations) == count + 2
    again = parse(print_module(module))
    assert len(again.computations) == count + 2


def test_a_huge_shape_with_few_elements_is_a_diagnostic():
    for shape in ("f32[1000000000000]", "s8[9999999,9999999]", "f32[99999999999999999999999]"):
        with pytest.raises(ParseError):
            parse(f"HloModule m ENTRY e {{ ROOT x = {shape} constant({{1}}) }}")


if __name__ == "__main__":
    for case in CASES:
        body, _, _ = case.read_text().partition(SEPARATOR)
        case.write_text(body + SEPARATOR + diagnostic(case))
