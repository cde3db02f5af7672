# SPDX-License-Identifier: Apache-2.0
"""Mutated HLO text: a module or one of Ingot's own errors, and a module means what it prints.

Seeds are the programs of `tests/ops`, dumps of XLA, and random modules.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

from tests.fuzz.module_check import checked
from tests.fuzz.mutation import RUN_SHARE, drawn, mutated_text
from tests.fuzz.target import Target
from tests.support.random_modules import random_module, random_symbolic_module

from ingot.formats.hlo_text import print_module
from ingot.formats.hlo_text.attribute_text import plan
from ingot.formats.hlo_text.kept_text import KEPT
from ingot.formats.load import load
from ingot.hlo.dtype import DTYPES
from ingot.hlo.opdef import table

MARK = b"\n// run\n"
"""What ends a mutant that is compiled and run too."""
_TESTS = Path(__file__).resolve().parents[2]
_DIRECTIVE = re.compile(r"^//.*\n", re.MULTILINE)
_KINDS = (
    re.compile(r"(?<=[\[,{ =_x])\d{1,4}(?=[\],}_ x)])"),  # sizes, dimensions, paddings
    re.compile(rf"\b(?:{'|'.join(sorted(DTYPES))})(?=\[)"),
    re.compile(r"(?<=[\]}]\s)[a-z][a-z\-]+(?=\()"),  # opcodes
    re.compile(r"(?<=[(,] )%?[a-z][\w.]*(?=[,)])|(?<=\()%?[a-z][\w.]*(?=[,)])"),  # operands
    re.compile(r"\w+\[[\d,]*\]"),
    re.compile(r"(?<=[=(])\{[\d,]*\}"),
    re.compile(r"(?<=direction=)\w+|(?<=_dims=)\{[\d,]*\}|(?<==)(?:true|false)"),
)
"""Pieces of HLO text of which one can stand for another."""
_LONGEST_SEED = 6000
_RANDOM_SEEDS = 20


@cache
def seeds() -> tuple[str, ...]:
    """Return the texts that are mutated."""
    texts: list[str] = []
    for path in sorted((_TESTS / "ops").glob("*.hlo")):
        parts = re.split(r"^// -----.*$", path.read_text(), flags=re.MULTILINE)
        texts.extend(_DIRECTIVE.sub("", part).strip() + "\n" for part in parts)
    data = _TESTS / "formats" / "data"
    texts.extend(path.read_text() for path in sorted(data.rglob("*.hlo")))
    for seed in range(_RANDOM_SEEDS):
        texts.append(print_module(random_module(seed, structured=True)[0]))
        texts.append(print_module(random_symbolic_module(seed, structured=True)))
    return tuple(text for text in texts if len(text) <= _LONGEST_SEED)


@cache
def words() -> tuple[str, ...]:
    """Return what stands in HLO text: opcodes, element types, attributes and their values."""
    attributes = {row.name for definition in table().values() for row in plan(definition)}
    shapes = (
        "f32[]", "f32[0]", "s32[2,3]", "pred[4]", "token[]", "(f32[2])", "()", "f32[?n]",
        "f32[<=4]", "f32[2,2]{0,1}", "opaque[]", "f32[?(2*n+1)]", "f32[4]{0:T(8,128)}",
        "((f32[],()))", "u4[3]", "f32[9999999999,9999999999]", "b(f32[2])",
    )  # fmt: skip
    pieces = (
        "ROOT", "ENTRY", "HloModule", "{...}", "window={size=2x2 pad=0_0x1_1}", "slice={[0:1]}",
        "dimensions={0}", "dimensions={0,0}", "dim_labels=b01f_01io->b01f", "direction=LT",
        "parameter(0)", "constant(1)", "constant({})", "is_scheduled=true", "body", "to_apply",
        "metadata={op_name=\"a\"}", "replica_groups={{0,1}}", "replica_groups=[2,1]<=[2]",
        "sharding={replicated}", "control-predecessors={x}", "entry_computation_layout={()->f32[]}",
        "input_output_alias={{}: (0, {})}", "padding=1_1x-1_0_2", "?n", "?(n-1)",
        "frontend_attributes={a=\"b\"}",
    )  # fmt: skip
    return (*table(), *DTYPES, *sorted(attributes), *sorted(KEPT), *shapes, *pieces)


def generate(choose: random.Random) -> bytes:
    """Return a mutant of a seed."""
    text, other = drawn(choose, seeds()), choose.choice(seeds())
    mutant = mutated_text(choose, text, other, words(), _KINDS)
    data = mutant.encode("utf-8", "surrogateescape" if _encodes(mutant) else "replace")
    return data + MARK if choose.random() < RUN_SHARE else data


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def check(data: bytes) -> str:
    """Return what is wrong with how a text is read, written and run."""
    return checked(lambda: load(data, "hlo_text"), runs=data.endswith(MARK))


TARGET = Target("hlo_text", ".hlo", generate, check, runs_compiler=False)
