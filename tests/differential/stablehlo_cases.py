# SPDX-License-Identifier: Apache-2.0
"""Programs in StableHLO's own words: ops that HLO has not, defaults that HLO must say, CHLO.

`make conformance` runs what Ingot makes of them; `test_stablehlo_programs` gives the text itself to
real XLA, so the reading is held against XLA's too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tests.differential.case import Array, Build, Case, Nearness, seed_of, small_integers

from ingot.formats.stablehlo import parse_stablehlo

SUM = Nearness(ulps=64, xla_ulps=64, of_largest=True, reason="order of summation")


@dataclass(frozen=True, slots=True)
class Program:
    """A function of one result: its arguments' MLIR types, the result's, its body ending in %r."""

    name: str
    arguments: tuple[str, ...]
    result: str
    body: str
    by_xla: bool = True
    """Whether XLA takes the text."""

    @property
    def text(self) -> str:
        """The module."""
        named = ", ".join(f"%{'abc'[n]}: tensor<{t}>" for n, t in enumerate(self.arguments))
        return (
            f"func.func public @main({named}) -> tensor<{self.result}> {{\n"
            f"  {self.body}\n  return %r : tensor<{self.result}>\n}}"
        )

    def inputs(self) -> tuple[Array, ...]:
        """Return inputs that follow from the name."""
        generator = seed_of(self.name)
        return tuple(_input(text, generator) for text in self.arguments)


_TYPES = {"i1": "pred", "i8": "s8", "i32": "s32", "i64": "s64", "ui8": "u8"}


def _input(text: str, generator: np.random.Generator) -> Array:
    *dims, element = text.split("x")
    return small_integers(_TYPES.get(element, element), tuple(map(int, dims)), generator)


def _reducer(element: str, op: str) -> str:
    return (
        f"({{ ^bb0(%x: tensor<{element}>, %y: tensor<{element}>): "
        f"%s = stablehlo.{op} %x, %y : tensor<{element}> "
        f"stablehlo.return %s : tensor<{element}> }})"
    )


def _less(element: str) -> str:
    return (
        f"({{ ^bb0(%x: tensor<{element}>, %y: tensor<{element}>): "
        f"%s = stablehlo.compare LT, %x, %y : (tensor<{element}>, tensor<{element}>) -> tensor<i1> "
        "stablehlo.return %s : tensor<i1> })"
    )


def _einsum(config: str, left: str, right: str, result: str) -> Program:
    body = (
        f'%r = "stablehlo.einsum"(%a, %b) {{einsum_config = "{config}"}} '
        f": (tensor<{left}>, tensor<{right}>) -> tensor<{result}>"
    )
    return Program(f"einsum {config} {left}", (left, right), result, body)


def _select(operand: str, indices: str, result: str, dim: int, batch: int) -> Program:
    body = (
        # Indices that are in bounds: where others lie is no concern of the op.
        f"%i = stablehlo.abs %b : tensor<{indices}> "
        f'%r = "stablehlo.torch_index_select"(%a, %i) {{dim = {dim} : i64, '
        f"batch_dims = {batch} : i64}} : (tensor<{operand}>, tensor<{indices}>) -> tensor<{result}>"
    )
    return Program(f"torch_index_select {operand} {dim} {batch}", (operand, indices), result, body)


def _dot(left: str, right: str, result: str) -> Program:
    body = (
        "%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] "
        f": (tensor<4x6x{left}>, tensor<6x3x{right}>) -> tensor<4x3x{result}>"
    )
    arguments = (f"4x6x{left}", f"6x3x{right}")
    return Program(f"dot_general {left}*{right}->{result}", arguments, f"4x3x{result}", body)


def _plain(op: str, element: str) -> Program:
    kind = f"5x{element}"
    return Program(
        f"{op} {element}", (kind,), kind, f"%r = {op} %a : tensor<{kind}> -> tensor<{kind}>"
    )


PROGRAMS: tuple[Program, ...] = (
    _einsum("ab,bc->ac", "2x3xf32", "3x4xf32", "2x4xf32"),
    _einsum("...bc,...cd->d...b", "2x5x3xf32", "2x3x4xf32", "4x2x5xf32"),
    _einsum("ab,bc->c", "2x5xf32", "5x4xf32", "4xf32"),
    _einsum("abc,bd->acdb", "2x3x4xf32", "3x5xf32", "2x4x5x3xf32"),
    _einsum("ab,cd->acbd", "2x3xi32", "4x2xi32", "2x4x3x2xi32"),
    _select("5x1x5xi32", "2xi32", "2x1x5xi32", 0, 0),
    _select("2x5x3xf32", "2x4xi64", "2x4x3xf32", 1, 1),
    _select("2x5x3xf32", "2x2xi32", "2x5x2x2xf32", 2, 0),
    *(_dot(*kinds) for kinds in (
        ("f32", "f32", "i32"), ("i32", "i32", "f32"), ("i8", "i8", "f32"), ("bf16", "i8", "f32"),
        ("f32", "f32", "bf16"), ("f16", "f16", "f64"), ("ui8", "i8", "i32"),
    )),
    Program(
        "sort of no dimension", ("4x3xi32",), "4x3xi32",
        f'%r = "stablehlo.sort"(%a) {_less("i32")} : (tensor<4x3xi32>) -> tensor<4x3xi32>',
    ),
    Program(
        "sort of a negative dimension", ("4x3xf32",), "4x3xf32",
        f'%r = "stablehlo.sort"(%a) {_less("f32")} {{dimension = -2 : i64}} '
        ": (tensor<4x3xf32>) -> tensor<4x3xf32>",
    ),
    Program(
        "dynamic_pad of constants", ("4xf32",), "8xf32",
        "%z = stablehlo.constant dense<1.5> : tensor<f32> "
        "%l = stablehlo.constant dense<2> : tensor<1xi32> "
        "%n = stablehlo.constant dense<0> : tensor<1xi32> "
        "%r = stablehlo.dynamic_pad %a, %z, %l, %l, %n : (tensor<4xf32>, tensor<f32>, "
        "tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<8xf32>",
        by_xla=False,
    ),
    Program(
        "bitcast_convert to parts", ("3xf32",), "3x4xui8",
        "%r = stablehlo.bitcast_convert %a : (tensor<3xf32>) -> tensor<3x4xui8>",
    ),
    Program(
        "reduce into a wider type", ("5xi8",), "i32",
        "%z = stablehlo.constant dense<0> : tensor<i8> "
        f'%r = "stablehlo.reduce"(%a, %z) {_reducer("i32", "add")} '
        "{dimensions = array<i64: 0>} : (tensor<5xi8>, tensor<i8>) -> tensor<i32>",
        by_xla=False,
    ),
    *(_plain(op, element) for op in ("chlo.square", "chlo.tan", "chlo.erf", "chlo.sinh")
      for element in ("f32", "f64")),
    Program(
        "chlo.top_k", ("3x7xf32",), "3x2xf32",
        "%r, %i = chlo.top_k(%a, k = 2) : tensor<3x7xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)",
        by_xla=False,
    ),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """Every program as a case."""
    for program in PROGRAMS:
        yield Case(f"stablehlo {program.name}", program.inputs(), _build(program), SUM)


def _build(program: Program) -> Build:
    def build(builder, operands):  # type: ignore[no-untyped-def]
        # XLA takes whatever is called `main` for the entry.
        called = parse_stablehlo(program.text).entry.clone("program")
        return builder.call(*operands, to_apply=called)

    return build
