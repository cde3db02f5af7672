# SPDX-License-Identifier: Apache-2.0
"""What the public entry points are given: what does not fit is refused, nothing is ignored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ingot
from ingot.llvm.target import TargetSpec
from ingot.runtime.native import num_threads, set_num_threads
from ingot.support.diagnostics import ArgumentError, ExecutionError, UnsupportedError

TEXT = """HloModule m, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }

ENTRY main {
  x = f32[4] parameter(0)
  y = s32[4] parameter(1)
  a = f32[4] convert(y)
  b = f32[4] add(x, a)
  c = f32[4] multiply(x, a)
  ROOT r = (f32[4], f32[4]) tuple(b, c)
}
"""
X, Y = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.int32)


@pytest.fixture(scope="module")
def executable() -> ingot.Executable:
    return ingot.compile(ingot.parse_hlo(TEXT))


BAD_DONATIONS = [[5], [-1], ["a"], [0, 0], [0.0], [True], [None], 0, 1, None, "0", "", [2], [[0]],
                 {0: 1}.items(), np.array([0, 0]), np.array([0.5])]  # fmt: skip


@pytest.mark.parametrize("donate", BAD_DONATIONS, ids=repr)
def test_donations_that_are_no_arguments_are_refused(executable: ingot.Executable, donate: object):
    for call in (executable, executable.program):
        with pytest.raises(ExecutionError, match="INGOT0514"):
            call(X.copy(), Y.copy(), donate=donate)


@pytest.mark.parametrize(
    "donate", [[0], (1, 0), {1}, [np.int64(0)], np.array([0, 1]), [], ()], ids=repr
)
def test_donations_that_are_arguments_are_taken(executable: ingot.Executable, donate: object):
    x, y = X.copy(), Y.copy()
    first, second = executable(x, y, donate=donate)
    assert first.tolist() == [0, 2, 4, 6]
    assert second.tolist() == [0, 1, 4, 9]
    assert first.dtype == second.dtype == np.float32
    assert np.shares_memory(first, x) == (0 in donate)
    assert np.shares_memory(second, y) == (1 in donate)


def test_memory_of_two_arguments_is_not_donated(executable: ingot.Executable):
    x = np.arange(4, dtype=np.float32)
    want = [np.array(value) for value in executable(x.copy(), x.copy().view(np.int32))]
    found = executable(x, x.view(np.int32), donate=[0])
    assert not any(np.shares_memory(x, value) for value in found)
    for mine, other in zip(found, want, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_donations_of_dynamic_sizes_are_checked_too():
    text = "HloModule m\nENTRY e {\n  ROOT x = f32[<=4] parameter(0)\n}"
    sized = ingot.compile(ingot.parse_hlo(text))
    for donate in ([1], ["a"], [0, 0]):
        with pytest.raises(ExecutionError, match="INGOT0514"):
            sized(X[:3], donate=donate)
    assert sized(X[:3], donate=[0]).tolist() == [0, 1, 2]


MASKED = np.ma.masked_array(X, mask=[False, True, False, False])


@pytest.mark.parametrize(
    "value",
    [
        MASKED,
        np.ma.masked_array(X),
        [1.0, np.ma.masked, 2.0, 3.0],
        (MASKED[0], *MASKED[1:]),
        MASKED[:2],
    ],
    ids=["masked", "nothing masked", "list", "tuple", "short"],
)
def test_masks_are_not_lost(executable: ingot.Executable, value: object):
    with pytest.raises(ExecutionError, match="masked array") as caught:
        executable(value, Y)
    assert caught.value.diagnostic.code == "INGOT0506"
    assert "filled" in caught.value.diagnostic.hint


@pytest.mark.parametrize(
    "target",
    [
        TargetSpec.nvptx(),
        TargetSpec("x86_64-pc-windows", "i386", ""),
        replace(TargetSpec.host(), cpu="i386"),
        TargetSpec("", "", ""),
    ],
    ids=str,
)
def test_targets_that_llvm_does_not_survive_are_refused(target: TargetSpec):
    with pytest.raises(UnsupportedError, match="no program can be compiled for CPU"):
        ingot.compile(ingot.parse_hlo(TEXT), target=target)


@pytest.mark.parametrize("count", [0, -1, "4", 1.0, None, True, 1 << 40])
def test_invalid_thread_counts_are_refused(count: object):
    before = num_threads()
    with pytest.raises(ArgumentError, match="INGOT0513"):
        set_num_threads(count)
    assert num_threads() == before
