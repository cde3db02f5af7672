# SPDX-License-Identifier: Apache-2.0
"""Special functions compiled beside eager, and beside SciPy where eager has lost digits."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special as scipy_special  # type: ignore[import-untyped]
from tests.frontends.torch.compare import assert_same

from ingot.support.flags import STRICT, override

INF, NAN = float("inf"), float("nan")
ENDS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, 1e-8, 1e-3, -1e-5, 25.0, INF, -INF, NAN, 0.9999,
        0.1, -20.5)  # fmt: skip
SPECIAL: Any = torch.special


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    """Let an op without a rule fail, not run on the host."""
    with override(STRICT, True):
        yield


def _arguments(element: torch.dtype) -> torch.Tensor:
    spread = torch.linspace(-9, 9, 61, dtype=torch.float64)
    return torch.cat([torch.tensor(ENDS, dtype=torch.float64), spread]).to(element)


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{name: getattr(torch, name) for name in ("lgamma", "digamma", "erfinv", "erfc", "i0")},
    **{
        name: getattr(SPECIAL, name)
        for name in (
            "erfcx", "ndtri", "ndtr", "log_ndtr", "i0e", "i1", "i1e", "modified_bessel_i0",
            "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
            "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "bessel_j0", "bessel_j1",
            "bessel_y0", "bessel_y1", "spherical_bessel_j0", "airy_ai", "entr",
        )
    },
    "sinc": torch.sinc,
    "logit": torch.logit,
    "mvlgamma": lambda x: torch.mvlgamma(x.abs() + 2, 3),
    "polygamma 0": lambda x: torch.polygamma(0, x),
    "polygamma 2": lambda x: torch.polygamma(2, x.clamp(-9, 9)),
}  # fmt: skip


@pytest.mark.parametrize(("element", "rtol"), [(torch.float64, 2e-12), (torch.float32, 2e-4)])
def test_functions_of_one_number(element: torch.dtype, rtol: float) -> None:
    """Eager's own f32 functions have errors of 1e-4 next to their zeros."""

    def all_of_them(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {name: function(x) for name, function in UNARY.items()}

    atol = 1e-13 if element is torch.float64 else 2e-6
    assert_same(all_of_them, _arguments(element), rtol=rtol, atol=atol)


POLYNOMIALS = sorted(name for name in dir(SPECIAL) if "polynomial" in name)


@pytest.mark.parametrize(("element", "rtol"), [(torch.float64, 1e-11), (torch.float32, 2e-4)])
def test_polynomials_of_degrees_that_are_data(element: torch.dtype, rtol: float) -> None:
    values = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 0.3, -0.99, 1.001)
    degrees = (-1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 9.0, 2.7, 12.0)
    x, n = (torch.tensor(row, dtype=element) for row in zip(*product(values, degrees), strict=True))

    def all_of_them(x: torch.Tensor, n: torch.Tensor) -> dict[str, Any]:
        found = {name: getattr(SPECIAL, name)(x, n) for name in POLYNOMIALS}
        return found | {"of 4": SPECIAL.legendre_polynomial_p(x, 4.0)}

    assert_same(all_of_them, x, n, rtol=rtol, atol=1e-11 if element is torch.float64 else 2e-5)


def test_functions_of_two_numbers() -> None:
    values = (0.5, 1.0, 1.5, 3.0, 7.3, 20.0, 0.0, INF)
    a, x = (
        torch.tensor(r, dtype=torch.float64) for r in zip(*product(values, values), strict=True)
    )

    def all_of_them(a: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inside = torch.isfinite(a) & torch.isfinite(x)
        zeta = torch.where(inside, SPECIAL.zeta(a + 1.5, x), 0.0)
        return torch.igamma(a, x), torch.igammac(a, x), zeta, SPECIAL.zeta(3.0, x.clamp(max=9))

    assert_same(all_of_them, a, x, rtol=2e-9, atol=1e-12)  # eager's igammac has errors of 1e-9


BESIDE_SCIPY: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., Any]]] = {
    "erfc": (torch.erfc, scipy_special.erfc),
    "erfcx": (SPECIAL.erfcx, scipy_special.erfcx),
    "ndtri": (lambda x: SPECIAL.ndtri(x.abs().clamp(max=0.4)),
              lambda x: scipy_special.ndtri(np.minimum(np.abs(x), 0.4))),
    "trigamma": (lambda x: torch.polygamma(1, x), lambda x: scipy_special.zeta(2, np.abs(x))),
    "zeta": (lambda x: SPECIAL.zeta(4.0, x.abs()), lambda x: scipy_special.zeta(4, np.abs(x))),
    "i1": (SPECIAL.i1, scipy_special.i1),
    "igamma": (lambda x: torch.igamma(x * 1.3 + 0.2, x),
               lambda x: scipy_special.gammainc(x * 1.3 + 0.2, x)),
    "igammac": (lambda x: torch.igammac(x * 0.6 + 0.2, x),
                lambda x: scipy_special.gammaincc(x * 0.6 + 0.2, x)),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE_SCIPY)
def test_functions_have_all_digits(name: str) -> None:
    function, reference = BESIDE_SCIPY[name]
    x = np.concatenate(
        [np.geomspace(1e-12, 26, 40), [] if name != "erfc" else -np.geomspace(0.1, 9)]
    )
    compiled = torch.compile(function, backend="ingot", fullgraph=True)
    np.testing.assert_allclose(compiled(torch.from_numpy(x)).numpy(), reference(x), rtol=5e-14)
