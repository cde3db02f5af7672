# SPDX-License-Identifier: Apache-2.0
"""Windows as columns and back (`unfold`, `fold`) and their gradients, beside eager."""

from typing import Any

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch import Tensor
from torch.nn import functional

from ingot.frontends.torch.graphs import recorded_graphs

WINDOWS: tuple[dict[str, Any], ...] = (
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": (2, 4), "stride": (2, 3), "padding": (0, 2)},
    {"kernel_size": (3, 2), "dilation": (2, 3), "stride": (1, 2)},
    # some elements are in no window
    {"kernel_size": 2, "stride": 3},
    # more taps than are added one by one
    {"kernel_size": (1, 9), "padding": (0, 3), "stride": (3, 1)},
)


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_columns_and_their_gradient(windows: dict[str, Any]) -> None:
    def columns(x: Tensor) -> Tensor:
        return functional.unfold(x, **windows).sin()

    x = torch.randn(2, 3, 9, 8, dtype=torch.float64, requires_grad=True)
    assert_same(columns, x, grad=True)
    wide = functional.unfold(x.detach(), **windows)

    def images(x: Tensor) -> Tensor:
        return functional.fold(x, (9, 8), **windows).sin()

    assert_same(images, wide.clone().requires_grad_(), grad=True)
    whole = torch.randint(-3, 4, wide.shape[1:]).bfloat16()
    assert_same(images, whole, rtol=1e-2, atol=1e-2)


def test_columns_of_symbolic_sizes() -> None:
    def columns(x: Tensor) -> Tensor:
        return functional.unfold(x, 3, padding=1, stride=2).sin()

    for sizes in ((2, 3, 9, 8), (5, 3, 7, 10)):
        x = torch.randn(sizes, dtype=torch.float64, requires_grad=True)
        assert_same(columns, x, grad=True, dynamic=True)


def test_gradient_keeps_no_indices() -> None:
    x = torch.randn(2, 3, 9, 8, requires_grad=True)
    with recorded_graphs() as graphs:
        assert_same(lambda x: functional.unfold(x, 3), x, grad=True)
    opcodes = [code for one in graphs for made in one.executables for kernel in made.kernels
               for code in kernel.opcodes]  # fmt: skip
    assert "scatter" not in opcodes
