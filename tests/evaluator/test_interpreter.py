# SPDX-License-Identifier: Apache-2.0
"""The interpreter: symbolic sizes, arguments that do not fit, limits, single instructions."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate, evaluate_computation, evaluate_instruction
from ingot.formats.hlo_text import parse
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import (
    ExecutionError,
    InternalError,
    ResourceError,
    UnsupportedError,
    VerifyError,
)


def _module(builder: Builder, root: object) -> Module:
    return Module.of("m", builder.build(root))  # type: ignore[arg-type]


def test_symbolic_sizes_come_from_the_arguments() -> None:
    b = Builder("main")
    x = b.parameter(0, "f32[?n,3]")
    module = _module(b, b.broadcast_to(b.constant(2, "f32"), (*x.shape.dims, x.shape.dims[0])))
    for rows in (0, 1, 4):
        result = evaluate(module, [np.zeros((rows, 3), np.float32)])
        assert isinstance(result, np.ndarray)
        assert result.shape == (rows, 3, rows)


def test_derived_sizes_are_computed() -> None:
    b = Builder("main")
    x = b.parameter(0, "s32[?n]")
    module = _module(
        b, b.concatenate(x, b.slice(x, slice=((1, x.shape.dims[0], 1),)), dimensions=(0,))
    )
    result = evaluate(module, [np.arange(4, dtype=np.int32)])
    np.testing.assert_array_equal(result, [0, 1, 2, 3, 1, 2, 3])


def test_one_symbol_has_one_value() -> None:
    b = Builder("main")
    x, y = b.parameter(0, "f32[?n]"), b.parameter(1, "f32[?n]")
    module = _module(b, b.add(x, y))
    with pytest.raises(VerifyError, match="INGOT0252"):
        evaluate(module, [np.zeros(3, np.float32), np.zeros(4, np.float32)])


@pytest.mark.parametrize(
    "wrong", [np.zeros(3, np.float32), np.zeros(2, np.float64), (np.zeros(2, np.float32),)]
)
def test_argument_that_does_not_fit(wrong: object) -> None:
    b = Builder("main")
    module = _module(b, b.negate(b.parameter(0, "f32[2]")))
    with pytest.raises(VerifyError, match="INGOT0252"):
        evaluate(module, [wrong])  # type: ignore[list-item]


def test_number_of_arguments() -> None:
    computation = scalar_computation("add", "f32")
    with pytest.raises(VerifyError, match="takes 2 inputs, got 1"):
        evaluate_computation(computation, [np.float32(1)])  # type: ignore[list-item]


_FOREVER = """HloModule m
cond { s = s32[] parameter(0) ROOT t = pred[] constant(true) }
body { s = s32[] parameter(0) ROOT n = s32[] negate(s) }
ENTRY main { x = s32[] parameter(0) ROOT w = s32[] while(x), condition=cond, body=body }"""


def test_step_limit_ends_a_loop() -> None:
    with pytest.raises(ResourceError, match="INGOT0251"):
        evaluate(parse(_FOREVER), [np.array(1, np.int32)], step_limit=10)


def test_step_limit_counts_nested_loops_together() -> None:
    text = """HloModule m
c0 { s = s32[] parameter(0) n = s32[] constant(6) ROOT t = pred[] compare(s, n), direction=LT }
b0 { s = s32[] parameter(0) n = s32[] constant(1) ROOT t = s32[] add(s, n) }
ENTRY main {
  x = s32[] parameter(0)
  a = s32[] while(x), condition=c0, body=b0
  z = s32[] multiply(a, x)
  ROOT b = s32[] while(z), condition=c0, body=b0
}"""
    inputs = [np.array(0, np.int32)]
    assert evaluate(parse(text), inputs, step_limit=12) == 6
    with pytest.raises(ResourceError):
        evaluate(parse(text), inputs, step_limit=11)


def test_single_instruction() -> None:
    b = Builder("f")
    x = b.parameter(0, "f32[3]")
    total = b.reduce(x, b.constant(0, "f32"), dimensions=(0,),
                     to_apply=scalar_computation("add", "f32"))  # fmt: skip
    value = evaluate_instruction(total, [np.float32([1, 2, 3]), np.array(0, np.float32)])
    assert value == 6


def test_single_instruction_with_sizes() -> None:
    b = Builder("f")
    x = b.parameter(0, "f32[?n]")
    wide = b.broadcast_to(b.constant(1, "f32"), x.shape.dims)
    result = evaluate_instruction(wide, [np.array(1, np.float32)], sizes={"n": 5})
    assert isinstance(result, np.ndarray)
    assert result.shape == (5,)


def test_result_is_held_against_the_declared_shape() -> None:
    b = Builder("f")
    x = b.parameter(0, "f32[3]")
    y = b.negate(x)
    b.build(y).set_shape(y, Shape.array("f32", (4,)))
    with pytest.raises(InternalError, match="declared f32"):
        evaluate_computation(b.computation, [np.zeros(3, np.float32)])


def test_unknown_custom_call_is_named() -> None:
    b = Builder("f")
    x = b.parameter(0, "f32[3]")
    call = b.custom_call(x, shape="f32[3]", custom_call_target="my_kernel")
    with pytest.raises(UnsupportedError, match="my_kernel"):
        evaluate_computation(b.build(call), [np.zeros(3, np.float32)])


def test_computations_that_are_not_elementwise_are_called_per_element() -> None:
    text = """HloModule m
even { a = s32[] parameter(0) ROOT n = s32[] negate(a) }
odd { a = s32[] parameter(0) ROOT n = s32[] copy(a) }
f {
  a = s32[] parameter(0)
  two = s32[] constant(2)
  r = s32[] remainder(a, two)
  ROOT c = s32[] conditional(r, a, a), branch_computations={even, odd}
}
ENTRY main { x = s32[5] parameter(0) ROOT y = s32[5] map(x), dimensions={0}, to_apply=f }"""
    result = evaluate(parse(text), [np.arange(5, dtype=np.int32)])
    np.testing.assert_array_equal(result, [0, 1, -2, 3, -4])


@pytest.mark.parametrize("target", ["Sharding", "MoveToHost", "LayoutConstraint", "ShardBarrierTo"])
def test_annotations_hand_on_their_operand(target: str) -> None:
    text = (
        "HloModule m ENTRY e { x = f32[2] parameter(0) "
        f'y = f32[2] custom-call(x), custom_call_target="{target}" ROOT r = f32[2] add(x, y) }}'
    )
    module, value = parse(text), np.float32([1, 2])
    assert np.asarray(evaluate(module, [value])).tolist() == [2, 4]
    assert np.asarray(ingot.compile(module)(value)).tolist() == [2, 4]


@pytest.mark.parametrize(("direction", "want"), [("GT", [5, 3]), ("LT", [1, 2])])
def test_top_k_of_xlas_client_library(direction: str, want: list[int]) -> None:
    text = f"""HloModule m
compare {{ a = s32[] parameter(0) b = s32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction={direction} }}
ENTRY e {{ x = s32[4] parameter(0) ROOT t = (s32[2], s32[2]) custom-call(x),
  custom_call_target="TopK", called_computations={{compare}} }}"""
    module, value = parse(text), np.int32([3, 1, 5, 2])
    for found in (evaluate(module, [value]), ingot.compile(module)(value)):
        assert np.asarray(found[0]).tolist() == want


def test_comparators_of_calls_and_bits_are_applied_to_all_elements_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = """HloModule m
key { a = bf16[] parameter(0) f = f32[] convert(a) ROOT i = s32[] bitcast-convert(f) }
total {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  i = s32[] call(a), to_apply=key
  j = s32[] call(b), to_apply=key
  ROOT less = pred[] compare(i, j), direction=LT
}
ENTRY main { x = bf16[64] parameter(0) ROOT y = bf16[64] sort(x), dimensions={0}, to_apply=total }
"""
    module = parse(text)
    value = np.random.default_rng(0).random(64).astype(module.parameter_shapes[0].dtype.numpy)
    monkeypatch.setattr("ingot.evaluator.pointwise._by_element", None)
    np.testing.assert_array_equal(evaluate(module, [value]), np.sort(value))


def test_a_device_that_is_alone_waits_for_nobody() -> None:
    text = """HloModule m
ENTRY e {
  t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), channel_id=1
  d = (f32[2], token[]) recv-done(r), channel_id=1
  ROOT y = f32[2] get-tuple-element(d), index=0
}"""
    with pytest.raises(ExecutionError, match="did not meet"):
        evaluate(parse(text), [])
