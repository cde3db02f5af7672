# SPDX-License-Identifier: Apache-2.0
"""Foreign calls from compiled programs: frames, aliases, tokens, symbolic sizes, failures."""

import ctypes

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.runtime.foreign.errors import set_error, take_error
from ingot.runtime.records import CALL_FRAME, RUNTIME
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target
from ingot.support.diagnostics import ExecutionError, UnsupportedError, VerifyError

HANDLER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


def addresses(table, count):
    return list((ctypes.c_void_p * count).from_address(table)) if count else []


def python_link(function):
    """Return a `link` that calls `function(call, runtime, operand arrays, result arrays)`."""

    def arrays(shapes, data, dims):
        found = []
        for shape, pointer, sizes in zip(shapes, data, dims, strict=True):
            if pointer is None:
                found.append(None)
                continue
            size = list((ctypes.c_int64 * shape.rank).from_address(sizes))
            count = int(np.prod(size, dtype=np.int64)) * shape.dtype.numpy.itemsize
            raw = (ctypes.c_uint8 * count).from_address(pointer)
            found.append(np.frombuffer(raw, shape.dtype.numpy).reshape(size))
        return found

    def link(call: CallSite) -> LinkedCall:
        def handle(frame):
            field = lambda name: CALL_FRAME.read(frame, name)  # noqa: E731
            operands, results = len(call.operands), len(call.results)
            given = arrays(
                call.operands,
                addresses(field("operands"), operands),
                addresses(field("operand_dims"), operands),
            )
            made = arrays(
                call.results,
                addresses(field("results"), results),
                addresses(field("result_dims"), results),
            )
            return function(call, field("runtime"), given, made)

        handler = HANDLER(handle)
        return LinkedCall(ctypes.cast(handler, ctypes.c_void_p).value or 0, handler)

    return link


@pytest.fixture
def target():
    """Registers targets for one test."""
    made = []

    def register(name, evaluated=None, linked=None):
        made.append(name)
        link = python_link(linked) if linked else None
        custom_calls.register(Target(name, evaluate=evaluated, link=link))

    yield register
    for name in made:
        custom_calls._targets.pop(name, None)


def test_between_kernels(target):
    def twice(call, runtime, operands, results):
        results[0][...] = operands[0] * 2
        return 0

    target("test.twice", lambda call, x: (x * 2,), twice)
    module = ingot.parse_hlo("""HloModule m
        ENTRY e {
          p = f32[5] parameter(0)
          a = f32[5] add(p, p)
          c = f32[5] custom-call(a), custom_call_target="test.twice"
          ROOT r = f32[5] multiply(c, p)
        }""")
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(ingot.compile(module)(x), 4 * x * x)
    np.testing.assert_array_equal(evaluate(module, [x]), 4 * x * x)


def test_tuples_tokens_and_config(target):
    seen = []

    def split(call, runtime, operands, results):
        seen.append(
            (call.config, operands[1] is None, results[2] is None, RUNTIME.read(runtime, "replica"))
        )
        results[0][...] = operands[0][0]
        results[1][...] = operands[0][1]
        return 0

    target("test.split", lambda call, x: (x[0], x[1]), split)
    module = ingot.parse_hlo(r"""HloModule m
        ENTRY e {
          p = s32[2,3] parameter(0)
          t = token[] after-all()
          c = (s32[3], s32[3], token[]) custom-call(p, t), custom_call_target="test.split",
            custom_call_has_side_effect=true, backend_config="{name = \"x\"}"
          a = s32[3] get-tuple-element(c), index=0
          b = s32[3] get-tuple-element(c), index=1
          ROOT r = s32[3] subtract(a, b)
        }""")
    x = np.array([[5, 6, 7], [1, 2, 3]], np.int32)
    np.testing.assert_array_equal(ingot.compile(module)(x), x[0] - x[1])
    assert seen == [('{name = "x"}', True, True, 0)]
    np.testing.assert_array_equal(evaluate(module, [x]), x[0] - x[1])


def test_aliased_result_starts_as_the_operand(target):
    def touch(call, runtime, operands, results):
        results[0][0] = -1
        return 0

    target("test.touch", linked=touch)
    module = ingot.parse_hlo("""HloModule m
        ENTRY e {
          p = f32[4] parameter(0)
          c = f32[4] custom-call(p), custom_call_target="test.touch",
            output_to_operand_aliasing={{}: (0, {})}
          ROOT r = (f32[4], f32[4]) tuple(c, p)
        }""")
    x = np.array([1, 2, 3, 4], np.float32)
    changed, kept = ingot.compile(module)(x)
    np.testing.assert_array_equal(changed, [-1, 2, 3, 4])
    np.testing.assert_array_equal(kept, [1, 2, 3, 4])
    np.testing.assert_array_equal(x, [1, 2, 3, 4])


def test_symbolic_sizes_are_known_at_the_call(target):
    def total(call, runtime, operands, results):
        results[0][...] = operands[0].sum()
        return 0

    target("test.total", linked=total)
    module = ingot.parse_hlo("""HloModule m
        ENTRY e {
          p = f32[?n,3] parameter(0)
          ROOT c = f32[] custom-call(p), custom_call_target="test.total"
        }""")
    program = ingot.compile(module)
    for rows in (0, 1, 7):
        assert program(np.ones((rows, 3), np.float32)) == 3 * rows


def test_failure_ends_the_execution(target):
    def refuse(call, runtime, operands, results):
        if operands[0][()] < 0:
            set_error("negative", ValueError("negative"))
            return 1
        results[0][...] = operands[0]
        return 0

    target("test.refuse", linked=refuse)
    program = ingot.compile(
        ingot.parse_hlo("""HloModule m
        ENTRY e {
          p = f32[] parameter(0)
          ROOT c = f32[] custom-call(p), custom_call_target="test.refuse",
            metadata={op_name="f/g" source_file="user.py" source_line=7}
        }""")
    )
    assert program(np.float32(2)) == 2
    with pytest.raises(ExecutionError, match=r"(?s)test.refuse.*negative") as raised:
        program(np.float32(-2))
    assert "user.py:7" in str(raised.value)
    assert isinstance(raised.value.__cause__, ValueError)
    assert take_error() is None
    assert program(np.float32(3)) == 3


def test_unknown_target_is_refused_when_compiling(target):
    target("test.known", linked=lambda *_: 0)
    module = ingot.parse_hlo("""HloModule m
        ENTRY e { ROOT c = f32[] custom-call(), custom_call_target="nobody" }""")
    with pytest.raises(UnsupportedError, match=r"(?s)INGOT0332.*'nobody'.*test.known"):
        ingot.compile(module)


def test_a_result_cannot_share_memory_that_is_not_there() -> None:
    text = """HloModule m
ENTRY e { p = f32[4] parameter(0)
  ROOT s = f32[4] custom-call(p), custom_call_target="t",
    output_to_operand_aliasing={{3}: (7, {})} }"""
    with pytest.raises(VerifyError, match="operand 7"):
        ingot.parse_hlo(text)
