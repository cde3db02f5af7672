# SPDX-License-Identifier: Apache-2.0
"""Fused computations from HLO text, for the kernel tests."""

from __future__ import annotations

from ingot.formats.hlo_text import parse
from ingot.hlo.computation import Computation

REDUCERS = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
"""

SOFTMAX = """p = f32[?n,64] parameter(0)
  low = f32[] constant(-inf)
  m = f32[?n] reduce(p, low), dimensions={1}, to_apply=max
  mb = f32[?n,64] broadcast(m), dimensions={0}
  s = f32[?n,64] subtract(p, mb)
  e = f32[?n,64] exponential(s)
  zero = f32[] constant(0)
  t = f32[?n] reduce(e, zero), dimensions={1}, to_apply=add
  tb = f32[?n,64] broadcast(t), dimensions={0}
  ROOT d = f32[?n,64] divide(e, tb)"""

FOUR_SUMS = "\n".join(
    [
        "zero = f32[] constant(0)",
        *(
            f"p{n} = f32[16,{n}] parameter({k}) "
            f"s{n} = f32[16] reduce(p{n}, zero), dimensions={{1}}, to_apply=add"
            for k, n in enumerate((30, 20, 5, 7))
        ),
        "a = f32[16] add(s30, s20) b = f32[16] add(a, s5) ROOT c = f32[16] add(b, s7)",
    ]
)
"""Sums along axes of their own, in passes that do not depend on each other."""

FLAT = """x = f32[{dims}] parameter(0)
  y = f32[{dims}] parameter(1)
  m = f32[{dims}] multiply(x, y)
  ROOT r = f32[{dims}] tanh(m)"""

SUM = """x = f32[{dims}] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(x, zero), dimensions={{{all}}}, to_apply=add"""


def argmax(index: str) -> str:
    """Return JAX's computation of an argmax of f32, with indices of type `index`."""
    return f"""
argmax {{ v = f32[] parameter(0)
  p = {index}[] parameter(1)
  w = f32[] parameter(2)
  q = {index}[] parameter(3)
  nan = pred[] compare(v, v), direction=NE
  greater = pred[] compare(v, w), direction=GT
  wins = pred[] or(greater, nan)
  equal = pred[] compare(v, w), direction=EQ
  sooner = pred[] compare(p, q), direction=LT
  ties = pred[] and(equal, sooner)
  first = pred[] or(wins, ties)
  x = f32[] select(wins, v, w)
  i = {index}[] select(first, p, q)
  ROOT t = (f32[], {index}[]) tuple(x, i) }}
"""


def fused(body: str) -> Computation:
    """Return the entry computation of a module with this body."""
    return parse(f"HloModule m\n{REDUCERS}\nENTRY e {{ {body} }}").entry


def flat(*dims: int | str) -> Computation:
    """Return tanh(x * y) over `dims`."""
    return fused(FLAT.format(dims=",".join(map(str, dims))))


def whole_sum(*dims: int | str) -> Computation:
    """Return the sum of everything."""
    places = ",".join(str(place) for place in range(len(dims)))
    return fused(SUM.format(dims=",".join(map(str, dims)), all=places))
