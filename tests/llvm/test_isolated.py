# SPDX-License-Identifier: Apache-2.0
"""Code for other architectures is made in a child process, whose end is an error."""

from collections.abc import Iterator

import pytest

from ingot.llvm.elf import ElfObject
from ingot.llvm.isolated import emit_isolated, end_child
from ingot.llvm.jit import compile_object
from ingot.llvm.relocations import AARCH64
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import InternalError, UnsupportedError

ARM = TargetSpec("aarch64-unknown-linux-gnu", "generic", "")
GOOD = "define i32 @f(i32 %x) { %y = add i32 %x, 1 ret i32 %y }"
# An instruction of x86: LLVM's AArch64 backend ends the process.
BAD = """
declare void @llvm.x86.sse2.pause()
define void @f() { call void @llvm.x86.sse2.pause() ret void }
"""


@pytest.fixture(autouse=True)
def no_child() -> Iterator[None]:
    yield
    end_child()


def test_objects_are_for_their_machine():
    found = ElfObject(compile_object(GOOD, ARM))
    assert found.machine.number == AARCH64
    assert found.defined == ("f",)


def test_what_ends_llvm_is_an_error_and_the_next_compilation_goes_on():
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="LLVM ended its process with") as info:
            emit_isolated(BAD, ARM, 2, ())
        assert info.value.diagnostic.code == "INGOT0344"
        assert any("annot select" in note for note in info.value.diagnostic.notes)
        assert ElfObject(emit_isolated(GOOD, ARM, 2, ())).defined == ("f",)


def test_text_that_llvm_rejects_is_told_as_in_this_process():
    with pytest.raises(InternalError, match="LLVM rejects generated IR") as info:
        emit_isolated("define i32 @f() { ret i64 0 }", ARM, 2, ())
    assert info.value.diagnostic.code == "INGOT0930"


def test_names_that_llvm_ignores_are_an_error():
    with pytest.raises(UnsupportedError, match="does not know the CPU or a feature"):
        emit_isolated(GOOD, TargetSpec(ARM.triple, "cortex-z99", ""), 2, ())
