# SPDX-License-Identifier: Apache-2.0
"""`emit_isolated`: machine code for another architecture, made in a child process.

LLVM ends the process where a backend has no instruction for an operation, and for some CPU and
feature names; nothing can catch that. Code for this machine's own architecture is tested and is
compiled in this process. All other code is compiled by `emitter_process` in a child, which serves
all compilations until `end_child`.

Invariant: the death of the child is an `UnsupportedError` with what LLVM printed, and so are names
of CPUs and features that LLVM does not know (it only prints a line, and ignores them).
"""

from __future__ import annotations

import json
import os

from ingot.llvm.target import TargetSpec
from ingot.support.channel import ChannelError, Data
from ingot.support.diagnostic_json import error_from
from ingot.support.diagnostics import ResourceError, UnsupportedError
from ingot.support.worker import OneWorker, Worker, spawned

_MODULE = "ingot.llvm.emitter_process"
MADE, FAILED = b"M", b"F"
"""The first byte of an answer: an object follows, or an error as JSON."""


class _Emitter(OneWorker):
    """The child process that makes code, when there is one."""

    def emit(self, request: bytes, target: TargetSpec) -> Data:
        """Return the child's answer.

        Raises:
            UnsupportedError: the child died, or LLVM does not know the CPU or a feature.
            ResourceError: INGOT0413 no process can be started.
        """
        with self._lock:
            if self._worker is None or not self._worker.is_alive():
                self.end()
                self._worker = _started()
            worker = self._worker
            try:
                worker.forget_printed()
                worker.channel.send(request)
                answer = worker.channel.receive()
            except ChannelError:
                answer = None
            except BaseException:  # Ctrl-C: the next request would get this answer.
                self.end()
                raise
            said = worker.printed()
            how = worker.how_it_ended() if answer is None else ""
            if answer is None:
                self.end()
        if answer is None:
            raise _refused(target, f"LLVM ended its process with {how}", said)
        if "not a recognized" in said:
            raise _refused(target, "LLVM does not know the CPU or a feature", said)
        return answer

    def close(self) -> None:
        """End the child when no request is in progress."""
        with self._lock:
            self.end()


def _started() -> Worker:
    try:
        return spawned(_MODULE)
    except ResourceError as error:
        raise ResourceError(
            f"code for another architecture is made in a child process: {error.diagnostic.message}",
            code="INGOT0413",
            hint="compile where Python can start processes, or for x86-64",
        ) from error


def _refused(target: TargetSpec, why: str, said: str) -> UnsupportedError:
    lines = [line for line in dict.fromkeys(said.splitlines()) if line][:5]
    return UnsupportedError(
        f"there is no code for '{target.triple}', CPU '{target.cpu}', features "
        f"'{target.features}': {why}",
        code="INGOT0344",
        notes=tuple(f"LLVM: {line}" for line in lines),
        hint="leave the CPU and features out, or use those that LLVM has; if it happens without, "
        "LLVM's backend lacks something that this program needs",
    )


def emit_isolated(ir_text: str, target: TargetSpec, level: int, passes: tuple[str, ...]) -> bytes:
    """Return the object file of a module for another architecture.

    Raises:
        InternalError: INGOT0930 LLVM rejects the text.
        UnsupportedError: INGOT0344 LLVM has no code for it on this target.
        ResourceError: INGOT0413 no process can be started.
    """
    facts = [target.triple, target.cpu, target.features, level, list(passes), ir_text]
    answer = _emitter.emit(json.dumps(facts).encode(), target)
    content = bytes(memoryview(answer)[1:])
    if answer.startswith(MADE):
        return content
    raise error_from(json.loads(content))


def end_child() -> None:
    """End the child process, if there is one; the next compilation starts another."""
    _emitter.close()


_emitter = _Emitter()
os.register_at_fork(after_in_child=_emitter.after_fork_in_child)
