# SPDX-License-Identifier: Apache-2.0
"""Random modules of symbolic sizes, at sizes that no machine has: run by `cpu/test_huge_sizes.py`.

`python -m tests.support.huge_sizes FIRST COUNT` compiles modules FIRST, FIRST + 1, … with little
address space. What a program computes of sizes it computes exactly or refuses, and a call ends with
results or with one of Ingot's errors. Prints how many there were of each.
"""

from __future__ import annotations

import ctypes
import random
import resource
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from tests.support.random_modules import Maker

import ingot
from ingot.client.executables.executable import Executable
from ingot.hlo.dim import Dim, divisors, evaluate
from ingot.hlo.dtype import F32
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.host.sizes import computed_sizes
from ingot.runtime.executor.execute import FIRST_CONSTRAINT
from ingot.runtime.native import native_runtime
from ingot.support.diagnostics import IngotError

NAMES = ("n", "m", "k")
HUGE = (0, 1, 2, 255, 1 << 16, 1 << 31, (1 << 32) + 1, 1 << 47, 1 << 62, (1 << 63) - 1)
REAL = (0, 1, 2, 3, 17, 255, 1 << 16, 1 << 20)
ADDRESS_SPACE = 4 << 30
FEW_BYTES = 1 << 24
"""Results of so many bytes are computed soon enough."""


def huge_module(seed: int) -> Module:
    """Return a random module with three symbolic sizes."""
    symbols = [Dim.symbol(name) for name in NAMES]
    sizes = (1, 2, *symbols, symbols[0] * symbols[1], symbols[2] + 1)
    maker = Maker(random.Random(seed), smooth=True, sizes=sizes)
    for number, symbol in enumerate(symbols):
        maker.pool.append(maker.builder.parameter(number, Shape.array(F32, (symbol,))))
    return maker.module(8)


def check_sizes(program: Executable, values: Sequence[int]) -> str:
    """Ask for the sizes of a call with such sizes; return what came of it."""
    info, known = program.program.info, dict(zip(NAMES, values, strict=True))
    shapes = [shape for parameter in program.module.entry.parameters for _, shape in
              parameter.shape.leaves()]  # fmt: skip
    dims = [[_fits(evaluate(size, known)) for size in shape.dims] for shape in shapes]
    arrays = [(ctypes.c_int64 * max(1, len(row)))(*row) for row in dims]
    table = (ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, arrays))
    found = (ctypes.c_int64 * info.num_sizes)()
    prepare = native_runtime().function("ingot_prepare", ctypes.c_int32, *[ctypes.c_void_p] * 3)
    status = prepare(program.program.record_address, table, found)
    if status:
        assert status <= FIRST_CONSTRAINT, status
        number = FIRST_CONSTRAINT - status
        assert number < len(info.constraints) + len(info.limits), status
        return "constraint" if number < len(info.constraints) else "limit"
    arena, *results = computed_sizes(program.module, program.assignment)
    wanted = [arena, *map(Dim.symbol, NAMES), *results]
    assert all(evaluate(d, known) >= 1 for size in wanted for d in divisors(size))
    assert sorted(found) == sorted(evaluate(size, known) for size in wanted), known
    return "sizes"


def _fits(size: int) -> int:
    return min(max(size, -(1 << 63)), (1 << 63) - 1)


def check_call(program: Executable, values: Sequence[int]) -> str:
    """Call the program; return what came of it."""
    known = dict(zip(NAMES, values, strict=True))
    shapes = [parameter.shape for parameter in program.source.entry.parameters]
    dims = [tuple(evaluate(size, known) for size in shape.dims) for shape in shapes]
    try:
        arrays = [np.zeros(d, s.dtype.numpy) for d, s in zip(dims, shapes, strict=True)]
    except (MemoryError, ValueError):
        return "no argument"
    try:
        program(*arrays)
    except IngotError as error:
        return error.diagnostic.code
    return "result"


def main(first: int, count: int) -> None:
    """Check modules; print what came of them."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        print("module", seed, flush=True)
        program = ingot.compile(huge_module(seed))
        chosen = random.Random(seed)
        for _ in range(40):
            found[check_sizes(program, chosen.choices(HUGE, k=3))] += 1
        for _ in range(6):
            values = chosen.choices(REAL, k=3)
            most, memory = _bytes(program, dict(zip(NAMES, values, strict=True)))
            if most < FEW_BYTES or memory > ADDRESS_SPACE:
                found[check_call(program, values)] += 1
    print(dict(found))


def _bytes(program: Executable, known: Mapping[str, int]) -> tuple[int, int]:
    """Return the bytes of the largest value, and those of the memory that a call takes."""
    values = [i.shape for c in program.module.computations.values() for i in c.instructions]
    memory = (program.artifact.arena_bytes, program.module.result_shape.bytes)
    return (
        max(evaluate(shape.bytes, known) for shape in values),
        sum(evaluate(size, known) for size in memory),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
