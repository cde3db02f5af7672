# SPDX-License-Identifier: Apache-2.0
"""Slices, pads, concatenates and reversals along divided rows are put together from parts.

So are stencils, whose interiors devices do not divide evenly.
"""

import numpy as np
import pytest
from tests.passes.spmd.parts import check

ROWS = "{devices=[4,1]<=[4]}"
BOTH = "{devices=[2,2]<=[4]}"
TURNED = "{devices=[4,1]2,0,3,1}"
SIZE = 24


KINDS = {"s32": ("0", "7"), "f32": ("0", "-inf"), "bf16": ("-0", "7"), "s8": ("0", "7"),
         "u16": ("0", "7"), "c64": ("(0, 0)", "(7, nan)"), "pred": ("false", "true")}  # fmt: skip
"""Types with the two values that rows are filled with."""


def program(body: str, rows: int, sharding: str, last: str, kind: str = "s32") -> str:
    zero, seven = KINDS[kind]
    text = f"""HloModule m, num_partitions=4
    ENTRY main {{
      x = s32[{SIZE},2] parameter(0), sharding={sharding}
      y = s32[{SIZE},2] parameter(1), sharding={sharding}
      zero = s32[] constant({zero})
      seven = s32[] constant({seven})
      {body}
      ROOT r = s32[{rows},2] copy({last}), sharding={sharding}
    }}"""
    return text.replace("s32", kind)


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


@pytest.mark.parametrize("sharding", [ROWS, TURNED, BOTH])
def test_interleaved_rows(sharding: str) -> None:
    body = """
      even = s32[12,2] slice(x), slice={[0:23:2], [0:2]}
      odd = s32[12,2] slice(x), slice={[1:24:2], [0:2]}
      third = s32[8,2] slice(y), slice={[2:24:3], [0:2]}
      a = s32[24,2] pad(even, zero), padding=1_0_1x0_0
      b = s32[24,2] pad(odd, seven), padding=0_1_1x0_0
      c = s32[24,2] pad(third, zero), padding=1_1_2x0_0
      d = s32[24,2] add(a, b)
      e = s32[24,2] add(d, c)"""
    text = check(program(body, 24, sharding, "e"))
    assert "collective" not in text
    assert "all-gather" not in text


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
    kind, sharding = list(KINDS)[seed % len(KINDS)], (ROWS, TURNED, BOTH)[seed % 3]
    check(program("\n".join(lines), rows + high, sharding, "last", kind))


TWO_AXES = "{devices=[2,2]<=[4]}"
COLUMNS = "{devices=[1,4]<=[4]}"
SET = "set { a = s32[] parameter(0) ROOT b = s32[] parameter(1) }"
SUM = "sum { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }"


def stencil(body: str, dims: str, sharding: str) -> str:
    return f"""HloModule m, num_partitions=4
    {SET}
    {SUM}
    ENTRY main {{
      x = s32[{dims}] parameter(0), sharding={sharding}
      zero = s32[] constant(0)
      seven = s32[] constant(7)
      {body}
      ROOT r = s32[{dims}] copy(last), sharding={sharding}
    }}"""


DIFFERENCE = """
    up = s32[15,8] slice(x), slice={[1:16], [0:8]}, sharding={replicated}
    down = s32[15,8] slice(x), slice={[0:15], [0:8]}, sharding={replicated}
    d = s32[15,8] subtract(up, down), sharding={replicated}
    e = s32[15,8] multiply(d, d), sharding={replicated}"""


@pytest.mark.parametrize("sharding", [ROWS, TURNED, TWO_AXES, COLUMNS])
@pytest.mark.parametrize("dimensions", ["0", "1", "0,1"])
def test_a_difference_of_neighbours_is_summed(sharding: str, dimensions: str) -> None:
    shape = {"0": "s32[8]", "1": "s32[15]", "0,1": "s32[]"}[dimensions]
    whole, _, _ = stencil(DIFFERENCE, "16,8", sharding).rpartition("ROOT")
    last = f"ROOT r = {shape} reduce(e, zero), dimensions={{{dimensions}}}, to_apply=sum }}"
    met = check(whole + last)
    assert "s32[16,8]{1,0} all-gather" not in met


def test_rows_that_were_added_are_not_contracted() -> None:
    body = (
        DIFFERENCE
        + """
      y = s32[15,4] slice(x), slice={[1:16], [2:6]}, sharding={replicated}
      last = s32[8,4] dot(e, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"""
    )
    text = stencil(body, "16,8", ROWS).replace("s32[16,8] copy", "s32[8,4] copy")
    text = text.replace(f"copy(last), sharding={ROWS}", "copy(last), sharding={replicated}")
    assert "all-gather" not in check(text)


INTERIOR = """
    inner = s32[14,6] slice(x), slice={[1:15], [1:7]}, sharding={replicated}
    north = s32[14,6] slice(x), slice={[2:16], [1:7]}, sharding={replicated}
    south = s32[14,6] slice(x), slice={[0:14], [1:7]}, sharding={replicated}
    east = s32[14,6] slice(x), slice={[1:15], [2:8]}, sharding={replicated}
    ns = s32[14,6] add(north, south)
    ne = s32[14,6] add(ns, east)
    new = s32[14,6] multiply(ne, inner)
    one = s32[] constant(1)"""
UPDATES = {
    "update": "last = s32[16,8] dynamic-update-slice(x, new, one, one)",
    "clamped": "nine = s32[] constant(9) last = s32[16,8] dynamic-update-slice(x, new, nine, one)",
    "scatter": """ones = s32[2] broadcast(one), dimensions={}
        whole = s32[16,8] custom-call(x), custom_call_target="Sharding", sharding={replicated}
        rows = s32[14,6] custom-call(new), custom_call_target="Sharding", sharding={replicated}
        last = s32[16,8] scatter(whole, ones, rows), update_window_dims={0,1},
        inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=0,
        to_apply=set, sharding={replicated}""",
    "sum": """ones = s32[2] broadcast(one), dimensions={}
        last = s32[16,8] scatter(x, ones, new), update_window_dims={0,1}, inserted_window_dims={},
        scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=sum""",
}


@pytest.mark.parametrize("sharding", [ROWS, TURNED, TWO_AXES, COLUMNS])
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_a_stencil_of_an_interior(update: str, sharding: str) -> None:
    sharding = sharding if sharding != COLUMNS else "{devices=[1,2,2]<=[4] last_tile_dim_replicate}"
    text = stencil(INTERIOR + update, "16,8", sharding)
    assert "all-gather" not in check(text)


@pytest.mark.parametrize("sharding", [ROWS, TURNED, TWO_AXES])
def test_a_stencil_of_a_padded_array(sharding: str) -> None:
    body = """
      wide = s32[18,10] pad(x, seven), padding=1_1x1_1, sharding={replicated}
      north = s32[16,8] slice(wide), slice={[2:18], [1:9]}
      south = s32[16,8] slice(wide), slice={[0:16], [1:9]}
      corner = s32[16,8] slice(wide), slice={[0:16], [2:10]}
      ns = s32[16,8] subtract(north, south)
      last = s32[16,8] add(ns, corner)"""
    assert "all-gather" not in check(stencil(body, "16,8", sharding))


def test_two_pads_of_different_values_keep_their_corners() -> None:
    body = """
      a = s32[18,8] pad(x, seven), padding=1_1x0_0
      three = s32[] constant(3)
      b = s32[20,10] pad(a, three), padding=1_1x1_1
      last = s32[16,8] slice(b), slice={[0:16], [0:8]}"""
    check(stencil(body, "16,8", TWO_AXES))


def test_edges_of_one_row() -> None:
    body = """
      first = s32[1,8] slice(x), slice={[0:1], [0:8]}, sharding={replicated}
      wide = s32[1,1,8] broadcast(first), dimensions={0,2}
      edge = s32[1,8] reshape(wide)
      moved = s32[1,8] custom-call(edge), custom_call_target="Sharding",
        sharding={devices=[1,4]<=[4]}
      other = s32[16,8] custom-call(x), custom_call_target="Sharding",
        sharding={devices=[1,4]<=[4]}
      long = s32[17,8] concatenate(moved, other), dimensions={0}, sharding={devices=[1,4]<=[4]}
      all = s32[17,8] custom-call(long), custom_call_target="Sharding", sharding={replicated}
      before = s32[16,8] slice(all), slice={[0:16], [0:8]}
      last = s32[16,8] subtract(x, before)"""
    assert "all-gather" not in check(stencil(body, "16,8", ROWS))


@pytest.mark.parametrize("kind", ["s32", "s64", "u8", "s8"])
@pytest.mark.parametrize("start", [0, 3, 4, 7, 13, 14, 100])
@pytest.mark.parametrize(("rows", "columns"), [(1, 8), (3, 8), (4, 5), (3, 2), (0, 8)])
def test_rows_at_a_run_time_index(rows: int, columns: int, start: int, kind: str) -> None:
    sharding = (ROWS, TURNED, TWO_AXES)[start % 3]
    body = f"""
      i = {kind}[] constant({start})
      j = {kind}[] constant(2)
      y = s32[{rows},{columns}] parameter(1)
      a = s32[16,8] dynamic-update-slice(x, y, i, j)
      b = s32[{rows},{columns}] dynamic-slice(x, j, i), dynamic_slice_sizes={{{rows},{columns}}}
      last = s32[16,8] dynamic-update-slice(a, b, i, j)"""
    text = check(stencil(body, "16,8", sharding))
    assert columns < 8 or rows == 0 or "all-gather" not in text


@pytest.mark.parametrize("sharding", [ROWS, TURNED, TWO_AXES, COLUMNS])
def test_elements_at_index_vectors(sharding: str) -> None:
    body = """
      rows = s32[6,1] constant({{3}, {15}, {0}, {-4}, {99}, {8}})
      columns = s32[6,1] constant({{7}, {0}, {-1}, {2}, {3}, {9}})
      at = s32[6,2] concatenate(rows, columns), dimensions={1}
      found = s32[6] gather(x, at), offset_dims={}, collapsed_slice_dims={0,1},
        start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}
      last = s32[16,8] scatter(x, at, found), update_window_dims={}, inserted_window_dims={0,1},
        scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=sum"""
    text = check(stencil(body, "16,8", sharding))
    assert sharding == TWO_AXES or "all-gather" not in text
