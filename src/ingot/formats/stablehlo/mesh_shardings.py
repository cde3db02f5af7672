# SPDX-License-Identifier: Apache-2.0
"""Shardy's shardings as XLA's text: `<@mesh, [{"x"}, {}]>` is `{devices=[2,1,2]<=[4] …}`.

A mesh is a grid of devices with named axes. A sharding lists the axes that divide each dimension;
an axis may be split into sub-axes. XLA's text has the number of parts per dimension and the devices
in the order of the parts; axes that divide nothing are one more dimension at the end.

Source: xla/service/spmd/shardy/stablehlo_round_trip (convertToHloSharding),
xla/hlo/ir/tile_assignment.h.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ingot.formats.stablehlo.attributes import shardy
from ingot.semantics.device_groups import MOST_DEVICES
from ingot.support.diagnostics import ParseError

# (name of the axis, product of the sub-axes before it in the axis, its size)
Part = tuple[str, int, int]


class Mesh:
    """A grid of devices.

    Attributes:
        axes: sizes by name, in order.
        devices: device numbers, in the order of the grid.
        is_maximal: it has no axes, and names the one device that holds values.
        is_in_order: whether the devices are numbered in the order of the grid.
    """

    __slots__ = ("axes", "devices", "is_in_order", "is_maximal")

    def __init__(self, attribute: Any) -> None:
        mesh = shardy(attribute, "MeshAttr")
        axes = (shardy(axis, "MeshAxisAttr") for axis in mesh.axes)
        self.axes: dict[str, int] = {axis.name: axis.size for axis in axes}
        count = math.prod(self.axes.values())
        if count > MOST_DEVICES:
            raise ParseError(
                f"a mesh of {count} devices: {MOST_DEVICES} are most", code="INGOT0125"
            )
        given = list(mesh.device_ids)
        self.devices: list[int] = given or list(range(count))
        self.is_in_order = self.devices == list(range(len(self.devices)))
        self.is_maximal = not self.axes and bool(given)

    @property
    def size(self) -> int:
        """Number of devices."""
        return len(self.devices)

    def parts(self, axes: Iterable[Any]) -> list[Part]:
        """Return the axes of a list of axis references."""
        found: list[Part] = []
        for reference in axes:
            axis = shardy(reference, "AxisRefAttr")
            name, inner = axis.name, axis.sub_axis_info
            if inner is None:
                found.append((name, 1, self.axes[name]))
            else:
                info = shardy(inner, "SubAxisInfoAttr")
                found.append((name, info.pre_size, info.size))
        return found


def sharding_text(
    attribute: Any, mesh: Mesh, dims: Sequence[object], manual: Sequence[str] = ()
) -> str:
    """Return XLA's text of the sharding of a tensor of `dims`, a TensorShardingAttr on `mesh`.

    Axes of a dimension from the first one that does not divide it evenly are dropped, as Shardy
    itself drops them from a program's parameters and results.

    Args:
        attribute: the sharding; None divides nothing.
        mesh: its mesh.
        dims: the sizes; symbolic ones are not divided.
        manual: the axes along which the program is manual: the tensor is a part along them.
    """
    if mesh.is_maximal:
        return _maximal(mesh)
    if manual and math.prod(mesh.axes[name] for name in manual) == mesh.size:
        return "{manual}"
    dimensions: list[list[Part]] = [[] for _ in dims]
    unreduced: list[Part] = []
    if attribute is not None:
        sharding = shardy(attribute, "TensorShardingAttr")
        for dim, given in enumerate(sharding.dimension_shardings):
            axes = shardy(given, "DimensionShardingAttr").axes
            parts = [part for part in mesh.parts(axes) if part[0] not in manual]
            dimensions[dim] = _even(parts, dims[dim])
        axes = mesh.parts(sharding.unreduced_axes)
        unreduced = [part for part in axes if part[0] not in manual]
    by_hand = [(name, 1, mesh.axes[name]) for name in manual]
    return _tiles(dimensions, {"manual": by_hand, "unreduced": unreduced}, mesh)


def _even(parts: list[Part], size: object) -> list[Part]:
    """Return the first parts that divide a dimension of `size` evenly."""
    count = 1
    for number, (_, _, part) in enumerate(parts):
        count *= part
        if not isinstance(size, int) or size % count:
            return parts[:number]
    return parts


def _maximal(mesh: Mesh) -> str:
    return "{maximal device=" + str(mesh.devices[0]) + "}"


def _tiles(dimensions: list[list[Part]], special: dict[str, list[Part]], mesh: Mesh) -> str:
    """Return the text of a division; the `special` axes of a kind divide nothing."""
    used = [part for dimension in dimensions for part in dimension]
    kinds = [kind for kind, parts in special.items() if parts]
    apart = [part for parts in special.values() for part in parts]
    if not used and not apart:
        return "{replicated}"
    if mesh.size == 1:
        return _maximal(mesh)
    grid = _grid(mesh, [*used, *apart])
    order = [grid.index(part) for part in [*used, *apart]]
    rest = [axis for axis in range(len(grid)) if axis not in order]
    sizes = [size for _, _, size in grid]
    tiles = [_count(dimension) for dimension in dimensions]
    tiles += [_count(special[kind]) for kind in kinds]
    left = mesh.size // math.prod(tiles)
    suffix = " last_tile_dim_replicate" if left > 1 else ""
    if kinds:
        kinds += ["replicated"] if left > 1 else []
        suffix = " last_tile_dims={" + ", ".join(kinds) + "}"
    tiles += [left] if left > 1 else []
    return "{devices=[" + _join(tiles) + "]" + _devices(mesh, sizes, [*order, *rest]) + suffix + "}"


def _count(parts: list[Part]) -> int:
    return math.prod(size for _, _, size in parts)


def _grid(mesh: Mesh, used: list[Part]) -> list[Part]:
    """Return the axes of the grid, each split where a used sub-axis begins or ends."""
    grid: list[Part] = []
    for name, size in mesh.axes.items():
        cuts = {1, size}
        for axis, before, part in used:
            if axis == name:
                cuts |= {before, before * part}
        edges = sorted(cuts)
        pieces = [(name, low, high // low) for low, high in pairwise(edges)]
        grid += pieces or [(name, 1, size)]
    return grid


def _devices(mesh: Mesh, sizes: list[int], order: list[int]) -> str:
    """Return the devices in the order of the parts: as a rearranged range where that says it."""
    if not mesh.is_in_order:
        grid = np.array(mesh.devices).reshape(sizes).transpose(order)
        return _join(grid.reshape(-1).tolist())
    sizes, order = _merged(sizes, order)
    if order == list(range(len(order))):
        return f"<=[{mesh.size}]"
    return f"<=[{_join(sizes)}]T({_join(order)})"


def _merged(sizes: list[int], order: list[int]) -> tuple[list[int], list[int]]:
    """Drop axes of size 1 and join axes that stay neighbours, as XLA prints them."""
    order = [axis for axis in order if sizes[axis] != 1]
    runs: list[list[int]] = []
    kept = sorted(order)
    for axis in order:
        follows = runs and kept.index(axis) == kept.index(runs[-1][-1]) + 1
        if follows:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    ranked = sorted(runs)
    joined = [math.prod(sizes[axis] for axis in run) for run in ranked]
    return joined, [ranked.index(run) for run in runs]


def _join(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
