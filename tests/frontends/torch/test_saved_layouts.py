# SPDX-License-Identifier: Apache-2.0
"""What a forward program keeps for the backward one: with channels last where convolutions are."""

import pytest
import torch
from tests.frontends.torch.compare import assert_results, assert_same
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.filterwarnings("ignore::ingot.IngotWarning")


@torch.library.custom_op("ingot_tests::strided_sum", mutates_args=())
def strided_sum(x: torch.Tensor) -> torch.Tensor:
    """Return elements times how far apart they lie along the channels: strides decide."""
    return x * x.stride(1)


@strided_sum.register_fake
def _(x):
    return torch.empty_like(x)


def _weight(*dims):
    return (torch.arange(float(torch.Size(dims).numel())).reshape(dims) % 7 - 3) / 8


def _image(*dims):
    return torch.linspace(-2, 3, torch.Size(dims).numel()).sin().reshape(dims).requires_grad_()


def _saved(function, *args, **options):
    """Return the strides of the images that a compiled function keeps, and its results."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", fullgraph=True, **options)
    results = compiled(*args)
    node = results.grad_fn
    tensors = [*node.saved_tensors, *getattr(node, "_tensors_no_vc_check", ())]
    kept = [(tuple(x.shape), x.stride()) for x in tensors if x.dim() > 2 and not x.requires_grad]
    return kept, results


CASES = {
    "1 dimension": (functional.conv1d, (2, 4, 7), (5, 4, 3), (35, 1, 5)),
    "2 dimensions": (functional.conv2d, (2, 4, 5, 3), (6, 4, 1, 1), (90, 1, 18, 6)),
    "3 dimensions": (functional.conv3d, (1, 2, 3, 4, 5), (3, 2, 3, 3, 3), (180, 1, 60, 15, 3)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_activations_are_kept_with_channels_last(name, dynamic):
    convolution, image, weight, strides = CASES[name]

    def network(x, w, v):
        y = convolution(x, w, padding="same").relu()
        return (convolution(y, v).tanh() * y.mean()).sum()

    ones = (1,) * (len(image) - 2)
    args = (_image(*image), _weight(*weight), _weight(4, weight[0], *ones).requires_grad_())
    args[1].requires_grad_()
    assert_same(network, *args, grad=True, dynamic=dynamic)
    if not dynamic:
        kept, _ = _saved(network, *args)
        shape = (image[0], weight[0], *image[2:])
        assert (shape, strides) in kept
        assert all(found == strides for size, found in kept if size == shape)


def test_with_an_open_batch():
    """PyTorch takes strides that are numbers; these are, whatever the batch."""

    def network(x, w):
        return functional.conv2d(x, w).relu().square().sum()

    x = _image(3, 4, 5, 5)
    torch._dynamo.mark_dynamic(x, 0)
    w = _weight(6, 4, 3, 3).requires_grad_()
    kept, result = _saved(network, x, w)
    assert {strides for size, strides in kept if size[1] == 6} == {(54, 1, 18, 6)}
    got = torch.autograd.grad(result, (x, w))
    assert_results(got, torch.autograd.grad(network(x, w), (x, w)), strides=False)


def test_results_have_the_strides_of_eager():
    def network(x, w):
        y = functional.conv2d(x, w)
        z = y.relu()
        return y, z, z.flatten(2), z.exp().sum()

    x, w = _image(2, 3, 5, 5), _weight(4, 3, 2, 2).requires_grad_()
    assert_same(network, x, w, grad=True)


class _Backward(torch.autograd.Function):
    """The identity, whose gradient is what `how` makes of the saved tensor."""

    @staticmethod
    def forward(ctx, x, how):
        ctx.save_for_backward(x)
        ctx.how = how
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return ctx.how(x, gradient), None


HOW = {
    "an op of a library": lambda x, g: strided_sum(x) * g,
    "what it contains": lambda x, g: g * x.amax() + x.flatten(1).sum(1)[:, None, None, None],
    "the tensor itself": lambda x, g: x,
}


@pytest.mark.parametrize("name", HOW)
def test_backward_programs_that_need_the_traced_strides(name):
    def network(x, w):
        return _Backward.apply(functional.conv2d(x, w).tanh(), HOW[name]).sum()

    x, w = _image(2, 3, 5, 5), _weight(4, 3, 2, 2).requires_grad_()
    want = torch.autograd.grad(network(x, w), (x, w))
    kept, result = _saved(network, x, w)
    # That the gradient is the tensor itself, which is a result then, is no reason to keep it.
    assert ((2, 4, 4, 4), (64, 1, 16, 4)) in kept or name == "the tensor itself"
    assert_results(torch.autograd.grad(result, (x, w)), want, strides=False)


def test_training_with_all_kinds_of_layers():
    """Batch and group norm, pools, padding, joins, resampling: gradients are eager's."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, padding=1)
            self.norm, self.groups = nn.BatchNorm2d(8), nn.GroupNorm(2, 16)
            self.second = nn.Conv2d(8, 16, 3, stride=2, groups=2)
            self.last = nn.ConvTranspose2d(32, 4, 2, stride=2)

        def forward(self, x):
            x = functional.max_pool2d(functional.pad(self.norm(self.first(x)), (1, 0, 0, 1)), 2)
            y = self.groups(self.second(functional.silu(x)))
            y = torch.cat([y, functional.interpolate(y[:, :, :2], y.shape[2:])], 1)
            return self.last(functional.avg_pool2d(y, 2).relu()).square().mean()

    torch.manual_seed(0)
    network = Network()
    x = torch.randn(3, 3, 17, 17)
    runs = []
    for run in (network, torch.compile(network, backend="ingot", fullgraph=True)):
        network.zero_grad()
        result = run(x)
        result.backward()
        runs.append([result.detach(), *(p.grad.clone() for p in network.parameters())])
    assert_results(runs[1], runs[0], rtol=1e-4, atol=1e-5)
