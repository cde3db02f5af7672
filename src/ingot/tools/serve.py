# SPDX-License-Identifier: Apache-2.0
"""`ingot serve --stdio`: compiles and runs programs for hosts that cannot load C libraries.

Reads requests from standard input, writes one answer for each to standard output, in order, and
ends with the input. docs/serve.md is the protocol. Invariant: only answers go to standard output;
all other output of this process, and of the one that computes, goes to standard error.
"""

from __future__ import annotations

import os
import sys

import click

from ingot.support.freed_memory import keep_freed_memory
from ingot.tools.serving.framing import ENCODINGS, MAX_BYTES
from ingot.tools.serving.supervisor import Limits, Supervisor

_MIB = 1 << 20
_KEPT_BYTES = 64 << 20


@click.command(name="serve")
@click.option("--stdio", is_flag=True, help="Serve the process that started this one (required).")
@click.option(
    "--form",
    type=click.Choice([*ENCODINGS]),
    default="packets",
    show_default=True,
    help="Size and raw bytes, or a line of JSON with base64.",
)
@click.option(
    "--max-message-mib",
    type=click.IntRange(1, MAX_BYTES // _MIB),
    show_default=True,
    default=MAX_BYTES // _MIB,
    help="Refuse larger messages.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    help="End requests that take longer; 0 for no limit.",
)
@click.option("--max-memory-mib", type=click.IntRange(0), show_default="the machine's memory",
              default=None, help="Memory of programs and arrays; 0 for no limit.")  # fmt: skip
def command(
    stdio: bool, form: str, max_message_mib: int, max_seconds: float, max_memory_mib: int | None
) -> None:
    """Compile and run programs as requests on standard input say (docs/serve.md)."""
    if not stdio:
        raise click.UsageError("there is one way to serve: --stdio")
    memory = _machine_memory() if max_memory_mib is None else max_memory_mib * _MIB
    limits = Limits(max_message_mib * _MIB, max_seconds, memory)
    keep_freed_memory(_KEPT_BYTES)  # mapping costs more than copying a large message
    Supervisor(*take_pipes(), ENCODINGS[form], limits).run()


def take_pipes() -> tuple[int, int]:
    """Return the descriptors of the two pipes, and redirect all other input and output."""
    sys.stdout.flush()
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Line-buffered, since a worker may be killed at any time.
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    return requests, answers


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
