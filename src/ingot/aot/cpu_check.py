# SPDX-License-Identifier: Apache-2.0
"""The question that an artifact asks before it runs: has this CPU the instructions of its code?

Emitted into the glue (`glue`), which itself is baseline x86-64 code. `cpuid` is asked once; what
the system keeps of the registers (`xgetbv`) counts as well.

Source: Intel SDM volume 2, CPUID and XGETBV; the x86-64 psABI, micro-architecture levels.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32
from ingot.llvm.values import FunctionRef, Value

_EBX, _ECX = "ebx", "ecx"

_V3 = (
    (1, _ECX, 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29),  # FMA MOVBE OSXSAVE AVX F16C
    (7, _EBX, 1 << 3 | 1 << 5 | 1 << 8),  # BMI1 AVX2 BMI2
)
_V4 = (*_V3, (7, _EBX, 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31))  # F DQ CD BW VL
NEEDS = {"plain": (), "avx2": _V3, "avx512": _V4}
_STATE = {"plain": 0, "avx2": 0x6, "avx512": 0xE6}
_UNKNOWN, _YES, _NO = 0, 1, 2


def emit_cpu_check(module: ModuleBuilder, level: str) -> FunctionRef:
    """Add `i32 cpu_is_enough()`: 1 if this CPU runs code of a level, asked once."""
    f = module.function("cpu_is_enough", I32, [], linkage="internal")
    state = module.global_text("cpu_state", "internal global i32 0, align 4")
    known = f.atomic_load(I32, state)

    def answer() -> None:
        f.ret(f.and_(known, f.const(I32, _YES)))

    f.if_(f.icmp("ne", known, f.const(I32, _UNKNOWN)), answer)

    def refuse() -> None:
        f.atomic_store(f.const(I32, _NO), state)
        f.ret(f.const(I32, 0))

    if NEEDS[level]:
        highest = _cpuid(f, 0, "eax")
        f.if_(f.icmp("ult", highest, f.const(I32, 7)), refuse)
    for leaf, register, bits in NEEDS[level]:
        _require(f, _cpuid(f, leaf, register), bits, refuse)
    if _STATE[level]:
        kept = f.inline_assembly("xgetbv", "={eax},{ecx},~{edx}", I32, [f.const(I32, 0)])
        _require(f, kept, _STATE[level], refuse)
    f.atomic_store(f.const(I32, _YES), state)
    f.ret(f.const(I32, 1))
    return f.reference


def _require(f: FunctionBuilder, value: Value, bits: int, refuse: Callable[[], None]) -> None:
    mask = f.const(I32, bits)
    f.if_(f.icmp("ne", f.and_(value, mask), mask), refuse)


def _cpuid(f: FunctionBuilder, leaf: int, register: str) -> Value:
    """Return one register of a leaf, subleaf 0."""
    text = f"cpuid; movl %{register}, %eax" if register != "eax" else "cpuid"
    constraints = "={eax},0,{ecx},~{ebx},~{ecx},~{edx}"
    return f.inline_assembly(text, constraints, I32, [f.const(I32, leaf), f.const(I32, 0)])
