# SPDX-License-Identifier: Apache-2.0
"""The runtime's module: what it imports and exports, and that it works without Python."""

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np

from ingot.llvm.elf import ElfObject
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.native.functions import exported_of, external_symbols, llvm_signature
from ingot.runtime import entries
from ingot.runtime.executor import execute, staged_code
from ingot.runtime.memory import allocator
from ingot.runtime.module import (
    LIBRARY_FUNCTIONS,
    NATIVE_FUNCTIONS,
    PYTHON_FUNCTIONS,
    runtime_module,
)
from ingot.runtime.native import allocator_statistics, library_imports, native_runtime
from ingot.runtime.python import interrupts as python_interrupts
from ingot.runtime.records import ABI_VERSION, RUNTIME, c_header

ROOT = Path(__file__).resolve().parents[2]


def test_text_is_the_same_every_time():
    assert runtime_module(True).text() == runtime_module(True).text()


def test_object_exports_documented_names_and_imports_the_c_library_only():
    for with_python in (False, True):
        module = runtime_module(with_python)
        symbols = ElfObject(compile_object(module.text(), TargetSpec.host()))
        expected = {*NATIVE_FUNCTIONS, *(PYTHON_FUNCTIONS if with_python else ())}
        assert set(symbols.defined) == expected
        assert set(symbols.undefined) - {"_GLOBAL_OFFSET_TABLE_"} <= set(LIBRARY_FUNCTIONS)


def test_header_names_every_native_function():
    header = c_header()
    hidden = {"ingot_allocator", "ingot_profiler", "ingot_watch"}
    assert all(f"{name}(" in header for name in NATIVE_FUNCTIONS if name not in hidden)


def test_a_second_runtime_without_python_has_a_state_of_its_own():
    data = compile_object(runtime_module(False).text(), TargetSpec.host())
    library = link_object([data], library_imports())
    library.function("ingot_initialize", None, *[ctypes.c_int64] * 3)(1, 10, 1 << 20)
    record = library.function("ingot_runtime", ctypes.c_void_p)()
    assert RUNTIME.read(record, "num_threads") == 1
    assert RUNTIME.read(record, "abi_version") == ABI_VERSION
    assert RUNTIME.read(record, "pool") != RUNTIME.read(native_runtime().record, "pool")
    before = allocator_statistics()
    address = library.function("ingot_allocate", ctypes.c_void_p, ctypes.c_int64)(100)
    ctypes.memmove(address, np.arange(10).ctypes.data, 80)
    library.function("ingot_free", None, ctypes.c_void_p)(address)
    library.function("ingot_trim", None)()
    assert allocator_statistics() == before


EXIT = """
import numpy as np
from ingot.runtime.native import set_num_threads
from tests.runtime import programs
set_num_threads(4)
pair = programs.link(*programs.add_and_multiply())
x = np.ones(10_000, np.float32)
kept = pair.call(x, x)
"""


def test_a_process_with_workers_and_live_outputs_ends_cleanly():
    for _ in range(3):
        command = [sys.executable, "-c", EXIT]
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert (result.returncode, result.stderr) == (0, "")


def test_entries_are_declared_as_they_are():
    symbols = external_symbols(entries)
    exported = {
        symbol: each
        for file in (allocator, execute, python_interrupts, staged_code)
        for symbol, each in exported_of(file).items()
    }
    for each in vars(entries).values():
        symbol = getattr(each, "symbol", None)
        if symbol in symbols:
            assert llvm_signature(each) == llvm_signature(exported[symbol])
    assert len(symbols) == 6
