# SPDX-License-Identifier: Apache-2.0
"""Higher-order ops are conditionals and loops of one program, with gradients and symbolic sizes."""

import pytest
import torch
from tests.frontends.torch.compare import assert_runs_same, assert_same
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

from ingot.frontends.torch.graphs import compiled_graphs

X = torch.linspace(-1, 2, 15).reshape(5, 3)
W = torch.linspace(0.5, 1, 3)


def _cond(x, w):
    return torch.cond(x.sum() > 0, lambda x: (x.sin(), x * w), lambda x: (x.cos(), x + w), (x,))


def _nested(x, w):
    def inner(x):
        return torch.cond(x.amax() > 1, lambda x: x * w, lambda x: x - w, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x.clone(), (x,))


def _held(x, w):
    def inner(x):
        return torch.cond(torch.tensor(False), lambda x: x * w, lambda x: x - w, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x * torch.tensor([1.0, 2.0, 3.0]), (x,))


def _while(x, w):
    start = torch.zeros((), dtype=torch.int64)
    return while_loop(
        lambda i, x: (i < 5) & (x.sum() < 50), lambda i, x: (i + 1, x * 2 + w), (start, x)
    )


def _nested_while(x, w):
    def zero():
        return torch.zeros((), dtype=torch.int64)

    def body(i, x):
        return i + 1, while_loop(lambda j, x: j < 3, lambda j, x: (j + 1, x + w), (zero(), x))[1]

    return while_loop(lambda i, x: i < 4, body, (zero(), x))


CASES = {
    "cond": _cond,
    "cond in a cond": _nested,
    "tensors that bodies hold": _held,
    "scan": lambda x, w: scan(lambda c, r: (c + r * w, c * r), x[0], x),
    "scan, backwards": lambda x, w: scan(lambda c, r: (c * w + r, c - r), x[0], x, reverse=True),
    "map": lambda x, w: map_rows(lambda r: (r.sin() + w, r.sum()), x),
    "associative_scan": lambda x, w: associative_scan(
        lambda a, b: a * b + 1, x * w, 0, combine_mode="generic"
    ),
    "checkpoint": lambda x, w: checkpoint(lambda x: (x * w).sin().exp(), x, use_reentrant=False),
}


@pytest.mark.filterwarnings("ignore::ingot.IngotWarning")
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    assert_same(CASES[name], X.clone().requires_grad_(), W.clone().requires_grad_(), grad=True)


@pytest.mark.parametrize("function", [_while, _nested_while])
@pytest.mark.parametrize("dynamic", [False, True])
def test_while_loops(function, dynamic):
    assert_same(function, X, W, dynamic=dynamic)
    (graph,) = [graph for graph in compiled_graphs() if "while" in _hlo(graph)][-1:]
    assert not graph.host_ops


def _scaled_while(x, w):
    def body(i, x, y):
        return i + 1, (x * w + y).sin(), y * w

    def goes_on(i, x, y):
        return (i < 4) & (x.sum() < 50)

    return while_loop(goes_on, body, (torch.zeros((), dtype=torch.int64), x, x * 2))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("factor", [1, 100])  # the second has no turn
def test_gradients_of_while_loops_are_loops(factor, dynamic):
    x, w = (X * factor).requires_grad_(), W.clone().requires_grad_()
    assert_same(_scaled_while, x, w, grad=True, dynamic=dynamic)
    graphs = compiled_graphs()[-2:]
    assert ["while" in _hlo(graph) for graph in graphs] == [True, True]
    hosted = [name for graph in graphs for name, _ in graph.host_ops]
    assert hosted == ["aten._local_scalar_dense.default"]  # the number of turns


def test_gradients_of_one_compiled_while_loop_for_any_number_of_turns():
    torch._dynamo.reset()
    compiled = torch.compile(_scaled_while, backend="ingot", fullgraph=True)
    for factor in (1, 100, -3):
        args = ((X * factor).requires_grad_(), W.clone().requires_grad_())
        assert_runs_same(_scaled_while, compiled, *args, grad=True)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_keeps_what_is_the_same_in_each_step_once(reverse):
    def stepped(x, w):
        def step(carried, row):
            carried = torch.tanh(carried @ w.t().exp() + row)
            return carried, carried * 2

        return scan(step, x[0], x, reverse=reverse)

    x, w = torch.linspace(-1, 2, 7 * 3 * 5).view(7, 3, 5), torch.linspace(-1, 1, 25).view(5, 5)
    assert_same(stepped, x.requires_grad_(), w.requires_grad_(), grad=True)
    forward, backward = compiled_graphs()[-2:]
    for graph in (forward, backward):
        (executable,) = graph.executables
        assert " while(" in executable.as_text("hlo")
        assert "f32[7,5,5]" not in executable.as_text("hlo")  # the weight of each step


@pytest.mark.parametrize("name", ["cond", "cond in a cond", "scan", "map"])
def test_one_compilation_serves_all_sizes(name):
    torch._dynamo.reset()
    function = CASES[name]
    compiled = torch.compile(function, backend="ingot", dynamic=True, fullgraph=True)
    with torch._dynamo.config.patch(error_on_recompile=False):
        for rows in (2, 3, 7):
            assert_runs_same(function, compiled, torch.linspace(-1, 3, rows * 3).view(-1, 3), W)


def test_both_branches_run():
    torch._dynamo.reset()
    compiled = torch.compile(_cond, backend="ingot", fullgraph=True)
    for x in (X, -X):
        assert_runs_same(_cond, compiled, x, W)


@pytest.mark.filterwarnings("ignore::ingot.IngotWarning")
def test_a_body_that_draws_runs_on_the_host_in_order():
    def drawing(x):
        y = torch.cond(x.sum() > 0, lambda x: x * torch.rand(5, 3), lambda x: x.clone(), (x,))
        return y + torch.rand(3)

    assert_same(drawing, X)


BIAS = torch.tensor([0.5, -2.0])
SCORES = {
    "plain": {},
    "score_mod": {"score_mod": lambda s, b, h, i, j: s + (i - j) / 2},
    "captured": {"score_mod": lambda s, b, h, i, j: s * BIAS[h]},
    "block_mask": {
        "block_mask": create_block_mask(
            lambda b, h, i, j: i >= j, 1, 2, 8, 8, device="cpu", BLOCK_SIZE=4
        )
    },
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCORES)
def test_flex_attention_is_taken_apart(name):
    q = torch.linspace(-1, 1, 128).reshape(1, 2, 8, 8)
    assert_same(lambda q, k: flex_attention(q, k, k * 2, **SCORES[name]), q, q.flip(2) * 3)
    ops = [name for graph in compiled_graphs() for name, _ in graph.host_ops]
    assert "flex_attention" not in ops


@torch.library.custom_op("ingot_tests::add_one", mutates_args=("x",))
def _add_one(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("ingot_tests::twice", mutates_args=())
def _twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


_twice.register_fake(torch.empty_like)


@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_bodies_that_read_numbers():
    def function(chosen, x, n, m):
        return torch.cond(chosen, lambda x: x * n.item(), lambda x: x * m.item(), (x,)) * 2

    x, numbers = X.clone().requires_grad_(), (torch.tensor([3]), torch.tensor([4.5]))
    for chosen in (True, False):
        assert_same(function, torch.tensor(chosen), x, *numbers, grad=True)


def test_ops_of_libraries_run_on_the_host():
    def using(x):
        y = x * 2
        _add_one(y)
        _add_one(x)
        return _twice(y.sin()) + x

    assert_same(using, X)


def _hlo(graph):
    return "".join(executable.as_text("hlo_before") for executable in graph.executables)
