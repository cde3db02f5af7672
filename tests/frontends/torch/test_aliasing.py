# SPDX-License-Identifier: Apache-2.0
"""Memory: arguments that are views, shared or written; results that are views; training."""

import copy

import pytest
import torch
from tests.frontends.torch.compare import assert_results, assert_same
from torch import nn
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

from ingot.frontends.torch.graphs import compiled_graphs

pytestmark = pytest.mark.filterwarnings("ignore::ingot.IngotWarning")

BASE = torch.linspace(-2, 3, 48).reshape(6, 8)
FORMS = {
    "plain": lambda: BASE.clone(),
    "every second": lambda: BASE.clone()[:, ::2],
    "transposed": lambda: BASE.clone().t(),
    "row": lambda: BASE.clone()[2],
    "offset": lambda: BASE.clone()[2:, 3:],
    "no dimensions": lambda: torch.tensor(3.0),
    "empty": lambda: torch.empty(0, 4),
    "channels last": lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
}
SHARED = {
    "expanded": lambda: BASE[0:1].expand(4, 8),
    "overlapping": lambda: BASE.as_strided((3, 3), (1, 1)),
}


def _run(function, make):
    """Return results and arguments of eager, and of the compiled function."""
    torch._dynamo.reset()
    runs = []
    for run in (function, torch.compile(function, backend="ingot", fullgraph=True)):
        args = make()
        runs.append((run(*args), args))
    return runs


@pytest.mark.parametrize("name", [*FORMS, *SHARED])
def test_arguments_of_any_layout(name):
    make = {**FORMS, **SHARED}[name]
    want, got = _run(lambda x: (x * 2, x.sum(), x.reshape(-1) + 1), lambda: (make(),))
    assert_results(got, want)


@pytest.mark.parametrize("name", FORMS)
def test_written_arguments_of_any_layout(name):
    def write(x):
        y = x * 3
        x.add_(1).mul_(2)
        return y + x

    want, got = _run(write, lambda: (FORMS[name](),))
    assert_results(got, want)


def _add(x, y):
    x.add_(1)
    return x + y


@pytest.mark.parametrize(
    "views",
    [lambda b: (b, b), lambda b: (b, b[:]), lambda b: (b[1:], b[:-1]), lambda b: (b[::2], b[1::2])],
)
def test_arguments_that_share_memory(views):
    want, got = _run(_add, lambda: views(torch.arange(6.0)))
    assert_results(got, want)


RESULTS = {
    "views of an argument": lambda x: (x.t(), x[1:], x[:, 0], x.view(-1)[3:]),
    "views of a result": lambda x: (y := x * 2, y.t(), y[1:, ::2]),
    "with gaps": lambda x: (x * 2)[:, ::2],
    "split": lambda x: x.split([2, 4]),
    "the argument": lambda x: (x, x.detach(), x.alias() if hasattr(x, "alias") else x),
    "twice": lambda x: (y := x + 1, y),
    "expanded": lambda x: x.sum(0).expand(3, 8),
    "of a written argument": lambda x: (x.add_(1)[1:], x.t()),
    "a part of the written argument": lambda x: x.add_(1).view(-1)[3:],
    "the argument, written": lambda x: x.add_(x.t().sum()),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_that_are_views(name):
    (want, (x,)), (got, (y,)) = _run(RESULTS[name], lambda: (BASE.clone(),))
    assert_results((got, y), (want, x))
    for one, other in zip(_tuple(got), _tuple(want), strict=True):
        assert one.storage_offset() == other.storage_offset()
        assert (one.data_ptr() == y.data_ptr()) == (other.data_ptr() == x.data_ptr())


def test_an_argument_that_a_later_graph_writes_and_returns():
    torch._dynamo.reset()
    apart = torch._dynamo.disable(lambda x: x)

    def function(x, y):
        parts = [x + 1, y + 2]
        x = apart(x)
        for part in parts:
            x += part
        return x

    x = BASE.clone()
    got = torch.compile(function, backend="ingot")(x, BASE)
    assert got is x
    assert torch.equal(x, function(BASE.clone(), BASE))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_written_view_that_is_an_argument_twice(dynamic):
    def function(x, y):
        x.add_(1)
        y.mul_(2)
        return x

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", dynamic=dynamic)
    for run in (function, compiled):
        part = torch.ones(10)[1:]
        assert torch.equal(run(part, part.view(-1)), torch.full((9,), 4.0))


def _tuple(results):
    return results if isinstance(results, tuple | list) else (results,)


def test_writes_show_in_results_that_are_views():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (y := x * 2, y.t()), backend="ingot")
    y, transposed = compiled(BASE.clone())
    y.zero_()
    assert not transposed.any()


def test_writes_show_in_results_that_see_the_same_tensor():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: ((y := x * 2).t(), y.view(-1)), backend="ingot")
    transposed, flat = compiled(BASE.clone())
    flat.zero_()
    assert not transposed.any()


COMPLEX = torch.complex(BASE, BASE.flip(0))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.conj() * 2, x.conj(), x.imag * 1, x.real + x.imag),
        lambda x: (x.conj().imag, torch.view_as_real(x) * 2),
    ],
)
def test_conjugated_and_negative_views(function):
    assert_same(function, COMPLEX)
    want, got = _run(lambda x, y: x * 2 + y, lambda: (COMPLEX.clone().conj(), COMPLEX.conj().imag))
    assert_results(got, want)


def test_batch_norm_in_training():
    torch._dynamo.reset()
    models = [nn.Sequential(nn.BatchNorm1d(4), nn.ReLU(), nn.BatchNorm1d(4))]
    models.append(copy.deepcopy(models[0]))
    runs = [models[0], torch.compile(models[1], backend="ingot")]
    for step in range(3):
        x = torch.linspace(-1, step + 1, 32).reshape(8, 4).requires_grad_()
        outs = [run(x) for run in runs]
        assert_results(outs[1], outs[0], rtol=1e-4, atol=1e-5)
        found = [torch.autograd.grad(out.pow(3).sum(), x) for out in outs]
        assert_results(found[1], found[0], rtol=1e-3, atol=1e-4)
    states = [list(model.state_dict().values()) for model in models]
    assert_results(states[1], states[0], rtol=1e-4, atol=1e-5)


OPTIMIZERS = [
    (torch.optim.SGD, {"momentum": 0.9}),
    (torch.optim.Adam, {"foreach": True}),
    (torch.optim.Adam, {"foreach": False}),
    (torch.optim.AdamW, {"weight_decay": 0.1}),
    (torch.optim.Adagrad, {}),
    (torch.optim.RMSprop, {"centered": True}),
]


@pytest.mark.parametrize(("kind", "settings"), OPTIMIZERS)
def test_compiled_optimizers(kind, settings):
    torch._dynamo.reset()
    parameters = [[nn.Parameter(BASE.clone()), nn.Parameter(torch.ones(4))] for _ in range(2)]
    optimizers = [kind(items, lr=0.1, **settings) for items in parameters]
    steps = [optimizers[0].step, torch.compile(optimizers[1].step, backend="ingot")]
    for _ in range(2):
        for items, step in zip(parameters, steps, strict=True):
            for item in items:
                item.grad = item.detach().sin()
            step()
    assert_results(parameters[1], parameters[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_autocast(kind):
    def cast(x, w):
        with torch.autocast("cpu", kind):
            y = torch.nn.functional.linear(x, w)
            return y, y.float().softmax(-1)

    assert_same(cast, BASE, BASE[:3].clone().requires_grad_(), rtol=2e-2, atol=2e-2, grad=True)


TRANSFORMS = {
    "vmap, a number": lambda x: vmap(lambda row: torch.add(row, 0.5))(x),
    "grad": lambda x: grad(lambda x: x.sin().sum())(x),
    "vmap": lambda x: vmap(lambda row: row.softmax(0) * row.sum())(x),
    "vmap of grad": lambda x: vmap(grad(lambda row: (row**3).sum()))(x),
    "jacrev": lambda x: jacrev(lambda row: row.sin())(x[0]),
    "jvp": lambda x: jvp(lambda x: x.sin() * x, (x,), (x + 1,)),
    "jacfwd": lambda x: jacfwd(lambda row: torch.tanh(row @ row + row))(x[0]),
    "hessian": lambda x: hessian(lambda row: (row.sin() * row.flip(0)).sum())(x[0]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    assert_same(TRANSFORMS[name], BASE)
    assert [op for op, why in compiled_graphs()[-1].host_ops if why] == []


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_gradients(context):
    with context():
        assert_same(lambda x: (x * 2).relu(), BASE.clone().requires_grad_())


def test_second_gradients_are_pytorchs_error():
    torch._dynamo.reset()
    x = torch.ones(3, requires_grad=True)
    y = torch.compile(lambda x: (x**3).sum(), backend="ingot")(x)
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()


def test_lbfgs_may_break_the_graph():
    torch._dynamo.reset()
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight])

    def closure():
        optimizer.zero_grad()
        loss = ((weight - 1) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(2):
        torch.compile(optimizer.step, backend="ingot")(closure)
    torch.testing.assert_close(weight.detach(), torch.ones(3))


class _Counter(nn.Module):
    """Writes a buffer that the gradient needs as it was before, or after."""

    def __init__(self, reads: str) -> None:
        super().__init__()
        self.reads = reads
        self.register_buffer("count", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.reads == "after":
            self.count += 1
            return x / self.count
        if self.reads == "before":
            made = x * (self.count * 2)
        elif self.reads == "a view before":
            made = x * self.count.view(3, 1)[1].sqrt()
        else:
            made = (x * self.count.sqrt().sin()).cos()
        self.count.mul_(3).add_(1)
        return made


@pytest.mark.parametrize("reads", ["after", "before", "a view before", "a chain before"])
def test_gradients_read_a_buffer_as_it_was_when_it_was_read(reads):
    """PyTorch's partitioner would compute them again from the buffer's new value."""
    torch._dynamo.reset()
    runs = []
    for is_compiled in (True, False):
        module = _Counter(reads)
        call = torch.compile(module, backend="ingot", fullgraph=True) if is_compiled else module
        found = []
        for _ in range(3):
            x = torch.linspace(-1, 1, 3, requires_grad=True)
            found += torch.autograd.grad(call(x).sum(), [x])
        runs.append([*found, module.count])
    assert_results(*runs)
