# SPDX-License-Identifier: Apache-2.0
"""Sizes that data decides: masks, `nonzero`, `unique`, `item()`, in graphs that are not broken."""

import pytest
import torch
from tests.frontends.torch.compare import assert_runs_same, assert_same
from torch import Tensor
from torch.nn import functional
from torch.utils._pytree import tree_map

from ingot.frontends.torch.graphs import compiled_graphs

pytestmark = pytest.mark.filterwarnings("ignore::ingot.IngotWarning")


@pytest.fixture(autouse=True)
def _captured():
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    ):
        yield


def _sized(n):
    count = n.item()
    torch._check(count >= 0)
    torch._check(count < 100)
    return torch.arange(count) * 2, torch.ones(count, 3).sum(0), count + 1


def _scaled(x, n):
    return x * n.item() + 1


def _halves(x):
    found = x[x > 0]
    return found.sin(), found.shape[0], found.new_ones(found.shape[0] + 2), found.sum()


def _two(x):
    positive, negative = x[x > 0], x[x < 0]
    return torch.cat([positive, negative]) * 2, positive.shape[0] * negative.shape[0]


def _twice(x):
    found = x[x > -0.5]
    return found[found > 0.5] * 3, found * 2


def _at(x, n):
    return x[n.item()] * 2, x[n.item() + 1]


def _narrow(x, n):
    start = n.item()
    torch._check(start >= 0)
    torch._check(start + 3 <= x.shape[0])
    return x.narrow(0, start, 3) * 2


def _windows(x, n):
    window = torch.narrow(x, 0, n, 4)
    return window, window[1:], window * 2, torch.narrow(x + 1, 0, n, 3).exp()


def _split(x, n):
    return torch.ops.aten.split_with_sizes(x, n.tolist())


X = torch.linspace(-1, 1, 21)
CASES = {
    "nonzero": (lambda x: (x > 0).nonzero() * 2, X.reshape(3, 7)),
    "nonzero, tuple": (lambda x: torch.nonzero(x > 0, as_tuple=True), X.reshape(3, 7)),
    "none": (lambda x: x[x > 5].exp(), X),
    "mask": (_halves, X),
    "two masks": (_two, X),
    "mask of a mask": (_twice, X),
    "masked_select": (lambda x: torch.masked_select(x * 2, x > 0).cos(), X),
    "rows": (lambda x: x[x[:, 0] > 0].sum(1), X.reshape(7, 3)),
    "unique": (lambda x: torch.unique(x) * 2, torch.tensor([3, 1, 3, 0, 1])),
    "unique, counts": (
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        torch.tensor([3, 1, 3, 0, 1]),
    ),
    "repeat_interleave": (
        lambda x, n: x.repeat_interleave(n) + 1,
        torch.arange(3.0),
        torch.tensor([2, 0, 3]),
    ),
    "item": (_sized, torch.tensor(5)),
    "item, 0": (_sized, torch.tensor(0)),
    "item, a number": (_scaled, X, torch.tensor(-3)),
    "item, a float": (_scaled, X, torch.tensor(-0.75)),
    "item, an index": (_at, X, torch.tensor(4)),
    "item, an index from the end": (_at, X.reshape(7, 3), torch.tensor(-3)),
    "item, a start": (_narrow, X, torch.tensor(17)),
    "an offset": (_windows, X, torch.tensor(5)),
    "split": (_split, X.clone().requires_grad_(), torch.tensor([2, 15, 4])),
    "a truth value": (lambda x: bool(x.any().item()), X > 0.5),
    "item, computed": (lambda x: x * x.sum().item() + x.abs().max().item(), X + 0.3),
}


@pytest.mark.parametrize("name", CASES)
def test_data_sizes(name):
    function, *args = CASES[name]
    assert_same(function, *args)


DISTINCT = {
    "elements": torch.unique,
    "inverse": lambda x: torch.unique(x, return_inverse=True),
    "counts": lambda x: torch.unique(x, return_counts=True),
    "all": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "runs": torch.unique_consecutive,
    "runs, all": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
}
REPEATED = (
    torch.tensor([[3, 1, 3, 0], [1, 1, -7, 3]]),
    torch.tensor([0.0, torch.nan, 1.0, torch.nan, -torch.inf, 0.0, torch.inf, -torch.inf]),
    torch.tensor([0.0, -0.0, 1.0]),
    torch.tensor([True, True, False]),
    torch.tensor(3),
    torch.tensor([5], dtype=torch.int8),
    torch.linspace(-3, 3, 1009).round().half(),
)


@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_elements(name, monkeypatch):
    monkeypatch.setenv("INGOT_STRICT", "1")
    for x in REPEATED:
        assert_same(DISTINCT[name], x)


SLICES = {
    "slices": lambda x: torch.unique(x, dim=0),
    "columns, all": lambda x: torch.unique(x, dim=-1, return_inverse=True, return_counts=True),
    "runs": lambda x: torch.unique_consecutive(x, dim=0),
    "runs of columns": lambda x: torch.unique_consecutive(x, dim=-1, return_counts=True),
    "runs of columns, all": lambda x: torch.unique_consecutive(
        x, dim=1, return_inverse=True, return_counts=True
    ),
}
POINTS = (
    torch.tensor([[3, 1, 3], [1, 1, -7], [3, 1, 3], [3, 1, 2], [1, 1, -7], [1, 1, -7]]),
    torch.tensor([[0.5, 1.0, 0.5], [0.5, -torch.inf, 0.5], [0.5, 1.0, 0.5]]),
    (torch.arange(2 * 40 * 3) * 7 % 5).reshape(40, 2, 3).float(),
    torch.tensor([[True, False, True], [True, True, True], [True, False, True]]),
)


@pytest.mark.parametrize("name", SLICES)
def test_distinct_slices(name, monkeypatch):
    monkeypatch.setenv("INGOT_STRICT", "1")
    # PyTorch's kernel gives other strides than PyTorch says when it traces.
    for x in POINTS:
        assert_same(lambda x: tree_map(Tensor.contiguous, SLICES[name](x)), x)


def test_runs_are_read_where_they_lie():
    """What finds where runs begin writes one flag an element: no copy of them, no row numbers."""
    torch._dynamo.reset()
    run = torch.compile(torch.unique_consecutive, backend="ingot", fullgraph=True)
    run(torch.tensor([2.0, 2.0, 5.0]))
    first, *_ = compiled_graphs()[-1].executables
    shapes = sorted(str(leaf) for _, leaf in first.module.entry.root.shape.leaves())
    assert shapes == ["pred[3]{0}", "s64[]"]


def test_distinct_elements_of_nothing():
    """By PyTorch's kernel."""
    for x in (torch.zeros(0), torch.zeros(3, 0)):
        assert_same(DISTINCT["all"], x)


OF_ANY_LENGTH = {
    "mask": lambda x: x.flatten()[x.flatten() > 0].sin(),
    "mask of a mask": lambda x: _twice(x.flatten()),
    "rows": lambda x: x[x[:, 0] > 0].sum(1),
    "nonzero": lambda x: [item + 1 for item in x.round().nonzero(as_tuple=True)],
    "masked_select": lambda x: torch.masked_select(x, x < 0.3) * 2,
    "unique": lambda x: torch.unique(x.round(), return_inverse=True, return_counts=True),
    "unique of a mask": lambda x: torch.unique(x[x > 0.5].round(), return_counts=True),
    "runs of a mask": lambda x: torch.unique_consecutive(x[x > 0.5].round(), return_counts=True),
    "slices": lambda x: [
        item.contiguous()
        for item in torch.unique(x.round(), dim=0, return_inverse=True, return_counts=True)
    ],
}


@pytest.mark.parametrize("name", OF_ANY_LENGTH)
def test_elements_of_arrays_of_any_length_are_found_by_programs(name):
    """The lengths are around those of the scan's blocks; of zeros nothing is chosen."""
    function = OF_ANY_LENGTH[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", fullgraph=True, dynamic=True)
    before = {graph.name for graph in compiled_graphs()}
    for rows in (5, 31, 32, 33, 64, 200):
        x = torch.linspace(0, 40, rows * 2).sin().reshape(rows, 2)
        assert_runs_same(function, compiled, x)
        assert_runs_same(function, compiled, x * 0)
    (graph,) = [graph for graph in compiled_graphs() if graph.name not in before]
    assert [op for op, why in graph.host_ops if why] == []


MASKED = {
    "nonzero": lambda x: (x > 0).nonzero() + 1,
    "nonzero of numbers": lambda x: x.round().nonzero(),
    "all dimensions": lambda x: x[x > 0.5] * 2,
    "none": lambda x: x[x > 9],
    "the first": lambda x: x[x[:, 0, 0] > 0],
    "the last": lambda x: x[:, :, x[0, 0] > 0].sin(),
    "the middle": lambda x: x[:, x[0, :, 0] > 0] - 1,
    "masked_select": lambda x: torch.masked_select(x, x < 0),
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_are_counted_and_taken_by_programs(name):
    x = torch.linspace(0, 40, 3 * 5 * 4).sin().reshape(3, 5, 4)
    assert_same(MASKED[name], x)
    (graph,) = compiled_graphs()[-1:]
    assert [op for op, why in graph.host_ops if why] == []
    assert "aten._local_scalar_dense.default" in dict(graph.host_ops)


COUNTED = {
    "counts": lambda n, x: torch.bincount(n) * 2,
    "a least size": lambda n, x: torch.bincount(n, minlength=9),
    "weights": lambda n, x: torch.bincount(n + 1, x, 3).sin(),
    "weights of integers": lambda n, x: torch.bincount(n, n),
    "repeats": lambda n, x: x.repeat_interleave(n, output_size=None).exp(),
    "repeats of rows": lambda n, x: torch.stack([x, -x], 1).repeat_interleave(n, 0),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", COUNTED)
def test_counts_and_repeats_are_programs(name, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(COUNTED[name], backend="ingot", fullgraph=True, dynamic=dynamic)
    for numbers in ([2, 0, 5, 2], [0, 0, 1, 0, 3, 7, 7], [4, 4, 4]):
        given = torch.tensor(numbers, dtype=torch.int32 if "counts" in name else torch.int64)
        assert_runs_same(COUNTED[name], compiled, given, torch.linspace(-1, 1, len(numbers)))
        (graph,) = compiled_graphs()[-1:]
        assert [op for op, why in graph.host_ops if why] == []
        assert len(graph.executables) == 2


SLICED = {
    "end": lambda x, n, m: x[: n.item()].sum(0),
    "start": lambda x, n, m: x[n.item() :].exp(),
    "both": lambda x, n, m: x.sin()[n.item() : m.item()] * 2,
    "second dimension": lambda x, n, m: x[:, : n.item()].sum(1) + x[1, 2],
    "a step": lambda x, n, m: x[: n.item() : 2].sum(),
    "a view": lambda x, n, m: x[n.item() :],
    "an expression": lambda x, n, m: x[: n.item() + 1].cos() - x[0],
    "of a slice": lambda x, n, m: x[: n.item()][: m.item()].sum(),
    "written": lambda x, n, m: x.clone().index_fill(0, torch.arange(9)[: n.item()], 0.5),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", SLICED)
def test_slices_whose_bounds_data_decides(name, dynamic):
    """Their length has a symbol of its own, which nothing computed before the program ran."""
    torch._dynamo.reset()
    program = SLICED[name]
    compiled = torch.compile(program, backend="ingot", fullgraph=True, dynamic=dynamic)
    x = torch.randn(9, 5, requires_grad=True)
    for n, m in ((2, 4), (0, 3), (-3, -1), (20, 30), (-20, 20), (7, 2)):
        assert_runs_same(program, compiled, x, torch.tensor(n), torch.tensor(m), grad=True)


@pytest.mark.parametrize("size", [None, 40])
def test_repeats_search_nothing(size):
    """The row of each element is counted in two passes: a search takes one for each doubling."""
    torch._dynamo.reset()
    repeats = torch.tensor([0, 0, 7, 1, 0, 20, 2, 0, 10, 0])

    def program(n):
        return torch.repeat_interleave(n, output_size=size)

    compiled = torch.compile(program, backend="ingot", fullgraph=True)
    assert_runs_same(program, compiled, repeats)
    kernels = [k for e in compiled_graphs()[-1].executables for k in e.kernels]
    assert "gather" not in {opcode for kernel in kernels for opcode in kernel.opcodes}


def test_counts_of_nothing_and_of_negative_numbers():
    empty = torch.zeros(0, dtype=torch.int64)
    assert_same(lambda n: (torch.bincount(n), torch.bincount(n, minlength=3)), empty)
    compiled = torch.compile(torch.bincount, backend="ingot", fullgraph=True)
    with pytest.raises(RuntimeError, match="bincount only supports 1-d non-negative"):
        compiled(torch.tensor([3, -1]))


def test_one_compilation_for_all_data():
    torch._dynamo.reset()
    compiled = torch.compile(_halves, backend="ingot", fullgraph=True, dynamic=True)
    for x in (X, X.abs() + 1, -X.abs() - 1, X[:5]):
        assert_runs_same(_halves, compiled, x)


def _masked_loss(x, w):
    found = (x @ w).flatten()
    return (found[found > 0] ** 2).sum() / 3


def test_gradients_through_a_mask():
    w = torch.linspace(-1, 1, 8).reshape(4, 2).requires_grad_()
    assert_same(_masked_loss, torch.linspace(-1, 2, 12).reshape(3, 4), w, grad=True)


def test_assertions_of_tensors_are_part_of_the_program():
    def classes(x):
        return functional.one_hot(x, 5) * 2, functional.one_hot(x, 9).sum(0)

    def checked(x):
        torch._assert_async(x.min() > 0, "it must be positive")
        return x.log()

    assert_same(classes, torch.tensor([1, 4, 0]))
    (graph,) = compiled_graphs()[-1:]
    assert "aten._assert_async.msg" not in dict(graph.host_ops)
    assert_same(checked, torch.tensor([2.0, 1.0]))
    assert compiled_graphs()[-1].host_ops == ()
    compiled = torch.compile(checked, backend="ingot", fullgraph=True)
    with pytest.raises(RuntimeError, match="it must be positive"):
        compiled(torch.tensor([2.0, -1.0]))
    alone = torch.compile(lambda x: checked(x)[:0] + 1, backend="ingot", fullgraph=True)
    with pytest.raises(RuntimeError, match="it must be positive"):
        alone(torch.tensor([-1.0]))


def test_checks_keep_their_meaning():
    def checked(x):
        n = x.item()
        torch._check(n > 3, lambda: "too few")
        return torch.ones(4) * n

    torch._dynamo.reset()
    compiled = torch.compile(checked, backend="ingot", fullgraph=True)
    assert_runs_same(checked, compiled, torch.tensor(5))
    with pytest.raises(RuntimeError, match=r"too few|u0 > 3|Runtime assertion"):
        compiled(torch.tensor(2))


def _equal_items(x, y):
    n, m = x.item(), y.item()
    torch._check(n == m)
    return torch.ones(n) + torch.ones(m) * 2


def _shifted_items(x, y):
    n, m = x.item(), y.item()
    torch._check(n == m + 3)
    return torch.ones(n) + torch.ones(m + 3) * 2


def _equal_counts(x, y):
    found, numbers = x.nonzero(), torch.unique(y)
    torch._check(found.shape[0] == numbers.shape[0])
    torch._check(numbers.shape[0] == 2)
    return found[:, 0] + numbers


def _three(x, y):
    n = x.item()
    torch._check(n == 3)
    return y + n


def _four(x):
    found = x.nonzero()
    torch._check(found.shape[0] == 4)
    return found[:, 0] + 3


EQUAL = {
    "two numbers": (_equal_items, ([3], [3]), ([3], [2])),
    "a number and a sum": (_shifted_items, ([5], [2]), ([5], [3])),
    "two counts": (_equal_counts, ([0, 1, 3], [4, 5]), ([0, 1, 3], [4, 4])),
    "a number": (_three, ([3], [1]), ([4], [1])),
    "a count": (_four, ([0, 1, 3, 4, 2, 0],), ([0, 1, 0, 4, 2, 0],)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", EQUAL)
def test_sizes_that_checks_make_equal(name, dynamic):
    function, *calls = EQUAL[name]
    right, wrong = ([torch.tensor(numbers) for numbers in call] for call in calls)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", fullgraph=True, dynamic=dynamic)
    assert_runs_same(function, compiled, *right)
    with pytest.raises(RuntimeError, match="the check of a size failed: u"):
        compiled(*wrong)


class _Joined(torch.autograd.Function):
    """A concatenation whose gradient reads the sizes again."""

    @staticmethod
    def forward(ctx, first, second, sizes):
        ctx.save_for_backward(sizes)
        return torch.cat([first, second])

    @staticmethod
    def backward(ctx, gradient):
        (sizes,) = ctx.saved_tensors
        return *gradient.split(sizes.tolist()), None


def test_numbers_that_the_backward_part_reads_again():
    def function(x, sizes):
        first, second = x.split(sizes.tolist())
        return _Joined.apply(first, second * 2, sizes)

    assert_same(function, torch.randn(9, requires_grad=True), torch.tensor([3, 6]), grad=True)


def test_assertions_of_tensors_keep_their_meaning():
    def checked(x):
        torch._assert_async((x > 0).all(), "not positive")
        return x * 2

    torch._dynamo.reset()
    compiled = torch.compile(checked, backend="ingot")
    assert_runs_same(checked, compiled, torch.ones(3))
    with pytest.raises(RuntimeError, match="not positive"):
        compiled(-torch.ones(3))


def _written_back(x, limit):
    mask = x[:, 0] > limit
    found = x[mask]
    written = torch.zeros_like(x)
    written[mask] = found * 2 + 1
    scattered = torch.ones_like(x).masked_scatter(mask[:, None], found.exp())
    return written, scattered, found.sum(0)


def test_masks_that_select_nothing_write_nothing():
    torch._dynamo.reset()
    compiled = torch.compile(_written_back, backend="ingot", fullgraph=True, dynamic=True)
    for rows, limit in ((16, 0.0), (16, 9.0), (5, 9.0), (33, -9.0)):
        x = torch.randn(rows, 5, requires_grad=True)
        assert_runs_same(_written_back, compiled, x, torch.tensor(limit), grad=True)


EXTREMES = {
    "max": lambda x: x[x > 0].max(),
    "min": lambda x: x[x > 0].min() + 1,
    "max along": lambda x: x[x > 0].max(0),
    "min along": lambda x: x[x > 0].min(-1),
    "median along": lambda x: x[x > 0].median(0),
    "amax": lambda x: x[x > 0].amax(),
    "argmax": lambda x: x[x > 0].argmax(0),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_of_no_elements_are_refused(name):
    """A fold would give infinities; the number of elements is known only in a call."""
    function = EXTREMES[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", fullgraph=True)
    assert_runs_same(function, compiled, X)
    with pytest.raises((RuntimeError, IndexError)) as want:
        function(-X.abs())
    asserted = name in ("amax", "argmax")  # by PyTorch's trace, in its words
    with pytest.raises(RuntimeError if asserted else want.type) as got:
        compiled(-X.abs())
    assert asserted or str(want.value) in str(got.value)


@pytest.mark.parametrize("function", [torch.max, torch.min, lambda x: x.max(0)])
def test_extremes_of_a_size_of_0_are_refused(function):
    compiled = torch.compile(function, backend="ingot", fullgraph=True)
    for call in (function, compiled):
        with pytest.raises((RuntimeError, IndexError), match="Expected reduction dim"):
            call(torch.zeros(0))
