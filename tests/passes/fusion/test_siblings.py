# SPDX-License-Identifier: Apache-2.0
"""Kernels that read the same array at the same points are one, unless one waits for the other."""

from __future__ import annotations

import pytest
from tests.passes.fusion.programs import fuse, kernels_of

ARRAYS = """g = f32[256,128] parameter(0)
  x = f32[256,128] parameter(1)
  zero = f32[] constant(0)
  """

SUMS = (
    ARRAYS
    + """mean = f32[128] parameter(2)
  mb = f32[256,128] broadcast(mean), dimensions={1}
  less = f32[256,128] subtract(x, mb)
  more = f32[256,128] multiply(g, less)
  """
)

ONE_KERNEL = {
    "two sums of a batch norm's gradient": SUMS
    + """
      r = f32[128] reduce(g, zero), dimensions={0}, to_apply=add
      s = f32[128] reduce(more, zero), dimensions={0}, to_apply=add
      ROOT t = (f32[128], f32[128]) tuple(r, s)""",
    "two sums of rows": SUMS
    + """
      r = f32[256] reduce(g, zero), dimensions={1}, to_apply=add
      s = f32[256] reduce(more, zero), dimensions={1}, to_apply=max
      ROOT t = (f32[256], f32[256]) tuple(r, s)""",
    "two sums of all": SUMS
    + """
      r = f32[] reduce(g, zero), dimensions={0,1}, to_apply=add
      s = f32[] reduce(more, zero), dimensions={1,0}, to_apply=add
      ROOT t = (f32[], f32[]) tuple(s, r)""",
    "two masks": SUMS
    + """
      zb = f32[256,128] broadcast(zero), dimensions={}
      c = pred[256,128] compare(more, g), direction=GT
      d = pred[256,128] compare(g, zb), direction=GT
      ROOT t = (pred[256,128], pred[256,128]) tuple(c, d)""",
}

TWO_KERNELS = {
    "one needs the other": ARRAYS
    + """
      r = f32[128] reduce(g, zero), dimensions={0}, to_apply=add
      turned = f32[128] reverse(r), dimensions={0}
      rb = f32[256,128] broadcast(turned), dimensions={1}
      off = f32[256,128] multiply(g, rb)
      s = f32[128] reduce(off, zero), dimensions={0}, to_apply=add
      ROOT t = (f32[128], f32[128]) tuple(r, s)""",
    "one goes over rows, the other over columns": SUMS
    + """
      r = f32[256] reduce(g, zero), dimensions={1}, to_apply=add
      s = f32[128] reduce(more, zero), dimensions={0}, to_apply=add
      ROOT t = (f32[256], f32[128]) tuple(r, s)""",
    "they share nothing": ARRAYS
    + """
      r = f32[128] reduce(g, zero), dimensions={0}, to_apply=add
      s = f32[128] reduce(x, zero), dimensions={0}, to_apply=add
      ROOT t = (f32[128], f32[128]) tuple(r, s)""",
    "what they share is small": """g = f32[32,16] parameter(0)
      x = f32[32,16] parameter(1)
      zero = f32[] constant(0)
      m = f32[32,16] multiply(g, x)
      r = f32[16] reduce(g, zero), dimensions={0}, to_apply=add
      s = f32[16] reduce(m, zero), dimensions={0}, to_apply=add
      ROOT t = (f32[16], f32[16]) tuple(r, s)""",
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_together(name: str) -> None:
    made = fuse(ONE_KERNEL[name])
    assert "it reads the same: a further result" in made.reasons(fused=True)
    assert len(made.kernels) == 1
    assert len(kernels_of(ONE_KERNEL[name])) == 1


@pytest.mark.parametrize("name", TWO_KERNELS)
def test_apart(name: str) -> None:
    made = fuse(TWO_KERNELS[name])
    assert "it reads the same: a further result" not in made.reasons(fused=True)
    assert len(made.kernels) == 2
    assert len(kernels_of(TWO_KERNELS[name])) >= 2


def test_no_more_than_four_results() -> None:
    sums = "".join(
        f"""s{n} = f32[256,128] multiply(g, more)
        b{n} = f32[256,128] power(s{n}, x)
        r{n} = f32[128] reduce(b{n}, zero), dimensions={{0}}, to_apply={"add" if n % 2 else "max"}
        """
        for n in range(6)
    )
    names = ", ".join(f"r{n}" for n in range(6))
    text = SUMS + sums + f"ROOT t = ({', '.join(['f32[128]'] * 6)}) tuple({names})"
    results = [len(kernel.shape.elements) for kernel in fuse(text).kernels]
    assert max(results) == 4
    assert sum(results) == 6
