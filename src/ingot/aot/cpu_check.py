# SPDX-License-Identifier: Apache-2.0
"""The choice among an artifact's levels: the widest that this CPU has.

The check is emitted into the glue (`glue`), which itself is baseline code. `cpuid` is executed once
for all levels and calls; the system must also save the registers (`xgetbv`). Other architectures
than x86-64 have one level, the baseline, and no check.

Source: Intel SDM volume 2, CPUID and XGETBV; the x86-64 psABI, micro-architecture levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32
from ingot.llvm.values import FunctionRef, Value
from ingot.support.records import record


@record
class Need:
    """Bits that must be set in a register of a leaf of `cpuid`."""

    leaf: int
    register: str
    bits: int
    subleaf: int = 0


_V3 = (
    Need(1, "ecx", 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29),  # FMA MOVBE OSXSAVE AVX F16C
    Need(7, "ebx", 1 << 3 | 1 << 5 | 1 << 8),  # BMI1 AVX2 BMI2
)
_V4 = (*_V3, Need(7, "ebx", 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31))  # F DQ CD BW VL
NEEDS: dict[str, tuple[Need, ...]] = {"plain": (), "avx2": _V3, "avx512": _V4}
"""The needs of x86-64's levels; other levels have none."""

FEATURES: Mapping[str, Need] = {
    "avx512bf16": Need(7, "eax", 1 << 5, 1),
    "avx512vnni": Need(7, "ecx", 1 << 11),
}
"""Features that some CPUs of the level avx512 have, by LLVM's name."""

_STATE = {"avx2": 0x6, "avx512": 0xE6}
_UNKNOWN, _NONE = 0, -1


@record
class CheckedLevel:
    """A level of an artifact, with further features (names of `FEATURES`) that it needs."""

    name: str
    features: tuple[str, ...] = ()


def emit_level_choice(module: ModuleBuilder, levels: Sequence[CheckedLevel]) -> FunctionRef:
    """Add `i32 cpu_level()`: 1 + the index of the first level that this CPU has, or -1.

    Args:
        module: where it is defined.
        levels: widest first.
    """
    checks = [_emit_check(module, number, level) for number, level in enumerate(levels)]
    f = module.function("cpu_level", I32, [], linkage="internal")
    state = module.global_text("cpu_state", "internal global i32 0, align 4")
    known = f.atomic_load(I32, state)
    f.if_(f.icmp("ne", known, f.const(I32, _UNKNOWN)), lambda: f.ret(known))

    def choose(number: int) -> None:
        f.atomic_store(f.const(I32, number), state)
        f.ret(f.const(I32, number))

    for number, check in enumerate(checks):
        has = f.icmp("ne", f.call(check, []), f.const(I32, 0))
        f.if_(has, lambda number=number: choose(1 + number))
    choose(_NONE)
    return f.reference


def _emit_check(module: ModuleBuilder, number: int, level: CheckedLevel) -> FunctionRef:
    """Add `i32 cpu_has_N()`: 1 if this CPU runs code of a level."""
    f = module.function(f"cpu_has_{number}", I32, [], linkage="internal")
    needs = (*NEEDS.get(level.name, ()), *(FEATURES[name] for name in level.features))

    def refuse() -> None:
        f.ret(f.const(I32, 0))

    if needs:
        highest = _cpuid(f, 0, 0, "eax")
        f.if_(f.icmp("ult", highest, f.const(I32, 7)), refuse)
    for need in needs:
        _require(f, _cpuid(f, need.leaf, need.subleaf, need.register), need.bits, refuse)
    if level.name in _STATE:
        kept = f.inline_assembly("xgetbv", "={eax},{ecx},~{edx}", I32, [f.const(I32, 0)])
        _require(f, kept, _STATE[level.name], refuse)
    f.ret(f.const(I32, 1))
    return f.reference


def _require(f: FunctionBuilder, value: Value, bits: int, refuse: Callable[[], None]) -> None:
    mask = f.const(I32, bits)
    f.if_(f.icmp("ne", f.and_(value, mask), mask), refuse)


def _cpuid(f: FunctionBuilder, leaf: int, subleaf: int, register: str) -> Value:
    """Return one register of a leaf."""
    text = f"cpuid; movl %{register}, %eax" if register != "eax" else "cpuid"
    constraints = "={eax},0,{ecx},~{ebx},~{ecx},~{edx}"
    return f.inline_assembly(text, constraints, I32, [f.const(I32, leaf), f.const(I32, subleaf)])
