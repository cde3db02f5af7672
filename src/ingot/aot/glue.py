# SPDX-License-Identifier: Apache-2.0
"""The C functions of an artifact: what stands between a C caller and the execution ABI.

Second to last step of `build`. For a program `S`: `S_prepare` and `S_execute` (any sizes), `S`
(known sizes), `S_error_msg`, `S_metadata`. They are baseline code, so that they can say that the
CPU lacks what the program needs. The runtime record lies on the caller's stack: no state is shared,
any number of threads may call.

Invariant: of the C library nothing is called but `aligned_alloc` and `free`.
"""

from __future__ import annotations

from ingot.aot.cpu_check import emit_cpu_check
from ingot.artifact.abi import DATA_ALIGNMENT, ProgramInfo
from ingot.artifact.metadata import OUT_OF_MEMORY, WRONG_CPU, Metadata, messages
from ingot.llvm.builder import FunctionBuilder, FunctionRef, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID, Type
from ingot.llvm.values import Value, zero
from ingot.runtime.records import RUNTIME

LIBRARY_METADATA = "ingot_aot_metadata"
"""Under this name a shared library has its metadata, whatever its programs are called."""

_CALL = [("args", PTR), ("results", PTR), ("sizes", PTR)]
_POOL = [("parallel", PTR), ("pool", PTR)]


def constants_symbol(symbol: str) -> str:
    """Return the symbol of a program's constant block."""
    return f"{symbol}_constants"


def public_functions(metadata: Metadata) -> tuple[str, ...]:
    """Return the names of the C functions of a program."""
    symbol = metadata.symbol
    names = ["supported", "prepare", "execute", "execute_on", "error_msg", "metadata"]
    own = [symbol] if metadata.is_static else []
    return (*own, *(f"{symbol}_{name}" for name in names))


def glue_module(info: ProgramInfo, metadata: Metadata) -> ModuleBuilder:
    """Return the module with the C functions of a program."""
    module = ModuleBuilder("ingot_aot")
    glue = _Glue(module, info, metadata)
    glue.emit_supported()
    glue.emit_prepare()
    execute = glue.emit_execute()
    if metadata.is_static:
        glue.emit_static_call(execute)
    glue.emit_error_msg()
    text = module.global_bytes("metadata", metadata.to_json().encode() + b"\0", align=1)
    for name in (f"{metadata.symbol}_metadata", LIBRARY_METADATA):
        module.function(name, PTR, []).ret(text)
    return module


class _Glue:
    """Emits the functions of one program."""

    def __init__(self, module: ModuleBuilder, info: ProgramInfo, metadata: Metadata) -> None:
        self._module, self._info, self._metadata = module, info, metadata
        self._symbol = metadata.symbol
        self._constants = zero(PTR)
        if metadata.constant_bytes:
            text = "external constant i8, align 64"
            self._constants = module.global_text(constants_symbol(self._symbol), text)
        self._attention = module.global_text("attention", "internal constant i64 0, align 8")
        self._enough = emit_cpu_check(module, metadata.level)
        self._in_turn = self._emit_in_turn()
        self._poll = module.function(
            "never", I32, [("rt", PTR), ("first", I64)], linkage="internal"
        )
        self._poll.ret(self._poll.const(I32, 0))

    def _emit_in_turn(self) -> FunctionBuilder:
        """`void (pool, function, env, chunks)`: one chunk after the other, on this thread."""
        params: list[tuple[str, Type]] = [("pool", PTR), ("function", PTR), ("env", PTR)]
        params.append(("chunks", I64))
        f = self._module.function("in_turn", VOID, params, linkage="internal")
        _, function, env, chunks = f.params

        def one(chunk: Value, _: list[Value]) -> None:
            f.call_indirect(function, VOID, [PTR, I64], [env, chunk])

        f.loop(0, chunks, 1, [], one)
        f.ret()
        return f

    def emit_supported(self) -> None:
        """`i32 S_supported()`."""
        f = self._module.function(f"{self._symbol}_supported", I32, [])
        f.ret(f.call(self._enough, []))

    def emit_prepare(self) -> None:
        """`i32 S_prepare(in_dims, sizes)`."""
        f = self._module.function(
            f"{self._symbol}_prepare", I32, [("in_dims", PTR), ("sizes", PTR)]
        )
        in_dims, sizes = f.params
        enough = f.call(self._enough, [])
        none = f.const(I32, 0)
        f.if_(f.icmp("eq", enough, none), lambda: f.ret(f.const(I32, WRONG_CPU)))
        status = f.call(self._sizes_function(), [in_dims, sizes, self._constants])
        f.if_(f.icmp("eq", status, none), lambda: f.ret(none))
        f.ret(f.sub(f.const(I32, -1), status))

    def _sizes_function(self) -> FunctionRef:
        return self._module.declare(self._info.sizes_symbol, I32, [PTR, PTR, PTR])

    def emit_execute(self) -> FunctionBuilder:
        """`i32 S_execute(args, results, sizes)`, and `_on`, which takes the caller's pool."""
        module, symbol = self._module, self._symbol
        on = module.function(f"{symbol}_execute_on", I32, [*_CALL, *_POOL])
        args, results, sizes, parallel, pool = on.params
        self._emit_run(on, args, results, sizes, parallel, pool)
        f = module.function(f"{symbol}_execute", I32, _CALL)
        f.ret(f.call(on.reference, [*f.params, self._in_turn.address, zero(PTR)]))
        return f

    def _emit_run(
        self,
        f: FunctionBuilder,
        args: Value,
        results: Value,
        sizes: Value,
        parallel: Value,
        pool: Value,
    ) -> None:
        runtime = f.alloca(I64, RUNTIME.size // 8, DATA_ALIGNMENT)
        f.memset(runtime, 0, RUNTIME.size)
        fields = {"pool": pool, "parallel": parallel, "attention": self._attention}
        for name, value in (fields | {"poll": self._poll.address}).items():
            RUNTIME.store(f, runtime, name, value)
        RUNTIME.store(f, runtime, "num_threads", f.const(I64, 1))
        temp = self._emit_allocate(f, f.load(I64, sizes))
        run = self._module.declare(self._info.run_symbol, I32, [PTR] * 6)
        status = f.call(run, [runtime, args, results, temp, sizes, self._constants])
        f.call(self._module.declare("free", VOID, [PTR]), [temp])
        f.ret(status)

    def _emit_allocate(self, f: FunctionBuilder, size: Value) -> Value:
        """Return the temporary arena; leave the function if there is no memory for it."""
        allocate = self._module.declare("aligned_alloc", PTR, [I64, I64])
        mask = f.const(I64, DATA_ALIGNMENT - 1)
        whole = f.and_(f.add(size, mask), f.const(I64, -DATA_ALIGNMENT))

        def some() -> list[Value]:
            made = f.call(allocate, [f.const(I64, DATA_ALIGNMENT), whole])
            none = f.icmp("eq", made, zero(PTR))
            f.if_(none, lambda: f.ret(f.const(I32, OUT_OF_MEMORY)), likely=False)
            return [made]

        empty = f.icmp("eq", size, f.const(I64, 0))
        return f.if_(empty, lambda: [zero(PTR)], some)[0]

    def emit_static_call(self, execute: FunctionBuilder) -> None:
        """`i32 S(args, results)`: no size is left to find out."""
        f = self._module.function(self._symbol, I32, [("args", PTR), ("results", PTR)])
        args, results = f.params
        sizes = f.alloca(I64, self._info.num_sizes, 8)
        prepare = self._module.defined(f"{self._symbol}_prepare").reference
        status = f.call(prepare, [zero(PTR), sizes])
        f.if_(f.icmp("ne", status, f.const(I32, 0)), lambda: f.ret(status))
        f.ret(f.call(execute.reference, [args, results, sizes]))

    def emit_error_msg(self) -> None:
        """`const char* S_error_msg(status)`."""
        module, info = self._module, self._info
        f = module.function(f"{self._symbol}_error_msg", PTR, [("status", I32)])
        (status,) = f.params
        rows = {"refused": (*info.constraints, *info.limits), "failed": info.run_errors}
        known = {0: "", **messages(rows)}
        for number, (code, text) in enumerate(known.items()):
            place = module.global_bytes(f"message.{number}", text.encode() + b"\0", align=1)
            hit = f.icmp("eq", status, f.const(I32, code))
            f.if_(hit, lambda place=place: f.ret(place))
        f.ret(module.global_bytes("message.unknown", b"unknown status\0", align=1))
