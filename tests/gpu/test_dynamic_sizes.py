# SPDX-License-Identifier: Apache-2.0
"""Sizes that the data decides, on a GPU: what the CPU's tests run, on the fake driver."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from tests.client import test_computed_sizes as computed
from tests.client import test_dynamic_sizes as bounded
from tests.client import test_staged_donation as donation
from tests.differential.dynamic_cases import PROGRAMS, Program
from tests.differential.test_dynamic import OFTEN, check_leaves, inputs_of, leaves_of
from tests.gpu.fake_driver import OUT_OF_MEMORY, FakeDriver

import ingot
from ingot.client.executables.gpu_executable import GpuExecutable
from ingot.client.executables.gpu_staged import GpuStagedExecutable
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo.module import Module
from ingot.runtime.cuda.driver import CudaError

pytest_plugins = ("tests.gpu.fixtures",)


def _staged(program: str | Module) -> GpuStagedExecutable:
    found = ingot.compile(program, device="gpu")
    assert isinstance(found, GpuStagedExecutable)
    return found


def _often(program: Program) -> Any:
    marks = () if program.name in OFTEN else pytest.mark.slow
    return pytest.param(program, id=program.name, marks=marks)


@pytest.mark.parametrize("program", [_often(program) for program in PROGRAMS])
def test_bounded_dimensions(fake: FakeDriver, program: Program) -> None:
    module = parse(program.text())
    executable = ingot.compile(module, device="gpu")
    for size in program.sizes:
        inputs = inputs_of(program, size)
        want = leaves_of(evaluate(module, inputs))
        check_leaves(leaves_of(executable(*inputs)), want, f"{program.name}, size {size}")


@pytest.mark.parametrize("case", range(len(computed.CASES)))
def test_computed_sizes(fake: FakeDriver, case: int) -> None:
    text, arguments = computed.CASES[case]
    module = parse(text)
    executable = _staged(module)
    for _ in range(2):
        found, wanted = executable(*arguments), evaluate(module, arguments)
        for have, want in zip(leaves_of(found), computed.leaves(wanted), strict=True):
            np.testing.assert_array_equal(have, want, strict=True)


@pytest.mark.parametrize(("rows", "more"), [(0, 0), (1, 4), (4, 1), (6, 3)])
def test_arguments_and_results_of_dynamic_size(fake: FakeDriver, rows: int, more: int) -> None:
    module = parse(bounded.ROWS)
    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    v = np.full(more, 7, np.float32)
    sums, k, same = evaluate(module, [x, (np.int32(9), v)])[0], 9, x
    found = _staged(module)(ingot.to_gpu(x), np.int32(k), v)
    for have, want in zip(leaves_of(found), (sums, np.int32(k), same), strict=True):
        np.testing.assert_array_equal(have, want, strict=True)


def test_an_argument_beyond_its_bound_is_refused(fake: FakeDriver) -> None:
    executable = ingot.compile(parse(bounded.NEGATE), device="gpu")
    with pytest.raises(ingot.ExecutionError, match=r"INGOT0504(.|\n)*needs \w+ <= 5.* of 'x'"):
        executable(np.zeros(6, np.float32))


def test_only_sizes_and_conditions_are_waited_for(fake: FakeDriver) -> None:
    executable = _staged(computed.NONZERO)
    x = ingot.to_gpu(computed.X)
    before = fake.calls["cuStreamSynchronize"]
    executable(x)
    assert fake.calls["cuStreamSynchronize"] == before + 1, "the size"
    total = ingot.compile(bounded.NEGATE.replace("ROOT r", "y").replace(
        "negate(x) }", "negate(x) ROOT k = s32[] get-dimension-size(y), dimensions={0} }"
    ), device="gpu")  # fmt: skip
    assert isinstance(total, GpuExecutable), "only an argument is of dynamic size"
    before = fake.calls["cuStreamSynchronize"]
    found = total(computed.X)
    assert fake.calls["cuStreamSynchronize"] == before
    assert np.asarray(found) == 5


def test_memory_is_as_large_as_the_data_and_given_back(fake: FakeDriver) -> None:
    executable = _staged(computed.NONZERO)
    constants = fake.in_use
    x = ingot.to_gpu(computed.X)
    numbers, big, size = executable(x)
    fake.run_queue()
    sizes = [array.nbytes for array in (x, numbers, big, size)]
    assert sizes == [20, 12, 60, 4]
    assert fake.in_use == constants + sum(sizes)
    del numbers, big, size
    gc.collect()
    fake.run_queue()
    assert fake.in_use == constants + x.nbytes


@pytest.mark.parametrize("kind", ["s8", "u16", "u64"])
def test_every_integer_may_be_a_size(fake: FakeDriver, kind: str) -> None:
    executable = _staged(computed.NEGATIVE.replace("KIND", kind))
    dtype = np.dtype({"s": "int", "u": "uint"}[kind[0]] + kind[1:])
    numbers, _ = executable(dtype.type(5), computed.X)
    np.testing.assert_array_equal(numbers, np.arange(5, dtype=np.int32), strict=True)


def test_errors_leave_nothing_allocated(fake: FakeDriver) -> None:
    executable = _staged(computed.NEGATIVE.replace("KIND", "s32"))
    x = ingot.to_gpu(computed.X)
    fake.run_queue()
    before = fake.in_use

    def check(error: type[Exception], match: str, size: int = 2) -> None:
        with pytest.raises(error, match=match):
            executable(np.int32(size), x)
        gc.collect()
        fake.run_queue()
        assert fake.in_use == before

    check(ingot.ExecutionError, r"INGOT0516.*size is never negative", -3)
    fake.failures["cuMemcpyDtoHAsync_v2"] = 1
    check(CudaError, r"'negative'.*CUDA_ERROR_INVALID_VALUE")
    fake.failures["cuLaunchKernel"] = 701
    check(CudaError, r"%\w*fusion.*CUDA_ERROR_701")
    limit, fake.memory = fake.memory, before + 100
    check(ingot.ResourceError, "INGOT0401", 1000)
    fake.memory = limit
    fake.failures["cuMemAllocAsync"] = OUT_OF_MEMORY
    check(ingot.ResourceError, "INGOT0401")
    assert executable(np.int32(2), x)[0].shape == (2,)


def test_a_donated_argument_is_updated_in_place(fake: FakeDriver) -> None:
    executable, (state, *rest) = _staged(donation.ONE), donation.arguments()
    wanted = evaluate(parse(donation.ONE), [state, *rest])
    kept = ingot.to_gpu(state)
    new, _ = executable(kept, *rest)
    assert new.address != kept.address
    np.testing.assert_array_equal(kept, state)
    taken, numbers = executable(kept, *rest, donate=[0])
    assert taken.address == kept.address
    with pytest.raises(ingot.ExecutionError, match=r"INGOT0527.*donated"):
        np.asarray(kept)
    for have, want in zip((taken, numbers), wanted, strict=True):
        np.testing.assert_array_equal(have, want, strict=True)
    # An error of an earlier stage leaves the argument alone.
    with pytest.raises(ingot.ExecutionError, match="INGOT0516"):
        executable(taken, np.int32(-1), *rest[1:], donate=[0])
    np.testing.assert_array_equal(taken, wanted[0])


@pytest.mark.parametrize("text", [donation.CHAIN, donation.LOOP], ids=["chain", "loop"])
def test_blocks_go_from_stage_to_stage(fake: FakeDriver, text: str) -> None:
    # The emulation would take a minute for the 200,000 elements of the CPU's test.
    v = np.arange(300, dtype=np.float32)
    arguments = [v, np.int32(3), np.int32(1)][: 3 if text is donation.CHAIN else 1]
    found = _staged(text)(*arguments)
    wanted = leaves_of(evaluate(parse(text), arguments))
    for have, want in zip(leaves_of(found), wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


def test_inspection(fake: FakeDriver) -> None:
    executable = _staged(computed.NONZERO)
    assert executable.stages() == ("stages", *executable.executables[0].stages())
    assert "= size %" in executable.as_text("stages")
    assert executable.as_text("ptx").count(".version") == 2
    assert {kernel.strategy for kernel in executable.kernels}
    assert str(executable).startswith("GpuStagedExecutable('nonzero', 2 stages")
