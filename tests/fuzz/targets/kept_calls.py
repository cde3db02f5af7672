# SPDX-License-Identifier: Apache-2.0
"""Programs over the unfolding limit: calls that stay calls, with infeed and outfeed inside.

Each computation of a chain runs the one before twice or three times: by calls, fusions, branches
or loops. The first one works, and takes from the host and gives to it where the state has a token.
The limit of a case (its first line) is low, so that few calls are over it.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.fuzz.program_case import ProgramCase, flat, read_case
from tests.fuzz.target import Target

from ingot.evaluator import evaluate
from ingot.evaluator.devices import Device, on_device
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.module import Module
from ingot.passes import unfolding
from ingot.runtime.foreign.feeds import transfer_from_outfeed, transfer_to_infeed

LIMIT = "// LIMIT: "
_MOST_FEEDS = 600
_SHAPES = (("u32[4]", (4,)), ("s32[3,5]", (3, 5)), ("u64[17]", (17,)), ("s16[2,8]", (2, 8)))
_KINDS = ("multiply", "xor", "add", "subtract", "and", "or")
_NUMPY = {"u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s16": np.int16}


def generate(choose: random.Random) -> bytes:
    """Return a chain of computations, with a limit that it is over."""
    array, dims = choose.choice(_SHAPES)
    feeds = choose.random() < 0.6
    writer = _Chain(choose, array, f"({array}, token[])" if feeds else array, feeds=feeds)
    depth = choose.randint(3, 5)
    text = ["HloModule kept", writer.first(), *(writer.following(n) for n in range(1, depth + 1))]
    text += [writer.entry(depth)]
    draw = np.random.default_rng(choose.getrandbits(48))
    inputs = [draw.integers(0, 1000, dims).astype(_NUMPY[array.split("[", maxsplit=1)[0]])]
    data = ProgramCase(parse_hlo("\n".join(text)), inputs).to_bytes()
    return f"{LIMIT}{choose.choice((100, 200, 400, 800))}\n".encode() + data


class _Chain:
    """Writes computations of one state: an array, or an array and a token.

    Attributes:
        array: the array's type.
        state: the state's type.
        feeds: whether it has a token.
    """

    def __init__(self, choose: random.Random, array: str, state: str, *, feeds: bool) -> None:
        self._choose = choose
        self.array, self.state, self.feeds = array, state, feeds

    def first(self) -> str:
        """Return the computation that works, which none is too small to be called."""
        lines, last = self._opened(), "v"
        for n in range(self._choose.randint(12, 40)):
            kind = self._choose.choice(_KINDS)
            lines.append(f"s{n} = {self.array} {kind}({last}, {'q' if n % 2 else 'v'})")
            last = f"s{n}"
        token = "t"
        if self.feeds:
            lines += [
                f"in = ({self.array}, token[]) infeed(t)",
                f"taken = {self.array} get-tuple-element(in), index=0",
                "after = token[] get-tuple-element(in), index=1",
                f"mixed = {self.array} xor({last}, taken)",
            ]
            last, token = "mixed", "after"
            if self._choose.random() < 0.7:
                lines.append(f"out = token[] outfeed(mixed, after), outfeed_shape={self.array}")
                token = "out"
        lines.append(f"w = {self.array} subtract({last}, v)")
        return self._computation("c0", [*lines, self._result("w", token)])

    def following(self, number: int) -> str:
        """Return a computation that runs the one before a few times, with what its ops need."""
        lines, state, called = self._opened(), "p", f"c{number - 1}"
        ways = [self._call, self._branches, self._loop]
        if not self.feeds:  # A fusion has no token.
            ways.append(self._fusion)
        before: list[str] = []
        for n in range(self._choose.choice((2, 2, 3))):
            state = self._choose.choice(ways)(lines, before, f"{number}_{n}", state, called)
        made = lines if not self.feeds else [
            *lines,
            f"e = {self.array} get-tuple-element({state}), index=0",
            f"u = token[] get-tuple-element({state}), index=1",
        ]  # fmt: skip
        last, token = ("e", "u") if self.feeds else (state, "")
        kind = self._choose.choice(_KINDS)
        made = [*made, f"w = {self.array} {kind}({last}, v)"]
        return "\n".join(
            [*before, self._computation(f"c{number}", [*made, self._result("w", token)])]
        )

    def entry(self, depth: int) -> str:
        """Return the entry: it calls the last one, and gives the array."""
        lines = [f"x = {self.array} parameter(0)"]
        if not self.feeds:
            lines.append(f"ROOT r = {self.array} call(x), to_apply=c{depth}")
        else:
            lines += [
                "start = token[] after-all()",
                f"s = {self.state} tuple(x, start)",
                f"c = {self.state} call(s), to_apply=c{depth}",
                f"ROOT r = {self.array} get-tuple-element(c), index=0",
            ]
        return "ENTRY e {\n  " + "\n  ".join(lines) + "\n}"

    # ---- ways to run a computation

    def _call(self, lines: list[str], before: list[str], name: str, state: str, called: str) -> str:
        lines.append(f"a{name} = {self.state} call({state}), to_apply={called}")
        return f"a{name}"

    def _fusion(
        self, lines: list[str], before: list[str], name: str, state: str, called: str
    ) -> str:
        lines.append(f"f{name} = {self.state} fusion({state}), kind=kLoop, calls={called}")
        return f"f{name}"

    def _branches(
        self, lines: list[str], before: list[str], name: str, state: str, called: str
    ) -> str:
        index = self._choose.randint(-1, 2)
        keep = f"same{name} {{\n  ROOT p = {self.state} parameter(0)\n}}"
        others = [called, self._choose.choice((called, f"same{name}"))]
        self._choose.shuffle(others)
        before.extend([keep] if f"same{name}" in others else [])
        element = self.array.split("[", maxsplit=1)[0]
        dims = ",".join(map(str, range(self.array.count(",") + 1)))
        lines += [
            f"zero{name} = {element}[] constant(0)",
            f"fold{name} = {element}[] reduce(v, zero{name}), "
            f"dimensions={{{dims}}}, to_apply=either",
            f"wide{name} = s32[] convert(fold{name})",
            f"by{name} = s32[] constant({index + 2})",
            f"low{name} = s32[] remainder(wide{name}, by{name})",
            f"b{name} = {self.state} conditional(low{name}, {state}, {state}), "
            f"branch_computations={{{', '.join(others)}}}",
        ]
        return f"b{name}"

    def _loop(self, lines: list[str], before: list[str], name: str, state: str, called: str) -> str:
        whole, turns = f"(s32[], {self.state})", self._choose.randint(0, 2)
        begin = f"  s = {whole} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        before += [
            f"more{name} {{\n{begin}  n = s32[] constant({turns})\n"
            "  ROOT r = pred[] compare(i, n), direction=LT\n}",
            f"body{name} {{\n{begin}  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
            f"  v = {self.state} get-tuple-element(s), index=1\n"
            f"  a = {self.state} call(v), to_apply={called}\n  ROOT r = {whole} tuple(j, a)\n}}",
        ]
        lines += [
            f"none{name} = s32[] constant(0)",
            f"in{name} = {whole} tuple(none{name}, {state})",
            f"l{name} = {whole} while(in{name}), condition=more{name}, body=body{name}",
            f"d{name} = {self.state} get-tuple-element(l{name}), index=1",
        ]
        return f"d{name}"

    # ---- pieces

    def _opened(self) -> list[str]:
        element = self.array.split("[", maxsplit=1)[0]
        lines = [f"p = {self.state} parameter(0)"]
        if self.feeds:
            lines += [
                f"v = {self.array} get-tuple-element(p), index=0",
                "t = token[] get-tuple-element(p), index=1",
            ]
        else:
            lines.append(f"v = {self.array} copy(p)")
        number = self._choose.randint(1, 99)
        return [*lines, f"k = {element}[] constant({number})",
                f"q = {self.array} broadcast(k), dimensions={{}}"]  # fmt: skip

    def _result(self, value: str, token: str) -> str:
        if self.feeds:
            return f"ROOT r = {self.state} tuple({value}, {token})"
        return f"ROOT r = {self.state} copy({value})"

    def _computation(self, name: str, lines: list[str]) -> str:
        element = self.array.split("[", maxsplit=1)[0]
        either = (
            f"either {{\n  a = {element}[] parameter(0)\n  b = {element}[] parameter(1)\n"
            f"  ROOT r = {element}[] xor(a, b)\n}}\n"
        )
        return (either if name == "c0" else "") + f"{name} {{\n  " + "\n  ".join(lines) + "\n}"


def check(data: bytes) -> str:
    """Feed native code and the evaluator the same arrays."""
    first, _, rest = data.partition(b"\n")
    case = read_case(rest)
    feeds = _feeds(case.module)
    with on_device(Device(infeed=deque(feeds))) as device:
        want = case.wanted() if not feeds else flat(evaluate(case.module, case.inputs))
        taken = len(feeds) - len(device.infeed)
        given = [flat(item) for item in device.outfeed]
    with patch.object(unfolding, "MAX_UNFOLDED", int(first.removeprefix(LIMIT.encode()))):
        executable = case.compiled()
    for item in feeds[:taken]:
        transfer_to_infeed([item])
    got = flat(executable(*case.inputs))
    found = [flat(transfer_from_outfeed()) for _ in given]
    text = case.difference("cpu", got, want)
    for mine, other in zip(found, given, strict=True):
        text = text or case.difference("outfeed", mine, other)
    return text


def _feeds(module: Module) -> list[Any]:
    """Return more arrays than the program takes, if it takes any."""
    found = [
        i for c in module.computations.values() for i in c.instructions if i.opcode == "infeed"
    ]
    if not found:
        return []
    leaf, draw = found[0].shape.elements[0], np.random.default_rng(module.instruction_count)
    return [
        draw.integers(0, 1000, leaf.static_dims).astype(leaf.dtype.numpy)
        for _ in range(_MOST_FEEDS)
    ]


TARGET = Target("kept_calls", ".hlo", generate, check, share=0.5)
