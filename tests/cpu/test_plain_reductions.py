# SPDX-License-Identifier: Apache-2.0
"""Plain reductions run in code of the library, the same for every size, with the same bits."""

import math

import numpy as np
import pytest
from tests.cpu.strategies import library_parts, without_library

import ingot
from ingot.client import clear_caches
from ingot.llvm.target import TargetSpec, host_levels

pytestmark = pytest.mark.fast_share(4)

FOLDS = {"add": (np.sum, "0"), "maximum": (np.max, "-inf"), "minimum": (np.min, "inf")}


def module(dims, reduced, opcode, element="f32"):
    left = [size for place, size in enumerate(dims) if place not in reduced]

    def shape(sizes):
        return f"{element}[{','.join(map(str, sizes))}]"

    return ingot.parse_hlo(f"""\
HloModule reduction

fold {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1)
  ROOT r = {element}[] {opcode}(a, b)
}}

ENTRY main {{
  x = {shape(dims)} parameter(0)
  start = {element}[] constant({FOLDS[opcode][1]})
  ROOT y = {shape(left)} reduce(x, start), dimensions={{{",".join(map(str, reduced))}}}, \
to_apply=fold
}}
""")


CASES = [
    ((400, 1030), (0,)),
    ((400, 1030), (1,)),
    ((400, 1030), (0, 1)),
    ((90001,), (0,)),
    ((3, 300001), (1,)),
    ((70000, 3), (0,)),
    ((8, 64, 513), (0, 1)),
    ((8, 64, 513), (1, 2)),
    ((8, 64, 513), (1,)),
    ((8, 64, 513), (0, 2)),
    ((6, 5, 70, 64), (0, 2)),
]


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize(("dims", "reduced"), CASES, ids=str)
def test_every_form(dims, reduced, level, monkeypatch, generator):
    target = TargetSpec.host(level)
    shared = ingot.compile(module(dims, reduced, "add"), target=target)
    assert len(library_parts(shared)) == 1
    x = generator.random(dims, np.float32)
    found = shared(x)
    np.testing.assert_allclose(found, np.sum(x, axis=reduced, dtype=np.float64), rtol=1e-5)
    without_library(monkeypatch)
    clear_caches()
    own = ingot.compile(module(dims, reduced, "add"), target=target)
    assert not [name for name in library_parts(own) if name.startswith("reduce")]
    np.testing.assert_array_equal(found, own(x))


def test_sizes_share_the_code(generator):
    first = ingot.compile(module((4096, 1024), (1,), "maximum"))
    second = ingot.compile(module((300, 5000), (1,), "maximum"))
    assert library_parts(first) == library_parts(second) != []
    x = generator.random((300, 5000), np.float32)
    np.testing.assert_array_equal(second(x), x.max(axis=1))


@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_other_folds(opcode, generator):
    executable = ingot.compile(module((512, 300), (0,), opcode, "f64"))
    x = generator.standard_normal((512, 300))
    np.testing.assert_array_equal(executable(x), FOLDS[opcode][0](x, axis=0))


@pytest.mark.parametrize("direction", ["GT", "LT"])
def test_indices_of_extremes_share_the_code(direction, generator):
    parts = set()
    for dims, dim in (((700, 300), 1), ((300, 1030), 1)):
        left = f"[{dims[0]}]"
        wide = f"[{dims[0]},{dims[1]}]"
        worst = "-inf" if direction == "GT" else "inf"
        executable = ingot.compile(
            ingot.parse_hlo(f"""\
HloModule place

choice {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  wins = pred[] compare(a, b), direction={direction}
  nan = pred[] compare(a, a), direction=NE
  either = pred[] or(wins, nan)
  value = f32[] select(either, a, b)
  same = pred[] compare(a, b), direction=EQ
  first = pred[] compare(i, j), direction=LT
  both = pred[] and(same, first)
  stays = pred[] or(either, both)
  place = s32[] select(stays, i, j)
  ROOT pair = (f32[], s32[]) tuple(value, place)
}}

ENTRY main {{
  x = f32{wide} parameter(0)
  n = s32{wide} iota(), iota_dimension={dim}
  worst = f32[] constant({worst})
  zero = s32[] constant(0)
  ROOT y = (f32{left}, s32{left}) reduce(x, n, worst, zero), dimensions={{{dim}}}, to_apply=choice
}}
""")
        )
        parts.update(library_parts(executable))
        x = generator.integers(0, 50, dims).astype(np.float32)
        x[5, 17:] = np.nan
        choose = np.argmax if direction == "GT" else np.argmin
        values, places = executable(x)
        np.testing.assert_array_equal(places, choose(x, axis=dim))
        np.testing.assert_array_equal(values, np.take_along_axis(x, places[:, None], 1)[:, 0])
    assert len(parts) == 1


def test_fused_reductions_have_code_of_their_own():
    text = """\
HloModule fused

fold {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY main {
  x = f32[512,512] parameter(0)
  start = f32[] constant(0)
  s = f32[512] reduce(x, start), dimensions={1}, to_apply=fold
  ROOT y = f32[512] sqrt(s)
}
"""
    assert not library_parts(ingot.compile(ingot.parse_hlo(text)))


PRODUCTS = [
    # dimensions of both operands, those that are summed
    ((90001,), (90001,), (0,)),
    ((400, 1030), (1030,), (1,)),
    ((400, 1030), (400,), (0,)),
]


@pytest.mark.parametrize("level", [level for level in host_levels() if level != "plain"])
@pytest.mark.parametrize(("lhs", "rhs", "summed"), PRODUCTS, ids=str)
@pytest.mark.parametrize("element", ["f32", "s32"])
def test_products_with_vectors(lhs, rhs, summed, element, level, generator):
    (place,) = summed
    left = [size for number, size in enumerate(lhs) if number != place]
    program = ingot.parse_hlo(f"""\
HloModule product

ENTRY main {{
  x = {element}[{",".join(map(str, lhs))}] parameter(0)
  y = {element}[{rhs[0]}] parameter(1)
  ROOT z = {element}[{",".join(map(str, left))}] dot(x, y), \
lhs_contracting_dims={{{place}}}, rhs_contracting_dims={{0}}
}}
""")
    executable = ingot.compile(program, target=TargetSpec.host(level))
    (kernel,) = executable.inspection.compiled.kernels.compiled.values()
    assert kernel.code is None, kernel.kernel
    if element == "f32":
        x, y = generator.random(lhs, np.float32), generator.random(rhs, np.float32)
        expected = np.tensordot(x.astype(np.float64), y, (summed, (0,)))
        np.testing.assert_allclose(executable(x, y), expected, rtol=1e-5)
    else:
        x, y = (generator.integers(-(2**31), 2**31, dims, np.int32) for dims in (lhs, rhs))
        np.testing.assert_array_equal(executable(x, y), np.tensordot(x, y, (summed, (0,))))


TREES = {
    # what is folded, written with the arrays x, y and z, and how NumPy says it
    "x+y*z": ("m = {t} multiply(y, z)\n  v = {t} add(x, m)", lambda x, y, z: x + y * z),
    "(x-y)^2*z": (
        "d = {t} subtract(x, y)\n  s = {t} multiply(d, d)\n  v = {t} multiply(s, z)",
        lambda x, y, z: (x - y) * (x - y) * z,
    ),
}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize(
    ("dims", "small", "folded"),
    [((90001,), (), (0,)), ((400, 1030), (0,), (1,)), ((400, 1030), (1,), (0,))],
    ids=str,
)
@pytest.mark.parametrize(
    ("element", "opcode"), [("f32", "add"), ("s32", "add"), ("f64", "maximum")]
)
def test_little_arithmetic_on_the_way(
    tree, dims, small, folded, element, opcode, monkeypatch, generator
):
    """`z` has the dimensions `small` of `x`; `y` all."""
    text, meaning = TREES[tree]
    whole = f"{element}[{','.join(map(str, dims))}]"
    part = tuple(dims[dim] for dim in small) or dims
    left = ",".join(str(size) for dim, size in enumerate(dims) if dim not in folded)
    places = ",".join(map(str, small or range(len(dims))))
    program = ingot.parse_hlo(f"""\
HloModule tree

fold {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1)
  ROOT r = {element}[] {opcode}(a, b)
}}

ENTRY main {{
  x = {whole} parameter(0)
  y = {whole} parameter(1)
  p = {element}[{",".join(map(str, part))}] parameter(2)
  z = {whole} broadcast(p), dimensions={{{places}}}
  {text.format(t=whole)}
  start = {element}[] constant({FOLDS[opcode][1]})
  ROOT w = {element}[{left}] reduce(v, start), dimensions={{{folded[0]}}}, to_apply=fold
}}
""")
    shared = ingot.compile(program)
    assert len(library_parts(shared)) == 1
    dtype = {"f32": np.float32, "f64": np.float64, "s32": np.int32}[element]
    x, y = (generator.integers(-50, 50, dims).astype(dtype) for _ in range(2))
    p = generator.integers(-50, 50, part).astype(dtype)
    values = meaning(x, y, np.expand_dims(p, folded) if small else p).astype(np.float64)
    # Higham's bound of a sum in any order, half a unit in the last place for each addition.
    unit = np.finfo(np.float32).eps / 2 * math.prod(values.shape[axis] for axis in folded)
    error = unit * np.abs(values).sum(folded) if (element, opcode) == ("f32", "add") else 0.0
    found = shared(x, y, p)
    assert np.all(np.abs(found - FOLDS[opcode][0](values, axis=folded)) <= error)
    without_library(monkeypatch)
    clear_caches()
    np.testing.assert_array_equal(found, ingot.compile(program)(x, y, p))
