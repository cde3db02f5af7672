# SPDX-License-Identifier: Apache-2.0
"""Programs that compute sizes run in stages, and give what the evaluator gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot
from ingot.client.executables.staged import StagedExecutable
from ingot.evaluator.interpreter import evaluate
from ingot.formats.hlo_text import parse_hlo, print_module
from ingot.runtime.cancellation import Cancellation
from ingot.runtime.native import allocator_statistics
from ingot.support.diagnostics import ExecutionError, VerifyError

ADD = "add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }"

NONZERO = f"""HloModule nonzero
{ADD}
ENTRY main {{
  x = f32[?k] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[?k] broadcast(zero), dimensions={{}}
  hit = pred[?k] compare(x, zeros), direction=NE
  ones = s32[?k] convert(hit)
  z = s32[] constant(0)
  count = s32[] reduce(ones, z), dimensions={{0}}, to_apply=add
  n = pred[?n] custom-call(count), custom_call_target="ingot.size"
  i = s32[?n] iota(), iota_dimension=0
  f = f32[?n] convert(i)
  big = f32[?n,?k] broadcast(f), dimensions={{0}}
  size = s32[] get-dimension-size(n), dimensions={{0}}
  ROOT r = (f32[?n], f32[?n,?k], s32[]) tuple(f, big, size)
}}"""

GROWING = """HloModule growing
cond {
  s = (s32[], f32[?m], f32[?k]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  l = s32[] constant(4)
  ROOT c = pred[] compare(i, l), direction=LT
}
body {
  s = (s32[], f32[?m], f32[?k]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[?m] get-tuple-element(s), index=1
  x = f32[?k] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  f = f32[] convert(i)
  n = pred[?n] custom-call(i), custom_call_target="ingot.size"
  row = f32[?n] broadcast(f), dimensions={}
  b = f32[?(k+m+n)] concatenate(a, row, x), dimensions={0}
  ROOT t = (s32[], f32[?(k+m+n)], f32[?k]) tuple(j, b, x)
}
ENTRY main {
  z = s32[] constant(0)
  e = f32[2] parameter(0)
  x = f32[?k] parameter(1)
  init = (s32[], f32[2], f32[?k]) tuple(z, e, x)
  w = (s32[], f32[?m], f32[?k]) while(init), condition=cond, body=body
  r = f32[?m] get-tuple-element(w), index=1
  same = f32[?k] get-tuple-element(w), index=2
  d = f32[?m] add(r, r)
  ROOT both = (f32[?m], f32[?k], f32[?m]) tuple(d, same, r)
}"""

SWAPPING = """HloModule swapping
cond {
  s = (s32[], f32[?p], f32[?q]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  l = s32[] constant(3)
  ROOT c = pred[] compare(i, l), direction=LT
}
body {
  s = (s32[], f32[?p], f32[?q]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[?p] get-tuple-element(s), index=1
  b = f32[?q] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[?q], f32[?p]) tuple(j, b, a)
}
ENTRY main {
  z = s32[] constant(0)
  x = f32[?k] parameter(0)
  y = f32[3] parameter(1)
  init = (s32[], f32[?k], f32[3]) tuple(z, x, y)
  w = (s32[], f32[?p], f32[?q]) while(init), condition=cond, body=body
  a = f32[?p] get-tuple-element(w), index=1
  b = f32[?q] get-tuple-element(w), index=2
  ROOT both = (f32[?p], f32[?q], f32[?p]) tuple(a, b, a)
}"""

BRANCHES = """HloModule branches
twice {
  p = f32[?k] parameter(0)
  ROOT c = f32[?(2*k)] concatenate(p, p), dimensions={0}
}
once {
  p = f32[?k] parameter(0)
  ROOT c = f32[?k] negate(p)
}
same {
  ROOT p = f32[?k] parameter(0)
}
ENTRY main {
  q = s32[] parameter(0)
  x = f32[?k] parameter(1)
  r = f32[?r] conditional(q, x, x, x), branch_computations={twice, once, same}
  ROOT s = f32[?r] multiply(r, r)
}"""

X = np.float32([0, 1, 2, 0, 3])
EMPTY = np.zeros(0, np.float32)
CASES: list[tuple[str, list[Any]]] = [
    (NONZERO, [X]),
    (NONZERO, [np.zeros(3, np.float32)]),
    (NONZERO, [EMPTY]),
    (GROWING, [np.float32([7, 8]), X]),
    (GROWING, [np.float32([7, 8]), EMPTY]),
    (SWAPPING, [X, np.float32([1, 2, 3])]),
    (SWAPPING, [EMPTY, np.float32([1, 2, 3])]),
    *((BRANCHES, [np.int32(index), X]) for index in (-1, 0, 1, 2, 7)),
]


def leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_stages_give_what_the_evaluator_gives(case: int) -> None:
    text, arguments = CASES[case]
    module = parse_hlo(text)
    wanted = leaves(evaluate(module, arguments))
    executable = ingot.compile(module)
    assert isinstance(executable, StagedExecutable)
    for _ in range(3):
        found = leaves(executable(*arguments))
        for have, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(have, want, strict=True)


@pytest.mark.parametrize("text", [NONZERO, GROWING, SWAPPING, BRANCHES])
def test_texts_round_trip(text: str) -> None:
    module = parse_hlo(text)
    assert print_module(parse_hlo(print_module(module))) == print_module(module)


def test_nothing_is_left_allocated() -> None:
    programs = [(ingot.compile(parse_hlo(text)), arguments) for text, arguments in CASES]
    for executable, arguments in programs:
        executable(*arguments)
    before = allocator_statistics().bytes_in_use
    for _ in range(20):
        for executable, arguments in programs:
            executable(*arguments)
    assert allocator_statistics().bytes_in_use == before


NEGATIVE = """HloModule negative
ENTRY main {
  k = KIND[] parameter(0)
  x = f32[?m] parameter(1)
  y = f32[?m] negate(x)
  n = pred[?n] custom-call(k), custom_call_target="ingot.size"
  i = s32[?n] iota(), iota_dimension=0
  ROOT r = (s32[?n], f32[?m]) tuple(i, y)
}"""


@pytest.mark.parametrize("kind", ["s8", "s16", "s32", "s64", "u8", "u32", "u64"])
def test_every_integer_may_be_a_size(kind: str) -> None:
    executable = ingot.compile(parse_hlo(NEGATIVE.replace("KIND", kind)))
    dtype = np.dtype({"s": "int", "u": "uint"}[kind[0]] + kind[1:])
    numbers, _ = executable(dtype.type(5), X)
    np.testing.assert_array_equal(numbers, np.arange(5, dtype=np.int32), strict=True)


def test_a_negative_size_is_an_error_and_leaves_nothing() -> None:
    module = parse_hlo(NEGATIVE.replace("KIND", "s32"))
    executable = ingot.compile(module)
    before = allocator_statistics().bytes_in_use
    for run in (lambda *given: evaluate(module, given), executable):
        with pytest.raises(ExecutionError, match="size is never negative") as caught:
            run(np.int32(-3), X)
        assert caught.value.diagnostic.code == "INGOT0516"
    assert allocator_statistics().bytes_in_use == before
    assert executable(np.int32(2), X)[0].shape == (2,)


def test_a_size_is_defined_once() -> None:
    text = NEGATIVE.replace("KIND", "s32").replace(
        "i = s32", 'again = pred[?n] custom-call(k), custom_call_target="ingot.size"\n  i = s32'
    )
    for run in (ingot.compile, lambda module: evaluate(module, [np.int32(1), X])):
        with pytest.raises(VerifyError, match="defined twice") as caught:
            run(parse_hlo(text))
        assert caught.value.diagnostic.code == "INGOT0219"


CHANGING = """HloModule changing
cond {
  s = (s32[], f32[?k]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  l = s32[] constant(4)
  ROOT c = pred[] compare(i, l), direction=LT
}
body {
  s = (s32[], f32[?k]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  z = f32[] constant(3)
  b = f32[2] broadcast(z), dimensions={}
  ROOT t = (s32[], f32[2]) tuple(j, b)
}
ENTRY main {
  z = s32[] constant(0)
  x = f32[?k] parameter(0)
  t = (s32[], f32[?k]) tuple(z, x)
  w = (s32[], f32[?k]) while(t), condition=cond, body=body
  ROOT r = f32[?k] get-tuple-element(w), index=1
}"""

CHOOSING = """HloModule choosing
same { ROOT x = f32[?k] parameter(0) }
other {
  x = f32[?k] parameter(0)
  z = f32[] constant(3)
  ROOT b = f32[2] broadcast(z), dimensions={}
}
ENTRY main {
  p = pred[] parameter(0)
  x = f32[?k] parameter(1)
  ROOT r = f32[?k] conditional(p, x, x), true_computation=same, false_computation=other
}"""


@pytest.mark.parametrize("text", [CHANGING, CHOOSING])
def test_a_size_from_outside_is_the_same_after_loops_and_branches(text: str) -> None:
    with pytest.raises(VerifyError, match="changes a size that comes from outside") as caught:
        parse_hlo(text)
    assert caught.value.diagnostic.code == "INGOT0219"
    renamed = text.replace("s = (s32[], f32[?k])", "s = (s32[], f32[?n])")
    renamed = renamed.replace("w = (s32[], f32[?k])", "w = (s32[], f32[?n])")
    module = parse_hlo(renamed.replace("r = f32[?k]", "r = f32[?n]"))
    inputs = [X] if text is CHANGING else [np.False_, X]
    np.testing.assert_array_equal(ingot.compile(module)(*inputs), [3, 3], strict=False)
    np.testing.assert_array_equal(evaluate(module, inputs), [3, 3], strict=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pred[?n] custom-call", "s32[?n] custom-call"),
        ("pred[?n] custom-call", "pred[?n,?n] custom-call"),
        ("pred[?n] custom-call", "pred[7] custom-call"),
        ("k = s32[]", "k = f32[]"),
        ("k = s32[]", "k = s32[2]"),
    ],
)
def test_definitions_are_checked(old: str, new: str) -> None:
    with pytest.raises(ingot.IngotError, match="size"):
        ingot.compile(parse_hlo(NEGATIVE.replace("KIND", "s32").replace(old, new)))


ENDLESS = """HloModule endless
cond {
  s = (f32[?m]) parameter(0)
  ROOT c = pred[] constant(true)
}
body {
  s = (f32[?m]) parameter(0)
  a = f32[?m] get-tuple-element(s), index=0
  k = s32[] constant(1)
  n = pred[?n] custom-call(k), custom_call_target="ingot.size"
  z = f32[] constant(0)
  row = f32[?n] broadcast(z), dimensions={}
  ROOT t = (f32[?n]) tuple(row)
}
ENTRY main {
  x = f32[2] parameter(0)
  init = (f32[2]) tuple(x)
  w = (f32[?m]) while(init), condition=cond, body=body
  ROOT r = f32[?m] get-tuple-element(w), index=0
}"""


def test_an_endless_loop_can_be_ended() -> None:
    executable = ingot.compile(parse_hlo(ENDLESS))
    before = allocator_statistics().bytes_in_use
    with pytest.raises(ExecutionError) as caught:
        executable.run(np.float32([1, 2]), cancellation=Cancellation(seconds=0.2))
    assert caught.value.diagnostic.code == "INGOT0511"
    assert allocator_statistics().bytes_in_use == before
