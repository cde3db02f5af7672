# SPDX-License-Identifier: Apache-2.0
"""Dynamic shapes: one compilation serves many sizes, of every form that PyTorch makes."""

import math
import re

import pytest
import torch
from tests.frontends.torch.compare import assert_runs_same
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional

from ingot.frontends.torch.graphs import recorded_graphs
from ingot.support.flags import override_values

pytestmark = pytest.mark.filterwarnings("ignore::ingot.IngotWarning")

FUNCTIONS = {
    "product": lambda x: x.reshape(-1) * 2,
    "half": lambda x: x[: x.shape[0] // 2] + 1,
    "one more": lambda x: functional.pad(x, (0, 0, 0, 1)).sum(1),
    "remainder": lambda x: x[: x.shape[0] % 2 + 1].exp(),
    "as a number": lambda x: x * x.shape[0] - x.shape[1],
    "as a float": lambda x: x / math.sqrt(x.shape[1]) + x.shape[0] / 3,
    "range": lambda x: x.sum(1) + torch.arange(x.shape[0]),
    "range of both": lambda x: torch.arange(x.shape[0] * x.shape[1]).reshape(x.shape) + x,
    "as a result": lambda x: (x.sin(), x.shape[0] * 2, x.shape[1] + 1, x.numel()),
    "transposed": lambda x: (x.t(), x.t().contiguous(), x.t() * 2),
    "joined": lambda x: torch.cat([x, x[1:], x * 2]),
    "expanded": lambda x: x[None].expand(3, *x.shape) * 1,
    "mean": lambda x: x.mean(0) + x.mean(),
    "new": lambda x: x.new_zeros(x.shape[0], 2 * x.shape[1]) + x.new_ones(2 * x.shape[1]),
    "rounded": lambda x: x.new_ones(int(x.shape[0] * 1.5)) * 2,
    "maximum": lambda x: x.new_ones(max(x.shape[0], x.shape[1])) * 3,
    "matmul": lambda x: x @ x.t(),
    "softmax": lambda x: torch.softmax(x @ x.t(), -1) @ x,
    "split": lambda x: x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2]),
    "strided": lambda x: (x[:, ::2] * 2, x[::2]),
}
SIZES = [(4, 7), (6, 9), (9, 11), (13, 12), (5, 30)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_compilation_serves_all_sizes(name):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("ingot")
    function = FUNCTIONS[name]
    compiled = torch.compile(function, backend=counter, dynamic=True, fullgraph=True)
    for rows, columns in SIZES:
        x = torch.linspace(-1, 1, rows * columns).reshape(rows, columns)
        assert_runs_same(function, compiled, x)
    # PyTorch itself compiles anew where the remainder is 0.
    assert counter.frame_count == (2 if name == "remainder" else 1)


def _heads(x):
    rows, columns = x.shape
    parts = x.view(rows, 3, columns // 3).transpose(0, 1)
    return (parts * 2).transpose(0, 1).reshape(rows, columns) + x


def _shuffled(x):
    image = x.view(1, 4, -1, x.shape[1])
    again = functional.pixel_unshuffle(functional.pixel_shuffle(image, 2), 2)
    return again.view(x.shape) + x


DIVIDED = {
    "rows of 6": lambda x: x.view(-1, 6).sum(1),
    "by a truth division": lambda x: x.view(int(x.numel() / 6), 6).sum(1),
    "columns": lambda x: (x.view(x.shape[0], -1, 3) @ x.new_ones(3, 3)).view(x.shape) + x,
    "heads": _heads,
    "pixels": _shuffled,
}


@pytest.mark.parametrize("name", DIVIDED)
def test_views_whose_sizes_are_quotients(name):
    torch._dynamo.reset()
    function = DIVIDED[name]
    compiled = torch.compile(function, backend="ingot", dynamic=True, fullgraph=True)
    for rows, columns in [(8, 6), (12, 9), (16, 15)]:
        x = torch.linspace(-1, 1, rows * columns).reshape(rows, columns)
        assert_runs_same(function, compiled, x)


def test_a_part_that_becomes_1_is_compiled_anew():
    torch._dynamo.reset()
    half = lambda x: x[: x.shape[0] // 2] + 1  # noqa: E731
    compiled = torch.compile(half, backend="ingot", dynamic=True)
    for rows in (4, 2, 9, 3):
        assert_runs_same(half, compiled, torch.ones(rows, 3))


def _step(x, w):
    return (torch.tanh(x @ w) * x.shape[0]).sum(1).softmax(0)


@pytest.mark.parametrize("how", ["dynamic", "automatic", "marked"])
def test_forward_and_backward_of_one_compilation(how):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("ingot")
    compiled = torch.compile(_step, backend=counter, dynamic=True if how == "dynamic" else None)
    w = torch.linspace(-1, 1, 15).reshape(3, 5).requires_grad_()
    for rows in (4, 5, 7, 11, 16):
        x = torch.linspace(-2, 1, rows * 3).reshape(rows, 3)
        if how == "marked":
            torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(compiled(x, w), _step(x, w))
        else:
            assert_runs_same(_step, compiled, x.requires_grad_(), w, grad=True)
    assert counter.frame_count == (2 if how == "automatic" else 1)


def test_sizes_0_and_1():
    torch._dynamo.reset()
    compiled = torch.compile(_step, backend="ingot", dynamic=True)
    w = torch.ones(3, 5, requires_grad=True)
    for rows in (4, 1, 0, 6):
        assert_runs_same(_step, compiled, torch.ones(rows, 3), w, grad=True)


def test_channels_last_with_a_symbolic_batch():
    torch._dynamo.reset()
    compiled = torch.compile(_image, backend="ingot", dynamic=True)
    for batch in (2, 3, 5):
        x = torch.randn(batch, 3, 6, 4).contiguous(memory_format=torch.channels_last)
        assert_runs_same(_image, compiled, x)


def _image(x):
    return x.relu() * 2, x.permute(0, 2, 3, 1) + 1, x.contiguous() - 1


@pytest.mark.parametrize("numbers", [(3, 7, 5), (-3, -7, -5), (4, -4, 9)])
def test_integers_as_arguments(numbers):
    """They are numbers, below 0 too; as a size only with what is added."""
    torch._dynamo.reset()

    def shifted(x, n):
        return x * n + n, torch.ones(n + 10), torch.full((3,), n * n - 2 * n)

    compiled = torch.compile(shifted, backend="ingot", dynamic=True)
    for n in numbers:
        assert_runs_same(shifted, compiled, torch.arange(4.0), n)


def test_floats_as_arguments():
    torch._dynamo.reset()
    with torch._dynamo.config.patch(specialize_float=False):
        scaled = lambda x, a: (x * a, x + a / 2)  # noqa: E731
        compiled = torch.compile(scaled, backend="ingot", dynamic=True)
        for a in (0.5, -2.25, 3.0):
            assert_runs_same(scaled, compiled, torch.arange(4.0), a)


NUMBERS = {
    "select": lambda x, k: (x.select(0, k) + 1, x.select(0, -k) + 1, x[:, k] * 2),
    "slice": lambda x, k: (x[k:] + 1, x[:k] + 1, x[::k] + 1, torch.narrow_copy(x, 0, k, 2)),
    "kthvalue": lambda x, k: (*x.kthvalue(k), x.sort().values[..., k]),
    "pad": lambda x, k: (functional.pad(x, (k, 1)), functional.pad(x, (-k, 0))),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_are_no_sizes_may_be_symbolic(name: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(NUMBERS[name], backend="ingot", dynamic=True, fullgraph=True)
    x = torch.linspace(-3, 3, 49).reshape(7, 7).sin()
    for k in (2, 3, 4):
        assert_runs_same(NUMBERS[name], compiled, x, k)


def test_group_norm_of_a_symbolic_number_of_channels():
    torch._dynamo.reset()

    def normalized(x, weight, bias):
        return functional.group_norm(x, 2, weight, bias)

    compiled = torch.compile(normalized, backend="ingot", dynamic=True)
    for batch, channels in ((1, 6), (3, 4), (1, 10)):
        x = torch.linspace(-2, 2, batch * channels * 3).sin().reshape(batch, channels, 3)
        weight = torch.linspace(0.5, 2, channels)
        assert_runs_same(normalized, compiled, x, weight, weight - 1)


def _masked(x, mask):
    x[mask] = 0
    return x * 2


def test_a_mask_has_the_size_of_what_it_chooses_from():
    torch._dynamo.reset()
    compiled = torch.compile(_masked, backend="ingot", fullgraph=True, dynamic=True)
    for size in (8, 12):
        assert_runs_same(_masked, compiled, torch.randn(size), torch.arange(size) % 2 == 0)
    for x, mask in ((8, 12), (12, 8)):
        text = re.escape(f"mask [{mask}] at index 0 does not match the shape of the indexed tensor")
        with pytest.raises(IndexError, match=rf"{text} \[{x}\] at index 0(.|\n)*test_dynamic\.py"):
            compiled(torch.randn(x), torch.arange(mask) % 2 == 0)


@pytest.mark.parametrize("sizes", [(4,), (2,), (3, 5), (3, 1), (5, 4), (3, 4, 2)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_mask_of_other_sizes_is_the_error_that_pytorch_raises(sizes, dynamic):
    def put(x, mask):
        return x.index_put((mask,), torch.tensor(0.5), accumulate=True) * 2

    torch._dynamo.reset()
    given = torch.ones(3, 4), torch.ones(sizes, dtype=torch.bool)
    compiled = torch.compile(put, backend="ingot", dynamic=dynamic)
    with pytest.raises(IndexError) as expected:
        put(*given)
    with pytest.raises(IndexError) as found:
        compiled(*given)
    assert str(expected.value) in str(found.value)


HALF = {
    "sum": lambda x, y: x + y[: len(y) // 2],
    "join": lambda x, y: torch.cat([x, y[::2]], 1),
    "product": lambda x, y: x.t() @ y[: len(y) // 2],
    "halves": lambda x, y: x * y[::2] - y[1::2],
    "scatter": lambda x, y: x.index_put((torch.arange(len(x)),), y[::2]),
    "strided": lambda x, y: torch.as_strided_scatter(y * 2, x, (len(y) // 2, 6), (12, 1)),
    "bias": lambda x, y: functional.linear(x.t(), y.t()[:, ::2], y[0]),
    "norm": lambda x, y: functional.layer_norm(x.t(), (len(x),), y[::2, 0], y[1::2, 1]),
}


@pytest.mark.parametrize("name", HALF)
def test_a_rounded_quotient_is_the_size_that_a_guard_says(name):
    torch._dynamo.reset()
    compiled = torch.compile(HALF[name], backend="ingot", fullgraph=True, dynamic=True)
    for size in (4, 6):
        x, y = torch.randn(size, 6), torch.randn(2 * size, 6, requires_grad=True)
        found, expected = compiled(x, y), HALF[name](x, y)
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)
        made = [torch.autograd.grad(each.square().sum(), y)[0] for each in (found, expected)]
        torch.testing.assert_close(*made, rtol=2e-4, atol=2e-4)


SCALED = {
    "pool": (lambda x, y: torch.cat([x, functional.max_pool2d(y, 2)], 1), 2.0),
    "strided pool": (lambda x, y: x * functional.avg_pool2d(y, 3, 2, 1), 2.0),
    "resampled": (lambda x, y: x * functional.interpolate(y, scale_factor=1.5), 2 / 3),
}


@pytest.mark.parametrize("name", SCALED)
def test_the_size_of_a_window_is_the_size_that_a_guard_says(name):
    program, scale = SCALED[name]
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="ingot", fullgraph=True, dynamic=True)
    for size in (6, 12):
        x, y = torch.randn(2, 3, size, size), torch.randn(2, 3, *[round(size * scale)] * 2)
        assert_runs_same(program, compiled, x, y)


def test_a_size_is_the_number_that_a_guard_says():
    def program(x, y):
        return (x + 1).reshape([24]) * y, y * float(y.shape[0]), y.shape[0] / 3

    torch._dynamo.reset()
    with torch._dynamo.config.patch(assume_static_by_default=False):
        compiled = torch.compile(program, backend="ingot", fullgraph=True)
        for rows in (3, 4):
            assert_runs_same(program, compiled, torch.randn(rows, 24 // rows), torch.randn(24))


def test_a_quotient_that_bounds_make_a_number():
    def program(x, y):
        torch._check(x.shape[0] >= 12)
        torch._check(x.shape[0] <= 15)
        return torch.cat([x[: x.shape[0] // 4], y], 1), x[: (x.shape[0] // 4 - 1) // 2] * y

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("ingot")
    compiled = torch.compile(program, backend=counter, fullgraph=True, dynamic=True)
    for size in (13, 12, 15):
        assert_runs_same(program, compiled, torch.randn(size, 2), torch.randn(3, 2))
    assert counter.frame_count == 1


PADDED = {
    "to a length": lambda x, y: functional.pad(x, (1, 8 - x.shape[1]), value=3.0),
    "in front": lambda x, y: functional.pad(x, (6 - x.shape[1], 0, 1, -1)),
    "as long as another": lambda x, y: functional.pad(x, (0, y.shape[0] - x.shape[1])) + y,
    "on both sides": lambda x, y: functional.pad(x, (y.shape[0] - x.shape[1], x.shape[1] - 6)),
}


@pytest.mark.parametrize("name", PADDED)
def test_padding_that_may_cut(name):
    """A padding is a symbol of either sign, and its gradient one of the other sign."""
    torch._dynamo.reset()
    program, counter = PADDED[name], CompileCounterWithBackend("ingot")
    compiled = torch.compile(program, backend=counter, fullgraph=True, dynamic=True)
    for size, other in ((4, 7), (6, 5), (9, 8), (10, 4), (5, 9)):
        x, y = torch.randn(3, size, requires_grad=True), torch.randn(other)
        assert_runs_same(program, compiled, x, y, grad=True)
    assert counter.frame_count == 1


def test_parts_of_several_lengths_that_are_padded():
    def program(x, y):
        return torch.nn.utils.rnn.pad_sequence([x, y[: y.shape[0] // 2]], True, -1.0)

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="ingot", fullgraph=True, dynamic=True)
    for size, other in ((2, 9), (5, 6), (3, 6)):
        x, y = (torch.randn(each, 3, requires_grad=True) for each in (size, other))
        assert_runs_same(program, compiled, x, y, grad=True)


def test_a_guard_with_a_quotient_that_is_whole():
    def program(x, y):
        square = x.reshape(x.shape[0] * x.shape[0], -1).reshape(x.shape[0], -1, x.shape[0])
        return x[..., 0].expand(x.shape[0], y.shape[0]) + (y + square)[:, 0]

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="ingot", fullgraph=True, dynamic=True)
    for size in (3, 4):
        assert_runs_same(program, compiled, torch.randn(size, size, size), torch.randn(size, 1))


def test_a_size_that_a_guard_names_is_computed_where_no_argument_has_it():
    def program(x, y):
        torch._check(x.shape[0] == y.shape[0] // 2)
        return y[: y.shape[0] // 2].square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="ingot", fullgraph=True, dynamic=True)
    for size in (4, 6):
        x, y = torch.randn(size), torch.randn(2 * size, requires_grad=True)
        made = [torch.autograd.grad(each(x, y), y)[0] for each in (compiled, program)]
        torch.testing.assert_close(*made)


def test_values_to_write_fit_their_places():
    def program(x, y):
        return x.index_put((torch.arange(4),), y[::2])

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="ingot", dynamic=True)
    assert_runs_same(program, compiled, torch.zeros(6), torch.ones(8))
    for size in (5, 12):
        with pytest.raises(RuntimeError, match="shape mismatch"):
            program(torch.zeros(6), torch.ones(size))
        with pytest.raises(RuntimeError, match=r"(shape mismatch|slice needs)(.|\n)*test_dynamic"):
            compiled(torch.zeros(6), torch.ones(size))


def test_the_gradient_of_a_bias_has_the_size_that_the_graph_gives():
    def program(dy, x, weight):
        options = [5], [1], [0], [1], False, [0], 1, [True, True, True]
        return torch.ops.aten.convolution_backward(dy, x, weight, *options)

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="ingot", fullgraph=True, dynamic=True)
    given = torch.randn(2, 5, 7), torch.randn(2, 3, 7), torch.randn(5, 3, 1)
    assert_runs_same(program, compiled, *given)


def test_a_remainder_of_a_negative_number_is_pythons():
    def rolled(x, shift):
        return torch.roll(torch.roll(x, shift - 1, 0), shift + 1, 1)

    torch._dynamo.reset()
    compiled = torch.compile(rolled, backend="ingot", fullgraph=True, dynamic=True)
    for size, shift in ((4, 5), (5, 3), (3, 12), (6, -9)):
        x = torch.arange(float(size * size)).reshape(size, size)
        assert_runs_same(rolled, compiled, x, shift)


def test_numbers_in_the_place_of_tensors():
    def program(x, y):
        x.copy_(1)
        return torch.mul(y, 2 - 3j) * x, torch.ops.aten.copy(x, 2.5)

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="ingot", fullgraph=True)
    y = torch.linspace(-1, 1, 6).to(torch.complex64).requires_grad_()
    made = [each(torch.zeros(6), y) for each in (compiled, program)]
    torch.testing.assert_close(*made)
    torch.testing.assert_close(*(torch.autograd.grad(a.abs().sum(), y)[0] for a, _ in made))


SUMS = {
    "joined and added": lambda x, y: torch.cat([x, x[:1]]) + y,
    "sliced and added": lambda x, y: x + y[1:],
    "padded and multiplied": lambda x, y: functional.pad(x, (0, 0, 1, 0)) @ y.t(),
    "joined and compared": lambda x, y: (torch.cat([y[:2], x[1:]]) > y, x.sum(0), y.sum()),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_size_that_a_guard_makes_a_sum(name):
    """PyTorch itself replaces the name; its guard says so, too, the other way round."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("ingot")
    compiled = torch.compile(SUMS[name], backend=counter, fullgraph=True)
    for length in (3, 5, 8, 13):
        x, y = (torch.randn(n, 4, requires_grad=True) for n in (length, length + 1))
        assert_runs_same(SUMS[name], compiled, x, y, grad=True)
    assert counter.frame_count == 2


def test_attention_over_a_cache_that_grows():
    """PyTorch names the lengths of keys and values apart; its kernel wants them to be equal."""

    def step(q, k, v, mask):
        keys, values = torch.cat([k, q], 2), torch.cat([v, q * 2], 2)
        found = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return found, keys, values

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("ingot")
    compiled = torch.compile(step, backend=counter, fullgraph=True)
    for length in (3, 5, 8, 13):
        q, k, v = (torch.randn(2, 2, n, 4, requires_grad=True) for n in (1, length, length))
        mask = torch.rand(1, length + 1) > 0.3
        assert_runs_same(step, compiled, q, k, v, mask, grad=True)
    assert counter.frame_count == 2


def test_attention_of_fewer_values_than_keys_is_refused():
    """PyTorch does not compare them: its kernel reads behind the values."""
    torch._dynamo.reset()
    attention = functional.scaled_dot_product_attention
    compiled = torch.compile(attention, backend="ingot", options={"strict": True})
    with pytest.raises(BackendCompilerFailed, match=r"INGOT0373.*do not fit together"):
        compiled(*(torch.randn(1, 2, n, 4) for n in (1, 9, 6)))


def _written(begin, end=None, step=1, by=1):
    def function(x, y):
        part = slice(begin(y.shape[0]), end, step)
        made = x.clone()
        made[:, part] = by
        return made

    return function


FROM_THE_END = {
    "the last": lambda x, y: x[:, -y.shape[0] :] * 2,
    "all but the last": lambda x, y: x[:, : -y.shape[0]] * 2,
    "between": lambda x, y: x[:, -y.shape[0] - 1 : -1] * 2,
    "steps": lambda x, y: x[:, -y.shape[0] :: 2] * 2,
    "one": lambda x, y: x[:, -y.shape[0]] * 2,
    "from before the first": lambda x, y: x[:, -9 * y.shape[0] :] * 2,
    "from behind the last": lambda x, y: x[:, 9 * y.shape[0] :] * 2,
    "a difference": lambda x, y: x[:, y.shape[0] - 9 :] * 2,
    "narrow": lambda x, y: x.narrow(1, -y.shape[0], 2) * 2,
    "a view": lambda x, y: x[:, -y.shape[0] :],
    "two parts": lambda x, y: torch.cat([x[:, -y.shape[0] :], x[:, : -y.shape[0]]], 1),
    "written": _written(lambda n: -n),
    "written in steps": _written(lambda n: -n, step=2),
    "written from before the first": _written(lambda n: -9 * n),
    "written between": _written(lambda n: -n, end=-1),
}


@pytest.mark.parametrize("name", FROM_THE_END)
def test_symbolic_indices_count_from_the_end(name):
    function = FROM_THE_END[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", dynamic=True, fullgraph=True)
    for count, length in ((3, 8), (4, 11), (5, 14)):
        x = torch.arange(13.0 * length).reshape(13, length)
        assert_runs_same(function, compiled, x, torch.ones(count))


def test_gradients_of_parts_from_the_end():
    def function(x, y):
        return x[:, -y.shape[0] :].sin() * y

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", dynamic=True, fullgraph=True)
    for count, length in ((3, 8), (4, 11)):
        x = torch.linspace(0, 1, 4 * length).reshape(4, length).requires_grad_()
        assert_runs_same(function, compiled, x, torch.arange(float(count)), grad=True)


@pytest.mark.parametrize("part", [lambda n: slice(n, None), lambda n: slice(None, n), lambda n: n])
def test_numbers_of_either_sign_as_indices(part):
    def function(x, n):
        return x[part(n)] * 2

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", dynamic=True, fullgraph=True)
    for n in (3, 4, 2, -2, -4, -3, 6):
        assert_runs_same(function, compiled, torch.arange(9.0), n)


def test_windows_whose_number_of_taps_is_even():
    """A discriminator's: PyTorch says `n // 2` where the window's size is `(n - 2) // 2 + 1`."""
    torch._dynamo.reset()
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 4, 2, 1), torch.nn.LeakyReLU(0.2), torch.nn.Conv2d(4, 8, 4, 2, 1)
    )
    counter = CompileCounterWithBackend("ingot")
    compiled = torch.compile(model, backend=counter, fullgraph=True, dynamic=True)
    for height, width in ((16, 12), (15, 13), (18, 14)):
        x = torch.randn(3, 1, height, width, requires_grad=True)
        assert_runs_same(model, compiled, x, grad=True, rtol=1e-4, atol=1e-4)
    assert counter.frame_count <= 2


def test_rows_whose_length_a_guard_knows_stay_rows():
    """The layer's 64 inputs are `4 * (h // 4) * (w // 4)` by a guard: a slice of each row."""
    torch._dynamo.reset()
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 4, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 3)
    )
    compiled = torch.compile(model, backend="ingot", fullgraph=True, dynamic=True)
    x = torch.randn(5, 1, 16, 16, requires_grad=True)
    with recorded_graphs() as graphs:
        assert_runs_same(model, compiled, x, grad=True, rtol=1e-4, atol=1e-5)
    texts = [one.as_text("hlo") for graph in graphs for one in graph.executables]
    slices = re.findall(r"= f32\[(.*?)\]\S* slice\(", "\n".join(texts))
    assert slices
    assert all("," in dims for dims in slices)


CUMULATIVE = {
    "sum": lambda x: x.cumsum(0),
    "sum of rows": lambda x: x.cumsum(1),
    "product of integers": lambda x: (x.round().long().clamp(-1, 1) * 2 - 1).cumprod(0),
    "maximum": lambda x: x.cummax(0),
    "minimum of rows": lambda x: x.cummin(1),
    "logarithm": lambda x: x.logcumsumexp(1),
    "both": lambda x: x.cumsum(0).flip(0).cumsum(1),
}


@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative_ops_of_any_length(name):
    """Lengths around those of the scan's blocks, and its blocks of blocks; infinities and NaN."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("ingot")
    compiled = torch.compile(CUMULATIVE[name], backend=counter, dynamic=True, fullgraph=True)
    with override_values({"strict": True}):
        for rows, columns in ((3, 7), (63, 2), (64, 130), (65, 64), (300, 3)):
            x = torch.linspace(-3, 40, rows * columns).sin().reshape(rows, columns) * 2
            assert_runs_same(CUMULATIVE[name], compiled, x, rtol=1e-4, atol=1e-4)
            x[rows // 2, 1] = float("nan")
            x[rows // 3, 0], x[2, 1] = float("inf"), -float("inf")
            if "integers" not in name:
                assert_runs_same(CUMULATIVE[name], compiled, x, rtol=1e-4, atol=1e-4)
    assert counter.frame_count == 1
