# SPDX-License-Identifier: Apache-2.0
"""The metadata of an artifact: format, version, instruction set, signature.

`ingot.aot` writes it into a library as JSON, and `ingot.runtime.load` reads it before it calls
anything else. Invariant: it imports no part of the compiler; a reader refuses formats that it does
not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import record

FORMAT = 2
"""Number of the C interface and of this record. A loader takes its own number and no other."""

OUT_OF_MEMORY, WRONG_CPU = -1, -(1 << 31) + 1
"""Statuses that every program may return; `-2 - k` is constraint `k`, `1 + k` run error `k`."""

NO_WEIGHTS, WEIGHTS_UNREADABLE, WEIGHTS_SIZE, WEIGHTS_CHECKSUM, WEIGHTS_ALIGNMENT = (
    -(1 << 31) + number for number in range(3, 8)
)
"""Statuses of programs whose weights are not in the library."""

WEIGHTS = ("inside", "beside", "caller")
"""Where weights are: in the library, in a file that it maps, in memory of the caller."""

THREADS = ("none", "own")
"""Whether a program has a thread pool of its own."""

_WEIGHT_MESSAGES = {
    NO_WEIGHTS: "the weights are not loaded",
    WEIGHTS_UNREADABLE: "the file of weights cannot be read",
    WEIGHTS_SIZE: "these weights are not those of this program: the size differs",
    WEIGHTS_CHECKSUM: "these weights are not those of this program: the checksum differs",
    WEIGHTS_ALIGNMENT: "weights must be aligned to 64 bytes",
}


@record
class ArrayInfo:
    """One argument or result: XLA's element type, NumPy's type, dimensions (None: symbolic)."""

    name: str
    dtype: str
    storage: str
    dims: tuple[int | None, ...]


@record
class Metadata:
    """Everything that a caller must know about a library.

    Attributes:
        symbol: prefix of its C functions.
        version: the version of Ingot that made it.
        triple, cpu, features: LLVM's target.
        levels: the CPU levels, by Ingot's names, widest first; cpu and features are the last one's.
        params, outputs: the signature.
        num_sizes: elements of the array that `SYMBOL_prepare` fills.
        output_bytes, output_dims: indices in that array of the first result's bytes and dimensions.
        constant_bytes: bytes of weights and constants.
        weights: where they are, one of `WEIGHTS`.
        weights_file: name of the file that holds them; empty if the library does.
        threads: "none": the caller's thread or pool; "own": it has a pool as well.
    """

    symbol: str
    version: str
    triple: str
    cpu: str
    features: str
    levels: tuple[str, ...]
    params: tuple[ArrayInfo, ...]
    outputs: tuple[ArrayInfo, ...]
    num_sizes: int
    output_bytes: int
    output_dims: int
    constant_bytes: int
    weights: str = "inside"
    weights_file: str = ""
    threads: str = "none"

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return all(None not in array.dims for array in (*self.params, *self.outputs))

    def to_json(self) -> str:
        """Return the text that the library holds."""
        rows: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("params", "outputs"):
            arrays: tuple[ArrayInfo, ...] = rows[name]
            rows[name] = [[one.name, one.dtype, one.storage, one.dims] for one in arrays]
        return json.dumps({"format": FORMAT, **rows}, sort_keys=True)


def from_json(text: str, path: str) -> Metadata:
    """Return the metadata of the library at `path`.

    Raises:
        UnsupportedError: another version of Ingot wrote it, in another format.
    """
    rows = cast("dict[str, Any]", json.loads(text))
    found = rows.pop("format", None)
    if found != FORMAT:
        raise UnsupportedError(
            f"{path} is an artifact of format {found}, made by Ingot {rows.get('version')}; "
            f"this Ingot loads format {FORMAT}",
            hint="compile the model again with `ingot aot`",
        )
    for name in ("params", "outputs"):
        rows[name] = tuple(_array(row) for row in rows[name])
    rows["levels"] = tuple(rows["levels"])
    return Metadata(**rows)


def _array(row: list[Any]) -> ArrayInfo:
    name, dtype, storage, dims = row
    return ArrayInfo(name, dtype, storage, tuple(dims))


def shape_text(array: ArrayInfo | tuple[str, tuple[int | None, ...]]) -> str:
    """Return an array's type as HLO writes it: `f32[?,10]`."""
    name, dims = (array.dtype, array.dims) if isinstance(array, ArrayInfo) else array
    return f"{name}[{','.join('?' if dim is None else str(dim) for dim in dims)}]"


def messages(limits: Mapping[str, tuple[str, ...]], weights: str = "inside") -> dict[int, str]:
    """Return the message of each status.

    Args:
        limits: `refused` (constraints) and `failed` (run errors).
        weights: where weights are, one of `WEIGHTS`.
    """
    found = {OUT_OF_MEMORY: "out of memory", WRONG_CPU: "this CPU lacks instructions of the code"}
    found |= {} if weights == "inside" else _WEIGHT_MESSAGES
    found |= {-2 - number: text for number, text in enumerate(limits["refused"])}
    return found | {1 + number: text for number, text in enumerate(limits["failed"])}
