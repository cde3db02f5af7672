# SPDX-License-Identifier: Apache-2.0
"""Functions that JAX builds of HLO's: its formulas, compiled by Ingot and by XLA.

They are no ops of HLO: what arrives is StableHLO that is computed as it stands, so an error of the
formula is an error of both. Measured is that Ingot adds none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from tests.accuracy import samples
from tests.accuracy.distance import ulps
from tests.accuracy.engines import LEVELS, NUMPY, XLA, engine
from tests.accuracy.functions import Array, Function

import ingot
from ingot.llvm.target import TargetSpec

COUNT = 1 << 15
BLOCKS = 8
ELEMENTS = ("f32", "f64")
Figures = dict[str, dict[str, dict[str, float]]]
"""By name, element type and engine."""

_REFERENCES: dict[str, Callable[..., Any]] = {
    "erf_inv": scipy.special.erfinv,
    "lgamma": scipy.special.gammaln,
    "digamma": scipy.special.digamma,
    "bessel_i0e": scipy.special.i0e,
    "bessel_i1e": scipy.special.i1e,
}
NAMES = tuple(_REFERENCES)


def figures(name: str, element: str, engines: tuple[str, ...], blocks: int) -> dict[str, float]:
    """Return each engine's greatest distance where operand and value are normal numbers."""
    function = Function(name, name, _REFERENCES[name], types=(element,))
    found = dict.fromkeys(engines, 0.0)
    for number in range(blocks):
        (x,) = samples.block(function, element, number)
        x = np.ascontiguousarray(x[: COUNT * 4 : 4])
        with np.errstate(all="ignore"):
            wanted = _REFERENCES[name](x.astype(np.float64))
            least, most = np.finfo(x.dtype).tiny, np.finfo(x.dtype).max
            usual = (np.abs(x) >= least) & (np.abs(wanted) >= least) & (np.abs(wanted) <= most)
            for at in engines:
                result = _compiled(at, function, element)(x)
                distance = ulps(np.asarray(result)[usual], wanted[usual].astype(np.longdouble))
                found[at] = max(found[at], float(distance.max()))
    return found


def _compiled(name: str, function: Function, element: str) -> Callable[..., Array]:
    import jax

    if name == XLA:
        return engine(XLA, function, element, COUNT)
    with jax.enable_x64(True):
        shape = jax.ShapeDtypeStruct((COUNT,), NUMPY[element])
        text = jax.jit(getattr(jax.lax, function.jax)).lower(shape).as_text()
    return ingot.compile(ingot.parse_stablehlo(text), target=TargetSpec.host(name))


def all_figures() -> Figures:
    """Return the figures of all compositions."""
    engines = (*LEVELS, XLA)
    return {
        name: {element: figures(name, element, engines, BLOCKS) for element in ELEMENTS}
        for name in NAMES
    }
