# SPDX-License-Identifier: Apache-2.0
"""Pieces of programs over arrays of symbolic sizes, one for each kind of kernel that has sizes.

A part is built once, over `n` and `m`, and is run at any sizes: rows of nothing, one row, more than
a chunk. Numbers are small whole ones where sums have to be exact.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tests.differential.case import Array, small_integers
from tests.fuzz.program_case import EXACT

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dim import Dim
from ingot.hlo.dim import evaluate as size_at
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension

N, M = Dim.symbol("n"), Dim.symbol("m")
Sizes = Sequence[int | Dim]
LARGEST = 1 << 17
"""Elements of a parameter."""

_REAL = ("f32", "f32", "f64", "bf16", "s32", "u8", "s64")


class TooLargeError(Exception):
    """A parameter would be too large for a case, which is a text."""


@dataclass(slots=True)
class SymbolicProgram:
    """A program that is being built.

    Attributes:
        choose: where chance comes from.
        sizes: what `n` and `m` are when it runs.
        builder: its entry.
        inputs: one array for each parameter so far.
        results: what it gives, with how that is compared.
    """

    choose: random.Random
    sizes: dict[str, int]
    builder: Builder
    inputs: list[Array]
    results: list[tuple[Instruction, str]]

    def parameter(self, element: str, dims: Sizes) -> Instruction:
        """Return a new parameter of small whole numbers."""
        draw = np.random.default_rng(self.choose.getrandbits(48))
        known = [size_at(size, self.sizes) for size in dims]
        if math.prod(known) > LARGEST:
            raise TooLargeError
        self.inputs.append(small_integers(element, known, draw))
        return self.builder.parameter(len(self.inputs) - 1, Shape.array(element, tuple(dims)))

    def indices(self, dims: Sizes, most: int) -> Instruction:
        """Return a new parameter of s32 from -2 to a little over `most`."""
        draw = np.random.default_rng(self.choose.getrandbits(48))
        known = [size_at(size, self.sizes) for size in dims]
        self.inputs.append(draw.integers(-2, most + 3, known).astype(np.int32))
        return self.builder.parameter(len(self.inputs) - 1, Shape.array(S32, tuple(dims)))

    def array(self, element: str, least: int = 1) -> Instruction:
        """Return a new parameter with one or two symbolic dimensions and others that are known."""
        count = self.choose.randint(least, 3)
        dims: list[int | Dim] = [self.choose.choice((1, 3, 8, 17, M)) for _ in range(count)]
        dims[self.choose.randrange(count)] = N
        return self.parameter(element, dims)


Maker = Callable[[SymbolicProgram], tuple[Instruction, str]]


def _dims_of(program: SymbolicProgram, value: Instruction) -> tuple[int, ...]:
    rank = value.shape.rank
    return tuple(sorted(program.choose.sample(range(rank), program.choose.randint(1, rank))))


def _fold(program: SymbolicProgram) -> tuple[Instruction, str]:
    element = program.choose.choice((*_REAL, "c64"))
    operand = program.array(element)
    names = ("add",) if element == "c64" else ("add", "maximum", "minimum")
    name = program.choose.choice(names)
    start = program.builder.constant(np.asarray(0).astype(operand.shape.dtype.numpy))
    made = program.builder.reduce(
        operand, start, dimensions=_dims_of(program, operand),
        to_apply=scalar_computation(name, operand.shape.dtype),
    )  # fmt: skip
    return made, "ulps 4 of largest" if element == "bf16" else EXACT


def _product(program: SymbolicProgram) -> tuple[Instruction, str]:
    element = program.choose.choice(("f32", "f32", "f64", "bf16", "s32", "s8", "c64"))
    sizes: tuple[int | Dim, ...] = (N, N, M, 1, 2, 5, 16, 33, 64)
    m, n, k = (program.choose.choice(sizes) for _ in range(3))
    batch = [program.choose.choice((N, 3))] if program.choose.random() < 0.3 else []
    flipped = program.choose.random() < 0.5
    lhs = program.parameter(element, [*batch, m, k])
    rhs = program.parameter(element, [*batch, *((n, k) if flipped else (k, n))])
    count = len(batch)
    shared = tuple(range(count))
    made = program.builder.dot(
        lhs, rhs, lhs_batch_dims=shared, rhs_batch_dims=shared,
        lhs_contracting_dims=(count + 1,), rhs_contracting_dims=(count + flipped,),
    )  # fmt: skip
    if program.choose.random() < 0.4:
        made = program.builder.add(made, program.builder.full(1, made.shape))
    # Sums of narrow types are rounded or wrap around at other places.
    return made, "ulps 1 of largest" if element == "bf16" else EXACT


def _sort(program: SymbolicProgram) -> tuple[Instruction, str]:
    element = program.choose.choice(_REAL)
    keys = program.array(element)
    operands = [keys]
    if program.choose.random() < 0.5:
        dim = program.choose.randrange(keys.shape.rank)
        numbers = Shape.array(S32, keys.shape.dims)
        operands.append(program.builder.iota(shape=numbers, iota_dimension=dim))
    inner = Builder("order")
    pairs = [
        inner.parameter(2 * n + side, Shape.array(operand.shape.dtype, ()))
        for n, operand in enumerate(operands)
        for side in (0, 1)
    ]
    direction = program.choose.choice(("LT", "GT"))
    called = inner.build(inner.compare(*pairs[:2], direction=direction))
    dim = program.choose.randrange(keys.shape.rank)
    made = program.builder.sort(*operands, dimensions=(dim,), is_stable=True, to_apply=called)
    last = len(operands) - 1
    return (program.builder.get_tuple_element(made, index=last) if last else made), EXACT


def _selection(program: SymbolicProgram) -> tuple[Instruction, str]:
    k = program.choose.choice((1, 3, 8))
    # As many elements as are asked for, whatever `m` is.
    length = program.choose.choice((M + k, 9, 40))
    rows = program.choose.choice((N, M, 3))
    operand = program.parameter(program.choose.choice(("f32", "s32")), (rows, length))
    made = program.builder.topk(operand, k=k, largest=program.choose.random() < 0.7)
    part = program.choose.randrange(2)
    return program.builder.get_tuple_element(made, index=part), EXACT


def _transform(program: SymbolicProgram) -> tuple[Instruction, str]:
    lengths = program.choose.choice(
        ((8,), (30,), (97,), (512,), (4096,), (1 << 15,), (6, 8), (4, 5, 6))
    )
    kind = program.choose.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    source, target = {"RFFT": ("f32", "c64"), "IRFFT": ("c64", "f32")}.get(kind, ("c64", "c64"))
    operand = program.parameter(source, (N, *(half if kind == "IRFFT" else lengths)))
    if kind == "IRFFT":
        # What half a spectrum of real numbers holds, so that all of it counts in one way only.
        signal = np.zeros((program.sizes["n"], *lengths))
        axes = tuple(range(1, 1 + len(lengths)))
        draw = np.random.default_rng(program.choose.getrandbits(32))
        signal = np.fft.rfftn(draw.normal(size=signal.shape), axes=axes)
        program.inputs[-1] = signal.astype(np.complex64)
    result = half if kind == "RFFT" else lengths
    shape = Shape.array(target, (N, *result))
    made = program.builder.fft(operand, shape=shape, fft_type=kind, fft_length=lengths)
    return made, "ulps 512 of largest"


def _rows(program: SymbolicProgram) -> tuple[Instruction, str]:
    """Return rows taken or summed by index."""
    element, width = program.choose.choice(_REAL), program.choose.choice((1, 3, 16, M))
    rows = program.choose.choice((N + 1, 5))
    table = program.parameter(element, (rows, width))
    indices = program.indices((program.choose.choice((N, M, 7)), 1), size_at(rows, program.sizes))
    if program.choose.random() < 0.5:
        made = program.builder.gather(
            table, indices, offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,),
            index_vector_dim=1, slice_sizes=(1, width),
        )  # fmt: skip
        return made, EXACT
    updates = program.parameter(element, (indices.shape.dims[0], width))
    made = program.builder.scatter(
        table, indices, updates, update_window_dims=(1,), inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,), index_vector_dim=1,
        to_apply=scalar_computation("add", table.shape.dtype),
    )  # fmt: skip
    return made, "close 0.1" if element == "bf16" else EXACT


def _moved(program: SymbolicProgram) -> tuple[Instruction, str]:
    value = program.array(program.choose.choice((*_REAL, "pred", "c64")))
    builder, choose = program.builder, program.choose
    for _ in range(choose.randint(1, 4)):
        rank = value.shape.rank
        match choose.randrange(6):
            case 0:
                value = builder.reverse(value, dimensions=_dims_of(program, value))
            case 1:
                value = builder.transpose(value, dimensions=tuple(choose.sample(range(rank), rank)))
            case 2:
                value = builder.concatenate(value, value, dimensions=(choose.randrange(rank),))
            case 3:
                zero = builder.constant(np.zeros((), value.shape.dtype.numpy))
                pairs = [(choose.randint(0, 2), choose.randint(0, 2)) for _ in range(rank)]
                padding = tuple((*pair, choose.choice((0, 0, 1))) for pair in pairs)
                value = builder.pad(value, zero, padding=padding)
            case 4:
                value = builder.reshape_to(value, (value.shape.size,))
            case _:
                bounds = tuple((0, size, choose.randint(1, 3)) for size in value.shape.dims)
                value = builder.slice(value, slice=bounds)
    return value, EXACT


def _normalized(program: SymbolicProgram) -> tuple[Instruction, str]:
    """Return rows divided by their sums of exponentials: passes over rows that are kept."""
    builder = program.builder
    rows = program.choose.choice((N, 3, M))
    operand = program.parameter("f32", (rows, program.choose.choice((N, M, 5))))
    powers = builder.exponential(operand)
    zero = builder.constant(np.float32(0))
    total = builder.reduce(powers, zero, dimensions=(1,), to_apply=scalar_computation("add", "f32"))
    return builder.divide(powers, builder.broadcast_to(total, operand.shape.dims, (0,))), "ulps 64"


def _scan(program: SymbolicProgram) -> tuple[Instruction, str]:
    """Return a loop of as many steps as data says, over an array of symbolic size."""
    builder, operand = program.builder, program.array("s32")
    state = Shape.tuple((Shape.array(S32, ()), operand.shape))
    condition, body = Builder("condition"), Builder("body")
    count = program.choose.randint(0, 4)
    given = condition.parameter(0, state)
    number = condition.get_tuple_element(given, index=0)
    test = condition.build(
        condition.compare(number, condition.constant(np.int32(count)), direction="LT")
    )
    given = body.parameter(0, state)
    number, value = (body.get_tuple_element(given, index=n) for n in (0, 1))
    following = body.add(number, body.constant(np.int32(1)))
    dims = _dims_of(program, operand)
    value = body.add(value, body.reverse(value, dimensions=dims))
    step = body.build(body.tuple(following, value))
    start = builder.tuple(builder.constant(np.int32(0)), operand)
    made = builder.emit("while", start, condition=test, body=step)
    return builder.get_tuple_element(made, index=1), EXACT


def _convolution(program: SymbolicProgram) -> tuple[Instruction, str]:
    """Return a convolution of symbolic batch, size or features."""
    sizes: tuple[int | Dim, ...] = (N, M, 1, 3, 8)
    batch, length, inputs, outputs = (program.choose.choice(sizes) for _ in range(4))
    taps = program.choose.choice((1, 3))
    image = program.parameter("f32", (batch, length, inputs))
    kernel = program.parameter("f32", (taps, inputs, outputs))
    window = (WindowDimension(taps, 1, taps // 2, taps // 2),)
    made = program.builder.convolution(image, kernel, window=window, dim_labels="b0f_0io->b0f")
    return made, "ulps 2 of largest"


SYMBOLIC_PARTS: tuple[Maker, ...] = (
    _fold, _fold, _product, _product, _sort, _selection, _transform, _rows, _moved, _normalized,
    _scan, _convolution,
)  # fmt: skip
