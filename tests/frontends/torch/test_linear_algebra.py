# SPDX-License-Identifier: Apache-2.0
"""Matrix products, factorizations and Fourier transforms beside eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch import Tensor

from ingot.formats.hlo_text import print_module
from ingot.frontends.torch.graphs import recorded_graphs

KINDS = (torch.float32, torch.float64, torch.complex64, torch.int64, torch.int8)


def _random(*dims: int, kind: torch.dtype = torch.float64) -> Tensor:
    if kind.is_floating_point or kind.is_complex:
        return torch.randn(dims, dtype=kind)
    return torch.randint(-9, 9, dims).to(kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_products(kind: torch.dtype) -> None:
    def function(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        scaled = torch.addmm(z, x, y, beta=2, alpha=3)
        batch = torch.baddbmm(z[None], x[None], y[None], beta=0)
        return x @ y, torch.mv(x, y[:, 0]), scaled, batch, torch.addbmm(z, x[None], y[None])

    assert_same(function, *(_random(*dims, kind=kind) for dims in ((3, 5), (5, 7), (3, 7))))


def test_products_of_nothing_are_zeros() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x @ y, torch.addmm(torch.ones(3, 4), x, y)

    assert_same(function, torch.ones(3, 0), torch.ones(0, 4))


def test_halves_are_rounded_once() -> None:
    """The sum of a long product and a small bias is the rounded exact one."""
    x, y = (torch.randn(8, 512).bfloat16() for _ in range(2))
    bias = torch.randn(8).bfloat16()
    compiled = torch.compile(torch.addmm, backend="ingot")
    exact = bias.double() + x.double() @ y.T.double()
    torch.testing.assert_close(compiled(bias, x, y.T), exact.bfloat16(), rtol=0.004, atol=0.004)


def _positive(kind: torch.dtype) -> Tensor:
    x = _random(2, 4, 4, kind=kind)
    return x @ x.mH + 4 * torch.eye(4, dtype=kind)


FACTORIZATIONS: dict[str, Callable[[Tensor], Any]] = {
    "cholesky_ex": torch.linalg.cholesky_ex,
    "lu_factor_ex": torch.linalg.lu_factor_ex,
    "lu": torch.linalg.lu,
    "qr": torch.linalg.qr,
    "inv_ex": torch.linalg.inv_ex,
    "det": torch.linalg.det,
    "slogdet": torch.linalg.slogdet,
    "matrix_exp": torch.linalg.matrix_exp,
    "eigvalsh": torch.linalg.eigvalsh,
    "svdvals": torch.linalg.svdvals,
}


@pytest.mark.parametrize("kind", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_factorizations(name: str, kind: torch.dtype) -> None:
    def function(x: Tensor) -> Any:
        return FACTORIZATIONS[name](x)

    assert_same(function, _positive(kind) / 4, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("function", "has_vectors"),
    [
        (torch.linalg.svdvals, False),
        (torch.linalg.eigvalsh, False),
        (torch.linalg.cond, False),
        (torch.linalg.eigh, True),
        (lambda x: torch.linalg.svd(x)[2], True),
    ],
)
def test_vectors_that_nothing_uses(function: Callable[[Tensor], Any], has_vectors: bool) -> None:
    """PyTorch asks for them while it traces; LAPACK's mode N takes a third of the time."""
    with recorded_graphs() as graphs:
        torch.compile(lambda x: function(x), backend="ingot")(_positive(torch.float64))
    text = "".join(print_module(made.source) for one in graphs for made in one.executables)
    assert ("mode = 78 : ui8" not in text) == has_vectors


@pytest.mark.parametrize("kind", [torch.float64, torch.complex128], ids=str)
def test_pseudoinverses_leave_out_small_singular_values(kind: torch.dtype) -> None:
    def function(x: Tensor, square: Tensor, least: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.linalg.pinv(x), torch.linalg.pinv(x, rtol=0.5), torch.linalg.pinv(x, atol=least),
            torch.linalg.pinv(x @ x.mH, rtol=1e-6), torch.linalg.pinv(square, hermitian=True),
            torch.linalg.pinv(x[:, :0]),
        )  # fmt: skip

    least = torch.tensor([0.1, 2.0], dtype=torch.float64)
    assert_same(function, _random(2, 5, 3, kind=kind), _positive(kind), least, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dims", [(0, 0), (2, 0, 0), (0, 3, 3)], ids=str)
def test_factorizations_of_nothing(dims: tuple[int, ...]) -> None:
    def function(x: Tensor) -> Any:
        return [factorize(x) for factorize in FACTORIZATIONS.values()]

    assert_same(function, torch.zeros(dims, dtype=torch.float64))


def test_factorizations_of_matrices_without_columns() -> None:
    def function(x: Tensor) -> Any:
        q, r = torch.linalg.qr(x, mode="complete")
        return q, r, *torch.linalg.svd(x), *torch.linalg.lu(x)

    assert_same(function, torch.zeros(2, 3, 0, dtype=torch.float64))


@pytest.mark.parametrize("name", ["det", "slogdet", "cholesky_ex", "inv_ex"])
def test_gradients_of_factorizations(name: str) -> None:
    def function(x: Tensor) -> Any:
        made = FACTORIZATIONS[name](x)
        return made[0] if name.endswith("_ex") else made

    x = _positive(torch.float64).requires_grad_(True)
    assert_same(function, x, grad=True, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_solutions_from_a_factorization(left: bool, adjoint: bool) -> None:
    def function(lu: Tensor, pivots: Tensor, right: Tensor) -> Tensor:
        return torch.linalg.lu_solve(lu, pivots, right, left=left, adjoint=adjoint)

    lu, pivots = torch.linalg.lu_factor(_positive(torch.complex128))
    dims = (2, 4, 3) if left else (2, 3, 4)
    assert_same(function, lu, pivots, _random(*dims, kind=torch.complex128))


TRANSFORMS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...], torch.dtype]] = {
    "fft_middle": (lambda x: torch.fft.fft(x, dim=1), (3, 5, 4), torch.complex128),
    "fftn_4d": (lambda x: torch.fft.fftn(x, norm="ortho"), (2, 3, 5, 4), torch.complex128),
    "ifft2": (lambda x: torch.fft.ifft2(x, norm="forward"), (3, 5, 4), torch.complex128),
    "rfft": (torch.fft.rfft, (3, 7), torch.float64),
    "rfft2_turned": (lambda x: torch.fft.rfft2(x, dim=(2, 0)), (4, 3, 6), torch.float64),
    "fft_real": (torch.fft.fft, (3, 7), torch.float64),
    "irfft": (lambda x: torch.fft.irfft(x, 7), (3, 4), torch.complex128),
    "irfft_cut": (lambda x: torch.fft.irfft(x, 4, norm="ortho"), (3, 9), torch.complex128),
    "irfft2": (torch.fft.irfft2, (3, 5, 4), torch.complex128),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_and_their_gradients(name: str) -> None:
    function, dims, kind = TRANSFORMS[name]
    assert_same(function, _random(*dims, kind=kind).requires_grad_(True), grad=True)
