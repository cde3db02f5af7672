# SPDX-License-Identifier: Apache-2.0
"""Indexing, scatters, embeddings and views by strides, compiled and eager; indices out of range."""

import pytest
import torch
from tests.frontends.torch.compare import assert_runs_same, assert_same, made
from torch.nn import functional

I = torch.tensor([2, 0, -1, 1])  # noqa: E741
J = torch.tensor([[1], [-2]])
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]


@pytest.fixture(autouse=True)
def _strict(monkeypatch):
    monkeypatch.setenv("INGOT_STRICT", "1")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reads_are_eagers(dtype):
    x = made(dtype, 3, 4, 5)

    def program(x, i, j):
        return (
            x[i], x[:, i], x[i, :, j], x[i, j], x[:, i, j], x[..., i[:0]], x[None, i], x[1, i],
            x[i.to(torch.int32)], x.take(j), x.index_select(1, i.abs()),
            x.gather(1, i.abs().reshape(1, 2, 2)), x.gather(2, i.abs().reshape(2, 1, 2)),
        )  # fmt: skip

    assert_same(program, x, I, J)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_writes_are_eagers(dtype):
    x, y = made(dtype, 3, 4, 5), made(dtype, 4, 4, 5)

    def program(x, y, i, j, mask):
        value, cell = y[0, 0, 0].clone(), torch.zeros_like(i)
        written = x.clone()
        written[i[:3], :, 1] = y[:3, :, 2]
        written[i[:2], :, j[:, 0]] = value
        return (
            written, x.index_put((i,), y, accumulate=True), x.index_add(0, i.abs(), y),
            x.index_copy(1, i[:2].abs(), y[:3, :2]),
            x.index_fill(2, i, 1), x.put(j, y[0, 0, :2].reshape(2, 1), accumulate=True),
            x.scatter(0, cell.reshape(1, 4, 1), y), x.scatter(1, i.abs().reshape(1, 2, 2), 1),
            x.scatter_add(0, cell.reshape(4, 1, 1).expand(4, 2, 3), y), x.index_put((mask,), value),
            x.masked_fill(mask[:, None, None], 1), x.masked_scatter(mask[:, None, None], y),
        )  # fmt: skip

    assert_same(program, x, y, I, J, torch.tensor([True, False, True]))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_scatters_reduce_as_eagers(dtype, include_self):
    x, y = made(dtype, 3, 4), made(dtype, 6, 4)
    index = torch.tensor([2, 0, 2, 2, 0, 2])

    def program(x, y, index):
        wide = index[:, None].expand(6, 3)
        return [
            (
                x.scatter_reduce(0, wide, y, name, include_self=include_self),
                x.index_reduce(0, index, y, name, include_self=include_self)
                if name != "sum"
                else x.scatter(0, wide, y, reduce="multiply"),
            )
            for name in ("sum", "prod", "mean", "amax", "amin")
        ]

    assert_same(program, x, y, index)


def test_parts_are_written():
    def program(x, y):
        return (
            x.slice_scatter(y, 1, 1, 7, 2), x.slice_scatter(y, 1, -3),
            x.select_scatter(y[:, 0], 1, -1), x.diagonal_scatter(y[0, :3], 1),
            x.diagonal_scatter(y[0, :2], -1), x.diagonal(2),
            x.diagonal(-1), x.t().diagonal(-9), x.diag_embed(-1), x.tril(1), x.triu(-1),
        )  # fmt: skip

    assert_same(program, made(torch.float32, 3, 7), made(torch.float32, 3, 3))


def test_strided_views_are_eagers():
    def program(x, y):
        return (
            (x * 2)[:, ::2].unsqueeze(0).expand(2, 4, 3), x.as_strided((2, 3), (1, 2)),
            x.as_strided((4, 3), (3, 1), 2),
            x.as_strided((3, 2), (0, 5)),
            torch.as_strided_scatter(x, y, (2, 2), (7, 2), 1), x.t().as_strided((5,), (2,), 3),
            x.unfold(1, 3, 2), x.unfold(0, 2, 1),
        )  # fmt: skip

    assert_same(program, made(torch.float32, 4, 5), made(torch.float32, 2, 2))


def test_embeddings_and_their_gradients():
    index, bags = torch.tensor([1, 0, 4, 1, 2, 2]), torch.tensor([0, 2, 2])

    def program(table, scales):
        return (
            functional.embedding(index.reshape(2, 3), table, padding_idx=1),
            functional.embedding(index, table, scale_grad_by_freq=True),
            functional.embedding_bag(index, table, bags, mode="mean"),
            functional.embedding_bag(index, table, bags, mode="sum", per_sample_weights=scales),
            functional.embedding_bag(index.reshape(3, 2), table, padding_idx=2),
        )

    table, scales = made(torch.float32, 5, 3).requires_grad_(), made(torch.float32, 6)
    assert_same(program, table, scales, grad=True)


@pytest.mark.filterwarnings("ignore::ingot.IngotWarning")
def test_what_rules_do_not_take_is_left_to_pytorch(monkeypatch):
    monkeypatch.setenv("INGOT_STRICT", "0")

    def program(x):
        return x.cumsum(0), x[:3].to(torch.complex64).logcumsumexp(0)

    assert_same(program, made(torch.float32, 5, 3))


@pytest.mark.filterwarnings("ignore::ingot.IngotWarning")
def test_distances_and_their_gradients(monkeypatch):
    monkeypatch.setenv("INGOT_STRICT", "0")  # PyTorch takes some apart into ops of other families

    def program(x, y, z):
        pairs = [torch.cdist(x, y, p) for p in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf"))]
        return (
            *pairs,
            torch.cdist(z, z.flip(0)),
            functional.pdist(x),
            functional.pdist(y, 1.0),
            torch.dist(x, x * 2),
        )

    x, y = made(torch.float32, 4, 3), made(torch.float32, 3, 3)
    many = torch.arange(30.0)[:, None] * torch.tensor([1.0, 2.0])
    given = [item.requires_grad_() for item in (x, y, many)]
    assert_same(program, *given, grad=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "mode", ["use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist"]
)
def test_equal_rows_of_symbolic_numbers_are_at_no_distance(mode):
    """A product rounds by the size of the rows; few rows are compared by their differences."""

    def program(x, y):
        return torch.cdist(x, y, compute_mode=mode)

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="ingot", dynamic=True, fullgraph=True)
    for n, m in ((4, 7), (25, 24), (0, 5)):
        whole = made(torch.float32, 2, 40, 5)
        x, y = (whole[:, :count].clone().requires_grad_() for count in (n, m))
        assert_runs_same(program, compiled, x, y, grad=True)
        assert not compiled(x, y).diagonal(dim1=1, dim2=2).any()


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("sizes", [((0, 4, 5), (3, 5)), ((2, 0, 5), (3, 5)), ((4, 0), (3, 0))])
def test_distances_of_nothing_have_gradients(sizes, p):
    x, y = (torch.ones(dims, requires_grad=True) for dims in sizes)
    assert_same(lambda x, y: torch.cdist(x, y, p), x, y, grad=True)


def test_sizes_are_symbolic():
    def program(x, i, j):
        return (
            x[i], x[:, j], x[i, j], x.index_put((i,), x[i] * 2), x.take(i), x.diagonal(-1),
            x.gather(0, j[:, None]), x.scatter_add(0, j[:, None].expand(-1, 3), x),
            x.flip(0), x.repeat(2, 3), functional.pad(x, (1, 2, 0, 1)), x.unfold(0, 2, 1), x.tril(),
            x.slice_scatter(x[:2], 0, 0, 2), x.slice_scatter(x[::2], 0, 0, None, 2),
        )  # fmt: skip

    assert_same(program, made(torch.float32, 4, 3), I, torch.tensor([0, 1, 1, 0]), dynamic=True)


KINDS = (torch.uint8, torch.int16, torch.int32, torch.float16, torch.bfloat16, torch.float64)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bits_are_elements_of_another_type(kind, dynamic):
    x = torch.arange(48).reshape(3, 16).to(kind)

    def program(x):
        return [(x + 1).view(other).flip(0) for other in KINDS]

    assert_same(program, x, dynamic=dynamic)
    assert_same(program, x[:0])
    assert_same(lambda x: x.view(torch.uint8), x)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("order", [2.0, 1.0, float("inf")])
def test_rows_of_embeddings_with_a_greatest_norm(kind, order):
    def program(table, rows):
        return functional.embedding(rows, table, max_norm=1.0, norm_type=order) * 2

    table, rows = torch.randn(6, 3).to(kind), torch.tensor([[0, 3], [3, 5]])
    table[3] /= 16
    near = 1e-6 if kind is torch.float32 else 8e-3
    assert_same(program, table, rows, rtol=near, atol=near)


def test_elements_are_moved():
    def program(x):
        y = x.reshape(1, 4, 3, 2)
        return (
            x.flip(0, 1), x.repeat(2, 1, 3), x.repeat_interleave(2, 1), x.tile(2), x.rot90(),
            functional.pad(x, (1, -1, -2, 3), value=7.0), functional.pad(x, (0, 0)),
            torch.stack([x, x], 1), x.narrow(0, 1, 2), functional.pixel_shuffle(y, 2),
            x.movedim(0, 1), x.unbind(1), x.chunk(3, 0),
            x.split([1, 3]), torch.cat([x, x[:0], x[1:]]), torch.view_copy(x, (8, 3)),
        )  # fmt: skip

    assert_same(program, made(torch.float32, 4, 6))


def test_constants_are_eagers():
    def program(x):
        return (
            torch.arange(0, 1, 0.1), torch.arange(5, -5, -2), torch.linspace(-1, 2, 7),
            torch.eye(3, 4), torch.logspace(0, 2, 5),
            torch.tril_indices(4, 3, -1), torch.triu_indices(3, 5, 1),
            torch.tril_indices(3, 3, -5), x.new_full((2,), 3), torch.full_like(x, 2.5),
            torch.cartesian_prod(x[0], x[1]),
            torch.repeat_interleave(torch.tensor([2, 0, 3]), output_size=5),
        )  # fmt: skip

    assert_same(program, made(torch.float32, 2, 4))


CHECKED = {
    "x[i]": lambda x, i: x[i],
    "x[i, 0] = 1": lambda x, i: x.index_put((i,), torch.tensor(1.0)),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "scatter": lambda x, i: x.scatter_add(0, i[:, None], x),
    "index_select": lambda x, i: x.index_select(0, i),
    "embedding": lambda x, i: functional.embedding(i, x),
}


@pytest.mark.parametrize("name", CHECKED)
def test_an_index_out_of_range_is_an_error_with_the_users_line(name):
    torch._dynamo.reset()
    compiled = torch.compile(CHECKED[name], backend="ingot", fullgraph=True)
    x = made(torch.float32, 3, 2)
    compiled(x, torch.tensor([0, 2]))
    with pytest.raises(IndexError, match=r"out of bounds for.* size 3(.|\n)*test_indexing\.py"):
        compiled(x, torch.tensor([0, 3]))
    compiled(x, torch.tensor([1, 2]))


def test_bags_of_halves_are_summed_in_f32() -> None:
    torch.manual_seed(0)
    table, index = torch.randn(96, 8).bfloat16(), torch.arange(96).reshape(1, 96)

    def total(table):
        return functional.embedding_bag(index, table, mode="sum")

    found = torch.compile(total, backend="ingot", fullgraph=True)(table)
    exact = total(table.double()).bfloat16()
    torch.testing.assert_close(found, exact, rtol=0.004, atol=0.004)


@pytest.mark.parametrize("kinds", [("complex64", "float32"), ("float64", "int64")])
def test_parts_of_another_element_type(kinds):
    def program(x, source):
        return (
            torch.diagonal_scatter(x, source),
            torch.select_scatter(x, source, 0, 1),
            torch.slice_scatter(x, source[None], 0, 1, 2),
            torch.as_strided_scatter(x, source, (5,), (2,), 3),
            x.index_put((source > 2,), source[1]),
        )

    whole, part = (getattr(torch, kind) for kind in kinds)
    assert_same(program, torch.arange(25).reshape(5, 5).to(whole), torch.arange(5).to(part))
