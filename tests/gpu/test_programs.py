# SPDX-License-Identifier: Apache-2.0
"""Whole programs on a GPU: the host program, the runtime and the kernels, against the evaluator."""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pytest
from tests.gpu.fake_driver import OUT_OF_MEMORY, FakeDriver
from tests.gpu.programs import COMPUTATIONS, check_result

import ingot
from ingot.client.executables.gpu_executable import GpuExecutable
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.runtime.cuda.driver import ILLEGAL_ADDRESS, CudaError

pytest_plugins = ("tests.gpu.fixtures",)

SUM_OF_PRODUCTS = """x = f32[?n] parameter(0)
  y = f32[?n] parameter(1)
  p = f32[?n] multiply(x, y)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add_f32"""

TWICE = """x = f32[1000] parameter(0)
  ROOT r = f32[1000] add(x, x)"""

LOOP = """more { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8] add(x, x)
  ROOT t = (s32[], f32[8]) tuple(j, y) }
small { x = f32[8] parameter(0)
  ROOT r = f32[8] negate(x) }
large { x = f32[8] parameter(0)
  ROOT r = f32[8] sort(x), dimensions={0}, to_apply=less }
doubled { x = f32[8] parameter(0)
  z = s32[] constant(0)
  s = (s32[], f32[8]) tuple(z, x)
  w = (s32[], f32[8]) while(s), condition=more, body=step
  ROOT y = f32[8] get-tuple-element(w), index=1 }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
"""

CONTROL = """x = f32[8] parameter(0)
  p = s32[] parameter(1)
  ROOT y = f32[8] conditional(p, x, x), branch_computations={small, doubled}"""


def compiled(body: str, computations: str = "") -> GpuExecutable:
    """Return a program on the GPU."""
    found = ingot.compile(module_text(body, computations), device="gpu")
    assert isinstance(found, GpuExecutable)
    return found


def module_text(body: str, computations: str = "") -> str:
    return f"HloModule m\n{COMPUTATIONS}{computations}\nENTRY e {{ {body} }}"


def check(body: str, *args: Any, computations: str = "", tolerance: float = 0.0) -> None:
    """Compare a program's results with the evaluator's."""
    found = compiled(body, computations)(*args)
    wanted = evaluate(parse_hlo(module_text(body, computations)), list(args))
    results = found if isinstance(found, tuple) else (found,)
    for one, other in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        check_result(np.asarray(one), np.asarray(other), tolerance)


def test_symbolic_sizes(fake: FakeDriver) -> None:
    executable = compiled(SUM_OF_PRODUCTS)
    for count in (0, 1, 7, 1000):
        x, y = np.arange(count, dtype=np.float32), np.full(count, 2, np.float32)
        found = executable(x, y)
        assert isinstance(found, ingot.DeviceArray)
        assert np.asarray(found) == 2 * x.sum()


@pytest.mark.parametrize("element", ["f32", "f64", "c64"])
def test_exact_arithmetic_is_the_evaluators_to_the_bit(fake: FakeDriver, element: str) -> None:
    module = parse_hlo(
        module_text(f"""x = {element}[1000] parameter(0)
          y = {element}[1000] parameter(1)
          z = {element}[1000] parameter(2)
          p = {element}[1000] multiply(x, y)
          s = {element}[1000] add(p, z)
          q = {element}[1000] multiply(s, s)
          ROOT r = {element}[1000] subtract(q, p)""")
    )
    rng = np.random.default_rng(0)
    types = [item.shape.dtype.numpy for item in module.entry.parameters]
    args = [rng.standard_normal(1000).astype(dtype) for dtype in types]
    executable = ingot.compile(module, device="gpu", fp="exact")
    found = np.asarray(executable(*args))
    assert found.tobytes() == np.asarray(evaluate(module, args)).tobytes()
    # What says no rounding mode may be fused by ptxas.
    arithmetic = re.findall(r"(?:mul|add|sub|fma)\S*f(?:32|64)\b", executable.as_text("ptx"))
    assert arithmetic
    assert all(".rn" in item and "fma" not in item for item in arithmetic)


def test_a_call_waits_for_nothing(fake: FakeDriver) -> None:
    executable = compiled(TWICE)
    x = ingot.to_gpu(np.ones(1000, np.float32))
    for _ in range(3):
        x = executable(x)
    assert fake.calls["cuStreamSynchronize"] == 0
    np.testing.assert_array_equal(np.asarray(x), np.full(1000, 8, np.float32))


def test_a_counted_loop_waits_for_nothing(fake: FakeDriver) -> None:
    body = """x = f32[8] parameter(0)
      z = s32[] constant(0)
      s = (s32[], f32[8]) tuple(z, x)
      w = (s32[], f32[8]) while(s), condition=more, body=step
      ROOT y = f32[8] get-tuple-element(w), index=1"""
    found = compiled(body, LOOP)(np.ones(8, np.float32))
    assert fake.calls["cuStreamSynchronize"] == 0
    np.testing.assert_array_equal(found, np.full(8, 32, np.float32))


@pytest.mark.parametrize("branch", [0, 1, -3])
def test_loops_and_branches(fake: FakeDriver, branch: int) -> None:
    x = np.arange(8, dtype=np.float32)
    check(CONTROL, x, np.int32(branch), computations=LOOP)


def test_lapack_runs_on_the_host(fake: FakeDriver) -> None:
    given = np.random.default_rng(0).standard_normal((5, 5))
    body = """x = f64[5,5] parameter(0)
      c = f64[5,5] cholesky(x), lower=true
      ROOT r = f64[5,5] multiply(c, c)"""
    check(body, given @ given.T + 5 * np.eye(5), tolerance=1e-12)


def test_arguments_are_checked(fake: FakeDriver) -> None:
    executable = compiled(TWICE)
    with pytest.raises(ingot.ExecutionError, match="INGOT0501"):
        executable()
    with pytest.raises(ingot.ExecutionError, match="INGOT0502"):
        executable(np.zeros(1000))
    with pytest.raises(ingot.ExecutionError, match="INGOT0503"):
        executable(ingot.to_gpu(np.zeros(999, np.float32)))


def test_a_donated_argument_gives_its_memory(fake: FakeDriver) -> None:
    text = module_text(TWICE).replace(
        "HloModule m", "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }"
    )
    executable = ingot.compile(text, device="gpu")
    x = ingot.to_gpu(np.ones(1000, np.float32))
    address = x.address
    kept = executable(x)
    assert kept.address != address
    taken = executable(x, donate=[0])
    assert taken.address == address
    np.testing.assert_array_equal(np.asarray(taken), np.full(1000, 2, np.float32))
    with pytest.raises(ingot.ExecutionError, match=r"INGOT0527.*donated"):
        np.asarray(x)
    # Memory that is another argument's too is not given away.
    assert executable(kept, donate=[0]).address == kept.address


def test_memory_is_given_back(fake: FakeDriver) -> None:
    executable = compiled(SUM_OF_PRODUCTS)
    x = np.ones(5000, np.float32)
    in_use: list[int] = []
    for _ in range(3):
        np.asarray(executable(x, x))
        gc.collect()
        fake.run_queue()
        in_use.append(fake.in_use)
    assert in_use == [1, 1, 1], "of the constants"


def test_too_little_memory_is_an_error(fake: FakeDriver) -> None:
    executable = compiled(SUM_OF_PRODUCTS)
    fake.memory = fake.in_use + 1000
    with pytest.raises(ingot.ResourceError, match=r"INGOT0401(.|\n)*bytes, of which \d+ are free"):
        executable(np.ones(5000, np.float32), np.ones(5000, np.float32))
    fake.memory = 1 << 30
    fake.failures["cuMemAllocAsync"] = OUT_OF_MEMORY
    with pytest.raises(ingot.ResourceError, match="INGOT0401"):
        executable(np.ones(5, np.float32), np.ones(5, np.float32))


def test_a_limit_of_memory(fake: FakeDriver) -> None:
    with ingot.config(gpu_memory_limit=4096):
        executable = compiled(SUM_OF_PRODUCTS)
    with pytest.raises(ingot.ResourceError, match="INGOT0401"):
        executable(np.ones(5000, np.float32), np.ones(5000, np.float32))


def test_a_launch_that_fails_is_named(fake: FakeDriver) -> None:
    executable = compiled(TWICE)
    fake.failures["cuLaunchKernel"] = 701
    with pytest.raises(CudaError, match=r"INGOT0526.*%\w*fusion.*CUDA_ERROR_701"):
        executable(np.ones(1000, np.float32))
    np.testing.assert_array_equal(executable(np.ones(1000, np.float32)), np.full(1000, 2))


def test_a_broken_device_is_started_anew(fake: FakeDriver) -> None:
    x = ingot.to_gpu(np.ones(1000, np.float32))
    fake.failures["cuStreamSynchronize"] = ILLEGAL_ADDRESS
    with pytest.raises(CudaError, match="CUDA_LAUNCH_BLOCKING=1") as caught:
        x.block_until_ready()
    assert caught.value.is_broken
    ingot.reset_gpu()
    with pytest.raises(ingot.ExecutionError, match=r"INGOT0527.*lost"):
        np.asarray(x)
    np.testing.assert_array_equal(compiled(TWICE)(np.ones(1000, np.float32)), np.full(1000, 2))


def test_kernels_can_be_waited_for(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    compiled(TWICE)(np.ones(1000, np.float32))
    assert fake.calls["cuStreamSynchronize"] == 1


def test_dlpack_shares_memory(fake: FakeDriver) -> None:
    x = ingot.to_gpu(np.arange(1000, dtype=np.float32))

    class Other:
        """An array of another library over the same memory."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

        def __dlpack__(self, stream: int | None = None) -> Any:
            return x.__dlpack__(stream=stream)

    allocations = fake.calls["cuMemAllocAsync"]
    found = compiled(TWICE)(Other())
    assert fake.calls["cuMemAllocAsync"] == allocations + 2, "constants and the result"
    np.testing.assert_array_equal(found, 2 * np.arange(1000))
    assert x.__cuda_array_interface__["data"] == (x.address, False)


def test_arrays_of_odd_addresses_are_copied(fake: FakeDriver) -> None:
    x = ingot.to_gpu(np.arange(1001, dtype=np.float32))

    class Rest:
        """All of an array but its first element."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

        def __dlpack__(self, stream: int | None = None) -> Any:
            rest = ingot.DeviceArray(x.device, x.address + 4, (1000,), x.dtype, x)
            return rest.__dlpack__(stream=stream)

    found = compiled(TWICE)(Rest())
    assert fake.calls["cuMemcpyDtoDAsync_v2"] == 1
    np.testing.assert_array_equal(found, 2 * np.arange(1, 1001))


def test_long_sorts_of_pred(fake: FakeDriver) -> None:
    # An element of scratch is a byte, as everywhere in memory.
    body = """x = pred[3000] parameter(0)
      ROOT r = pred[3000] sort(x), dimensions={0}, to_apply=first"""
    first = """first { a = pred[] parameter(0)
      b = pred[] parameter(1)
      ROOT c = pred[] compare(a, b), direction=LT }
    """
    x = np.random.default_rng(0).integers(0, 2, 3000).astype(np.bool_)
    check(body, x, computations=first)


def test_a_profile_waits_for_each_kernel(fake: FakeDriver) -> None:
    executable = compiled(TWICE)
    x = ingot.to_gpu(np.ones(1000, np.float32))
    profile = executable.profile(x, runs=3)
    assert [(row.site.kind, row.calls) for row in profile.rows()] == [("kernel", 3)]
    assert fake.calls["cuStreamSynchronize"] == 3
    executable(x)
    assert fake.calls["cuStreamSynchronize"] == 3


def test_inspection(fake: FakeDriver) -> None:
    executable = compiled(SUM_OF_PRODUCTS)
    (kernel,) = executable.kernels
    assert kernel.strategy == "a block per row"
    assert ".visible .entry" in executable.as_text("ptx")
    assert "define ptx_kernel" in executable.as_text("llvm")
    schedule = executable.as_text("schedule").splitlines()
    assert schedule[0].startswith(f"{kernel.name}: a block per row")
    assert [line[6:].split(": ")[0] for line in schedule if line.startswith("  not ")] == [
        name for name, _ in kernel.refused
    ]
    assert executable.in_avals[0].dtype == np.float32
    with pytest.raises(ingot.ExecutionError, match="stages: hlo_before"):
        executable.as_text("assembly")


@pytest.mark.parametrize(("name", "message"), [
    ("gpu:1", "no GPU 1: there are 1"),
    ("tpu", "no device 'tpu'"),
    ("gpu:x", "no device 'gpu:x'"),
])  # fmt: skip
def test_devices_that_are_not_there(fake: FakeDriver, name: str, message: str) -> None:
    with pytest.raises(ingot.ArgumentError, match=message):
        ingot.compile(module_text(TWICE), device=name)


def test_threads_are_of_the_cpu(fake: FakeDriver) -> None:
    with pytest.raises(ingot.ArgumentError, match="threads and target are of the CPU"):
        ingot.compile(module_text(TWICE), device="gpu", threads=2)  # type: ignore[call-overload]


def test_what_only_jax_runs_is_refused(fake: FakeDriver) -> None:
    text = module_text(TWICE).replace("HloModule m", "HloModule m, replica_count=2")
    with pytest.raises(ingot.UnsupportedError, match=r"INGOT0325.*several replicas"):
        ingot.compile(text, device="gpu")(np.ones(1000, np.float32))
