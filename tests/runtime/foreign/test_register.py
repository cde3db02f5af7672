# SPDX-License-Identifier: Apache-2.0
"""Targets of the user's: Python functions and native functions, through whole programs."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.support.diagnostics import ExecutionError, UnsupportedError

TEXT = """
HloModule m

ENTRY main {
  x = f32[?n,3] parameter(0)
  y = f32[?n,3] parameter(1)
  sum = f32[?n,3] add(x, y)
  call = (f32[?n,3]{0,1}, s32[]) custom-call(sum, y), custom_call_target="TARGET",
    operand_layout_constraints={f32[?n,3]{0,1}, f32[?n,3]{1,0}}, api_version=API_VERSION_TYPED_FFI,
    backend_config={scale = 2.5 : f32, tag = "hey"},
    metadata={op_name="mine" source_file="user.py" source_line=3}
  first = f32[?n,3] get-tuple-element(call), index=0
  second = s32[] get-tuple-element(call), index=1
  negated = f32[?n,3] negate(first)
  ROOT result = (f32[?n,3], s32[]) tuple(negated, second)
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.ones((2, 3), np.float32)


def module(name: str) -> Any:
    return ingot.parse_hlo(TEXT.replace("TARGET", name))


def test_a_python_function() -> None:
    seen: list[Any] = []

    def function(x: Any, y: Any, *, scale: float, tag: str) -> Any:
        seen.append((x.flags.writeable, tag))
        return x * scale + y, np.int32(x.shape[0])

    ingot.register_custom_call_target("test.scaled", function)
    expected = -((X + Y) * 2.5 + Y)
    for found in (
        evaluate(module("test.scaled"), (X, Y)),
        ingot.compile(module("test.scaled"))(X, Y),
    ):
        np.testing.assert_array_equal(found[0], expected)
        assert found[1] == 2
    assert seen == [(False, "hey")] * 2


def test_its_exception_ends_the_execution_and_only_that() -> None:
    state = {"fail": True}

    def function(x: Any, y: Any, **_: Any) -> Any:
        if state["fail"]:
            raise ValueError("not today")
        return x, 1

    ingot.register_custom_call_target("test.fails", function)
    executable = ingot.compile(module("test.fails"))
    with pytest.raises(ExecutionError, match="not today") as caught:
        executable(X, Y)
    text = str(caught.value)
    assert "test_register.py" in text
    assert text.index("not today") < text.index("node: mine") < text.index("at: user.py:3\n")
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ExecutionError, match="not today"):
        evaluate(module("test.fails"), (X, Y))
    state["fail"] = False
    np.testing.assert_array_equal(executable(X, Y)[0], -(X + Y))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x: x, "2 results are wanted"),
        (lambda x: (x.T, 1), "has shape"),
        (lambda x: (x * 1j, 1), "has elements complex"),
        (lambda x: (np.zeros((5, 3), np.float32), 1), "shape"),
    ],
)
def test_a_result_that_does_not_fit(result: Any, message: str) -> None:
    ingot.register_custom_call_target("test.unfit", lambda x, y, **_: result(x))
    with pytest.raises(ExecutionError, match=message):
        ingot.compile(module("test.unfit"))(X, Y)


def test_a_text_that_is_no_dictionary() -> None:
    text = """
HloModule m

ENTRY main {
  x = s32[] parameter(0)
  ROOT y = s32[] custom-call(x), custom_call_target="test.text", backend_config="any text"
}
"""
    ingot.register_custom_call_target(
        "test.text", lambda x, *, backend_config: x + len(backend_config)
    )
    assert ingot.compile(ingot.parse_hlo(text))(np.int32(1)) == 9


def test_a_later_registration_is_for_later_programs() -> None:
    ingot.register_custom_call_target("test.later", lambda x, y, **_: (x, 1))
    before = ingot.compile(module("test.later"))
    ingot.register_custom_call_target("test.later", lambda x, y, **_: (x, 2))
    after = ingot.compile(module("test.later"))
    assert (before(X, Y)[1], after(X, Y)[1]) == (1, 2)


def test_a_native_function_of_the_frame() -> None:
    pointers = ctypes.POINTER(ctypes.c_void_p)

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(pointers))
    def function(frame: Any) -> int:
        source, target = frame[1][0], frame[2][0]
        size = 4 * ctypes.cast(frame[3][0], ctypes.POINTER(ctypes.c_int64))[0] * 3
        ctypes.memmove(target, source, size)
        ctypes.cast(frame[2][1], ctypes.POINTER(ctypes.c_int32))[0] = 7
        return 0

    ingot.register_custom_call_target("test.frame", function, api="frame")
    first, second = ingot.compile(module("test.frame"))(X, Y)
    np.testing.assert_array_equal(first, -(X + Y))
    assert second == 7


def test_values_that_are_no_functions_are_refused() -> None:
    with pytest.raises(TypeError, match="not str"):
        ingot.register_custom_call_target("test.none", "text")
    with pytest.raises(TypeError, match="address of a function"):
        ingot.register_custom_call_target("test.none", object(), api="ffi")


def test_a_name_that_nobody_registered() -> None:
    ingot.register_custom_call_target("test.known", lambda x, y: x)
    with pytest.raises(UnsupportedError, match=r"test\.unknown") as caught:
        ingot.compile(module("test.unknown"))
    assert "user.py:3" in str(caught.value)
    assert "test.known" in str(caught.value)


@pytest.mark.parametrize("function", [None, "not code", 0, lambda: 0, 1.5])
@pytest.mark.parametrize("api", ["frame", "ffi"])
def test_values_without_native_code_are_refused(function: object, api: Any) -> None:
    with pytest.raises(TypeError, match="a native target is"):
        ingot.register_custom_call_target("test_no_code", function, api=api)


def test_unknown_kinds_and_stages_are_refused() -> None:
    with pytest.raises(TypeError, match="'python', 'ffi', 'frame', not 'c'"):
        ingot.register_custom_call_target("test_no_api", print, api="c")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="there is no stage 'launch'"):
        ingot.register_custom_call_target("test_no_stage", {"execute": 8, "launch": 8}, api="ffi")


def test_results_without_elements() -> None:
    ingot.register_custom_call_target("test_same", lambda x: x)
    text = """HloModule m ENTRY e { x = f32[?n] parameter(0)
      ROOT y = f32[?n] custom-call(x), custom_call_target="test_same" }"""
    program = ingot.compile(ingot.parse_hlo(text))
    for count in (2, 0):
        np.testing.assert_array_equal(program(np.ones(count, np.float32)), np.ones(count))


@pytest.mark.parametrize(
    ("target", "hint"),
    [("__cublas$gemm", "before_optimizations"), ("mine", "register_custom_call_target")],
)
def test_calls_that_xla_makes_itself_say_so(target: str, hint: str) -> None:
    text = f"""HloModule call
    ENTRY e {{ x = f32[3] parameter(0)
      ROOT y = f32[3] custom-call(x), custom_call_target="{target}" }}"""
    module = ingot.parse_hlo(text)
    for run in (ingot.compile, lambda given: evaluate(given, [np.zeros(3, "f")])):
        with pytest.raises(UnsupportedError) as caught:
            run(module)
        assert hint in caught.value.diagnostic.hint
