# SPDX-License-Identifier: Apache-2.0
"""What the tests of the StableHLO reader share: MLIR text to a verified module."""

from __future__ import annotations

import pytest

from ingot.formats.hlo_text import parse_hlo, print_module
from ingot.formats.stablehlo import parse_stablehlo
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.verifier import verify

pytest.importorskip("jaxlib.mlir.ir")


def read(text: str) -> Module:
    """Return the verified module of MLIR text; its HLO text reads back to the same."""
    module = parse_stablehlo(text)
    verify(module)
    printed = print_module(module)
    assert print_module(parse_hlo(printed)) == printed
    return module


def function(signature: str, body: str, more: str = "") -> Module:
    """Return the module of a function `main`."""
    return read(f"module @m {{ {more} func.func public @main{signature} {{ {body} }} }}")


def only(module: Module, opcode: str) -> Instruction:
    """Return the only instruction of `opcode` in the module."""
    found = [
        item
        for computation in module.computations.values()
        for item in computation.instructions
        if item.opcode == opcode
    ]
    assert len(found) == 1, found
    return found[0]
