# SPDX-License-Identifier: Apache-2.0
"""Loop kernels: passes, collapsing, kept rows."""

from __future__ import annotations

import pytest
from tests.kernel.programs import SOFTMAX, flat, fused, whole_sum

from ingot.formats.hlo_text import parse
from ingot.hlo.dim import Dim
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.cache_rows import cache_rows
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.text import kernel_text
from ingot.support.diagnostics import UnsupportedError

N = Dim.symbol("n")


def test_softmax_is_one_grid_with_three_passes() -> None:
    kernel = build_loop_kernel(fused(SOFTMAX))
    assert [axis.extent for axis in kernel.grid] == [N]
    assert [[axis.extent for axis in item.axes] for item in kernel.passes] == [[64], [64], [64]]
    counts = [(len(item.reductions), len(item.stores)) for item in kernel.passes]
    assert counts == [(1, 0), (1, 0), (0, 1)]
    assert kernel.symbols == ("n",)


def test_the_exponential_of_softmax_is_kept_between_passes() -> None:
    kernel = cache_rows(build_loop_kernel(fused(SOFTMAX)))
    (row,) = kernel.local_buffers
    assert row.size == 64
    last = kernel.passes[-1]
    assert "exponential" not in {item.op for value in last.exprs for item in _all(value)}
    assert kernel_text(kernel).count(" exponential(") == 1


def _all(value):
    return [value, *(inner for arg in value.args for inner in _all(arg))]


@pytest.mark.parametrize("dims", [(4, 5, 6), ("?n", 3), (2, "?n", "?m"), (7,), (1, 1, 9, 1)])
def test_elementwise_kernels_collapse_to_one_axis(dims) -> None:
    kernel = collapse(build_loop_kernel(flat(*dims)))
    assert len(kernel.grid) == 1
    assert kernel.grid_size == kernel.buffers[-1].size
    (store,) = kernel.passes[0].stores
    assert str(store.index) == kernel.grid[0].name


def test_whole_reductions_collapse_and_keep_their_extent() -> None:
    kernel = collapse(build_loop_kernel(whole_sum(4, "?n", 6)))
    assert kernel.grid == ()
    (axis,) = kernel.passes[0].axes
    assert axis.extent == N * 24


def test_transposes_do_not_collapse() -> None:
    text = """p = f32[4,6] parameter(0)
      ROOT t = f32[6,4] transpose(p), dimensions={1,0}"""
    assert len(collapse(build_loop_kernel(fused(text))).grid) == 2


def test_broadcast_rows_keep_two_axes() -> None:
    text = """x = f32[4,6] parameter(0)
      b = f32[6] parameter(1)
      bb = f32[4,6] broadcast(b), dimensions={1}
      ROOT a = f32[4,6] add(x, bb)"""
    assert len(collapse(build_loop_kernel(fused(text))).grid) == 2


def test_an_op_without_a_rule_is_named() -> None:
    text = """p = f32[8] parameter(0)
      ROOT s = f32[8] rng-bit-generator-like(p)"""
    text = text.replace("rng-bit-generator-like(p)", 'custom-call(p), custom_call_target="f"')
    with pytest.raises(UnsupportedError, match="custom-call cannot be part of a loop kernel"):
        build_loop_kernel(fused(text))


def test_a_loop_in_a_reducer_is_named() -> None:
    text = """HloModule m
    below { a = f32[] parameter(0) k = f32[] constant(9)
      ROOT p = pred[] compare(a, k), direction=LT }
    twice { a = f32[] parameter(0) ROOT r = f32[] add(a, a) }
    grown { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] add(a, b)
      ROOT w = f32[] while(c), condition=below, body=twice }
    ENTRY e { x = f32[4] parameter(0) z = f32[] constant(1)
      ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=grown }"""
    with pytest.raises(UnsupportedError, match="while in a computation that is applied") as caught:
        build_loop_kernel(parse(text).entry)
    assert caught.value.diagnostic.code == "INGOT0343"


def test_long_chains_are_pulled_without_deep_recursion() -> None:
    lines = ["x0 = f32[8] parameter(0)"]
    lines += [f"x{n} = f32[8] negate(x{n - 1})" for n in range(1, 400)]
    body = "\n".join(lines[:-1]) + "\n ROOT " + lines[-1]
    kernel = build_loop_kernel(fused(body))
    assert kernel_text(kernel).count(" negate(") == 399


def test_one_element_of_a_concatenation_is_pulled_from_its_own_operand() -> None:
    """Twelve swaps of halves: pulling both operands each time would visit 2^12 places."""
    lines = ["x0 = f32[2] parameter(0)"]
    for n in range(12):
        lines.append(f"a{n} = f32[1] slice(x{n}), slice={{[0:1]}}")
        lines.append(f"b{n} = f32[1] slice(x{n}), slice={{[1:2]}}")
        lines.append(f"na{n} = f32[1] negate(a{n})")
        lines.append(f"x{n + 1} = f32[2] concatenate(b{n}, na{n}), dimensions={{0}}")
    body = "\n".join(lines) + "\nROOT last = f32[1] slice(x12), slice={[1:2]}"
    text = kernel_text(build_loop_kernel(fused(body)))
    assert text.count(" negate(") == 6
    assert "select" not in text
