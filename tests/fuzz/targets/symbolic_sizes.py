# SPDX-License-Identifier: Apache-2.0
"""Programs whose arrays have symbolic sizes, at sizes from 0 to more than a chunk of work.

Half of them grow op by op (`random_symbolic_module`), the others are of parts that each kernel
strategy for symbolic sizes waits for. One compilation is run at the case's sizes.
"""

from __future__ import annotations

import random

from tests.fuzz.program_case import ProgramCase, some_level
from tests.fuzz.symbolic_parts import SYMBOLIC_PARTS, SymbolicProgram, TooLargeError
from tests.fuzz.target import Target
from tests.fuzz.targets.mixed_cases import check
from tests.support.random_modules import random_inputs, random_symbolic_module

from ingot.hlo.builder import Builder
from ingot.hlo.dim import evaluate as size_at
from ingot.hlo.module import Module

_SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100)
_LARGE = (255, 1000, 1027, 4100)
LARGEST = 1 << 14


def generate(choose: random.Random) -> bytes:
    """Return a program with its inputs."""
    sizes = {name: choose.choice(_SIZES) for name in ("n", "m")}
    module = random_symbolic_module(choose.getrandbits(32), steps=8, structured=True)
    if choose.random() < 0.3 and _largest(module, sizes) <= LARGEST:
        inputs = random_inputs(module, choose.getrandbits(32), sizes)
        return ProgramCase(module, inputs, ("close 0.001",), level=some_level(choose)).to_bytes()
    if choose.random() < 0.2:
        sizes["n"], sizes["m"] = choose.choice(_LARGE), choose.choice((0, 1, 3))
    program = _program(choose, sizes)
    root = program.builder.tuple(*(value for value, _ in program.results))
    module = Module.of("fuzzed", program.builder.build(root))
    compare = tuple(word for _, word in program.results)
    return ProgramCase(module, program.inputs, compare, level=some_level(choose)).to_bytes()


def _program(choose: random.Random, sizes: dict[str, int]) -> SymbolicProgram:
    """Return some parts at these sizes, or at smaller ones."""
    while True:
        program = SymbolicProgram(choose, sizes, Builder("main"), [], [])
        try:
            for part in choose.choices(SYMBOLIC_PARTS, k=choose.randint(1, 3)):
                program.results.append(part(program))
        except TooLargeError:
            sizes = {name: size // 2 for name, size in sizes.items()}
        else:
            return program


def _largest(module: Module, sizes: dict[str, int]) -> int:
    """Return the elements of the largest array: the evaluator takes its time."""
    return max(
        size_at(leaf.size, sizes)
        for computation in module.computations.values()
        for instruction in computation.instructions
        for _, leaf in instruction.shape.leaves()
        if leaf.is_array
    )


TARGET = Target("symbolic_sizes", ".hlo", generate, check, share=2.0)
