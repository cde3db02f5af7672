# SPDX-License-Identifier: Apache-2.0
"""Small programs for the runtime's tests, written by hand against the execution ABI.

Each function returns a `ProgramInfo` and the IR module that exports its two functions.
"""

from collections.abc import Callable

from ingot.artifact.abi import OutputInfo, ParamInfo, ProgramInfo
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder, Value
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, I8, I32, I64, PTR, VOID
from ingot.runtime.programs.program import Program
from ingot.runtime.threading.sync import discard

CHUNK = 256
RUN_PARAMS = ("rt", "inputs", "outputs", "temp", "sizes", "constants")


def link(info: ProgramInfo, module: ModuleBuilder, **options: object) -> Program:
    data = compile_object(module.text(), TargetSpec.host())
    return Program.from_library(info, link_object([data]), **options)  # type: ignore[arg-type]


def _pointer(f: FunctionBuilder, array: Value, index: int) -> Value:
    return f.load(PTR, f.gep(array, index, PTR))


def _sizes(module: ModuleBuilder, symbol: str) -> tuple[FunctionBuilder, Callable[..., None]]:
    f = module.function(f"{symbol}_sizes", I32, [("in_dims", PTR), ("sizes", PTR)])

    def put(*values: Value | int) -> None:
        for index, value in enumerate(values):
            f.store(f.as_value(value), f.gep(f.params[1], index, I64))

    return f, put


def _run(module: ModuleBuilder, symbol: str) -> FunctionBuilder:
    return module.function(f"{symbol}_run", I32, [(name, PTR) for name in RUN_PARAMS])


def add_and_multiply(parallel: bool = True) -> tuple[ProgramInfo, ModuleBuilder]:
    """f32[n], f32[n] -> (x + y, x * y); constraint 0: the sizes are equal."""
    info = ProgramInfo(
        "pair",
        (ParamInfo("f32", (None,), "x"), ParamInfo("f32", (None,), "y")),
        (OutputInfo("f32", (None,)), OutputInfo("f32", (None,))),
        num_symbols=1,
        constraints=("x and y must have one size",),
    )
    module = ModuleBuilder("pair")
    f, put = _sizes(module, "pair")
    n = f.load(I64, _pointer(f, f.params[0], 0))
    other = f.load(I64, _pointer(f, f.params[0], 1))
    f.if_(f.icmp("ne", n, other), lambda: f.ret(f.const(I32, 1)))
    size = f.imul(n, 4)
    put(0, n, size, size, n, n)
    f.ret(f.const(I32, 0))

    k = module.function("pair_kernel", VOID, [("env", PTR), ("chunk", I64)], linkage="internal")
    env, chunk = k.params
    x, y, total, product = (_pointer(k, env, index) for index in range(4))
    first = k.imul(chunk, CHUNK)
    last = k.imin(k.iadd(first, CHUNK), k.load(I64, k.gep(env, 4, I64)))

    def body(i: Value) -> None:
        a, b = k.load(F32, k.gep(x, i, F32)), k.load(F32, k.gep(y, i, F32))
        k.store(k.add(a, b), k.gep(total, i, F32))
        k.store(k.mul(a, b), k.gep(product, i, F32))

    k.for_range(last, body, start=first)
    k.ret()

    f = _run(module, "pair")
    rt, inputs, outputs, _, sizes, _ = f.params
    env = f.alloca(I64, 5)
    slots = [
        *(_pointer(f, inputs, index) for index in range(2)),
        *(_pointer(f, outputs, index) for index in range(2)),
        f.load(I64, f.gep(sizes, 1, I64)),
    ]
    for index, value in enumerate(slots):
        f.store(value, f.gep(env, index, I64))
    chunks = f.as_value(f.iceildiv(slots[4], CHUNK))
    if parallel:
        args = [f.load(PTR, rt), Value(PTR, k.reference.text), env, chunks]
        f.call_indirect(_pointer(f, rt, 1), VOID, [PTR, PTR, PTR, I64], args)
    else:
        f.for_range(chunks, lambda c: discard(f.call(k.reference, [env, c])))
    f.ret(f.const(I32, 0))
    return info, module


def scale_in_place() -> tuple[ProgramInfo, ModuleBuilder]:
    """f32[2,3] -> x * constants[0] through the arena; output 0 may be input 0.

    Run error 0 if the first element is negative.
    """
    info = ProgramInfo(
        "scale",
        (ParamInfo("f32", (2, 3), "state"),),
        (OutputInfo("f32", (2, 3), alias_param=0),),
        run_errors=("the first element is negative",),
    )
    module = ModuleBuilder("scale")
    f, put = _sizes(module, "scale")
    put(24, 24, 2, 3)
    f.ret(f.const(I32, 0))
    f = _run(module, "scale")
    _, inputs, outputs, temp, _, constants = f.params
    x, out = _pointer(f, inputs, 0), _pointer(f, outputs, 0)
    factor = f.load(F32, constants)
    negative = f.fcmp("olt", f.load(F32, x), f.const(F32, 0.0))
    f.if_(negative, lambda: f.ret(f.const(I32, 1)))

    def through(source: Value, target: Value, change: Callable[[Value], Value]) -> None:
        def body(i: Value) -> None:
            f.store(change(f.load(F32, f.gep(source, i, F32))), f.gep(target, i, F32))

        f.for_range(6, body)

    through(x, temp, lambda value: f.mul(value, factor))
    through(temp, out, lambda value: value)
    f.ret(f.const(I32, 0))
    return info, module


def copy(dtype: str, bytes_per_element: int) -> tuple[ProgramInfo, ModuleBuilder]:
    """T[?] -> the same values."""
    dims = (None,)
    outputs = (OutputInfo(dtype, dims),)
    info = ProgramInfo("copy", (ParamInfo(dtype, dims),), outputs, num_symbols=1)
    module = ModuleBuilder("copy")
    f, put = _sizes(module, "copy")
    n = f.load(I64, _pointer(f, f.params[0], 0))
    put(0, n, f.imul(n, bytes_per_element), n)
    f.ret(f.const(I32, 0))
    f = _run(module, "copy")
    _, inputs, outputs_, _, sizes, _ = f.params
    f.memcpy(_pointer(f, outputs_, 0), _pointer(f, inputs, 0), f.load(I64, f.gep(sizes, 2, I64)))
    f.ret(f.const(I32, 0))
    return info, module


def arena_only(symbol: str = "greedy") -> tuple[ProgramInfo, ModuleBuilder]:
    """u8[n,0] -> nothing; asks for an arena of n bytes."""
    info = ProgramInfo(symbol, (ParamInfo("u8", (None, 0)),), (), num_symbols=1)
    module = ModuleBuilder(symbol)
    f, put = _sizes(module, symbol)
    n = f.load(I64, _pointer(f, f.params[0], 0))
    put(n, n)
    f.ret(f.const(I32, 0))
    f = _run(module, symbol)
    f.ret(f.const(I32, 0))
    return info, module


def wait_for_flag() -> tuple[ProgramInfo, ModuleBuilder]:
    """s64[2] flag -> pred[]: sets flag[1], then waits for flag[0], but not for too long."""
    params = (ParamInfo("s64", (2,), "flag"),)
    info = ProgramInfo("wait", params, (OutputInfo("pred", ()),))
    module = ModuleBuilder("wait")
    f, put = _sizes(module, "wait")
    put(0, 1)
    f.ret(f.const(I32, 0))
    f = _run(module, "wait")
    _, inputs, outputs, _, _, _ = f.params
    flag, out = _pointer(f, inputs, 0), _pointer(f, outputs, 0)
    f.atomic_store(f.const(I64, 1), f.gep(flag, 1, I64), "seq_cst")
    sched_yield = module.declare("sched_yield", I32, [])

    def unset(values: list[Value]) -> Value:
        down = f.icmp("eq", f.atomic_load(I64, flag, "seq_cst"), f.const(I64, 0))
        return f.and_(down, f.icmp("slt", values[0], f.const(I64, 100_000)))

    def wait(values: list[Value]) -> list[Value]:
        f.call(sched_yield, [])
        return [f.add(values[0], f.const(I64, 1))]

    f.while_([f.const(I64, 0)], unset, wait)
    f.store(f.trunc(f.atomic_load(I64, flag, "seq_cst"), I8), out)
    f.ret(f.const(I32, 0))
    return info, module


def small_and_large() -> tuple[ProgramInfo, ModuleBuilder]:
    """u8[n,0] -> u8[4] and u8[n], both uninitialized."""
    outputs = (OutputInfo("u8", (4,)), OutputInfo("u8", (None,)))
    info = ProgramInfo("grow", (ParamInfo("u8", (None, 0)),), outputs, num_symbols=1)
    module = ModuleBuilder("grow")
    f, put = _sizes(module, "grow")
    n = f.load(I64, _pointer(f, f.params[0], 0))
    put(0, n, 4, n, 4, n)
    f.ret(f.const(I32, 0))
    f = _run(module, "grow")
    f.ret(f.const(I32, 0))
    return info, module
