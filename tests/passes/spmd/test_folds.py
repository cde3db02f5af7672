# SPDX-License-Identifier: Apache-2.0
"""Folds of several operands, and of every prefix, along divided dimensions."""

import pytest
from tests.passes.spmd.parts import check

DIVISIONS = {
    "rows": "{devices=[4,1]<=[4]}",
    "rows twice": "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
    "both": "{devices=[2,2]<=[4]}",
    "turned": "{devices=[2,2]3,1,0,2}",
}
FOLDS = """
largest {
  a = s32[] parameter(0) i = s32[] parameter(1) b = s32[] parameter(2) j = s32[] parameter(3)
  before = pred[] compare(a, b), direction=GE
  value = s32[] select(before, a, b)
  index = s32[] select(before, i, j)
  ROOT both = (s32[], s32[]) tuple(value, index)
}
sums {
  a = s32[] parameter(0) i = s32[] parameter(1) b = s32[] parameter(2) j = s32[] parameter(3)
  value = s32[] add(a, b)
  other = s32[] add(i, j)
  ROOT both = (s32[], s32[]) tuple(value, other)
}
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
max { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] maximum(a, b) }
"""


def program(sharding: str, body: str) -> str:
    return f"""HloModule m, num_partitions=4
    {FOLDS}
    ENTRY main {{
      given = s32[8,4] parameter(0), sharding={sharding}
      seventeen = s32[] constant(17)
      all = s32[8,4] broadcast(seventeen), dimensions={{}}
      x = s32[8,4] remainder(given, all)
      {body}
    }}"""


@pytest.mark.parametrize("sharding", DIVISIONS.values(), ids=DIVISIONS)
@pytest.mark.parametrize("dimensions", ["0", "1", "0,1"])
@pytest.mark.parametrize(
    ("fold", "start"), [("largest", -(2**31)), ("sums", 0), ("largest", 12), ("sums", 1)]
)
def test_pairs(sharding: str, dimensions: str, fold: str, start: int) -> None:
    shape = {"0": "s32[4]", "1": "s32[8]", "0,1": "s32[]"}[dimensions]
    body = f"""
      i = s32[8,4] iota(), iota_dimension=0
      least = s32[] constant({start})
      zero = s32[] constant(0)
      ROOT r = ({shape}, {shape}) reduce(x, i, least, zero), dimensions={{{dimensions}}},
        to_apply={fold}"""
    text = check(program(sharding, body))
    # A start that is not the identity may be folded once only: the operands are gathered.
    if start != 1 and dimensions == "0":
        assert "s32[8,4]{1,0} all-gather" not in text


@pytest.mark.parametrize("sharding", DIVISIONS.values(), ids=DIVISIONS)
@pytest.mark.parametrize("window", ["size=8x1 pad=7_0x0_0", "size=8x1 pad=0_7x0_0"])
@pytest.mark.parametrize(("fold", "start"), [("add", 0), ("max", -(2**31)), ("add", 3)])
def test_scans(sharding: str, window: str, fold: str, start: int) -> None:
    body = f"""
      start = s32[] constant({start})
      ROOT r = s32[8,4] reduce-window(x, start), window={{{window}}}, to_apply={fold}"""
    text = check(program(sharding, body))
    if start != 3:
        assert "s32[8,4]{1,0} all-gather" not in text
        assert "s32[8,2]{1,0} all-gather" not in text
