# SPDX-License-Identifier: Apache-2.0
"""Sorts: tiles, merges of runs, short rows, any comparator."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu.kernels import SORT
from tests.gpu.programs import SEEDS, arguments, check, memory_of, program, wanted_of
from tests.gpu.simt import Emulation

from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.gpu.compiler import compile_kernel
from ingot.kernel.lowering import lower_fusion

TILES = "sorted tiles"
MERGED = "sorted tiles, then merged runs"


@pytest.mark.parametrize(("dims", "over", "strategy"), [
    ("5,100", 1, TILES), ("3,7,2", 1, TILES), ("1025,1", 1, TILES), ("3,1024", 1, TILES),
    ("2,0", 1, TILES), ("0,2000", 1, MERGED), ("3,1025,2", 1, MERGED), ("2048", 0, MERGED),
    ("2049", 0, MERGED), ("4097", 0, MERGED), ("?n,7", 1, TILES), ("?n,1030", 1, MERGED),
    ("3,?n", 1, MERGED), ("?n,3,?n", 1, TILES), ("?n,2,?n", 0, MERGED),
])  # fmt: skip
def test_rows_of_any_length(dims: str, over: int, strategy: str) -> None:
    # Few values, so that equal ones show whether they keep their order.
    check(SORT.format(type="s32", dims=dims, over=over), strategy, {"n": 5}, below=9)


@pytest.mark.parametrize("n", [0, 1, 1023, 1024, 1025, 2048, 3000, 4200])
def test_the_last_stage_leaves_elements_in_the_results(n: int) -> None:
    check(SORT.format(type="f32", dims="?n", over=0), MERGED, {"n": n})


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "f16", "s8", "pred"])
@pytest.mark.parametrize("length", [130, 1100])
def test_element_types(element: str, length: int) -> None:
    body = SORT.format(type=element, dims=length, over=0)
    check(body, TILES if length < 1024 else MERGED)


@pytest.mark.parametrize("length", [50, 1100])
def test_operands_that_do_not_fit_shared_memory_are_compared_where_they_are(length: int) -> None:
    count = 8
    names = [f"{side}{n}" for n in range(count) for side in "ab"]
    parameters = "\n".join(
        f"{name} = f64[] parameter({number})" for number, name in enumerate(names)
    )
    sums = [f"{side}s{0} = f64[] add({side}0, {side}1)" for side in "ab"]
    for n in range(1, count - 1):
        sums += [f"{side}s{n} = f64[] add({side}s{n - 1}, {side}{n + 1})" for side in "ab"]
    last = count - 2
    compared = f"ROOT r = pred[] compare(as{last}, bs{last}), direction=LT"
    operands = [f"x{n}" for n in range(count)]
    given = "\n".join(f"{name} = f64[{length}] parameter({n})" for n, name in enumerate(operands))
    types = ", ".join([f"f64[{length}]"] * count)
    body = f"{given}\nROOT r = ({types}) sort({', '.join(operands)}), dimensions={{0}}, to_apply=c"
    lines = "\n".join([parameters, *sums, compared])
    module = parse(f"HloModule m\nc {{ {lines} }}\nENTRY e {{ {body} }}")
    compiled = compile_kernel(lower_fusion(module.entry))
    assert 0 < compiled.kernel.launches[0].shared_bytes <= 48 << 10
    choose = np.random.default_rng(0)
    inputs = [choose.standard_normal(length) for _ in range(count)]
    wanted = evaluate(module, inputs)
    found = Emulation(compiled).run([*inputs, *map(np.zeros_like, inputs)], {}, 0)
    for one, other in zip(found[count:], wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("line", [0, 1])
def test_a_barrier_left_out_is_caught(line: int) -> None:
    """Of the filling of shared memory, and of a step of the network."""
    given = program(SORT.format(type="f32", dims=1000, over=0))
    kernel = compile_kernel(given.kernel)
    lines = kernel.llvm_ir.splitlines()
    barriers = [n for n, text in enumerate(lines) if "call void @llvm.nvvm.barrier" in text]
    assert len(barriers) == 2
    del lines[barriers[line]]
    inputs = arguments(given, {}, 20)
    wanted = wanted_of(given, inputs)
    emulation, wrong = Emulation(kernel, "\n".join(lines)), 0
    for seed in SEEDS:
        *_, found, _ = emulation.run(memory_of(given, inputs, wanted), {}, seed)
        wrong += not np.array_equal(found, wanted[0])
    assert wrong == len(SEEDS)


@pytest.mark.parametrize("length", [300, 2500])
def test_a_comparator_that_is_no_order_touches_nothing_else(length: int) -> None:
    """NaN is neither before nor after a number, so elements are not where an order has them."""
    module = parse(
        f"""HloModule m
        less {{ a = f32[] parameter(0)
          b = f32[] parameter(1)
          v = s32[] parameter(2)
          w = s32[] parameter(3)
          ROOT r = pred[] compare(a, b), direction=LT }}
        ENTRY e {{ x = f32[{length}] parameter(0)
          i = s32[{length}] parameter(1)
          ROOT s = (f32[{length}], s32[{length}]) sort(x, i), dimensions={{0}}, to_apply=less }}"""
    )
    compiled = compile_kernel(lower_fusion(module.entry))
    choose = np.random.default_rng(0)
    keys = choose.standard_normal(length).astype(np.float32)
    keys[choose.integers(0, length, length // 4)] = np.nan
    numbers = np.arange(length, dtype=np.int32)
    results = [np.zeros_like(keys), np.zeros_like(numbers)]
    runs = [Emulation(compiled).run([keys, numbers, *results], {}, seed) for seed in (0, 1)]
    *_, found, places = runs[0]
    # Keys and numbers stay together, whatever the order is, and equal inputs give equal bits.
    np.testing.assert_array_equal(found, keys[places])
    np.testing.assert_array_equal(places, runs[1][-1])
