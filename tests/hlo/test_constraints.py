# SPDX-License-Identifier: Apache-2.0
"""Every constraint of an op: a bad instruction is refused with the label of what it breaks.

The instructions are those of `constraint_cases`, which docs/constraints.md shows.
"""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from tests.hlo.constraint_cases import Case, place_of, read_cases, refusal
from tools.constraints_page import read_labels, read_reasons, reason_of

import ingot
from ingot.hlo import opdef
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import dtype
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.verifier import verify
from ingot.support.diagnostics import VerifyError

CASES = read_cases()
RULES, REASONS = read_labels(), read_reasons()
LABELS = {case.label for case in CASES}
OPSET = Path(ingot.__file__).parent / "hlo" / "opset"


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case.label}" for n, case in enumerate(CASES)])
def test_refused(case: Case) -> None:
    error = refusal(case)
    assert isinstance(error, VerifyError), case
    assert error.diagnostic.notes == (f"constraint {case.label}",)
    assert error.diagnostic.code == "INGOT0210"
    assert error.diagnostic.span is not None
    assert place_of(error)


def test_every_constraint_of_the_specification_is_checked_or_has_a_reason() -> None:
    without = [label for label in RULES if label not in LABELS and not reason_of(label, REASONS)]
    assert not without
    both = [label for label in RULES if label in LABELS and reason_of(label, REASONS)]
    assert not both
    for pattern in REASONS:
        assert any(reason_of(label, {pattern: "x"}) for label in RULES), pattern


def test_every_label_in_the_op_table_has_a_bad_instruction() -> None:
    """Labels written as plain text; those that are put together begin with an op's name."""
    written = {
        node.value
        for path in OPSET.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    prefixes = {opdef.label_prefix(row.spec) for row in opdef.table().values()} | {"if"}
    labels = {text for text in written if _is_label(text, prefixes)}
    assert len(labels) > 100
    assert sorted(labels - LABELS) == []


def test_every_enumeration_of_the_op_table_has_a_bad_instruction() -> None:
    rows = opdef.table().values()
    labels = {f"{opdef.label_prefix(r.spec)}_{name}" for r in rows for name, _ in r.enumerations}
    assert len(labels) > 8
    assert sorted(labels - LABELS) == []


def _is_label(text: str, prefixes: set[str]) -> bool:
    prefix, _, number = text.rpartition("_")
    return prefix in prefixes and number[:1] in ("c", "i", "o") and number[1:].isdigit()


def test_nothing_is_added_to_a_computation_by_an_op_that_is_refused() -> None:
    b = Builder("f")
    x = b.parameter(0, "f32[2]")
    with pytest.raises(VerifyError, match="add_c1"):
        b.add(x, b.parameter(1, "f32[3]"))
    assert len(b.computation) == 2


def test_constants() -> None:
    b = Builder("f")
    literal = Literal.of([1, 2], "s32")
    root = b.emit("constant", shape="s32[3]", literal=literal)
    with pytest.raises(VerifyError, match="constant_c1"):
        verify(Module.of("m", b.build(root)))


@pytest.mark.parametrize("element", ["c128", "f64", "s64", "pred"])
@pytest.mark.parametrize("result", ["s32", "u8", "pred", "f32", "c64", "bf16"])
def test_a_product_gives_the_type_that_it_declares(element: str, result: str) -> None:
    module = ingot.parse_hlo(
        f"""
        HloModule m
        ENTRY e {{
          x = {element}[2,3] parameter(0)
          y = {element}[3,2] parameter(1)
          d = {result}[2,2] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
          z = {element}[1,4,1] broadcast(c), dimensions={{}}
          k = {element}[2,1,1] broadcast(c), dimensions={{}}
          v = {result}[1,3,1] convolution(z, k), window={{size=2}}, dim_labels=b0f_0io->b0f
          ROOT r = ({result}[2,2], {result}[1,3,1]) tuple(d, v)
        }}
    """.replace("z = ", f"c = {element}[] constant({_one(element)})\n          z = ", 1)
    )
    storage = dtype(element).numpy
    x = np.ones((2, 3), storage)
    wanted = dtype(result).numpy
    product, windows = ingot.compile(module)(x, x.T.copy())
    assert product.dtype == windows.dtype == wanted
    whole = bool if result == "pred" else int
    assert product.real.astype(np.float32).tolist() == [[whole(3)] * 2] * 2
    assert windows.real.astype(np.float32).ravel().tolist() == [whole(2)] * 3


def _one(element: str) -> str:
    return {"pred": "true", "c128": "(1, 0)"}.get(element, "1")
