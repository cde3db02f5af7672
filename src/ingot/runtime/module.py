# SPDX-License-Identifier: Apache-2.0
"""The runtime as one LLVM module: pool, allocator, execution and, if wanted, the Python call.

`native` links it into this process. Ahead-of-time compilation puts the same text, without Python,
into its libraries. Invariant: the text depends on nothing but the arguments of `runtime_module`,
so the object is compiled once per machine and comes from the cache after.
"""

from __future__ import annotations

from ingot.artifact.abi import MAX_BUFFER_BYTES
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import I64, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value
from ingot.native.layout import Record
from ingot.runtime.allocator import AllocatorFunctions, emit_allocator
from ingot.runtime.array_memory import HANDLER_FUNCTIONS, emit_array_memory
from ingot.runtime.execute import emit_execute
from ingot.runtime.interrupts import WATCH, WatchFunctions, emit_watch
from ingot.runtime.pool import emit_pool
from ingot.runtime.profiler import PROFILE_FUNCTION, PROFILER, emit_profiler
from ingot.runtime.python_call import emit_python_call
from ingot.runtime.python_interrupts import emit_python_interrupts
from ingot.runtime.records import ABI_VERSION, ALLOCATOR, INTERRUPTS, POOL, PYTHON, RUNTIME
from ingot.runtime.staged_code import emit_staged
from ingot.runtime.steps import emit_steps

NATIVE_FUNCTIONS = (
    *("ingot_prepare", "ingot_execute", "ingot_execute_on", "ingot_call"),
    *("ingot_execute_watched", "ingot_poll", "ingot_interrupt", "ingot_watch"),
    *("ingot_allocate", "ingot_free", "ingot_trim"),
    *("ingot_steps_sizes", "ingot_steps_run", "ingot_steps_copy", "ingot_stages_run"),
    *("ingot_parallel", "ingot_runtime", "ingot_allocator", "ingot_initialize"),
    *(PROFILE_FUNCTION, "ingot_profiler"),
)
"""What other native code may call; `records.c_header` has the signatures."""

PYTHON_FUNCTIONS = (
    "ingot_python_call",
    "ingot_python_record",
    "ingot_python_check",
    "ingot_python_tick",
    "ingot_execute_python",
    *HANDLER_FUNCTIONS,
)

LIBRARY_FUNCTIONS = (
    *("pthread_create", "pthread_detach", "pthread_sigmask", "sched_yield", "syscall"),
    *("aligned_alloc", "free", "mmap", "munmap", "madvise", "memcpy", "memset"),
    *("clock_gettime", "pthread_self", "sigaction"),
)
"""The C library functions that the module imports."""


def runtime_module(with_python: bool) -> ModuleBuilder:
    """Return the module; `with_python` adds the functions of `PYTHON_FUNCTIONS`."""
    module = ModuleBuilder("ingot_runtime")
    runtime, pool = _state(module, RUNTIME), _state(module, POOL)
    allocator_state = _state(module, ALLOCATOR)
    parallel = emit_pool(module)
    allocator = emit_allocator(module, allocator_state)
    watch_state = _state(module, WATCH)
    watch = emit_watch(module, watch_state)
    execute = emit_execute(module, allocator, watch)
    emit_steps(module)
    emit_staged(module, allocator, watch, execute)
    states = _States(runtime, pool, allocator_state, watch_state)
    _emit_initialize(module, states, parallel, allocator, watch)
    _emit_getter(module, "ingot_watch", watch_state)
    _emit_getter(module, "ingot_runtime", runtime)
    _emit_getter(module, "ingot_allocator", allocator_state)
    profiler = _state(module, PROFILER)
    emit_profiler(module, profiler)
    _emit_getter(module, "ingot_profiler", profiler)
    if with_python:
        python = _state(module, PYTHON)
        emit_python_call(module, python, allocator, execute)
        # The counter is the first field of the record.
        emit_python_interrupts(module, python, _state(module, INTERRUPTS), watch_state)
        emit_array_memory(module, allocator)
        _emit_getter(module, "ingot_python_record", python)
    return module


class _States:
    """The addresses of the records."""

    __slots__ = ("allocator", "pool", "runtime", "watch")

    def __init__(self, runtime: Value, pool: Value, allocator: Value, watch: Value) -> None:
        self.runtime = runtime
        self.pool = pool
        self.allocator = allocator
        self.watch = watch


def _state(module: ModuleBuilder, record: Record) -> Value:
    """Return the address of a zeroed record in the module's data."""
    text = f"internal global [{record.size} x i8] zeroinitializer, align 64"
    return module.global_text(f"{record.name}.state", text)


def _emit_getter(module: ModuleBuilder, name: str, state: Value) -> None:
    f = module.function(name, PTR, [])
    f.ret(state)


def _emit_initialize(
    module: ModuleBuilder,
    states: _States,
    parallel: FunctionRef,
    allocator: AllocatorFunctions,
    watch: WatchFunctions,
) -> None:
    """`void (i64 num_threads, i64 spin, i64 cache_limit)`: fill the records; before any other."""
    names = ("num_threads", "spin", "cache_limit")
    params: list[tuple[str, Type]] = [(name, I64) for name in names]
    f = module.function("ingot_initialize", VOID, params)
    num_threads, spin, cache_limit = f.params
    runtime: dict[str, Value] = {
        "pool": states.pool,
        "parallel": Value(PTR, parallel.text),
        "attention": WATCH.address(f, states.watch, "attention"),
        "poll": Value(PTR, watch.poll.text),
        "num_threads": num_threads,
        "allocate": Value(PTR, allocator.allocate.text),
        "free": Value(PTR, allocator.free.text),
        "abi_version": f.const(I64, ABI_VERSION),
    }
    for name, value in runtime.items():
        RUNTIME.store(f, states.runtime, name, value)
    POOL.store(f, states.pool, "num_threads", num_threads)
    POOL.store(f, states.pool, "spin", spin)
    ALLOCATOR.store(f, states.allocator, "cache_limit", cache_limit)
    ALLOCATOR.store(f, states.allocator, "memory_limit", f.const(I64, MAX_BUFFER_BYTES))
    f.ret()
