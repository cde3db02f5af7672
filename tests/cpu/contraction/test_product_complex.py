# SPDX-License-Identifier: Apache-2.0
"""Large products of complex matrices run in drivers, wherever their operands' axes lie."""

import numpy as np
import pytest

import ingot
from ingot.client import compile
from ingot.evaluator import evaluate
from ingot.llvm.target import TargetSpec, host_levels

SEED = 1
NUMPY = {"c64": np.complex64, "c128": np.complex128}
PLACES = [
    # lhs, rhs as axes b, m, n, k
    ("mk", "kn"),
    ("km", "kn"),
    ("mk", "nk"),
    ("bmk", "bkn"),
    ("mkb", "knb"),
]
SIZES = [{"b": 3, "m": 41, "n": 37, "k": 33}, {"b": 2, "m": 64, "n": 48, "k": 1030}]


def _program(element, lhs, rhs, sizes, end=""):
    def shape(axes):
        return f"{element}[{','.join(str(sizes[axis]) for axis in axes)}]"

    batches = f"lhs_batch_dims={{{lhs.find('b')}}}, rhs_batch_dims={{{rhs.find('b')}}}, "
    result = shape("bmn" if "b" in lhs else "mn")
    return ingot.parse_hlo(f"""HloModule product

ENTRY main {{
  x = {shape(lhs)} parameter(0)
  y = {shape(rhs)} parameter(1)
  {"" if end else "ROOT "}z = {result} dot(x, y), {batches if "b" in lhs else ""}\
lhs_contracting_dims={{{lhs.find("k")}}}, rhs_contracting_dims={{{rhs.find("k")}}}
  {end.format(result=result, real=result.replace("c64", "f32").replace("c128", "f64"))}
}}
""")


def _value(element, axes, sizes):
    """Return numbers that are the same whichever tests ran before."""
    dims = [sizes[axis] for axis in axes]
    random = np.random.default_rng([SEED, *map(ord, axes)])
    value = random.standard_normal(dims) + 1j * random.standard_normal(dims)
    return value.astype(NUMPY[element])


def _error(element, k):
    """Return what a sum of `k` products of normal numbers may be off, added one by one.

    Each part is a sum of 2k products; it grows to sqrt(2k), and is rounded 2k times by up to half
    an ulp of that: a random walk of sqrt(2k) steps of 0.29 sqrt(2k) eps at most. Eight deviations
    of it are never met.
    """
    return 8 * 0.29 * 2 * (k + 1) * float(np.finfo(NUMPY[element]).eps)


@pytest.mark.slow
@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize(("lhs", "rhs"), PLACES)
@pytest.mark.parametrize("element", NUMPY)
def test_every_order_of_axes(element, lhs, rhs, level):
    for sizes in SIZES:
        executable = compile(_program(element, lhs, rhs, sizes), target=TargetSpec.host(level))
        compiled = executable.inspection.compiled.kernels.compiled.values()
        names = [part.name for kernel in compiled for part in kernel.shared]
        assert any(name.startswith(f"product_{element}") for name in names)
        x, y = _value(element, lhs, sizes), _value(element, rhs, sizes)
        out = "bmn" if "b" in lhs else "mn"
        expected = np.einsum(f"{lhs},{rhs}->{out}", x.astype(complex), y.astype(complex))
        np.testing.assert_allclose(executable(x, y), expected, atol=_error(element, sizes["k"]))


@pytest.mark.parametrize(
    "end",
    [
        "ROOT w = {result} multiply(z, z)",
        "ROOT w = {real} abs(z)",
        "r = {real} real(z)\n  i = {real} imag(z)\n  ROOT w = ({real}, {real}) tuple(r, i)",
    ],
)
def test_what_comes_after_a_product(end):
    """One result is made of the sums while they are in the cache; of two each reads them."""
    program = _program("c64", "mk", "kn", SIZES[0], end)
    executable = compile(program)
    assert len(executable.inspection.compiled.kernels.compiled) == (3 if "tuple" in end else 1)
    x, y = _value("c64", "mk", SIZES[0]), _value("c64", "kn", SIZES[0])
    found, expected = executable(x, y), evaluate(program, [x, y])
    for one, other in zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_what_comes_before_a_product_reaches_memory():
    """Nothing computes while operands are packed: the driver's code is the library's."""
    program = ingot.parse_hlo("""HloModule product

ENTRY main {
  x = c64[40,40] parameter(0)
  t = c64[40,40] transpose(x), dimensions={1,0}
  s = c64[40,40] slice(t), slice={[0:40], [0:40]}
  c = c64[40,40] multiply(s, x)
  two = c64[] constant((2, 1))
  u = c64[40,40] broadcast(two), dimensions={}
  z = c64[40,40] dot(c, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT w = c64[40,40] dot(z, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""")
    x = _value("c64", "mm", {"m": 40})
    np.testing.assert_allclose(compile(program)(x), evaluate(program, [x]), rtol=1e-3, atol=1e-2)
