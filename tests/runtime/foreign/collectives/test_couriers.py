# SPDX-License-Identifier: Apache-2.0
"""Collectives that run while kernels run: the same results, and no harm when an execution fails."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.runtime.foreign.collectives.networks import run_as_processes
from tests.runtime.foreign.collectives.programs import program, values

import ingot
from ingot.native.pointers import sizeof
from ingot.runtime.foreign.collectives.visit import Visit
from ingot.semantics.foreign_calls import CONTEXT, START

SIZE = 256

BODIES = {
    "all-reduce": "all-reduce({}), replica_groups={{}}, to_apply=add",
    "all-gather": "all-gather({}), replica_groups={{}}, dimensions={{0}}",
    "reduce-scatter": "reduce-scatter({}), replica_groups={{}}, dimensions={{1}}, to_apply=add",
    "all-to-all": "all-to-all({}), replica_groups={{}}, dimensions={{0}}",
    "collective-permute": "collective-permute({}), source_target_pairs={{{{0,1}},{{1,2}}}}",
}


def beside_work(opcode: str, count: int = 3, devices: int = 4) -> Any:
    """Return a program that has `count` exchanges, each beside a product."""
    rows, columns = SIZE, SIZE
    if opcode == "all-gather":
        rows *= devices
    if opcode == "reduce-scatter":
        columns //= devices
    square, result = f"f32[{SIZE},{SIZE}]", f"f32[{rows},{columns}]"
    lines = [f"x = {square} parameter(0)", f"h0 = {square} negate(x)"]
    for n in range(count):
        lines += [
            f"s{n} = {result} {BODIES[opcode].format(f'h{n}')}",
            f"d{n} = {square} dot(h{n}, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"m{n} = {square} tanh(d{n})",
            f"h{n + 1} = {square} add(m{n}, x)",
        ]
    shapes = ", ".join([result] * count)
    names = ", ".join(f"s{n}" for n in range(count))
    lines.append(f"ROOT r = ({shapes}, {square}) tuple({names}, h{count})")
    return ingot.compile(ingot.parse_hlo(program("\n".join(lines), replicas=devices)))


def test_the_context_holds_a_visit() -> None:
    assert sizeof(Visit) <= CONTEXT.bytes


@pytest.mark.parametrize("opcode", sorted(BODIES))
@pytest.mark.parametrize("processes", [[0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 0, 1]])
def test_results_are_those_of_the_device_itself(opcode: str, processes: list[int]) -> None:
    executable = beside_work(opcode)
    assert START in {one.opcode for one in executable.module.entry.instructions}
    inputs = [[values("f32", (SIZE, SIZE), device)] for device in range(4)]
    there = run_as_processes(executable, inputs, processes)
    here = run_as_processes(executable, inputs, processes, has_couriers=False)
    alone = executable.execute_replicated(inputs)
    for first, second, third in zip(there, here, alone, strict=True):
        for one, other, another in zip(first, second, third, strict=True):
            np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(one, another)


def test_data_that_goes_through_sockets() -> None:
    executable = beside_work("all-reduce", devices=2)
    inputs = [[values("f32", (SIZE, SIZE), device)] for device in range(2)]
    there = run_as_processes(executable, inputs, [0, 1], can_read=False)
    for first, second in zip(there, executable.execute_replicated(inputs), strict=True):
        for one, other in zip(first, second, strict=True):
            np.testing.assert_array_equal(one, other)


def failing() -> Any:
    """Return a program in which device 1 fails after an exchange began, before it is done."""
    square = f"f32[{SIZE},{SIZE}]"
    body = f"""x = {square} parameter(0)
      s = {square} all-reduce(x), replica_groups={{}}, to_apply=add
      d = {square} dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      c = {square} custom-call(d), custom_call_target="fails_on_ones",
        custom_call_has_side_effect=true
      ROOT r = {square} add(s, c)"""
    return ingot.compile(ingot.parse_hlo(program(body, replicas=2)))


def fails_on_ones(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if x[0, 0] == SIZE:
        raise ValueError("these are ones")
    return x


def test_an_execution_that_fails_ends_what_it_has_begun() -> None:
    ingot.register_custom_call_target("fails_on_ones", fails_on_ones)
    executable = failing()
    opcodes = [one.opcode for one in executable.module.schedule[executable.module.entry]]
    assert opcodes.index(START) < opcodes.index("custom-call") < opcodes.index("async-done")
    for _ in range(5):
        inputs = [[np.full((SIZE, SIZE), fill, np.float32)] for fill in (2, 1)]
        waited, failed = run_as_processes(executable, inputs, [0, 1])
        assert "these are ones" in str(failed)
        assert isinstance(waited, np.ndarray) or re.search("process 1: an exec", str(waited))


def test_another_program_is_found_by_the_courier() -> None:
    executable = beside_work("all-reduce", devices=2)
    inputs = [[values("f32", (SIZE, SIZE), device)] for device in range(2)]
    problems = [str(one) for one in run_as_processes(executable, inputs, [0, 1], [5, 6])]
    for process, problem in enumerate(problems):
        assert f"failed: process {1 - process}: it runs another program" in problem
