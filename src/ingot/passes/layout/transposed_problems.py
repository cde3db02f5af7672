# SPDX-License-Identifier: Apache-2.0
"""Triangular solves by LAPACK as the transposed problem: rows are passed as columns.

Part of `custom-call-layouts`. LAPACK's matrices are column-major, so it reads a row-major matrix as
its transpose. A triangular system `op(A) X = B` is `X^T op(A)^T = B^T`: with the opposite side and
triangle, no element moves.

Cholesky factors could be transposed as well, but OpenBLAS takes 17 % to 33 % longer for upper
triangles than for lower ones, which is more than the transposes take.

Invariant: the same elements are read, and each result lies where the call's user reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, find
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.semantics.call_layouts import layout_orders
from ingot.semantics.custom_calls import config_text

_TARGET = re.compile(r"lapack_[sdcz]trsm_ffi")

_OPPOSITE: Mapping[str, Mapping[str, str]] = {
    "side": {"L": "R", "R": "L"},
    "uplo": {"L": "U", "U": "L"},
}
"""Attributes that are the opposite in the transposed problem."""

DEPTH = 4
"""A value is traced to a transpose through at most this many elementwise ops."""


def transposed_config(call: Instruction) -> str | None:
    """Return the configuration of the call's transposed problem if that moves less, else None."""
    is_known = _TARGET.fullmatch(call.attributes.custom_call_target) is not None
    if not is_known or not _is_by_columns(call) or not _moves_less(call):
        return None
    config: str | None = config_text(call)
    for name in _OPPOSITE:
        config = None if config is None else _with_opposite(config, name)
    return config


def _with_opposite(config: str, name: str) -> str | None:
    """Return a configuration with the opposite of one attribute; None if it has none."""
    match = re.search(rf"\b{name} = (\d+)\b", config)
    other = _OPPOSITE[name].get(chr(int(match.group(1)))) if match is not None else None
    if match is None or other is None:
        return None
    return config[: match.start(1)] + str(ord(other)) + config[match.end(1) :]


def _is_by_columns(call: Instruction) -> bool:
    """Whether all matrices of a call are column-major, in row-major batches."""
    rank = call.operands[0].shape.rank
    if rank < 2 or any(operand.shape.rank != rank for operand in call.operands):
        return False
    columns = (rank - 2, rank - 1, *range(rank - 3, -1, -1))
    orders = [order for side in layout_orders(call) for order in side]
    return all(order == columns for order in orders if len(order) == rank)


def _moves_less(call: Instruction) -> bool:
    """Whether passing rows moves fewer elements; the results are needed by rows."""
    rows: int | Dim = 0
    columns: int | Dim = sum(leaf.size for _, leaf in call.shape.leaves())
    for operand in call.operands:
        if _is_transposed(operand, DEPTH):
            rows = rows + operand.shape.size
        else:
            columns = columns + operand.shape.size
    if isinstance(rows, Dim) or isinstance(columns, Dim):
        return rows == 0
    return rows <= columns


def _is_transposed(value: Instruction, depth: int) -> bool:
    """Whether a value is a matrix's transpose, or computed element by element from one."""
    if value.opcode == "transpose":
        given = value.as_(DimensionsAttributes)
        rank = value.shape.rank
        return given.dimensions[-2:] == (rank - 1, rank - 2)
    if value.opcode == "get-tuple-element" and value.operands[0].opcode == "tuple":
        index: int = value.attributes.index
        return depth > 0 and _is_transposed(value.operands[0].operands[index], depth - 1)
    if depth == 0 or not find(value.opcode).has(Trait.ELEMENTWISE):
        return False
    return any(_is_transposed(operand, depth - 1) for operand in value.operands)
