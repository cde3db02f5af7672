# SPDX-License-Identifier: Apache-2.0
"""The child process of `isolated`: compiles for other architectures, which may kill it.

Each message is a JSON list: triple, CPU, features, optimization level, passes, IR. The answer
begins with a byte: `M`, the object follows; `F`, the error as JSON follows. It ends with its
parent, or after some idle time.
"""

from __future__ import annotations

import json
import sys

from ingot.llvm.isolated import FAILED, MADE
from ingot.llvm.jit import emit_object
from ingot.llvm.optimization import Optimization
from ingot.llvm.target import TargetSpec
from ingot.support.channel import Channel
from ingot.support.diagnostic_json import error_as_json
from ingot.support.worker import inherited, prepare

_IDLE_SECONDS = 300.0


def main(channel: Channel) -> None:
    """Answer until the parent ends or is idle for long."""
    while channel.is_ready(_IDLE_SECONDS):
        data = channel.receive()
        if data is None:
            return
        channel.send(*_answer(bytes(data)))


def _answer(data: bytes) -> tuple[bytes, bytes]:
    triple, cpu, features, level, passes, text = json.loads(data)
    try:
        how = Optimization(level, tuple(passes))
        return MADE, emit_object(text, TargetSpec(triple, cpu, features), how)
    except Exception as error:
        return FAILED, json.dumps(error_as_json(error)).encode()


if __name__ == "__main__":
    prepare()
    main(inherited(sys.argv[1:]))
