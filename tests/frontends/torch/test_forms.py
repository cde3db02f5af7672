# SPDX-License-Identifier: Apache-2.0
"""Forms that the front end writes another way because they are faster: same results, no detour."""

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch.nn import functional

import ingot.torch


@pytest.fixture(autouse=True)
def _strict(monkeypatch):
    monkeypatch.setenv("INGOT_STRICT", "1")


def opcodes():
    """Return the opcodes of the graph that was compiled last."""
    return {
        item.opcode
        for executable in ingot.torch.compiled_graphs()[-1].executables
        for computation in executable.source.post_order()
        for item in computation.instructions
    }


# ---- embedding bags of one length

ROWS = torch.tensor([[1, 0, 4], [2, 2, 2], [1, 3, 2], [2, 2, 1]])


def bags(table, rows, scales):
    sums = [functional.embedding_bag(rows, table, mode="sum", padding_idx=n) for n in (None, 2, -3)]
    means = [functional.embedding_bag(rows, table, padding_idx=n) for n in (None, 2)]
    weighted = [
        functional.embedding_bag(rows, table, mode="sum", per_sample_weights=scales, padding_idx=n)
        for n in (None, 1)
    ]
    return *sums, *means, *weighted


@pytest.mark.parametrize("dynamic", [False, True])
def test_bags_of_one_length_are_lookups_and_sums(dynamic):
    table, scales = torch.randn(5, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    table.data[2] = torch.inf  # padding is left out, not multiplied by 0
    assert_same(bags, table.detach(), ROWS, scales.detach(), dynamic=dynamic)
    assert "scatter" not in opcodes()
    assert_same(bags, table, ROWS, scales, dynamic=dynamic, grad=True)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("padding", [None, 4, 2])
def test_bags_of_maxima(kind, padding):
    """Equal elements, NaN first and later, empty bags, and bags of padding alone."""
    table = torch.randn(6, 3).to(kind)
    table[2], table[5, 1] = table[4], torch.nan
    rows, begin = torch.tensor([1, 4, 2, 0, 5, 3, 3, 5, 4]), torch.tensor([0, 3, 3, 5, 7, 8])

    def program(table, rows, begin):
        made = functional.embedding_bag(rows, table, begin, mode="max", padding_idx=padding)
        return made, torch.ops.aten._embedding_bag(table.detach(), rows, begin, False, 2)[3]

    assert_same(program, table.requires_grad_(), rows, begin, grad=True)
    assert_same(program, table, rows[:0], begin[:1], grad=True)
    assert_same(lambda x: functional.embedding_bag(ROWS, x, mode="max"), table, grad=True)


@pytest.mark.parametrize("sizes", [(0, 3), (1, 1), (7, 1), (1, 5)], ids=str)
def test_bags_of_odd_sizes(sizes):
    rows, table = torch.zeros(sizes, dtype=torch.int64), torch.randn(5, 3, requires_grad=True)
    assert_same(bags, table, rows, torch.randn(sizes), grad=True)


def test_bags_of_half_floats_are_rounded_once():
    def program(table, rows, scales):
        offsets = torch.tensor([0, 4, 4, 9])
        flat, each = rows.flatten(), scales.flatten()
        return (
            functional.embedding_bag(rows, table, mode="sum", per_sample_weights=scales),
            functional.embedding_bag(flat, table, offsets, mode="sum", per_sample_weights=each),
        )

    table, scales = torch.randn(5, 16) * 3, torch.randn(4, 3)
    assert_same(program, table.bfloat16(), ROWS, scales.bfloat16(), rtol=8e-3, atol=1e-6)


@pytest.mark.parametrize("mode", [0, 1])
def test_sizes_of_bags_are_those_of_the_kernel(mode):
    def program(table, indices, offsets):
        # Which bag an index is in, the kernel leaves out for sums.
        rows, _, *sizes = torch.ops.aten._embedding_bag(table, indices, offsets, False, mode)
        return rows, sizes

    assert_same(program, torch.randn(5, 3), torch.tensor([1, 0, 4, 2]), torch.tensor([0, 1, 3]))


def test_bags_of_other_lengths_are_told_apart():
    def program(table, indices):
        return (
            functional.embedding_bag(indices, table, torch.arange(0, 4, 2), mode="sum"),
            functional.embedding_bag(indices, table, torch.arange(0, 6, 4), mode="sum"),
            functional.embedding_bag(
                indices, table, torch.arange(0, 7, 2), mode="sum", include_last_offset=True
            ),
        )

    table, indices = torch.randn(5, 3, requires_grad=True), torch.tensor([1, 0, 4, 2, 2, 3])
    assert_same(program, table, indices, grad=True)


@pytest.mark.parametrize("index", [-1, 5])
def test_an_index_out_of_range_in_a_bag_is_an_error(index):
    def program(table, rows):
        return functional.embedding_bag(rows, table, mode="sum")

    table, rows = torch.randn(5, 3), ROWS.clone()
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="ingot", fullgraph=True)
    compiled(table, rows)
    rows[2, 1] = index
    with pytest.raises(IndexError, match="out of bounds for size 5"):
        compiled(table, rows)


# ---- many parts beside each other


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_many_computed_parts_are_one_concatenation(dim, dynamic):
    def program(x, y):
        parts = [x.sin(), y, *((x[:, n:] * n).abs()[:, : x.shape[1] - 9] for n in range(9)), x[:0]]
        wide = [part.new_ones(3, 11).mul(part.sum()) for part in parts]
        return torch.cat(wide, dim), torch.stack([w.cos() for w in wide], dim)

    assert_same(program, torch.randn(3, 11), torch.randn(3, 2), dynamic=dynamic)
    assert "opt-barrier" not in opcodes()


# ---- rolls


ROLLS = [((2,), (1,)), ((-3, 8), (0, -1)), ((5,), ()), ((0,), (0,)), ((1, 1), (1, 1))]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("shifts", "dims"), ROLLS, ids=str)
def test_rolls_are_slices_that_change_places(shifts, dims, dynamic):
    def program(x):
        return x.roll(shifts, dims), x.roll(shifts, dims).flip(0)

    assert_same(program, torch.randn(5, 7), dynamic=dynamic)
    assert "gather" not in opcodes()
    assert_same(program, torch.randn(5, 7, requires_grad=True), grad=True, dynamic=dynamic)


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (1, 1), ()], ids=str)
def test_rolls_of_odd_sizes(sizes):
    dims = tuple(range(len(sizes)))
    assert_same(lambda x: x.roll((3,) * len(sizes) or (3,), dims) + 1, torch.randn(sizes))


# ---- sampled images


@pytest.mark.parametrize("channels", [3, 17, 24])
def test_samples_of_an_image_take_one_kernel(channels):
    def program(x, grid):
        return functional.grid_sample(x, grid, align_corners=False)

    image = torch.randn(2, channels, 9, 11, requires_grad=True)
    grid = torch.rand(2, 7, 9, 2).mul(3).sub(1.5).requires_grad_()
    assert_same(program, image.detach(), grid.detach())
    (executable,) = ingot.torch.compiled_graphs()[-1].executables
    assert len(executable.kernels) == 1
    assert_same(program, image, grid, grad=True)
