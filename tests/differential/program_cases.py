# SPDX-License-Identifier: Apache-2.0
"""Cases written as HLO text: asynchronous pairs, scans, unusual products, calls of XLA's targets.

A text's entry is called from the module that the cases share. `T` stands for the element type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.differential.case import EXACT, Case, Nearness, seed_of, small_integers, values
from tests.differential.shaping_cases import SUM

from ingot.formats.hlo_text import parse
from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction

TYPES = ("f32", "f64", "bf16", "f16", "s32", "s64", "u8")
FLOATS = TYPES[:4]
ADD = "add { a = T[] parameter(0) b = T[] parameter(1) ROOT s = T[] add(a, b) }\n"
MORE = "more { a = T[] parameter(0) b = T[] parameter(1) ROOT s = pred[] compare(a, b), direction=GT }\n"  # noqa: E501
ABS = "f { a = T[3,5] parameter(0) ROOT b = T[3,5] add(a, a) }\n"
STEP = "step { x = T[] parameter(0) c = T[] parameter(1) d = T[] maximum(x, c) e = T[] add(x, c) "
ONE = "x = T[3,5] parameter(0)\n"

# name: (computations, entry, dimensions of the parameters, element types)
Text = tuple[str, str, tuple[tuple[int, ...], ...], tuple[str, ...]]


def _annotation(target: str) -> Text:
    body = f'{ONE} y = T[3,5] custom-call(x), custom_call_target="{target}"\n'
    return "", f"{body} ROOT z = T[3,5] add(x, y)", ((3, 5),), TYPES


def _top(target: str, count: int) -> Text:
    body = (
        f"x = T[4,17] parameter(0)\n ROOT y = (T[4,{count}], s32[4,{count}]) custom-call(x),"
        f' custom_call_target="{target}", called_computations={{more}}'
    )
    return MORE, body, ((4, 17),), FLOATS


TEXTS: dict[str, Text] = {
    "async-start abs": (
        ABS,
        f"{ONE} s = ((T[3,5]), T[3,5], u32[]) async-start(x), calls=f\n"
        " u = ((T[3,5]), T[3,5], u32[]) async-update(s)\n ROOT y = T[3,5] async-done(u)",
        ((3, 5),), TYPES,
    ),
    "call-start short": (
        ABS,
        f"{ONE} s = ((T[3,5]), T[3,5], u32[]) call-start(x), to_apply=f\n"
        " ROOT y = T[3,5] call-done(s)",
        ((3, 5),), TYPES,
    ),
    "copy-start": (
        "",
        f"{ONE} s = (T[3,5], T[3,5], u32[]) copy-start(x)\n ROOT y = T[3,5] copy-done(s)",
        ((3, 5),), TYPES,
    ),
    "all-reduce-start alone": (
        ADD,
        f"{ONE} s = T[3,5] all-reduce-start(x), to_apply=add\n ROOT y = T[3,5] all-reduce-done(s)",
        ((3, 5),), TYPES,
    ),
    "all-gather-start alone": (
        "",
        f"{ONE} s = (T[3,5], T[3,5]) all-gather-start(x), dimensions={{0}}\n"
        " ROOT y = T[3,5] all-gather-done(s)",
        ((3, 5),), TYPES,
    ),
    "collective-permute-start alone": (
        "",
        f"{ONE} s = (T[3,5], T[3,5]) collective-permute-start(x), source_target_pairs={{{{0,0}}}}\n"
        " ROOT y = T[3,5] collective-permute-done(s)",
        ((3, 5),), TYPES,
    ),
    "scan carry": (
        STEP + "ROOT y = T[] add(d, c) }\n",
        "x = T[9] parameter(0)\n i = T[] parameter(1)\n"
        " ROOT y = T[] scan(x, i), dimensions={0}, num_carries=1, to_apply=step",
        ((9,), ()), TYPES,
    ),
    "scan outputs": (
        STEP + "ROOT t = (T[], T[]) tuple(d, e) }\n",
        "x = T[9] parameter(0)\n i = T[] parameter(1)\n"
        " ROOT y = (T[9], T[]) scan(x, i), dimensions={0}, num_carries=1, to_apply=step",
        ((9,), ()), TYPES,
    ),
    "reduce-window prefix sums": (
        ADD,
        "x = T[7,129] parameter(0)\n z = T[] constant(0)\n ROOT y = T[7,129] reduce-window(x, z),"
        " window={size=1x129 pad=0_0x128_0}, to_apply=add",
        ((7, 129),), TYPES,
    ),
    "reduce-window suffix sums": (
        ADD,
        "x = T[65,3] parameter(0)\n z = T[] constant(0)\n ROOT y = T[65,3] reduce-window(x, z),"
        " window={size=65x1 pad=0_64x0_0}, to_apply=add",
        ((65, 3),), TYPES,
    ),
    "ragged-dot rows": (
        "",
        "a = T[11,5] parameter(0)\n b = T[3,5,7] parameter(1)\n g = s32[3] constant({4, 2, 5})\n"
        " ROOT y = T[11,7] ragged-dot(a, b, g), lhs_contracting_dims={1},"
        " rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
        ((11, 5), (3, 5, 7)), FLOATS,
    ),
    "ragged-dot contracting": (
        "",
        "a = T[11,5] parameter(0)\n b = T[5,7] parameter(1)\n g = s32[3] constant({1, 0, 4})\n"
        " ROOT y = T[3,11,7] ragged-dot(a, b, g), lhs_contracting_dims={1},"
        " rhs_contracting_dims={0}, lhs_ragged_dims={1}",
        ((11, 5), (5, 7)), FLOATS,
    ),
    "scaled-dot blocks": (
        "",
        "a = T[4,64] parameter(0)\n b = T[64,8] parameter(1)\n"
        " p = T[4,2] parameter(2)\n q = T[2,8] parameter(3)\n"
        " ROOT y = T[4,8] scaled-dot(a, b, p, q), lhs_contracting_dims={1},"
        " rhs_contracting_dims={0}",
        ((4, 64), (64, 8), (4, 2), (2, 8)), ("f32", "bf16"),
    ),
    "dynamic-reshape sizes": (
        "",
        "x = T[12] parameter(0)\n r = s32[] constant(3)\n c = s32[] constant(4)\n"
        " ROOT y = T[3,4] dynamic-reshape(x, r, c)",
        ((12,),), TYPES,
    ),
    "add-dependency token": (
        "",
        f"{ONE} t = token[] after-all()\n d = T[3,5] add-dependency(x, t)\n"
        " ROOT y = T[3,5] add(d, d)",
        ((3, 5),), TYPES,
    ),
    "custom-call TopK 4": _top("TopK", 4),
    "custom-call TopK 17": _top("TopK", 17),
    **{
        f"custom-call {target}": _annotation(target)
        for target in ("Sharding", "MoveToHost", "MoveToDevice", "LayoutConstraint")
    },
}  # fmt: skip


def cases() -> Iterator[Case]:
    """Every text for each of its element types."""
    for name, (called, body, sizes, types) in TEXTS.items():
        for element in types:
            full = f"{name} {element}"
            draw = small_integers if name.startswith(("scan", "scaled")) else values
            inputs = tuple(draw(element, dims, seed_of(f"{full} {n}")) for n, dims in
                           enumerate(sizes))  # fmt: skip
            text = f"HloModule m\n{called}\nENTRY e {{\n {body}\n}}\n".replace("T[", f"{element}[")
            yield Case(full, inputs, _called(text), _nearness(name))


def _nearness(name: str) -> Nearness:
    sums = ("reduce-window", "ragged-dot", "scaled-dot", "scan")
    return SUM if name.startswith(sums) else EXACT


def _called(text: str):
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        return b.call(*given, to_apply=parse(text).entry)

    return build
