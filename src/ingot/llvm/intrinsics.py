"""The intrinsics that may be used, per target: LLVM aborts the process on others.

One row per intrinsic; `FunctionBuilder.intrinsic` reads the row, derives the overloaded name and
declares it once. Every row was compiled for its targets (`tests/llvm/test_intrinsics.py`).
Source: LLVM's LangRef and `IntrinsicsNVVM.td`, `IntrinsicsX86.td`.
"""

from __future__ import annotations

from dataclasses import dataclass

RESULT = -1
"""Overload position that stands for the result type; others are argument indices."""


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """How one intrinsic is spelled: the types its name carries and where it exists."""

    overloads: tuple[int, ...] = (RESULT,)
    architectures: tuple[str, ...] = ("x86", "nvptx")


_BOTH = Intrinsic()
_ARGUMENT = Intrinsic((0,))
_NONE = Intrinsic(())
_CAST = Intrinsic((RESULT, 0))
_X86 = Intrinsic((), ("x86",))
_X86_RESULT = Intrinsic((RESULT,), ("x86",))
_X86_ARGUMENT = Intrinsic((0,), ("x86",))
_NVPTX = Intrinsic((), ("nvptx",))


def _family(row: Intrinsic, prefix: str, names: str) -> dict[str, Intrinsic]:
    return {f"{prefix}{name}": row for name in names.split()}


INTRINSICS: dict[str, Intrinsic] = {
    **_family(_BOTH, "llvm.", "fma fmuladd fabs copysign sqrt floor ceil trunc rint nearbyint"),
    **_family(_BOTH, "llvm.", "roundeven minnum maxnum minimum maximum canonicalize"),
    **_family(_BOTH, "llvm.", "smax smin umax umin abs ctpop ctlz cttz bitreverse bswap"),
    **_family(_BOTH, "llvm.", "fshl fshr uadd.sat sadd.sat usub.sat ssub.sat"),
    **_family(_BOTH, "llvm.", "sadd.with.overflow umul.with.overflow smul.with.overflow"),
    **_family(_CAST, "llvm.", "fptosi.sat fptoui.sat"),
    **_family(_ARGUMENT, "llvm.vector.reduce.", "add mul and or xor smax smin umax umin"),
    **_family(_ARGUMENT, "llvm.vector.reduce.", "fmax fmin fmaximum fminimum"),
    **_family(Intrinsic((1,)), "llvm.vector.reduce.", "fadd fmul"),
    **_family(_NONE, "llvm.", "assume trap"),
    "llvm.expect": _BOTH,
    "llvm.memcpy": Intrinsic((0, 1, 2)),
    "llvm.memmove": Intrinsic((0, 1, 2), ("x86",)),
    "llvm.memset": Intrinsic((0, 2)),
    "llvm.prefetch": _X86_ARGUMENT,
    "llvm.masked.load": Intrinsic((RESULT, 0), ("x86",)),
    "llvm.masked.store": Intrinsic((0, 1), ("x86",)),
    "llvm.masked.gather": Intrinsic((RESULT, 0), ("x86",)),
    "llvm.masked.scatter": Intrinsic((0, 1), ("x86",)),
    "llvm.masked.compressstore": _X86_ARGUMENT,
    "llvm.masked.expandload": _X86_RESULT,
    **_family(_X86, "llvm.x86.avx512bf16.", "dpbf16ps.128 dpbf16ps.256 dpbf16ps.512"),
    **_family(_X86, "llvm.x86.avx512.", "vpdpbusd.128 vpdpbusd.256 vpdpbusd.512"),
    **_family(_X86, "llvm.x86.avx512.mask.range.", "ss sd"),
    **_family(_X86, "llvm.x86.", "sse2.pmadd.wd avx2.pmadd.wd avx512.pmaddw.d.512"),
    **_family(_X86, "llvm.", "x86.sse2.pause readcyclecounter"),
    **_family(_NVPTX, "llvm.nvvm.read.ptx.sreg.", "tid.x tid.y tid.z ntid.x ntid.y ntid.z"),
    **_family(_NVPTX, "llvm.nvvm.read.ptx.sreg.", "ctaid.x ctaid.y ctaid.z"),
    **_family(_NVPTX, "llvm.nvvm.read.ptx.sreg.", "nctaid.x nctaid.y nctaid.z laneid warpsize"),
    **_family(_NVPTX, "llvm.nvvm.shfl.sync.", "bfly.i32 bfly.f32 down.i32 down.f32"),
    **_family(_NVPTX, "llvm.nvvm.shfl.sync.", "up.i32 up.f32 idx.i32 idx.f32"),
    **_family(_NVPTX, "llvm.nvvm.", "vote.ballot.sync vote.any.sync vote.all.sync"),
    **_family(_NVPTX, "llvm.nvvm.", "barrier0 bar.warp.sync membar.cta membar.gl"),
    **_family(_NVPTX, "llvm.nvvm.", "cp.async.commit.group cp.async.wait.group"),
    "llvm.nvvm.barrier.cta.sync.aligned.all": _NVPTX,
    **_family(_NVPTX, "llvm.nvvm.", "cp.async.cg.shared.global.16 cp.async.ca.shared.global.4"),
    **_family(_NVPTX, "llvm.nvvm.", "ex2.approx.ftz.f rcp.approx.ftz.f rsqrt.approx.ftz.f"),
    **_family(_NVPTX, "llvm.nvvm.mma.", "m16n8k16.row.col.bf16 m16n8k16.row.col.f32.f32"),
    **_family(_NVPTX, "llvm.nvvm.mma.", "m16n8k8.row.col.tf32 m16n8k32.row.col.s8"),
}
