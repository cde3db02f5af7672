# SPDX-License-Identifier: Apache-2.0
"""Real transforms of even length: taking a half-length complex transform apart, and packing one.

A real sequence x of length 2h is read as z = x[0::2] + i x[1::2]. With Z its transform, E and O
those of the even and odd elements: Z = E + iO, X[k] = E[k] + w^k O[k], where
E[k] = (Z[k] + conj Z[h-k]) / 2, O[k] = (Z[k] - conj Z[h-k]) / 2i, w = exp(-2 pi i / 2h).

Source: W. H. Press et al., Numerical Recipes, section 12.3.
"""

from __future__ import annotations

from ingot.emit.fft.butterflies import Complex, ComplexMath


def unpacked(m: ComplexMath, element: Complex, mirrored: Complex, twiddle: Complex) -> Complex:
    """Return X[k] of `element` Z[k], `mirrored` Z[h-k] (Z[0] for both ends) and `twiddle` w^k."""
    even = m.scale(m.add(element, m.conj(mirrored)), 0.5)
    odd = m.scale(m.times_i(m.sub(element, m.conj(mirrored)), negative=True), 0.5)
    return m.add(even, m.mul(odd, twiddle))


def packed(m: ComplexMath, element: Complex, mirrored: Complex, twiddle: Complex) -> Complex:
    """Return Z[k] of `element` X[k], `mirrored` X[h-k] and `twiddle` w^-k."""
    even = m.scale(m.add(element, m.conj(mirrored)), 0.5)
    odd = m.scale(m.mul(m.sub(element, m.conj(mirrored)), twiddle), 0.5)
    return m.add(even, m.times_i(odd, negative=False))
