# SPDX-License-Identifier: Apache-2.0
"""Staged programs take over memory instead of copying it, and an error leaves arguments alone."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import ingot
from ingot.artifact.stages import Copy, Run
from ingot.client.executables.staged import StagedExecutable
from ingot.evaluator.interpreter import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.runtime.native import allocator_statistics
from ingot.support.diagnostics import ExecutionError

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"

STATE = f"""HloModule state, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}
{ADD}
ENTRY main {{
  v = f32[?k] parameter(0)
  count = s32[] parameter(1)
  x = f32[1] parameter(2)
  i = s32[] parameter(3)
  n = pred[?n] custom-call(count), custom_call_target="ingot.size"
  numbers = f32[?n] iota(), iota_dimension=0
  z = f32[] constant(0)
  total = f32[] reduce(numbers, z), dimensions={{0}}, to_apply=add
  row = f32[1] broadcast(total), dimensions={{}}
  new = f32[1] add(x, row)
  updated = f32[?k] dynamic-update-slice(v, new, i)
  ROOT r = (RESULTS)
}}"""
ONE = STATE.replace("(RESULTS)", "(f32[?k], f32[?n]) tuple(updated, numbers)")
OLD = STATE.replace("(RESULTS)", "(f32[?k], f32[?k], f32[?k]) tuple(updated, v, v)")
TWICE = STATE.replace("(RESULTS)", "(f32[?k], f32[?k]) tuple(updated, updated)")

CHAIN = """HloModule chain
again { x = f32[?k] parameter(0) ROOT y = f32[?k] negate(x) }
same { ROOT x = f32[?k] parameter(0) }
sized {
  x = f32[?k] parameter(0)
  m = s32[] get-dimension-size(x), dimensions={0}
  n = pred[?m] custom-call(m), custom_call_target="ingot.size"
  ones = f32[?m] iota(), iota_dimension=0
  at = s32[] constant(1)
  first = f32[1] slice(ones), slice={[0:1]}
  ROOT y = f32[?k] dynamic-update-slice(x, first, at)
}
ENTRY main {
  v = f32[?k] parameter(0)
  count = s32[] parameter(1)
  which = s32[] parameter(2)
  sine = f32[?k] sine(v)
  at = s32[] convert(count)
  n = pred[?n] custom-call(count), custom_call_target="ingot.size"
  numbers = f32[?n] iota(), iota_dimension=0
  size = s32[] get-dimension-size(n), dimensions={0}
  same = f32[] convert(size)
  row = f32[1] broadcast(same), dimensions={}
  updated = f32[?k] dynamic-update-slice(sine, row, at)
  chosen = f32[?k] conditional(which, updated, updated), branch_computations={same, sized}
  last = f32[?k] dynamic-update-slice(chosen, row, size)
  ROOT r = (f32[?k], f32[?n]) tuple(last, numbers)
}"""

LOOP = """HloModule rounds
cond {
  s = (s32[], f32[?k]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  l = s32[] constant(20)
  ROOT c = pred[] compare(i, l), direction=LT
}
body {
  s = (s32[], f32[?k]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[?k] get-tuple-element(s), index=1
  n = pred[?n] custom-call(i), custom_call_target="ingot.size"
  numbers = f32[?n] iota(), iota_dimension=0
  z = f32[1] constant({9})
  longer = f32[?(n+1)] concatenate(numbers, z), dimensions={0}
  zero = s32[] constant(0)
  first = f32[1] dynamic-slice(longer, i), dynamic_slice_sizes={1}
  y = f32[?k] dynamic-update-slice(x, first, i)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[?k]) tuple(j, y)
}
ENTRY main {
  z = s32[] constant(0)
  x = f32[?k] parameter(0)
  y = f32[?k] cosine(x)
  init = (s32[], f32[?k]) tuple(z, y)
  w = (s32[], f32[?k]) while(init), condition=cond, body=body
  ROOT r = f32[?k] get-tuple-element(w), index=1
}"""

BIG = 200_000


def compiled(text: str) -> StagedExecutable:
    executable = ingot.compile(parse_hlo(text))
    assert isinstance(executable, StagedExecutable)
    return executable


def arguments(count: int = 3) -> list[Any]:
    return [np.arange(BIG, dtype=np.float32), np.int32(count), np.float32([7]), np.int32(2)]


@pytest.mark.parametrize("text", [ONE, OLD, TWICE])
def test_results_are_the_evaluators_whether_donated_or_not(text: str) -> None:
    executable, given = compiled(text), arguments()
    wanted = evaluate(parse_hlo(text), given)
    for donate in ([], [0], [0, 2], [1]):
        for _ in range(2):
            state = given[0].copy()
            found = executable(state, *given[1:], donate=donate)
            for have, want in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(have, want, strict=True)
            if 0 not in donate:
                np.testing.assert_array_equal(state, given[0])
            assert not any(np.shares_memory(found[0], other) for other in found[1:])


def test_a_donated_argument_is_updated_in_place() -> None:
    executable, (state, *rest) = compiled(ONE), arguments()
    for _ in range(3):
        before = allocator_statistics()
        new, _ = executable(state, *rest, donate=[0])
        after = allocator_statistics()
        assert np.shares_memory(new, state)
        assert new.ctypes.data == state.ctypes.data
        assert after.bytes_in_use - before.bytes_in_use < state.nbytes
        state = new
    kept = arguments()[0]
    assert not np.shares_memory(executable(kept, *rest)[0], kept)


def test_memory_that_is_shared_or_not_writeable_is_not_taken() -> None:
    executable, given = compiled(ONE), arguments()
    wanted = evaluate(parse_hlo(ONE), given)[0]
    state = given[0].copy()
    state.flags.writeable = False
    np.testing.assert_array_equal(executable(state, *given[1:], donate=[0])[0], wanted)
    np.testing.assert_array_equal(state, given[0])
    state = given[0].copy()
    shared = [state, given[1], state[:1], given[3]]
    wanted = evaluate(parse_hlo(ONE), shared)[0]
    np.testing.assert_array_equal(executable(*shared, donate=[0])[0], wanted)
    np.testing.assert_array_equal(state, given[0])
    with pytest.raises(ExecutionError, match="no argument 9"):
        executable(*given, donate=[9])


def test_an_error_leaves_donated_arguments_as_they_were() -> None:
    executable, given = compiled(ONE), arguments(-1)
    state = given[0].copy()
    before = allocator_statistics().bytes_in_use
    with pytest.raises(ExecutionError, match="never negative"):
        executable(state, *given[1:], donate=[0])
    np.testing.assert_array_equal(state, given[0])
    assert allocator_statistics().bytes_in_use == before
    new, _ = executable(state, *arguments()[1:], donate=[0])
    assert np.shares_memory(new, state)


EARLY = f"""HloModule early, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}
{ADD}
ENTRY main {{
  v = f32[?k] parameter(0)
  x = f32[?k] parameter(1)
  new = f32[?k] add(v, x)
  z = f32[] constant(0)
  total = f32[] reduce(new, z), dimensions={{0}}, to_apply=add
  count = s32[] convert(total)
  n = pred[?n] custom-call(count), custom_call_target="ingot.size"
  numbers = f32[?n] iota(), iota_dimension=0
  ROOT r = (f32[?k], f32[?n]) tuple(new, numbers)
}}"""


def test_what_an_earlier_stage_makes_is_not_put_over_a_parameter() -> None:
    executable = compiled(EARLY)
    assert not executable.program.code.aliases
    v = np.float32([1, 2])
    with pytest.raises(ExecutionError, match="never negative"):
        executable(v, np.float32([-9, 0]), donate=[0])
    np.testing.assert_array_equal(v, [1, 2])
    new, numbers = executable(v, np.float32([1, 1]), donate=[0])
    np.testing.assert_array_equal(new, [2, 3])
    assert numbers.shape == (5,)


@pytest.mark.parametrize("which", [0, 1])
def test_a_block_goes_from_stage_to_stage_without_a_copy(which: int) -> None:
    executable = compiled(CHAIN)
    v = np.arange(BIG, dtype=np.float32)
    given = (v, np.int32(3), np.int32(which))
    wanted = evaluate(parse_hlo(CHAIN), given)
    found = executable(*given)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-6)
    code = executable.program.code.code
    assert not any(isinstance(item, Copy) for item in code)
    assert [item.stage for item in code if isinstance(item, Run) and item.taken] == [2, 3]


def test_a_loop_updates_its_state_in_place() -> None:
    executable = compiled(LOOP)
    x = np.arange(BIG, dtype=np.float32)
    wanted = evaluate(parse_hlo(LOOP), [x])
    np.testing.assert_allclose(executable(x), wanted, rtol=1e-6)
    code = executable.program.code.code
    assert not any(isinstance(item, Copy) for item in code), executable.as_text("stages")
    assert sum(isinstance(item, Run) and bool(item.taken) for item in code) == 1


def test_threads_donate_to_one_program() -> None:
    executable, given = compiled(ONE), arguments()
    wanted = evaluate(parse_hlo(ONE), given)[0]
    problems: list[str] = []

    def work() -> None:
        for _ in range(10):
            state = given[0].copy()
            new, _ = executable(state, *given[1:], donate=[0])
            if not np.array_equal(new, wanted) or not np.shares_memory(new, state):
                problems.append("wrong")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
