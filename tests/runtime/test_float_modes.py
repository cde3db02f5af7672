# SPDX-License-Identifier: Apache-2.0
"""Programs compute in the modes of a new process, whatever their caller has set (MXCSR)."""

import ctypes
import platform
from contextlib import contextmanager

import numpy as np
import pytest

import ingot
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import PTR, VOID
from ingot.runtime.threading.float_modes import MODES, PLAIN

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="MXCSR is of x86-64")

FLUSH, DENORMALS_ARE_ZERO, ROUND_UP = 0x8000, 0x40, 0x4000
TEXT = """\
HloModule halves

ENTRY e {
  x = f32[100003] parameter(0)
  half = f32[] constant(0.5)
  halves = f32[100003] broadcast(half), dimensions={}
  ROOT y = f32[100003] multiply(x, halves)
}
"""


@pytest.fixture(scope="module")
def registers():
    """The CPU's own instructions, as functions of an address."""
    module = ModuleBuilder("modes")
    for name in ("stmxcsr", "ldmxcsr"):
        f = module.function(name, VOID, [("word", PTR)])
        f.intrinsic(f"llvm.x86.sse.{name}", VOID, [f.params[0]])
        f.ret()
    library = link_object([compile_object(module.text(), TargetSpec.host())])
    return [library.function(name, None, ctypes.c_void_p) for name in ("stmxcsr", "ldmxcsr")]


@pytest.fixture
def modes(registers):
    read, write = registers

    def current():
        word = ctypes.c_uint32()
        read(ctypes.addressof(word))
        return word.value & MODES

    @contextmanager
    def changed(bits):
        before = ctypes.c_uint32(current())
        write(ctypes.addressof(ctypes.c_uint32(PLAIN | bits)))
        try:
            yield current
        finally:
            write(ctypes.addressof(before))

    return changed


@pytest.mark.parametrize("bits", [FLUSH | DENORMALS_ARE_ZERO, ROUND_UP])
@pytest.mark.parametrize("threads", [1, 2])
def test_denormals_and_rounding_are_those_of_a_new_process(modes, bits, threads):
    x = np.linspace(1e-45, 3e-38, 100_003, dtype=np.float32)
    expected = x * np.float32(0.5)
    executable = ingot.compile(ingot.parse_hlo(TEXT), threads=threads)
    with modes(bits) as current:
        found = np.asarray(executable(x))
        # The caller's own modes are there again.
        assert current() == PLAIN | bits
    assert 0 < expected[1] < np.finfo(np.float32).tiny
    np.testing.assert_array_equal(found, expected)


def test_threads_that_a_flushing_thread_starts_do_not_flush(modes):
    from ingot.runtime.native import num_threads, set_num_threads

    before = num_threads()
    x = np.full(100_003, 3e-39, np.float32)
    executable = ingot.compile(ingot.parse_hlo(TEXT))
    with modes(FLUSH | DENORMALS_ARE_ZERO):
        set_num_threads(before + 3)
        try:
            found = np.asarray(executable(x))
        finally:
            set_num_threads(before)
    assert (found == np.float32(3e-39) * np.float32(0.5)).all()
