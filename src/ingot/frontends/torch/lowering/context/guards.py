# SPDX-License-Identifier: Apache-2.0
"""Sizes that PyTorch knows by its guards, while HLO's shape rules have an expression."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.torch.fx.sizes import Sizes
from ingot.hlo.dim import Dim, product
from ingot.hlo.instruction import Instruction


def guarded(b: ArrayBuilder, value: Instruction, dims: Sizes) -> Instruction:
    """Return a value with the sizes `dims`, which PyTorch's guards ensure in every call.

    PyTorch compiles separately for sizes 0 and 1, so it knows these as numbers: an image that
    shrinks to one pixel has `floordiv(n-1,32)+1` rows by HLO's rules, and 1 row in PyTorch.
    """
    for axis, (have, want) in enumerate(zip(value.shape.dims, dims, strict=True)):
        if isinstance(have, Dim) and isinstance(want, int):
            value = b.sliced(value, axis, 0, want)
    return value


def of_equal_sizes(
    b: ArrayBuilder, x: Instruction, y: Instruction, axes: Iterable[tuple[int, int]]
) -> tuple[Instruction, Instruction]:
    """Return two values whose dimensions in pairs are equal, as PyTorch's guards ensure.

    A size of several names, such as `24 * n` and `n * n * m`, is that of the second value's
    dimension if it is a number, else that of the first one's.
    """
    for axis, other in axes:
        have, want = x.shape.dims[axis], y.shape.dims[other]
        if have == want or (isinstance(have, int) and isinstance(want, int)):
            continue
        if isinstance(want, int):
            x = b.sliced(x, axis, 0, want)
        else:
            y = b.sliced(y, other, 0, have)
    return x, y


def reshaped(b: ArrayBuilder, value: Instruction, dims: Sizes) -> Instruction:
    """Return a value reshaped to `dims`, which have as many elements by PyTorch's guards.

    HLO's rules find that for most expressions, but not for `n` and `n // 6 * 6`. Leading sizes that
    are the same stay: rows are read as rows, not by quotients of an index of all elements.
    """
    have, want = value.shape.size, product(dims)
    if have != want and not (isinstance(have, int) and isinstance(want, int)):
        pairs = zip(value.shape.dims, dims, strict=False)
        outer = dims[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))]
        flat = b.reshape_to(value, (*outer, product(value.shape.dims[len(outer) :])))
        value = b.sliced(flat, len(outer), 0, product(dims[len(outer) :]))
    return b.reshape_to(value, dims)
