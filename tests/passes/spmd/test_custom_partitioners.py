# SPDX-License-Identifier: Apache-2.0
"""Ops that a host partitions itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.builder import shape_of
from ingot.passes.spmd import own_partitions
from ingot.passes.spmd.own_partitions import OwnPartition, register_partitioner
from ingot.passes.spmd.partition import partition
from ingot.passes.spmd.sharding import parse_sharding, replicated
from ingot.support.diagnostics import UnsupportedError

ROWS = "{devices=[2,1]<=[2]}"
SUM = """
sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
"""
CALL = f"""
HloModule m, num_partitions=2
{SUM}
ENTRY main {{
  a = f32[4,3] parameter(0), sharding={ROWS}
  b = f32[4,3] all-reduce(a), channel_id=1, replica_groups={{{{0,1}}}}, to_apply=sum
  c = f32[3] custom-call(a), custom_call_target="CustomSPMDPartitioning", backend_config="key"
  ROOT d = (f32[3], f32[4,3]) tuple(c, b)
}}
"""
PART = f"""
HloModule part
{SUM}
ENTRY main {{
  a = f32[2,3] parameter(0)
  zero = f32[] constant(0)
  own = f32[3] reduce(a, zero), dimensions={{0}}, to_apply=sum
  ROOT all = f32[3] all-reduce(own), channel_id=1, replica_groups={{{{0,1}}}},
    use_global_device_ids=true, to_apply=sum
}}
"""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = own_partitions.find_partitioner()
    yield
    own_partitions._partitioners[:] = [before] if before else []


def test_the_program_of_the_host_stands_for_the_call() -> None:
    asked: list[tuple[str, object, object]] = []
    rows = parse_sharding(ROWS, 2)
    assert rows is not None

    def partitioner(config: str, operands: object, results: object) -> OwnPartition:
        asked.append((config, operands, results))
        return OwnPartition(parse_hlo(PART), (rows,), (replicated(2),))

    register_partitioner(partitioner)
    module = parse_hlo(CALL)
    division = partition(module, 2)
    assert division.asks_host
    ((config, operands, results),) = asked
    assert config == "key"
    assert operands == [(shape_of("f32[4,3]"), rows)]
    assert results == [(shape_of("f32[3]"), replicated(2))]
    assert not any(one.opcode == "custom-call" for one in module.entry.instructions)
    reduces = [one for one in module.entry.instructions if one.opcode == "all-reduce"]
    channels = [one.attributes.channel_id for one in reduces]
    assert len(channels) == len(set(channels)) == 2


def test_a_program_of_another_shape_is_refused() -> None:
    rows = parse_sharding(ROWS, 2)
    assert rows is not None
    made = PART.replace("f32[2,3]", "f32[2,5]").replace("[3]", "[5]")
    register_partitioner(lambda *_: OwnPartition(parse_hlo(made), (rows,), (replicated(2),)))
    with pytest.raises(UnsupportedError, match=r"its host makes f32\[5\]") as caught:
        partition(parse_hlo(CALL), 2)
    assert caught.value.diagnostic.code == "INGOT0360"


def test_without_its_host_a_call_is_refused() -> None:
    own_partitions._partitioners.clear()
    with pytest.raises(UnsupportedError, match="only its own host knows"):
        partition(parse_hlo(CALL), 2)
