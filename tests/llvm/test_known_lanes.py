# SPDX-License-Identifier: Apache-2.0
"""What the builder knows of constants in lanes costs no instruction."""

import pytest

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.elf import ElfObject
from ingot.llvm.jit import compile_object
from ingot.llvm.optimization import Optimization
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, I1, I16, I32, PTR, VOID, vector
from ingot.llvm.values import known_lanes

WIDE, MASK = vector(F32, 32), vector(I1, 32)


def copying(count: int) -> str:
    """Return a module that copies the first `count` of 32 lanes."""
    module = ModuleBuilder("m", vector_bits=512)
    f = module.function("f", VOID, [("to", PTR), ("origin", PTR)])
    mask = f.const(MASK, [lane < count for lane in range(32)])
    f.masked_store(f.masked_load(WIDE, f.params[1], mask), f.params[0], mask)
    f.ret()
    compile_object(module.text(), TargetSpec.host())
    return module.text()


@pytest.mark.parametrize(("count", "masked", "whole"), [(0, 0, 0), (16, 0, 1), (20, 1, 1)])
def test_registers_of_a_known_mask_are_whole_or_none(count, masked, whole):
    text = copying(count)
    assert text.count("call <16 x float> @llvm.masked.load") == masked
    assert text.count("call void @llvm.masked.store") == masked
    assert text.count(" load <16 x float>") == text.count("store <16 x float>") == whole


def test_a_shuffle_of_constants_is_a_constant():
    module = ModuleBuilder("m")
    f = module.function("f", VOID, [])
    a = f.const(vector(I32, 4), [1, 2, 3, 4])
    found = f.shuffle(a, f.zero(a.type), [3, 0, 4, 1])
    assert known_lanes(found) == ("4", "1", "0", "2")
    assert f.slice_lanes(f.const(vector(I32, 4), 7), 1, 2).text == "splat (i32 7)"
    assert f.lines == []


def test_slices_of_joined_vectors_are_the_parts():
    module = ModuleBuilder("m")
    f = module.function("f", VOID, [("p", PTR)])
    parts = [f.load(vector(F32, 8), f.gep(f.params[0], 32 * n)) for n in range(4)]
    joined = f.concat_lanes(parts)
    before = len(f.lines)
    assert [f.slice_lanes(joined, 8 * n, 8) for n in range(4)] == parts
    assert len(f.lines) == before


def test_a_quick_function_loads_its_vector_constants():
    module = ModuleBuilder("m")
    f = module.function("f", VOID, [("p", PTR)], opt_level_0=True)
    type = vector(F32, 16)
    one = f.const(type, 1.0)
    assert f.const(type, 1.0) == f.splat(f.const(F32, 1.0), 16) == one
    f.store(f.add(f.load(type, f.params[0]), one), f.params[0])
    f.ret()
    text = module.text()
    assert text.count("constant <16 x float> splat") == 1
    compile_object(text, TargetSpec.host(), Optimization(0))


def test_high_halves_in_a_quick_function():
    # LLVM aborts on these at level 2 in a function marked `optnone`.
    module = ModuleBuilder("m")
    f = module.function("f", VOID, [("p", PTR)], opt_level_0=True)
    type = vector(I32, 4)
    high = f.and_(f.load(type, f.params[0]), f.const(type, -65536))
    f.store(f.trunc(f.lshr(high, f.const(type, 16)), vector(I16, 4)), f.params[0])
    f.ret()
    for level in (0, 2):
        code = compile_object(module.text(), TargetSpec.host(), Optimization(level))
        assert "f" in ElfObject(code).defined
