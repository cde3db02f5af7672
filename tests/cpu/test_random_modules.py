# SPDX-License-Identifier: Apache-2.0
"""Random modules on the CPU are as on the evaluator: at every pipeline, target, size, thread count.

The module with symbolic sizes is compiled once and run at many sizes. Results are compared with a
tolerance for floats, as order of summation and contraction differ; between thread counts they are
equal bit for bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.program_case import flat, read_case
from tests.fuzz.targets import moved_functions
from tests.support.random_modules import random_inputs, random_module, random_symbolic_module

import ingot
from ingot.client.compilation import default_context
from ingot.client.executables.executable import Executable
from ingot.evaluator import evaluate
from ingot.hlo.dim import evaluate as size_at
from ingot.hlo.dtype import dtype
from ingot.hlo.module import Module
from ingot.llvm.target import TargetSpec, host_levels
from ingot.passes.fusion import legality
from ingot.runtime.native import num_threads, set_num_threads

pytestmark = pytest.mark.fast_share(8)

# Pipeline levels: how many rewrite rules may fire, instructions that a kernel may have.
PIPELINES: dict[str, tuple[int | None, int]] = {
    "full": (None, legality.MAX_MEMBERS),
    "no rewrites": (0, legality.MAX_MEMBERS),
    "no fusion": (None, 1),
    "bare": (0, 1),
}
SIZES = (0, 1, 3, 17, 64, 1000)
SYMBOLIC_SIZES = (0, 1, 2, 3, 17, 64, 1000)
LARGEST = 1 << 16
"""Elements of any array: the evaluator takes its time."""

NARROW = ("f16", "bf16", "s8", "u16", "pred")


@pytest.fixture
def compile_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Module, str, str], Executable]:
    def compile_module(module: Module, pipeline: str, level: str) -> Executable:
        fuel, members = PIPELINES[pipeline]
        monkeypatch.setattr(legality, "MAX_MEMBERS", members)
        monkeypatch.setattr(legality, "MAX_LEAVES", 0)
        context = default_context()
        context.rewrite_fuel = fuel
        return ingot.compile(module, context=context, target=TargetSpec.host(level))

    return compile_module


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = num_threads()
    yield set_num_threads
    set_num_threads(before)


def _flat(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _assert_close(got: Any, want: Any, tolerance: float = 1e-3) -> None:
    assert len(_flat(got)) == len(_flat(want))
    for value, other in zip(_flat(got), _flat(want), strict=True):
        assert (value.dtype, value.shape) == (other.dtype, other.shape)
        if np.issubdtype(other.dtype, np.inexact) or other.dtype.name == "bfloat16":
            wide, expected = value.astype(np.float64), other.astype(np.float64)
            np.testing.assert_allclose(wide, expected, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(value, other)


def _sizes(module: Module) -> list[int]:
    """Return the sizes at which no array of the module is large."""
    sizes = {
        shape.size
        for computation in module.computations.values()
        for instruction in computation.instructions
        for _, shape in instruction.shape.leaves()
    }
    fitting = [n for n in SYMBOLIC_SIZES if max(size_at(s, {"n": n}) for s in sizes) <= LARGEST]
    assert len(fitting) > 3
    return fitting


def _level(seed: int) -> str:
    """Spread the CPU's levels over seeds and pipelines."""
    levels = host_levels()
    return levels[seed % len(levels)]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("seed", range(700, 715))
def test_as_the_evaluator(seed: int, pipeline: str, compile_at: Any) -> None:
    module, inputs = random_module(seed, steps=14)
    executable = compile_at(module, pipeline, _level(seed + len(pipeline)))
    _assert_close(executable(*inputs), evaluate(module, inputs))


@pytest.mark.parametrize("seed", range(800, 810))
def test_empty_and_large_arrays(seed: int, compile_at: Any) -> None:
    module, inputs = random_module(seed, steps=16, sizes=SIZES)
    _assert_close(compile_at(module, "full", _level(seed))(*inputs), evaluate(module, inputs))


@pytest.mark.parametrize("seed", range(900, 908))
def test_narrow_element_types(seed: int, compile_at: Any) -> None:
    elements = tuple(map(dtype, NARROW))
    module, inputs = random_module(seed, steps=12, elements=elements)
    executable = compile_at(module, "full", _level(seed))
    _assert_close(executable(*inputs), evaluate(module, inputs), tolerance=0.05)


@pytest.mark.parametrize("seed", range(18))
def test_functions_of_moved_elements(seed: int, compile_at: Any) -> None:
    case = read_case(moved_functions.generate(random.Random(seed)))
    pipeline = "no fusion" if seed % 6 == 5 else "full"
    got = flat(compile_at(case.module, pipeline, _level(seed))(*case.inputs))
    assert not case.difference("cpu", got, case.wanted())


@pytest.mark.parametrize("seed", [28, *range(40, 47)])
def test_one_compilation_for_every_size(seed: int, compile_at: Any) -> None:
    module = random_symbolic_module(seed, steps=14)
    pipeline = "bare" if seed % 4 == 3 else "full"
    executable = compile_at(module, pipeline, _level(seed + len(pipeline)))
    for size in _sizes(module):
        inputs = random_inputs(module, seed + size, {"n": size})
        _assert_close(executable(*inputs), evaluate(module, inputs))


@pytest.mark.parametrize("seed", range(60, 66))
def test_threads_do_not_change_a_bit(seed: int, compile_at: Any, threads: Any) -> None:
    module, inputs = random_module(seed, steps=12, smooth=False, sizes=(3, 64, 1000))
    executable = compile_at(module, "full", _level(seed))
    results = []
    for count in (1, 2, 4):
        threads(count)
        results.append([value.tobytes() for value in _flat(executable(*inputs))])
    assert results[0] == results[1] == results[2]


@pytest.mark.slow
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 1 << 32), pipeline=st.sampled_from(list(PIPELINES)))
def test_as_the_evaluator_more(seed: int, pipeline: str, compile_at: Any) -> None:
    module, inputs = random_module(seed, steps=25)
    executable = compile_at(module, pipeline, _level(seed))
    _assert_close(executable(*inputs), evaluate(module, inputs))


@pytest.mark.slow
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 1 << 32), pipeline=st.sampled_from(list(PIPELINES)))
def test_every_size_more(seed: int, pipeline: str, compile_at: Any) -> None:
    module = random_symbolic_module(seed, steps=20)
    executable = compile_at(module, pipeline, _level(seed))
    for size in _sizes(module):
        inputs = random_inputs(module, seed, {"n": size})
        _assert_close(executable(*inputs), evaluate(module, inputs))
