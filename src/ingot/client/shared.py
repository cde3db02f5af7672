"""The compilation cache of this process: equal programs that are alive are one executable.

`client.compile` asks it, so that it serves `ingot.compile`, TensorFlow and JAX alike; kernels and
their objects have caches of their own below (`cpu.kernels`, `llvm.cache`). A program is its text,
its constants' bytes, the target and all switches. Invariant: what two callers share has no state
and calls nobody: no random generator, callback, collective or feed. Programs with large constants
are not shared.

Example:
    >>> from ingot import compile, parse_hlo
    >>> text = "HloModule m ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"
    >>> compile(parse_hlo(text)) is compile(parse_hlo(text))
    True
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict

from ingot.client.executable import Executable
from ingot.formats.hlo_text import print_module
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.llvm.target import TargetSpec
from ingot.support import flags
from ingot.support.xla_flags import XlaFlags

_MOST_CONSTANT_BYTES = 4 << 10
_KEPT = 32
_KEPT_INSTRUCTIONS = 500
"""So many small programs stay without anybody holding them: functions are often made anew."""

_lock = threading.Lock()
_alive: weakref.WeakValueDictionary[bytes, Executable] = weakref.WeakValueDictionary()
_latest: OrderedDict[bytes, Executable] = OrderedDict()


def fingerprint(module: Module, target: TargetSpec, switches: XlaFlags) -> bytes | None:
    """Return the name of a program and how it is compiled; None if it is not to be shared."""
    constants = [literal.value for literal in _constants(module)]
    is_large = sum(value.nbytes for value in constants) > _MOST_CONSTANT_BYTES
    if switches.dump_folder or flags.DEBUG.value() or is_large:
        return None
    digest = hashlib.sha256(print_module(module).encode("utf-8", "surrogateescape"))
    for value in constants:
        digest.update(value.tobytes())
    values = [flag.value() for flag in flags.ALL_FLAGS]
    digest.update(repr((target, switches, values)).encode())
    return digest.digest()


def _constants(module: Module) -> list[Literal]:
    return [
        instruction.attributes.literal
        for computation in module.post_order()
        for instruction in computation.instructions
        if instruction.opcode == "constant"
    ]


def find(key: bytes) -> Executable | None:
    """Return the executable of that name, if it is alive."""
    with _lock:
        found = _alive.get(key)
        if found is not None:
            _keep(key, found)
        return found


def share(key: bytes, executable: Executable) -> None:
    """Let others find an executable, if it has no state and calls nobody."""
    if not executable.artifact.calls:
        with _lock:
            _alive[key] = executable
            _keep(key, executable)


def _keep(key: bytes, executable: Executable) -> None:
    if executable.module.instruction_count <= _KEPT_INSTRUCTIONS:
        _latest[key] = executable
        _latest.move_to_end(key)
    while len(_latest) > _KEPT:
        _latest.popitem(last=False)


def forget() -> None:
    """Share nothing that was compiled before."""
    with _lock:
        _alive.clear()
        _latest.clear()
