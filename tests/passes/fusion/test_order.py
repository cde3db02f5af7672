# SPDX-License-Identifier: Apache-2.0
"""Control dependencies hold between kernels, and between kernels and what is in none."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.instruction import Instruction

HEAD = """HloModule m
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
less {
  p = (s32[], f32[7,7]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  k = s32[] constant(3)
  ROOT l = pred[] compare(i, k), direction=LT
}
body {
  p = (s32[], f32[7,7]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[7,7] get-tuple-element(p), index=1
  one = s32[] constant(1)
  d = f32[7,7] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[7,7] sine(x), control-predecessors={d}
  h = f32[7,7] tanh(d)
  m = f32[7,7] multiply(h, g)
  j = s32[] add(i, one), control-predecessors={m}
  ROOT t = (s32[], f32[7,7]) tuple(j, m)
}
ENTRY main {
  a = f32[7,7] parameter(0)
  b = f32[7,7] parameter(1)
  z = f32[] constant(0)
"""
PRODUCTS = """HloModule m
ENTRY main {
  a = f32[16,24] parameter(0)
  s = f32[16,24] sine(a)
  c = f32[16,24] cosine(a)
  first = f32[16,16] dot(s, a), lhs_contracting_dims={1}, rhs_contracting_dims={1} FIRST
  second = f32[16,16] dot(c, a), lhs_contracting_dims={1}, rhs_contracting_dims={1} SECOND
  ROOT t = (f32[16,16], f32[16,16]) tuple(first, second)
}"""


def kernels(text: str) -> tuple[list[Instruction], tuple[Instruction, ...]]:
    """Return the kernels of the entry in the order in which they run, and those of the results."""
    executable: Any = ingot.compile(text)
    module = executable.module
    run = module.schedule.get(module.entry) or module.entry.post_order()
    return [one for one in run if one.opcode == "fusion"], module.entry.root.operands


@pytest.mark.parametrize("is_turned", [False, True])
def test_products_run_in_the_order_that_is_wanted(is_turned: bool) -> None:
    after = ", control-predecessors={%s}"
    given = {"FIRST": after % "second", "SECOND": ""} if is_turned else {
        "FIRST": "", "SECOND": after % "first"}  # fmt: skip
    text = PRODUCTS
    for name, value in given.items():
        text = text.replace(name, value)
    run, results = kernels(text)
    early, late = results[::-1] if is_turned else results
    assert late.control_predecessors == (early,)
    assert run.index(early) < run.index(late)


def test_one_kernel_needs_no_order() -> None:
    text = """HloModule m
    ENTRY main {
      a = f32[9] parameter(0)
      s = f32[9] sine(a)
      c = f32[9] cosine(a), control-predecessors={s}
      ROOT r = f32[9] add(s, c)
    }"""
    run, _ = kernels(text)
    assert [one.control_predecessors for one in run] == [()]


def program(seed: int) -> str:
    """Return a program of random ops, half of which have random control predecessors."""
    choose = random.Random(seed)
    lines, names = list[str](), ["a", "b"]
    for number in range(choose.randint(4, 30)):
        one, other = choose.choice(names), choose.choice(names)
        name, made, order = f"v{number}", names[2:], ""
        if made and choose.random() < 0.5:
            before = sorted(set(choose.choices(made, k=choose.randint(1, 3))))
            order = f", control-predecessors={{{', '.join(before)}}}"
        op = choose.choice(["sine", "tanh", "add", "multiply", "dot", "reduce", "while"])
        if op == "reduce":
            fold = f"reduce({one}, z), dimensions={{1}}, to_apply=sum{order}"
            lines.append(f"{name}r = f32[7] {fold}")
            lines.append(f"{name}b = f32[7,7] broadcast({name}r), dimensions={{0}}")
            lines.append(f"{name} = f32[7,7] tanh({name}b)")
        elif op == "while":
            lines.append(f"{name}c = s32[] constant(0)")
            lines.append(f"{name}t = (s32[], f32[7,7]) tuple({name}c, {one})")
            loop = f"while({name}t), condition=less, body=body{order}"
            lines.append(f"{name}w = (s32[], f32[7,7]) {loop}")
            lines.append(f"{name} = f32[7,7] get-tuple-element({name}w), index=1")
        else:
            operands = one if op in ("sine", "tanh") else f"{one}, {other}"
            how = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}" if op == "dot" else ""
            lines.append(f"{name}o = f32[7,7] {op}({operands}){how}{order}")
            lines.append(f"{name} = f32[7,7] tanh({name}o)")
        names.append(name)
    results = choose.sample(names, choose.randint(2, 5))
    shape = ", ".join(["f32[7,7]"] * len(results))
    return f"{HEAD}{chr(10).join(lines)}\nROOT out = ({shape}) tuple({', '.join(results)})\n}}"


@pytest.mark.parametrize("seed", range(40))
def test_random_orders(seed: int) -> None:
    text = program(seed)
    random_numbers = np.random.default_rng(seed)
    arrays = [0.3 * random_numbers.standard_normal((7, 7)).astype(np.float32) for _ in range(2)]
    wanted = evaluate(ingot.parse_hlo(text), arrays)
    executable: Any = ingot.compile(text)
    for got, want in zip(executable(*arrays), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    for computation in executable.module.computations.values():
        run = executable.module.schedule.get(computation, [])
        when = {one: number for number, one in enumerate(run)}
        assert all(when[p] < when[one] for one in run for p in one.control_predecessors)
