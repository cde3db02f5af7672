# SPDX-License-Identifier: Apache-2.0
"""Ops that are compositions of others: windows, histograms, `ormqr`, fractional pools.

Nothing of them runs on the host.
"""

from __future__ import annotations

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch.nn import functional

from ingot.frontends.torch.decompositions import decompose
from ingot.support.flags import override_values


@pytest.fixture(autouse=True)
def _is_strict():
    with override_values({"strict": True}):
        yield


WINDOWS = {
    "bartlett": lambda n: torch.bartlett_window(n),
    "bartlett, symmetric": lambda n: torch.bartlett_window(n, periodic=False),
    "blackman": lambda n: torch.blackman_window(n),
    "blackman, f64": lambda n: torch.blackman_window(n, False, dtype=torch.float64),
    "hamming": lambda n: torch.hamming_window(n),
    "hamming, alpha": lambda n: torch.hamming_window(n, True, 0.6),
    "hamming, beta": lambda n: torch.hamming_window(n, False, 0.6, 0.3),
    "hann": lambda n: torch.hann_window(n),
    "kaiser": lambda n: torch.kaiser_window(n),
    "kaiser, beta": lambda n: torch.kaiser_window(n, False, 3.0),
    "kaiser, bf16": lambda n: torch.kaiser_window(n, True, dtype=torch.bfloat16),
    "frequencies": lambda n: torch.fft.fftfreq(n + 1, 0.5),
    "frequencies, half": lambda n: torch.fft.rfftfreq(n + 1),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_and_frequencies(name):
    for length in (0, 1, 2, 9, 16):
        assert_same(
            lambda x, n=length: (WINDOWS[name](n), x + 1), torch.ones(1), rtol=1e-5, atol=1e-6
        )


def test_a_window_of_symbolic_length():
    def windowed(x):
        return x * torch.hamming_window(x.shape[0]) + torch.fft.fftfreq(x.shape[0])

    assert_same(windowed, torch.randn(12), dynamic=True, rtol=1e-5, atol=1e-6)


X = torch.linspace(-3, 4, 60).sin().reshape(6, 10) * 2
EDGES = torch.tensor([-1.5, -0.2, 0.0, 0.7, 1.9])
NOT_FINITE = torch.tensor([float("nan"), 1.0, float("inf"), -1.0, 0.5, 1.0])

HISTOGRAMS = {
    "bins": lambda x: torch.histogram(x, 7),
    "range": lambda x: torch.histogram(x, 5, range=(-1.0, 1.5)),
    "empty range": lambda x: torch.histogram(x, 4, range=(0.0, 0.0)),
    "weights": lambda x: torch.histogram(x, 4, weight=x * x),
    "density": lambda x: torch.histogram(x, 4, density=True),
    "edges": lambda x: torch.histogram(x, EDGES.to(x), weight=x.abs(), density=True),
    "equal elements": lambda x: torch.histogram(x * 0 + 3, 3),
    "no elements": lambda x: torch.histogram(x[:0], 3),
    "not finite": lambda x: torch.histogram(NOT_FINITE.to(x), 3, range=(-1.0, 1.0)),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_histograms(name, kind):
    assert_same(HISTOGRAMS[name], X.to(kind), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_products_with_an_orthogonal_factor(left, transpose):
    a, tau = torch.geqrf(torch.randn(2, 5, 3, dtype=torch.float64))
    other = torch.randn(2, 5, 4) if left else torch.randn(2, 4, 5)
    assert_same(
        lambda a, tau, other: torch.ormqr(a, tau, other, left, transpose),
        a,
        tau,
        other.double(),
    )


def test_a_complex_orthogonal_factor():
    a, tau = torch.geqrf(torch.randn(5, 5, dtype=torch.complex128))
    other = torch.randn(5, 2, dtype=torch.complex128)
    assert_same(lambda a, tau, other: torch.ormqr(a, tau, other, True, True), a, tau, other)


SAMPLES = torch.tensor([[[0.2, 0.9], [0.0, 0.5]], [[0.99, 0.3], [0.7, 0.1]]])


def _plane(x):
    return functional.fractional_max_pool2d(
        x, (2, 3), (4, 5), return_indices=True, _random_samples=SAMPLES
    )


def test_fractional_pools_of_two_dimensions():
    x = torch.randn(2, 2, 11, 13, requires_grad=True)
    assert_same(_plane, x, grad=True)


def test_fractional_pools_find_the_last_nan_and_the_first_of_equal_elements():
    x = torch.randn(2, 2, 11, 13).round()
    x[0, 0, 3, 4] = x[0, 0, 4, 5] = x[1, 1, 0, 0] = float("nan")
    assert_same(_plane, x)


def test_fractional_pools_of_three_dimensions():
    samples = torch.tensor([[[0.2, 0.9, 0.4]], [[0.1, 0.3, 0.8]]])

    def pooled(x):
        return functional.fractional_max_pool3d(x, 2, (1, 3, 4), _random_samples=samples)

    assert_same(pooled, torch.randn(2, 1, 5, 7, 9, requires_grad=True), grad=True)


def test_a_pool_of_one_image_draws_as_eager():
    with override_values({"strict": False}):
        assert_same(
            lambda x: functional.fractional_max_pool2d(x, 2, output_ratio=(0.6, 0.6)),
            torch.randn(3, 10, 12),
        )


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins_of_several_labels(reduction):
    """PyTorch's own decomposition counts labels after the first -1."""
    x = torch.randn(5, 4, requires_grad=True)
    labels = torch.tensor(
        [[3, 0, -1, 1], [-1, 2, 2, 2], [0, 1, 2, 3], [2, 2, -1, -1], [1, -1, 1, 1]]
    )

    def loss(x, labels):
        return functional.multilabel_margin_loss(x, labels, reduction=reduction)

    assert_same(loss, x, labels, grad=True, rtol=1e-5, atol=1e-6)
    assert_same(loss, x[0].detach().requires_grad_(), labels[0], grad=True, rtol=1e-5, atol=1e-6)


def test_composite_ops_are_taken_apart_without_a_list_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise AssertionError("listing PyTorch's composite ops takes 0.2 s of a first call")

    monkeypatch.setattr(torch._decomp, "core_aten_decompositions", refuse)
    decompose._of_pytorch.cache_clear()

    def composites(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        both = torch.vstack([x, torch.einsum("ij,jk->ik", x, y)])
        return functional.cosine_similarity(both, both.flipud(), dim=0)

    args = torch.randn(3, 4), torch.randn(4, 4)
    assert_same(composites, *args)
    with torch.inference_mode():
        assert_same(composites, *args)
