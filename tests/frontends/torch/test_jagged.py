# SPDX-License-Identifier: Apache-2.0
"""Nested tensors with rows of many lengths: padded, joined, and layers of them."""

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch import Tensor, nn

TO_PADDED = torch.ops.aten._jagged_to_padded_dense_forward.default
TO_JAGGED = torch.ops.aten._padded_dense_to_jagged_forward.default
OFFSETS = torch.tensor([0, 3, 3, 4, 9])


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_STRICT", "1")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("longest", [2, 5, 7])
@pytest.mark.parametrize("rest", [(), (4,), (2, 3), (0,)])
def test_rows_are_padded_or_cut_to_one_length(rest, longest, dynamic):
    def padded(values: Tensor, offsets: Tensor) -> Tensor:
        return TO_PADDED(values, [offsets], [longest], -1.5) * 2

    values = torch.randn(9, *rest)
    assert_same(padded, values, OFFSETS, dynamic=dynamic)
    assert_same(padded, values, torch.tensor([1, 3, 4, 7], dtype=torch.int32), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("rest", [(), (4,), (2, 3)])
def test_rows_are_joined(rest, dynamic):
    def joined(dense: Tensor, offsets: Tensor) -> Tensor:
        return TO_JAGGED(dense, [offsets], 9) + 1

    assert_same(joined, torch.randn(4, 6, *rest), OFFSETS, dynamic=dynamic)


@pytest.mark.parametrize(
    ("offsets", "text"), [([0, 3, 4, 4, 9], "max length"), ([0, 2, 4, 6, 8], "final offset")]
)
def test_offsets_that_do_not_fit_end_the_program(offsets, text):
    torch._dynamo.reset()
    joined = torch.compile(lambda dense, at: TO_JAGGED(dense, [at], 9).sin(), backend="ingot")
    for call in (joined, lambda dense, at: TO_JAGGED(dense, [at], 9)):
        with pytest.raises(RuntimeError, match=text):
            call(torch.randn(4, 4, 2), torch.tensor(offsets))


def test_a_layer_of_a_nested_tensor_and_its_gradient():
    layer = nn.Linear(4, 4)

    def function(values: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        nested = torch.nested.nested_tensor_from_jagged(values, offsets)
        made = layer(nested).relu() * 2
        return made.values(), made.to_padded_tensor(0.5).square()

    for is_grad in (True, False):
        values = torch.randn(9, 4, requires_grad=is_grad)
        assert_same(function, values, OFFSETS, grad=is_grad)
