# SPDX-License-Identifier: Apache-2.0
"""Kernels cut into pieces where masks are known: concatenate, pad, rolls; against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.dim import Dim
from ingot.hlo.module import Module
from ingot.kernel import expr as ex
from ingot.kernel.analysis.ranges import Range
from ingot.kernel.expr import compare
from ingot.kernel.ir import Axis
from ingot.kernel.schedule.pieces import Cut, _around_inside, _positions

PROGRAMS = {
    "beside": """
  x = f32[7,{n}] parameter(0)
  y = f32[7,5] parameter(1)
  s = f32[7,2] slice(x), slice={{[0:7],[0:2]}}
  e = f32[7,5] negate(y)
  ROOT r = f32[7,{beside}] concatenate(x, e, s), dimensions={{1}}""",
    "below": """
  x = f32[7,{n}] parameter(0)
  y = f32[7,5] parameter(1)
  z = f32[] constant(2.5)
  w = f32[7,{n}] pad(y, z), padding=0_0x0_{wider}
  ROOT r = f32[14,{n}] concatenate(x, w), dimensions={{0}}""",
    "padded": """
  x = f32[7,{n}] parameter(0)
  y = f32[7,5] parameter(1)
  z = f32[] constant(-1)
  p = f32[10,{padded}] pad(x, z), padding=1_2x3_1
  ROOT r = f32[10,{padded}] multiply(p, p)""",
    "cropped": """
  x = f32[7,{n}] parameter(0)
  y = f32[7,5] parameter(1)
  z = f32[] constant(9)
  ROOT r = f32[6,{cropped}] pad(x, z), padding=-2_1x2_-3""",
    "rolled": """
  x = f32[7,{n}] parameter(0)
  y = f32[7,5] parameter(1)
  a = f32[1,{n}] slice(x), slice={{[6:7],[0:{n}]}}
  b = f32[6,{n}] slice(x), slice={{[0:6],[0:{n}]}}
  rows = f32[7,{n}] concatenate(a, b), dimensions={{0}}
  c = f32[7,1] slice(x), slice={{[0:7],[0:1]}}
  d = f32[7,{less}] slice(x), slice={{[0:7],[1:{n}]}}
  columns = f32[7,{n}] concatenate(d, c), dimensions={{1}}
  ROOT r = f32[7,{n}] subtract(rows, columns)""",
    "triangle": """
  x = f32[7,{n}] parameter(0)
  y = f32[7,5] parameter(1)
  i = s32[7,{n}] iota(), iota_dimension=0
  j = s32[7,{n}] iota(), iota_dimension=1
  m = pred[7,{n}] compare(i, j), direction=GE
  z = f32[7,{n}] negate(x)
  ROOT r = f32[7,{n}] select(m, x, z)""",
    "spread": """
  x = f32[7,{n}] parameter(0)
  y = f32[7,5] parameter(1)
  z = f32[] constant(9)
  ROOT r = f32[7,{spread}] pad(x, z), padding=0_0x1_1_1""",
}


def _module(name: str, n: int) -> Module:
    sizes = {
        "n": n, "beside": n + 7, "wider": n - 5, "padded": n + 4, "cropped": n - 1, "less": n - 1,
        "spread": 2 * n + 1,
    }  # fmt: skip
    body = PROGRAMS[name].format(**sizes)
    return parse_hlo(f"HloModule {name}\n\nENTRY main {{{body}\n}}\n")


@pytest.mark.parametrize("n", [5, 6, 64, 200])
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_the_evaluator(name: str, n: int) -> None:
    module = _module(name, n)
    random = np.random.default_rng(n)
    x, y = (random.normal(size=shape).astype(np.float32) for shape in ((7, n), (7, 5)))
    x[0, 0], x[3, -1] = np.nan, -0.0
    found = np.asarray(ingot.compile(module)(x, y))
    np.testing.assert_array_equal(found, np.asarray(evaluate(module, [x, y])))


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_every_comparison(direction: str, sign: str) -> None:
    value = "n" if sign else "i"
    limits = (-3, 0, 1, 50, 99, 100)
    lines = [
        f"""
  c{k} = s64[] constant({-limit if sign else limit})
  b{k} = s64[100] broadcast(c{k}), dimensions={{}}
  m{k} = pred[100] compare({value}, b{k}), direction={direction}
  r{k} = f32[100] select(m{k}, x, z)"""
        for k, limit in enumerate(limits)
    ]
    results = ", ".join(f"r{k}" for k in range(len(limits)))
    shape = ", ".join(["f32[100]"] * len(limits))
    module = parse_hlo(f"""HloModule compared

ENTRY main {{
  x = f32[100] parameter(0)
  i = s64[100] iota(), iota_dimension=0
  n = s64[100] negate(i)
  z = f32[100] negate(x){"".join(lines)}
  ROOT r = ({shape}) tuple({results})
}}
""")
    x = np.arange(1, 101, dtype=np.float32)
    for found, expected in zip(ingot.compile(module)(x), evaluate(module, [x]), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
@pytest.mark.parametrize("factor", [1, -1, 2, -2, 3, -3])
def test_cuts_are_where_comparisons_change(direction: str, factor: int) -> None:
    axis = Axis("@0", 20)
    holds = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}[direction]
    for rest in range(-13, 14):
        value = ex.index(factor * Dim.symbol("@0") + rest)
        found = _positions([compare(direction, value, ex.index(0))], axis)
        truth = [eval(f"{factor * x + rest} {holds} 0") for x in range(20)]
        changes = {x for x in range(1, 20) if truth[x] != truth[x - 1]}
        assert changes <= set(found)


def test_ranges_cover_the_axis() -> None:
    expected: list[Range] = [(0, 2), (3, 9)]
    assert Cut(Axis("@0", 10), (3,)).ranges() == expected


def test_a_stencil_of_six_rolls() -> None:
    """A periodic neighbourhood in three dimensions: 27 pieces."""
    lines, names, total = ["x = f32[8,9,40] parameter(0)"], [], "x"
    for axis, size in enumerate((8, 9, 40)):
        for cut in (1, size - 1):
            parts = []
            for low, high in ((cut, size), (0, cut)):
                bounds = [(0, 8), (0, 9), (0, 40)]
                bounds[axis] = (low, high)
                dims = ",".join(str(b - a) for a, b in bounds)
                slices = ",".join(f"[{a}:{b}]" for a, b in bounds)
                part = f"s{len(lines)}"
                lines.append(f"{part} = f32[{dims}] slice(x), slice={{{slices}}}")
                parts.append(part)
            name = f"c{len(names)}"
            names.append(name)
            lines.append(
                f"{name} = f32[8,9,40] concatenate({', '.join(parts)}), dimensions={{{axis}}}"
            )
    for number, name in enumerate(names):
        root = "ROOT " if number == len(names) - 1 else ""
        lines.append(f"{root}a{number} = f32[8,9,40] add({total}, {name})")
        total = f"a{number}"
    module = parse_hlo("HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}")
    x = np.arange(8 * 9 * 40, dtype=np.float32).reshape(8, 9, 40)
    executable = ingot.compile(module)
    np.testing.assert_allclose(executable(x), evaluate(module, [x]), rtol=1e-6)


@pytest.mark.parametrize("dim", [0, 1])
def test_many_operands_are_pieces(dim):
    sizes = range(3, 27)
    shapes = [(size, 40) if dim == 0 else (40, size) for size in sizes]
    lines = [f"  x{n} = f32[{a},{b}] parameter({n})" for n, (a, b) in enumerate(shapes)]
    names = ", ".join(f"x{n}" for n in range(len(shapes)))
    total = (sum(sizes), 40) if dim == 0 else (40, sum(sizes))
    text = "HloModule m\nENTRY e {\n" + "\n".join(lines)
    text += (
        f"\n  ROOT y = f32[{total[0]},{total[1]}] concatenate({names}), dimensions={{{dim}}}\n}}"
    )
    inputs = [np.full(shape, n, np.float32) for n, shape in enumerate(shapes)]
    found = ingot.compile(ingot.parse_hlo(text))(*inputs)
    np.testing.assert_array_equal(found, np.concatenate(inputs, dim))


def test_folds_of_single_elements_in_short_pieces() -> None:
    """A piece of two elements has two lanes, whatever the schedule says."""
    module = parse_hlo("""HloModule folded

fold {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[4] parameter(0)
  one = f32[] constant(-1)
  zero = f32[] constant(0)
  p = f32[7] pad(x, one), padding=2_1
  w = f32[7] reduce-window(p, zero), window={size=1}, to_apply=fold
  n = f32[7] negate(p)
  c = pred[7] compare(p, w), direction=EQ
  ROOT t = (f32[7], pred[7], f32[7]) tuple(n, c, w)
}
""")
    x = np.arange(4, dtype=np.float32)
    for found, expected in zip(ingot.compile(module)(x), evaluate(module, [x]), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_many_cuts_near_the_ends_leave_one_piece_inside() -> None:
    axis = Axis("i", 1000)
    many = Cut(axis, (1, 2, 3, 4, 996, 997, 998, 999))
    assert _around_inside(many, 8).positions == (4, 996)
    assert _around_inside(many, 9) is many
    spread = Cut(axis, tuple(range(100, 1000, 100)))
    assert _around_inside(spread, 8) is spread, "no piece is most of the axis"
    assert _around_inside(Cut(axis, (1, 2, 3, 4)), 4).positions == (4,)
