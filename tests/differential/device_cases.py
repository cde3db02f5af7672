# SPDX-License-Identifier: Apache-2.0
"""Cases of collectives, on four devices: replicas, partitions, and both."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tests.differential.case import Array, Build, Case, seed_of, small_integers

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

DEVICES = 4
DIMS = (4, 3)
TYPES = ("f32", "f64", "s32", "u8", "s64", "pred", "bf16", "f16")
NUMBERS = tuple(element for element in TYPES if element != "pred")
# Combining function: element types.
FOLDS = {"add": NUMBERS, "maximum": NUMBERS, "minimum": NUMBERS[:3], "multiply": ("f32", "s32"),
         "and": ("s32", "pred", "u8"), "or": ("s32", "pred"), "xor": ("u8",)}  # fmt: skip
Groups = tuple[tuple[int, ...], ...]
ALL: Groups = ((0, 1, 2, 3),)
PAIRS: Groups = ((0, 2), (3, 1))
# Grid: (how the groups count, groups in its numbers, devices of each group).
WAYS: dict[tuple[int, int], tuple[tuple[str, Groups, int], ...]] = {
    (4, 1): (("replicas", (), 4), ("replicas", ALL, 4), ("replicas", PAIRS, 2)),
    (1, 4): (("both", ((0,),), 4), ("global", ALL, 4), ("global", PAIRS, 2)),
    (2, 2): (("replicas", ((1, 0),), 2), ("both", ((0,), (1,)), 2), ("both", ((0, 1),), 4),
             ("global", ((0, 3), (2, 1)), 2), ("global", ((3, 2, 1, 0),), 4)),
}  # fmt: skip


def _mode(kind: str, name: str) -> dict[str, Any]:
    """Return the attributes that say what groups count."""
    if kind == "replicas":
        return {}
    channel = {"channel_id": zlib.crc32(name.encode()) % 2**30 + 1}
    return {**channel, "use_global_device_ids": True} if kind == "global" else channel


def _case(name: str, element: str, grid: tuple[int, int], build: Build) -> Case:
    rows: list[Array] = [
        small_integers(element, DIMS, seed_of(f"{name} {device}")) for device in range(DEVICES)
    ]
    return Case(name, (np.stack(rows),), build, grid=grid)


def reductions() -> Iterator[Case]:
    """All-reduces, at once and as a pair, and reduce-scatters."""
    for grid, ways in WAYS.items():
        for (kind, groups, count), (fold, types) in itertools.product(ways, FOLDS.items()):
            for element in types:
                where = f"{grid[0]}x{grid[1]} {fold} {element} {kind}{_text(groups)}"
                for opcode in ("all-reduce", "all-reduce-start", "reduce-scatter"):
                    name = f"{opcode} {where}"
                    given = _mode(kind, name)
                    given["replica_groups"] = groups
                    if opcode == "reduce-scatter":
                        given["dimensions"] = (0,)
                    build = _reduction(opcode, fold, element, count, given)
                    yield _case(name, element, grid, build)


def _reduction(opcode: str, fold: str, element: str, count: int, given: dict[str, Any]) -> Build:
    def build(b: Builder, operands: Sequence[Instruction]) -> Instruction:
        called = scalar_computation(fold, element)
        dims = (DIMS[0] // count, *DIMS[1:]) if opcode == "reduce-scatter" else DIMS
        shape = Shape.array(element, dims)
        made = b.emit(opcode, *operands, shape=shape, to_apply=called, **given)
        return b.emit("all-reduce-done", made) if opcode.endswith("start") else made

    return build


def moves() -> Iterator[Case]:
    """All-gathers, all-to-alls, broadcasts and permutes."""
    for grid, ways in WAYS.items():
        for (kind, groups, count), element in itertools.product(ways, TYPES):
            where = f"{grid[0]}x{grid[1]} {element} {kind}{_text(groups)}"
            for opcode in ("all-gather", "all-gather-start"):
                name = f"{opcode} {where}"
                given = {**_mode(kind, name), "replica_groups": groups, "dimensions": (1,)}
                yield _case(name, element, grid, _gather(opcode, element, count, given))
            if kind == "replicas" and groups:
                name = f"all-to-all {where}"
                given = {"replica_groups": groups, "dimensions": (0,)}
                yield _case(name, element, grid, _same("all-to-all", given))
        for pairs, element in itertools.product(((), ((0, 1), (1, 0))), TYPES):
            for kind in ("replicas", "partitions"):
                most = grid[0] if kind == "replicas" else grid[1]
                if most == 1:
                    continue
                name = f"collective-permute {grid[0]}x{grid[1]} {element} {kind}{_text(pairs)}"
                given: dict[str, Any] = {"source_target_pairs": pairs}
                if kind == "partitions":
                    given["channel_id"] = zlib.crc32(name.encode()) % 2**30 + 1
                yield _case(name, element, grid, _same("collective-permute", given))


def _gather(opcode: str, element: str, count: int, given: dict[str, Any]) -> Build:
    def build(b: Builder, operands: Sequence[Instruction]) -> Instruction:
        whole = Shape.array(element, (DIMS[0], DIMS[1] * count))
        if opcode == "all-gather":
            return b.emit(opcode, *operands, shape=whole, **given)
        both = Shape.tuple((operands[0].shape, whole))
        return b.emit("all-gather-done", b.emit(opcode, *operands, shape=both, **given))

    return build


def _same(opcode: str, given: dict[str, Any]) -> Build:
    return lambda b, operands: b.emit(opcode, *operands, shape=operands[0].shape, **given)


def places() -> Iterator[Case]:
    """The number of the replica and of the partition."""
    for grid, opcode in itertools.product(WAYS, ("replica-id", "partition-id")):
        yield _case(f"{opcode} {grid[0]}x{grid[1]}", "u32", grid, _place(opcode))


def _place(opcode: str) -> Build:
    def build(b: Builder, operands: Sequence[Instruction]) -> Instruction:
        return b.add(operands[0], b.broadcast_to(b.emit(opcode), DIMS, ()))

    return build


def _text(groups: Groups) -> str:
    return "".join("[" + ",".join(map(str, group)) + "]" for group in groups)


def cases() -> Iterator[Case]:
    """Every case of this file, one grid after the other."""
    found = [*reductions(), *moves(), *places()]
    yield from sorted(found, key=lambda case: case.grid)
