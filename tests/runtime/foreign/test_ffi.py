# SPDX-License-Identifier: Apache-2.0
"""XLA FFI handlers: one emitted here, which reads what it is given, and those of jaxlib."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from tests.runtime.foreign.calls import adjoint, matrices, register_lapack

import ingot
from ingot.evaluator import evaluate
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, I32, I64, PTR
from ingot.llvm.values import Value
from ingot.native.layout import Field, Record
from ingot.runtime.foreign.ffi.api import API, tables
from ingot.runtime.foreign.ffi.records import ARGS, ATTRS, BUFFER, CALL_FRAME, METADATA
from ingot.semantics import custom_calls
from ingot.support.diagnostics import ExecutionError, UnsupportedError

ERROR = Record(
    "Error",
    Field("size", "i64"),
    Field("next", "ptr"),
    Field("message", "ptr"),
    Field("code", "i32"),
)


def item(f: FunctionBuilder, base: Value, number: int) -> Value:
    """Emit base[number] of pointers."""
    return f.load(PTR, f.gep(base, number, PTR))


def emit_version(f: FunctionBuilder, frame: Value, major: int) -> None:
    """Emit the answer to the question for the version."""
    extension = CALL_FRAME.load(f, frame, "extension_start")

    def answer() -> None:
        metadata = f.load(PTR, f.gep(extension, 24))
        METADATA.store(f, metadata, "major_version", f.const(I32, major))
        METADATA.store(f, metadata, "minor_version", f.const(I32, 3))
        f.ret(f.zero(PTR))

    f.if_(f.icmp("ne", extension, f.zero(PTR)), answer)


def handler(major: int = 0) -> Any:
    """Return y[i] = x[i] * scale (attribute), or an error if the scale is negative."""
    module = ModuleBuilder("handler")
    f = module.function("handler", PTR, [("frame", PTR)])
    (frame,) = f.params
    emit_version(f, frame, major)
    attrs = CALL_FRAME.address(f, frame, "attrs")
    scale = item(f, ATTRS.load(f, attrs, "attrs"), 0)
    factor = f.load(F32, f.load(PTR, f.gep(scale, 8)))

    def fail() -> None:
        arguments = f.alloca(I64, ERROR.size // 8)
        ERROR.store(f, arguments, "message", module.global_bytes("text", b"negative scale\0"))
        ERROR.store(f, arguments, "code", f.const(I32, 3))
        create = API.load(f, CALL_FRAME.load(f, frame, "api"), "Error_Create")
        f.ret(f.call_indirect(create, PTR, [PTR], [arguments]))

    f.if_(f.fcmp("olt", factor, f.zero(F32)), fail)
    x = item(f, ARGS.load(f, CALL_FRAME.address(f, frame, "args"), "args"), 0)
    y = item(f, ARGS.load(f, CALL_FRAME.address(f, frame, "rets"), "args"), 0)
    dims = BUFFER.load(f, x, "dims")
    count = f.mul(f.load(I64, dims), f.load(I64, f.gep(dims, 1, I64)))

    def scaled(place: Value) -> None:
        value = f.load(F32, f.gep(BUFFER.load(f, x, "data"), place, F32))
        f.store(f.mul(value, factor), f.gep(BUFFER.load(f, y, "data"), place, F32))

    f.for_range(count, scaled)
    f.ret(f.zero(PTR))
    return link_object([compile_object(module.text(), TargetSpec.host())])


TEXT = """
HloModule m

ENTRY main {
  x = f32[?n,3] parameter(0)
  ROOT y = f32[?n,3] custom-call(x), custom_call_target="TARGET",
    api_version=API_VERSION_TYPED_FFI, backend_config={scale = SCALE : f32}
}
"""


def program(name: str, scale: float) -> Any:
    return ingot.parse_hlo(TEXT.replace("TARGET", name).replace("SCALE", str(scale)))


def test_a_handler() -> None:
    library = handler()
    ingot.register_custom_call_target("test.ffi", library.address("handler"), api="ffi")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(ingot.compile(program("test.ffi", 2.0))(x), 2 * x)
    np.testing.assert_array_equal(evaluate(program("test.ffi", 2.0), (x,)), 2 * x)
    with pytest.raises(ExecutionError, match=r"INVALID_ARGUMENT: negative scale"):
        ingot.compile(program("test.ffi", -2.0))(x)
    assert not tables().errors


def test_a_handler_of_another_version() -> None:
    library = handler(major=7)
    with pytest.raises(UnsupportedError, match=r"version 7\.3"):
        ingot.register_custom_call_target("test.old", library.address("handler"), api="ffi")
    with pytest.raises(UnsupportedError, match="'execute'"):
        ingot.register_custom_call_target("test.none", {}, api="ffi")


def test_stages_and_state() -> None:
    """`instantiate` runs once per call site, `prepare` and `initialize` at each execution."""
    seen: list[int] = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    def record(address: int) -> int:
        frame = CALL_FRAME.structure.from_address(address)
        if not frame.extension_start:
            seen.append(frame.stage)
        return 0

    stages = dict.fromkeys(("instantiate", "prepare", "initialize", "execute"), record)
    ingot.register_custom_call_target("test.stages", stages, api="ffi")
    executable = ingot.compile(program("test.stages", 1.0))
    x = np.zeros((1, 3), np.float32)
    executable(x)
    executable(x)
    assert seen == [0, 1, 2, 3, 1, 2, 3]


lapack = pytest.importorskip("jaxlib.cpu._lapack")


@pytest.mark.parametrize("element", ["s", "d", "c", "z"])
def test_jaxlibs_handlers_agree_to_the_bit(element: str) -> None:
    """Both call the same LAPACK, so what differs would be a mistake in an adapter."""
    lapack.initialize()
    register_lapack()
    name = f"lapack_{element}potrf_ffi"
    ingot.register_custom_call_target(f"test.{name}", lapack.registrations()[name], api="ffi")
    kind = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}[element]
    text = f"""
HloModule m

ENTRY main {{
  x = {kind}[2,9,9] parameter(0)
  ROOT y = ({kind}[2,9,9]{{1,2,0}}, s32[2]{{0}}) custom-call(x), custom_call_target="TARGET",
    operand_layout_constraints={{{kind}[2,9,9]{{1,2,0}}}}, api_version=API_VERSION_TYPED_FFI,
    backend_config={{uplo = 76 : ui8}}
}}
"""
    x = matrices(kind, (2, 9, 9))
    x = x @ adjoint(x) + 9 * np.eye(9, dtype=x.dtype)
    ours, theirs = (
        ingot.compile(ingot.parse_hlo(text.replace("TARGET", target)))(x)
        for target in (name, f"test.{name}")
    )
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert custom_calls.find(name) is not None


def test_jaxlibs_errors_arrive() -> None:
    lapack.initialize()
    capsule = lapack.registrations()["lapack_spotrf_ffi"]
    ingot.register_custom_call_target("test.potrf", capsule, api="ffi")
    executable = ingot.compile(program("test.potrf", 1.0))
    with pytest.raises(ExecutionError, match=r"INVALID_ARGUMENT.*expected 2"):
        executable(np.eye(3, dtype=np.float32))
