# SPDX-License-Identifier: Apache-2.0
"""A generated table of convolutions: evaluator, CPU and real XLA agree.

Every order of dimensions, padding (negative too), dilation, reversal, groups of features and of
batches, 0 to 3 spatial dimensions, every kind of element type, few and many features.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.differential.case import Case, Nearness, seed_of, small_integers
from tests.differential.engine import run_cases
from tests.differential.shaping_cases import build_one

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension

CASES = 120
ELEMENTS = ("f32",) * 5 + ("bf16", "f16", "f64", "s8", "u8", "s32", "c64", "c128")
NEARNESS = Nearness(16, 64, of_largest=True)


def _window(generator: np.random.Generator, size: int) -> WindowDimension:
    """Return a window that fits into `size` somewhere."""
    for _ in range(20):
        low, high = (int(generator.choice([-2, -1, 0, 0, 1, 2, 4])) for _ in range(2))
        one = WindowDimension(
            int(generator.integers(1, 5)),
            int(generator.choice([1, 1, 2, 3])),
            low,
            high,
            int(generator.choice([1, 1, 2, 3])),
            int(generator.choice([1, 1, 2])),
            bool(generator.integers(4) == 0),
        )
        count = one.count(size)
        # XLA does not take padding that leaves less than nothing.
        if isinstance(count, int) and count > 0 and size + low + high > 0:
            return one
    return WindowDimension(1)


def _order(generator: np.random.Generator, letters: str) -> str:
    return "".join(generator.permutation(list(letters)))


def _case(number: int) -> Case:
    generator = seed_of(f"convolution table {number}")
    element = str(generator.choice(ELEMENTS))
    rank = int(generator.choice([0, 1, 1, 2, 2, 2, 2, 3]))
    digits = "012"[:rank]
    # Half of them in the orders that frameworks use.
    usual = generator.integers(2) == 0
    lhs, rhs, output = (f"b{digits}f", f"{digits}io", f"b{digits}f")
    if not usual:
        lhs, rhs, output = (_order(generator, text) for text in (lhs, rhs, output))
    groups = int(generator.choice([1, 1, 2, 3]))
    by_batch = bool(generator.integers(2))
    inputs, outputs = (int(generator.choice([1, 2, 3, 8, 16, 17, 33])) for _ in range(2))
    batch = int(generator.choice([1, 2, 3]))
    sizes = {"b": batch * (groups if by_batch else 1), "f": inputs * (1 if by_batch else groups)}
    sizes |= {digit: int(generator.choice([1, 4, 7, 19])) for digit in digits}
    window = tuple(_window(generator, sizes[digit]) for digit in digits)
    taps = {"i": inputs, "o": outputs * groups}
    taps |= {digit: one.size for digit, one in zip(digits, window, strict=True)}
    data = (
        small_integers(element, [sizes[letter] for letter in lhs], generator),
        small_integers(element, [taps[letter] for letter in rhs], generator),
    )
    build = build_one(
        "convolution",
        window=window,
        dim_labels=f"{lhs}_{rhs}->{output}",
        feature_group_count=1 if by_batch else groups,
        batch_group_count=groups if by_batch else 1,
    )
    name = f"convolution {number} {element} {lhs}_{rhs}->{output} {window} groups {groups}"
    return Case(f"{name} by batch {by_batch} {sizes} {taps}", data, build, NEARNESS)


def _cases() -> Iterator[Case]:
    return (_case(number) for number in range(CASES))


@pytest.mark.slow
def test_table() -> None:
    results = list(run_cases(list(_cases())))
    bad = [item for item in results if item.evaluator or item.cpu or item.xla or item.unsupported]
    texts = [
        f"{item.case.name}: {item.evaluator} | {item.cpu} | {item.xla} | {item.unsupported}"
        for item in bad
    ]
    assert not texts, f"{len(texts)} of {CASES}\n" + "\n".join(texts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_symbolic_batch(seed: int) -> None:
    generator = seed_of(f"convolution symbolic {seed}")
    window = (_window(generator, 9), _window(generator, 6))
    inputs, outputs = (int(generator.choice([1, 3, 16, 20])) for _ in range(2))
    taps = (window[0].size, window[1].size)
    labels, dims, kernel = "b01f_01io->b01f", (9, 6, inputs), (*taps, inputs, outputs)
    if seed % 2:
        labels, dims, kernel = "bf01_oi01->bf01", (inputs, 9, 6), (outputs, inputs, *taps)
    build = Builder("main")
    x = build.parameter(0, f"f32[?n,{','.join(map(str, dims))}]")
    k = build.parameter(1, Shape.array("f32", kernel))
    root = build.convolution(x, k, window=window, dim_labels=labels)
    module = Module.of("symbolic", build.build(root))
    executable = ingot.compile(module)
    for batch in (1, 2, 5):
        shapes = ((batch, *dims), kernel)
        values = [small_integers("f32", shape, generator) for shape in shapes]
        np.testing.assert_array_equal(executable(*values), evaluate(module, values))
