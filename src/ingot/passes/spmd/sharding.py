# SPDX-License-Identifier: Apache-2.0
"""Shardings: how a value is divided among devices, read from XLA's text.

`{devices=[2,1,2]<=[4] last_tile_dim_replicate}` divides the first dimension in two; each part lies
on two devices. There may be thousands of devices but few divisions of many values, so results about
divisions are cached. Invariant: equal divisions are equal objects, however the text spells them.

Source: xla/hlo/ir/hlo_sharding.cc, tile_assignment.h.

Example:
    >>> sharding = parse_sharding("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 4)
    >>> sharding.local_dims((6, 5)), sharding.offsets((6, 5), axis=0)
    ((3, 5), (0, 0, 3, 3))
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ingot.hlo.dim import Dim
from ingot.hlo.opset.collective import Groups
from ingot.semantics.device_ranges import written
from ingot.support.diagnostics import ParseError, UnsupportedError
from ingot.support.records import record
from ingot.support.regex import regex

_TILES = regex(
    r"\{\s*devices=\[(?P<tiles>[\d,]+)\]"
    r"(?:<=\[(?P<range>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?|(?P<list>[\d,]+))"
    r"(?P<rest>[^}]*(?:\{[^}]*\})?[^}]*)\}"
)
_MAXIMAL = regex(r"\{\s*maximal device=(\d+)[^}]*\}")

Column = tuple[int, ...]
"""The coordinate of each device along one dimension: the number of its part there."""
_CACHE_SIZE = 1 << 10
"""Divisions, columns and groups that each cache holds."""


class _Interned(tuple[int, ...]):
    """A column whose hash is computed once."""

    def __hash__(self) -> int:
        found = self.__dict__.get("hash")
        if found is None:
            found = self.__dict__["hash"] = super().__hash__()
        return found


@lru_cache(_CACHE_SIZE)
def interned(column: Column) -> Column:
    """Return the one object that stands for all equal columns."""
    return _Interned(column)


@record
class Sharding:
    """A division.

    Attributes:
        tiles: parts per dimension; empty if every device has the whole value, summed.
        parts: for each device, the number of its part in row-major order of the parts.
        summands: for each device, the number of its summand, if values are still to be summed over
            devices; empty if not.
    """

    tiles: tuple[int, ...]
    parts: Column
    summands: Column = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", interned(self.parts))
        object.__setattr__(self, "summands", interned(self.summands) if self.summands else ())

    @property
    def is_replicated(self) -> bool:
        """Whether every device has the whole value."""
        return not self.tiles and not self.summands

    @property
    def summed(self) -> Sharding:
        """The same division of the sum."""
        return Sharding(self.tiles if math.prod(self.tiles) > 1 else (), self.parts)

    def of_summands(self, summands: Column, rank: int) -> Sharding:
        """Return the same division of summands, if there are any, of a value of `rank`."""
        return Sharding(self.tiles or (1,) * rank, self.parts, summands) if summands else self

    def may_be_of(self, summands: Column) -> bool:
        """Whether the devices of each part have equally many of every summand."""
        return independent((*(self.column(axis) for axis in range(len(self.tiles))), summands))

    def column(self, axis: int) -> Column:
        """Return the coordinate of each device along dimension `axis`."""
        return (
            _columns(self.tiles, self.parts)[axis]
            if self.tiles
            else undivided_column(len(self.parts))
        )

    def fits(self, dims: Sequence[int | Dim]) -> bool:
        """Whether every part of an array of `dims` has the same size."""
        return not self.tiles or all(map(_is_even, dims, self.tiles))

    def even(self, dims: Sequence[int | Dim]) -> Sharding:
        """Return the division of only those dimensions whose parts have equal sizes."""
        if self.fits(dims):
            return self
        columns = [
            self.column(axis) if _is_even(size, count) else undivided_column(len(self.parts))
            for axis, (size, count) in enumerate(zip(dims, self.tiles, strict=True))
        ]
        return sharding_of(columns, len(self.parts)).of_summands(self.summands, len(dims))

    def text(self) -> str:
        """Return XLA's text, with the devices listed."""
        if self.is_replicated:
            return "{replicated}"
        count = len(self.parts)
        summands = self.summands or (0,) * count
        copies = count // math.prod(self.tiles) // count_of(summands)
        kinds = ["unreduced"] * bool(self.summands) + ["replicated"] * (copies > 1)
        tiles = [*self.tiles, *[count_of(summands)] * bool(self.summands), *[copies] * (copies > 1)]
        coordinates = zip(self.parts, summands, range(count), strict=True)
        devices = [device for _, _, device in sorted(coordinates)]
        suffix = f" last_tile_dims={{{', '.join(kinds)}}}" if self.summands else ""
        suffix = suffix or " last_tile_dim_replicate" * (copies > 1)
        return f"{{devices=[{_join(tiles)}]{_join(devices)}{suffix}}}"

    def changed(self, other: Sharding, rank: int) -> list[int]:
        """Return the dimensions of a value of `rank` that another sharding divides differently."""
        return [axis for axis in range(rank) if self.column(axis) != other.column(axis)]

    def local_dims(self, dims: Sequence[int | Dim]) -> tuple[int | Dim, ...]:
        """Return the dimensions of one part of an array of `dims`.

        Raises:
            UnsupportedError: INGOT0360, the parts have different sizes.
        """
        if not self.tiles:
            return tuple(dims)
        if not self.fits(dims):
            raise UnsupportedError(
                f"an array of dimensions {tuple(dims)} cannot be divided evenly by {self.tiles}",
                code="INGOT0360",
                hint="pad it, or choose a mesh whose axes divide its dimensions",
            )
        return tuple(size // count for size, count in zip(dims, self.tiles, strict=True))

    def offsets(self, dims: Sequence[int | Dim], axis: int) -> Column:
        """Return the index along `axis` at which the part of each device of an array begins."""
        size = self.local_dims(dims)[axis]
        return tuple(at * size if isinstance(size, int) else 0 for at in self.column(axis))


def _is_even(size: int | Dim, count: int) -> bool:
    """Whether a dimension has `count` parts of one size; a symbolic one is not divided."""
    return count == 1 or (isinstance(size, int) and size % count == 0)


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


@lru_cache(_CACHE_SIZE)
def _columns(tiles: tuple[int, ...], parts: Column) -> tuple[Column, ...]:
    coordinates = np.unravel_index(np.array(parts), tiles)
    return tuple(interned(tuple(coordinate.tolist())) for coordinate in coordinates)


@lru_cache(_CACHE_SIZE)
def undivided_column(num_devices: int) -> Column:
    """Return the column of a dimension that nothing divides."""
    return interned((0,) * num_devices)


@lru_cache(_CACHE_SIZE)
def replicated(num_devices: int) -> Sharding:
    """Return the sharding of a value that every device has."""
    return Sharding((), undivided_column(num_devices))


def sharding_of(columns: Sequence[Column], num_devices: int) -> Sharding:
    """Return the sharding whose dimensions are divided as `columns` say."""
    return _sharding_of(tuple(columns), num_devices)


@lru_cache(_CACHE_SIZE)
def _sharding_of(columns: tuple[Column, ...], num_devices: int) -> Sharding:
    tiles = tuple(count_of(column) for column in columns)
    if math.prod(tiles) == 1:
        return replicated(num_devices)
    parts = np.ravel_multi_index([np.array(column) for column in columns], tiles)
    return Sharding(tiles, tuple(parts.tolist()))


def joined(columns: Sequence[Column]) -> Column:
    """Return one column that tells devices apart if any of `columns` does."""
    numbers: dict[Column, int] = {}
    return tuple(numbers.setdefault(at, len(numbers)) for at in zip(*columns, strict=True))


@lru_cache(_CACHE_SIZE)
def count_of(column: Column) -> int:
    """Return the number of parts along a dimension."""
    return max(column) + 1


@lru_cache(_CACHE_SIZE)
def independent(columns: tuple[Column, ...]) -> bool:
    """Whether an array can be divided along several dimensions by `columns`.

    It can if every combination of coordinates has equally many devices.
    """
    coordinates = Counter(zip(*columns, strict=True))
    full = len(coordinates) == math.prod(map(count_of, columns))
    return full and len(set(coordinates.values())) == 1


def groups_along(sharding: Sharding, axis: int, rank: int, subgroups: Column) -> Groups:
    """Return groups of devices whose parts differ along one dimension only, in its order.

    Args:
        sharding: how a value of `rank` is divided.
        axis: the dimension.
        rank: of the value.
        subgroups: devices of different subgroups have different values (`manual_subgroups`).
    """
    others = [sharding.column(other) for other in range(rank) if other != axis]
    return device_groups([*others, subgroups] if subgroups else others, sharding.column(axis))


def device_groups(fixed: Sequence[Column], varying: Column) -> Groups:
    """Return groups of devices that agree in `fixed`, each in the order of `varying`."""
    return _device_groups(tuple(fixed), varying)


@lru_cache(_CACHE_SIZE)
def _device_groups(fixed: tuple[Column, ...], varying: Column) -> Groups:
    copies: Counter[Column] = Counter()
    groups: dict[tuple[Column, int], list[int]] = {}
    for device in sorted(range(len(varying)), key=lambda device: (varying[device], device)):
        rest = tuple(column[device] for column in fixed)
        coordinate = (*rest, varying[device])
        groups.setdefault((rest, copies[coordinate]), []).append(device)
        copies[coordinate] += 1
    return written(tuple(sorted(tuple(group) for group in groups.values())))


def split_tuple(text: str) -> list[str]:
    """Return the shardings inside the text of a tuple's sharding, `{{replicated}, {…}}`."""
    inner, depth, start = text.strip()[1:-1], 0, 0
    found: list[str] = []
    for at, character in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            found.append(inner[start:at].strip())
            start = at + 1
    return [*found, inner[start:].strip()]


def maximal_device(text: str) -> int | None:
    """Return the only device of `{maximal device=N}`; None if the text says something else."""
    found = _MAXIMAL.fullmatch(text.strip())
    return int(found[1]) if found else None


@lru_cache(_CACHE_SIZE)
def parse_sharding(text: str, num_devices: int) -> Sharding | None:
    """Return the sharding of a text; None if it leaves that open or the program divides by hand.

    If the program divides by hand along some axes, this is the division along the others.

    Raises:
        UnsupportedError: INGOT0360, a value lies on one of several devices, or not on all devices.
        ParseError: the text is not a sharding.
    """
    text = text.strip()
    if not text or text == "{manual}" or text.startswith("{unknown"):
        return None
    if text == "{replicated}":
        return replicated(num_devices)
    if maximal_device(text) is not None:
        if num_devices == 1:
            return replicated(1)
        raise _unsupported(f"a value on one of {num_devices} devices only ({text})")
    found = _TILES.fullmatch(text)
    if found is None:
        raise ParseError(f"'{text}' is no sharding")
    sharding = _tiled(found)
    if len(sharding.parts) != num_devices:
        raise _unsupported(
            f"a value on {len(sharding.parts)} of {num_devices} devices ({text})",
        )
    return sharding


@lru_cache(_CACHE_SIZE)
def manual_subgroups(text: str) -> Column:
    """Return the coordinate of each device along the axes that the program divides by hand.

    Empty if there are none, or if they are all axes.
    """
    found = _TILES.fullmatch(text.strip())
    if found is None or "manual" not in found["rest"]:
        return ()
    _, _, coordinates = _coordinates(found)
    kinds = _kinds(found["rest"])
    return interned(tuple(coordinates[:, 1 + kinds.index("manual")].tolist()))


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        what, code="INGOT0360", hint="put the values of one program on the same devices"
    )


def _tiled(found: re.Match[str]) -> Sharding:
    tiles, special, coordinates = _coordinates(found)
    kinds = _kinds(found["rest"])
    summands: Column = ()
    if "unreduced" in kinds and special[kinds.index("unreduced")] > 1:
        summands = tuple(coordinates[:, 1 + kinds.index("unreduced")].tolist())
    parts = tuple(coordinates[:, 0].tolist())
    return Sharding(tiles if math.prod(tiles) > 1 or summands else (), parts, summands)


def _coordinates(
    found: re.Match[str],
) -> tuple[tuple[int, ...], tuple[int, ...], np.ndarray[Any, Any]]:
    """Return the tiles, the sizes of the special dimensions, and the devices' coordinates.

    A device's coordinates are the number of its part, then one along each special dimension.
    """
    tiles = _numbers(found["tiles"])
    if found["list"]:
        devices = np.array(_numbers(found["list"]))
    else:
        sizes = _numbers(found["range"])
        devices = np.arange(math.prod(sizes)).reshape(sizes)
        if found["order"]:
            devices = devices.transpose(_numbers(found["order"]))
    split = len(tiles) - len(_kinds(found["rest"]))
    tiles, special = tiles[:split], tiles[split:]
    sizes = (math.prod(tiles), *special)
    coordinates = np.empty((devices.size, len(sizes)), int)
    coordinates[devices.reshape(-1)] = np.stack(np.unravel_index(np.arange(devices.size), sizes), 1)
    return tiles, special, coordinates


def _kinds(rest: str) -> list[str]:
    """Return the kinds of the last dimensions of a tile assignment, which divide nothing."""
    if "last_tile_dim_replicate" in rest:
        return ["replicated"]
    found = re.search(r"last_tile_dims=\{([^}]*)\}", rest)
    return [word.strip() for word in found[1].split(",")] if found else []


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


@record
class Partitioned:
    """How the parameters and results of the entry are divided.

    Attributes:
        inspected: for each `InspectSharding` its config, and how the value is divided.
        asks_host: whether the host partitioned an op itself, with a function of this process.
    """

    parameters: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    inspected: tuple[tuple[str, Sharding], ...] = ()
    asks_host: bool = False
