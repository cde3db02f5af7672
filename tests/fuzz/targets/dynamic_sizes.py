# SPDX-License-Identifier: Apache-2.0
"""Random programs over arrays of bounded dynamic sizes: no result sees what lies behind a size.

An array (`f32[<=5]`) gets its size from a scalar input, with NaN behind it where the type has one.
Ops are applied to it and to what they give, static and dynamic results beside each other. The
results and their sizes are compared with the evaluator's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tests.fuzz.program_case import Array, ProgramCase, some_level
from tests.fuzz.target import Target
from tests.fuzz.targets.mixed_cases import check

from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.dtype import dtype

_TYPES = ("f32", "f32", "s32", "f64", "bf16", "u8", "f16")
_UNARY = ("negate", "abs", "sign", "copy")


@dataclass(frozen=True, slots=True)
class _Value:
    """An array: its name, bounds of its dimensions, and which of them are dynamic."""

    name: str
    dims: tuple[int, ...]
    dynamic: tuple[bool, ...]

    def text(self, element: str) -> str:
        sizes = zip(self.dims, self.dynamic, strict=True)
        return f"{element}[{','.join(f'<={n}' if is_bound else str(n) for n, is_bound in sizes)}]"


class _Writer:
    """Writes one program line by line."""

    def __init__(self, choose: random.Random) -> None:
        self._choose = choose
        self.element = choose.choice(_TYPES)
        self.fold = choose.choice(("add", "maximum", "minimum"))
        self.lines: list[str] = []
        self.pool: list[_Value] = []

    def emit(self, dims: Sequence[int], dynamic: Sequence[bool], text: str) -> _Value:
        """Add an instruction to the program and to what others may take."""
        made = _Value(f"v{len(self.lines)}", tuple(dims), tuple(dynamic))
        self.lines.append(f"{made.name} = {made.text(self.element)} {text}")
        self.pool.append(made)
        return made

    def op(self) -> None:
        """Add an op on one of the last values."""
        value = self._choose.choice(self.pool[-4:])
        makers = [self._unary, self._binary, self._negative]
        makers += [self._reduce, self._reverse, self._transpose, self._join, self._pad, self._sort,
                   self._broadcast, self._slice] if value.dims else []  # fmt: skip
        self._choose.choice(makers)(value)

    def _dim(self, value: _Value) -> int:
        return self._choose.randrange(len(value.dims))

    def _unary(self, value: _Value) -> None:
        unsigned = dtype(self.element).is_integer and not dtype(self.element).is_signed
        name = "copy" if unsigned else self._choose.choice(_UNARY)
        self.emit(value.dims, value.dynamic, f"{name}({value.name})")

    def _binary(self, value: _Value) -> None:
        same = [v for v in self.pool if (v.dims, v.dynamic) == (value.dims, value.dynamic)]
        # Sizes of two values may differ: those of one value do not.
        other = value if any(value.dynamic) else self._choose.choice(same)
        name = self._choose.choice(("add", "maximum", "minimum", "subtract"))
        self.emit(value.dims, value.dynamic, f"{name}({value.name}, {other.name})")

    def _negative(self, value: _Value) -> None:
        self.emit(value.dims, value.dynamic, f"minimum({value.name}, {value.name})")

    def _reduce(self, value: _Value) -> None:
        count = self._choose.randint(1, len(value.dims))
        dims = sorted(self._choose.sample(range(len(value.dims)), count))
        kept = [n for n in range(len(value.dims)) if n not in dims]
        self.emit(
            [value.dims[n] for n in kept],
            [value.dynamic[n] for n in kept],
            f"reduce({value.name}, neutral), dimensions={{{_words(dims)}}}, to_apply=fold",
        )

    def _reverse(self, value: _Value) -> None:
        text = f"reverse({value.name}), dimensions={{{self._dim(value)}}}"
        self.emit(value.dims, value.dynamic, text)

    def _transpose(self, value: _Value) -> None:
        order = self._choose.sample(range(len(value.dims)), len(value.dims))
        self.emit(
            [value.dims[n] for n in order],
            [value.dynamic[n] for n in order],
            f"transpose({value.name}), dimensions={{{_words(order)}}}",
        )

    def _join(self, value: _Value) -> None:
        dim, dims = self._dim(value), list(value.dims)
        dims[dim] *= 2
        text = f"concatenate({value.name}, {value.name}), dimensions={{{dim}}}"
        self.emit(dims, value.dynamic, text)

    def _pad(self, value: _Value) -> None:
        dims, words = list(value.dims), list[str]()
        for n, size in enumerate(value.dims):
            low, high = self._choose.randint(0, 2), self._choose.randint(0, 2)
            inner = self._choose.choice((0, 0, 1))
            dims[n] = size + low + high + max(size - 1, 0) * inner
            words.append(f"{low}_{high}_{inner}")
        self.emit(dims, value.dynamic, f"pad({value.name}, start), padding={'x'.join(words)}")

    def _sort(self, value: _Value) -> None:
        text = f"sort({value.name}), dimensions={{{self._dim(value)}}}, to_apply=less"
        self.emit(value.dims, value.dynamic, text)

    def _broadcast(self, value: _Value) -> None:
        at = self._choose.randint(0, len(value.dims))
        dims, dynamic = list(value.dims), list(value.dynamic)
        dims.insert(at, self._choose.randint(1, 3))
        dynamic.insert(at, False)
        kept = [n for n in range(len(dims)) if n != at]
        self.emit(dims, dynamic, f"broadcast({value.name}), dimensions={{{_words(kept)}}}")

    def _slice(self, value: _Value) -> None:
        bounds, dims = list[str](), list(value.dims)
        for n, (size, is_dynamic) in enumerate(zip(value.dims, value.dynamic, strict=True)):
            start = 0 if is_dynamic else self._choose.randint(0, min(1, size))
            dims[n] = size - start
            bounds.append(f"[{start}:{size}]")
        text = f"slice({value.name}), slice={{{', '.join(bounds)}}}"
        self.emit(dims, value.dynamic, text)


def _words(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def generate(choose: random.Random) -> bytes:
    """Return a program with its inputs."""
    writer = _Writer(choose)
    element = writer.element
    dims = tuple(choose.choice((1, 2, 3, 5, 8, 17)) for _ in range(choose.randint(1, 3)))
    inputs, parameters = list[Array](), list[str]()
    for _ in range(choose.randint(1, 2)):
        dim, number = choose.randrange(len(dims)), len(inputs)
        size = choose.randint(0, dims[dim])
        inputs += [_data(choose, element, dims, dim, size), np.int32(size)]
        static = f"{element}[{_words(dims)}]"
        parameters += [
            f"p{number} = {static} parameter({number})",
            f"p{number + 1} = s32[] parameter({number + 1})",
        ]
        text = f"set-dimension-size(p{number}, p{number + 1}), dimensions={{{dim}}}"
        writer.emit(dims, [n == dim for n in range(len(dims))], text)
    for _ in range(choose.randint(2, 8)):
        writer.op()
    results = writer.pool[-3:]
    for number, value in enumerate(results):
        sizes = [f"get-dimension-size({value.name}), dimensions={{{n}}}"
                 for n, is_dynamic in enumerate(value.dynamic) if is_dynamic]  # fmt: skip
        writer.lines += [f"g{number}x{n} = s32[] {text}" for n, text in enumerate(sizes)]
    sizes = [line.split()[0] for line in writer.lines if line.startswith("g")]
    shapes = [*(value.text(element) for value in results), *("s32[]" for _ in sizes)]
    names = [*(value.name for value in results), *sizes]
    pair = f"a = {element}[] parameter(0) b = {element}[] parameter(1)"
    body = "\n  ".join(
        [
            *parameters,
            f"start = {element}[] constant(1)",
            f"neutral = {element}[] constant({_neutral(writer.fold, element)})",
            *writer.lines,
        ]
    )
    text = (
        f"HloModule fuzzed\nfold {{ {pair} ROOT c = {element}[] {writer.fold}(a, b) }}\n"
        f"less {{ {pair} ROOT c = pred[] compare(a, b), direction=LT }}\n"
        f"ENTRY main {{\n  {body}\n  ROOT r = ({', '.join(shapes)}) tuple({', '.join(names)})\n}}"
    )
    return ProgramCase(parse_hlo(text), inputs, level=some_level(choose)).to_bytes()


def _neutral(fold: str, element: str) -> str:
    """Return the number that a fold does not notice."""
    if fold == "add":
        return "0"
    kind = dtype(element)
    if kind.is_float:
        return "-inf" if fold == "maximum" else "inf"
    limits = np.iinfo(kind.numpy)
    return str(limits.min if fold == "maximum" else limits.max)


def _data(choose: random.Random, element: str, dims: Sequence[int], dim: int, size: int) -> Array:
    """Return small whole numbers, with what nothing may see behind a size."""
    draw = np.random.default_rng(choose.getrandbits(32))
    kind = dtype(element)
    data = draw.integers(0, 4, dims).astype(kind.numpy)
    behind = (slice(None),) * dim + (slice(size, None),)
    data[behind] = np.nan if kind.is_float else 99
    return data


TARGET = Target("dynamic_sizes", ".hlo", generate, check)
