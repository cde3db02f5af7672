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
    assert ("fmul contract" in executable.as_text("llvm")) == (fp == "default")
