# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's compilers leave out: sparse tensors break graphs, Triton kernels are refused.

So are arguments that PyTorch's kernels refuse: the error is theirs.
"""

import pytest
import torch
from torch._higher_order_ops import triton_kernel_wrap
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from ingot.frontends.torch.passes.triton_kernels import refuse_triton_kernels
from ingot.support.diagnostics import UnsupportedError

COO = torch.sparse_coo_tensor([[0, 1, 2], [2, 0, 1]], [3.0, 4.0, 5.0], (3, 3)).coalesce()
CSR = COO.to_sparse_csr()
X = torch.linspace(-1, 2, 9).reshape(3, 3)

SPARSE = {
    "COO": lambda x: COO @ (x * 2) + 1,
    "CSR": lambda x: CSR @ (x * 2) + 1,
    "to_dense": lambda x: CSR.to_dense() * x,
    "to_sparse": lambda x: (x * 2).relu().to_sparse(),
    "made": lambda x: torch.sparse_coo_tensor(COO.indices(), x[0] * 2, (3, 3)) @ x,
    "values": lambda x: COO.values() * x,
    "result": lambda x: (COO * 2, x + 1),
    "addmm": lambda x: torch.addmm(x.sin(), COO, x).cos(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SPARSE)
def test_programs_with_sparse_tensors_run(name):
    torch._dynamo.reset()
    assert_close(torch.compile(SPARSE[name], backend="ingot")(X), SPARSE[name](X))


def test_sparse_tensors_are_refused_by_pytorch_in_one_graph():
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="does not support sparse"):
        torch.compile(SPARSE["COO"], backend="ingot", fullgraph=True)(X)


@pytest.mark.filterwarnings("ignore")
def test_sparse_gradients():
    def loss(weight):
        rows = torch.nn.functional.embedding(torch.tensor([2, 0, 2]), weight, sparse=True)
        return (rows * rows).sum()

    torch._dynamo.reset()
    found = []
    for function in (loss, torch.compile(loss, backend="ingot", fullgraph=True)):
        weight = X.clone().requires_grad_()
        found.extend(torch.autograd.grad(function(weight), weight))
    assert found[1].is_sparse
    assert_close(found[1].coalesce(), found[0].coalesce())


INTEGERS = torch.arange(9).reshape(3, 3)
REFUSED = {
    "mm": lambda: torch.mm(X, INTEGERS),
    "addmm": lambda: torch.addmm(INTEGERS, X, X),
    "mv": lambda: torch.mv(INTEGERS, X[0]),
    "index_put": lambda: X.index_put((INTEGERS[0],), INTEGERS),
    "index_put with a mask": lambda: X.index_put((X > 0,), torch.arange(6)),
    "average pool": lambda: torch.nn.functional.adaptive_avg_pool2d(INTEGERS[None], 2),
    "maximum pool": lambda: torch.nn.functional.adaptive_max_pool2d(INTEGERS[None], 2),
}


@pytest.mark.filterwarnings("ignore::ingot.IngotWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_kernels_refuse(name):
    torch._dynamo.reset()
    with pytest.raises(RuntimeError) as wanted:
        REFUSED[name]()
    with pytest.raises(RuntimeError) as caught:
        torch.compile(REFUSED[name], backend="ingot")()
    assert str(caught.value) == str(wanted.value)


@pytest.mark.parametrize("dynamic", [False, True])
def test_tensors_without_memory(dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.sin() * 2, backend="ingot", dynamic=dynamic)
    for x in (X, X[:0], X.reshape(-1)):
        assert_close(compiled(x), x.sin() * 2)
    with FakeTensorMode(), pytest.raises(RuntimeError, match=r"has no memory[^$]*fake tensors"):
        compiled(torch.ones(3, 3))


def add_kernel() -> None:
    """Stand in for a kernel of Triton, which is not installed."""


class _Tuned:
    """What `triton.autotune` makes of a kernel."""

    fn = add_kernel


@pytest.mark.parametrize("kernel", [add_kernel, _Tuned()])
def test_triton_kernels_are_named(kernel):
    graph = torch.fx.Graph()
    number = triton_kernel_wrap.kernel_side_table.add_kernel(kernel)
    node = graph.call_function(
        triton_kernel_wrap.triton_kernel_wrapper_functional, kwargs={"kernel_idx": number}
    )
    node.meta["stack_trace"] = 'File "/home/me/model.py", line 12, in forward'
    with pytest.raises(UnsupportedError) as caught:
        refuse_triton_kernels(graph)
    assert caught.value.diagnostic.code == "INGOT0375"
    assert "'add_kernel'" in str(caught.value)
    assert "model.py:12" in str(caught.value)


@torch.library.triton_op("ingot_tests::plain", mutates_args=())
def _plain(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def test_a_triton_op_without_kernels_is_compiled():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: _plain(x) + 1, backend="ingot", fullgraph=True)
    assert_close(compiled(X), X.sin() * 2 + 1)


P = torch.tensor([0.5, 1.25])
OUTSIDE = torch.tensor([[[0, 99]]])
REFUSED_VALUES = {
    "bernoulli": (torch.bernoulli, P),
    "bernoulli of NaN": (torch.bernoulli, P * torch.nan),
    "cross-entropy": (lambda p: torch.nn.functional.binary_cross_entropy(p, p), P),
    "unpooled": (lambda p: torch.nn.functional.max_unpool1d(p[None, None], OUTSIDE, 2), P),
    "integer power": (lambda p: p.long() ** -2, P),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", REFUSED_VALUES)
def test_values_that_pytorchs_kernels_refuse(name, dynamic):
    function, argument = REFUSED_VALUES[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", dynamic=dynamic)
    with pytest.raises(RuntimeError) as expected:
        function(argument)
    with pytest.raises(RuntimeError) as found:
        compiled(argument)
    words = str(expected.value).split(".")[0].split(":")[0]
    assert words in str(found.value)


@pytest.mark.parametrize("error", [IndexError, RuntimeError])
def test_an_index_out_of_range_is_of_both_classes_that_pytorchs_kernels_raise(error):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, i: x.gather(0, i) * 2, backend="ingot")
    with pytest.raises(error, match="out of bounds"):
        compiled(X[0], torch.tensor([3]))
