# SPDX-License-Identifier: Apache-2.0
"""Programs of one kernel, what they give, and what the emulated GPU makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tests.gpu.simt import Emulation
from tests.kernel.programs import argmax

from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.gpu.compiler import GpuKernel, compile_kernel
from ingot.hlo.dim import evaluate as number
from ingot.hlo.dtype import DType, Kind
from ingot.hlo.module import Module
from ingot.kernel.ir import Kernel
from ingot.kernel.lowering import lower_fusion

SEEDS = (0, 1, 2)
"""Orders of threads and blocks that every program is run in."""

COMPUTATIONS = (
    "".join(
        f"{op}_{type} {{ a = {type}[] parameter(0)\n b = {type}[] parameter(1)\n"
        f" ROOT r = {type}[] {op}(a, b) }}\n"
        for op in ("add", "maximum", "multiply", "and", "subtract")
        for type in ("f32", "f64", "bf16", "f16", "s32", "s64", "s8", "pred")
        if (op == "and") == (type == "pred")
    )
    + "".join(
        f"before_{type} {{ a = {type}[] parameter(0)\n b = {type}[] parameter(1)\n"
        " v = s32[] parameter(2)\n w = s32[] parameter(3)\n"
        f" ROOT r = pred[] compare(a, b), direction=LT{order} }}\n"
        for type, order in (
            *((type, ", type=TOTALORDER") for type in ("f32", "f64", "bf16", "f16")),
            *((type, "") for type in ("s32", "s8", "pred")),
        )
    )
    + """
greater_f32 { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = pred[] compare(a, b), direction=GT
  ROOT r = f32[] select(c, a, b) }
"""
    + argmax("s32")
)


@dataclass(frozen=True)
class Program:
    """A program that is one kernel."""

    module: Module
    kernel: Kernel

    @property
    def results(self) -> int:
        """How many buffers it writes."""
        return sum(buffer.is_output for buffer in self.kernel.buffers)


def program(body: str) -> Program:
    """Return the program of an entry computation."""
    module = parse(f"HloModule m\n{COMPUTATIONS}\nENTRY e {{ {body} }}")
    return Program(module, lower_fusion(module.entry))


def array(choose: np.random.Generator, element: DType, dims: list[int], below: int) -> np.ndarray:
    """Return random elements; integers are below a limit, so that some are indices."""
    if element.kind in (Kind.PRED, Kind.SIGNED, Kind.UNSIGNED):
        most = 2 if element.kind is Kind.PRED else below
        return choose.integers(0, most, dims).astype(element.numpy)
    return choose.standard_normal(dims).astype(element.numpy)


def arguments(given: Program, sizes: Mapping[str, int], below: int) -> list[np.ndarray]:
    """Return random arguments of a program."""
    choose = np.random.default_rng(7)
    shapes = [parameter.shape for parameter in given.module.entry.parameters]
    return [
        array(choose, shape.dtype, [number(size, sizes) for size in shape.dims], below)
        for shape in shapes
    ]


def check(
    body: str,
    strategy: str,
    sizes: Mapping[str, int] | None = None,
    *,
    tolerance: float = 0.0,
    below: int = 20,
    seeds: tuple[int, ...] = SEEDS,
) -> GpuKernel:
    """Check a program's kernel under permuted orders against the evaluator; return the kernel."""
    sizes = sizes or {}
    given = program(body)
    compiled = compile_kernel(given.kernel)
    kernel = compiled.kernel
    assert kernel.strategy == strategy, (kernel.strategy, kernel.refused)
    inputs = arguments(given, sizes, below)
    wanted = wanted_of(given, inputs)
    emulation = Emulation(compiled)
    for seed in seeds:
        found = emulation.run(memory_of(given, inputs, wanted), sizes, seed)
        for one, other in zip(found[len(inputs) :], wanted, strict=True):
            check_result(one, np.asarray(other), tolerance)
        for one, other in zip(found, inputs, strict=False):
            assert one.tobytes() == other.tobytes(), "an operand was changed"
    return kernel


def wanted_of(given: Program, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return what the evaluator gives for each result."""
    found = evaluate(given.module, inputs)
    return [np.asarray(one) for one in (found if isinstance(found, tuple) else [found])]


def memory_of(
    given: Program, inputs: list[np.ndarray], wanted: list[np.ndarray]
) -> list[np.ndarray]:
    """Return the buffers before a run: results of updates hold what is updated."""
    root = given.module.entry.root
    updated = root.opcode in ("scatter", "dynamic-update-slice")
    parameters = given.module.entry.parameters
    if updated:
        count = given.results
        held = [inputs[parameters.index(operand)] for operand in root.operands[:count]]
    else:
        held = [np.full(np.shape(one), 7).astype(np.asarray(one).dtype) for one in wanted]
    return [*inputs, *held]


def check_result(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    """Compare results: to the bit without a tolerance, relative to their size with one."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if tolerance == 0:
        np.testing.assert_array_equal(found, wanted)
    else:
        kind = np.complex128 if np.iscomplexobj(found) else np.float64
        wide = (found.astype(kind), wanted.astype(kind))
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)
