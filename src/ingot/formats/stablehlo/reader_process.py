# SPDX-License-Identifier: Apache-2.0
"""The child process of `isolated`: reads StableHLO that may kill it, and returns the module.

Each message is the data of one module. The answer begins with a byte: `R`, the packed module
follows; `F`, the error as JSON follows. It ends with its parent, or after some idle time.
"""

from __future__ import annotations

import json
import math
import resource
import signal
import sys

from ingot.formats.packed import pack
from ingot.formats.stablehlo.binding import is_bytecode
from ingot.formats.stablehlo.parse import parse_stablehlo
from ingot.support.channel import Channel
from ingot.support.diagnostic_json import error_as_json
from ingot.support.worker import inherited, prepare

READ, FAILED = b"R", b"F"
_IDLE_SECONDS = 300.0
_SECONDS, _SECONDS_PER_MIB = 20.0, 60.0
_BYTES, _BYTES_EACH = 4 << 30, 64
"""Limits of reading: a constant, and an amount for each byte of the data."""


def time_limit(size: int) -> float:
    """Return the time limit in seconds for data of this size, if it is intact."""
    return _SECONDS + _SECONDS_PER_MIB * size / (1 << 20)


def main(channel: Channel) -> None:
    """Answer until the parent ends or is idle for long."""
    while channel.is_ready(_IDLE_SECONDS):
        data = channel.receive()
        if data is None:
            return
        _limit_memory(len(data))
        # The parent ends a child that takes too long; if the parent is gone, the system does.
        signal.alarm(2 * math.ceil(time_limit(len(data))))
        answer = _answer(bytes(data))
        signal.alarm(0)
        channel.send(*answer)


def _limit_memory(size: int) -> None:
    """Limit memory to what intact data of this size can need."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _BYTES + _BYTES_EACH * size
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _answer(data: bytes) -> tuple[bytes, bytes]:
    try:
        return READ, pack(parse_stablehlo(_source(data)))
    except Exception as error:
        return FAILED, json.dumps(error_as_json(error)).encode()


def _source(data: bytes) -> str | bytes:
    return data if is_bytecode(data) else data.decode("utf-8", "surrogateescape")


if __name__ == "__main__":
    prepare()
    main(inherited(sys.argv[1:]))
