# SPDX-License-Identifier: Apache-2.0
"""JAX's functions for `ingot.diff`: compiled by Ingot, and op by op by JAX with jit off.

The ops are those of the function's jaxpr; with other results it is a function that returns the
value of each op. JAX runs it on its CPU backend, whatever platform the program uses.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ingot.client.options import module_of
from ingot.hlo.literal import Array
from ingot.support.diagnostics import ArgumentError
from ingot.tools.diffs.function_diff import Function, Op
from ingot.tools.programs.cases import Case
from ingot.tools.programs.platforms import PLATFORMS


def run_both(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Function:
    """Run a function of `jax.jit` compiled by Ingot and with jit off.

    Raises:
        ArgumentError: INGOT0513, it has static arguments.
    """
    jax: Any = sys.modules["jax"]
    core: Any = importlib.import_module("jax.extend.core")
    closed: Any = function.trace(*args, **kwargs).jaxpr
    given: list[Any] = jax.tree.leaves((tuple(args), kwargs))
    if len(given) != len(closed.jaxpr.invars):
        raise ArgumentError(
            f"{_name(function)} has static arguments, which `ingot diff` cannot recognise",
            hint="bind them: jax.jit(functools.partial(f, static))",
        )
    whole = core.jaxpr_as_fun(closed)
    text = _lowered(jax, whole, given)
    inputs = tuple(_array(jax, one, aval) for one, aval in zip(given, closed.in_avals, strict=True))

    def ops() -> list[Op]:
        return _ops(jax, core, closed, given, inputs)

    return Function(
        title=_name(function),
        reference="JAX with jit off",
        got=_compiled(text, inputs),
        want=_with_jit_off(jax, whole, given),
        ops=ops,
        cases=(Case(module_of(text), inputs),),
    )


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "the function"))


def _lowered(jax: Any, function: Callable[..., Any], given: Sequence[Any]) -> str:
    """Return a function as StableHLO; every argument is a parameter, used or not."""
    return jax.jit(function, keep_unused=True).lower(*given).as_text(debug_info=True)


def _compiled(text: str, inputs: Sequence[Array]) -> list[Array]:
    return PLATFORMS["cpu"](module_of(text))([inputs])


def _with_jit_off(jax: Any, function: Callable[..., Any], given: Sequence[Any]) -> list[Array]:
    """Return the results of a function op by op, on JAX's own CPU backend if there is one."""
    try:
        device: Any = jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # JAX_PLATFORMS leaves it out.
        device = nullcontext()
    with device, jax.disable_jit():
        found: list[Any] = function(*given)
    return [_array(jax, one, one) for one in found]


def _array(jax: Any, value: Any, aval: Any) -> Array:
    """Return a value as the array that StableHLO has for it; for a key, its data."""
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended):
        return np.asarray(jax.random.key_data(value))
    return np.asarray(value, dtype=aval.dtype)


def _ops(
    jax: Any, core: Any, closed: Any, given: Sequence[Any], inputs: Sequence[Array]
) -> list[Op]:
    """Return every op of a function with its values, compiled and with jit off."""
    jaxpr = closed.jaxpr
    rows = [
        (equation, variable)
        for equation in jaxpr.eqns
        for variable in equation.outvars
        if not isinstance(variable, core.DropVar) and hasattr(variable.aval, "dtype")
    ]
    names = jaxpr.debug_info.with_unknown_names()
    shown = jaxpr.replace(outvars=[variable for _, variable in rows], debug_info=names)
    function = core.jaxpr_as_fun(core.ClosedJaxpr(shown, closed.consts))
    got = _compiled(_lowered(jax, function, given), inputs)
    want = _with_jit_off(jax, function, given)
    return [
        Op(
            f"{equation.primitive.name} of {variable.aval.str_short()}",
            _location(equation),
            *values,
        )
        for (equation, variable), *values in zip(rows, got, want, strict=True)
    ]


def _location(equation: Any) -> str:
    """Return the user's line of an op."""
    util: Any = importlib.import_module("jax._src.source_info_util")
    return str(util.summarize(equation.source_info))
