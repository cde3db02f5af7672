# SPDX-License-Identifier: Apache-2.0
"""Compiling, linking, and the errors of both."""

import ctypes
import threading

import pytest

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.cache import ObjectCache
from ingot.llvm.elf import ElfObject
from ingot.llvm.jit import assembly, compile_object, optimized_ir
from ingot.llvm.linking import link_object
from ingot.llvm.optimization import Optimization
from ingot.llvm.target import CPU_LEVELS, TargetSpec
from ingot.llvm.types import F32, F64, I32, I64, PTR, VOID, vector
from ingot.support.diagnostics import InternalError

HOST = TargetSpec.host()


def module_of(symbol: str, number: int, imported: str = "") -> str:
    module = ModuleBuilder(symbol)
    f = module.function(symbol, I64, [("x", I64)])
    result = f.add(f.params[0], f.const(I64, number))
    if imported:
        result = f.call(module.declare(imported, I64, [I64]), [result])
    f.ret(result)
    return module.text()


def call(library, symbol: str, value: int) -> int:
    return library.function(symbol, ctypes.c_int64, ctypes.c_int64)(value)


def test_objects_call_each_other() -> None:
    objects = [
        compile_object(module_of("outer", 1, "inner"), HOST),
        compile_object(module_of("inner", 10), HOST),
    ]
    library = link_object(objects)
    assert call(library, "outer", 5) == 16
    assert set(library.symbols) == {"outer", "inner"}


def test_imports_are_bound_to_addresses() -> None:
    first = link_object([compile_object(module_of("inner", 10), HOST)])
    objects = [compile_object(module_of("outer", 1, "given"), HOST)]
    library = link_object(objects, {"given": first.address("inner")})
    assert call(library, "outer", 5) == 16


def test_two_libraries_may_define_the_same_symbol() -> None:
    first = link_object([compile_object(module_of("same", 1), HOST)])
    second = link_object([compile_object(module_of("same", 2), HOST)])
    assert (call(first, "same", 0), call(second, "same", 0)) == (1, 2)


def test_an_unresolved_symbol_is_named_before_any_call() -> None:
    objects = [compile_object(module_of("outer", 1, "nowhere_to_be_found"), HOST)]
    with pytest.raises(InternalError, match="nowhere_to_be_found") as caught:
        link_object(objects)
    assert caught.value.diagnostic.code == "INGOT0931"


def test_libm_is_found_without_being_given() -> None:
    module = ModuleBuilder("libm")
    f = module.function("f", F64, [("x", F64), ("y", F64)])
    f.ret(f.frem(*f.params))
    library = link_object([compile_object(module.text(), HOST)])
    assert library.function("f", ctypes.c_double, ctypes.c_double, ctypes.c_double)(7.5, 2) == 1.5


def test_a_missing_address_is_an_error() -> None:
    library = link_object([compile_object(module_of("f", 1), HOST)])
    with pytest.raises(InternalError, match="no symbol 'g'"):
        library.address("g")


def test_ir_that_does_not_parse_shows_its_line() -> None:
    text = "define i32 @f() {\nentry:\n  %x = add i32 1, 2.0\n  ret i32 %x\n}\n"
    with pytest.raises(InternalError, match=r"%x = add i32 1, 2\.0") as caught:
        compile_object(text, HOST)
    assert caught.value.diagnostic.code == "INGOT0930"
    assert caught.value.diagnostic.notes[-1].startswith("IR line 3:")


def test_ir_that_does_not_verify_is_an_error() -> None:
    text = "define i32 @f(i1 %c) {\na:\n br i1 %c, label %b, label %d\nb:\n %x = add i32 1, 2\n"
    text += " br label %d\nd:\n ret i32 %x\n}\n"
    with pytest.raises(InternalError, match="dominate"):
        compile_object(text, HOST)


def test_an_unknown_pass_is_an_error() -> None:
    with pytest.raises(InternalError, match="'no_such_pass'"):
        compile_object(
            module_of("f", 1), HOST, Optimization(2, ("no_such_pass",)), ObjectCache(None)
        )


def test_the_symbol_table_of_an_object() -> None:
    symbols = ElfObject(compile_object(module_of("outer", 1, "inner"), HOST))
    assert symbols.defined == ("outer",)
    assert "inner" in symbols.undefined
    with pytest.raises(InternalError, match="ELF64"):
        ElfObject(b"not an object")


@pytest.mark.parametrize("level", CPU_LEVELS)
def test_the_level_decides_the_registers(level: str) -> None:
    target = TargetSpec.at_level(level)
    module = ModuleBuilder("m")
    f = module.function("f", VOID, [("p", PTR)])
    x = f.load(vector(F32, 16), f.params[0])
    f.store(f.fma(x, x, x), f.params[0])
    f.ret()
    text = assembly(module.text(), target)
    assert ("zmm" in text) == (level == "avx512")
    assert ("ymm" in text) == (level == "avx2")
    assert ("vfmadd" in text) == target.has_fma


def test_ptx_is_assembly() -> None:
    module = ModuleBuilder("m", "nvptx")
    f = module.function("k", VOID, [("p", PTR)], linkage="ptx_kernel")
    thread = f.intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", I32, [])
    at = f.gep(f.params[0], thread, F32)
    f.store(f.mul(f.load(F32, at), f.const(F32, 2)), at)
    f.ret()
    text = assembly(module.text(), TargetSpec.nvptx())
    assert ".visible .entry k(" in text
    assert ".target sm_90" in text


def test_optimized_ir_can_be_read() -> None:
    text = optimized_ir(module_of("f", 0), HOST)
    assert "ret i64 %x" in text


def test_many_threads_compile_and_link() -> None:
    failures: list[object] = []

    def work(number: int) -> None:
        for at in range(4):
            value = number * 100 + at
            cache = ObjectCache(None)
            library = link_object([compile_object(module_of("f", value), HOST, cache=cache)])
            if call(library, "f", 1) != value + 1:
                failures.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
