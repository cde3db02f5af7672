# SPDX-License-Identifier: Apache-2.0
"""The programs' own random generator: deterministic, moving on, apart per op, seeded by a flag."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native.support import linked

import ingot
from ingot.evaluator import evaluate
from ingot.native.pointers import Array
from ingot.native.types import i64
from ingot.runtime.foreign.random_state import Counter, rng_state
from ingot.runtime.records import Buffers, CallFrame
from ingot.support.flags import RANDOM_SEED, override

pytestmark = pytest.mark.fast_share(4)

PAIR = """HloModule pair
ENTRY main { l = {element}[] constant({low}) h = {element}[] constant({high})
  a = {element}[{size}] rng(l, h), distribution={distribution}
  b = {element}[{size}] rng(l, h), distribution={distribution}
  ROOT r = ({element}[{size}], {element}[{size}]) tuple(a, b) }"""


def drawn(element: str, low: object, high: object, distribution: str = "rng_uniform", size=2000):
    words = {"element": element, "low": low, "high": high, "size": size}
    words["distribution"] = distribution
    text = PAIR
    for name, value in words.items():
        text = text.replace("{" + name + "}", str(value))
    return ingot.compile(ingot.parse_hlo(text))


def test_the_first_execution_is_always_the_same_and_the_next_goes_on() -> None:
    first, second = drawn("f32", 0, 1), drawn("f32", 0, 1)
    one, two = first(), first()
    np.testing.assert_array_equal(one, second())
    assert not np.array_equal(one[0], two[0])
    assert not np.array_equal(one[0], one[1])


def test_the_seed_is_the_flags() -> None:
    before = drawn("f32", 0, 1)()
    with override(RANDOM_SEED, 5):
        assert not np.array_equal(drawn("f32", 0, 1)(), before)


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "f16"])
def test_uniform_floats(element: str) -> None:
    values = drawn(element, -2, 3)()[0].astype(np.float64)
    assert values.min() >= -2
    assert values.max() <= 3
    assert abs(values.mean() - 0.5) < 0.15


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_normal_floats(element: str) -> None:
    values = drawn(element, 1, 3, "rng_normal", 20000)()[0]
    assert abs(values.mean() - 1) < 0.1
    assert abs(values.std() - 3) < 0.1
    assert np.isfinite(values).all()


@pytest.mark.parametrize("element", ["s8", "u8", "s32", "s64", "u64"])
def test_integers_take_every_value_of_the_range(element: str) -> None:
    low = 0 if element.startswith("u") else -3
    values = drawn(element, low, 4)()[0]
    assert set(values.tolist()) == set(range(low, 4))


def test_the_state_moves_on_by_delta() -> None:
    text = """HloModule state
    ENTRY main { ROOT s = u64[2] rng-get-and-update-state(), delta=3 }"""
    executable = ingot.compile(ingot.parse_hlo(text))
    found = [executable().tolist() for _ in range(3)]
    assert found == [[0x7012395 + 3 * n, 0] for n in range(3)]


def test_a_function_draws_other_numbers_at_each_call() -> None:
    text = """HloModule twice
draw { l = f32[] constant(0) h = f32[] constant(1)
  ROOT r = f32[8] rng(l, h), distribution=rng_uniform }
ENTRY main { a = f32[8] call(), to_apply=draw
  b = f32[8] call(), to_apply=draw
  ROOT r = (f32[8], f32[8]) tuple(a, b) }"""
    one, two = ingot.compile(ingot.parse_hlo(text))()
    assert not np.array_equal(one, two)


def test_a_program_whose_rng_is_expanded_asks_for_the_seed() -> None:
    """XLA writes `GetRngSeed` for `rng`; it is never 0, which XLA keeps for "any seed"."""
    text = """HloModule seed
    ENTRY e { ROOT s = u64[] custom-call(), custom_call_target="GetRngSeed" }"""
    module = ingot.parse_hlo(text)
    before = int(ingot.compile(module)())
    assert before == int(evaluate(module, [])) != 0
    with override(RANDOM_SEED, 5):
        assert int(ingot.compile(ingot.parse_hlo(text))()) == before + 5


@pytest.mark.parametrize("low", [0, 2**63 - 3, -2, -1, -(2**63)])
def test_counters_move_as_machine_code_and_as_plain_python(low: int) -> None:
    call = linked(rng_state)
    found = []
    for run in (call, lambda function, *args: function(*args)):
        site, frame = Counter.on_stack(), CallFrame.on_stack()
        results, result = Buffers.on_stack(1), Array[i64].on_stack(2)
        site.low, site.high, site.delta = low, 5, 2
        frame.results, results[0] = results, result
        assert run(rng_state, frame, site) == 0
        found.append((result[0], result[1], site.low, site.high, site.lock.load()))
    number = (5 << 64 | low & (1 << 64) - 1) + 2
    following = number & (1 << 64) - 1
    signed = following - (following >> 63 << 64)
    assert found == [(low, 5, signed, number >> 64, 0)] * 2
