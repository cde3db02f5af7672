# SPDX-License-Identifier: Apache-2.0
"""Mutated StableHLO text, read in a child process as files are: a module or an error of Ingot's.

MLIR may end its process on such text; that is a `ParseError`, and not a finding. Seeds are the
programs that the reader's tests have, and what JAX makes of those of `jax_programs`.
"""

from __future__ import annotations

import ast
import random
import re
from functools import cache
from pathlib import Path

import jax
from tests.formats.jax_programs import PROGRAMS
from tests.fuzz.module_check import checked, verified
from tests.fuzz.mutation import RUN_SHARE, drawn, mutated_text
from tests.fuzz.target import Target

from ingot.formats.load import load

MARK = b"\n// run\n"
"""What ends a mutant that is compiled and run too."""
_FORMATS = Path(__file__).resolve().parents[2] / "formats"
_LONGEST_SEED = 5000
_EACH = 8  # JAX takes its time.
_WORD = re.compile(r"(?:stablehlo|chlo|func|sdy|mhlo)\.\w+|tensor<[^>]*>|\w+ = [\[\w\"#]+")

_KINDS = (
    re.compile(r"(?<=[<x\[ ])\d{1,4}(?=[x\]>, ])"),
    re.compile(r"\b(?:[fiu]+\d+|bf16)(?=>)"),
    re.compile(r"(?:stablehlo|chlo)\.\w+"),
    re.compile(r"%\w+"),
    re.compile(r"tensor<[^>]*>"),
    re.compile(r"\[[\d, ]*\]"),
)
"""Pieces of StableHLO of which one can stand for another."""


@cache
def seeds() -> tuple[str, ...]:
    """Return the texts that are mutated."""
    texts: list[str] = []
    for path in sorted(_FORMATS.glob("test_stablehlo*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                texts.extend([text] if "func.func" in text and "return" in text else [])
    for function, arguments in [*PROGRAMS.values()][::_EACH]:
        texts.append(str(jax.jit(function).lower(*arguments).as_text()))
    return tuple(text for text in texts if len(text) <= _LONGEST_SEED)


@cache
def words() -> tuple[str, ...]:
    """Return what stands in StableHLO: ops, types, attributes."""
    found = {word for text in seeds() for word in _WORD.findall(text)}
    types = (
        "tensor<?xf32>", "tensor<*xf32>", "tensor<2x3xf32>", "tensor<0xf32>", "tensor<f80>",
        "tensor<!stablehlo.token>", "!stablehlo.token", "tuple<tensor<f32>>", "i1", "ui4", "index",
        "tensor<?xf32, #stablehlo.bounds<4>>", "complex<f32>", "tensor<9223372036854775807xi8>",
        "tensor<2x!quant.uniform<i8:f32, 1.0>>", "dense<1.0> : tensor<2xf32>", "none",
        'dense<"0xFFFFFFFF">', "dense<>", "array<i64: 1, -1>", "[0, 0]", "dims = [1] x [0]",
        "stablehlo.custom_call @Sharding", '{mhlo.sharding = "{devices=[2]0,1}"}', "loc(unknown)",
        '{tf.aliasing_output = 7 : i32}', '{tf.aliasing_output = "a"}', "func.func private",
    )  # fmt: skip
    return (*sorted(found), *types)


def generate(choose: random.Random) -> bytes:
    """Return a mutant of a seed."""
    text, other = drawn(choose, seeds()), choose.choice(seeds())
    mutant = mutated_text(choose, text, other, words(), _KINDS)
    # MLIR's messages hold what they refuse.
    data = mutant.encode("utf-8", "replace" if choose.random() < 0.7 else "surrogatepass")
    return data + MARK if choose.random() < RUN_SHARE else data


def check(data: bytes) -> str:
    """Return what is wrong with how a text is read, written and run."""
    return checked(lambda: verified(load(data, "mlir", isolated=True)), runs=data.endswith(MARK))


TARGET = Target("stablehlo_text", ".mlir", generate, check, runs_compiler=False)
