# SPDX-License-Identifier: Apache-2.0
"""Sizes that must be equal: how symbolic sizes of different inputs turn out to be one.

Inputs `x[n0, 8]` and `y[n1]` start with a symbol per unknown dimension. An op that needs
`n0 == n1` (an addition, a matrix product) teaches it to `Equalities`, by raising `SizeLearned`;
the lowering then starts again with the simpler parameter shapes, so the finished module holds one
symbol where the program has one size. The runtime checks the parameters against those shapes.

Invariant: every symbol that is left is the whole size of some dimension of some parameter, since
a solved symbol is replaced and the others keep their own dimension.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import gcd

from ingot.frontends.tensorflow.graphs.captured import CapturedNode
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim
from ingot.support.diagnostics import UnsupportedError


class SizesDifferError(Exception):
    """Two sizes must be equal, and only run time knows one of them.

    Attributes:
        left: a size.
        right: the other one.
        broadcasts: whether a size of 1 would do too.
    """

    def __init__(self, left: Size, right: Size, *, broadcasts: bool) -> None:
        super().__init__(f"{left} and {right}")
        self.left = left
        self.right = right
        self.broadcasts = broadcasts

    def refusal(self) -> UnsupportedError:
        """Return the error for an op that cannot be lowered with equal sizes."""
        return UnsupportedError(
            f"sizes {self.left} and {self.right} must be equal, and the data decides one of them",
            code="INGOT0310",
            hint="reshape one of them to the size of the other",
        )


class SizeLearnedError(Exception):
    """Two sizes were found to be one: start again.

    Attributes:
        symbol: the size that another one replaces.
        size: that other one.
        node: the op that needs them equal; the walk over the graph fills it in.
    """

    def __init__(self, symbol: str, size: Size) -> None:
        super().__init__(symbol)
        self.symbol = symbol
        self.size = size
        self.node: CapturedNode | None = None


class Equalities:
    """What is known of the symbols: each solved one and what it is.

    Attributes:
        reasons: the op that made a symbol another size.
    """

    def __init__(self, fixed: Mapping[str, int] | None = None) -> None:
        """Start with the sizes that are numbers."""
        self._solved: dict[str, Size] = dict(fixed or {})
        self.reasons: dict[str, CapturedNode | None] = {}

    def __len__(self) -> int:
        return len(self._solved)

    def simplify(self, dims: Sizes) -> Sizes:
        """Return `dims` with the solved symbols replaced."""
        return tuple(dim_math.substitute(size, self._solved) for size in dims)

    def fix(self, name: str, number: int) -> bool:
        """Make a symbol a number; False if that contradicts what is known, or might."""
        size = dim_math.substitute(Dim.symbol(name), self._solved)
        if isinstance(size, int):
            return size == number
        if not size.is_symbol:
            return False
        replaced = {str(size): number}
        for known, value in self._solved.items():
            self._solved[known] = dim_math.substitute(value, replaced)
        self._solved.update(replaced)
        return True

    def learn(self, left: Size, right: Size) -> bool:
        """Make two sizes equal.

        Returns:
            True when they are the same expression, False when they cannot be made so.

        Raises:
            SizeLearnedError: they can; the equality has been noted.
        """
        if left == right:
            return True
        difference = left - right
        if not isinstance(difference, Dim):
            return False
        solution = solve(difference) or _paired(difference)
        if solution is None:
            return False
        name, size = solution
        replaced = {name: size}
        for known, value in self._solved.items():
            self._solved[known] = dim_math.substitute(value, replaced)
        self._solved[name] = size
        raise SizeLearnedError(name, size)


def solve(difference: Dim, among: Container[str] | None = None) -> tuple[str, Size] | None:
    """Return (symbol, what it is) that makes `difference` zero; `among`: the symbols to look at."""
    divisor = 0
    for _, factor in difference.terms:
        divisor = gcd(divisor, factor)
    # The symbol made last is replaced: earlier inputs keep their own names.
    for key, factor in sorted(difference.terms, key=lambda term: str(term[0]), reverse=True):
        if len(key) != 1 or key[0].function or abs(factor) != divisor:
            continue
        name = key[0].text
        if among is not None and name not in among:
            continue
        symbol = Dim.symbol(name)
        rest = difference - symbol * factor
        if name in dim_math.symbols_of((rest,)):
            continue
        size = dim_math.floordiv(-rest, factor) if factor > 0 else dim_math.floordiv(rest, -factor)
        if isinstance(size, int) and size < 0:
            return None
        return name, size
    return None


def _paired(difference: Dim) -> tuple[str, Size] | None:
    """Return (symbol, another) that makes the factors of two equal products equal, one by one.

    Other sizes have equal products too; a call with such sizes does not fit the program.
    """
    if len(difference.terms) != 2:
        return None
    (left, first), (right, second) = difference.terms
    if first != -second or len(left) != len(right) or any(a.function for a in (*left, *right)):
        return None
    pairs = zip(sorted(a.text for a in left), sorted(a.text for a in right), strict=True)
    older, newer = next(sorted(pair) for pair in pairs if pair[0] != pair[1])
    return newer, Dim.symbol(older)
