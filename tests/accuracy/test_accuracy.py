# SPDX-License-Identifier: Apache-2.0
"""A part of `make accuracy`: no function is worse than its recorded figure; where NaN is sorted."""

import numpy as np
import pytest
from tests.accuracy import compositions, report, samples, signs
from tests.accuracy.dense import DenseF32, Worst
from tests.accuracy.distance import ulps
from tests.accuracy.engines import LEVELS, NUMPY, XLA, engine
from tests.accuracy.functions import FUNCTIONS, Array, Function, find
from tests.accuracy.measure import is_dense, sampled

import ingot
from ingot.evaluator import evaluate
from ingot.llvm.math import MATH
from ingot.llvm.target import TargetSpec

pytestmark = pytest.mark.fast_share(8)

STRIDE = 65_537
RECORDS = report.load()
KEYS = [(item.name, element) for item in FUNCTIONS for element in item.types]
QUICK = [key for key in KEYS if key[1] in ("f32", "f64")]
OTHERS = [key for key in KEYS if key[1] not in ("f32", "f64")]


def inputs(function: Function, element: str) -> list[Array]:
    """Return a part of what `make accuracy` measures."""
    if is_dense(function, element):
        return [np.arange(0, 1 << 32, STRIDE, dtype=np.uint64).astype(np.uint32).view(np.float32)]
    if element in ("f16", "bf16") and function.arity == 1:
        return [samples.all_16_bits(element)[::3]]
    return [item[::17] for item in samples.block(function, element, 0)]


def check(key: tuple[str, str], level: str) -> None:
    function, record = find(*key), RECORDS[key]
    _, found = sampled(function, key[1], inputs(function, key[1]), (level,))
    # Other levels than those of the machine that measured are held to the greatest figure.
    figures = record.worst.get(level, max(record.worst.values(), key=lambda item: item.ulp))
    bound = figures.ulp
    if is_dense(function, key[1]) and record.inputs.get(level, 0) < report.ALL_F32:
        bound = max(bound, getattr(MATH.get(key[0]), "ulp_f32", 2.0))
    assert found[level].ulp <= bound, f"{key[0]} of {key[1]} at {found[level].at}"


@pytest.mark.parametrize("key", QUICK, ids="-".join)
def test_no_function_is_worse_than_recorded(key: tuple[str, str]) -> None:
    check(key, LEVELS[0])


@pytest.mark.slow
@pytest.mark.parametrize("key", OTHERS, ids="-".join)
def test_other_types_are_no_worse_than_recorded(key: tuple[str, str]) -> None:
    check(key, LEVELS[0])


@pytest.mark.slow
@pytest.mark.parametrize("key", QUICK, ids="-".join)
def test_narrower_levels_are_no_worse_than_recorded(key: tuple[str, str]) -> None:
    for level in LEVELS[1:]:
        check(key, level)


def test_everything_is_recorded_and_nothing_is_behind() -> None:
    assert set(RECORDS) == set(KEYS)
    for key, record in RECORDS.items():
        assert record.worst, key
        assert record.xla is not None, key
        for level, worst in record.worst.items():
            assert not report.is_behind(worst.ulp, record), (key, level, worst)


def test_the_stated_bounds_are_not_below_what_was_measured() -> None:
    for name, function in MATH.items():
        for element, bound in (("f32", function.ulp_f32), ("f64", function.ulp_f64)):
            record = RECORDS[name, element]
            assert max(item.ulp for item in record.worst.values()) <= bound, (name, element)


def test_the_page_is_that_of_the_results() -> None:
    assert report.PAGE.read_text(encoding="utf-8") == report.page()


def test_distances() -> None:
    one, top = np.float32(1), np.finfo(np.float32).max
    least = np.float32(1e-45)
    result = np.array([one, one, 0.0, -0.0, least, np.inf, np.inf, np.nan, top, one], np.float32)
    wanted = np.array(
        [1 + 2.0**-24, 1 - 2.0**-24, 0, 0, 0, 2.0**128 - 2.0**103, 1, np.nan, np.inf, np.nan],
        np.longdouble,
    )
    np.testing.assert_array_equal(
        ulps(result, wanted), [0.5, 1, 0, np.inf, 1, 0.5, _far(), 0, np.inf, np.inf]
    )


def _far() -> float:
    """Return the distance of infinity from 1."""
    return float((2.0**128 - 1) * 2.0**23)


@pytest.mark.parametrize("name", ["log", "cosine", "asin"])
@pytest.mark.parametrize("slab", [0, 0x3F7F, 0x3F80, 0x3FC9, 0x4780, 0xBF80, 0xFF80])
def test_the_worst_of_a_slab_is_that_of_long_double(name: str, slab: int) -> None:
    function = find(name, "f32")
    measured = DenseF32(function, {"x": _slightly_wrong(function)})
    measured.slab(slab)
    x = np.arange(slab << 16, slab + 1 << 16, dtype=np.uint32).view(np.float32)
    wanted = Worst()
    wanted.take(ulps(_slightly_wrong(function)(x), function.exact_values(x)), x)
    assert measured.worst["x"].ulp == wanted.ulp


def _slightly_wrong(function: Function):
    """Return the function with errors of one ulp here and there, more at few places."""

    def compiled(x: Array) -> Array:
        result = function.exact_values(x).astype(np.float32)
        bits = x.view(np.uint32)
        result += np.spacing(result) * (bits % 1009 == 5)
        return np.where(bits % 49_999 == 7, result * np.float32(1.000001), result)

    return compiled


@pytest.mark.parametrize("wrong", [-0.0, np.nan, 1e-45])
def test_a_wrong_special_value_is_found(wrong: float) -> None:
    def compiled(x: Array) -> Array:
        found = np.floor(x)
        found[77] = wrong
        return found

    measured = DenseF32(find("floor", "f32"), {"x": compiled})
    measured.slab(0x3F00)
    assert measured.worst["x"].ulp == (1 if wrong > 0 else np.inf)


@pytest.mark.parametrize("function", signs.functions(), ids=lambda item: item.name)
def test_signs_of_nan_are_those_of_the_page(function: Function) -> None:
    recorded = report.load_signs()[function.name]
    for level in set(LEVELS) & set(recorded):
        assert signs.signs(function, "f32", level) == recorded[level], level


@pytest.mark.parametrize("function", signs.functions(), ids=lambda item: item.name)
def test_the_evaluator_gives_nan_where_native_code_does(function: Function) -> None:
    found = signs.signs(function, "f32", signs.EVALUATOR)
    assert set(found.values()) <= {"+", "-"}


@pytest.mark.slow
@pytest.mark.parametrize("element", compositions.ELEMENTS)
@pytest.mark.parametrize("name", compositions.NAMES)
def test_formulas_of_jax_are_as_near_as_on_xla(name: str, element: str) -> None:
    found = compositions.figures(name, element, (LEVELS[0], XLA), 1)
    # Where sums cancel, single figures are luck.
    assert found[LEVELS[0]] <= 2 * max(found[XLA], 2)


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("function", signs.functions(), ids=lambda item: item.name)
def test_the_evaluator_is_near_the_exact_values(function: Function, element: str) -> None:
    args = [item[::64] for item in samples.block(function, element, 0)]
    with np.errstate(all="ignore"):
        result = evaluate(ingot.parse_hlo(function.hlo(element, args[0].size)), args)
    assert ulps(np.asarray(result), function.exact_values(*args)).max() <= 4


@pytest.mark.parametrize(
    ("name", "element", "operand"),
    [
        ("log-plus-one", "c64", -1 + 1.2254538e-06j),
        ("log-plus-one", "c128", -1 + 1e-13j),
        # e^x overflows, e^x cos y does not.
        ("exponential", "c64", 90 + 1.5j),
        ("exponential", "c128", 710 + 1.5j),
        ("exponential-minus-one", "c64", 90 + 1.5j),
        ("sinh", "c64", -90 + 1.5j),
        ("cosh", "c128", -711 + 1.5j),
        ("sine", "c64", -241466.875 + 89.51506805419922j),
        ("cosine", "c128", 1.5 + 711j),
        # e^-x overflows, the result is a denormal.
        ("logistic", "c64", -88.6 - 16.36j),
        ("logistic", "c128", -744 + 2j),
    ],
)
def test_complex_numbers_near_a_limit(name: str, element: str, operand: complex) -> None:
    function = find(name, element)
    _, found = sampled(function, element, [np.full(64, operand, NUMPY[element])], LEVELS)
    assert max(worst.ulp for worst in found.values()) <= 4


@pytest.mark.parametrize("element", ["c64", "c128"])
def test_power_of_complex_numbers_is_near_where_its_factors_are_numbers(element: str) -> None:
    """As near as an error of some places in the logarithm of the base leaves it."""
    function = find("power", element)
    x, y = samples.block(function, element, 0)
    found = engine(LEVELS[0], function, element, x.size)(x, y)
    wanted = function.exact_values(x, y)
    base, exponent = x.astype(np.clongdouble), y.astype(np.clongdouble)
    limits = np.finfo(NUMPY[element])
    least, most = np.log(np.longdouble(limits.tiny)) + 1, np.log(np.longdouble(limits.max)) - 1
    with np.errstate(all="ignore"):
        log = np.log(base)
        factors = log.real * exponent.real, -log.imag * exponent.imag
        inside = np.isfinite(log.real)
        for each in (*factors, sum(factors)):
            inside &= (least < each) & (each < most)
        apart = np.abs(found - wanted) / np.abs(wanted) / limits.eps
        scaled = apart / (1 + np.abs(exponent * log))
    assert inside.mean() > 0.98
    assert scaled[inside].max() < 64


TOTAL_ORDER = """
HloModule m

before {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER
}

ENTRY main {
  x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  logs = f32[64] log(x)
  sines = f32[64] sine(y)
  all = f32[128] concatenate(logs, sines), dimensions={0}
  ROOT sorted = f32[128] sort(all), dimensions={0}, to_apply=before
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_a_sort_by_total_order_puts_nan_by_its_sign(level: str) -> None:
    of_log = report.load_signs()["log"][level]["outside"]
    of_sine = report.load_signs()["sine"][level]["outside"]
    assert (of_log, of_sine) == ("+", "-")
    x, y = np.full(64, 2.0, np.float32), np.full(64, 1.0, np.float32)
    x[[3, 40]], y[[0, 17, 63]] = -1.0, np.inf
    module = ingot.parse_hlo(TOTAL_ORDER)
    found = np.asarray(ingot.compile(module, target=TargetSpec.host(level))(x, y))
    assert np.isnan(found[:3]).all()
    assert np.signbit(found[:3]).all()
    assert np.isnan(found[-2:]).all()
    assert not np.signbit(found[-2:]).any()
    assert (np.diff(found[3:-2]) >= 0).all()


def test_a_sort_that_orders_nan_with_nothing_loses_no_element() -> None:
    text = """HloModule m
before {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY main {
  x = f32[1000] parameter(0)
  ROOT sorted = f32[1000] sort(x), dimensions={0}, to_apply=before
}"""
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    x[::7], x[::11] = np.nan, -np.nan
    found = np.asarray(ingot.compile(ingot.parse_hlo(text))(x))
    np.testing.assert_array_equal(np.sort(found.view(np.uint32)), np.sort(x.view(np.uint32)))


@pytest.mark.slow
def test_the_sort_of_jax_puts_every_nan_last() -> None:
    import jax

    x = np.array([np.nan, 1, -np.nan, -np.inf, 2], np.float32)
    text = jax.jit(jax.numpy.sort).lower(x).as_text()
    found = np.asarray(ingot.compile(ingot.parse_stablehlo(text))(x))
    np.testing.assert_array_equal(found, np.array([-np.inf, 1, 2, np.nan, np.nan], np.float32))


@pytest.mark.parametrize("element", ["bf16", "f16", "f32", "f64"])
def test_denormals_are_neither_flushed_as_operands_nor_as_results(element: str) -> None:
    least = np.nextafter(np.zeros(1, NUMPY[element]), np.ones(1, NUMPY[element]))
    function = find("sine", element)
    np.testing.assert_array_equal(engine(LEVELS[0], function, element, 1)(least), least)
