# SPDX-License-Identifier: Apache-2.0
"""Trampolines at the edges: after the interpreter's end, and functions that fail."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.client.pjrt.trampolines import add_trampolines, fill_targets
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.native.module import Translation
from ingot.runtime.python.c_python import python_addresses

AFTER_THE_END = """
import ctypes
from ingot.client.pjrt.c_api import API, HEADER_BYTES
from ingot.client.pjrt.plugin import api_address

slot = API.index("PJRT_Client_Create")
address = ctypes.c_uint64.from_address(api_address() + HEADER_BYTES + 8 * slot).value
assert ctypes.CDLL(None)["__cxa_atexit"](ctypes.c_void_p(address), None, None) == 0
"""

DESTROYED_AT_THE_END = """
import ctypes, os, sys, time
from ingot.client.pjrt.c_api import API, HEADER_BYTES, record
from ingot.client.pjrt.plugin import api_address
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I64, PTR
from tests.client.pjrt.host import Host

module = ModuleBuilder("destroying_thread")
f = module.function("destroy", PTR, [("place", PTR)])
slot, arguments, started = (f.gep(f.params[0], index, PTR) for index in range(3))
f.atomic_store(f.const(I64, 1), started)
f.call_indirect(f.load(PTR, slot), PTR, [PTR], [f.load(PTR, arguments)])
f.ret(f.inttoptr(f.const(I64, 7), PTR))
library = link_object([compile_object(module.text(), TargetSpec.host())], {})

host = Host()
text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
layout = record("PJRT_LoadedExecutable_Destroy")
arguments = layout.structure()
arguments.struct_size, arguments.executable = layout.size, host.compile(host.client(), text)
slot = api_address() + HEADER_BYTES + 8 * API.index("PJRT_LoadedExecutable_Destroy")
destroy = ctypes.c_uint64.from_address(slot).value
place = (ctypes.c_uint64 * 3)(destroy, ctypes.addressof(arguments), 0)


class Last:
    def __init__(self, *kept):
        self.kept = kept
        self.join, self.write = ctypes.CDLL(None).pthread_join, os.write
        self.thread, self.result = ctypes.c_uint64(), ctypes.c_void_p()
        self.result_address = ctypes.byref(self.result)

    def __del__(self):
        self.join(self.thread, self.result_address)
        self.write(1, b"came back" if self.result.value == 7 else b"was ended")


# The ending interpreter drops this name first.
last = sys.last_value = Last(library, arguments, place)
sys.setswitchinterval(1000)  # the thread waits for the GIL until this one gives it away
start = ctypes.c_void_p(library.address("destroy"))
ctypes.PyDLL(None).pthread_create(ctypes.byref(last.thread), None, start, place)
del last
end = time.monotonic() + 0.2
while not place[2] or time.monotonic() < end:
    pass
"""


@pytest.mark.slow
def test_a_thread_that_destroys_a_program_as_the_interpreter_ends_comes_back():
    """CPython ends threads that wait for the GIL then, and jaxlib's pool waits for its threads."""
    done = subprocess.run(
        [sys.executable, "-c", DESTROYED_AT_THE_END],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "came back"), done.stderr


@pytest.mark.slow
def test_a_slot_called_after_the_interpreter_does_nothing():
    done = subprocess.run(
        [sys.executable, "-c", AFTER_THE_END], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_arguments_and_results_are_addresses():
    def fails(address: int) -> int:
        raise KeyError(address)

    module = ModuleBuilder("trampolines_test")
    names = ["doubles", "fails"]
    add_trampolines(Translation(module), names)
    data = compile_object(module.text(), TargetSpec.host())
    library = link_object([data], python_addresses())
    fill_targets(library, names, {"doubles": lambda address: address * 2, "fails": fails})
    pointer = ctypes.c_void_p
    assert library.function("doubles", pointer, pointer)(0x7FFF_0000_0001) == 0xFFFE_0000_0002
    told: list[object] = []
    before, sys.unraisablehook = sys.unraisablehook, told.append
    try:
        assert library.function("fails", pointer, pointer)(3) is None
    finally:
        sys.unraisablehook = before
    assert len(told) == 1


def test_a_closed_gate_lets_nobody_in():
    def inside(address: int) -> int:
        told.append(close())
        return address

    told: list[int] = []
    module = ModuleBuilder("gate_test")
    names = ["gated", "free"]
    add_trampolines(Translation(module), names, ["gated"])
    library = link_object([compile_object(module.text(), TargetSpec.host())], python_addresses())
    fill_targets(library, names, {"gated": inside, "free": lambda address: address})
    pointer = ctypes.c_void_p
    close = library.function("ingot_pjrt_close_gate", ctypes.c_int64)
    gated, free = (library.function(name, pointer, pointer) for name in names)
    assert gated(3) == 3
    assert told == [1]
    assert gated(3) is None
    assert told == [1]
    assert free(3) == 3
    assert close() == 0
    library.function("ingot_pjrt_open_gate", None)()
    assert gated(5) == 5
