# SPDX-License-Identifier: Apache-2.0
"""Programs that take from the host and give to it while they run: infeed and outfeed, in order.

Each step takes some arrays, computes with them, and gives some back, in a straight line or in a
loop. What comes out, and in which order, is what the evaluator says.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import numpy as np
from tests.fuzz.program_case import ProgramCase, flat, read_case
from tests.fuzz.target import Target

from ingot.evaluator import evaluate
from ingot.evaluator.devices import Device, on_device
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.instruction import Instruction
from ingot.runtime.foreign.feeds import transfer_from_outfeed, transfer_to_infeed

_TYPES = ("f32", "s32", "f64", "u8", "pred", "bf16", "c64")
_SHAPES = ("", "1", "3", "2,5", "0", "64")


def generate(choose: random.Random) -> bytes:
    """Return a program; its inputs are a number, and how often its loop turns."""
    lines, token, results = list[str](), "start", list[str]()
    for number in range(choose.randint(1, 4)):
        token = _step(choose, number, lines, token, results)
    shapes = ", ".join(["f32[]", *(line.split("=")[1].split(" ")[1] for line in results)])
    names = ", ".join(["x", *(line.split(" =")[0] for line in results)])
    body = "\n  ".join(lines)
    text = (
        "HloModule fed\nENTRY main {\n  x = f32[] parameter(0)\n  start = token[] after-all()\n"
        f"  {body}\n  ROOT r = ({shapes}) tuple({names})\n}}"
    )
    return ProgramCase(parse_hlo(text), [np.float32(choose.randint(-4, 4))]).to_bytes()


def _step(
    choose: random.Random, number: int, lines: list[str], token: str, results: list[str]
) -> str:
    """Add what takes and gives once; return the token after it."""
    count = choose.randint(1, 3)
    shapes = [f"{choose.choice(_TYPES)}[{choose.choice(_SHAPES)}]" for _ in range(count)]
    whole = f"({', '.join(shapes)})" if count > 1 or choose.random() < 0.5 else shapes[0]
    lines += [
        f"in{number} = ({whole}, token[]) infeed({token})",
        f"value{number} = {whole} get-tuple-element(in{number}), index=0",
        f"taken{number} = token[] get-tuple-element(in{number}), index=1",
    ]
    names = [f"value{number}"]
    if whole.startswith("("):
        names = [f"e{number}x{n}" for n in range(count)]
        lines += [
            f"{name} = {shape} get-tuple-element(value{number}), index={n}"
            for n, (name, shape) in enumerate(zip(names, shapes, strict=True))
        ]
    for name, shape in zip(names, shapes, strict=True):
        results.append(f"{name}c = {shape} copy({name})")
        lines.append(results[-1])
    if choose.random() < 0.3:
        return f"taken{number}"
    given, kind = choose.choice([*zip(names, shapes, strict=True)])
    lines.append(f"out{number} = token[] outfeed({given}, taken{number}), outfeed_shape={kind}")
    return f"out{number}"


def check(data: bytes) -> str:
    """Feed native code and the evaluator the same arrays."""
    case = read_case(data)
    order = case.module.entry.post_order()
    draw = np.random.default_rng(len(data))
    infeeds = [item for item in order if item.opcode == "infeed"]
    feeds = [_arrays(item, draw) for item in infeeds]
    with on_device(Device(infeed=deque(map(_value, infeeds, feeds)))) as device:
        want = flat(evaluate(case.module, case.inputs))
        wanted_out = [flat(item) for item in device.outfeed]
    executable = case.compiled()
    for item in feeds:
        transfer_to_infeed(item)
    got = flat(executable(*case.inputs))
    out = [flat(transfer_from_outfeed()) for _ in wanted_out]
    text = case.difference("cpu", got, want)
    for mine, other in zip(out, wanted_out, strict=True):
        text = text or case.difference("outfeed", mine, other)
    return text


def _arrays(infeed: Instruction, draw: np.random.Generator) -> list[Any]:
    """Return what an infeed takes."""
    leaves = [leaf for _, leaf in infeed.shape.elements[0].leaves()]
    return [draw.integers(0, 2, leaf.static_dims).astype(leaf.dtype.numpy) for leaf in leaves]


def _value(infeed: Instruction, arrays: list[Any]) -> Any:
    """Return arrays as the evaluator takes them: an array or a tuple."""
    return tuple(arrays) if infeed.shape.elements[0].is_tuple else arrays[0]


TARGET = Target("host_feeds", ".hlo", generate, check, share=0.5)
