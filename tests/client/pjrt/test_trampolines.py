"""Trampolines at the edges: after the interpreter's end, and functions that fail."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from ingot.client.pjrt.trampolines import emit_trampolines, fill_targets, python_addresses
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec

AFTER_THE_END = """
import ctypes
from ingot.client.pjrt.c_api import API, HEADER_BYTES
from ingot.client.pjrt.plugin import api_address

slot = API.index("PJRT_Client_Create")
address = ctypes.c_uint64.from_address(api_address() + HEADER_BYTES + 8 * slot).value
assert ctypes.CDLL(None)["__cxa_atexit"](ctypes.c_void_p(address), None, None) == 0
"""


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
    emit_trampolines(module, names)
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
