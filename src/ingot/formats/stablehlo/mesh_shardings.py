# SPDX-License-Identifier: Apache-2.0
"""Shardy's shardings as XLA's text: `<@mesh, [{"x"}, {}]>` is `{devices=[2,1,2]<=[4] …}`.

A mesh is a grid of devices with named axes. A sharding says which axes divide each dimension; an
axis may be split into sub-axes. XLA's text says the number of parts per dimension and the devices
in the order of the parts; axes that divide nothing are one more dimension at the end.

Source: xla/service/spmd/shardy/stablehlo_round_trip (convertToHloSharding),
xla/hlo/ir/tile_assignment.h.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from ingot.formats.stablehlo.attributes import shardy
from ingot.semantics.device_groups import MOST_DEVICES
from ingot.support.diagnostics import ParseError

# (name of the axis, size of what is before it inside the axis, its size)
Part = tuple[str, int, int]


class Mesh:
    """A grid of devices.

    Attributes:
        axes: sizes by name, in order.
        devices: device numbers, in the order of the grid.
        is_maximal: it has no axes, and names the one device where values lie.
    """

    __slots__ = ("axes", "devices", "is_maximal")

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


def sharding_text(attribute: Any, mesh: Mesh, only: Collection[str] | None = None) -> str:
    """Return XLA's text of a tensor's sharding, Shardy's TensorShardingAttr on `mesh`.

    With `only`, axes of other names divide nothing.
    """
    if mesh.is_maximal:
        return _maximal(mesh)
    sharding = shardy(attribute, "TensorShardingAttr")
    dimensions = [
        [part for part in mesh.parts(given.axes) if only is None or part[0] in only]
        for given in (
            shardy(dimension, "DimensionShardingAttr") for dimension in sharding.dimension_shardings
        )
    ]
    unreduced = [
        part for part in mesh.parts(sharding.unreduced_axes) if only is None or part[0] in only
    ]
    return _tiles(dimensions, unreduced, mesh, "unreduced")


def _maximal(mesh: Mesh) -> str:
    return "{maximal device=" + str(mesh.devices[0]) + "}"


def manual_text(mesh: Mesh, axes: tuple[str, ...], rank: int) -> str:
    """Return XLA's text for a value of `rank` that the program itself divides over `axes`."""
    if len(axes) == len(mesh.axes):
        return "{manual}"
    by_hand = [(name, 1, mesh.axes[name]) for name in axes]
    return _tiles([[] for _ in range(rank)], by_hand, mesh, "manual")


def _tiles(dimensions: list[list[Part]], special: list[Part], mesh: Mesh, kind: str) -> str:
    """Return the text of a division; `special` axes are of a `kind` of their own."""
    used = [part for dimension in dimensions for part in dimension]
    if not used and not special:
        return "{replicated}"
    if mesh.size == 1:
        return _maximal(mesh)
    grid = _grid(mesh, [*used, *special])
    order = [grid.index(part) for part in [*used, *special]]
    rest = [place for place in range(len(grid)) if place not in order]
    sizes = [size for _, _, size in grid]
    tiles = [math.prod(size for _, _, size in dimension) for dimension in dimensions]
    divided = math.prod(tiles)
    apart = math.prod(size for _, _, size in special)
    left = mesh.size // divided // apart
    suffix = ""
    if special:
        kinds = [kind] + (["replicated"] if left > 1 else [])
        tiles += [apart] + ([left] if left > 1 else [])
        suffix = " last_tile_dims={" + ", ".join(kinds) + "}"
    elif left > 1:
        tiles.append(left)
        suffix = " last_tile_dim_replicate"
    return "{devices=[" + _join(tiles) + "]" + _devices(mesh, sizes, [*order, *rest]) + suffix + "}"


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
    if mesh.devices != list(range(mesh.size)):
        grid = np.array(mesh.devices).reshape(sizes).transpose(order)
        return _join(grid.reshape(-1).tolist())
    sizes, order = _merged(sizes, order)
    if order == list(range(len(order))):
        return f"<=[{mesh.size}]"
    return f"<=[{_join(sizes)}]T({_join(order)})"


def _merged(sizes: list[int], order: list[int]) -> tuple[list[int], list[int]]:
    """Drop axes of size 1 and join axes that stay neighbours, as XLA prints them."""
    order = [place for place in order if sizes[place] != 1]
    runs: list[list[int]] = []
    kept = sorted(order)
    for place in order:
        follows = runs and kept.index(place) == kept.index(runs[-1][-1]) + 1
        if follows:
            runs[-1].append(place)
        else:
            runs.append([place])
    ranked = sorted(runs)
    joined = [math.prod(sizes[place] for place in run) for run in ranked]
    return joined, [ranked.index(run) for run in runs]


def _join(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
