# SPDX-License-Identifier: Apache-2.0
"""Arguments and results of runs: the proto of XLA's run_hlo_module, both ways.

One row per iteration: the arguments, the result, and the reference platform's result.

Source: xla/tools/run_hlo_module.proto.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.formats.hlo_proto.shapes import read_literal, write_literal
from ingot.formats.hlo_proto.wire import Message, decode, encode
from ingot.hlo.literal import Literal
from ingot.support.arguments import bytes_of
from ingot.support.diagnostics import ParseError
from ingot.support.records import record

_KIND = "RunHloModuleLiterals"


@record
class IterationLiterals:
    """One iteration: the arguments and the result of a module."""

    arguments: tuple[Literal, ...] = ()
    result: Literal | None = None
    reference_result: Literal | None = None


def parse_literals(data: bytes) -> list[IterationLiterals]:
    """Return the iterations of a RunHloModuleLiterals, or the one of a snapshot.

    Raises:
        ParseError: it is neither (INGOT0122).
    """
    data = bytes_of(data, "the proto")
    snapshot = _snapshot(data)
    rows = [snapshot] if snapshot is not None else decode(data, _KIND).get("iterations", [])
    if not rows:
        raise ParseError(
            "the proto holds no literals",
            code="INGOT0122",
            hint="it must be a RunHloModuleLiterals or an HloSnapshot",
        )
    return [_read(row) for row in rows]


def print_literals(rows: Sequence[IterationLiterals]) -> bytes:
    """Return iterations as a serialized RunHloModuleLiterals."""
    return encode({"iterations": [_write(row) for row in rows]}, _KIND)


def _snapshot(data: bytes) -> Message | None:
    try:
        message = decode(data, "HloSnapshot")
    except ParseError:
        return None
    return message if message.get("hlo", {}).get("hlo_module") else None


def _read(message: Message) -> IterationLiterals:
    results = (message.get(name) for name in ("result", "reference_result"))
    return IterationLiterals(
        tuple(map(read_literal, message.get("arguments", ()))),
        *(None if result is None else read_literal(result) for result in results),
    )


def _write(row: IterationLiterals) -> Message:
    message: Message = {"arguments": [write_literal(one) for one in row.arguments]}
    for name in ("result", "reference_result"):
        literal: Literal | None = getattr(row, name)
        if literal is not None:
            message[name] = write_literal(literal)
    return message
