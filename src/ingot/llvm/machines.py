# SPDX-License-Identifier: Apache-2.0
"""LLVM's target machines, which turn IR into code: made once, lent to one compilation at a time.

LLVM is initialized when the first one is made, with options for the whole process.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ingot.llvm.binding import llvm
from ingot.llvm.target import TargetSpec
from ingot.support.forking import ForkLock

OPTIONS = ("-disable-lsr", "-post-RA-scheduler=false")
"""LLVM options for the whole process. Loops here carry few addresses and processors reorder
instructions themselves: both passes took 20 % of code generation and made nothing faster."""

_machines: dict[tuple[TargetSpec, int], list[Any]] = {}
_machines_lock = ForkLock()
_initialize_lock = ForkLock()
_initialized = False


def _initialize() -> None:
    global _initialized
    with _initialize_lock:
        if not _initialized:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            llvm.initialize_native_asmparser()
            for option in OPTIONS:
                llvm.set_option("ingot", option)
            _initialized = True


@contextmanager
def borrowed_machine(target: TargetSpec, opt_level: int) -> Generator[Any]:
    """Lend a target machine to one compilation: making one is slow, sharing one is not safe."""
    with _machines_lock:
        idle = _machines.setdefault((target, opt_level), [])
        machine = idle.pop() if idle else None
    if machine is None:
        machine = make_machine(target, opt_level)
    yield machine
    with _machines_lock:
        idle.append(machine)


def _target_of(triple: str) -> Any:
    """Return LLVM's target; registering other targets makes every compilation slower."""
    _initialize()
    try:
        return llvm.Target.from_triple(triple)
    except RuntimeError:
        with _initialize_lock:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        return llvm.Target.from_triple(triple)


def make_machine(target: TargetSpec, opt_level: int) -> Any:
    """Return a new target machine: position-independent code, calls of any distance."""
    return _target_of(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=opt_level,
        reloc="static" if target.architecture == "wasm" else "pic",
        codemodel="small" if target.architecture == "x86" else "default",
        jit=target.architecture == "x86",
    )
