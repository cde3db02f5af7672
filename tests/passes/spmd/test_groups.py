# SPDX-License-Identifier: Apache-2.0
"""Groups of shardings: members are divided as the finest of them, even parameters and constants."""

from __future__ import annotations

from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.verifier import verify
from ingot.passes.spmd.partition import partition

ALIKE = "{unknown shard_as 3}"

CHAIN = f"""
HloModule m

ENTRY main {{
  x = f32[8] parameter(0), sharding={{devices=[4]<=[4]}}
  y = f32[8] parameter(1)
  a = f32[8] custom-call(x), custom_call_target="Sharding", sharding={ALIKE}
  b = f32[8] custom-call(y), custom_call_target="Sharding", sharding={ALIKE}
  twice = f32[8] add(b, b)
  c = f32[8] custom-call(twice), custom_call_target="Sharding", sharding={{unknown shard_as 4}}
  place = f32[8] iota(), iota_dimension=0
  d = f32[8] custom-call(place), custom_call_target="Sharding", sharding={{unknown shard_as 4}}
  ROOT r = (f32[8], f32[8]) tuple(a, d)
}}
"""

ASKED = f"""
HloModule m

ENTRY main {{
  x = f32[8,8] parameter(0), sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}
  finer = f32[8,8] custom-call(x), custom_call_target="Sharding", sharding={{devices=[2,2]<=[4]}}
  a = f32[8,8] custom-call(x), custom_call_target="Sharding", sharding={ALIKE}
  one = f32[] constant(1)
  ones = f32[8,8] broadcast(one), dimensions={{}}
  b = f32[8,8] custom-call(ones), custom_call_target="Sharding", sharding={ALIKE}
  ROOT r = (f32[8,8], f32[8,8], f32[8,8]) tuple(finer, a, b)
}}
"""


def test_a_group_divides_what_nobody_else_divides():
    module = parse(CHAIN)
    division = partition(module, 4)
    verify(module)
    assert [sharding.tiles for sharding in division.parameters] == [(4,), (4,)]
    assert [sharding.tiles for sharding in division.results] == [(4,), (4,)]
    assert "custom-call" not in print_module(module)


def test_a_group_takes_what_another_annotation_asks_of_a_member():
    module = parse(ASKED)
    division = partition(module, 4)
    verify(module)
    assert [sharding.tiles for sharding in division.results] == [(2, 2)] * 3


def test_a_group_without_a_division_stays_whole():
    module = parse(CHAIN.replace(", sharding={devices=[4]<=[4]}", ""))
    division = partition(module, 4)
    verify(module)
    assert all(sharding.is_replicated for sharding in (*division.parameters, *division.results))
