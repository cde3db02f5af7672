# SPDX-License-Identifier: Apache-2.0
"""Complex arithmetic where NumPy's is not C99's: quotients, powers, angles, signs.

The rules of `elementwise` and `transcendental` call these on complex arrays. Results of operands
that are zero or infinite follow C99's Annex G.

Source: C99 Annex G; powers and `atan2` as XLA defines them (xla/service/elemental_ir_emitter.cc).
"""

from __future__ import annotations

import numpy as np

from ingot.evaluator.registry import Array


def parts(value: Array) -> tuple[Array, Array]:
    """Return real and imaginary part."""
    return np.real(value), np.imag(value)


def join(re: Array, im: Array, like: Array) -> Array:
    """Return the complex array of its parts, in the type of `like`."""
    made = np.empty(np.broadcast_shapes(re.shape, im.shape), like.dtype)
    np.real(made)[...], np.imag(made)[...] = re, im
    return made


def divide(x: Array, y: Array) -> Array:
    """Return the quotient: a pole at zero, an infinity or a zero where an operand is infinite."""
    quotient = np.asarray(x / y)
    re, im = parts(quotient)
    lost = np.isnan(re) & np.isnan(im)
    by_infinity = np.isinf(y) & np.isfinite(x) & lost
    quotient = np.where(by_infinity, _product(x, np.conj(_ones(y)), 0.0), quotient)
    of_infinity = np.isinf(x) & np.isfinite(y) & lost
    quotient = np.where(of_infinity, _product(_ones(x), np.conj(y), np.inf), quotient)
    pole = np.copysign(np.inf, parts(y)[0])
    re, im = parts(x)
    return np.where(y == 0, join(pole * re, pole * im, quotient), quotient)


def _product(x: Array, y: Array, scale: float) -> Array:
    """Return the product, scaled; each part on its own, so that zeros stay beside infinities."""
    (a, b), (c, d) = parts(x), parts(y)
    return join((a * c - b * d) * scale, (a * d + b * c) * scale, x)


def _ones(value: Array) -> Array:
    """Return infinite parts as 1 and others as 0, with their signs."""
    re, im = (np.copysign(np.isinf(part).astype(part.dtype), part) for part in parts(value))
    return join(re, im, value)


def sign(x: Array) -> Array:
    """Return x / |x|; zeros as they are."""
    size = np.abs(x)
    re, im = parts(x)
    return np.where(x == 0, x, join(re / size, im / size, x))


def tanh(x: Array) -> Array:
    """Return the hyperbolic tangent; 0 + iy is NaN where tan y is, as in XLA (C17 gives 0)."""
    re, im = parts(x)
    found = np.tanh(x)
    return np.where((re == 0) & ~np.isfinite(im), join(im * 0, im * 0, x) + found, found)


def tan(x: Array) -> Array:
    """Return -i tanh(ix)."""
    re, im = parts(x)
    rotated_re, rotated_im = parts(tanh(join(-im, re, x)))
    return join(rotated_im, -rotated_re, x)


def log_plus_one(x: Array) -> Array:
    """Return log(1 + x), accurate near 0."""
    re, im = parts(x)
    near = join(np.log1p(re * (re + 2) + im * im) / 2, np.arctan2(im, re + 1), x)
    return np.where(np.abs(x) < 0.5, near, np.log(join(re + 1, im, x)))


def power(x: Array, y: Array) -> Array:
    """Return e^(y log x), with x^0 = 1, 1^y = 1 and 0^y = 0 for a positive real y."""
    size, (a, b), (c, d) = np.abs(x), parts(x), parts(y)
    turn = np.arctan2(b, a)
    scale = np.power(size, c) * np.exp(-d * turn)
    phase = c * turn + d * np.log(size)
    found = join(scale * np.cos(phase), scale * np.sin(phase), x)
    real, flat = d == 0, (a == np.inf) & (b == 0) & (d == 0)
    found = np.where((size == 0) & real & (c > 0), 0, found)
    found = np.where(flat & (c > 0), np.inf, found)
    found = np.where(flat & (c < 0), 0, found)
    return np.where((x == 1) | (y == 0), 1, found)


def atan2(y: Array, x: Array) -> Array:
    """Return -i log((x + iy) / sqrt(x^2 + y^2))."""
    re, im = parts(np.log(divide(x + y * 1j, np.sqrt(x * x + y * y))))
    return join(im, -re, x)
