# SPDX-License-Identifier: Apache-2.0
"""The child of `isolated`: reads StableHLO that may end it, and answers with the module.

Each message is the data of one module. The answer begins with a byte: `R`, the packed module
follows; `F`, the error as JSON follows. It ends with its parent, or when nobody asks for a while.
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
"""What reading may take: so much, and so much for each byte of the data."""


def time_limit(size: int) -> float:
    """Return in how many seconds data of this size is read, if it is whole."""
    return _SECONDS + _SECONDS_PER_MIB * size / (1 << 20)


def main(channel: Channel) -> None:
    """Answer until the parent ends or asks for nothing."""
    while channel.is_ready(_IDLE_SECONDS):
        data = channel.receive()
        if data is None:
            return
        _limit_memory(len(data))
        # The parent ends what takes too long; if it is gone, the system does.
        signal.alarm(2 * math.ceil(time_limit(len(data))))
        answer = _answer(bytes(data))
        signal.alarm(0)
        channel.send(*answer)


def _limit_memory(size: int) -> None:
    """Let data of this size take no more memory than any that is whole."""
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
