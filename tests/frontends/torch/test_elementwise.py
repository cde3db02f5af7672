# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops compiled beside eager: values at the ends of their domains, types, sizes.

Many functions are one graph, which returns a table of results, as compiling takes most of the time.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch.nn import functional

from ingot.support.flags import STRICT, override

INF, NAN = float("inf"), float("nan")
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 7.3, -7.3, 1e-3, -1e-3, 30.0, -30.0, INF,
          -INF, NAN, 0.999, 1e4)  # fmt: skip
INTEGERS = (0, 1, -1, 2, -2, 3, 5, -7, 64, 100, -128, 127)
COMPLEX = (0j, 1 + 0j, -1 + 0j, 1j, -0.5j, 0.3 + 0.4j, -2.5 + 1.5j, 3 - 2j, -0.7 - 0.2j)
TOLERANCE = {
    torch.float64: {"rtol": 2e-14, "atol": 1e-300},
    torch.float32: {"rtol": 2e-6, "atol": 1e-38},
    torch.bfloat16: {"rtol": 8e-3, "atol": 1e-38},
    torch.float16: {"rtol": 1e-3, "atol": 6e-8},
    torch.complex64: {"rtol": 2e-5, "atol": 1e-6},
    torch.complex128: {"rtol": 1e-13, "atol": 1e-14},
}

Table = dict[str, Callable[..., Any]]


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    """Let an op without a rule fail, not run on the host."""
    with override(STRICT, True):
        yield


def _assert_table(table: Table, *args: Any, dynamic: bool = False, **tolerance: float) -> None:
    def all_of_them(*given: Any) -> dict[str, Any]:
        return {name: function(*given) for name, function in table.items()}

    assert_same(all_of_them, *args, dynamic=dynamic, **tolerance)


def _named(*names: str) -> Table:
    return {name: getattr(torch, name) for name in names}


ANY = _named("sign", "isnan", "isinf", "isfinite", "square", "atan", "exp2", "log2", "log10")
REAL = ANY | _named(
    "signbit", "trunc", "frac", "floor", "ceil", "round", "sgn", "angle", "isposinf", "isneginf",
    "nan_to_num", "abs", "neg", "sigmoid", "tanh", "expm1", "log1p", "rsqrt", "reciprocal",
)  # fmt: skip
ACTIVATIONS: Table = {
    "relu": functional.relu,
    "elu": lambda x: functional.elu(x, 1.3),
    "selu": functional.selu,
    "celu": lambda x: functional.celu(x, 0.7),
    # Eager mode's vectors of 512 bits give NaN for infinity.
    "gelu": lambda x: functional.gelu(torch.where(x == INF, 100.0, x)),
    "gelu of tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "leaky": lambda x: functional.leaky_relu(x, 0.1),
    "hardtanh": lambda x: functional.hardtanh(x, -0.5, 2.0),
    "softplus": functional.softplus,
    "silu": functional.silu,
    "mish": functional.mish,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "threshold": lambda x: functional.threshold(x, 0.1, 20.0),
    "softshrink": functional.softshrink,
    "logsigmoid": functional.logsigmoid,
}
TWO: Table = {
    "div": torch.div,
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    **_named("maximum", "minimum", "fmax", "fmin", "lt", "eq", "logical_and", "xlogy"),
}
TWO_FLOATS = TWO | _named("pow", "hypot", "copysign", "atan2", "heaviside", "logaddexp")
BY_NUMBERS: Table = {
    **{f"x ** {n}": lambda x, n=n: x**n for n in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.5)},
    "2.5 ** x": lambda x: 2.5**x,
    "1 ** x": lambda x: 1**x,
    "clamp": lambda x: x.clamp(-0.4, 2),
    "clamp crossed": lambda x: x.clamp(2, -1),
    "clamp below": lambda x: x.clamp(max=0.25),
    "lerp": lambda x: torch.lerp(x, x * 0.5, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "float_power": lambda x: torch.float_power(x, 2),
    "to the right": lambda x: 3 - x,
    "decimals": lambda x: torch.round(x, decimals=1),
    "tens": lambda x: torch.round(x, decimals=-1),
}
EXACT_WITH_NUMBERS: Table = {
    "mul": lambda x: x * 0.1,
    "div": lambda x: x / 0.1,
    "add": lambda x: x + 0.1,
    "sub": lambda x: x - 0.1,
    "reversed": lambda x: 0.1 - x,
    "floor": lambda x: torch.div(x, 0.1, rounding_mode="floor"),
    "trunc": lambda x: torch.div(x, 0.1, rounding_mode="trunc"),
    "remainder": lambda x: x % 0.1,
    "fmod": lambda x: torch.fmod(x, 0.1),
    "less": lambda x: x < 0.1,
    "where": lambda x: torch.where(x > 0, x, 0.1),
    "clamp": lambda x: x.clamp(min=0.1),
    "alpha": lambda x: torch.add(x, x, alpha=0.1),
    "lerp": lambda x: torch.lerp(x, -x, 0.1),
    "decimals": lambda x: torch.round(x, decimals=2),
    "tens": lambda x: torch.round(x, decimals=-1),
    "scalar tensor": lambda x: x * torch.scalar_tensor(0.1),
}


@pytest.mark.parametrize("element", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_unary_ops_and_activations_at_special_values(element: torch.dtype) -> None:
    x = torch.tensor(FLOATS, dtype=element)
    _assert_table(REAL | ACTIVATIONS | BY_NUMBERS, x, **TOLERANCE[element])


def test_gelu_of_infinity_is_infinity() -> None:
    x = torch.tensor([INF] * 20)
    assert torch.equal(torch.compile(functional.gelu, backend="ingot")(x), x)


@pytest.mark.parametrize("element", [torch.float32, torch.float64, torch.bfloat16])
def test_binary_ops_at_pairs_of_special_values(element: torch.dtype) -> None:
    left, right = zip(*product(FLOATS, FLOATS), strict=True)
    x, y = torch.tensor(left, dtype=element), torch.tensor(right, dtype=element)
    _assert_table(TWO_FLOATS, x, y, **TOLERANCE[element])


def test_next_floats_and_exponents() -> None:
    bits = torch.tensor([1e-310, 5e-324, 3.0, -6.5, 0.0, INF, NAN, 1e300], dtype=torch.float64)
    table: Table = {
        "up": lambda x: torch.nextafter(x, torch.full_like(x, INF)),
        "to zero": lambda x: torch.nextafter(x, torch.zeros_like(x)),
        "ldexp": lambda x: torch.ldexp(x, torch.arange(-4, 4)),
        "log2": torch.log2,
    }
    _assert_table(table, bits, rtol=1e-15, atol=0.0)
    _assert_table(table, bits.float(), rtol=1e-6, atol=0.0)
    finite = bits[torch.isfinite(bits)]
    assert_same(torch.frexp, finite, rtol=0.0, atol=0.0)
    assert_same(torch.frexp, torch.tensor([1e-40, -3.5, 0.0, 1e30]), rtol=0.0, atol=0.0)


def test_logarithms_of_powers_are_whole() -> None:
    twos = 2.0 ** torch.arange(-140, 127, dtype=torch.float64)
    _assert_table(_named("log2"), twos.float(), rtol=0.0, atol=0.0)
    _assert_table(_named("log2"), twos, rtol=0.0, atol=0.0)
    exponents = torch.arange(-1080, 1030, 7, dtype=torch.float64)
    _assert_table(_named("exp2"), exponents, rtol=0.0, atol=0.0)
    tens = torch.tensor([10.0**n for n in range(23)], dtype=torch.float64)
    _assert_table({"floor": lambda x: torch.log10(x).floor()}, tens, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("element", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_integers(element: torch.dtype) -> None:
    kept = [n for n in INTEGERS if torch.iinfo(element).min <= n <= torch.iinfo(element).max]
    pairs = [(x, y) for x, y in product(kept, kept) if y != 0 and (x, y) != (-128, -1)]
    left, right = zip(*pairs, strict=True)
    x, y = torch.tensor(left, dtype=element), torch.tensor(right, dtype=element)
    table = TWO | _named("gcd", "lcm", "bitwise_and", "bitwise_xor", "mul", "sub", "pow", "hypot")
    if element is not torch.int64:
        table.pop("lcm")  # eager's overflows in another width
    del table["hypot"]
    table["shift left"] = torch.bitwise_left_shift
    table["shift right"] = torch.bitwise_right_shift
    table["power"] = lambda x, y: x**2 + x**3 - 2**y
    table["unary"] = lambda x, y: (torch.sign(x), torch.signbit(x), torch.isnan(y), x // 3, x % -3)
    table["floats"] = lambda x, y: (torch.sqrt(x.abs()), torch.atan(y), x / 3, x * 1.5, x < 2.5)
    table["rounded"] = lambda x, y: (torch.ceil(x), torch.round(y), torch.trunc(x), ~x, -y)
    _assert_table(table, x, y)


def test_truth_values() -> None:
    x = torch.tensor([True, True, False, False])
    y = torch.tensor([True, False, True, False])
    table: Table = {
        "sum": lambda x, y: (x + y, x * y, x | y, x & y, x ^ y, ~x),
        "floats": lambda x, y: (x / 2, x * 0.5, torch.exp(y), x + 1.5),
        "sign": lambda x, y: (torch.sign(x), torch.sgn(y), torch.isnan(x), x < y),
        "extremes": lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), x.where(y, False)),
    }
    _assert_table(table, x, y)


@pytest.mark.parametrize("element", [torch.bfloat16, torch.float16])
def test_half_types_beside_numbers_are_rounded_as_eager_rounds(element: torch.dtype) -> None:
    torch.manual_seed(0)
    x = (torch.randn(257) * 10).to(element)
    _assert_table(EXACT_WITH_NUMBERS, x, rtol=0.0, atol=0.0)


def test_integers_divided_by_zero_end_the_program() -> None:
    compiled = torch.compile(lambda x, y: (x // y, x + y), backend="ingot", fullgraph=True)
    x, y = torch.tensor([7, -8]), torch.tensor([2, 3])
    assert compiled(x, y)[0].tolist() == [3, -3]
    with pytest.raises(Exception, match="ZeroDivisionError"):
        compiled(x, torch.tensor([2, 0]))


@pytest.mark.parametrize("element", [torch.complex64, torch.complex128])
def test_complex_numbers(element: torch.dtype) -> None:
    x = torch.tensor(COMPLEX, dtype=element)
    y = torch.tensor(COMPLEX[::-1], dtype=element)
    table: Table = {
        "arithmetic": lambda x, y: (x + y, x * y, x - 2j * y, x / (y + 5), x**2),
        "parts": lambda x, y: (x.real, x.imag + 1, torch.view_as_real(y), torch.abs(x)),
        "angles": lambda x, y: (torch.angle(x), torch.sgn(y), torch.polar(x.real.abs(), y.imag)),
        "conjugates": lambda x, y: (x.conj() * y, x.conj().imag, x.mH if x.ndim > 1 else x.conj()),
        "made": lambda x, y: (torch.complex(x.real, y.imag), torch.view_as_complex(
            torch.stack((x.imag, y.real), -1))),
        "functions": lambda x, y: (x.exp(), (x + 3).log(), x.sqrt(), x.sin(), x.tanh(), x.atan()),
        "tests": lambda x, y: (torch.isnan(x), torch.isinf(x), x == y, torch.isfinite(x)),
        "bases": lambda x, y: (torch.exp2(x), torch.log2(x + 3), torch.log10(x + 3)),
    }  # fmt: skip
    _assert_table(table, x, y, **TOLERANCE[element])
    assert_same(lambda z: z * 2 + z.imag, x.conj(), **TOLERANCE[element])


@pytest.mark.parametrize("dims", [(), (0,), (1,), (13, 7), (3, 0, 2), (2, 1, 5)])
def test_sizes_and_broadcasting(dims: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    x, row = torch.randn(dims), torch.randn(5 if dims[-1:] == (5,) else 1)
    table: Table = {
        "with a row": lambda x, row: (x * row, torch.fmod(x, row), torch.hypot(x, row)),
        "with a number": lambda x, row: (x**3, x // 0.3, x.clamp(min=row.sum())),
        "of a scalar": lambda x, row: (torch.lerp(x, row.sum(), 0.7), torch.copysign(x, row[0])),
        "special": lambda x, row: (torch.lgamma(x), torch.erfc(x), torch.special.i1(x)),
    }
    _assert_table(table, x, row, rtol=1e-5, atol=1e-6)


def test_sizes_may_be_symbolic_and_numbers_made_of_them() -> None:
    def scaled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        count = x.shape[0]
        return (
            x * (count**0.5), x / count, x * (count / 3), torch.add(x, x, alpha=count / 3),
            x.clamp(min=count / 20), torch.pow(x, count), torch.gcd(x.long(), x.long() + count),
            functional.leaky_relu(x, count / 30), x.bfloat16() * (count / 7), x % count,
            torch.full((2,), count / 7), torch.lerp(x, x.exp(), count / 50),
        )  # fmt: skip

    torch._dynamo.reset()
    for count in (5, 7, 11):
        x = torch.linspace(-3, 3, count)
        assert_same(scaled, x, dynamic=True, fresh=False, rtol=1e-5, atol=1e-6)


def test_gradients() -> None:
    def total(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made = [table(x) for table in ACTIVATIONS.values()]
        made += [torch.hypot(x, y), torch.lgamma(y), torch.erfc(x), torch.atan2(x, y), x / y]
        made += [torch.fmod(x, y), torch.lerp(x, y, 0.3), torch.logaddexp(x, y), y**2.5, y**x]
        made += [functional.hardshrink(x), functional.glu(torch.stack((x, y)), 0).sum() * x]
        return torch.stack(made).sum()

    torch.manual_seed(2)
    x = torch.randn(17, requires_grad=True)
    y = (torch.rand(17) + 0.5).requires_grad_()
    assert_same(total, x, y, grad=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad"])
def test_optimizers_on_lists_of_tensors_are_compiled(kind: str) -> None:
    torch.manual_seed(0)
    starts = [torch.randn(7, 5), torch.randn(5), torch.randn(3, 2, 2)]
    gradients = [[torch.randn_like(start) for start in starts] for _ in range(3)]
    options: dict[str, Any] = {"momentum": 0.9} if kind == "SGD" else {}
    found: list[list[torch.Tensor]] = []
    for is_compiled in (False, True):
        torch._dynamo.reset()
        parameters = [torch.nn.Parameter(start.clone()) for start in starts]
        optimizer = getattr(torch.optim, kind)(parameters, lr=0.01, foreach=True, **options)
        step = torch.compile(optimizer.step, backend="ingot") if is_compiled else optimizer.step
        for row in gradients:
            for parameter, gradient in zip(parameters, row, strict=True):
                parameter.grad = gradient.clone()
            step()
        found.append([parameter.detach() for parameter in parameters])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)
