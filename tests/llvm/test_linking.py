# SPDX-License-Identifier: Apache-2.0
"""Objects mapped into the process: data, tables of addresses, permissions, their end."""

import ctypes
import gc
from pathlib import Path

from ingot.llvm import linking
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.optimization import Optimization
from ingot.llvm.target import TargetSpec

HOST = TargetSpec.host()

COUNTER = """
@count = global i64 40
@room = global [4096 x i64] zeroinitializer
define i64 @next() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  %at = getelementptr i64, ptr @room, i64 %new
  store i64 %new, ptr %at
  ret i64 %new
}
define i64 @seen(i64 %place) {
  %at = getelementptr i64, ptr @room, i64 %place
  %found = load i64, ptr %at
  ret i64 %found
}
"""

TABLE = """
declare i64 @foreign(i64)
@table = internal global [3 x ptr] [ptr @double, ptr @foreign, ptr @square]
define i64 @double(i64 %x) {
  %y = shl i64 %x, 1
  ret i64 %y
}
define internal i64 @square(i64 %x) {
  %y = mul i64 %x, %x
  ret i64 %y
}
define i64 @call(i64 %which, i64 %x) {
  %at = getelementptr ptr, ptr @table, i64 %which
  %function = load ptr, ptr %at
  %y = call i64 %function(i64 %x)
  ret i64 %y
}
define ptr @address() {
  ret ptr @foreign
}
"""


def linked(text: str, imports: dict[str, int] | None = None) -> Library:
    return link_object([compile_object(text, HOST, Optimization())], imports)


def permissions(address: int) -> str:
    """Return the permissions of the page at an address, or nothing."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, *_ = line.split()
        low, high = (int(end, 16) for end in span.split("-"))
        if low <= address < high:
            return rights
    return ""


def test_data_is_written_and_zeros_are_there():
    library = linked(COUNTER)
    following = library.function("next", ctypes.c_int64)
    seen = library.function("seen", ctypes.c_int64, ctypes.c_int64)
    assert [following(), following()] == [41, 42]
    assert [seen(41), seen(42), seen(43), seen(4095)] == [41, 42, 0, 0]


def test_tables_hold_own_and_foreign_functions():
    triple = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 3 * x)
    foreign = ctypes.cast(triple, ctypes.c_void_p).value
    assert foreign is not None
    library = linked(TABLE, {"foreign": foreign})
    call = library.function("call", ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    assert [call(which, 5) for which in range(3)] == [10, 15, 25]
    assert library.function("address", ctypes.c_void_p)() == foreign


def test_no_page_is_written_and_executed():
    library = linked(COUNTER)
    assert permissions(library.address("next")) == "r-xp"
    assert permissions(library.address("count")) == "rw-p"


def test_of_two_objects_that_define_a_symbol_the_first_counts():
    # Kernels of one form are one function in each program that has several of them.
    first, second = (
        compile_object(text, HOST, Optimization())
        for text in (COUNTER, COUNTER.replace("%old, 1", "%old, 2"))
    )
    library = link_object([first, second])
    call = library.function("next", ctypes.c_int64)
    assert [call() for _ in range(3)] == [41, 42, 43]
    assert library.symbols == link_object([first]).symbols


def test_code_is_unmapped_with_its_library(monkeypatch):
    system = linking._system()
    unmapped: list[int] = []

    class System:
        mmap, mprotect = system.mmap, system.mprotect

        @staticmethod
        def munmap(start: int, size: int) -> int:
            unmapped.append(start)
            return system.munmap(start, size)

    monkeypatch.setattr(linking, "_system", System)
    library = linked(COUNTER)
    page = library.address("next") & ~4095
    del library
    gc.collect()
    assert unmapped == [page]
