# SPDX-License-Identifier: Apache-2.0
"""Reductions, softmax, running folds, sorting and searching, compiled and eager.

Each case is one program of many ops, compiled without the host.
"""

from functools import partial

import pytest
import torch
from tests.frontends.torch.compare import assert_same, made

NAN, INF = float("nan"), float("inf")
STRANGE = torch.tensor([[1.0, NAN, -INF, 0.0, -0.0], [INF, 2.0, -0.0, 0.0, 2.0], [NAN] * 5])
TIES = torch.tensor([[3, 1, 3, 1, 2], [0, 0, 0, 0, 0], [5, 4, 3, 2, 1]])
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8, torch.bool]


@pytest.fixture(autouse=True)
def _strict(monkeypatch):
    monkeypatch.setenv("INGOT_STRICT", "1")


def sums(x, dim):
    return x.sum(), x.sum(dim), x.prod(dim), x.any(dim), x.all(), x.count_nonzero(dim)


def averages(x, dim):
    return (
        x.mean(dim), x.var(dim), x.std(correction=0), torch.var_mean(x, dim, correction=3),
        x.norm(), x.norm(1, dim), x.norm(3.5, dim), x.norm(INF), x.norm(0, dim, keepdim=True),
        x.logsumexp(dim),
    )  # fmt: skip


def softmaxes(x, dim):
    return torch.softmax(x, dim), torch.log_softmax(x, dim)


def extremes(x, dim):
    return (
        x.amax(dim), x.amin((0, 1)), x.max(), x.max(dim), x.min(dim, keepdim=True),
        x.argmax(), x.argmin(dim), x.aminmax(dim=dim), x.median(dim).values,
    )  # fmt: skip


def running(x, dim):
    most, least = x.cummax(dim), x.cummin(dim)
    signs = (most.values.signbit(), least.values.signbit())
    return x.cumsum(dim), x.cumprod(dim), most, least, signs


def orders(x, dim):
    return (
        torch.sort(x, dim=dim, stable=True), torch.sort(x, dim=dim, descending=True, stable=True),
        x.topk(2, dim).values, x.topk(2, dim, largest=False).values, x.kthvalue(2, dim).values,
        x.mode(dim), torch.argsort(x, dim=dim, stable=True),
    )  # fmt: skip


def medians(x, dim):
    return x.median(), x.nanmedian(), x.median(dim).values, x.nanmedian(dim).values


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reductions_of_every_type_are_eagers(dtype):
    x = made(dtype, 5, 7)
    if dtype is torch.bfloat16:  # eager rounds products after every step
        assert_same(lambda x: (x.sum(1), x.sum(), x.all(0)), x)
    else:
        assert_same(sums, x, 1)
    if dtype is not torch.bool:
        assert_same(extremes, x, 0)


@pytest.mark.parametrize("dims", [(5, 7), (1, 1), (3, 0), (4, 129)], ids=str)
def test_averages_norms_and_softmax_of_any_size_are_eagers(dims):
    x = made(torch.float32, *dims)
    assert_same(lambda x: (*averages(x, 0), *softmaxes(x, 0)), x) if 0 not in dims else None
    assert_same(lambda x: (*softmaxes(x, 1), x.sum(1), x.mean(1), x.logsumexp(1), x.cumsum(1)), x)


def test_complex_numbers_are_reduced():
    x = torch.complex(made(torch.float32, 3, 4), made(torch.float32, 4, 3).T)
    functions = (torch.sum, torch.mean, torch.prod, torch.var, torch.linalg.vector_norm)
    assert_same(lambda x: ([f(x, dim=1) for f in functions], x.cumsum(0), x.any(1)), x)


def test_scalars_are_reduced():
    def program(x):
        return (
            x.sum(0), x.max(0), x.argmin(), x.cumsum(0), x.cummax(-1), x.sort(0), x.topk(1),
            x.median(0), x.mode(0), x.kthvalue(1), torch.softmax(x, 0), x.logcumsumexp(0),
        )  # fmt: skip

    assert_same(program, torch.tensor(2.5))


@pytest.mark.parametrize("dim", [0, 1])
def test_nan_infinities_and_zeros_go_where_eager_puts_them(dim):
    def program(x):
        return (
            extremes(x, dim)[:-1], running(x, dim), orders(x, dim)[:-2], medians(x, dim),
            softmaxes(x, dim), x.logsumexp(dim), x.logcumsumexp(dim), x.norm(INF, dim),
        )  # fmt: skip

    assert_same(program, STRANGE)


def test_the_first_or_last_of_equal_elements_is_eagers():
    def program(x):
        return x.max(1), x.min(1), x.argmax(), x.argmin(0), running(x, 1), orders(x, 1)

    for dtype in (torch.int64, torch.int32, torch.float32, torch.float64):
        assert_same(program, TIES.to(dtype))
    assert_same(lambda x: (x.max(1), x.cummax(0), x.sort(dim=1, stable=True)), TIES > 1)


def test_running_sums_are_accumulated_as_precisely_as_eagers():
    x = torch.full((100_003,), 0.1)
    assert_same(lambda x: (x.cumsum(0), x[:40].cumprod(0)), x, rtol=1e-6, atol=0)


def test_sizes_are_symbolic():
    def program(x):
        return (
            sums(x, 0), averages(x, 1), softmaxes(x, 1), extremes(x, 0), running(x, 0),
            orders(x, 0), torch.searchsorted(x.sort(1).values, x), x.logcumsumexp(0),
        )  # fmt: skip

    for dims in ((6, 9), (2, 5)):
        assert_same(program, made(torch.float32, *dims), dynamic=True, fresh=dims == (6, 9))


@pytest.mark.parametrize("right", [False, True])
def test_searches_are_eagers(right):
    rows = torch.tensor([[1.0, 2.0, 2.0, 5.0, INF], [0.0, 0.0, 0.0, 0.0, NAN]])
    values = torch.tensor([[2.0, NAN, -1.0], [0.0, 7.0, -INF]])
    order = rows.flip(1).argsort(stable=True)

    def program(rows, values, order):
        search = partial(torch.searchsorted, right=right)
        return (
            search(rows, values), search(rows[0], values, out_int32=True), search(rows[0], 3),
            search(rows.flip(1), values, sorter=order), search(rows[:, :0], values),
            torch.bucketize(values, rows[0], right=right), torch.bucketize(3, rows[0]),
        )  # fmt: skip

    assert_same(program, rows, values, order)


def test_histograms_count_as_eagers():
    x = torch.tensor([0.0, 1.0, 2.5, -3.0, 9.999, 10.0, 10.1, 4.0])
    assert_same(lambda x: (x.histc(10, 0, 10), x.histc(3), x[:1].histc(4)), x)


def test_gradients_are_eagers():
    def program(x):
        y = torch.log_softmax(x, 1) + torch.softmax(x, 0) + x.cumsum(1)
        return y, x.max(1).values, x.norm(), x.var(0), x.sort(1).values, x.prod(1), x.logsumexp(0)

    x = made(torch.float32, 4, 5).requires_grad_()
    assert_same(program, x, grad=True, rtol=1e-4, atol=1e-5)
