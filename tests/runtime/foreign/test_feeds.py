# SPDX-License-Identifier: Apache-2.0
"""Infeed and outfeed: what the host gives arrives in order, what the program gives comes back."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.evaluator.devices import Device, on_device
from ingot.runtime.foreign import feeds
from ingot.runtime.foreign.feeds import transfer_from_outfeed, transfer_to_infeed
from ingot.support.diagnostics import ExecutionError
from ingot.support.flags import FEED_TIMEOUT, override

ECHO = """HloModule echo
ENTRY main {
  t = token[] after-all()
  in = ((f32[2], s32[]), token[]) infeed(t)
  value = (f32[2], s32[]) get-tuple-element(in), index=0
  after = token[] get-tuple-element(in), index=1
  x = f32[2] get-tuple-element(value), index=0
  n = f32[2] negate(x)
  i = s32[] get-tuple-element(value), index=1
  pair = (f32[2], s32[]) tuple(n, i)
  out = token[] outfeed(pair, after), outfeed_shape=(f32[2]{0}, s32[])
  ROOT r = s32[] add(i, i)
}"""

LOOP = """HloModule loop
test { s = (s32[], f32[], token[]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[], token[]) parameter(0) i = s32[] get-tuple-element(s), index=0
  total = f32[] get-tuple-element(s), index=1 t = token[] get-tuple-element(s), index=2
  one = s32[] constant(1) j = s32[] add(i, one)
  in = (f32[], token[]) infeed(t) x = f32[] get-tuple-element(in), index=0
  after = token[] get-tuple-element(in), index=1
  sum = f32[] add(total, x) out = token[] outfeed(sum, after), outfeed_shape=f32[]
  ROOT r = (s32[], f32[], token[]) tuple(j, sum, out) }
ENTRY main { z = s32[] constant(0) f = f32[] constant(0) t = token[] after-all()
  s = (s32[], f32[], token[]) tuple(z, f, t)
  l = (s32[], f32[], token[]) while(s), condition=test, body=body
  ROOT r = f32[] get-tuple-element(l), index=1 }"""


@pytest.fixture(autouse=True)
def _empty_queues() -> None:
    """Forget what other tests of this process have left: the queues belong to the process."""
    feeds._infeeds.clear()
    feeds._outfeeds.clear()


def test_what_goes_in_comes_out() -> None:
    executable = ingot.compile(ingot.parse_hlo(ECHO))
    for number in (1, 7):
        transfer_to_infeed([np.float32([number, 2]), np.int32(number)])
    for number in (1, 7):
        assert executable() == 2 * number
    for number in (1, 7):
        vector, scalar = transfer_from_outfeed()
        np.testing.assert_array_equal(vector, np.float32([-number, -2]))
        assert scalar == number


@pytest.mark.parametrize("root", ["ROOT r = s32[] copy(z)", "ROOT r = s32[] add(i, z)"])
def test_a_loop_acts_though_nobody_reads_its_results(root: str) -> None:
    head, _, _ = LOOP.rpartition("ROOT")
    module = ingot.parse_hlo(f"{head}i = s32[] get-tuple-element(l), index=0\n{root} }}")
    inputs = [np.float32(number) for number in range(5)]
    with on_device(Device(infeed=deque(inputs))) as device:
        want = evaluate(module, [])
    given = [float(np.asarray(leaf)) for leaf in device.outfeed]
    assert given == [0, 1, 3, 6, 10]
    for x in inputs:
        transfer_to_infeed([x])
    assert ingot.compile(module)() == want
    assert [float(transfer_from_outfeed()[0]) for _ in inputs] == given


def test_the_evaluator_means_the_same() -> None:
    with on_device(Device(infeed=deque([(np.float32([1, 2]), np.int32(3))]))) as device:
        assert evaluate(ingot.parse_hlo(ECHO), []) == 6
    assert [leaf.tolist() for leaf in device.outfeed[0]] == [[-1, -2], 3]
    with pytest.raises(ExecutionError, match="INGOT0508"):
        evaluate(ingot.parse_hlo(ECHO), [])


def test_the_program_waits_for_the_host_and_the_host_for_the_program() -> None:
    executable = ingot.compile(ingot.parse_hlo(LOOP))
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(executable()))
    thread.start()
    seen = []
    for number in range(5):
        transfer_to_infeed(np.float32(number))
        seen.append(float(transfer_from_outfeed()[0]))
    thread.join()
    assert seen == [0, 1, 3, 6, 10]
    assert results == [10]


@pytest.mark.slow
def test_nothing_comes() -> None:
    executable = ingot.compile(ingot.parse_hlo(ECHO))
    with override(FEED_TIMEOUT, 1), pytest.raises(ExecutionError, match="gave nothing"):
        executable()
    with pytest.raises(ExecutionError, match="INGOT0509"):
        transfer_from_outfeed(timeout=0.01)


def test_what_does_not_fit() -> None:
    executable = ingot.compile(ingot.parse_hlo(ECHO))
    transfer_to_infeed([np.float32([1, 2, 3]), np.int32(1)])
    with pytest.raises(ExecutionError, match="infeed of device 0 takes"):
        executable()


def test_every_device_has_its_own() -> None:
    text = """HloModule two, replica_count=2
    ENTRY main { t = token[] after-all() in = (s32[], token[]) infeed(t)
      ROOT r = s32[] get-tuple-element(in), index=0 }"""
    executable = ingot.compile(ingot.parse_hlo(text))
    for device in (1, 0):
        transfer_to_infeed(np.int32(10 + device), device)
    assert executable.execute_replicated([[], []]) == [10, 11]


def test_whatever_goes_wrong_in_a_callback_ends_the_execution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted:
        def get(self, timeout: float) -> None:
            raise KeyboardInterrupt

    program = ingot.compile(ingot.parse_hlo(ECHO))
    monkeypatch.setitem(feeds._infeeds, 0, Interrupted())  # pyright: ignore
    with pytest.raises(ExecutionError, match="KeyboardInterrupt") as caught:
        program()
    assert isinstance(caught.value.__cause__, KeyboardInterrupt)


def test_values_without_elements() -> None:
    text = """HloModule m ENTRY e { t = token[] after-all()
      in = ((f32[0]), token[]) infeed(t) value = (f32[0]) get-tuple-element(in), index=0
      ROOT x = f32[0] get-tuple-element(value), index=0 }"""
    transfer_to_infeed([np.ones(0, np.float32)])
    assert ingot.compile(ingot.parse_hlo(text))().shape == (0,)
