# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes: a dimension is an `int` or a `Dim`.

A `Dim` is an interned integer polynomial over atoms; an atom is a named size or a floordiv, mod,
min or max of two sizes. The normal form lets structural equality decide most equalities that shape
rules need. Named sizes are >= 0. Arithmetic with a constant result returns an `int`, so static
programs never see a `Dim`.

Example:
    >>> n = Dim.symbol("n")
    >>> (2 * n + n) // 3 is n, n - n
    (True, 0)
    >>> str((n + 1) * 4), evaluate((n + 1) * 4, {"n": 5})
    ('4*n+4', 24)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from math import gcd
from typing import overload

from ingot.support.diagnostics import UnsupportedError
from ingot.support.interning import InternTable
from ingot.support.records import record

Monomial = tuple["Atom", ...]

MAX_NESTING = 100
"""Nested functions of sizes at most; code that follows a size may recurse over them."""

MAX_TEXT = 1 << 16
"""Characters of a function of sizes at most: one that contains its operand twice doubles them."""


@record
class Atom:
    """A named size (`function` empty) or a function of two sizes, ordered by their texts."""

    text: str
    function: str = ""
    left: int | Dim = 0
    right: int | Dim = 0
    nesting: int = 0

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)


class Dim:
    """An integer expression over named sizes; interned, immutable, hashable."""

    __slots__ = ("__weakref__", "held_symbols", "nesting", "terms", "text")
    held_symbols: frozenset[str] | None
    terms: tuple[tuple[Monomial, int], ...]
    text: str
    nesting: int

    @staticmethod
    @lru_cache(maxsize=1 << 12)
    def symbol(name: str) -> Dim:
        """Return the named size `name`."""
        return _intern((((Atom(name),), 1),))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Dim({self.text})"

    def __lt__(self, other: object) -> bool:
        return self.text < str(other)

    def __add__(self, other: int | Dim) -> int | Dim:
        return _sum(self, other)

    def __radd__(self, other: int | Dim) -> int | Dim:
        return self + other

    def __neg__(self) -> int | Dim:
        return _from_terms([(key, -value) for key, value in self.terms])

    def __sub__(self, other: int | Dim) -> int | Dim:
        return self + (-other)

    def __rsub__(self, other: int | Dim) -> int | Dim:
        return other + (-self)

    def __mul__(self, other: int | Dim) -> int | Dim:
        return _product(self, other)

    def __rmul__(self, other: int | Dim) -> int | Dim:
        return self * other

    def __floordiv__(self, other: int | Dim) -> int | Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int | Dim) -> int | Dim:
        return floordiv(other, self)

    def __mod__(self, other: int | Dim) -> int | Dim:
        return mod(self, other)

    def __rmod__(self, other: int | Dim) -> int | Dim:
        return mod(other, self)

    def __reduce__(self) -> tuple[Callable[..., Dim], tuple[object, ...]]:
        return _intern, (self.terms,)

    @property
    def is_symbol(self) -> bool:
        """Whether this is a single named size."""
        return len(self.terms) == 1 and self.terms[0][1] == 1 and _is_name(self.terms[0][0])

    @property
    def symbols(self) -> frozenset[str]:
        """Names of every named size inside."""
        if self.held_symbols is None:
            self.held_symbols = self._find_symbols()
        return self.held_symbols

    def _find_symbols(self) -> frozenset[str]:
        found: set[str] = set()
        for key, _ in self.terms:
            for atom in key:
                if atom.function:
                    found |= symbols_of((atom.left, atom.right))
                else:
                    found.add(atom.text)
        return frozenset(found)


def _is_name(key: Monomial) -> bool:
    return len(key) == 1 and not key[0].function


# Index arithmetic of kernels adds and multiplies the same few sizes over and over.
@lru_cache(maxsize=1 << 14)
def _sum(left: Dim, right: int | Dim) -> int | Dim:
    return _from_terms([*left.terms, *_terms(right)])


@lru_cache(maxsize=1 << 14)
def _product(left: Dim, right: int | Dim) -> int | Dim:
    return _from_terms(
        [
            (tuple(sorted((*key, *other_key), key=str)), value * other_value)
            for key, value in left.terms
            for other_key, other_value in _terms(right)
        ]
    )


def _terms(value: int | Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(value, Dim):
        return value.terms
    return (((), value),) if value else ()


def _from_terms(terms: Iterable[tuple[Monomial, int]]) -> int | Dim:
    total: dict[Monomial, int] = {}
    for key, value in terms:
        total[key] = total.get(key, 0) + value
    kept = {key: value for key, value in total.items() if value}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    # Longest monomials first, the constant last: `4*n+4`.
    order = sorted(kept, key=lambda key: (-len(key), [str(atom) for atom in key]))
    return _intern(tuple((key, kept[key]) for key in order))


_dims = InternTable[tuple[tuple[Monomial, int], ...], Dim]()


def _intern(terms: tuple[tuple[Monomial, int], ...]) -> Dim:
    found = _dims.find(terms)
    if found is None:
        found = Dim()
        found.held_symbols = None
        found.terms = terms
        found.text = _render(terms)
        found.nesting = max((atom.nesting for key, _ in terms for atom in key), default=0)
        found = _dims.keep(terms, found)
    return found


def _render(terms: tuple[tuple[Monomial, int], ...]) -> str:
    text = ""
    for key, value in terms:
        factors = [str(atom) for atom in key]
        if abs(value) != 1 or not factors:
            factors.insert(0, str(abs(value)))
        sign = "-" if value < 0 else ("+" if text else "")
        text += sign + "*".join(factors)
    return text


def _function(name: str, left: int | Dim, right: int | Dim) -> Dim:
    text = f"{name}({left},{right})"
    nesting = 1 + max((one.nesting for one in (left, right) if isinstance(one, Dim)), default=0)
    if nesting > MAX_NESTING or len(text) > MAX_TEXT:
        raise UnsupportedError(
            f"a symbolic size is nested {nesting} deep in {len(text)} characters",
            code="INGOT0109",
            notes=(f"it begins with {text[:100]}",),
            hint=f"at most {MAX_NESTING} deep and {MAX_TEXT} characters: give it a name",
        )
    atom = Atom(text, name, left, right, nesting)
    return _intern((((atom,), 1),))


def floordiv(left: int | Dim, right: int | Dim) -> int | Dim:
    """Return left // right; exactly divided where every term divides, n // a // b as n // ab."""
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    exact = exact_quotient(left, right)
    if exact is not None:
        return exact
    if isinstance(left, Dim) and isinstance(right, int) and right > 0:
        inner = _only_atom(left)
        if inner is not None and inner.function == "floordiv":
            divisor = inner.right
            if isinstance(divisor, int) and divisor > 0:
                return floordiv(inner.left, divisor * right)
    return _function("floordiv", left, right)


@overload
def ceil_div(left: int, right: int) -> int: ...


@overload
def ceil_div(left: int | Dim, right: int | Dim) -> int | Dim: ...


def ceil_div(left: int | Dim, right: int | Dim) -> int | Dim:
    """Return left / right, rounded up."""
    if isinstance(left, int) and isinstance(right, int):
        return -(-left // right)
    return floordiv(left + right - 1, right)


@overload
def round_up(size: int, unit: int) -> int: ...


@overload
def round_up(size: int | Dim, unit: int) -> int | Dim: ...


def round_up(size: int | Dim, unit: int) -> int | Dim:
    """Return the smallest multiple of `unit` from a size on."""
    return ceil_div(size, unit) * unit


def canonical_floordiv(left: int | Dim, right: int | Dim) -> int | Dim:
    """Return left // right without what divides: (n - 2) // 2 is n // 2 - 1, (2n + 1) // 2 is n.

    A quotient in `left` is one with it: (n // 4 + 1) // 2 is (n + 4) // 8. Sizes of windows are
    equal in this form. In indices of kernels the number stays where it is.
    """
    total: int | Dim = 0
    while isinstance(left, Dim) and isinstance(right, int) and right > 0:
        number = sum(value for key, value in left.terms if not key)
        whole = _from_terms(
            (key, value // right) for key, value in left.terms if not key or value % right == 0
        )
        total += whole
        left -= whole * right
        rest = left - number % right
        inner = _only_atom(rest) if isinstance(rest, Dim) else None
        divisor = inner.right if inner is not None and inner.function == "floordiv" else None
        if inner is None or not isinstance(divisor, int) or divisor <= 0:
            break
        left, right = inner.left + number % right * divisor, divisor * right
    return floordiv(left, right) + total


def _only_atom(size: Dim) -> Atom | None:
    """Return the atom of a size that is a single atom, else None."""
    key, factor = size.terms[0]
    return key[0] if len(size.terms) == 1 and factor == 1 and len(key) == 1 else None


def exact_quotient(left: int | Dim, right: int | Dim) -> int | Dim | None:
    """Return left / right when it is provably an integer expression, else None."""
    if left is right and isinstance(left, Dim):
        return 1
    divisor = _terms(right)
    if len(divisor) != 1:
        return _proportion(left, right)
    (divisor_key, divisor_value) = divisor[0]
    result: list[tuple[Monomial, int]] = []
    for key, value in _terms(left):
        rest = list(key)
        for atom in divisor_key:
            if atom not in rest:
                return None
            rest.remove(atom)
        if value % divisor_value:
            return None
        result.append((tuple(rest), value // divisor_value))
    return _from_terms(result)


def _proportion(left: int | Dim, right: int | Dim) -> int | Dim | None:
    """Quotient by a sum: found when left is right times a single factor."""
    if not isinstance(left, Dim) or not isinstance(right, Dim):
        return None
    candidate = exact_quotient(_leading(left), _leading(right))
    if candidate is None:
        return None
    return candidate if candidate * right == left else None


def _leading(value: Dim) -> int | Dim:
    return _from_terms(value.terms[:1])


def mod(left: int | Dim, right: int | Dim) -> int | Dim:
    """Return left % right (right > 0)."""
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    if exact_quotient(left, right) is not None:
        return 0
    return _function("mod", left, right)


def maximum(left: int | Dim, right: int | Dim) -> int | Dim:
    """Return the larger of two sizes."""
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    for one, other in ((left, right), (right, left)):
        if _is_at_least(one, other):
            return one
    first, second = sorted((left, right), key=str)
    return _function("max", first, second)


def _is_at_least(size: int | Dim, other: int | Dim) -> bool:
    """Whether a size is obviously >= another.

    It is a sum with the other, a maximum of such sizes, or the other is one rounded down.
    """
    while (rounded := _rounded_down(other)) is not None:
        other = rounded
    pending = [size]
    while pending:
        found = pending.pop()
        if found is other or never_negative(found - other):
            return True
        atom = _only_atom(found) if isinstance(found, Dim) else None
        if atom is not None and atom.function == "max":
            pending += [atom.left, atom.right]
    return False


def _rounded_down(size: int | Dim) -> int | Dim | None:
    """Return x of a size that is c (x // c), else None."""
    if isinstance(size, int):
        return None
    (key, value), *others = size.terms
    if others or len(key) != 1:
        return None
    (atom,) = key
    return atom.left if atom.function == "floordiv" and atom.right == value else None


def greatest(sizes: Iterable[int | Dim]) -> int | Dim:
    """Return the largest of some sizes; there must be at least one."""
    found = [*dict.fromkeys(sizes)]
    # By pairs, so that the nesting depth grows with the logarithm of the number of sizes.
    while len(found) > 1:
        rest = found[len(found) & ~1 :]
        found = [maximum(*pair) for pair in zip(found[::2], found[1::2], strict=False)] + rest
    return found[0]


def always_positive(size: int | Dim) -> bool:
    """Whether `size` is obviously >= 1: more than a size >= 0, or a maximum with such a size."""
    if isinstance(size, int):
        return size >= 1
    if never_negative(size - 1):
        return True
    (key, value), *rest = size.terms
    return not rest and value > 0 and all(map(_atom_always_positive, key))


def _atom_always_positive(atom: Atom) -> bool:
    sides = (atom.left, atom.right)
    return atom.function == "max" and any(map(always_positive, sides))


def never_negative(size: int | Dim) -> bool:
    """Whether `size` is obviously >= 0: a sum of products of atoms that are."""
    if isinstance(size, int):
        return size >= 0
    return all(value > 0 and all(map(_atom_never_negative, key)) for key, value in size.terms)


def _atom_never_negative(atom: Atom) -> bool:
    if atom.function == "max":
        return never_negative(atom.left) or never_negative(atom.right)
    if atom.function in ("min", "floordiv"):
        return never_negative(atom.left) and never_negative(atom.right)
    return True  # a named size, or a remainder


def minimum(left: int | Dim, right: int | Dim) -> int | Dim:
    """Return the smaller of two sizes."""
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    for one, other in ((left, right), (right, left)):
        if _is_at_least(other, one):
            return one
    first, second = sorted((left, right), key=str)
    return _function("min", first, second)


def product(sizes: Iterable[int | Dim]) -> int | Dim:
    """Return the product of sizes (1 for none)."""
    return reduce(lambda left, right: left * right, sizes, 1)


def symbols_of(sizes: Iterable[int | Dim]) -> frozenset[str]:
    """Return the names of every named size in `sizes`."""
    found: frozenset[str] = frozenset()
    for size in sizes:
        if isinstance(size, Dim):
            found |= size.symbols
    return found


def bare_sizes(sizes: Iterable[int | Dim], numbers: Iterable[int]) -> Iterator[tuple[str, int]]:
    """Yield the names in `sizes` that are a whole dimension, with their values in `numbers`."""
    for size, number in zip(sizes, numbers, strict=False):
        if isinstance(size, Dim) and size.is_symbol:
            yield size.text, number


_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda left, right: left // max(right, 1),
    "mod": lambda left, right: left % max(right, 1),
    "max": max,
    "min": min,
}


def evaluate(size: int | Dim, values: Mapping[str, int]) -> int:
    """Return the number that `size` is when the named sizes have `values`.

    A divisor below 1 counts as 1, in machine code too: no size traps. Shapes that divide by such a
    size are refused where the op runs (`divisors`).
    """
    if isinstance(size, int):
        return size
    total = 0
    for key, value in size.terms:
        for atom in key:
            if atom.function:
                left, right = evaluate(atom.left, values), evaluate(atom.right, values)
                value *= _FUNCTIONS[atom.function](left, right)
            else:
                value *= values[atom.text]
        total += value
    return total


NOMINAL_SIZE = 64
"""What a symbol counts as where amounts of work or memory are compared."""


def nominal(size: int | Dim) -> int:
    """Return the number that stands for `size` in comparisons: that of symbols of NOMINAL_SIZE."""
    if isinstance(size, int):
        return size
    return evaluate(size, dict.fromkeys(size.symbols, NOMINAL_SIZE))


def divisors(size: int | Dim) -> Iterator[Dim]:
    """Yield the symbolic sizes that `size` divides by."""
    for key, _ in () if isinstance(size, int) else size.terms:
        for atom in key:
            if atom.function:
                yield from divisors(atom.left)
                yield from divisors(atom.right)
            if atom.function in ("floordiv", "mod") and isinstance(atom.right, Dim):
                yield atom.right


def bound(size: int | Dim, most: int) -> int:
    """Return a bound on the magnitude of `size` and of every intermediate result.

    The named sizes are 0 to `most`.

    Example:
        >>> n = Dim.symbol("n")
        >>> bound(4 * n - 3, 10), bound(floordiv(n * n, 2), 10)
        (43, 100)
    """
    if isinstance(size, int):
        return abs(size)
    total = 0
    for key, value in size.terms:
        term = abs(value)
        for atom in key:
            term *= max(_atom_bound(atom, most), 1)
        total += term
    return total


def _atom_bound(atom: Atom, most: int) -> int:
    if not atom.function:
        return most
    return max(bound(atom.left, most), bound(atom.right, most))


def substitute(size: int | Dim, values: Mapping[str, int | Dim]) -> int | Dim:
    """Return `size` with named sizes replaced."""
    if isinstance(size, int):
        return size
    functions = {"floordiv": floordiv, "mod": mod, "max": maximum, "min": minimum}
    total: int | Dim = 0
    for key, value in size.terms:
        term: int | Dim = value
        for atom in key:
            if atom.function:
                left, right = substitute(atom.left, values), substitute(atom.right, values)
                term = term * functions[atom.function](left, right)
            else:
                term = term * values.get(atom.text, Dim.symbol(atom.text))
        total = total + term
    return total


def known_multiple_of(size: int | Dim, factor: int) -> bool:
    """Whether `size` is divisible by `factor` for every value of the named sizes."""
    if isinstance(size, int):
        return size % factor == 0
    return reduce(gcd, (value for _, value in size.terms), 0) % factor == 0
