# SPDX-License-Identifier: Apache-2.0
"""The floating-point licence (`INGOT_FP`) in code: what is rounded once, and what one by one."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.llvm.target import TargetSpec

LOOP = """HloModule m

ENTRY e {{
  x = {type}[1000] parameter(0)
  y = {type}[1000] parameter(1)
  z = {type}[1000] parameter(2)
  p = {type}[1000] multiply(x, y)
  s = {type}[1000] add(p, z)
  q = {type}[1000] multiply(s, s)
  ROOT r = {type}[1000] subtract(q, p)
}}"""

EPILOGUE = """HloModule m

ENTRY e {
  x = f32[48,32] parameter(0)
  y = f32[32,64] parameter(1)
  z = f32[48,64] parameter(2)
  d = f32[48,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  p = f32[48,64] multiply(d, z)
  ROOT s = f32[48,64] add(p, z)
}"""


def _inputs(module: ingot.Module) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(p.shape.static_dims).astype(p.shape.dtype.numpy)
        for p in module.entry.parameters
    ]


@pytest.mark.parametrize("element", ["f32", "f64", "c64"])
def test_exact_arithmetic_is_the_evaluators_to_the_bit(element: str) -> None:
    module = ingot.parse_hlo(LOOP.format(type=element))
    inputs = _inputs(module)
    found = ingot.compile(module, fp="exact")(*inputs)
    assert np.asarray(found).tobytes() == np.asarray(evaluate(module, inputs)).tobytes()


@pytest.mark.parametrize("fp", ["default", "fast"])
def test_other_licences_contract_where_the_machine_does(fp: str) -> None:
    module = ingot.parse_hlo(LOOP.format(type="f32"))
    inputs = _inputs(module)
    found = ingot.compile(module, fp=fp)
    np.testing.assert_allclose(found(*inputs), evaluate(module, inputs), rtol=1e-5, atol=1e-5)
    is_equal = np.array_equal(found(*inputs), evaluate(module, inputs))
    assert is_equal != TargetSpec.host().has_fma


def test_what_follows_a_product_is_rounded_one_by_one() -> None:
    module = ingot.parse_hlo(EPILOGUE)
    inputs = _inputs(module)
    text = "ROOT d = f32[48,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    product = ingot.parse_hlo(EPILOGUE.split("  d =")[0] + "  " + text)
    dot = np.asarray(ingot.compile(product, fp="exact")(*inputs))
    found = ingot.compile(module, fp="exact")(*inputs)
    np.testing.assert_array_equal(found, dot * inputs[2] + inputs[2])


@pytest.mark.parametrize("fp", ["exact", "default"])
def test_the_licence_is_written_in_the_code(fp: str) -> None:
    executable = ingot.compile(LOOP.format(type="f32"), fp=fp)
    assert ("@llvm.fmuladd" in executable.as_text("llvm")) == (fp == "default")


ROWS = """HloModule m

larger {{
  a = {type}[] parameter(0)
  b = {type}[] parameter(1)
  ROOT r = {type}[] maximum(a, b)
}}

ENTRY e {{
  x = {type}[64,300] parameter(0)
  y = {type}[64,300] parameter(1)
  c = {type}[64,300] parameter(2)
  t = {type}[64,300] {function}(y)
  p = {type}[64,300] multiply(x, t)
  s = {type}[64,300] {sum}
  least = {type}[] constant(-inf)
  top = {type}[64] reduce(s, least), dimensions={{1}}, to_apply=larger
  tops = {type}[64,300] broadcast(top), dimensions={{0}}
  found = pred[64,300] compare(s, tops), direction=EQ
  {others}
  ROOT r = (pred[64,300], {results}) tuple(found, other)
}}"""

OTHER_USES = {
    "stored": ("other = {type}[64,300] copy(p)", "{type}[64,300]"),
    "sorted": (
        "other = {type}[64,300] sort(p), dimensions={{1}}, to_apply=less",
        "{type}[64,300]",
    ),
    "moved and stored": (
        "other = {type}[300,64] transpose(p), dimensions={{1,0}}",
        "{type}[300,64]",
    ),
    "product": (
        "other = {type}[64,64] dot(p, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}",
        "{type}[64,64]",
    ),
    "two sums": ("other = {type}[64,300] subtract(p, y)", "{type}[64,300]"),
}
LESS = """HloModule m

less {{
  k = {type}[] parameter(0)
  l = {type}[] parameter(1)
  ROOT o = pred[] compare(k, l), direction=LT
}}"""


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("sum", ["add(p, c)", "add(c, p)", "subtract(p, c)", "subtract(c, p)"])
@pytest.mark.parametrize("function", ["negate", "tanh"])
@pytest.mark.parametrize("use", OTHER_USES)
def test_every_row_holds_its_maximum(element: str, sum: str, function: str, use: str) -> None:
    others, results = (text.format(type=element) for text in OTHER_USES[use])
    text = ROWS.format(type=element, function=function, sum=sum, others=others, results=results)
    module = ingot.parse_hlo(LESS.format(type=element) + text.removeprefix("HloModule m"))
    found, _ = ingot.compile(module)(*_inputs(module))
    assert np.asarray(found).any(axis=1).all()
