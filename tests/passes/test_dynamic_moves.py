# SPDX-License-Identifier: Apache-2.0
"""Moves of elements across the border of a dynamic dimension: the CPU gives what is meant."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse

SUM = "add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT s = s32[] add(a, b) }\n"

# Each ends in `d`, of dynamic size, whose elements are then weighted by their place and summed.
MOVES = {
    "divided": (
        "x = s32[12] iota(), iota_dimension=0 n = s32[] constant(8)\n"
        "p = s32[<=12] set-dimension-size(x, n), dimensions={0}\n"
        "d = s32[2,<=3,2] reshape(p), inferred_dimension=1",
        "s32[2,3,2]",
        np.arange(8).reshape(2, 2, 2),
    ),
    "joined": (
        "x = s32[3,4] iota(), iota_dimension=1 n = s32[] constant(2)\n"
        "p = s32[3,<=4] set-dimension-size(x, n), dimensions={1}\n"
        "d = s32[<=12] reshape(p)",
        "s32[12]",
        np.tile(np.arange(2), 3),
    ),
    "reversed": (
        "x = s32[3,4] iota(), iota_dimension=1 n = s32[] constant(3) m = s32[] constant(2)\n"
        "q = s32[3,<=4] set-dimension-size(x, n), dimensions={1}\n"
        "p = s32[<=3,<=4] set-dimension-size(q, m), dimensions={0}\n"
        "d = s32[<=3,<=4] reverse(p), dimensions={0,1}",
        "s32[3,4]",
        np.tile(np.arange(3)[::-1], (2, 1)),
    ),
    "concatenated": (
        "x = s32[4] iota(), iota_dimension=0 k = s32[3] constant({7, 8, 9})\n"
        "n = s32[] constant(2) p = s32[<=4] set-dimension-size(x, n), dimensions={0}\n"
        "d = s32[<=7] concatenate(p, k), dimensions={0}",
        "s32[7]",
        np.array([0, 1, 7, 8, 9]),
    ),
    "of two sizes": (
        "x = s32[6] iota(), iota_dimension=0 n = s32[] constant(4) two = s32[] constant(2)\n"
        "p = s32[<=6] set-dimension-size(x, n), dimensions={0}\n"
        "d = s32[2,<=3] dynamic-reshape(p, two, two)",
        "s32[2,3]",
        np.arange(4).reshape(2, 2),
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_elements_come_from_where_the_sizes_say(name: str) -> None:
    body, plain, moved = MOVES[name]
    rank = moved.ndim
    weights = "\n".join(
        f"i{n} = {plain} iota(), iota_dimension={n} "
        f"c{n} = s32[] constant({10**n}) b{n} = {plain} broadcast(c{n})\n"
        f"t{n} = {plain} multiply(i{n}, b{n}) w{n} = {plain} add(w{n - 1}, t{n})"
        for n in range(rank)
    ).replace("w-1", "one")
    shape = body.rpartition("d = ")[2].split(" ")[0]
    sizes = "".join(
        f"g{n} = s32[] get-dimension-size(d), dimensions={{{n}}}\n" for n in range(rank)
    )
    dynamic = [n for n, part in enumerate(shape[4:-1].split(",")) if part.startswith("<=")]
    text = f"v0 = {plain} convert(w{rank - 1})\n"
    for count, n in enumerate(dynamic):
        bounds = [
            f"<={size}" if place in dynamic[: count + 1] else size
            for place, size in enumerate(plain[4:-1].split(","))
        ]
        text += (
            f"v{count + 1} = s32[{','.join(bounds)}] "
            f"set-dimension-size(v{count}, g{n}), dimensions={{{n}}}\n"
        )
    module = parse(
        f"HloModule m\n{SUM}ENTRY e {{ o = s32[] constant(1) one = {plain} broadcast(o)\n"
        f"{body}\n{weights}\n{sizes}{text}"
        f"y = {shape} multiply(d, v{len(dynamic)}) z = s32[] constant(0)\n"
        f"ROOT r = s32[] reduce(y, z), dimensions={{{','.join(map(str, range(rank)))}}}, "
        "to_apply=add }"
    )
    places = np.indices(moved.shape)
    weight = 1 + sum(10**n * places[n] for n in range(rank))
    want = int((moved * weight).sum())
    assert int(np.asarray(evaluate(module, []))) == want
    assert int(np.asarray(ingot.compile(module)())) == want


def test_a_called_computation_may_take_a_dynamic_size() -> None:
    module = parse(
        f"HloModule m\n{SUM}total {{ p = s32[<=5] parameter(0) z = s32[] constant(0)\n"
        "ROOT r = s32[] reduce(p, z), dimensions={0}, to_apply=add }\n"
        "ENTRY e { x = s32[5] parameter(0) n = s32[] constant(3)\n"
        "d = s32[<=5] set-dimension-size(x, n), dimensions={0}\n"
        "ROOT r = s32[] call(d), to_apply=total }"
    )
    assert int(np.asarray(ingot.compile(module)(np.int32([1, 2, 4, 8, 16])))) == 7


def test_one_element_repeats_beside_more() -> None:
    module = parse(
        f"HloModule m\n{SUM}ENTRY e {{ x = s32[4] parameter(0) n = s32[] parameter(1)\n"
        "m = s32[] parameter(2) a = s32[<=4] set-dimension-size(x, n), dimensions={0}\n"
        "b = s32[<=4] set-dimension-size(x, m), dimensions={0} c = s32[<=4] add(a, b)\n"
        "z = s32[] constant(0) ROOT r = s32[] reduce(c, z), dimensions={0}, to_apply=add }"
    )
    program, values = ingot.compile(module), np.int32([10, 2, 3, 4])
    for n, m, want in ((1, 3, 45), (3, 1, 45), (2, 2, 24), (4, 4, 38)):
        given = (values, np.int32(n), np.int32(m))
        assert int(np.asarray(evaluate(module, given))) == want
        assert int(np.asarray(program(*given))) == want
