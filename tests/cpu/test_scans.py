# SPDX-License-Identifier: Apache-2.0
"""Windowed reductions over all prefixes or suffixes are kernels with a running value."""

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.evaluator import evaluate


def module_of(
    dims, place, *, reverse=False, op="add(a, b)", start="0", element="f32", extra="", after=""
):
    size = dims[place]
    sizes = "x".join(str(size) if n == place else "1" for n in range(len(dims)))
    pad = f"0_{size - 1}" if reverse else f"{size - 1}_0"
    pads = "x".join(pad if n == place else "0_0" for n in range(len(dims)))
    shape = f"{element}[{','.join(map(str, dims))}]"
    return ingot.parse_hlo(f"""HloModule m
f {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1)
  ROOT c = {element}[] {op}
}}
ENTRY main {{
  x = {shape} parameter(0)
  {extra.format(shape=shape) or f"w = {shape} copy(x)"}
  start = {element}[] constant({start})
  {"" if after else "ROOT"} z = {shape} reduce-window(w, start), to_apply=f,
    window={{size={sizes} pad={pads}}}
  {after}
}}
""")


def check(module, dims, element=np.float32, rtol=1e-5):
    x = (np.random.default_rng(0).standard_normal(dims) * 3).astype(element)
    return agrees(module, [x], rtol=rtol, of_largest=1e-5).executable


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("dims", "place"),
    [
        ((5,), 0),
        ((70,), 0),
        ((3, 13), 1),
        ((13, 3), 0),
        ((9, 40), 0),
        ((2, 17, 33), 1),
        ((4, 6, 5), 2),
    ],
)
def test_scans_along_each_dimension(dims, place, reverse):
    program = check(module_of(dims, place, reverse=reverse), dims)
    assert len(program.kernels) == 1


@pytest.mark.parametrize(
    ("op", "start"),
    [("maximum(a, b)", "-inf"), ("multiply(a, b)", "1"), ("minimum(b, a)", "inf")],
)
def test_scans_of_each_fold(op, start):
    check(module_of((3, 13), 1, op=op, start=start), (3, 13))


@pytest.mark.parametrize("element", ["s8", "u32", "s64", "f64", "bf16", "f16"])
def test_element_types(element):
    module = module_of((4, 21), 1, element=element)
    storage = module.parameter_shapes[0].dtype.numpy
    x = np.random.default_rng(1).integers(0, 3, (4, 21)).astype(storage)
    np.testing.assert_array_equal(
        np.asarray(ingot.compile(module)(x), np.float64),
        np.asarray(evaluate(module, [x]), np.float64),
    )


def test_the_operand_is_fused_into_the_scan():
    module = module_of((8, 50), 0, extra="w = {shape} multiply(x, x)")
    assert len(check(module, (8, 50)).kernels) == 1


EPILOGUES = {
    "ROOT h = f16[{d}] convert(z)": 1,
    "n = f32[{d}] negate(z) ROOT p = pred[{d}] compare(n, z), direction=LT": 1,
    "i = s32[{d}] bitcast-convert(z) ROOT p = s32[{d}] not(i)": 1,
    "b = f32[{d}] broadcast(y), dimensions={{}} ROOT p = f32[{d}] add(b, z)": 1,
    "i = s32[{d}] convert(z) n = f32[{d}] negate(z) ROOT t = (s32[{d}], f32[{d}]) tuple(i, n)": 1,
    "n = f32[{d}] negate(z) ROOT t = (f32[{d}], f32[{d}]) tuple(n, z)": 2,
    "ROOT n = f32[{d}] multiply(x, z)": 2,
    "ROOT n = f32[{d}] sine(z)": 2,
    "n = f32[{d}] reverse(z), dimensions={{0}} ROOT p = f32[{d}] add(n, z)": 2,
}
"""What follows a scan `z` of an array `x`, beside a scalar `y`, and how many kernels they are."""


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("end", EPILOGUES)
def test_what_is_made_of_the_result_alone_ends_the_kernel(end, reverse):
    for dims, place in (((130, 131), 1), ((2, 90, 1, 97), 1)):
        given = ",".join(map(str, dims))
        after = f"y = f32[] parameter(1)\n{end.format(d=given)}"
        module = module_of(dims, place, reverse=reverse, after=after)
        x = (np.arange(np.prod(dims), dtype=np.float32) % 7 - 3).reshape(dims)
        program = agrees(module, [x, np.float32(2.5)], rtol=1e-6).executable
        assert len(program.kernels) == EPILOGUES[end]


def test_padding_that_counts_is_folded_window_by_window():
    check(module_of((3, 13), 1, start="1"), (3, 13))


def test_several_operands():
    module = ingot.parse_hlo("""HloModule m
    f {
      i = s32[] parameter(0)
      x = f32[] parameter(1)
      j = s32[] parameter(2)
      y = f32[] parameter(3)
      p = pred[] compare(y, x), direction=GT
      k = s32[] select(p, j, i)
      z = f32[] select(p, y, x)
      ROOT t = (s32[], f32[]) tuple(k, z)
    }
    ENTRY main {
      x = f32[6,20] parameter(0)
      i = s32[6,20] iota(), iota_dimension=1
      none = s32[] constant(-1)
      low = f32[] constant(-inf)
      ROOT t = (s32[6,20], f32[6,20]) reduce-window(i, x, none, low),
        window={size=1x20 pad=0_0x19_0}, to_apply=f
    }""")
    x = np.random.default_rng(0).standard_normal((6, 20)).astype(np.float32)
    program = ingot.compile(module)
    for have, want in zip(program(x), evaluate(module, [x]), strict=True):
        np.testing.assert_array_equal(have, want)
    np.testing.assert_array_equal(program(x)[1], np.maximum.accumulate(x, 1))


def test_complex_products():
    module = module_of((4, 9), 1, op="multiply(a, b)", start="(1, 0)", element="c64")
    random = np.random.default_rng(0)
    x = (random.standard_normal((4, 9)) + 1j * random.standard_normal((4, 9))).astype(np.complex64)
    np.testing.assert_allclose(ingot.compile(module)(x), np.cumprod(x, 1), rtol=1e-4)


def test_long_scans_are_one_kernel():
    executable = ingot.compile(module_of((1 << 16,), 0))
    assert len(executable.kernels) == 1
    ones = np.ones(1 << 16, np.float32)
    np.testing.assert_array_equal(executable(ones), np.arange(1, (1 << 16) + 1))


EXACT = {
    "f32": ("maximum(a, b)", "-inf", np.float32),
    "f64": ("minimum(a, b)", "inf", np.float64),
    "s32": ("add(a, b)", "0", np.int32),
    "u8": ("maximum(a, b)", "0", np.uint8),
    "s64": ("multiply(a, b)", "1", np.int64),
    "u32": ("xor(a, b)", "0", np.uint32),
    "s16": ("minimum(a, b)", "32767", np.int16),
}


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("element", EXACT)
def test_vectors_at_once(element, reverse):
    """Ops whose order changes nothing take vectors; sizes around them, rows, other dimensions."""
    op, start, dtype = EXACT[element]
    for dims, place in (((31,), 0), ((32,), 0), ((333,), 0), ((3, 65), 1), ((65, 3), 0)):
        module = module_of(dims, place, reverse=reverse, op=op, start=start, element=element)
        check(module, dims, dtype)


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("f64", np.float64)])
@pytest.mark.parametrize("reverse", [False, True])
def test_sums_of_floats_take_vectors(element, dtype, reverse):
    for dims, place in (((32,), 0), ((333,), 0), ((3, 65), 1)):
        check(module_of(dims, place, reverse=reverse, element=element), dims, dtype)


def test_long_sums_are_no_less_exact_than_one_after_the_other():
    x = np.random.default_rng(3).uniform(0, 1, 1 << 16).astype(np.float32)
    exact = np.cumsum(x, dtype=np.float64)
    found = ingot.compile(module_of(x.shape, 0))(x)
    error, serial = (np.abs(sums - exact).max() for sums in (found, np.cumsum(x)))
    assert error <= serial


def test_products_of_floats_take_vectors():
    x = np.random.default_rng(4).uniform(0.9, 1.1, (5, 100)).astype(np.float64)
    program = ingot.compile(module_of(x.shape, 1, op="multiply(a, b)", start="1", element="f64"))
    np.testing.assert_allclose(program(x), np.cumprod(x, 1), rtol=1e-13)


@pytest.mark.parametrize("place", [0, 1, 16, 63, 150, 199])
def test_infinities_are_in_no_sum_before_them(place):
    x = np.arange(200, dtype=np.float32)
    x[place] = np.inf
    if place < 190:
        x[place + 5] = -np.inf
    module = module_of((200,), 0)
    np.testing.assert_array_equal(ingot.compile(module)(x), evaluate(module, [x]))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_special_values(op, reverse):
    """A NaN stays from where it is on; zeros keep their order, bits as one after the other."""
    start = "-inf" if op == "maximum" else "inf"
    module = module_of((200,), 0, reverse=reverse, op=f"{op}(a, b)", start=start)
    few = np.array([-np.inf, np.inf, -0.0, 0.0, -0.0, 0.0, 1e-45], np.float32)
    x = np.random.default_rng(1).choice(few[2:], 200).astype(np.float32)
    x[[60, 140]] = -np.inf, np.inf
    for places in ((), (199,), (100, 150), (0,)):
        given = x.copy()
        given[list(places)] = np.nan
        got, want = np.asarray(ingot.compile(module)(given)), evaluate(module, [given])
        np.testing.assert_array_equal(got, want)
        here = ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got)[here], np.signbit(want)[here])


def test_truth_values():
    x = np.zeros(100, bool)
    x[77] = True
    module = module_of((100,), 0, op="or(a, b)", start="false", element="pred")
    np.testing.assert_array_equal(ingot.compile(module)(x), np.arange(100) >= 77)


def test_initial_values_that_are_no_identity():
    x = np.random.default_rng(2).standard_normal(100).astype(np.float32)
    module = module_of((100,), 0, op="maximum(a, b)", start="0.5")
    np.testing.assert_array_equal(ingot.compile(module)(x), evaluate(module, [x]))
