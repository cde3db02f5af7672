# SPDX-License-Identifier: Apache-2.0
"""Concatenations of many operands: in parts, each a kernel of its own, and the same values."""

import numpy as np
import pytest

import ingot
from ingot.passes.fusion.legality import MAX_PARTS


def _program(sizes: list[int], dimension: int, tail: str = "") -> str:
    """Return a program that joins one matrix of each size, all of them 3 across."""

    def shape(size: int) -> str:
        return f"f32[{size},3]" if dimension == 0 else f"f32[3,{size}]"

    lines = [f"p{n} = {shape(size)} parameter({n})" for n, size in enumerate(sizes)]
    operands = ", ".join(f"p{n}" for n in range(len(sizes)))
    root = "" if tail else "ROOT "
    joined = f"{shape(sum(sizes))} concatenate({operands}), dimensions={{{dimension}}}"
    lines.append(f"{root}joined = {joined}")
    if tail:
        lines.append(f"ROOT r = {shape(sum(sizes))} {tail}(joined)")
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"


def _arguments(sizes: list[int], dimension: int) -> list[np.ndarray]:
    random = np.random.default_rng(len(sizes))
    shapes = [(size, 3) if dimension == 0 else (3, size) for size in sizes]
    return [random.random(shape, np.float32) for shape in shapes]


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("count", [MAX_PARTS, MAX_PARTS + 1, 150])
def test_the_values_are_those_of_the_operands(count, dimension):
    sizes = [1 + n % 7 for n in range(count)]
    arguments = _arguments(sizes, dimension)
    executable = ingot.compile(ingot.parse_hlo(_program(sizes, dimension)))
    found = np.asarray(executable(*arguments))
    np.testing.assert_array_equal(found, np.concatenate(arguments, axis=dimension))
    operands = [
        len(item.operands)
        for computation in executable.module.computations.values()
        for item in computation.instructions
        if item.opcode == "concatenate"
    ]
    assert max(operands) == MAX_PARTS


def test_parts_are_kernels_of_their_own_and_the_last_takes_what_follows():
    sizes = [2] * (2 * MAX_PARTS)
    arguments = _arguments(sizes, 0)
    executable = ingot.compile(ingot.parse_hlo(_program(sizes, 0, "negate")))
    np.testing.assert_array_equal(np.asarray(executable(*arguments)), -np.concatenate(arguments))
    assert [kernel.opcodes for kernel in executable.kernels] == [
        ("concatenate",),
        ("concatenate",),
        ("concatenate", "negate"),
    ]
