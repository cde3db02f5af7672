# SPDX-License-Identifier: Apache-2.0
"""Manual partitioning: what is divided by hand, what is cut, what is refused."""

from __future__ import annotations

import pytest
from tests.passes.spmd.parts import check

from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.verifier import verify
from ingot.passes.spmd.partition import partition
from ingot.passes.spmd.sharding import parse_sharding, split_tuple
from ingot.support.diagnostics import ParseError, UnsupportedError

FOUR = "{devices=[4]<=[4]}"

BY_HAND = f"""
HloModule m

ENTRY main {{
  x = f32[8] parameter(0)
  given = f32[8] custom-call(x), custom_call_target="Sharding", sharding={FOUR}
  inner = f32[2] custom-call(given), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
  twice = f32[2] add(inner, inner)
  kept = f32[2] custom-call(twice), custom_call_target="Sharding", sharding={{manual}}
  ROOT r = f32[8] custom-call(kept), custom_call_target="SPMDShardToFullShape", sharding={FOUR}
}}
"""

ALIKE = f"""
HloModule m

ENTRY main {{
  x = f32[8] parameter(0), sharding={FOUR}
  y = f32[8] parameter(1)
  scale = f32[] parameter(2)
  wide = f32[8] broadcast(scale), dimensions={{}}
  product = f32[8] multiply(x, wide)
  ROOT sum = f32[8] add(product, y)
}}
"""

REDUCED = f"""
HloModule m

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY main {{
  x = f32[8] parameter(0), sharding={FOUR}
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(x, zero), dimensions={{0}}, to_apply=add
}}
"""


def test_code_divided_by_hand_is_the_program_of_one_device():
    module = parse(BY_HAND)
    division = partition(module, 4)
    verify(module)
    assert [str(p.shape) for p in module.entry.parameters] == ["f32[2]{0}"]
    assert str(module.result_shape) == "f32[2]{0}"
    assert division.parameters[0].tiles == (4,)
    assert division.results[0].parts == (0, 1, 2, 3)
    assert "custom-call" not in print_module(module)


def test_elementwise_ops_work_on_parts_and_cut_whole_values():
    module = parse(ALIKE)
    division = partition(module, 4)
    verify(module)
    text = print_module(module)
    assert [p.shape.dims for p in module.entry.parameters] == [(2,), (8,), ()]
    assert text.count(" dynamic-slice(") >= 2
    assert "partition-id" in text
    assert [p.is_replicated for p in division.parameters] == [False, True, True]


def test_a_sum_over_a_divided_dimension_is_folded_over_the_devices():
    module = parse(REDUCED)
    division = partition(module, 4)
    verify(module)
    assert print_module(module).count(" all-reduce(") == 1
    assert division.results[0].is_replicated


def test_one_partition_changes_nothing():
    module = parse(REDUCED)
    before = print_module(module)
    assert partition(module, 1).results[0].is_replicated
    assert print_module(module) == before


@pytest.mark.parametrize(
    ("text", "tiles", "parts"),
    [
        ("{replicated}", (), (0, 0, 0, 0)),
        ("{devices=[4]<=[4]}", (4,), (0, 1, 2, 3)),
        ("{devices=[2,2]<=[2,2]T(1,0)}", (2, 2), (0, 2, 1, 3)),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", (2, 1), (0, 0, 1, 1)),
        ("{devices=[2,2]3,2,1,0}", (2, 2), (3, 2, 1, 0)),
        ("{devices=[1,4]<=[4] last_tile_dim_replicate}", (), (0, 0, 0, 0)),
    ],
)
def test_shardings_are_read(text: str, tiles: tuple[int, ...], parts: tuple[int, ...]):
    sharding = parse_sharding(text, 4)
    assert sharding is not None
    assert (sharding.tiles, sharding.parts) == (tiles, parts)
    again = parse_sharding(sharding.text(), 4)
    assert again == sharding or sharding.is_replicated


def test_texts_without_shardings_give_none():
    assert parse_sharding("{manual}", 4) is None
    assert parse_sharding("", 4) is None


def test_other_texts_are_refused():
    with pytest.raises(ParseError):
        parse_sharding("{devices}", 4)
    sharding = parse_sharding(FOUR, 4)
    assert sharding is not None
    with pytest.raises(UnsupportedError, match="evenly"):
        sharding.local_dims((6,))


def test_tuples_are_split_at_their_own_commas():
    assert split_tuple("{{replicated}, {devices=[2,2]<=[4]}}") == [
        "{replicated}",
        "{devices=[2,2]<=[4]}",
    ]


def _doubling(inside: str) -> str:
    lines = "\n".join(f"s{n} = f32[8] sine({'p' if not n else f's{n - 1}'})" for n in range(40))
    made = f"HloModule m\nc0 {{ p = f32[8] parameter(0)\n{lines}\n ROOT r = f32[8] cosine(s39) }}\n"
    for n in range(1, 20):
        made += f"""c{n} {{ p = f32[8] parameter(0)
          a = f32[8] call(p), to_apply=c{n - 1}
          {inside}
          ROOT c = f32[8] call(b), to_apply=c{n - 1} }}
        """
    return (
        made
        + """ENTRY e { x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
      y = f32[8] negate(x)
      c = f32[8] call(y), to_apply=c19
      ROOT r = f32[8] add(c, x) }"""
    )


def test_each_device_does_all_of_a_call_that_stays():
    annotated = (
        'b = f32[8] custom-call(a), custom_call_target="Sharding", sharding={devices=[4]<=[4]}'
    )
    module = parse(_doubling(annotated))
    division = partition(module, 4)
    verify(module)
    assert [sharding.tiles for sharding in division.results] == [(4,)]
    calls = [i for i in module.entry.instructions if i.opcode == "call"]
    assert calls
    assert all(call.shape.dims == (8,) for call in calls)


def test_a_call_that_stays_divides_nothing_by_hand():
    by_hand = """h = f32[2] custom-call(a), custom_call_target="SPMDFullToShardShape",
        sharding={manual}
      b = f32[8] custom-call(h), custom_call_target="SPMDShardToFullShape",
        sharding={devices=[4]<=[4]}"""
    with pytest.raises(UnsupportedError, match="INGOT0360"):
        partition(parse(_doubling(by_hand)), 4)


ROWS = "{devices=[4,1]<=[4]}"


@pytest.mark.parametrize(
    "ops",
    [
        f"ROOT r = f32[8,?n] exponential(x), sharding={ROWS}",
        "ROOT r = f32[8,?n] negate(x), sharding={replicated}",
        "ROOT r = f32[5,?n] slice(x), slice={[1:6], [0:?n]}",
        "ROOT r = f32[?n,8] transpose(x), dimensions={1,0}",
        """both = f32[16,?n] concatenate(x, x), dimensions={0}
  ROOT r = f32[16,?n] negate(both)""",
        """w = f32[8] broadcast(s), dimensions={}
  ROOT r = f32[?n] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}""",
        """i = s32[] constant(2)
  z = s32[] constant(0)
  ROOT r = f32[1,?n] dynamic-slice(x, i, z), dynamic_slice_sizes={1,?n}""",
    ],
)
def test_other_dimensions_may_have_symbolic_sizes(ops: str) -> None:
    check(
        f"""HloModule m

ENTRY main {{
  x = f32[8,?n] parameter(0), sharding={ROWS}
  s = f32[] parameter(1)
  {ops}
}}""",
        size=3,
    )


def test_a_symbolic_size_is_not_divided() -> None:
    text = f"HloModule m\n\nENTRY main {{\n  ROOT x = f32[?n] parameter(0), sharding={FOUR}\n}}"
    with pytest.raises(UnsupportedError) as error:
        partition(parse(text), 4)
    assert error.value.diagnostic.code == "INGOT0360"
