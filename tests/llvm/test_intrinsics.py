# SPDX-License-Identifier: Apache-2.0
"""Every whitelisted intrinsic compiles for its targets: LLVM would abort the process otherwise.

The compilations run in a child process, so that an abort is a failing test and not the end of all.
"""

import subprocess
import sys
from dataclasses import replace

import pytest

from ingot.llvm.builder import ModuleBuilder, Value
from ingot.llvm.intrinsics import INTRINSICS
from ingot.llvm.jit import assembly
from ingot.llvm.target import CPU_LEVELS, TILE_FEATURES, TargetSpec
from ingot.llvm.types import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    VOID,
    Type,
    pointer,
    struct,
    vector,
)
from ingot.support.diagnostics import InternalError

V = vector(F32, 16)
D = vector(F64, 3)
W = vector(I32, 16)
Q = vector(I64, 8)
B = vector(I1, 16)
P = vector(PTR, 16)
FLOATS = [F32, F64, V, D]
INTEGERS = [I8, I16, I32, I64, W, Q]

SAME: dict[str, tuple[int, list[Type]]] = {
    **dict.fromkeys(["fma", "fmuladd"], (3, FLOATS)),
    **dict.fromkeys(["fabs", "sqrt", "floor", "ceil", "trunc", "rint", "nearbyint"], (1, FLOATS)),
    **dict.fromkeys(["roundeven", "canonicalize"], (1, FLOATS)),
    **dict.fromkeys(["copysign", "minnum", "maxnum", "minimum", "maximum"], (2, FLOATS)),
    **dict.fromkeys(["smax", "smin", "umax", "umin"], (2, INTEGERS)),
    **dict.fromkeys(["uadd.sat", "sadd.sat", "usub.sat", "ssub.sat"], (2, INTEGERS)),
    **dict.fromkeys(["ctpop", "bitreverse"], (1, INTEGERS)),
    "bswap": (1, [I16, I32, I64, W]),
    "fshl": (3, INTEGERS),
    "fshr": (3, INTEGERS),
}
A1, A3 = pointer(1), pointer(3)
H2 = vector(F16, 2)
C4 = struct(F32, F32, F32, F32)
I4 = struct(I32, I32, I32, I32)
# name -> (result, argument types or constants)
OTHERS: dict[str, list[tuple[Type, list[object]]]] = {
    "abs": [(type, [type, (I1, 0)]) for type in INTEGERS],
    "ctlz": [(type, [type, (I1, 0)]) for type in INTEGERS],
    "cttz": [(type, [type, (I1, 0)]) for type in INTEGERS],
    **{
        f"{name}.with.overflow": [(struct(I64, I1), [I64, I64])]
        for name in ("sadd", "umul", "smul")
    },
    "fptosi.sat": [(W, [V]), (I64, [F64]), (I8, [F32])],
    "fptoui.sat": [(W, [V]), (I64, [F64]), (I8, [F32])],
    "lrint": [(W, [V]), (I64, [F64])],
    **{
        f"vector.reduce.{name}": [(I32, [W]), (I64, [Q])]
        for name in ["add", "mul", "and", "or", "xor", "smax", "smin", "umax", "umin"]
    },
    **{
        f"vector.reduce.{name}": [(F32, [V]), (F64, [vector(F64, 4)])]
        for name in ["fmax", "fmin", "fmaximum", "fminimum"]
    },
    "x86.avx512.mask.scalef.ps.512": [(vector(F32, 16), [*[vector(F32, 16)] * 3, I16, (I32, 4)])],
    "x86.avx512.mask.scalef.pd.512": [(vector(F64, 8), [*[vector(F64, 8)] * 3, I8, (I32, 4)])],
    "x86.avx512.fpclass.ps.512": [(vector(I1, 16), [vector(F32, 16), (I32, 255)])],
    "x86.avx512.fpclass.pd.512": [(vector(I1, 8), [vector(F64, 8), (I32, 255)])],
    "vector.reduce.fadd": [(F32, [F32, V])],
    "vector.reduce.fmul": [(F32, [F32, V])],
    "assume": [(VOID, [I1])],
    "trap": [(VOID, [])],
    "expect": [(I1, [I1, I1])],
    "memcpy": [(VOID, [PTR, PTR, I64, (I1, 0)])],
    "memmove": [(VOID, [PTR, PTR, I64, (I1, 0)])],
    "memset": [(VOID, [PTR, I8, I64, (I1, 0)])],
    "prefetch": [(VOID, [PTR, (I32, 0), (I32, 3), (I32, 1)])],
    "masked.compressstore": [(VOID, [V, PTR, B])],
    "masked.expandload": [(V, [PTR, B, V])],
    **{
        f"x86.avx512bf16.dpbf16ps.{bits}": [
            (vector(F32, bits // 32), [vector(F32, bits // 32), *[vector(BF16, bits // 16)] * 2])
        ]
        for bits in (128, 256, 512)
    },
    **{
        f"x86.{name}": [
            (vector(I32, bits // 32), [vector(I16, bits // 16), vector(I16, bits // 16)])
        ]
        for bits, name in (
            (128, "sse2.pmadd.wd"),
            (256, "avx2.pmadd.wd"),
            (512, "avx512.pmaddw.d.512"),
        )
    },
    "experimental.vector.compress": [(V, [V, B, V])],
    **{
        f"x86.avx512.pternlog.{name}.512": [(type, [type, type, type, (I32, 150)])]
        for name, type in (("d", vector(I32, 16)), ("q", vector(I64, 8)))
    },
    "x86.avx2.permd": [(vector(I32, 8), [vector(I32, 8)] * 2)],
    "x86.avx512.permvar.di.512": [(vector(I64, 8), [vector(I64, 8)] * 2)],
    **{
        f"x86.avx512.mask.range.{name}": [(type, [type, type, type, I8, (I32, 5), (I32, 4)])]
        for name, type in (("ss", vector(F32, 4)), ("sd", vector(F64, 2)))
    },
    **{
        f"x86.avx512.vpdpbusd.{bits}": [
            (vector(I32, bits // 32), [vector(I32, bits // 32), *[vector(I8, bits // 8)] * 2])
        ]
        for bits in (128, 256, 512)
    },
    **{f"x86.{name}": [(VOID, [PTR])] for name in ("sse.stmxcsr", "sse.ldmxcsr", "ldtilecfg")},
    "x86.tilerelease": [(VOID, [])],
    "x86.tilezero": [(VOID, [(I8, 0)])],
    **{f"x86.{name}64": [(VOID, [(I8, 7), PTR, I64])] for name in ("tileloadd", "tilestored")},
    **{
        f"x86.tdp{name}": [(VOID, [(I8, 0), (I8, 1), (I8, 2)])]
        for name in ("bf16ps", "bssd", "bsud", "busd", "buud")
    },
    "x86.sse2.pause": [(VOID, [])],
    "readcyclecounter": [(I64, [])],
    "wasm.memory.grow": [(I32, [(I32, 0), I32])],
    **{
        name.removeprefix("llvm."): [(I32, [])]
        for name in INTRINSICS
        if name.startswith("llvm.nvvm.read.ptx.sreg.")
    },
    **{
        f"nvvm.shfl.sync.{mode}.{text}": [(type, [(I32, -1), type, I32, (I32, 31)])]
        for mode in ("bfly", "down", "up", "idx")
        for text, type in (("i32", I32), ("f32", F32))
    },
    "nvvm.vote.ballot.sync": [(I32, [(I32, -1), I1])],
    "nvvm.vote.any.sync": [(I1, [(I32, -1), I1])],
    "nvvm.vote.all.sync": [(I1, [(I32, -1), I1])],
    "nvvm.barrier0": [(VOID, [])],
    "nvvm.barrier.cta.sync.aligned.all": [(VOID, [(I32, 0)])],
    "nvvm.bar.warp.sync": [(VOID, [(I32, -1)])],
    "nvvm.membar.cta": [(VOID, [])],
    "nvvm.membar.gl": [(VOID, [])],
    "nvvm.cp.async.commit.group": [(VOID, [])],
    "nvvm.cp.async.wait.group": [(VOID, [(I32, 0)])],
    "nvvm.cp.async.cg.shared.global.16": [(VOID, [A3, A1])],
    "nvvm.cp.async.ca.shared.global.4": [(VOID, [A3, A1])],
    "nvvm.cp.async.wait.all": [(VOID, [])],
    "nvvm.cp.async.cg.shared.global.16.s": [(VOID, [A3, A1, I32])],
    "nvvm.ldmatrix.sync.aligned.m8n8.x4.b16": [(I4, [A3])],
    "nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16": [(I4, [A3])],
    "nvvm.mma.m8n8k4.row.col.f64": [(struct(F64, F64), [F64] * 4)],
    "nvvm.ex2.approx.ftz.f": [(F32, [F32])],
    "nvvm.rcp.approx.ftz.f": [(F32, [F32])],
    "nvvm.rsqrt.approx.ftz.f": [(F32, [F32])],
    "nvvm.mma.m16n8k16.row.col.bf16": [(C4, [*[I32] * 6, *[F32] * 4])],
    "nvvm.mma.m16n8k16.row.col.f32.f32": [(C4, [*[H2] * 6, *[F32] * 4])],
    "nvvm.mma.m16n8k8.row.col.tf32": [(C4, [*[I32] * 6, *[F32] * 4])],
    "nvvm.mma.m16n8k32.row.col.s8": [(I4, [*[I32] * 6, *[I32] * 4])],
}
METHODS = {
    "masked.load": lambda f, p: f.masked_load(V, p, f.zero(B)),
    "masked.store": lambda f, p: f.masked_store(f.zero(V), p, f.zero(B)),
    "masked.gather": lambda f, p: f.gather(V, f.splat(p, 16)),
    "masked.scatter": lambda f, p: f.scatter(f.zero(V), f.splat(p, 16)),
}


def cases(name: str) -> list[tuple[Type, list[object]]]:
    if name in SAME:
        count, types = SAME[name]
        return [(type, [type] * count) for type in types]
    return OTHERS[name]


def emit(name: str, architecture: str) -> str:
    """A module whose functions call the intrinsic with arguments that nothing knows."""
    module = ModuleBuilder(name, architecture)
    short = name.removeprefix("llvm.")
    if short in METHODS:
        f = module.function("f", VOID, [("p", PTR)])
        METHODS[short](f, f.params[0])
        f.ret()
        return module.text()
    for at, (result, args) in enumerate(cases(short)):
        params = [(f"a{i}", item) for i, item in enumerate(args) if isinstance(item, Type)]
        f = module.function(f"f{at}", result, params)
        given = iter(f.params)
        operands: list[Value] = [
            next(given) if isinstance(item, Type) else f.const(*item)  # type: ignore[misc]
            for item in args
        ]
        value = f.intrinsic(name, result, operands)
        f.ret(None if result is VOID else value)
    return module.text()


def _with_all_features() -> TargetSpec:
    """Return the widest level with what its CPUs may have, whatever this machine has."""
    level = CPU_LEVELS["avx512"]
    names = (*level.optional, *sorted(TILE_FEATURES))
    features = ",".join([level.features, *(f"+{name}" for name in names)])
    return replace(TargetSpec.at_level("avx512"), features=features)


def compile_all(architecture: str) -> None:
    target = {
        "x86": _with_all_features(),
        "nvptx": TargetSpec.nvptx(),
        "aarch64": TargetSpec("aarch64-unknown-linux-gnu", "generic", ""),
        "wasm": TargetSpec("wasm32-unknown-unknown", "generic", "+simd128,+bulk-memory"),
    }[architecture]
    for name, row in INTRINSICS.items():
        if architecture in row.architectures:
            print(name, flush=True)
            assembly(emit(name, architecture), target)
    print("all compiled")


@pytest.mark.parametrize("architecture", ["x86", "nvptx", "aarch64", "wasm"])
def test_every_row_compiles_for_its_targets(architecture: str) -> None:
    done = subprocess.run(
        [sys.executable, __file__, architecture], capture_output=True, text=True, timeout=120
    )
    lines = done.stdout.splitlines()
    assert lines[-1:] == ["all compiled"], (lines[-1:], done.stderr[-2000:])


def test_an_intrinsic_of_another_target_is_refused() -> None:
    f = ModuleBuilder("m", "x86").function("f", I32, [])
    with pytest.raises(InternalError, match="whitelist of x86"):
        f.intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", I32, [])


def test_an_unknown_intrinsic_is_refused() -> None:
    f = ModuleBuilder("m").function("f", F32, [("x", F32)])
    with pytest.raises(InternalError, match=r"llvm\.nonsense"):
        f.intrinsic("llvm.nonsense", F32, f.params)


if __name__ == "__main__":
    compile_all(sys.argv[1])
