# SPDX-License-Identifier: Apache-2.0
"""Stores of lanes to elements apart under a mask: blocks of lanes that are all off are skipped."""

import re

import numpy as np
import pytest

import ingot

SIZES = [0, 1, 7, 8, 17, 64, 1009]
CHOSEN = ["none", "one", "last", "few", "half", "runs", "all"]


def _program(size: int, dtype: str) -> str:
    """Return a program that writes x where `w` says, and drops what it sends outside."""
    return f"""
HloModule m
second {{
  a = {dtype}[] parameter(0)
  ROOT b = {dtype}[] parameter(1)
}}
ENTRY e {{
  w = s32[{size}] parameter(0)
  x = {dtype}[{size}] parameter(1)
  filled = {dtype}[{size}] parameter(2)
  y = {dtype}[{size}] add(x, x)
  ROOT s = {dtype}[{size}] scatter(filled, w, y), update_window_dims={{}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
    to_apply=second
}}"""


def _mask(which: str, size: int) -> np.ndarray:
    random = np.random.default_rng(size)
    numbers = np.arange(size)
    masks = {
        "none": numbers < 0,
        "one": numbers == size // 2,
        "last": numbers == size - 1,
        "few": random.random(size) < 0.03,
        "half": random.random(size) < 0.5,
        "runs": (numbers // 16) % 3 == 1,
        "all": numbers >= 0,
    }
    return masks[which]


@pytest.mark.parametrize("dtype", ["f32", "s64", "pred"])
@pytest.mark.parametrize("which", CHOSEN)
def test_chosen_elements_are_written_and_no_others(which, dtype):
    element = {"f32": np.float32, "s64": np.int64, "pred": np.bool_}[dtype]
    for size in SIZES:
        random = np.random.default_rng(size + 1)
        mask = _mask(which, size)
        x = random.integers(-5, 5, size).astype(element)
        if dtype == "f32":
            x[random.random(size) < 0.3] = np.nan
            x[random.random(size) < 0.2] = -0.0
        filled = random.integers(-5, 5, size).astype(element)
        where = np.where(mask, np.cumsum(mask) - 1, size).astype(np.int32)
        expected = filled.copy()
        expected[: mask.sum()] = (x | x if dtype == "pred" else x + x)[mask]
        program = _program(size, dtype).replace(
            "add(x, x)", "or(x, x)" if dtype == "pred" else "add(x, x)"
        )
        found = np.asarray(ingot.compile(program)(where, x, filled))
        assert found.tobytes() == expected.tobytes()


def test_of_equal_indices_the_last_update_stays():
    random = np.random.default_rng(0)
    where = random.integers(0, 1500, 1009).astype(np.int32)
    x, filled = random.random(1009, np.float32), np.zeros(1009, np.float32)
    expected = filled.copy()
    for index, value in zip(where, x + x, strict=True):
        if index < 1009:
            expected[index] = value
    found = np.asarray(ingot.compile(_program(1009, "f32"))(where, x, filled))
    np.testing.assert_array_equal(found, expected)


def test_a_block_that_is_off_reads_no_values():
    """The vector store lies behind a branch on whether any lane is on, and so does x."""
    text = ingot.compile(_program(4096, "s64")).as_text("llvm")
    blocks = re.split(r"\n(?=[\w.]+:)", text)[1:]
    (storing,) = [block for block in blocks if "@llvm.masked.scatter" in block]
    assert storing.startswith("then")
    assert "load <" in storing
    (before,) = [block for block in blocks if "@llvm.vector.reduce.or" in block]
    assert before.count("load <") == 1  # the indices
