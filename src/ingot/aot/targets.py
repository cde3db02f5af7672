# SPDX-License-Identifier: Apache-2.0
"""The target of an artifact: `--level`, `--target-triple`, `--target-cpu`, `-features`.

This is the first step of `build`: options become a `Target`, with one `LevelTarget` for each
version of the code. Invariant: LLVM only gets triples and CPUs that fit each other, since it aborts
the process on others; names that only LLVM knows (CPUs of AArch64) are tried in a child process
(`ingot.llvm.isolated`).

Example:
    >>> target_of("plain,avx2").level_names
    ('avx2', 'plain')
    >>> target_of(features="+avx2,+fma").level_names
    ('avx2',)
    >>> target_of(triple="aarch64-linux-gnu").baseline.spec.cpu
    'generic'
"""

from __future__ import annotations

import re

from ingot.aot.cpu_check import FEATURES, CheckedLevel
from ingot.llvm.target import CPU_LEVELS, TargetSpec, host_levels
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import record

TRIPLES = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "wasm32-unknown-unknown")
"""A triple of each architecture that artifacts support."""

WASM_FEATURES = "+simd128,+bulk-memory,+nontrapping-fptoint,+sign-ext"
"""WebAssembly with vectors: Chrome 91, Firefox 89, Safari 16.4, Node 16 or later."""

_CPUS = {
    **{row.cpu: name for name, row in CPU_LEVELS.items()},
    **dict.fromkeys(("haswell", "broadwell", "skylake", "znver1", "znver2", "znver3"), "avx2"),
    **dict.fromkeys(("skylake-avx512", "cascadelake", "icelake-server"), "avx512"),
    **dict.fromkeys(("sapphirerapids", "znver4", "znver5"), "avx512"),
}
"""The level of each CPU that `--target-cpu` may name."""

_LEVEL_FEATURES = {
    "avx512": {"avx512f", "avx512vl", "avx512bw", "avx512dq"},
    "avx2": {"avx2", "fma"},
}
"""Features that require a level, widest first."""

_OLDER = {
    *("sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "avx", "popcnt", "cx16", "f16c"),
    *("bmi", "bmi2", "lzcnt", "movbe", "avx512cd", "xsave"),
}
"""Features that are allowed and require no level."""


@record
class LevelTarget:
    """One version of the code: its level, LLVM's target, and the check of the CPU."""

    check: CheckedLevel
    spec: TargetSpec

    @property
    def name(self) -> str:
        """The level's name."""
        return self.check.name


@record
class Target:
    """The target of an artifact: its versions, widest first."""

    levels: tuple[LevelTarget, ...]

    @property
    def baseline(self) -> LevelTarget:
        """The version that needs least."""
        return self.levels[-1]

    @property
    def architecture(self) -> str:
        """The architecture, `TargetSpec.architecture`."""
        return self.baseline.spec.architecture

    @property
    def glue(self) -> TargetSpec:
        """The target of the C functions, which run on every CPU of the architecture."""
        spec = self.baseline.spec
        return _spec("plain") if self.architecture == "x86" else spec

    @property
    def level_names(self) -> tuple[str, ...]:
        """The names of the levels, widest first."""
        return tuple(level.name for level in self.levels)


def target_of(levels: str = "", triple: str = "", cpu: str = "", features: str = "") -> Target:
    """Return the target that options name.

    Args:
        levels: names of `CPU_LEVELS` with commas between them; default: the widest of this machine.
        triple: LLVM's triple; default: x86-64 Linux.
        cpu: LLVM's name of a CPU, instead of `levels`.
        features: LLVM's features, each with a +: `+avx2,+fma`.

    Raises:
        UnsupportedError: the target is unknown, or the options contradict each other.
    """
    names = _feature_names(features)
    architecture, _, system = (triple or TRIPLES[0]).partition("-")
    if architecture in ("x86_64", "amd64") and _is_linux(system):
        return _x86(levels, cpu, names)
    if levels:
        raise UnsupportedError(
            f"'{triple}' has no CPU levels",
            hint="levels are for x86-64; leave --level out, or give --target-features",
        )
    if architecture in ("aarch64", "arm64") and _is_linux(system):
        # The system's name decides which functions LLVM may call; one spelling gives equal objects.
        spec = TargetSpec(TRIPLES[1], cpu or "generic", _written(names))
        return Target((LevelTarget(CheckedLevel("armv8-a"), spec),))
    if triple.startswith("wasm32-unknown-unknown"):
        if cpu not in ("", "generic") or names:
            raise UnsupportedError(
                f"'{triple}' has one set of instructions: {WASM_FEATURES}",
                hint="leave --target-cpu and --target-features out",
            )
        spec = TargetSpec(TRIPLES[2], "generic", WASM_FEATURES)
        return Target((LevelTarget(CheckedLevel("simd128"), spec),))
    raise UnsupportedError(
        f"there are no artifacts for '{triple}'",
        hint=f"use {', '.join(TRIPLES)}, or one of these architectures with another name for Linux",
    )


def _is_linux(system: str) -> bool:
    words = system.split("-")
    return "linux" in words and not {"gnux32", "gnu_ilp32"} & set(words)


def _feature_names(features: str) -> tuple[str, ...]:
    names: list[str] = []
    for item in filter(None, (part.strip() for part in features.split(","))):
        if not re.fullmatch(r"\+[A-Za-z0-9_.-]+", item):
            raise UnsupportedError(
                f"'{item}' is not a CPU feature that code can be compiled for",
                hint="give names with a + before each: +avx2,+fma",
            )
        names.append(item[1:])
    return tuple(names)


def _written(names: tuple[str, ...]) -> str:
    return ",".join(f"+{name}" for name in names)


def _x86(levels: str, cpu: str, names: tuple[str, ...]) -> Target:
    known = _OLDER.union(FEATURES, *_LEVEL_FEATURES.values())
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UnsupportedError(
            f"artifacts for x86-64 cannot use the feature '{unknown[0]}'",
            hint=f"use --level, or features among {', '.join(sorted(known))}",
        )
    chosen = _chosen_levels(levels, cpu, names)
    extra = tuple(name for name in names if name in FEATURES)
    if extra and chosen[0] != "avx512":
        raise UnsupportedError(
            f"'{extra[0]}' needs the level avx512", hint="add --level=avx512, or leave it out"
        )
    return Target(
        tuple(
            LevelTarget(
                CheckedLevel(name, extra if name == "avx512" else ()),
                _spec(name, extra if name == "avx512" else ()),
            )
            for name in chosen
        )
    )


def _chosen_levels(levels: str, cpu: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the levels that options name, widest first."""
    given = [name.strip() for name in levels.split(",")] if levels else []
    if cpu:
        if given or cpu not in _CPUS:
            raise UnsupportedError(
                f"'{cpu}' cannot be --target-cpu" + (" beside --level" if given else ""),
                hint=f"use --level, or one of {', '.join(_CPUS)}",
            )
        given = [_CPUS[cpu]]
    asked = [level for level, needs in _LEVEL_FEATURES.items() if needs <= set(names)][:1]
    if not given:
        given = asked or (["plain"] if names else [host_levels()[0]])
    for name in given:
        if name not in CPU_LEVELS:
            raise UnsupportedError(
                f"there is no CPU level '{name}'", hint=f"use one of {', '.join(CPU_LEVELS)}"
            )
    return tuple(name for name in CPU_LEVELS if name in given)


def _spec(level: str, features: tuple[str, ...] = ()) -> TargetSpec:
    # Not `TargetSpec.at_level`, which adds features of this machine.
    row = CPU_LEVELS[level]
    text = ",".join(filter(None, (row.features, _written(features))))
    return TargetSpec(TargetSpec.at_level(level).triple, row.cpu, text)
