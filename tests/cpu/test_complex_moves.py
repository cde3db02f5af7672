# SPDX-License-Identifier: Apache-2.0
"""Complex numbers in kernels: moved whole, taken apart, put together, at every vector width."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.llvm.target import TargetSpec, host_levels

pytestmark = pytest.mark.fast_share(4)

MOVES = {
    "conjugate": """ a = {r}[{n},5] real(x)
 b = {r}[{n},5] imag(x)
 c = {r}[{n},5] negate(b)
 ROOT z = {c}[{n},5] complex(a, c)""",
    "real-transposed": """ a = {r}[{n},5] real(x)
 ROOT z = {r}[5,{n}] transpose(a), dimensions={{1,0}}""",
    "copy": " ROOT z = {c}[{n},5] copy(x)",
    "transpose": " ROOT z = {c}[5,{n}] transpose(x), dimensions={{1,0}}",
    "reverse": " ROOT z = {c}[{n},5] reverse(x), dimensions={{0,1}}",
    "pad": """ p = {c}[] constant((1, -2))
 ROOT z = {c}[{m},5] pad(x, p), padding=1_2x0_0""",
    "concatenate": " ROOT z = {c}[{twice},5] concatenate(x, x), dimensions={{0}}",
    "slice": " ROOT z = {c}[{n},3] slice(x), slice={{[0:{n}], [0:5:2]}}",
    "broadcast": " ROOT z = {c}[3,{n},5] broadcast(x), dimensions={{1,2}}",
    "gather": """ i = s32[3] constant({{0, 9999, 0}})
 ROOT z = {c}[3,5] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
   start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,5}}""",
    "select": """ a = {r}[{n},5] real(x)
 b = {r}[{n},5] imag(x)
 p = pred[{n},5] compare(a, b), direction=GT
 k = {c}[] constant((nan, -0))
 w = {c}[{n},5] broadcast(k), dimensions={{}}
 ROOT z = {c}[{n},5] select(p, x, w)""",
    "sum-of-parts": """ a = {r}[{n},5] real(x)
 b = {r}[{n},5] imag(x)
 s = {r}[{n},5] add(a, b)
 o = {r}[] constant(0)
 ROOT z = {r}[5] reduce(s, o), dimensions={{0}}, to_apply=add""",
}
ADD = """
add {{ a = {r}[] parameter(0)
 b = {r}[] parameter(1)
 ROOT s = {r}[] add(a, b) }}
"""


@pytest.mark.parametrize(
    "level",
    [host_levels()[0], *(pytest.param(x, marks=pytest.mark.slow) for x in host_levels()[1:])],
)
@pytest.mark.parametrize("element", ["c64", "c128"])
@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str, element: str, level: str) -> None:
    part = {"c64": "f32", "c128": "f64"}[element]
    rng = np.random.default_rng(1)
    for count in (1, 7, 203):
        names = {"c": element, "r": part, "n": count, "m": count + 3, "twice": 2 * count}
        head = "HloModule m\n" + ADD + "ENTRY e {{ x = {c}[{n},5] parameter(0)\n"
        pattern = head + MOVES[name] + " }}"
        text = pattern.format(**names)
        values = rng.standard_normal((count, 5)) + 1j * rng.standard_normal((count, 5))
        values = values.astype({"c64": np.complex64, "c128": np.complex128}[element])
        want = np.asarray(evaluate(parse(text), [values]))
        got = np.asarray(ingot.compile(parse(text), target=TargetSpec.host(level))(values))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5 if name == "sum-of-parts" else 0, atol=1e-6)
