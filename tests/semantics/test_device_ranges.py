# SPDX-License-Identifier: Apache-2.0
"""Groups of devices as rearranged ranges: the text, and the groups that it stands for."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.opset.collective import Groups, WrittenGroups
from ingot.semantics.device_groups import Grid, with_others
from ingot.semantics.device_ranges import groups_of_range, range_text, written


def along(mesh: tuple[int, ...], axes: tuple[int, ...]) -> Groups:
    """Return the groups of devices that differ only in some axes of a mesh."""
    others = [axis for axis in range(len(mesh)) if axis not in axes]
    devices = np.arange(np.prod(mesh)).reshape(mesh).transpose(*others, *axes)
    size = int(np.prod([mesh[axis] for axis in axes]))
    return tuple(tuple(row) for row in devices.reshape(-1, size).tolist())


@pytest.mark.parametrize("mesh", [(6,), (2, 3), (4, 4), (2, 3, 4), (2, 1, 5, 2)])
def test_groups_along_axes_are_a_range(mesh: tuple[int, ...]) -> None:
    for count in range(1, len(mesh) + 1):
        for axes in itertools.permutations(range(len(mesh)), count):
            groups = along(mesh, axes)
            text = range_text(groups)
            assert text, (mesh, axes)
            assert groups_of_range(text) == groups


def test_other_groups_are_no_range_or_are_read_back() -> None:
    generator = random.Random(7)
    refused = 0
    for _ in range(300):
        devices = list(range(12))
        generator.shuffle(devices)
        size = generator.choice((1, 2, 3, 4, 6, 12))
        groups = tuple(tuple(devices[at : at + size]) for at in range(0, 12, size))
        text = range_text(groups)
        refused += not text
        assert not text or groups_of_range(text) == groups
    assert refused > 200
    assert range_text(((0, 1, 2), (3,))) == ""
    assert range_text(()) == ""
    assert range_text(((1, 2),)) == ""
    assert range_text(((0, 0),)) == ""


def test_the_text_of_many_devices_is_short_and_read_back() -> None:
    groups = along((512, 8), (0,))
    short = written(groups)
    assert short == groups
    assert hash(short) == hash(groups)
    assert isinstance(short, WrittenGroups)
    assert short.text == "[8,512]<=[512,8]T(1,0)"
    text = f"""HloModule m, num_partitions=4096
    add {{ a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }}
    ENTRY e {{ x = f32[4] parameter(0)
      ROOT r = f32[4] all-reduce(x), replica_groups={short.text}, to_apply=add, channel_id=1,
        use_global_device_ids=true }}"""
    module = parse(text)
    assert module.entry.root.attributes.replica_groups == groups
    assert short.text in print_module(module)


def test_few_devices_are_listed() -> None:
    groups = along((2, 4), (1,))
    assert written(groups) is groups


def test_devices_of_no_group_are_alone() -> None:
    assert with_others(((2, 0),), Grid(1, 4)) == ((2, 0), (1,), (3,))
    whole = ((0, 1), (2, 3))
    assert with_others(whole, Grid(1, 4)) is whole
