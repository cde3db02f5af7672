# SPDX-License-Identifier: Apache-2.0
"""The math functions against wider arithmetic: ulps, special values, equal bits at every width."""

import ctypes
import math

import numpy as np
import pytest
from tests.accuracy.distance import ulps
from tests.llvm.math_harness import evaluate, kernel, reference

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import assembly
from ingot.llvm.math import MATH, circle
from ingot.llvm.target import TargetSpec, host_levels
from ingot.llvm.types import F32, F64, I32, VOID, vector
from ingot.support.diagnostics import InternalError

pytestmark = pytest.mark.fast_share(16)

SPECIALS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 0.25, 1.5, 20.0, 40.0),
    *(math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1e-310, 1.2e-38, 1e-45, -1e-40),
    *(3.4028234e38, -3.4028234e38, 1.7976931348623157e308, -1e308, 1e300, 1e22, -1e16),
    *(88.7, 88.8, 89.0, -87.5, -103.9, -104.1, 709.7, 709.8, 710.4, 710.6, -745.0, -746.0),
    *(2.0**24, 2.0**24 - 1, 2.0**53, 2.0**53 - 1, 1 - 2.0**-24, 1 + 2.0**-23, 1 + 2.0**-52),
    *(48000.0, 48000.1, 1.0e6, 1000000.5, math.pi, math.pi / 2, 2.0**-26, 2.0**-60),
]
UNARY = [name for name, function in MATH.items() if function.arity == 1]
BINARY = [name for name, function in MATH.items() if function.arity == 2]
LEVELS = list(host_levels())
# Four compilations per function and type: two levels can wait for the slow tests.
NARROW_LEVELS = [pytest.param(level, marks=pytest.mark.slow) for level in LEVELS[1:]]
DTYPES = [np.float32, np.float64]
_UNDERFLOW = 0x10
"""FE_UNDERFLOW of x86: set by an instruction whose result is denormal and was rounded."""


def specials(dtype: type) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array(SPECIALS, dtype)


def stratified(dtype: type, per_exponent: int, seed: int = 0) -> np.ndarray:
    """Random mantissas under every sign and exponent of the type, NaN and infinity included."""
    rng = np.random.default_rng(seed)
    single = dtype == np.float32
    unsigned, mantissa, exponents = (np.uint32, 23, 256) if single else (np.uint64, 52, 2048)
    heads = np.repeat(np.arange(2 * exponents, dtype=unsigned), per_exponent)
    tails = rng.integers(0, 1 << mantissa, heads.size, dtype=unsigned)
    return ((heads << unsigned(mantissa)) | tails).view(dtype)


def ordinary(dtype: type, count: int, seed: int = 1) -> np.ndarray:
    """Where programs live: around zero, around one, and up to a few hundred."""
    rng = np.random.default_rng(seed)
    parts = [
        rng.uniform(-1, 1, count),
        rng.uniform(-20, 20, count),
        rng.uniform(-750, 750, count),
        1 + rng.uniform(-1e-3, 1e-3, count),
        rng.uniform(-2e6, 2e6, count),
    ]
    return np.concatenate(parts).astype(dtype)


def operands(name: str, dtype: type, per_exponent: int, count: int) -> list[np.ndarray]:
    if MATH[name].arity == 1:
        parts = [specials(dtype), stratified(dtype, per_exponent), ordinary(dtype, count)]
        return [np.concatenate(parts)]
    rng = np.random.default_rng(2)
    left, right = np.meshgrid(specials(dtype), specials(dtype))
    wild = stratified(dtype, per_exponent)
    tame = ordinary(dtype, count)
    near = (1 + rng.uniform(-0.01, 0.01, tame.size)).astype(dtype)
    x = [left.ravel(), wild, np.abs(tame), tame, near]
    y = [right.ravel(), rng.permutation(wild), rng.permutation(tame)]
    y += [np.round(rng.uniform(-9, 9, tame.size)), rng.uniform(-5e4, 5e4, tame.size)]
    return [np.concatenate(x, dtype=dtype), np.concatenate(y, dtype=dtype, casting="same_kind")]


def check(name: str, dtype: type, level: str, args: list[np.ndarray]) -> None:
    bound = MATH[name].ulp_f32 if dtype == np.float32 else MATH[name].ulp_f64
    result = evaluate(name, *args, level=level)
    wanted = reference(name, *args)
    distance = ulps(result, wanted)
    worst = int(np.argmax(distance))
    at = [item[worst] for item in args]
    assert distance[worst] <= bound, f"{name}{at}: {result[worst]!r} for {wanted[worst]!r}"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATH)
def test_error_is_within_the_stated_ulps(name: str, dtype: type, level: str) -> None:
    per_exponent = 8 if dtype == np.float32 else 1
    check(name, dtype, level, operands(name, dtype, per_exponent, 1000))


def test_no_stated_bound_is_above_two_ulps() -> None:
    """The tail of erfc is the product of an exponential and a quotient: half an ulp more."""
    bounds = {name: max(item.ulp_f32, item.ulp_f64) for name, item in MATH.items()}
    assert bounds.pop("erfc") <= 2.5
    assert max(bounds.values()) <= 2.0


@pytest.mark.parametrize("level", [LEVELS[0], *NARROW_LEVELS])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATH)
def test_every_width_gives_the_same_bits(name: str, dtype: type, level: str) -> None:
    args = operands(name, dtype, 1, 100)
    bits = np.uint32 if dtype == np.float32 else np.uint64
    wanted = evaluate(name, *args, lanes=16, level=level)
    for lanes in (1, 8, 64):
        found = evaluate(name, *args, lanes=lanes, level=level)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        same = found.view(bits) == wanted.view(bits)
        assert (same | np.isnan(wanted)).all(), f"{lanes} lanes"


@pytest.mark.parametrize("level", [LEVELS[0], *NARROW_LEVELS])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATH)
def test_a_call_gives_the_bits_of_the_formula_in_place(name: str, dtype: type, level: str) -> None:
    args = operands(name, dtype, 1, 100)
    bits = np.uint32 if dtype == np.float32 else np.uint64
    wanted = evaluate(name, *args, lanes=16, level=level)
    # One lane, a piece of a register, one call, several calls.
    for lanes in (1, 4, 16, 128):
        found = evaluate(name, *args, lanes=lanes, level=level, is_called=True)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        same = found.view(bits) == wanted.view(bits)
        assert (same | np.isnan(wanted)).all(), f"{lanes} lanes"


@pytest.mark.parametrize("level", LEVELS)
def test_a_single_exponential_makes_no_denormal(level: str) -> None:
    """Log-domain sums and masked softmax have many, and each takes the CPU a hundred cycles."""
    x = np.linspace(-200, 200, 4096, dtype=np.float32)
    x[::16] = -np.inf
    evaluate("exponential", x, level=level)  # Compile it first.
    flags = ctypes.CDLL(None)
    flags.feclearexcept(_UNDERFLOW)
    evaluate("exponential", x, level=level)
    assert not flags.fetestexcept(_UNDERFLOW)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_exponentials_are_rounded_once(dtype: type, level: str) -> None:
    lowest, least = (-87.34, -104.0) if dtype == np.float32 else (-708.4, -745.2)
    rng = np.random.default_rng(3)
    near = lowest + rng.uniform(-0.01, 0.01, 2000)
    x = np.concatenate([rng.uniform(least - 1, lowest + 1, 20000), near]).astype(dtype)
    # Kernels know how wide registers are, and scale otherwise where these are widest.
    found = evaluate("exponential", x, level=level, is_called=True)
    np.testing.assert_array_equal(found, evaluate("exponential", x, level=level))
    assert ulps(found, reference("exponential", x)).max() <= 1.0


def test_kernels_import_called_functions_and_wide_values_are_cut() -> None:
    module = ModuleBuilder("m", vector_bits=256, imports=True)
    f = module.function("f", vector(F32, 64), [("x", vector(F32, 64))])
    f.ret(MATH["tan"](f, MATH["sqrt"](f, f.params[0])))
    assert list(module.imported) == ["ingot.math.tan.f32x32"]
    assert module.text().count("call { <32 x float> } @ingot.math.tan.f32x32") == 2


def test_sine_and_cosine_are_called_together() -> None:
    module = ModuleBuilder("m", vector_bits=512)
    f = module.function("f", VOID, [("x", vector(F32, 32))])
    for value in circle(f, f.params[0]):
        assert value.type is vector(F32, 32)
    f.ret()
    assert module.text().count("call { <32 x float>, <32 x float> } @ingot.math.circle") == 1


def test_gpu_code_has_the_formula_in_place() -> None:
    module = ModuleBuilder("m", "nvptx", imports=True)
    f = module.function("f", F32, [("x", F32)])
    f.ret(MATH["tanh"](f, f.params[0]))
    assert module.imported == {}


@pytest.mark.parametrize("name", ["sine", "cosine", "tan"])
def test_the_argument_that_is_nearest_to_a_multiple_of_half_pi(name: str) -> None:
    # The hardest f64 argument, and neighbours of multiples of pi/2 of all sizes.
    multiples = np.array([k * math.pi / 2 for k in (1, 2, 3, 10**4, 10**9, 10**15)])
    x = np.concatenate([[6381956970095103.0 * 2.0**797], multiples, np.nextafter(multiples, 0)])
    check(name, np.float64, LEVELS[0], [x])
    check(name, np.float32, LEVELS[0], [x[1:].astype(np.float32)])


def test_one_large_lane_does_not_change_its_neighbours() -> None:
    x = np.linspace(-4, 4, 64).astype(np.float32)
    alone = evaluate("sine", x)
    x[5] = 1e30
    together = evaluate("sine", x)
    np.testing.assert_array_equal(np.delete(alone, 5), np.delete(together, 5))
    assert alone[5] != together[5]


@pytest.mark.parametrize("dtype", DTYPES)
def test_remainder_is_exact_where_the_quotient_is_huge(dtype: type) -> None:
    top = np.finfo(dtype).max
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([top, -top, top, 1e30, 7.0, -7.0, 5.5, 3 * tiny], dtype)
    y = np.array([tiny, 3 * tiny, 1.5, 3.0, -2.0, 2.0, math.inf, 2 * tiny], dtype)
    np.testing.assert_array_equal(evaluate("remainder", x, y), np.fmod(x, y))


def test_no_function_calls_libm_where_the_cpu_has_fma() -> None:
    from ingot.llvm.elf import ElfObject
    from ingot.llvm.jit import compile_object

    module = ModuleBuilder("m")
    for element in (F32, F64):
        type = vector(element, 8)
        for name, function in MATH.items():
            f = module.function(f"{name}.{element}", type, [("x", type), ("y", type)])
            f.ret(function(f, *f.params[: function.arity]))
    data = compile_object(module.text(), TargetSpec.at_level("avx2"))
    assert set(ElfObject(data).undefined) <= {"_GLOBAL_OFFSET_TABLE_"}


def test_the_same_formulas_compile_for_the_gpu() -> None:
    module = ModuleBuilder("m", "nvptx")
    for element in (F32, F64):
        for name, function in MATH.items():
            label = f"{name.replace('-', '_')}_{element}"
            f = module.function(label, element, [("x", element), ("y", element)])
            f.ret(function(f, *f.params[: function.arity]))
    text = assembly(module.text(), TargetSpec.nvptx())
    assert "exponential_minus_one_double" in text
    assert ".extern" not in text


def test_other_types_are_refused() -> None:
    f = ModuleBuilder("m").function("f", VOID, [("x", I32)])
    with pytest.raises(InternalError, match="sine of i32"):
        MATH["sine"](f, f.params[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*UNARY])
def test_a_dense_sweep_of_f32(name: str) -> None:
    """Every 2,053rd f32 (2 million); the step is prime, so all mantissa patterns occur.

    `make accuracy` looks at every f32. The reference of erf is a series, so it gets an eighth of
    the numbers.
    """
    step, block = 2053, 1 << 20
    bound = MATH[name].ulp_f32
    kernel(name, "float", 16, None)
    count = block if name not in ("erf", "erfc") else block >> 3
    for start in range(0, (1 << 32) // step, block):
        bits = (np.arange(start, start + count, dtype=np.uint64) * step) & 0xFFFFFFFF
        x = bits.astype(np.uint32).view(np.float32)
        distance = ulps(evaluate(name, x), reference(name, x))
        assert distance.max() <= bound, (name, x[int(np.argmax(distance))])
