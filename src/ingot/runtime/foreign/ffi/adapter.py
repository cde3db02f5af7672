# SPDX-License-Identifier: Apache-2.0
"""Emits the code between Ingot's frame and an XLA FFI handler's, for one call site.

Invariant: everything that changes from call to call is on the adapter's stack, so that several
threads may run one program; attributes and the API table are shared and never written.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import Value
from ingot.runtime.foreign.ffi.records import (
    ARGS,
    ATTRS,
    BUFFER,
    CALL_FRAME,
    CALL_FRAME_SIZE,
    CONTEXT,
    DATA_TYPES,
    Stage,
)
from ingot.runtime.foreign.frames import Argument, read_frame
from ingot.semantics.custom_calls import CallSite

SYMBOL = "call"
_BUFFER_TYPE = 1


def emit_adapter(call: CallSite, stages: Sequence[Stage], site: int) -> str:
    """Return the module's text; it imports `ffi_api`, `ffi_attributes`, `ffi_finish`, `ffi_*`."""
    module = ModuleBuilder("ffi.adapter")
    f = module.function(SYMBOL, I32, [("frame", PTR)])
    runtime, operands, results = read_frame(f, f.params[0], call)
    context = f.alloca(I64, CONTEXT.size // 8)
    CONTEXT.store(f, context, "runtime", runtime)
    CONTEXT.store(f, context, "site", f.const(I64, site))
    frame = f.alloca(I64, CALL_FRAME.size // 8)
    CALL_FRAME.store(f, frame, "struct_size", f.const(I64, CALL_FRAME_SIZE))
    CALL_FRAME.store(f, frame, "extension_start", f.zero(PTR))
    CALL_FRAME.store(f, frame, "api", _symbol(f, "ffi_api"))
    CALL_FRAME.store(f, frame, "ctx", context)
    _emit_side(f, CALL_FRAME.address(f, frame, "args"), operands)
    _emit_side(f, CALL_FRAME.address(f, frame, "rets"), results)
    attributes = CALL_FRAME.address(f, frame, "attrs")
    f.memcpy(attributes, _symbol(f, "ffi_attributes"), ATTRS.size)
    for stage in stages:
        _emit_stage(f, frame, stage)
    f.ret(f.const(I32, 0))
    return module.text()


def _emit_stage(f: FunctionBuilder, frame: Value, stage: Stage) -> None:
    CALL_FRAME.store(f, frame, "stage", f.const(I32, int(stage)))
    CALL_FRAME.store(f, frame, "future", f.zero(PTR))
    handler = f.module.declare(f"ffi_{stage.name.lower()}", PTR, [PTR])
    error = f.call(handler, [frame])
    future = CALL_FRAME.load(f, frame, "future")
    null = f.zero(PTR)
    unusual = f.or_(f.icmp("ne", error, null), f.icmp("ne", future, null))

    def finish() -> None:
        finished = f.call(f.module.declare("ffi_finish", I32, [PTR, PTR]), [error, future])
        f.if_(f.icmp("ne", finished, f.zero(I32)), lambda: f.ret(finished))

    f.if_(unusual, finish, likely=False)


def _emit_side(f: FunctionBuilder, record: Value, arguments: Sequence[Argument]) -> None:
    """Emit the buffers of operands or results, and the XLA_FFI_Args at `record`."""
    count = max(1, len(arguments))
    types, pointers = f.alloca(I32, count), f.alloca(PTR, count)
    for number, argument in enumerate(arguments):
        f.store(f.const(I32, _BUFFER_TYPE), f.gep(types, number, I32))
        f.store(_emit_buffer(f, argument), f.gep(pointers, number, PTR))
    ARGS.store(f, record, "struct_size", f.const(I64, ARGS.size))
    ARGS.store(f, record, "extension_start", f.zero(PTR))
    ARGS.store(f, record, "size", f.const(I64, len(arguments)))
    ARGS.store(f, record, "types", types)
    ARGS.store(f, record, "args", pointers)


def _emit_buffer(f: FunctionBuilder, argument: Argument) -> Value:
    dims = f.alloca(I64, max(1, len(argument.dims)))
    for number, size in enumerate(argument.dims):
        f.store(f.as_value(size), f.gep(dims, number, I64))
    buffer = f.alloca(I64, BUFFER.size // 8)
    fields = {
        "struct_size": f.const(I64, BUFFER.size),
        "extension_start": f.zero(PTR),
        "dtype": f.const(I32, DATA_TYPES[argument.shape.dtype.name]),
        "data": argument.data,
        "rank": f.const(I64, len(argument.dims)),
        "dims": dims,
    }
    for name, value in fields.items():
        BUFFER.store(f, buffer, name, value)
    return buffer


def _symbol(f: FunctionBuilder, name: str) -> Value:
    return Value(PTR, f.module.declare(name, VOID, []).text)
