# SPDX-License-Identifier: Apache-2.0
"""Floating-point licences: by how much a rewrite may change results.

Every rule and pass that touches floats declares the least licence that it needs; the compilation's
`PassContext.fp` is the level in force. Integers and pred are always exact, whatever the licence.
NaN is NaN: its sign and payload are never defined, so any NaN equals any other.

Invariant: licences are ordered; each grants what the ones before it grant.

Example:
    >>> Fp.SIGNED_ZERO <= Fp.CONTRACT, Fp.of("exact").name
    (True, 'EXACT')
"""

from __future__ import annotations

from enum import IntEnum

from ingot.support.diagnostics import FlagError


class Fp(IntEnum):
    """The changes of floating-point results that a rewrite may make.

    EXACT: nothing. Every result is bit-equal for every input, NaN and infinities included.
    SIGNED_ZERO: a zero may get the other sign (`-0 + 0` may stay `-0`). All else is bit-equal.
        Infinities born of dividing by such a zero follow its sign.
    CONTRACT: a rounding may be left out or be done elsewhere (multiply-add as one operation, `x^3`
        as `x*x*x`, the products that a loop adds up as one product): finite results agree to a few
        ulp of the largest intermediate. NaN stays NaN, infinities stay, and nothing becomes NaN or
        infinite except where rounding meets overflow.
    REASSOCIATE: equal over the real numbers. Sums and products are regrouped, division becomes
        multiplication with the inverse, inverse functions cancel. Intermediates that overflow may
        now be finite or the other way; NaN inputs still give NaN: no rule may assume their absence.
    """

    EXACT = 0
    SIGNED_ZERO = 1
    CONTRACT = 2
    REASSOCIATE = 3

    @staticmethod
    def of(mode: str) -> Fp:
        """Return the licence of an `fp` mode: "exact", "default" or "fast".

        Raises:
            FlagError: `mode` is none of them.
        """
        found = _MODES.get(mode)
        if found is None:
            raise FlagError(f"fp mode '{mode}' is not known", hint=f"use one of {list(_MODES)}")
        return found


_MODES = {"exact": Fp.EXACT, "default": Fp.CONTRACT, "fast": Fp.REASSOCIATE}
