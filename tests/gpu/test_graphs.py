# SPDX-License-Identifier: Apache-2.0
"""Loops of a known number of rounds are launched as CUDA graphs, on the fake driver."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from tests.gpu.fake_driver import FakeDriver

import ingot
from ingot.client.executables.gpu_executable import GpuExecutable
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.gpu.host import GRAPH_NODES, LEAST_LAUNCHES
from ingot.runtime.cuda.driver import CudaError

pytest_plugins = ("tests.gpu.fixtures",)

COUNTED = """HloModule counted
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
more {{ s = (s32[], f32[{n}], f32[{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({rounds})
  ROOT c = pred[] compare(i, n), direction=LT }}
step {{ s = (s32[], f32[{n}], f32[{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[{n}] get-tuple-element(s), index=1
  y = f32[{n}] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  z = f32[] constant(0)
  t = f32[] reduce(x, z), dimensions={{0}}, to_apply=add
  k = f32[] constant(0.001)
  u = f32[] multiply(t, k)
  w = f32[{n}] broadcast(u), dimensions={{}}
  v = f32[{n}] add(y, w)
  ROOT r = (s32[], f32[{n}], f32[{n}]) tuple(j, v, x) }}
ENTRY e {{ x = f32[{n}] parameter(0)
  y = f32[{n}] parameter(1)
  z = s32[] constant(0)
  s = (s32[], f32[{n}], f32[{n}]) tuple(z, x, y)
  w = (s32[], f32[{n}], f32[{n}]) while(s), condition=more, body=step
  a = f32[{n}] get-tuple-element(w), index=1
  b = f32[{n}] get-tuple-element(w), index=2
  ROOT t = (f32[{n}], f32[{n}]) tuple(a, b) }}"""


def _compiled(rounds: int, n: str = "7") -> GpuExecutable:
    found = ingot.compile(COUNTED.format(rounds=rounds, n=n), device="gpu")
    assert isinstance(found, GpuExecutable)
    return found


def _arguments(size: int = 7) -> list[np.ndarray]:
    return [np.arange(size, dtype=np.float32), np.ones(size, np.float32)]


def _check(found: Any, rounds: int, arguments: list[np.ndarray], n: str = "7") -> None:
    wanted = evaluate(parse(COUNTED.format(rounds=rounds, n=n)), arguments)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, 1e-5, 1e-5)


@pytest.mark.parametrize("rounds", [100, 128, 333])
def test_rounds_are_launched_together(fake: FakeDriver, rounds: int) -> None:
    executable = _compiled(rounds)
    _check(executable(*_arguments()), rounds, _arguments())
    nodes = fake.calls["cuGraphAddKernelNode_v2"] + fake.calls["cuGraphAddMemcpyNode"]
    assert GRAPH_NODES // 2 < nodes <= GRAPH_NODES
    a_round = sum(len(launches) for launches in [k.launches for k in _launched(executable)])
    together = fake.calls["cuGraphAddKernelNode_v2"] // a_round
    assert fake.calls["cuGraphLaunch"] == rounds // together
    assert fake.calls["cuLaunchKernel"] <= rounds % together * a_round + 4
    assert fake.calls["cuStreamSynchronize"] == 2, "the results are read"


def _launched(executable: GpuExecutable) -> list[Any]:
    kernels = executable.inspection.compiled.kernels
    body = next(c for c in executable.module.computations.values() if "step" in c.name)
    return [kernels.of(one) for one in body.instructions if one.opcode == "fusion"]


@pytest.mark.parametrize("size", [0, 1, 130])
def test_sizes_may_be_symbolic(fake: FakeDriver, size: int) -> None:
    _check(_compiled(150, "?n")(*_arguments(size)), 150, _arguments(size), "?n")
    assert fake.calls["cuGraphLaunch"] > 1


def test_short_loops_are_launched_one_by_one(fake: FakeDriver) -> None:
    rounds = 5
    assert rounds * 4 < LEAST_LAUNCHES
    _check(_compiled(rounds)(*_arguments()), rounds, _arguments())
    assert fake.calls["cuGraphCreate"] == 0


def test_whoever_waits_for_kernels_gets_no_graph(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = _compiled(100)
    profile = executable.profile(*_arguments())
    assert sum(row.calls for row in profile.rows() if row.site.kind == "kernel") > 100
    assert fake.calls["cuGraphCreate"] == 0
    executable(*_arguments())
    assert fake.calls["cuGraphCreate"] == 1


@pytest.mark.parametrize("name", [
    "cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
])  # fmt: skip
def test_what_fails_gives_the_graph_back(fake: FakeDriver, name: str) -> None:
    executable = _compiled(100)
    fake.failures[name] = 701
    with pytest.raises(CudaError, match=r"INGOT0526.*CUDA_ERROR_701"):
        executable(*_arguments())
    assert not fake.graphs
    assert not fake.executables
    _check(executable(*_arguments()), 100, _arguments())


def test_threads_have_graphs_of_their_own(fake: FakeDriver) -> None:
    executable = _compiled(128)
    wanted = [np.asarray(one) for one in executable(*_arguments())]
    problems: list[Any] = []

    def work() -> None:
        for _ in range(3):
            for one, other in zip(executable(*_arguments()), wanted, strict=True):
                if np.asarray(one).tobytes() != other.tobytes():
                    problems.append(one)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
