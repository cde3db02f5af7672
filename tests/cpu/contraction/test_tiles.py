# SPDX-License-Identifier: Apache-2.0
"""Products in AMX tiles: against the evaluator where this CPU has them, by their plan anywhere."""

import itertools
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import ingot
from ingot.client import compile
from ingot.cpu.emit.product.call import product_call
from ingot.kernel.contraction.build import build_contraction_kernel
from ingot.kernel.product.product import plain_product
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import assembly
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import CPU_LEVELS, TILE_FEATURES, TargetSpec
from ingot.support.records import replace

HAS_TILES = TargetSpec.host().has_tiles
on_tiles = pytest.mark.skipif(not HAS_TILES, reason="this CPU has no AMX")
TILES = Vectors(512, 32, has_tiles=True, has_bf16_tiles=True)
NUMPY = {"bf16": ml_dtypes.bfloat16, "s8": np.int8, "u8": np.uint8}
SUMS = {"bf16": "f32", "s8": "s32", "u8": "s32"}
SIZES = [
    # m, n, k
    (2, 8, 32),
    (16, 16, 64),
    (17, 33, 65),
    (31, 47, 100),
    (33, 31, 1027),
    (63, 129, 2100),
    # packed ahead; several pieces of k; several groups of columns
    (65, 97, 64),
    (200, 300, 1100),
    (701, 130, 2100),
    (300, 45, 4224),
    (64, 1030, 4200),
]


def program(types, sizes, left=False, right=False, rest=None, batch=0):
    """Return the HLO of a dot; `left`: the lhs is [k, m], `right`: the rhs is [n, k]."""
    m, n, k = sizes
    lhs, rhs = (f"{k},{m}" if left else f"{m},{k}"), (f"{n},{k}" if right else f"{k},{n}")
    outer, dims, first = (f"{batch},", "lhs_batch_dims={0}, rhs_batch_dims={0}, ", 1)
    if not batch:
        outer, dims, first = "", "", 0
    sums = SUMS[types[0]]
    return ingot.parse_hlo(f"""\
HloModule product

ENTRY main {{
  x = {types[0]}[{outer}{lhs}] parameter(0)
  y = {types[1]}[{outer}{rhs}] parameter(1)
  z = {sums}[{outer}{m},{n}] dot(x, y), {dims}lhs_contracting_dims={{{first + 1 - left}}}, \
rhs_contracting_dims={{{first + right}}}
  {rest or f"ROOT r = {sums}[{outer}{m},{n}] copy(z)"}
}}
""")


def array(generator, name, dims):
    if name == "bf16":
        return generator.standard_normal(dims).astype(NUMPY[name])
    limits = np.iinfo(NUMPY[name])
    return generator.integers(limits.min, limits.max, dims, NUMPY[name], endpoint=True)


def operands(generator, types, sizes, left=False, right=False, batch=()):
    m, n, k = sizes
    lhs, rhs = ((k, m) if left else (m, k)), ((n, k) if right else (k, n))
    return array(generator, types[0], (*batch, *lhs)), array(generator, types[1], (*batch, *rhs))


def tile_parts(executable):
    return [
        item.name
        for kernel in executable.inspection.compiled.kernels.compiled.values()
        for item in kernel.shared
        if "tiles" in item.name
    ]


@on_tiles
@pytest.mark.parametrize(("left", "right"), list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_bf16(sizes, left, right, generator):
    if right and sizes[0] < 6:
        sizes = (6, *sizes[1:])
    executable = compile(program(("bf16", "bf16"), sizes, left, right))
    assert tile_parts(executable)
    x, y = operands(generator, ("bf16", "bf16"), sizes, left, right)
    expected = (x.T if left else x).astype(float) @ (y.T if right else y).astype(float)
    np.testing.assert_allclose(executable(x, y), expected, atol=4e-6 * sizes[2] ** 0.5, rtol=1e-5)


@on_tiles
@pytest.mark.parametrize("types", list(itertools.product(("s8", "u8"), repeat=2)), ids="_".join)
@pytest.mark.parametrize(("left", "right"), list(itertools.product((False, True), repeat=2)))
def test_products_of_bytes_are_exact(types, left, right, generator):
    for sizes in ((6, 9, 33), (33, 47, 100), (130, 70, 5100)):
        executable = compile(program(types, sizes, left, right))
        assert tile_parts(executable)
        x, y = operands(generator, types, sizes, left, right)
        expected = (x.T if left else x).astype(np.int64) @ (y.T if right else y).astype(np.int64)
        np.testing.assert_array_equal(executable(x, y), expected)


@on_tiles
@pytest.mark.parametrize("m", [20, 130])
@pytest.mark.parametrize("right", [False, True])
def test_what_lies_behind_the_depth_is_not_multiplied(m, right, generator):
    """Rows end in the middle of a word and of a tile: what lies there may be NaN."""
    n, k = 37, 71
    executable = compile(program(("bf16", "bf16"), (m, n, k), right=right))
    x, y = operands(generator, ("bf16", "bf16"), (m, n, k), right=right)
    for turn in range(3):
        # Buffers and the stack hold what the last run left there.
        x[:] = np.nan if turn == 1 else generator.standard_normal(x.shape)
        found = executable(x, y)
        expected = x.astype(float) @ (y.T if right else y).astype(float)
        np.testing.assert_allclose(found, expected, atol=1e-4)


@on_tiles
@pytest.mark.parametrize("offset", [0, 16, 62])
@pytest.mark.parametrize("sizes", [(20, 33, 64), (70, 100, 128), (200, 300, 1056)], ids=str)
def test_rows_of_whole_lines_are_read_where_they_lie(sizes, offset, generator):
    """An lhs that does not begin with a line of memory is packed."""
    m, _, k = sizes
    executable = compile(program(("bf16", "bf16"), sizes))
    assert any("in_place" in name for name in tile_parts(executable))
    x, y = operands(generator, ("bf16", "bf16"), sizes)
    room = np.zeros(x.nbytes + 128, np.uint8)
    first = -room.ctypes.data % 64 + offset
    there = room[first : first + x.nbytes].view(x.dtype).reshape(m, k)
    there[:] = x
    np.testing.assert_array_equal(executable(there, y), executable(x, y))
    expected = x.astype(float) @ y.astype(float)
    np.testing.assert_allclose(executable(there, y), expected, atol=4e-6 * k**0.5, rtol=1e-5)


@on_tiles
def test_nan_and_infinity_reach_the_sums_of_their_row(generator):
    sizes = (40, 40, 90)
    executable = compile(program(("bf16", "bf16"), sizes))
    x, y = operands(generator, ("bf16", "bf16"), sizes)
    x[3, 5], x[7, 80], y[:, 9] = np.nan, np.inf, np.abs(y[:, 9]) + 1
    found = np.asarray(executable(x, y))
    assert np.isnan(found[3]).all()
    assert found[7, 9] == np.inf
    assert np.isfinite(np.delete(found, [3, 7], axis=0)).all()


@on_tiles
@pytest.mark.parametrize("sizes", [(37, 45, 99), (200, 300, 700), (300, 200, 2500)], ids=str)
def test_epilogues_take_the_sums(sizes, generator):
    m, n, _ = sizes
    rest = f"""bias = f32[{n}] parameter(2)
  more = f32[{m},{n}] broadcast(bias), dimensions={{1}}
  total = f32[{m},{n}] add(z, more)
  ROOT r = bf16[{m},{n}] convert(total)"""
    executable = compile(program(("bf16", "bf16"), sizes, rest=rest))
    assert tile_parts(executable)
    x, y = operands(generator, ("bf16", "bf16"), sizes)
    bias = generator.standard_normal(n).astype(np.float32)
    expected = x.astype(float) @ y.astype(float) + bias
    found = np.asarray(executable(x, y, bias)).astype(float)
    np.testing.assert_allclose(found, expected, rtol=2**-8, atol=1e-3)


@on_tiles
@pytest.mark.parametrize("sizes", [(20, 33, 70), (100, 70, 40), (130, 40, 2100)], ids=str)
def test_matrices_of_a_batch(sizes, generator):
    executable = compile(program(("bf16", "bf16"), sizes, right=True, batch=3))
    assert tile_parts(executable)
    x, y = operands(generator, ("bf16", "bf16"), sizes, right=True, batch=(3,))
    expected = np.matmul(x.astype(float), np.swapaxes(y.astype(float), 1, 2))
    np.testing.assert_allclose(executable(x, y), expected, atol=4e-6 * sizes[2] ** 0.5, rtol=1e-5)


@on_tiles
def test_threads_do_not_change_the_bits(generator):
    sizes = (500, 600, 1500)
    x, y = operands(generator, ("bf16", "bf16"), sizes)
    found = [
        np.asarray(compile(program(("bf16", "bf16"), sizes), threads=threads)(x, y))
        for threads in (1, 2)
    ]
    np.testing.assert_array_equal(found[0], found[1])


@on_tiles
def test_exact_arithmetic_keeps_denormals(generator):
    x = np.full((40, 64), 1e-39, NUMPY["bf16"])
    y = np.full((64, 40), 4.0, NUMPY["bf16"])
    executable = compile(program(("bf16", "bf16"), (40, 40, 64)), fp="exact")
    assert not tile_parts(executable)
    expected = x.astype(float) @ y.astype(float)
    np.testing.assert_allclose(executable(x, y), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("types", "sizes", "right", "has_tiles"),
    [
        (("bf16", "bf16"), (64, 64, 64), False, True),
        (("s8", "u8"), (64, 64, 64), False, True),
        (("bf16", "bf16"), (1, 64, 64), False, False),
        (("bf16", "bf16"), (4, 64, 64), True, False),
        (("bf16", "bf16"), (64, 7, 64), False, False),
        (("bf16", "bf16"), (64, 64, 15), False, False),
    ],
)
def test_products_are_of_tiles_where_these_are_faster(types, sizes, right, has_tiles):
    kernel = build_contraction_kernel(program(types, sizes, right=right).entry)
    found = plain_product(kernel, TILES)
    assert not isinstance(found, str)
    assert found.variant.has_tiles == has_tiles


@pytest.mark.parametrize("sizes", [(33, 40, 64), (200, 300, 1100)], ids=str)
def test_code_of_tiles_compiles_on_any_machine(sizes):
    kernel = build_contraction_kernel(program(("s8", "u8"), sizes).entry)
    found = plain_product(kernel, TILES)
    assert not isinstance(found, str)
    features = ",".join(
        [CPU_LEVELS["avx512"].features, *(f"+{name}" for name in sorted(TILE_FEATURES))]
    )
    target = replace(TargetSpec.at_level("avx512"), features=features)
    texts = list[str]()
    for template in product_call(found).needed:
        module = ModuleBuilder(template.name)
        template.define(module)
        texts.append(assembly(module.text(), target, template.how))
    whole = "\n".join(texts)
    for instruction in ("ldtilecfg", "tileloadd", "tdpbsud", "tilestored", "tilerelease"):
        assert instruction in whole


def test_a_process_that_may_not_use_tiles_has_none():
    """Where Linux refuses the permission, products run as on CPUs without tiles."""
    script = """
import ingot.llvm.target as target
target.may_use_tiles = lambda: False
spec = target.TargetSpec.host()
assert not spec.has_tiles and "+amx" not in spec.features
import numpy as np, ml_dtypes, ingot
text = '''HloModule p

ENTRY e {
  x = bf16[40,64] parameter(0)
  y = bf16[64,40] parameter(1)
  ROOT z = f32[40,40] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
'''
x = np.ones((40, 64), ml_dtypes.bfloat16)
assert (np.asarray(ingot.compile(ingot.parse_hlo(text))(x, x.T)) == 64).all()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=dict(os.environ), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
