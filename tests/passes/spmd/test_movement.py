# SPDX-License-Identifier: Apache-2.0
"""Slices, pads, concatenates and reversals along divided rows are put together from parts."""

import numpy as np
import pytest

from ingot.evaluator import evaluate, evaluate_replicated
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.verifier import verify
from ingot.passes.spmd.partitioner import partition
from ingot.passes.spmd.sharding import Sharding

ROWS = "{devices=[4,1]<=[4]}"
BOTH = "{devices=[2,2]<=[4]}"
TURNED = "{devices=[4,1]2,0,3,1}"
SIZE = 24


def part_of(value: np.ndarray, sharding: Sharding, device: int) -> np.ndarray:
    if sharding.is_replicated:
        return value
    sizes, begin = sharding.local_dims(value.shape), sharding.offsets(value.shape)[device]
    return value[tuple(slice(a, a + n) for a, n in zip(begin, sizes, strict=True))]


def check(text: str) -> str:
    """Compare the parts of an s32 program with the whole; return the partitioned text."""
    whole, module = parse(text), parse(text)
    division = partition(module, 4)
    verify(module)
    values = [
        np.arange(1, 1 + np.prod(p.shape.dims), dtype=np.int32).reshape(p.shape.dims) + 1000 * at
        for at, p in enumerate(whole.entry.parameters)
    ]
    for instruction in whole.entry.instructions:
        instruction.extra.pop("sharding", None)
    expected = np.asarray(evaluate(whole, values))
    given = [
        [part_of(*pair, device) for pair in zip(values, division.parameters, strict=True)]
        for device in range(4)
    ]
    for device, found in enumerate(evaluate_replicated(module, given, 1, 4)):
        part = part_of(expected, division.results[0], device)
        np.testing.assert_array_equal(np.asarray(found), part)
    return print_module(module)


def program(body: str, rows: int, sharding: str, last: str) -> str:
    return f"""HloModule m, num_partitions=4
    ENTRY main {{
      x = s32[{SIZE},2] parameter(0), sharding={sharding}
      y = s32[{SIZE},2] parameter(1), sharding={sharding}
      zero = s32[] constant(0)
      seven = s32[] constant(7)
      {body}
      ROOT r = s32[{rows},2] copy({last}), sharding={sharding}
    }}"""


SLICES = {
    "from one": (1, 21, 1), "first half": (0, 12, 1), "last half": (12, 24, 1),
    "every second": (0, 24, 2), "every third": (1, 24, 2), "few": (7, 11, 1), "far": (20, 24, 1),
    "every fifth": (3, 24, 5),
}  # fmt: skip


@pytest.mark.parametrize("sharding", [ROWS, TURNED, BOTH])
@pytest.mark.parametrize("box", SLICES.values(), ids=SLICES)
def test_slices(box: tuple[int, int, int], sharding: str) -> None:
    rows = -(-(box[1] - box[0]) // box[2])
    high = -rows % 4
    body = f"""
      a = s32[{rows},2] slice(x), slice={{[{":".join(map(str, box))}], [0:2]}}
      b = s32[{rows + high},2] pad(a, zero), padding=0_{high}x0_0"""
    assert "all-gather" not in check(program(body, rows + high, sharding, "b"))


@pytest.mark.parametrize("fill", ["zero", "seven"])
@pytest.mark.parametrize("low", [-9, -4, -1, 0, 1, 3, 6, 13])
def test_pads(low: int, fill: str) -> None:
    high = -low + 4 if low < 0 else -(SIZE + low) % 4
    rows = SIZE + low + high
    body = f"b = s32[{rows},2] pad(x, {fill}), padding={low}_{high}x0_0"
    assert "all-gather" not in check(program(body, rows, ROWS, "b"))


def test_halves_of_two_arrays_and_a_reversal() -> None:
    body = f"""
      a = s32[{2 * SIZE},2] concatenate(x, y), dimensions={{0}}
      b = s32[{2 * SIZE},2] reverse(a), dimensions={{0}}"""
    assert "all-gather" not in check(program(body, 2 * SIZE, ROWS, "b"))


def test_an_array_that_every_device_has() -> None:
    text = program(
        f"""w = s32[4,2] parameter(2)
        a = s32[{SIZE + 4},2] concatenate(x, w), dimensions={{0}}""",
        SIZE + 4, ROWS, "a",
    )  # fmt: skip
    assert "all-gather" not in check(text)


def test_a_value_of_many_runs_is_gathered() -> None:
    pieces = ", ".join(["a", "b"] * 40)
    body = f"""
      a = s32[1,2] slice(x), slice={{[2:3], [0:2]}}
      b = s32[1,2] slice(x), slice={{[21:22], [0:2]}}
      c = s32[80,2] concatenate({pieces}), dimensions={{0}}"""
    assert "all-gather" in check(program(body, 80, ROWS, "c"))


@pytest.mark.parametrize("seed", range(40))
def test_random_movements(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines: list[str] = []
    made = {"x": SIZE, "y": SIZE}
    for number in range(int(rng.integers(1, 6))):
        name, (a, rows) = f"v{number}", list(made.items())[int(rng.integers(len(made)))]
        kind = int(rng.integers(5))
        if kind == 0 and rows > 4:
            low, step = int(rng.integers(rows // 2)), int(rng.integers(1, 4))
            high = int(rng.integers(low + 1, rows + 1))
            size = -(-(high - low) // step)
            line = f"slice({a}), slice={{[{low}:{high}:{step}], [0:2]}}"
        elif kind == 1:
            low, high = map(int, rng.integers(-rows // 3, 9, 2))
            size = rows + low + high
            fill = ("zero", "seven")[int(rng.integers(2))]
            line = f"pad({a}, {fill}), padding={low}_{high}x0_0"
        elif kind == 2:
            size, line = rows, f"reverse({a}), dimensions={{0}}"
        else:
            b = list(made)[int(rng.integers(len(made)))]
            size, line = rows + made[b], f"concatenate({a}, {b}), dimensions={{0}}"
        lines.append(f"{name} = s32[{size},2] {line}")
        made[name] = size
    last, rows = list(made.items())[-1]
    high = -rows % 4
    lines.append(f"last = s32[{rows + high},2] pad({last}, seven), padding=0_{high}x0_0")
    check(program("\n".join(lines), rows + high, (ROWS, TURNED, BOTH)[seed % 3], "last"))
