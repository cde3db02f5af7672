# SPDX-License-Identifier: Apache-2.0
"""`parse_isolated`: StableHLO read in a child process, which damaged data may kill.

MLIR ends the process on some damaged bytecode, on deep nesting and on messages that are not UTF-8,
and nothing can catch that. So `reader_process` reads data from outside in a child and returns the
packed module, which Ingot's own code reads. One child serves all loads.

Invariant: the death of a child is a `ParseError` for the data that it read only if a new child also
dies of it. A child that does not answer in time is ended.
"""

from __future__ import annotations

import json
import os

from ingot.formats.packed import unpack
from ingot.formats.stablehlo.reader_process import READ, time_limit
from ingot.hlo.module import Module
from ingot.support.channel import ChannelError, Data
from ingot.support.diagnostic_json import error_from
from ingot.support.diagnostics import ParseError, ResourceError
from ingot.support.worker import OneWorker, spawned

_MODULE = "ingot.formats.stablehlo.reader_process"


class Reader(OneWorker):
    """The child process that reads StableHLO, when there is one."""

    def read(self, data: bytes) -> Data:
        """Return the child's answer.

        Raises:
            ParseError: INGOT0120, a new child died of the data.
            ResourceError: INGOT0413, there is no child; INGOT0414, it takes too long.
        """
        with self._lock:
            answer = self._ask(data) if self._is_there() else None
            if answer is None:
                self.end()
                self._worker = spawned(_MODULE)
                answer = self._ask(data)
            if answer is None:
                raise self._died()
            return answer

    def _is_there(self) -> bool:
        return self._worker is not None and self._worker.is_alive()

    def _ask(self, data: bytes) -> Data | None:
        """Return the answer; None if the child ended instead."""
        assert self._worker is not None
        seconds = time_limit(len(data))
        try:
            channel = self._worker.channel
            self._worker.forget_printed()
            channel.send(data)
            if channel.is_ready(seconds):
                return channel.receive()
        except ChannelError:
            return None
        except BaseException:  # Ctrl-C, for example: the next request would get this answer.
            self.end()
            raise
        self.end()
        raise ResourceError(
            f"reading this StableHLO takes longer than {seconds:.0f} s",
            code="INGOT0414",
            hint="the file is damaged, or of a size that is better read in this process: "
            "INGOT_ISOLATED_READER=0",
        )

    def _died(self) -> ParseError:
        assert self._worker is not None
        how, said = self._worker.how_it_ended(), self._worker.printed()
        self.end()
        return ParseError(
            f"MLIR cannot read this StableHLO: it ended its process with {how}",
            code="INGOT0120",
            notes=tuple(f"MLIR: {line}" for line in said.splitlines()),
            hint="the file is damaged; it must be MLIR text, bytecode or a portable artifact",
        )


def parse_isolated(data: bytes) -> Module:
    """Return the module of StableHLO like `parse_stablehlo`, for any data.

    Raises:
        ParseError, UnsupportedError: as `parse_stablehlo`.
        ResourceError: INGOT0413, no process can be started; INGOT0414, it takes too long.
    """
    answer = _reader.read(data)
    content = bytes(memoryview(answer)[1:])
    if answer.startswith(READ):
        return unpack(content)
    raise error_from(json.loads(content))


_reader = Reader()
os.register_at_fork(after_in_child=_reader.after_fork_in_child)
