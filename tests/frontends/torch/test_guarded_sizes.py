# SPDX-License-Identifier: Apache-2.0
"""Sizes of several names that are equal in every call: by PyTorch's guards, or by Ingot's own."""

import pytest
import torch
from tests.frontends.torch.compare import assert_runs_same, assert_same
from torch import nn
from torch.fx.experimental import _config
from torch.nn import functional

import ingot
from ingot.support.diagnostics import UnsupportedError
from ingot.support.flags import override_values


def _assert_in_two_sizes(function, sizes, **options):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", dynamic=True, fullgraph=True)
    with override_values({"strict": True}):
        for size in sizes:
            assert_runs_same(function, compiled, *_tensors(size), rtol=1e-4, atol=1e-5, **options)


def _tensors(shapes):
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def test_halves_of_a_symbolic_size():
    _assert_in_two_sizes(
        lambda x: functional.glu(x, 1), [[(4, 8, 6)], [(3, 6, 5)], [(2, 10, 3)]], grad=True
    )


def test_a_part_whose_size_is_found_while_it_is_lowered():
    norm, layer = nn.RMSNorm([2], elementwise_affine=False), nn.Linear(2, 3)

    def function(x):
        part = x.chunk(2, 1)[0]
        return layer(part), norm(part)

    _assert_in_two_sizes(function, [[(4, 3)], [(5, 3)]], grad=True)


def test_a_rounded_quotient_that_a_layer_makes_a_number():
    """PyTorch's guard is a conjunction: the last sizes are 4 and 8."""
    layer = nn.LayerNorm([4, 8])
    _assert_in_two_sizes(lambda x: layer(x[..., ::2]), [[(3, 4, 16)], [(5, 4, 15)]], grad=True)


@pytest.mark.parametrize("affine", [False, True])
def test_groups_of_symbolic_images(affine):
    """The size of an image is 48 by a guard, of which height and width are symbols."""
    norm, layer = nn.GroupNorm(2, 8, affine=affine), nn.Conv1d(48, 2, 1)

    def function(x):
        return norm(x), layer(x.flatten(2).transpose(1, 2))

    _assert_in_two_sizes(function, [[(2, 8, 16, 3)], [(5, 8, 12, 4)]], grad=True)


def test_products_over_a_size_of_two_names():
    """The gradient for the weight sums over 24 n rows, which are also n n m."""
    layer = nn.Linear(8, 8)

    def function(x):
        return layer(x.flatten(0, -2)).reshape(x.shape[0], 6, 1, 4, 8)

    x = torch.randn(4, 6, 1, 8, 4, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", dynamic=True, fullgraph=True)
    for batch in (4, 3):
        turned = x.detach()[:batch].transpose(-1, -2).requires_grad_()
        assert_runs_same(function, compiled, turned, grad=True, rtol=1e-4, atol=1e-5)


def test_windows_of_windows():
    up = nn.ConvTranspose1d(2, 3, 2, 2, output_padding=1)
    down = nn.Conv1d(3, 2, 2, 2)
    shapes = [[(2, 2, size)] for size in (5, 8, 11)]
    _assert_in_two_sizes(lambda x: down(up(x)), shapes, grad=True)


def test_one_window_of_an_image_of_symbolic_size():
    layer = nn.Conv2d(3, 2, (2, 1), (3, 2), (1, 0), (2, 1))

    def function(x):
        return layer(functional.max_pool2d(x, 2, (2, 1), (1, 0)))

    _assert_in_two_sizes(function, [[(4, 3, 3, 9)], [(2, 3, 3, 9)], [(3, 3, 3, 7)]], grad=True)


@pytest.mark.parametrize("kind", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize("padding", [0, 1])
def test_one_window_of_a_pooled_image_of_symbolic_size(kind, padding):
    def function(x):
        halves = x[:, :, ::2]
        return getattr(functional, kind)(halves, (2, 3), (2, 2), padding)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", dynamic=True, fullgraph=True)
    with override_values({"strict": True}):
        for rows in (5, 6):
            x = torch.randn(2, 3, rows - padding, 9, requires_grad=True)
            assert_runs_same(function, compiled, x, grad=True, rtol=1e-4, atol=1e-5)


def test_gradient_of_a_convolution_with_sizes_of_other_names():
    """Equal sizes have one name by default; here each has its own."""
    weight = nn.Parameter(torch.randn(3, 2, 3, 3))

    def function(gradient, x):
        return torch.ops.aten.convolution_backward(
            gradient, x, weight, [3], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]
        )

    shapes = [[(batch, 3, 6, 7), (batch, 2, 6, 7)] for batch in (4, 3)]
    with _config.patch(use_duck_shape=False):
        _assert_in_two_sizes(function, shapes)


def test_a_transformer_layer_of_a_symbolic_width():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True).eval()
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="ingot", dynamic=True)
    with torch.no_grad():
        for batch in (2, 3):
            assert_runs_same(layer, compiled, torch.randn(batch, 5, 4), rtol=1e-4, atol=1e-5)


def test_exported_programs_get_no_guards():
    class Halves(nn.Module):
        def forward(self, x, y):
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, y, y)[0]

    sizes = {2: torch.export.Dim("n"), 0: 2 * torch.export.Dim("m")}
    x = torch.randn(4, 2, 6, 8)
    program = torch.export.export(Halves(), (x, x), dynamic_shapes=({0: sizes[0]}, {0: sizes[0]}))
    with pytest.raises(UnsupportedError, match="INGOT0374"):
        ingot.load(program)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(4, 3, 5, 6), (2, 1, 3, 4, 5)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_grids_of_affine_maps(size, align_corners, dynamic):
    def function(maps, x):
        grid = functional.affine_grid(maps, x.shape, align_corners=align_corners)
        return grid, functional.grid_sample(x, grid, align_corners=align_corners)

    maps = torch.randn(size[0], len(size) - 2, len(size) - 1, requires_grad=True)
    x = torch.randn(size)
    assert_same(function, maps, x, dynamic=dynamic, grad=True, rtol=1e-3, atol=1e-4)


def test_grid_of_one_element():
    def function(maps):
        return functional.affine_grid(maps, (2, 3, 1, 4), align_corners=False)

    assert_same(function, torch.randn(2, 2, 3, requires_grad=True), grad=True)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_states_of_a_batch_of_one(kind):
    """The last state is cut from an array of two layers, with the strides of that."""
    first, second = getattr(nn, kind)(3, 4, 2, batch_first=True), nn.GRU(4, 2, batch_first=True)

    def function(x):
        state = first(x)[1]
        return second((state[0] if kind == "LSTM" else state).transpose(0, 1))[0].flatten()

    with torch._dynamo.config.patch(allow_rnn=True):
        x = torch.randn(1, 3, 3, requires_grad=True)
        assert_same(function, x, grad=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "shapes"),
    [
        (nn.Conv2d(4, 8, 3, 2, 1, groups=4), [(2, 4, 9, 7), (3, 4, 6, 11)]),
        (nn.Conv1d(3, 3, 5, groups=3, dilation=2), [(2, 3, 17), (1, 3, 9)]),
        (nn.ConvTranspose2d(4, 4, 3, 2, groups=4), [(2, 4, 5, 3), (3, 4, 2, 6)]),
    ],
)
def test_depthwise_filters_of_symbolic_images(layer, shapes):
    _assert_in_two_sizes(layer, [[shape] for shape in shapes], grad=True)
