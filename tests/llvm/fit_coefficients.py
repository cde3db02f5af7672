# SPDX-License-Identifier: Apache-2.0
"""The fits behind `ingot/llvm/math/coefficients.py`: Remez exchange in 40 digits.

Run by hand (`python tests/llvm/fit_coefficients.py`, needs mpmath); prints each polynomial with the
largest weighted error. Not a test: the tests measure the functions themselves.
"""

import sys

import mpmath as mp

mp.mp.dps = 40


def remez(target, low, high, degree, weight, rounds=12, points=600):
    """Coefficients, low power first, that minimize max |weight * (target - p)| on [low, high]."""
    low, high = mp.mpf(low), mp.mpf(high)
    count = degree + 2
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle - half * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]
    grid = [middle - half * mp.cos(mp.pi * i / points) for i in range(points + 1)]
    values = [(x, target(x), weight(x)) for x in grid]
    table = {x: (f, w) for x, f, w in values}
    nodes = [min(grid, key=lambda g, n=n: abs(g - n)) for n in nodes]
    best = None
    for _ in range(rounds):
        matrix, right = mp.matrix(count, count), mp.matrix(count, 1)
        for row, x in enumerate(nodes):
            f, w = table[x]
            for power in range(degree + 1):
                matrix[row, power] = x**power
            matrix[row, degree + 1] = (-1) ** row / w
            right[row] = f
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[i] for i in range(degree + 1)]
        errors = [(w * (f - mp.polyval(coefficients[::-1], x)), x) for x, f, w in values]
        worst = max(abs(e) for e, _ in errors)
        if best is None or worst < best[0]:
            best = worst, coefficients
        runs = [errors[0]]
        for e, x in errors[1:]:
            if (e > 0) == (runs[-1][0] > 0):
                if abs(e) > abs(runs[-1][0]):
                    runs[-1] = (e, x)
            else:
                runs.append((e, x))
        while len(runs) > count:
            runs.pop(0 if abs(runs[0][0]) < abs(runs[-1][0]) else -1)
        if len(runs) < count or worst <= abs(solution[degree + 1]) * (1 + mp.mpf(10) ** -3):
            break
        nodes = [x for _, x in runs]
    return best[1], best[0]


def odd(function):
    """(function(x) - x) / x^3 as a function of z = x^2."""

    def target(z):
        x = mp.sqrt(max(z, mp.mpf(10) ** -12))
        return (function(x) - x) / x**3

    return target


def small(z):
    return max(z, mp.mpf(10) ** -12)


def expm1_tail(r):
    r = r if abs(r) > mp.mpf(10) ** -9 else mp.mpf(10) ** -9
    return (mp.expm1(r) - r - r * r / 2) / r**3


def tanh_rest(z):
    """x^3 / (tanh(x) - x) as a function of z = x^2."""
    x = mp.sqrt(max(z, mp.mpf(10) ** -8))
    return x**3 / (mp.tanh(x) - x)


def tanh_weight(z):
    x = mp.sqrt(max(z, mp.mpf(10) ** -8))
    return x**3 / tanh_rest(z) ** 2 / mp.tanh(x)


def log_tail(z):
    s = mp.sqrt(small(z))
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / s**3


def power_tail(z):
    s = mp.sqrt(small(z))
    return (mp.log((1 + s) / (1 - s)) / (2 * s) - 1 - s * s / 3) / s**4


def cosine_tail(z):
    x = mp.sqrt(small(z))
    return (mp.cos(x) - 1 + x * x / 2) / x**4


def hyperbolic_cosine(z):
    """(cosh(x) - 1) / x^2 as a function of z = x^2."""
    x = mp.sqrt(small(z))
    return (mp.cosh(x) - 1) / x**2


ERF_MAP = mp.mpf("2.5")


def erfcx_mapped(u):
    x = ERF_MAP * (1 + u) / (1 - u)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def erf_weight(u):
    x = ERF_MAP * (1 + u) / (1 - u)
    return mp.erfc(x) / mp.erf(x) / erfcx_mapped(u)


def umap(x):
    return (mp.mpf(x) - ERF_MAP) / (mp.mpf(x) + ERF_MAP)


ERFC_CENTRE = 2


def erfcx_by_sum(q):
    """Exp(x^2) erfc(x) (x + 2) as a function of (x - 2) / (x + 2)."""
    x = ERFC_CENTRE * (1 + q) / (1 - q)
    return mp.exp(x * x) * mp.erfc(x) * (x + ERFC_CENTRE)


def qmap(x):
    return (mp.mpf(x) - ERFC_CENTRE) / (mp.mpf(x) + ERFC_CENTRE)


TINY = mp.mpf(10) ** -35
LN2H = mp.log(2) / 2 * mp.mpf("1.0005")
QUARTER = (mp.pi / 4) ** 2 * mp.mpf("1.0005")
SERIES = mp.mpf("0.02945")
FITS = {
    "exp f32": (expm1_tail, -LN2H, LN2H, 3, lambda r: abs(r) ** 3 + mp.mpf(10) ** -30),
    "expm1 f32": (expm1_tail, -LN2H, LN2H, 4, lambda r: abs(r) ** 2 + mp.mpf(10) ** -30),
    "exp f64": (expm1_tail, -LN2H, LN2H, 8, lambda r: abs(r) ** 3 + mp.mpf(10) ** -30),
    "log f64": (log_tail, 0, SERIES, 6, small),
    "power f64": (power_tail, 0, SERIES, 6, lambda z: small(z) ** 2),
    "sine f64": (odd(mp.sin), 0, QUARTER, 5, small),
    "cosine f64": (cosine_tail, 0, QUARTER, 5, lambda z: small(z) ** 2),
    "atan f32": (odd(mp.atan), 0, 1, 9, small),
    "atan f64": (odd(mp.atan), 0, 1, 20, small),
    "asin f32": (odd(mp.asin), 0, "0.2501", 4, small),
    "asin f64": (odd(mp.asin), 0, "0.2501", 12, small),
    "log2 f64": (
        lambda f: mp.log1p(f + TINY) / mp.log(2) / (f + TINY),
        "-0.2930",
        "0.4143",
        14,
        lambda f: 1,
    ),
    "exp2 f64": (lambda r: mp.mpf(2) ** r, -0.5, 0.5, 7, lambda r: 1),
    "tanh f32": (tanh_rest, 0, mp.mpf("0.7") ** 2 * mp.mpf("1.001"), 2, tanh_weight),
    "tanh f64": (odd(mp.tanh), 0, (mp.log(2) / 4) ** 2 * mp.mpf("1.001"), 5, small),
    "sinh f64": (odd(mp.sinh), 0, 1, 6, small),
    "sinh f32": (odd(mp.sinh), 0, LN2H**2, 2, small),
    "cosh f32": (hyperbolic_cosine, 0, LN2H**2, 2, small),
    "asinh f64": (odd(mp.asinh), 0, "0.2501", 12, small),
    "erf small f64": (
        lambda z: mp.erf(mp.sqrt(z + TINY)) / mp.sqrt(z + TINY) - 1,
        0,
        "0.8600",
        11,
        lambda z: 1,
    ),
    "erf large f64": (erfcx_mapped, umap("0.92"), umap("6"), 14, erf_weight),
    "erfc f32": (erfcx_by_sum, -1, qmap("10.12"), 10, lambda q: 1 / erfcx_by_sum(q)),
    "erfc f64": (erfcx_by_sum, -1, qmap("27.5"), 25, lambda q: 1 / erfcx_by_sum(q)),
    "cbrt f64": (lambda r: r ** (mp.mpf(-1) / 3), "0.89", "1.12", 4, lambda r: 1),
}

if __name__ == "__main__":
    for name, (target, low, high, degree, weight) in FITS.items():
        if sys.argv[1:] and sys.argv[1] not in name:
            continue
        found, error = remez(target, low, high, degree, weight)
        print(f"{name}: error 2^{float(mp.log(error, 2)):.1f}")
        for item in found:
            print(f"    {float(item)!r},")
