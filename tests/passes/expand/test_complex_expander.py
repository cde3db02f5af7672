# SPDX-License-Identifier: Apache-2.0
"""Complex numbers on the CPU: every op against the evaluator, and against real XLA.

Real XLA flushes denormals, loses signs of zeros and some infinities of complex functions; at
special values it counts only where it and the evaluator agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.complex_programs import PROGRAMS
from tests.support.op_cases import flat
from tests.support.real_xla import run_hlo_text

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.runner import run_passes
from ingot.passes.expand.complex_expander.expander import complex_expander
from ingot.passes.expand.complex_expander.functions import BINARY, UNARY
from ingot.passes.expand.complex_expander.rules import MOVES
from ingot.passes.expand.select_and_scatter import select_and_scatter_expander

pytestmark = pytest.mark.fast_share(16)

NAMES = {"c64": "c128", "c128": "c64", "f32": "f64"}
WIDTHS = pytest.mark.parametrize("wide", [False, pytest.param(True, marks=pytest.mark.slow)])


def _text(name: str, wide: bool) -> str:
    text = "HloModule m\n" + PROGRAMS[name]
    if wide:
        for number, (old, new) in enumerate(NAMES.items()):
            text = text.replace(f"{old}[", f"<{number}>[") if new != old else text
        for number, new in enumerate(NAMES.values()):
            text = text.replace(f"<{number}>[", f"{new}[")
    return text


def _inputs(module: Module) -> list[Any]:
    rng = np.random.default_rng(3)
    made: list[Any] = []
    for shape in module.parameter_shapes:
        re, im = rng.standard_normal((2, *shape.static_dims)) / 2
        if shape.dtype.is_complex:
            made.append((re + 1j * im).astype(shape.dtype.numpy))
        else:
            made.append((re > 0) if shape.dtype.name == "pred" else re.astype(shape.dtype.numpy))
    return made


def _check(got: Any, want: Any, tolerance: float) -> None:
    for one, other in zip(flat(got), flat(want), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@WIDTHS
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, wide: bool) -> None:
    text = _text(name, wide)
    inputs = _inputs(parse(text))
    want = evaluate(parse(text), inputs)
    _check(ingot.compile(parse(text))(*inputs), want, 1e-13 if wide else 1e-5)


@pytest.mark.slow
@WIDTHS
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_on_real_xla(name: str, wide: bool) -> None:
    text = _text(name, wide)
    inputs = _inputs(parse(text))
    found = evaluate(parse(text), inputs)
    _check(tuple(flat(found)), tuple(run_hlo_text(text, inputs)), 1e-12 if wide else 1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_complex_numbers_are_only_moved_afterwards(name: str) -> None:
    module = parse(_text(name, False))
    run_passes(select_and_scatter_expander, module, PassContext())
    run_passes(complex_expander, module, PassContext(debug=1, to_text=print_module))
    module = parse(print_module(module))
    left = {
        instruction.opcode
        for computation in module.post_order()
        for instruction in computation.instructions
        if instruction.shape.dtype.is_complex
    }
    borders = {"parameter", "complex", "constant", "get-tuple-element"}
    assert left <= borders | MOVES | {"scatter"}
    assert not run_passes(complex_expander, module, PassContext())


# ---- elementwise functions

ALL = (*UNARY, "abs", "negate", *BINARY, "add", "subtract")
LOSES = {"atan2": 1e-4, "power": 2e-4}
"""Functions whose formula loses digits (so does XLA's): tolerance in f32."""
_PARTS = [0.0, -0.0, 1.0, -1.5, 0.3, 3e38, np.inf, -np.inf, np.nan]


def _program(opcode: str, element: str, count: int) -> str:
    result = {"c64": "f32", "c128": "f64"}[element] if opcode == "abs" else element
    second = "" if opcode in (*UNARY, "abs", "negate") else ", y"
    return f"""HloModule m
ENTRY e {{
  x = {element}[{count}] parameter(0)
  y = {element}[{count}] parameter(1)
  ROOT r = {result}[{count}] {opcode}(x{second})
}}"""


def _numbers(element: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    re, im = rng.standard_normal((2, 2, 500)) * np.array([1, 1e-3, 5, 1, 0.1]).repeat(100)
    x, y = (re + 1j * im).astype({"c64": np.complex64, "c128": np.complex128}[element])
    return x, y / np.maximum(1, np.abs(y))


@WIDTHS
@pytest.mark.parametrize("opcode", ALL)
def test_function(opcode: str, wide: bool) -> None:
    x, y = _numbers("c128" if wide else "c64")
    text = _program(opcode, "c128" if wide else "c64", len(x))
    want = np.asarray(evaluate(parse(text), [x, y]))
    got = np.asarray(ingot.compile(parse(text))(x, y))
    tolerance = LOSES.get(opcode, 2e-6) * (1e-8 if wide else 1)
    assert np.all(np.abs(got - want) <= tolerance * np.maximum(np.abs(want), 1e-30))


@pytest.mark.slow
@pytest.mark.parametrize("opcode", sorted(set(ALL) - {
    "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "maximum", "minimum"}))  # fmt: skip
def test_function_on_real_xla(opcode: str) -> None:
    """Real XLA has no code for what is left out; its maximum compares real parts only."""
    x, y = _numbers("c64")
    text = _program(opcode, "c64", len(x))
    want = np.asarray(evaluate(parse(text), [x, y]))
    (found,) = run_hlo_text(text, [x, y])
    assert np.all(np.abs(found - want) <= 1e-4 * np.maximum(np.abs(want), 1e-3))


def _special() -> tuple[Any, Any]:
    grid = np.array([complex(a, b) for a in _PARTS for b in _PARTS], np.complex64)
    pairs = np.array([(a, b) for a in grid[::2] for b in grid[::3]])
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def _agrees(one: Any, other: Any) -> Any:
    """Whether parts are equal, of one sign if they are zeros, or NaN both."""
    near = np.isclose(one, other, rtol=2e-5, atol=1e-37, equal_nan=True)
    return near & ((one != 0) | np.isnan(other) | (np.signbit(one) == np.signbit(other)))


def _parts(value: Any) -> Any:
    return np.stack([np.real(value), np.imag(value)])


_EXACT = (
    "abs", "negate", "sign", "sqrt", "rsqrt", "log", "log-plus-one", "add", "subtract", "multiply",
    "divide", "maximum", "minimum",
)  # fmt: skip
"""What C99 says of every special value. The rest is NaN for an infinite angle, or where XLA is."""


@pytest.mark.parametrize("opcode", sorted(set(ALL) - {"power", "atan2"}))
def test_special_values(opcode: str) -> None:
    x, y = _special()
    text = _program(opcode, "c64", len(x))
    want = _parts(evaluate(parse(text), [x, y]))
    got = _parts(ingot.compile(parse(text))(x, y))
    good = _agrees(got, want)
    if opcode not in _EXACT:
        usual = np.isfinite(x) & (np.abs(x) < 1e30)
        good |= ~usual & (np.isnan(got) | np.isnan(want) | (got == want))
    assert good.all(), (opcode, x[~good.all(0)], got[:, ~good.all(0)], want[:, ~good.all(0)])


def test_special_values_of_one_divided() -> None:
    x, _ = _special()
    count = len(x)
    text = f"""HloModule m
ENTRY e {{
  x = c64[{count}] parameter(0)
  one = c64[] constant((1, 0))
  ones = c64[{count}] broadcast(one), dimensions={{}}
  ROOT r = c64[{count}] divide(ones, x)
}}"""
    want, got = _parts(evaluate(parse(text), [x])), _parts(ingot.compile(parse(text))(x))
    good = _agrees(got, want)
    assert good.all(), (x[~good.all(0)], got[:, ~good.all(0)], want[:, ~good.all(0)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "opcode", sorted({*_EXACT, "exponential", "tanh"} - {"maximum", "minimum"})
)
def test_special_values_on_real_xla(opcode: str) -> None:
    x, y = _special()
    text = _program(opcode, "c64", len(x))
    want, xla = _parts(evaluate(parse(text), [x, y])), _parts(run_hlo_text(text, [x, y])[0])
    got = _parts(ingot.compile(parse(text))(x, y))
    agreed = _agrees(want, xla)
    assert agreed.mean() > 0.75
    assert _agrees(got, want)[agreed].all()


@pytest.mark.parametrize(
    ("left", "right", "result", "numbers"),
    [
        ("40,50", "50,60", "40,60", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("50,40", "30,50", "40,30", "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
        (
            "3,40,20",
            "3,20,40",
            "3,40,40",
            "lhs_batch_dims={0}, lhs_contracting_dims={2}, "
            "rhs_batch_dims={0}, rhs_contracting_dims={1}",
        ),
        ("8,5,60,6", "6,70,8", "5,60,70", "lhs_contracting_dims={0,3}, rhs_contracting_dims={2,0}"),
        ("200,200", "200", "200", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ],
)
def test_large_products_are_one_real_product(left, right, result, numbers):
    module = ingot.parse_hlo(f"""HloModule m
    ENTRY e {{
      a = c64[{left}] parameter(0)
      b = c64[{right}] parameter(1)
      ROOT c = c64[{result}] dot(a, b), {numbers}
    }}""")
    random = np.random.default_rng(0)
    sizes = [tuple(map(int, dims.split(","))) for dims in (left, right)]
    a, b = (
        (random.standard_normal(size) + 1j * random.standard_normal(size)).astype(np.complex64)
        for size in sizes
    )
    program = ingot.compile(module)
    np.testing.assert_allclose(program(a, b), evaluate(module, [a, b]), rtol=1e-4, atol=1e-4)
    if result != "200":
        assert program.as_text("hlo").count(" dot(") == 1


def test_large_product_of_computed_values_used_by_others():
    module = ingot.parse_hlo("""HloModule m
    ENTRY e {
      a = c128[40,50] parameter(0)
      b = c128[50,60] parameter(1)
      twice = c128[40,50] add(a, a)
      root = c128[50,60] tanh(b)
      c = c128[40,60] dot(twice, root), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      d = c128[40,60] multiply(c, c)
      size = f64[40,60] abs(c)
      ROOT all = (c128[40,60], f64[40,60], c128[40,60]) tuple(c, size, d)
    }""")
    random = np.random.default_rng(0)
    a, b = (
        random.standard_normal(d) + 1j * random.standard_normal(d) for d in ((40, 50), (50, 60))
    )
    program = ingot.compile(module)
    for got, want in zip(program(a, b), evaluate(module, [a, b]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
    assert program.as_text("hlo").count(" dot(") == 1


def test_products_of_symbolic_size():
    module = ingot.parse_hlo("""HloModule m
    ENTRY e {
      a = c64[?m,?k] parameter(0)
      b = c64[?k,?n] parameter(1)
      ROOT c = c64[?m,?n] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }""")
    program = ingot.compile(module)
    random = np.random.default_rng(0)
    for m, k, n in ((1, 1, 1), (3, 5, 2), (40, 33, 20)):
        a, b = (
            (random.standard_normal(d) + 1j * random.standard_normal(d)).astype(np.complex64)
            for d in ((m, k), (k, n))
        )
        np.testing.assert_allclose(program(a, b), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c64[3,2]", "c128[3]"),
        ("c128[3]", "c64[3,2]"),
        ("c64[3]", "c64[3]"),
    ],
)
def test_bits_of_complex_numbers(before: str, after: str) -> None:
    module = parse(
        f"HloModule m\nENTRY e {{ x = {before} parameter(0) ROOT r = {after} bitcast-convert(x) }}"
    )
    (shape,) = module.parameter_shapes
    bits = np.random.default_rng(5).integers(0, 100, 48, np.uint8)
    x = np.resize(bits.view(shape.dtype.numpy), shape.static_dims)
    got = np.asarray(ingot.compile(module)(x))
    assert got.tobytes() == np.asarray(evaluate(module, [x])).tobytes()
