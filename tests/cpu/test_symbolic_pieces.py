# SPDX-License-Identifier: Apache-2.0
"""Kernels cut into pieces at symbolic positions; against the evaluator, empty pieces included."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernel.programs import fused

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.dim import Dim
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.schedule.decide import schedule_loops
from ingot.kernel.schedule.piece_loops import Pieces
from ingot.llvm.machine_model import Vectors

PROGRAMS = {
    "beside": """
  x = f32[7,?n] parameter(0)
  y = f32[7,?m] parameter(1)
  z = f32[7,?k] parameter(2)
  a = f32[7,?m] negate(y)
  ROOT r = f32[7,?(k+m+n)] concatenate(x, a, z), dimensions={1}""",
    "below": """
  x = f32[?n,5] parameter(0)
  y = f32[?m,5] parameter(1)
  z = f32[?k,5] parameter(2)
  a = f32[?n,5] multiply(x, x)
  b = f32[?k,5] negate(z)
  ROOT r = f32[?(k+m+n),5] concatenate(a, y, b), dimensions={0}""",
    "with itself": """
  x = f32[?m,?n] parameter(0)
  y = f32[?m,?n] negate(x)
  z = f32[?m,?n] multiply(x, y)
  k = f32[?k] parameter(1)
  ROOT r = f32[?m,?(3*n)] concatenate(x, y, z), dimensions={1}""",
    "appended": """
  x = f32[?k,?n,8] parameter(0)
  y = f32[?k,1,8] parameter(1)
  m = f32[?m] parameter(2)
  ROOT r = f32[?k,?(n+1),8] concatenate(x, y), dimensions={1}""",
    "padded": """
  x = f32[?m,?n] parameter(0)
  z = f32[] constant(-1)
  p = f32[?(m+3),?(n+4)] pad(x, z), padding=1_2x3_1
  k = f32[?k] parameter(1)
  ROOT r = f32[?(m+3),?(n+4)] multiply(p, p)""",
    "triangle": """
  x = f32[?m,?n] parameter(0)
  i = s32[?m,?n] iota(), iota_dimension=0
  j = s32[?m,?n] iota(), iota_dimension=1
  c = pred[?m,?n] compare(i, j), direction=GE
  z = f32[?m,?n] negate(x)
  k = f32[?k] parameter(1)
  ROOT r = f32[?m,?n] select(c, x, z)""",
    "shifted": """
  x = f32[?n] parameter(0)
  z = f32[] constant(3)
  one = f32[1] slice(x), slice={[0:1]}
  rest = f32[?(n-1)] slice(x), slice={[1:?n]}
  y = f32[?n] concatenate(rest, one), dimensions={0}
  m = f32[?m] parameter(1)
  k = f32[?k] parameter(2)
  ROOT r = f32[?n] subtract(x, y)""",
}

SIZES = [(1, 0, 0), (1, 3, 1), (2, 0, 5), (5, 7, 64), (64, 1, 33), (130, 200, 3), (17, 64, 1000)]
"""Of n, m and k."""


def _joined(count: int, dimension: int) -> str:
    """Return `count` computed arrays of one symbolic shape, put together."""
    lines = [
        f"x{i} = f32[?n,?m] parameter({i})  y{i} = f32[?n,?m] negate(x{i})" for i in range(count)
    ]
    rows, columns = (f"?({count}*n)", "?m") if dimension == 0 else ("?n", f"?({count}*m)")
    names = ", ".join(f"y{i}" for i in range(count))
    lines.append(f"k = f32[?k] parameter({count})")
    lines.append(f"ROOT r = f32[{rows},{columns}] concatenate({names}), dimensions={{{dimension}}}")
    return "\n".join(lines)


PROGRAMS |= {f"{count} along {d}": _joined(count, d) for count in (2, 9, 20) for d in (0, 1)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_size_gives_what_the_evaluator_gives(name: str) -> None:
    module = parse_hlo(f"HloModule m\nENTRY e {{\n{PROGRAMS[name]}\n}}")
    executable = ingot.compile(module)
    rng = np.random.default_rng(0)
    for n, m, k in SIZES:
        sizes = {"n": n, "m": m, "k": k}
        inputs = [
            rng.standard_normal(
                [sizes[str(d)] if isinstance(d, Dim) else d for d in parameter.shape.dims]
            ).astype(np.float32)
            for parameter in module.entry.parameters
        ]
        np.testing.assert_array_equal(executable(*inputs), evaluate(module, inputs))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("triangle", "shifted")])
def test_masks_of_sizes_are_cut_at_sizes(name: str) -> None:
    kernel = collapse(build_loop_kernel(fused(PROGRAMS[name])))
    strategy = schedule_loops(kernel, Vectors(256, 16)).strategy
    assert isinstance(strategy, Pieces)
    assert any(isinstance(each, Dim) for cut in strategy.cuts for each in cut.positions)
