# SPDX-License-Identifier: Apache-2.0
"""Targets of code generation: triple, CPU, features, and their properties for emitters.

`TargetSpec.host()` is this machine; `INGOT_CPU_LEVEL` or an argument force a level ("avx512",
"avx2", "plain"), so that the narrow paths can be tested on a wide machine. Invariant: a spec is a
plain value; equal specs generate equal code, so it is part of the object cache's key.
"""

from __future__ import annotations

from functools import cache, cached_property, lru_cache

from ingot.llvm.host_cpu import HostCpu, host_cpu
from ingot.llvm.tile_permission import may_use_tiles
from ingot.support import flags
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import record


@record
class CpuLevel:
    """One level of x86: LLVM's CPU name, features, and those added if the host has them."""

    cpu: str
    features: str
    optional: tuple[str, ...] = ()


CPU_LEVELS: dict[str, CpuLevel] = {
    # v4 prefers 256-bit vectors by default, which would halve our explicit 512-bit ones.
    "avx512": CpuLevel("x86-64-v4", "-prefer-256-bit", ("avx512bf16", "avx512vnni")),
    "avx2": CpuLevel("x86-64-v3", "", ("avxvnni",)),
    "plain": CpuLevel("x86-64", ""),
}

SLOW_BF16_PAIRS = frozenset({"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d"})
"""CPUs that multiply f32 faster than pairs of bf16, which they have AMX for: there `vdpbf16ps` of
512 bits takes 0.59 ns and an fma 0.147 ns, so pairs reach 109 GFLOP/s and f32 217 (Emerald Rapids,
one thread, 2026-11-27; the cores of the others are of the same kind)."""

WIDE_L1 = frozenset(
    {
        *("icelake-client", "icelake-server", "tigerlake", "rocketlake", "alderlake", "raptorlake"),
        *("sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "znver5"),
    }
)
"""CPUs with AVX-512 or AVX2 whose L1 data cache has sets of 12 lines, not of 8."""

FAST_GATHERS = frozenset({"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d"})
"""CPUs whose instructions that gather 32 or 64 bits are faster than a load for each lane. Beside
loads at indices computed ahead one took, for 2^18 numbers at random indices of a table, 0.8 of the
time (f32 of 16 KB), 0.9 (256 KB), 0.97 (4 MB), 0.97 (f64 of 32 KB to 8 MB; Emerald Rapids, one
thread, 2026-11-30). On an EPYC (Zen) the loads are faster, by 1.3 to 2; older Intel CPUs have slow
ones since the updates against leaks of what they gather."""

TILE_FEATURES = frozenset({"amx-tile", "amx-bf16", "amx-int8"})
"""Features of AMX that products use. Code of no level has them: a process must be permitted to."""

_IMPLIED = {
    "x86-64-v4": frozenset({"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx2", "fma", "f16c"}),
    "x86-64-v3": frozenset({"avx2", "fma", "f16c"}),
    "x86-64": frozenset[str](),
}


_ARCHITECTURES = {"nvptx64": "nvptx", "aarch64": "aarch64", "wasm32": "wasm"}
_HAVE_FMA_AND_HALF = ("nvptx", "aarch64")

_LEVEL_FEATURES = frozenset[str]().union(*_IMPLIED.values())


def host_levels() -> tuple[str, ...]:
    """Return the levels that this machine can run, widest first."""
    have = host_features()
    return tuple(name for name, level in CPU_LEVELS.items() if _IMPLIED[level.cpu] <= have)


@cache
def host_features() -> frozenset[str]:
    """Return the features that this machine's CPU has, in LLVM's names."""
    return host_cpu().feature_set


@record
class TargetSpec:
    """Triple, CPU name and feature string in LLVM's format, and the rules for floats.

    Attributes:
        triple: LLVM's target triple.
        cpu: LLVM's CPU name.
        features: LLVM's feature string.
        contracts: whether a product and a sum of floats may be one operation, rounded once.
    """

    triple: str
    cpu: str
    features: str
    contracts: bool = True

    @staticmethod
    def host(level: str | None = None) -> TargetSpec:
        """Return this machine, or a lower `level` of it (default: env `INGOT_CPU_LEVEL`).

        Raises UnsupportedError for a level that this machine's CPU does not have.
        """
        chosen = level or flags.CPU_LEVEL.value()
        target = _at_level(chosen)
        if chosen != "auto" and target.lacking:
            raise target.lacking_error(f"the level '{chosen}'")
        return target

    @staticmethod
    def at_level(level: str) -> TargetSpec:
        """Return a level of x86-64 for ahead-of-time code, whether or not this CPU runs it."""
        return _at_level(level)

    @staticmethod
    def nvptx(
        capability: str = "sm_90", ptx: str = "+ptx80", *, contracts: bool = True
    ) -> TargetSpec:
        """Return an NVIDIA GPU target: compute capability, PTX version, and `contracts`."""
        return TargetSpec("nvptx64-nvidia-cuda", capability, ptx, contracts=contracts)

    @property
    def lacking(self) -> tuple[str, ...]:
        """The features of this target's level that this machine's CPU lacks."""
        return _lacking(self.feature_set, host_features())

    def lacking_error(self, what: str) -> UnsupportedError:
        """Return the error for `what`, which this machine cannot run."""
        return UnsupportedError(
            f"this CPU cannot run {what}: it lacks {', '.join(self.lacking)}",
            hint="compile for TargetSpec.host(); code for TargetSpec.at_level can be inspected "
            "here, but runs only on CPUs of that level",
        )

    def require_cpu(self) -> None:
        """Raise UnsupportedError unless `host` or `at_level` made this.

        LLVM ends the process where triple and CPU do not fit together.
        """
        cpus = {host_cpu().name, *(level.cpu for level in CPU_LEVELS.values())}
        if self.triple != host_cpu().triple or self.cpu not in cpus:
            raise UnsupportedError(
                f"no program can be compiled for CPU '{self.cpu}' of '{self.triple}'",
                hint="use TargetSpec.host(), or TargetSpec.at_level for a level of x86-64",
            )

    @cached_property
    def feature_set(self) -> frozenset[str]:
        """The features that are on."""
        given = {item[1:] for item in self.features.split(",") if item.startswith("+")}
        return _IMPLIED.get(self.cpu, frozenset[str]()) | given

    @property
    def architecture(self) -> str:
        """The column of the intrinsics table: "x86", "aarch64", "wasm" or "nvptx"."""
        prefix = self.triple.partition("-")[0]
        return _ARCHITECTURES.get(prefix, "x86")

    @property
    def is_foreign(self) -> bool:
        """Whether this machine cannot map the code: it is for another architecture."""
        return self.architecture != "x86"

    @property
    def has_avx512(self) -> bool:
        """Whether 512-bit vectors with masks exist (F, VL, BW, DQ)."""
        return {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= self.feature_set

    @property
    def has_avx2(self) -> bool:
        """Whether 256-bit integer vectors exist."""
        return "avx2" in self.feature_set

    @property
    def has_fma(self) -> bool:
        """Whether llvm.fma is one instruction."""
        return "fma" in self.feature_set or self.architecture in _HAVE_FMA_AND_HALF

    @property
    def has_f16c(self) -> bool:
        """Whether f16 converts to and from f32 in one instruction."""
        return "f16c" in self.feature_set or self.architecture in _HAVE_FMA_AND_HALF

    @property
    def has_bf16_pairs(self) -> bool:
        """Whether products of bf16 may be made in pairs, and are faster so than converted to f32.

        A denormal counts as zero in pairs and in tiles.
        """
        has = self.has_avx512 and "avx512bf16" in self.feature_set
        return has and self.contracts and self.cpu not in SLOW_BF16_PAIRS

    @property
    def l1_ways(self) -> int:
        """Lines of a set of the L1 data cache."""
        return 12 if self.cpu in WIDE_L1 else 8

    @property
    def has_byte_quads(self) -> bool:
        """Whether `vpdpbusd` adds four products of bytes in vectors of all lengths."""
        has_avx512 = self.has_avx512 and "avx512vnni" in self.feature_set
        return has_avx512 or (
            self.has_avx2 and not self.has_avx512 and "avxvnni" in self.feature_set
        )

    @property
    def has_fast_gathers(self) -> bool:
        """Whether an instruction gathers 32 or 64 bits faster than a load for each lane."""
        return self.has_avx512 and self.cpu in FAST_GATHERS

    @property
    def has_tiles(self) -> bool:
        """Whether tiles of bytes are multiplied by one instruction (AMX)."""
        return self.has_avx512 and self.feature_set >= TILE_FEATURES

    @property
    def has_bf16_tiles(self) -> bool:
        """Whether tiles of bf16 may be multiplied so; a denormal counts as zero in them."""
        return self.has_tiles and self.contracts

    @property
    def vector_bits(self) -> int:
        """The width of one vector register."""
        return 512 if self.has_avx512 else 256 if self.has_avx2 else 128

    @property
    def num_vector_registers(self) -> int:
        """The number of vector registers that an emitter may use."""
        return 32 if self.has_avx512 or self.architecture in _HAVE_FMA_AND_HALF else 16


@cache
def _at_level(level: str) -> TargetSpec:
    host = host_cpu()
    if level == "auto":
        return TargetSpec(host.triple, host.name, _usable(host))
    chosen = CPU_LEVELS.get(level)
    if chosen is None:
        raise UnsupportedError(
            f"there is no CPU level '{level}'", hint=f"use one of {', '.join(CPU_LEVELS)}"
        )
    extra = [f"+{name}" for name in chosen.optional if name in host_features()]
    return TargetSpec(host.triple, chosen.cpu, ",".join(filter(None, [chosen.features, *extra])))


def _usable(host: HostCpu) -> str:
    """Return the features of this CPU that this process may use."""
    if host.feature_set >= TILE_FEATURES and not may_use_tiles():
        return host.features.replace("+amx", "-amx")
    return host.features


@lru_cache(maxsize=64)
def _lacking(features: frozenset[str], host: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(features & _LEVEL_FEATURES - host))
