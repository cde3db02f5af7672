# SPDX-License-Identifier: Apache-2.0
"""The C functions of an artifact, between a C caller and the execution ABI.

This is the second to last step of `build`. For a program `S`: `S_prepare` and `S_execute` (any
sizes), `S` (known sizes), `S_error_msg`, `S_level`, `S_metadata`. They are baseline code: they
choose the level of the program that this CPU runs, and return an error if it runs none. The runtime
record is on the caller's stack. Only that choice and the address of weights are shared, so any
number of threads may call.

Invariant: the only functions of the C library that are called are `aligned_alloc` and `free`, and
those that `weights` needs to map a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ingot.aot.cpu_check import emit_level_choice
from ingot.aot.memory import emit_allocator
from ingot.aot.targets import LevelTarget, Target
from ingot.aot.threads import emit_own_pool
from ingot.aot.wasm_glue import (
    MEMORY_FUNCTIONS,
    emit_memory_functions,
    emit_memory_moves,
    emit_wide_arithmetic,
)
from ingot.aot.weights import WeightBlock, WeightFunctions
from ingot.artifact.abi import DATA_ALIGNMENT, ProgramInfo
from ingot.artifact.metadata import OUT_OF_MEMORY, WRONG_CPU, Metadata, messages
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I8, I32, I64, PTR, VOID, Type
from ingot.llvm.values import Value, zero
from ingot.runtime.records import RUNTIME
from ingot.runtime.threading.sync import discard
from ingot.support.records import record

LIBRARY_METADATA = "ingot_aot_metadata"
"""The symbol of a shared library's metadata, whatever the names of its programs are."""

STACK_ARENA_BYTES = 4096
"""Most bytes of temporary memory on the stack, which makes small programs five times as fast."""

_CALL = [("args", PTR), ("results", PTR), ("sizes", PTR)]
_POOL = [("parallel", PTR), ("pool", PTR)]


def constants_symbol(symbol: str) -> str:
    """Return the symbol of a program's constant block."""
    return f"{symbol}_constants"


@record
class LevelProgram:
    """The program compiled for one level.

    Attributes:
        target: the level.
        info: its ABI. Signatures are the same at all levels.
    """

    target: LevelTarget
    info: ProgramInfo

    @property
    def prefix(self) -> str:
        """The prefix of its symbols, so that those of several levels do not clash."""
        return f"{self.target.name}."


def public_functions(metadata: Metadata) -> tuple[str, ...]:
    """Return the names of the C functions of a program."""
    symbol = metadata.symbol
    names = ["supported", "level", "prepare", "execute", "execute_on", "error_msg", "metadata"]
    names += {"inside": (), "caller": ("set_weights",)}.get(
        metadata.weights, ("set_weights", "load_weights")
    )
    names += ("set_threads",) if metadata.threads == "own" else ()
    names += MEMORY_FUNCTIONS if metadata.triple.startswith("wasm") else ()
    own = [symbol] if metadata.is_static else []
    return (*own, *(f"{symbol}_{name}" for name in names))


def status_messages(infos: Sequence[ProgramInfo], metadata: Metadata) -> dict[int, str]:
    """Return the message of each status; if the limits of levels differ, those of all levels."""
    found: dict[int, dict[str, None]] = {}
    for info in infos:
        rows = {"refused": (*info.constraints, *info.limits), "failed": info.run_errors}
        for code, text in messages(rows, metadata.weights).items():
            found.setdefault(code, {})[text] = None
    return {code: "; or ".join(texts) for code, texts in found.items()}


def glue_module(
    programs: Sequence[LevelProgram], metadata: Metadata, block: WeightBlock, target: Target
) -> ModuleBuilder:
    """Return the module with the C functions of a program.

    Args:
        programs: the versions of the program, widest level first.
        metadata: the artifact's metadata.
        block: the constants.
        target: the target of the artifact.
    """
    module = ModuleBuilder("ingot_aot", target.architecture)
    glue = _Glue(module, programs, metadata, block)
    glue.emit_supported()
    glue.emit_level_name()
    glue.emit_prepare()
    execute = glue.emit_execute()
    if metadata.is_static:
        glue.emit_static_call(execute)
    glue.emit_error_msg()
    if target.architecture == "wasm":
        emit_wide_arithmetic(module)
        emit_memory_moves(module)
        glue.emit_memory()
    text = module.global_bytes("metadata", metadata.to_json().encode() + b"\0", align=1)
    for name in (f"{metadata.symbol}_metadata", LIBRARY_METADATA):
        module.function(name, PTR, []).ret(text)
    return module


class _Glue:
    """Emits the functions of one program."""

    def __init__(
        self,
        module: ModuleBuilder,
        programs: Sequence[LevelProgram],
        metadata: Metadata,
        block: WeightBlock,
    ) -> None:
        self._module, self._programs, self._metadata = module, programs, metadata
        self._info, self._block = programs[0].info, block
        self._symbol = metadata.symbol
        self._weights: WeightFunctions | None = None
        self._inside = zero(PTR)
        if metadata.weights != "inside":
            self._weights = WeightFunctions(module, metadata, block.data)
            self._weights.emit()
        elif block.data:
            text = "external constant i8, align 64"
            self._inside = module.global_text(constants_symbol(self._symbol), text)
        self._attention = module.global_text("attention", "internal constant i64 0, align 8")
        self._level = emit_level_choice(module, [one.target.check for one in programs])
        self._allocate, self._free = emit_allocator(module)
        own = emit_own_pool(module, metadata) if metadata.threads == "own" else None
        self._pool = zero(PTR) if own is None else own.record
        self._parallel = (
            self._emit_in_turn().address if own is None else Value(PTR, own.parallel.text)
        )
        self._poll = module.function(
            "never", I32, [("rt", PTR), ("first", I64)], linkage="internal"
        )
        self._poll.ret(self._poll.const(I32, 0))

    def _constants(self, f: FunctionBuilder) -> Value:
        """Return the block of constants; leave the function if they are not loaded."""
        return self._inside if self._weights is None else self._weights.loaded(f)

    def _at_level(
        self, f: FunctionBuilder, call: Callable[[LevelProgram, Value], Value], constants: Value
    ) -> Value:
        """Return the result of `call` for this CPU's level, with the constants of that level."""
        rows = list(zip(self._programs, self._block.offsets, strict=True))
        chosen = f.call(self._level, [])

        def run(index: int) -> list[Value]:
            program, offset = rows[index]
            return [call(program, f.gep(constants, offset))]

        def either(index: int, rest: Callable[[], list[Value]]) -> list[Value]:
            hit = f.icmp("eq", chosen, f.const(I32, 1 + index))
            return f.if_(hit, lambda: run(index), rest)

        last = len(rows) - 1
        among: Callable[[], list[Value]] = partial(run, last)
        for index in reversed(range(last)):
            among = partial(either, index, among)
        return among()[0]

    def _emit_in_turn(self) -> FunctionBuilder:
        """`void (pool, function, env, chunks)`: one chunk after the other, on this thread."""
        params: list[tuple[str, Type]] = [("pool", PTR), ("function", PTR), ("env", PTR)]
        params.append(("chunks", I64))
        f = self._module.function("in_turn", VOID, params, linkage="internal")
        _, function, env, chunks = f.params

        def one(chunk: Value) -> None:
            f.call_indirect(function, VOID, [PTR, I64], [env, chunk])

        f.for_range(chunks, one)
        f.ret()
        return f

    def emit_memory(self) -> None:
        """`S_allocate` and `S_free`, for callers that have no allocator of their own."""
        emit_memory_functions(self._module, self._symbol, self._allocate, self._free)

    def emit_supported(self) -> None:
        """`i32 S_supported()`."""
        f = self._module.function(f"{self._symbol}_supported", I32, [])
        found = f.icmp("sgt", f.call(self._level, []), f.const(I32, 0))
        f.ret(f.zext(found, I32))

    def emit_level_name(self) -> None:
        """`const char* S_level()`."""
        f = self._module.function(f"{self._symbol}_level", PTR, [])
        chosen = f.call(self._level, [])
        for number, program in enumerate(self._programs):
            name = program.target.name
            text = self._module.global_bytes(f"level.{name}", name.encode() + b"\0", align=1)
            hit = f.icmp("eq", chosen, f.const(I32, 1 + number))
            f.if_(hit, lambda text=text: f.ret(text))
        f.ret(self._module.global_bytes("level.none", b"\0", align=1))

    def emit_prepare(self) -> None:
        """`i32 S_prepare(in_dims, sizes)`."""
        f = self._module.function(
            f"{self._symbol}_prepare", I32, [("in_dims", PTR), ("sizes", PTR)]
        )
        in_dims, sizes = f.params
        none = f.const(I32, 0)
        lacks = f.icmp("slt", f.call(self._level, []), none)
        f.if_(lacks, lambda: f.ret(f.const(I32, WRONG_CPU)))

        def call(program: LevelProgram, constants: Value) -> Value:
            name = program.prefix + program.info.sizes_symbol
            function = self._module.declare(name, I32, [PTR, PTR, PTR])
            return f.call(function, [in_dims, sizes, constants])

        status = self._at_level(f, call, self._constants(f))
        f.if_(f.icmp("eq", status, none), lambda: f.ret(none))
        f.ret(f.sub(f.const(I32, -1), status))

    def emit_execute(self) -> FunctionBuilder:
        """`i32 S_execute(args, results, sizes)`, and `_on`, which takes the caller's pool."""
        module, symbol = self._module, self._symbol
        on = module.function(f"{symbol}_execute_on", I32, [*_CALL, *_POOL])
        args, results, sizes, parallel, pool = on.params
        self._emit_run(on, args, results, sizes, parallel, pool)
        f = module.function(f"{symbol}_execute", I32, _CALL)
        f.ret(f.call(on.reference, [*f.params, self._parallel, self._pool]))
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
        constants = self._constants(f)
        size = f.load(I64, sizes)
        is_large = f.icmp("ugt", size, f.const(I64, STACK_ARENA_BYTES))
        held = f.alloca(I8, STACK_ARENA_BYTES, DATA_ALIGNMENT)
        (temp,) = f.if_(is_large, lambda: [self._emit_allocate(f, size)], lambda: [held])

        def call(program: LevelProgram, constants: Value) -> Value:
            name = program.prefix + program.info.run_symbol
            run = self._module.declare(name, I32, [PTR] * 6)
            return f.call(run, [runtime, args, results, temp, sizes, constants])

        status = self._at_level(f, call, constants)
        f.if_(is_large, lambda: discard(f.call(self._free, [temp])))
        f.ret(status)

    def _emit_allocate(self, f: FunctionBuilder, size: Value) -> Value:
        """Return a temporary arena; leave the function if there is no memory for it."""
        mask = f.const(I64, DATA_ALIGNMENT - 1)
        whole = f.and_(f.add(size, mask), f.const(I64, -DATA_ALIGNMENT))
        made = f.call(self._allocate, [f.const(I64, DATA_ALIGNMENT), whole])
        none = f.icmp("eq", made, zero(PTR))
        f.if_(none, lambda: f.ret(f.const(I32, OUT_OF_MEMORY)), likely=False)
        return made

    def emit_static_call(self, execute: FunctionBuilder) -> None:
        """`i32 S(args, results)`, for programs whose sizes are all known."""
        f = self._module.function(self._symbol, I32, [("args", PTR), ("results", PTR)])
        args, results = f.params
        sizes = f.alloca(I64, self._info.num_sizes, 8)
        prepare = self._module.defined(f"{self._symbol}_prepare").reference
        status = f.call(prepare, [zero(PTR), sizes])
        f.if_(f.icmp("ne", status, f.const(I32, 0)), lambda: f.ret(status))
        f.ret(f.call(execute.reference, [args, results, sizes]))

    def emit_error_msg(self) -> None:
        """`const char* S_error_msg(status)`."""
        module = self._module
        f = module.function(f"{self._symbol}_error_msg", PTR, [("status", I32)])
        (status,) = f.params
        infos = [program.info for program in self._programs]
        known = {0: "", **status_messages(infos, self._metadata)}
        for number, (code, text) in enumerate(known.items()):
            message = module.global_bytes(f"message.{number}", text.encode() + b"\0", align=1)
            hit = f.icmp("eq", status, f.const(I32, code))
            f.if_(hit, lambda message=message: f.ret(message))
        f.ret(module.global_bytes("message.unknown", b"unknown status\0", align=1))
