# SPDX-License-Identifier: Apache-2.0
"""Gathers and scatters of elements or short rows as they lie run in library code of every size."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.formats.hlo_text import parse_hlo
from ingot.llvm.target import TargetSpec

ELEMENTS = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn, "s8": np.int8, "u16": np.uint16, "s32": np.int32,
    "u64": np.uint64, "c64": np.complex64,
}  # fmt: skip

PLACES = {
    "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32,
    "u32": np.uint32, "s64": np.int64, "u64": np.uint64,
}  # fmt: skip


def _scatter(element, place, count, segments, row=(), combiner="add", way="plain"):
    """Return a scatter whose places come as they are, or counted from the end if negative."""
    width = "".join(f",{size}" for size in row)
    dims = ",".join(str(1 + number) for number in range(len(row)))
    ways = {
        "plain": "p = {0}[{1},1] copy(i)",
        "from the end": """z = {0}[] constant(0)
  zs = {0}[{1},1] broadcast(z), dimensions={{}}
  n = {0}[] constant({2})
  ns = {0}[{1},1] broadcast(n), dimensions={{}}
  less = pred[{1},1] compare(i, zs), direction=LT
  moved = {0}[{1},1] add(i, ns)
  p = {0}[{1},1] select(less, moved, i)""",
        "held": """z = {0}[] constant(0)
  zs = {0}[{1},1] broadcast(z), dimensions={{}}
  p = {0}[{1},1] maximum(i, zs)""",
    }
    return parse_hlo(f"""HloModule updates

combine {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1)
  ROOT c = {element}[] {combiner}(a, b)
}}

ENTRY main {{
  x = {element}[{segments}{width}] parameter(0)
  i = {place}[{count},1] parameter(1)
  u = {element}[{count}{width}] parameter(2)
  {ways[way].format(place, count, segments)}
  ROOT r = {element}[{segments}{width}] scatter(x, p, u), update_window_dims={{{dims}}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
    to_apply=combine
}}
""")


def _inputs(element, place, count, segments, row=(), beyond=2):
    """Return operands; places reach beyond both ends, as far as their type does."""
    random = np.random.default_rng(count)
    held = np.iinfo(PLACES[place])
    low, high = max(-beyond, held.min), min(segments + beyond, held.max)
    places = random.integers(low, high, (count, 1)).astype(PLACES[place])
    places[: min(2, count)] = [[held.min], [held.max]][: min(2, count)]
    start = random.integers(0, 5, (segments, *row)).astype(ELEMENTS[element])
    return [start, places, random.integers(0, 4, (count, *row)).astype(ELEMENTS[element])]


def _parts(executable):
    compiled = executable.inspection.compiled.kernels.compiled.values()
    names = {part.name for kernel in compiled for part in kernel.shared}
    return {name for name in names if name.startswith(("update_", "gather_"))}


def _check(module, inputs, *, is_plain=True):
    executable = ingot.compile(module)
    assert len(_parts(executable)) == is_plain
    agrees(module, inputs, executable=executable)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("segments", [5, 127, 128, 129, 255, 256, 300, 70000])
def test_types_of_indices(place, segments):
    """Bounds lie below, at and above what the type of the places holds."""
    _check(_scatter("s32", place, 77, segments), _inputs("s32", place, 77, segments))


@pytest.mark.parametrize("place", ["s32", "s64", "u32"])
@pytest.mark.parametrize("way", ["from the end", "held"])
@pytest.mark.parametrize("segments", [1, 100])
def test_forms_of_index_operands(place, way, segments):
    _check(_scatter("f32", place, 99, segments, way=way), _inputs("f32", place, 99, segments))


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("row", [(), (3,), (8,), (16,)])
def test_types_of_elements(element, row):
    """More than one op combines complex numbers, and narrow ones by way of f32."""
    is_plain = element not in ("c64", "f8e4m3fn")
    module, inputs = _scatter(element, "s32", 70, 6, row), _inputs(element, "s32", 70, 6, row)
    _check(module, inputs, is_plain=is_plain)


@pytest.mark.parametrize("combiner", ["maximum", "minimum", "multiply", "subtract", "divide"])
@pytest.mark.parametrize("row", [(), (7,)])
def test_combiners(combiner, row):
    module = _scatter("f32", "s32", 64, 9, row, combiner)
    start, places, updates = _inputs("f32", "s32", 64, 9, row)
    updates = updates + np.float32(1)
    updates.flat[::13] = np.nan
    updates.flat[::17] = np.inf
    updates.flat[::11] = -0.0
    _check(module, [start, places, updates])


@pytest.mark.parametrize("count", [8, 31, 32, 33, 1000])
@pytest.mark.parametrize("row", [(), (2,), (16,), (17,)])
@pytest.mark.parametrize("beyond", [0, 3])
def test_lengths(count, row, beyond):
    """With no place outside whole blocks have a way of their own, so have repeated places."""
    module = _scatter("f32", "s32", count, 11, row)
    start, places, updates = _inputs("f32", "s32", count, 11, row, beyond)
    places = places.clip(-beyond, 10 + beyond)
    # Rows of 17 are one vector of 512 bits and one element; narrower vectors leave them alone.
    is_wide = TargetSpec.host().vector_bits >= 512
    is_plain = not row or (count >= 32 and (is_wide or row != (17,)))
    for order in (places, np.sort(places, axis=0), places[:1].repeat(count, axis=0)):
        _check(module, [start, order, updates], is_plain=is_plain)


def test_no_segments():
    _check(_scatter("f32", "s32", 40, 0), _inputs("f32", "s32", 40, 0), is_plain=False)


def test_sizes_share_the_code():
    def parts(count, segments, row=(), way="plain"):
        return _parts(ingot.compile(_scatter("f32", "s32", count, segments, row, way=way)))

    assert parts(100, 7) == parts(12345, 4000)
    assert parts(100, 7, (16,)) == parts(70, 31, (16,))
    assert parts(100, 7, way="from the end") == parts(50, 90, way="from the end")
    assert parts(100, 7) != parts(100, 7, (16,))


def _along_rows(element, place, rows, length, count, fill=""):
    """Return a gather of places in each row; those outside are held within, or give a constant."""
    ends = {
        "": "ROOT r = {0}[{1},{2}] copy(g)",
        "other": """z = {3}[] constant(0)
  zs = {3}[{1},{2}] broadcast(z), dimensions={{}}
  last = {3}[] constant({4})
  ls = {3}[{1},{2}] broadcast(last), dimensions={{}}
  q = {3}[{1},{2}] reshape(i)
  above = pred[{1},{2}] compare(q, zs), direction=GE
  below = pred[{1},{2}] compare(q, ls), direction=LE
  inside = pred[{1},{2}] and(above, below)
  c = {0}[] constant(5)
  cs = {0}[{1},{2}] broadcast(c), dimensions={{}}
  ROOT r = {0}[{1},{2}] select(inside, g, cs)""",
    }
    return parse_hlo(f"""HloModule along

ENTRY main {{
  x = {element}[{rows},{length}] parameter(0)
  i = {place}[{rows},{count},1] parameter(1)
  g = {element}[{rows},{count}] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{1}},
    start_index_map={{1}}, operand_batching_dims={{0}}, start_indices_batching_dims={{0}},
    index_vector_dim=2, slice_sizes={{1,1}}
  {ends[fill].format(element, rows, count, place, length - 1)}
}}
""")


def _rows_and_places(element, place, rows, length, count):
    random = np.random.default_rng(rows)
    held = np.iinfo(PLACES[place])
    low, high = max(-2, held.min), min(length + 2, held.max)
    places = random.integers(low, high, (rows, count, 1)).astype(PLACES[place])
    places.flat[0], places.flat[-1] = held.min, held.max
    return [random.integers(0, 9, (rows, length)).astype(ELEMENTS[element]), places]


@pytest.mark.parametrize("fill", ["", "other"])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 8])
def test_along_short_rows(count, fill):
    """Rows are laid end to end; some rows leave a block of lanes unfilled."""
    for rows in (64, 85, 1000):
        sizes = ("f32", "s32", rows, count, count)
        _check(_along_rows(*sizes, fill), _rows_and_places(*sizes))


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize(("rows", "length", "count"), [(77, 3, 3), (90, 11, 2), (3, 500, 130)])
def test_elements_along_rows(element, rows, length, count):
    sizes = (element, "s32", rows, length, count)
    _check(_along_rows(*sizes), _rows_and_places(*sizes))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fill", ["", "other"])
def test_indices_along_rows(place, fill):
    sizes = ("f32", place, 70, 3, 3)
    _check(_along_rows(*sizes, fill), _rows_and_places(*sizes))


def test_sizes_share_the_code_of_gathers():
    def parts(rows, length, count):
        return _parts(ingot.compile(_along_rows("f32", "s32", rows, length, count, "other")))

    assert parts(100, 3, 3) == parts(777, 9, 3)
    assert parts(100, 3, 3) != parts(100, 4, 4)
    assert parts(5, 300, 100) == parts(6, 4000, 3000)
