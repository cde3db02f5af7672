# SPDX-License-Identifier: Apache-2.0
"""Which devices meet: every mode, XLA's order of participants, and what does not fit."""

from __future__ import annotations

import pytest

import ingot
from ingot.semantics.device_groups import Grid, group_of, groups_of, mode_of, pairs_of
from ingot.support.diagnostics import VerifyError

GRID = Grid(2, 2)


def op(text: str):
    module = ingot.parse_hlo(
        "HloModule m add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
        f" ENTRY e {{ x = f32[2] parameter(0) ROOT r = f32[2] {text} }}"
    )
    return module.entry.root


@pytest.mark.parametrize(
    ("attributes", "groups"),
    [
        ("replica_groups={}", ((0, 2), (1, 3))),
        ("replica_groups={{1,0}}", ((2, 0), (3, 1))),
        ("channel_id=1, replica_groups={{1,0}}", ((2, 3, 0, 1),)),
        ("channel_id=1, replica_groups={{0},{1}}", ((0, 1), (2, 3))),
        ("channel_id=1, replica_groups={{3,0},{1,2}}, use_global_device_ids=true",
         ((3, 0), (1, 2))),
        ("channel_id=1, replica_groups=[2,2]<=[4], use_global_device_ids=true", ((0, 1), (2, 3))),
        ("channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0), use_global_device_ids=true",
         ((0, 2), (1, 3))),
        ("channel_id=1, replica_groups=mesh['x'=2,'y'=2] {'y'}, use_global_device_ids=true",
         ((0, 1), (2, 3))),
        ("channel_id=1, replica_groups=mesh['x'=2,'y'=2] {'x'}, use_global_device_ids=true",
         ((0, 2), (1, 3))),
        ("mode=flattened_id, replica_groups={{3,2,1,0}}", ((3, 2, 1, 0),)),
    ],
)  # fmt: skip
def test_groups_of_an_all_reduce(attributes: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert groups_of(op(f"all-reduce(x), {attributes}, to_apply=add"), GRID) == groups


def test_ops_without_global_ids_count_partitions_when_they_have_a_channel() -> None:
    found = op("all-to-all(x), channel_id=1, replica_groups={{1,0}}, dimensions={0}")
    assert mode_of(found) == "cross_partition"
    assert groups_of(found, GRID) == ((1, 0), (3, 2))


def test_pairs() -> None:
    text = "collective-permute(x), source_target_pairs={{0,1}}"
    assert pairs_of(op(text), GRID) == ((0, 2), (1, 3))
    assert pairs_of(op(text + ", channel_id=1"), GRID) == ((0, 1), (2, 3))
    assert pairs_of(op(text + ", mode=flattened_id"), GRID) == ((0, 1),)


def test_who_is_in_no_group_is_alone() -> None:
    assert group_of(((0, 1),), 3) == (3,)
    assert group_of(((0, 1),), 1) == (0, 1)


@pytest.mark.parametrize(
    ("groups", "error"),
    [("{{0,1,2}}", "INGOT0213"), ("{{0,0}}", "all_reduce_c1"), ("{{0},{0}}", "all_reduce_c1")],
)
def test_what_does_not_fit(groups: str, error: str) -> None:
    with pytest.raises(VerifyError, match=error):
        groups_of(op(f"all-reduce(x), replica_groups={groups}, to_apply=add"), GRID)
