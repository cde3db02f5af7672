# SPDX-License-Identifier: Apache-2.0
"""Programs for the fusion tests: from HLO text, fused, and run against the evaluator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.support.against_evaluator import agrees

from ingot.formats.hlo_text import parse
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext, Pipeline
from ingot.hlo.rewrite.runner import run_passes
from ingot.passes.fusion.fusion import fusion

REDUCERS = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
argmax { a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GE
  v = f32[] select(g, a, b)
  w = s32[] select(g, i, j)
  ROOT t = (f32[], s32[]) tuple(v, w) }
"""


@dataclass
class Fused:
    """What the fusion pass made of a program, without any other pass."""

    module: Module
    log: list[str]

    @property
    def kernels(self) -> list[Instruction]:
        """The fusion instructions of the entry."""
        return [i for i in self.module.entry.post_order() if i.opcode == "fusion"]

    @property
    def outside(self) -> set[str]:
        """Opcodes that are not in a kernel."""
        free = {"parameter", "constant", "tuple", "get-tuple-element", "fusion"}
        return {i.opcode for i in self.module.entry.post_order()} - free

    def reasons(self, fused: bool) -> set[str]:
        """The reasons of all edges that were, or were not, fused."""
        word = " fused into " if fused else " not fused into "
        lines = [line for line in self.log if (" not fused into " in line) != fused]
        assert all(word in line for line in lines)
        return {line.split(": ", 1)[1] for line in lines}


def program(body: str) -> Module:
    """Return a module whose entry has this body."""
    return parse(f"HloModule m\n{REDUCERS}\nENTRY e {{ {body} }}")


def fuse(body: str) -> Fused:
    """Run the fusion pass alone."""
    module = program(body)
    context = PassContext(debug=1)
    run_passes(Pipeline("test", (fusion,)), module, context)
    return Fused(module, list(map(str, context.remarks)))


def random_inputs(module: Module) -> list[Any]:
    """Return positive inputs for the entry; integers are small."""
    generator = np.random.default_rng(0)
    return [
        generator.integers(0, 3, p.shape.static_dims).astype(p.shape.dtype.numpy)
        if p.shape.dtype.is_integer
        else generator.uniform(0.5, 1.5, p.shape.static_dims).astype(p.shape.dtype.numpy)
        for p in module.entry.parameters
    ]


def kernels_of(body: str) -> list[tuple[str, ...]]:
    """Compile and run the program, compare with the evaluator; return the kernels' opcodes."""
    module = program(body)
    executable = agrees(module, random_inputs(module), rtol=1e-4, atol=1e-5).executable
    return [kernel.opcodes for kernel in executable.kernels]
