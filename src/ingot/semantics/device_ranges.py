# SPDX-License-Identifier: Apache-2.0
"""Groups of devices as a rearranged range: `[2,4]<=[4,2]T(1,0)`, whatever number there are.

Groups along axes of a mesh are always such a range, so their text does not grow with the mesh.

Source: xla/hlo/ir/replica_group.h (IotaReplicaGroupList), tile_assignment.h.

Example:
    >>> range_text(((0, 2), (1, 3)))
    '[2,2]<=[2,2]T(1,0)'
    >>> groups_of_range('[2,2]<=[2,2]T(1,0)')
    ((0, 2), (1, 3))
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ingot.hlo.opset.collective import Groups, WrittenGroups
from ingot.support.regex import regex

LONG = 64
"""Devices from which groups are written as a range: shorter lists are easier to read."""
_RANGE = regex(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_KEPT = 1 << 9


def written(groups: Groups) -> Groups:
    """Return equal groups that are printed as a range if they are long and are one."""
    if isinstance(groups, WrittenGroups) or sum(map(len, groups)) < LONG:
        return groups
    text = range_text(groups)
    return WrittenGroups.of(groups, text) if text else groups


@lru_cache(_KEPT)
def range_text(groups: Groups) -> str:
    """Return groups as a rearranged range; "" if they are none."""
    counts = {len(group) for group in groups}
    devices = np.array([device for group in groups for device in group])
    if len(counts) != 1 or not devices.size:
        return ""
    digits = _digits(devices)
    # From the slowest to the fastest: the range counts digits in the order of their strides.
    by_stride = sorted(range(len(digits)), key=lambda digit: -digits[digit][1])
    dims = [digits[digit][0] for digit in by_stride]
    order = [by_stride.index(digit) for digit in range(len(digits))]
    if not np.array_equal(_rearranged(dims, order), devices):
        return ""
    permuted = f"T({_join(order)})" if order != sorted(order) else ""
    return f"[{len(groups)},{counts.pop()}]<=[{_join(dims)}]{permuted}"


def groups_of_range(text: str) -> Groups:
    """Return the groups of a text that `range_text` wrote."""
    found = _RANGE.fullmatch(text)
    assert found is not None, f"{text} is a range"
    shape, dims, order = ([int(part) for part in (of or "").split(",") if part]
                          for of in found.groups())  # fmt: skip
    devices = _rearranged(dims, order or range(len(dims))).reshape(shape)
    return tuple(tuple(group) for group in devices.tolist())


def _rearranged(dims: Sequence[int], order: Sequence[int]) -> np.ndarray:
    """Return the range of all devices, as an array of `dims` with its dimensions in `order`."""
    return np.arange(np.prod(dims)).reshape(dims).transpose(order).reshape(-1)


def _digits(devices: np.ndarray) -> list[tuple[int, int]]:
    """Return (count, stride) of the digits of the index by which devices grow, slowest first.

    Devices that are no sum of such digits give digits of others.
    """
    digits: list[tuple[int, int]] = []
    known, total = 1, devices.size
    while known < total:
        # Each block of `known` devices begins `stride` after the one before.
        starts = devices[::known] - devices[0]
        stride = int(starts[1])
        is_alike = np.equal(starts, np.arange(starts.size) * stride)
        count = starts.size if is_alike.all() else int(is_alike.argmin())
        if starts.size % count:
            break
        digits.insert(0, (count, stride))
        known *= count
    return digits or [(total, 1)]


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
