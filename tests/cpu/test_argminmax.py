# SPDX-License-Identifier: Apache-2.0
"""Places of the greatest and the least: NaNs, ties, signed zeros, every size around the lanes."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import pytest

import ingot
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, PRED, S32
from ingot.hlo.module import Module
from ingot.kernel import expr as ex
from ingot.kernel.expr import compare, select
from ingot.kernel.ir import Axis, Combiner, Pass, Reduction
from ingot.kernel.loop.argminmax import arg_fold

TYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16,
    "s32": np.int32, "u8": np.uint8, "s64": np.int64,
}  # fmt: skip
START = {"GT": "-inf", "LT": "inf"}
SIZES = [1, 5, 127, 128, 129, 130, 192, 1000]


def _places(
    element: str, rows: int, size: int, direction: str = "GT", dim: int = 1, place: str = "s32"
) -> Module:
    """Return what JAX makes of argmax and argmin."""
    return parse_hlo(_text(element, rows, size, direction, dim).replace("s32[", f"{place}["))


def _text(element: str, rows: int, size: int, direction: str, dim: int) -> str:
    start = START[direction] if element[0] in "fb" else "0" if direction == "GT" else "100"
    return f"""HloModule places

choice {{
  a = {element}[] parameter(0)
  i = s32[] parameter(1)
  b = {element}[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction={direction}
  n = pred[] compare(a, a), direction=NE
  o = pred[] or(g, n)
  v = {element}[] select(o, a, b)
  e = pred[] compare(a, b), direction=EQ
  l = pred[] compare(i, j), direction=LT
  t = pred[] and(e, l)
  k = pred[] or(o, t)
  w = s32[] select(k, i, j)
  ROOT p = ({element}[], s32[]) tuple(v, w)
}}

ENTRY main {{
  x = {element}[{rows},{size}] parameter(0)
  i = s32[{rows},{size}] iota(), iota_dimension={dim}
  s = {element}[] constant({start})
  z = s32[] constant(0)
  ROOT r = ({element}[{size if dim == 0 else rows}], s32[{size if dim == 0 else rows}])
    reduce(x, i, s, z), dimensions={{{dim}}}, to_apply=choice
}}
"""


def _check(module: Module, given: np.ndarray, direction: str, dim: int = 1) -> None:
    value, place = ingot.compile(module)(given)
    comparable = given.astype(np.float64) if given.dtype.kind in "fV" else given
    expected = (np.argmax if direction == "GT" else np.argmin)(comparable, axis=dim)
    np.testing.assert_array_equal(np.asarray(place), expected)
    chosen = np.take_along_axis(given, np.expand_dims(expected, dim), dim).squeeze(dim)
    np.testing.assert_array_equal(np.asarray(value), chosen)


def _special(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    few = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -1.0], np.float32)
    return random.choice(few, shape, p=[0.01, 0.3, 0.01, 0.3, 0.3, 0.04, 0.04])


@pytest.mark.parametrize("direction", ["GT", "LT"])
@pytest.mark.parametrize("size", SIZES)
def test_sizes(size: int, direction: str) -> None:
    random = np.random.default_rng(size)
    module = _places("f32", 9, size, direction)
    for given in (
        random.normal(size=(9, size)),
        random.integers(0, 3, (9, size)),
        _special(random, (9, size)),
        np.full((9, size), -np.inf),
        np.full((9, size), np.inf),
        np.full((9, size), np.nan),
    ):
        _check(module, given.astype(np.float32), direction)


@pytest.mark.parametrize("direction", ["GT", "LT"])
def test_the_first_of_two_nans(direction: str) -> None:
    """Lanes find one each; the first is in a later lane."""
    for first, second in ((5, 17), (5, 69), (17, 70), (3, 299)):
        given = np.zeros((1, 300), np.float32)
        given[0, [first, second]] = np.nan
        _check(_places("f32", 1, 300, direction), given, direction)


@pytest.mark.parametrize("element", ["f32", "u8", "s64"])
@pytest.mark.parametrize("shape", [(9, 1), (7, 13), (13, 130), (3, 1003), (260, 1024)])
def test_wide_indices(element: str, shape: tuple[int, int]) -> None:
    """Places of 64 bits, which are found in 32; along rows and columns."""
    random = np.random.default_rng(5)
    for dim, direction in product((0, 1), ("GT", "LT")):
        given = random.integers(0, 50, shape)
        values = _special(random, shape) if element == "f32" else given.astype(TYPES[element])
        _check(_places(element, *shape, direction, dim, "s64"), values, direction, dim)


@pytest.mark.slow
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("direction", ["GT", "LT"])
def test_types(element: str, direction: str) -> None:
    random = np.random.default_rng(1)
    given = random.integers(0, 50, (20, 257)).astype(TYPES[element])
    _check(_places(element, 20, 257, direction), given, direction)


@pytest.mark.parametrize("dim", [0, 1])
def test_dimensions(dim: int) -> None:
    random = np.random.default_rng(2)
    for shape in ((300, 40), (40, 300), (1, 70_000), (70_000, 1)):
        module = _places("f32", *shape, dim=dim)
        _check(module, _special(random, shape), "GT", dim)


@pytest.mark.slow
def test_many_parts() -> None:
    """A row that is shared out: parts are joined in order."""
    random = np.random.default_rng(3)
    for given in (random.normal(size=(1, 1 << 20)), _special(random, (1, 1 << 20))):
        _check(_places("f32", 1, 1 << 20), given.astype(np.float32), "GT")


def _fold(results, starts=(float("-inf"), 0), place=S32) -> tuple[Pass, Reduction]:
    axis = Axis("@0", 500)
    inputs = (
        ex.load(0, Dim.symbol("@0"), F32),
        ex.make("convert", place, (ex.index(Dim.symbol("@0")),)),
    )
    inits = (ex.constant(np.float32(starts[0])), ex.constant(np.int32(starts[1])))
    fold = Reduction(0, Combiner(results), inits, inputs)
    return Pass((axis,), (fold,)), fold


def test_recognized_folds() -> None:
    """The computation decides, however it is written; the place must be known to come first."""
    a, i = ex.argument(0, F32), ex.argument(1, S32)
    b, j = ex.argument(2, F32), ex.argument(3, S32)
    is_nan = compare("NE", a, a)
    either = ex.make("or", PRED, (compare("GE", a, b), is_nan))
    greatest = (select(either, a, b), select(either, i, j))
    assert arg_fold(*_fold(greatest)) is not None
    assert arg_fold(*_fold(greatest, starts=(float("-inf"), 1))) is None
    assert arg_fold(*_fold(greatest, starts=(float("nan"), 0))) is None
    last = compare("GT", a, b)
    assert arg_fold(*_fold((select(last, a, b), select(last, i, j)))) is None
    without_nan = compare("GE", a, b)
    assert arg_fold(*_fold((select(without_nan, a, b), select(without_nan, i, j)))) is None
