# SPDX-License-Identifier: Apache-2.0
"""Measures one function on one element type, in pieces that can be stopped between and resumed.

f32 functions of one operand: slabs of all 2^32 numbers, in an order in which every part of the run
is spread over all of them. 16-bit types: all numbers. Others: blocks of samples, then neighbours of
what was worst, several times. XLA's figure is measured on a part of the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from tests.accuracy import dense, samples
from tests.accuracy.dense import DenseF32, Worst
from tests.accuracy.distance import float_format, ulps
from tests.accuracy.engines import NUMPY, XLA, apply, engine
from tests.accuracy.functions import Array, Function, find

SLAB_STEP = 40503
"""Odd: its multiples modulo the number of slabs are all slabs, evenly spread from the first on."""
PIECE = 512
"""Slabs of one piece of work: one for each sign and exponent."""
XLA_PIECES, XLA_BLOCKS = 2, 2
"""Pieces of f32, blocks of others, on which XLA is measured."""
APPLIED = 1 << 15
"""Operands of one call."""
BLOCKS = 8
SEARCHES = 12
_KEPT, _AROUND = 128, 32
"""So many of the worst are kept, with so many neighbours of each."""

Job = tuple[str, str, int, tuple[str, ...]]
"""A function's name, an element type, a piece's number or `XLA_JOB`, the levels to measure."""
XLA_JOB = -1


@dataclass
class Record:
    """What is known of one function on one element type.

    `inputs` and `done` count for each level, since machines have different ones.
    """

    name: str
    element: str
    inputs: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    worst: dict[str, Worst] = field(default_factory=dict)
    xla: Worst | None = None
    xla_inputs: int = 0

    def add(self, inputs: int, found: dict[str, Worst]) -> None:
        """Take in one more piece."""
        for name, worst in found.items():
            self.done[name] = self.done.get(name, 0) + 1
            self.inputs[name] = self.inputs.get(name, 0) + inputs
            known = self.worst.setdefault(name, Worst())
            if worst.ulp > known.ulp:
                known.ulp, known.at = worst.ulp, worst.at


def is_dense(function: Function, element: str) -> bool:
    """Whether all numbers of f32 are tried."""
    return element == "f32" and function.arity == 1


def pieces(function: Function, element: str) -> int:
    """Return how many pieces of work there are."""
    if is_dense(function, element):
        return dense.SLABS // PIECE
    if element in ("f16", "bf16") and function.arity == 1:
        return 1
    return BLOCKS + 1


def piece(
    name: str, element: str, number: int, levels: tuple[str, ...]
) -> tuple[int, dict[str, Worst]]:
    """Measure one piece at these levels; return the number of inputs and what was worst."""
    function = find(name, element)
    if is_dense(function, element):
        return _slabs(_dense(function, levels), number)
    if element in ("f16", "bf16") and function.arity == 1:
        return sampled(function, element, [samples.all_16_bits(element)], levels)
    if number < BLOCKS:
        return sampled(function, element, samples.block(function, element, number), levels)
    return _searched(function, element, levels)


def _slabs(measured: DenseF32, number: int) -> tuple[int, dict[str, Worst]]:
    for at in range(number * PIECE, (number + 1) * PIECE):
        measured.slab(at * SLAB_STEP % dense.SLABS)
    return PIECE * dense.SLAB, measured.worst


@cache
def _dense(function: Function, engines: tuple[str, ...]) -> DenseF32:
    compiled = {name: engine(name, function, "f32", dense.BLOCK) for name in engines}
    return DenseF32(function, compiled, flushing=(XLA,))


def sampled(
    function: Function, element: str, args: list[Array], engines: tuple[str, ...]
) -> tuple[int, dict[str, Worst]]:
    """Measure engines on these operands."""
    wanted = function.exact_values(*args)
    found: dict[str, Worst] = {}
    for name in engines:
        worst = found[name] = Worst()
        worst.take(distances(name, function, element, args, wanted), *args)
    return args[0].size, found


def distances(
    name: str, function: Function, element: str, args: list[Array], wanted: Array
) -> Array:
    """Return an engine's distances; denormals do not count for XLA, which takes them for zero."""
    result = apply(name, function, element, *args, block=APPLIED)
    distance = ulps(result, wanted)
    if name != XLA:
        return distance
    kind = np.zeros(1, NUMPY[element]).real.dtype
    least = np.ldexp(np.longdouble(1), float_format(kind).least)
    flushed = np.zeros(distance.size, np.bool_)
    for part in (part for item in (*args, wanted) for part in (item.real, item.imag)):
        size = np.abs(part.astype(np.longdouble))
        flushed |= (size < least) & (size > 0)
    return np.where(flushed, 0, distance)


def _searched(
    function: Function, element: str, engines: tuple[str, ...]
) -> tuple[int, dict[str, Worst]]:
    """Climb from the worst of the first blocks to worse neighbours."""
    rng = np.random.default_rng(7)
    found: dict[str, Worst] = {}
    count = 0
    for name in engines:
        worst = found[name] = Worst()
        args = [item[::8] for item in samples.block(function, element, 0)]
        for _ in range(SEARCHES):
            wanted = function.exact_values(*args)
            distance = distances(name, function, element, args, wanted)
            worst.take(distance, *args)
            count += distance.size
            top = np.argsort(distance)[-_KEPT:]
            args = [np.repeat(item[top], _AROUND) for item in args]
            around = _parts(rng, args)
            args = [np.concatenate(pair) for pair in zip(args, around, strict=True)]
    return count, found


def _parts(rng: np.random.Generator, args: list[Array]) -> list[Array]:
    if args[0].dtype.kind != "c":
        return samples.near(rng, *args)
    real = np.dtype(np.float32 if args[0].dtype == np.complex64 else np.float64)
    return [samples.near(rng, item.view(real))[0].view(item.dtype) for item in args]


def xla(name: str, element: str) -> tuple[int, Worst]:
    """Measure XLA: a part of f32, the samples of other types."""
    function = find(name, element)
    if is_dense(function, element):
        measured = _dense(function, (XLA,))
        count = sum(_slabs(measured, number)[0] for number in range(XLA_PIECES))
        return count, measured.worst[XLA]
    if element in ("f16", "bf16") and function.arity == 1:
        parts = [sampled(function, element, [samples.all_16_bits(element)], (XLA,))]
    else:
        blocks = (samples.block(function, element, number) for number in range(XLA_BLOCKS))
        parts = [sampled(function, element, args, (XLA,)) for args in blocks]
        parts.append(_searched(function, element, (XLA,)))
    worst = max((found[XLA] for _, found in parts), key=lambda item: item.ulp)
    return sum(count for count, _ in parts), worst


def work(job: Job) -> tuple[Job, int, dict[str, Worst]]:
    """Do one piece of work, in a worker."""
    name, element, number, levels = job
    with np.errstate(all="ignore"):
        if number == XLA_JOB:
            inputs, worst = xla(name, element)
            return job, inputs, {XLA: worst}
        return job, *piece(name, element, number, levels)
