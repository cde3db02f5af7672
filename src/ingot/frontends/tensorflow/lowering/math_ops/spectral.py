# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of the last one, two or three dimensions.

The real ones take the lengths as an operand and cut or pad with zeros what they are given to them;
XLA's `fft` wants exactly those lengths.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo.instruction import Instruction


def _fitted(op: Op, x: Instruction, lengths: tuple[int, ...]) -> Instruction:
    """Return `x` cut or padded at the end of its last dimensions."""
    first = x.shape.rank - len(lengths)
    for axis, length in enumerate(lengths, first):
        size = x.shape.dims[axis]
        if not isinstance(size, int):
            raise op.error(f"dimension {axis} of the operand is open at compile time")
        if size > length:
            x = op.b.sliced(x, axis, 0, length)
        elif size < length:
            x = op.b.padded(x, axis, 0, length - size, op.b.scalar(0, x.shape.dtype))
    return x


def _plain(kind: str, rank: int) -> Rule:
    def rule(op: Op) -> Value:
        x = op.tensor(0)
        lengths = [size for size in x.shape.dims[-rank:] if isinstance(size, int)]
        if len(lengths) != rank:
            raise op.error("a transformed dimension is open at compile time")
        return op.b.emit("fft", x, fft_type=kind, fft_length=tuple(lengths))

    return rule


def _real(kind: str) -> Rule:
    def rule(op: Op) -> Value:
        lengths = op.integers(1, "length of the transform")
        given = lengths if kind == "RFFT" else (*lengths[:-1], lengths[-1] // 2 + 1)
        x = _fitted(op, op.tensor(0), given)
        return op.b.emit("fft", x, fft_type=kind, fft_length=lengths)

    return rule


RULES: dict[str, Rule] = {
    **{f"{kind}{tail}": _plain(kind, rank)
       for kind in ("FFT", "IFFT") for rank, tail in ((1, ""), (2, "2D"), (3, "3D"))},
    **{f"{kind}{tail}": _real(kind) for kind in ("RFFT", "IRFFT") for tail in ("", "2D", "3D")},
}  # fmt: skip
