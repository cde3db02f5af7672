# SPDX-License-Identifier: Apache-2.0
"""The intrinsics that may be used, per target: LLVM aborts the process on others.

One row per intrinsic; `FunctionBuilder.intrinsic` reads the row, refuses operands of other types,
derives the overloaded name and declares it once. Every row was compiled for its targets
(`tests/llvm/test_intrinsics.py`).
Source: LLVM's LangRef and `IntrinsicsNVVM.td`, `IntrinsicsX86.td`.
"""

from __future__ import annotations

from ingot.llvm.types import I1, Type, vector
from ingot.support.records import record

EVERYWHERE, CPUS = ("x86", "nvptx", "aarch64", "wasm"), ("x86", "aarch64", "wasm")
"""Architectures: all, and those that the CPU compiler makes code for."""

RESULT = -1
"""Overload position that stands for the result type; others are argument indices."""


@record
class Intrinsic:
    """One intrinsic: its types, those that are part of its name, and its targets.

    `signature` names the result, then each argument: by the suffix of a type (`i32`, `v4f32`,
    `void`), or by what it shares with the one type that the intrinsic is generic over: that type as
    a float (F), as an integer (I), or as a vector of any elements (V); a vector's element (E); and
    of as many lanes integers (J), bits (B) or pointers (P).
    """

    signature: str
    overloads: tuple[int, ...] = (RESULT,)
    architectures: tuple[str, ...] = EVERYWHERE


_GENERIC = {"F": "float", "I": "integer"}


def fits(signature: str, result: Type, args: tuple[Type, ...]) -> bool:
    """Whether a call of these types matches a signature."""
    names, types = signature.split(), (result, *args)
    if len(names) != len(types):
        return False
    generic = next((each for name, each in zip(names, types, strict=True) if name in "FIV"), I1)
    return all(_is(name, each, generic) for name, each in zip(names, types, strict=True))


def _is(name: str, type: Type, generic: Type) -> bool:
    """Whether a type matches the name in a signature that is generic over `generic`."""
    if name in _GENERIC:
        return type is generic and type.lane_kind == _GENERIC[name]
    if name == "V":
        return type is generic and type.is_vector
    if name == "E":
        return type is generic.scalar
    if name in "BJP":
        kind = {"B": I1, "J": type.element, "P": type.element}[name]
        has_kind = type.lane_kind == ("pointer" if name == "P" else "integer")
        return has_kind and type is vector(kind, generic.lanes)
    return name == (type.suffix or type.text)


_X86, _NVPTX = ("x86",), ("nvptx",)


def _family(
    signature: str,
    prefix: str,
    names: str,
    overloads: tuple[int, ...] = (),
    architectures: tuple[str, ...] = EVERYWHERE,
) -> dict[str, Intrinsic]:
    row = Intrinsic(signature, overloads, architectures)
    return {f"{prefix}{name}": row for name in names.split()}


_BY_RESULT, _BY_ARGUMENT = (RESULT,), (0,)
_PRODUCTS = "v{0}f32 v{0}f32 v{1}bf16 v{1}bf16"
_BYTE_PRODUCTS = "v{0}i32 v{0}i32 v{1}i8 v{1}i8"
_PAIRS = "v{0}i32 v{1}i16 v{1}i16"
_MMA = "sl_{0}{0}{0}{0}s" + 6 * " {1}" + 4 * " {0}"

INTRINSICS: dict[str, Intrinsic] = {
    **_family("F F F F", "llvm.", "fma fmuladd", _BY_RESULT),
    **_family("F F", "llvm.", "fabs sqrt floor ceil trunc rint nearbyint", _BY_RESULT),
    **_family("F F", "llvm.", "roundeven", _BY_RESULT),
    **_family("F F", "llvm.", "canonicalize", _BY_RESULT, ("x86", "nvptx", "aarch64")),
    **_family("F F F", "llvm.", "copysign minnum maxnum minimum maximum", _BY_RESULT),
    **_family("I I I", "llvm.", "smax smin umax umin", _BY_RESULT),
    **_family("I I I", "llvm.", "uadd.sat sadd.sat usub.sat ssub.sat", _BY_RESULT),
    **_family("I I i1", "llvm.", "abs ctlz cttz", _BY_RESULT),
    **_family("I I", "llvm.", "ctpop bitreverse bswap", _BY_RESULT),
    **_family("I I I I", "llvm.", "fshl fshr", _BY_RESULT),
    **_family(
        "sl_i64i1s i64 i64",
        "llvm.",
        "sadd.with.overflow umul.with.overflow smul.with.overflow",
        _BY_ARGUMENT,
    ),
    **_family("J F", "llvm.", "fptosi.sat fptoui.sat", (RESULT, 0)),
    **_family("J F", "llvm.", "lrint", (RESULT, 0), ("x86",)),
    **_family("E I", "llvm.vector.reduce.", "add mul and or xor smax smin umax umin", _BY_ARGUMENT),
    **_family("E F", "llvm.vector.reduce.", "fmax fmin fmaximum fminimum", _BY_ARGUMENT),
    **_family("E E F", "llvm.vector.reduce.", "fadd fmul", (1,)),
    "llvm.assume": Intrinsic("void i1", ()),
    "llvm.trap": Intrinsic("void", ()),
    "llvm.expect": Intrinsic("I I I"),
    "llvm.memcpy": Intrinsic("void p0 p0 i64 i1", (0, 1, 2)),
    "llvm.memmove": Intrinsic("void p0 p0 i64 i1", (0, 1, 2), CPUS),
    "llvm.memset": Intrinsic("void p0 i8 i64 i1", (0, 2)),
    "llvm.prefetch": Intrinsic("void p0 i32 i32 i32", _BY_ARGUMENT, CPUS),
    "llvm.masked.load": Intrinsic("V p0 B V", (RESULT, 0), CPUS),
    "llvm.masked.store": Intrinsic("void V p0 B", (0, 1), CPUS),
    "llvm.masked.gather": Intrinsic("V P B V", (RESULT, 0), CPUS),
    "llvm.masked.scatter": Intrinsic("void V P B", (0, 1), CPUS),
    "llvm.masked.compressstore": Intrinsic("void V p0 B", _BY_ARGUMENT, CPUS),
    "llvm.experimental.vector.compress": Intrinsic("V V B V", _BY_RESULT, _X86),
    "llvm.masked.expandload": Intrinsic("V p0 B V", _BY_RESULT, CPUS),
    **{
        f"llvm.x86.{name}.{bits}": Intrinsic(types.format(bits // 32, bits // each), (), _X86)
        for name, types, each in (
            ("avx512bf16.dpbf16ps", _PRODUCTS, 16),
            ("avx512.vpdpbusd", _BYTE_PRODUCTS, 8),
        )
        for bits in (128, 256, 512)
    },
    **_family("void p0", "llvm.x86.", "sse.stmxcsr sse.ldmxcsr ldtilecfg", (), _X86),
    **_family("void", "llvm.x86.", "tilerelease", (), _X86),
    **_family("void i8", "llvm.x86.", "tilezero", (), _X86),
    **_family("void i8 p0 i64", "llvm.x86.", "tileloadd64 tilestored64", (), _X86),
    **_family("void i8 i8 i8", "llvm.x86.", "tdpbf16ps tdpbssd tdpbsud tdpbusd tdpbuud", (), _X86),
    "llvm.x86.avx2.permd": Intrinsic("v8i32 v8i32 v8i32", (), _X86),
    "llvm.x86.avx512.permvar.di.512": Intrinsic("v8i64 v8i64 v8i64", (), _X86),
    "llvm.x86.avx512.pternlog.d.512": Intrinsic("v16i32 v16i32 v16i32 v16i32 i32", (), _X86),
    "llvm.x86.avx512.pternlog.q.512": Intrinsic("v8i64 v8i64 v8i64 v8i64 i32", (), _X86),
    "llvm.x86.sse2.pmadd.wd": Intrinsic(_PAIRS.format(4, 8), (), _X86),
    "llvm.x86.avx2.pmadd.wd": Intrinsic(_PAIRS.format(8, 16), (), _X86),
    "llvm.x86.avx512.pmaddw.d.512": Intrinsic(_PAIRS.format(16, 32), (), _X86),
    "llvm.x86.avx512.mask.range.ss": Intrinsic("v4f32 v4f32 v4f32 v4f32 i8 i32 i32", (), _X86),
    "llvm.x86.avx512.mask.range.sd": Intrinsic("v2f64 v2f64 v2f64 v2f64 i8 i32 i32", (), _X86),
    "llvm.x86.avx512.mask.scalef.ps.512": Intrinsic(
        "v16f32 v16f32 v16f32 v16f32 i16 i32", (), _X86
    ),
    "llvm.x86.avx512.mask.scalef.pd.512": Intrinsic("v8f64 v8f64 v8f64 v8f64 i8 i32", (), _X86),
    "llvm.x86.avx512.fpclass.ps.512": Intrinsic("v16i1 v16f32 i32", (), _X86),
    "llvm.x86.avx512.fpclass.pd.512": Intrinsic("v8i1 v8f64 i32", (), _X86),
    "llvm.x86.sse2.pause": Intrinsic("void", (), _X86),
    "llvm.readcyclecounter": Intrinsic("i64", (), _X86),
    "llvm.wasm.memory.grow": Intrinsic("i32 i32 i32", _BY_RESULT, ("wasm",)),
    **{
        f"llvm.nvvm.read.ptx.sreg.{name}": Intrinsic("i32", (), _NVPTX)
        for name in (
            *(f"{each}.{axis}" for each in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
            "laneid",
            "warpsize",
        )
    },
    **{
        f"llvm.nvvm.shfl.sync.{mode}.{type}": Intrinsic(f"{type} i32 {type} i32 i32", (), _NVPTX)
        for mode in ("bfly", "down", "up", "idx")
        for type in ("i32", "f32")
    },
    "llvm.nvvm.vote.ballot.sync": Intrinsic("i32 i32 i1", (), _NVPTX),
    **_family("i1 i32 i1", "llvm.nvvm.vote.", "any.sync all.sync", (), _NVPTX),
    **_family("void", "llvm.nvvm.", "barrier0 membar.cta membar.gl", (), _NVPTX),
    **_family("void i32", "llvm.nvvm.", "barrier.cta.sync.aligned.all", (), _NVPTX),
    **_family("void i32", "llvm.nvvm.", "bar.warp.sync cp.async.wait.group", (), _NVPTX),
    **_family("void", "llvm.nvvm.cp.async.", "commit.group wait.all", (), _NVPTX),
    **_family(
        "void p3 p1", "llvm.nvvm.cp.async.", "cg.shared.global.16 ca.shared.global.4", (), _NVPTX
    ),
    "llvm.nvvm.cp.async.cg.shared.global.16.s": Intrinsic("void p3 p1 i32", (), _NVPTX),
    **_family(
        "sl_i32i32i32i32s p3",
        "llvm.nvvm.ldmatrix.sync.aligned.m8n8.",
        "x4.b16 x4.trans.b16",
        _BY_ARGUMENT,
        _NVPTX,
    ),
    **_family("f32 f32", "llvm.nvvm.", "ex2.approx.ftz.f rcp.approx.ftz.f", (), _NVPTX),
    **_family("f32 f32", "llvm.nvvm.", "rsqrt.approx.ftz.f", (), _NVPTX),
    **{
        f"llvm.nvvm.mma.{name}": Intrinsic(_MMA.format(sums, items), (), _NVPTX)
        for name, sums, items in (
            ("m16n8k16.row.col.bf16", "f32", "i32"),
            ("m16n8k16.row.col.f32.f32", "f32", "v2f16"),
            ("m16n8k8.row.col.tf32", "f32", "i32"),
            ("m16n8k32.row.col.s8", "i32", "i32"),
        )
    },
    "llvm.nvvm.mma.m8n8k4.row.col.f64": Intrinsic("sl_f64f64s f64 f64 f64 f64", (), _NVPTX),
}
