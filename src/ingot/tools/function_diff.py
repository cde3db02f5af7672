# SPDX-License-Identifier: Apache-2.0
"""`ingot.diff`: a compiled function held against its framework without compilation.

JAX runs the function op by op (`jax.disable_jit`), TensorFlow as Python, PyTorch eagerly. Where
results differ, the values of all ops are compared, as results of a function that gives them all;
then the module that Ingot got is looked at with the evaluator (`differences`). No framework is
imported that the program has not imported itself.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ingot.client.options import ProgramLike, module_of
from ingot.evaluator import Value
from ingot.hlo.literal import Array
from ingot.hlo.module import Module
from ingot.support.diagnostics import ArgumentError
from ingot.support.records import record
from ingot.tools.comparing import Bounds, compare
from ingot.tools.differences import SECONDS, Diff, all_agree, allowed, diff_case
from ingot.tools.inputs import random_inputs, symbols
from ingot.tools.options import DEFAULT_SIZE
from ingot.tools.reduction.cases import Case


@record
class Op:
    """An op of a framework: its name, the user's line (may be empty), and its value twice."""

    name: str
    place: str
    got: Array
    want: Array


@record
class Function:
    """A function that was run both ways.

    Attributes:
        title: its name.
        reference: what ran without compilation, in words.
        got, want: its results, compiled and not.
        ops: gives every op in order, with its values; None where they cannot be seen.
        cases: the modules that Ingot compiles, with the inputs of the function or random ones.
    """

    title: str
    reference: str
    got: Sequence[Array]
    want: Sequence[Array]
    ops: Callable[[], Sequence[Op]] | None
    cases: Sequence[Case]


def diff(
    program: Any,
    *args: Any,
    absolute: float = 1e-3,
    relative: float = 1e-3,
    seconds: float = SECONDS,
    **kwargs: Any,
) -> Diff:
    """Return how a compiled program compares with its reference, and what makes it differ.

    An element of a result differs if its error is over both `absolute` and `relative`.

    Args:
        program: a function of `jax.jit`, held against JAX without it; a
            `tf.function(jit_compile=True)`, held against TensorFlow without it; a module of
            PyTorch, or what `torch.compile` gives, held against PyTorch run eagerly; or a module,
            HLO or StableHLO as text or bytes, or a path, held against the evaluator.
        args: what the program is called with; of a module one value per parameter.
        absolute: error that is allowed.
        relative: error that is allowed, by the reference's value.
        seconds: how long a reproducer is made smaller.
        kwargs: what a function is called with by name.

    Raises:
        ArgumentError: INGOT0513, it is none of these.
        IngotError: it cannot be compiled.
    """
    bounds = Bounds(absolute, relative)
    if isinstance(program, (Module, str, bytes, os.PathLike)):
        if kwargs:
            raise ArgumentError("a module takes no arguments by name", hint="give them in order")
        module = module_of(cast("ProgramLike", program))
        inputs: list[Value] = [one if isinstance(one, tuple) else np.asarray(one) for one in args]
        return diff_case(module.name, Case(module, tuple(inputs)), bounds, seconds)
    return diff_function(run_both(program, args, kwargs), bounds, seconds)


def run_both(program: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Function:
    """Run a function of a framework compiled and not."""
    torch: Any = sys.modules.get("torch")
    is_module = torch is not None and isinstance(program, torch.nn.Module)
    homes = [home for name, home in _HOMES.items() if callable(program) and hasattr(program, name)]
    for home in [_TORCH] if is_module else homes:
        run: Callable[..., Function] = importlib.import_module(home).run_both
        return run(program, args, kwargs)
    raise ArgumentError(
        f"the program is {type(program).__name__}, which diff cannot run without compilation",
        hint="give jax.jit(f), a tf.function(jit_compile=True), a torch.nn.Module, HLO, or a path",
    )


_TORCH = "ingot.tools.torch_diff"
_HOMES = {
    "_torchdynamo_orig_callable": _TORCH,
    "get_concrete_function": "ingot.tools.tensorflow_diff",
    "trace": "ingot.tools.jax_diff",
}
"""What only the functions of a framework have -> who runs them both ways."""


def on_random_inputs(module: Module) -> Case:
    """Return a module with inputs: which arguments it takes is known to its front end alone."""
    sizes = dict.fromkeys(symbols(module), DEFAULT_SIZE)
    return Case(module, tuple(random_inputs(module, 0, sizes)))


def diff_function(function: Function, bounds: Bounds, seconds: float = SECONDS) -> Diff:
    """Compare what a function gives both ways; look for the op, then for what Ingot did to it."""
    pairs = enumerate(zip(function.got, function.want, strict=True))
    results = [compare(number, got, want, bounds) for number, (got, want) in pairs]
    wrong = [one for one in results if not one.agrees]
    title = f"{function.title}, against {function.reference}"
    if not wrong:
        return Diff(title, True, (all_agree(results, bounds),), bounds=bounds)
    lines = [f"output {wrong[0].output} differs in {wrong[0]} (allowed: {allowed(bounds)})"]
    if function.ops is not None:
        lines += _first_op(function.ops(), bounds)
    reproducer = ""
    for case in function.cases:
        inner = diff_case(f"the module {case.module.name}", case, bounds, seconds)
        lines += str(inner).splitlines()
        reproducer = reproducer or inner.reproducer
    return Diff(title, False, tuple(lines), reproducer, bounds)


def _first_op(ops: Sequence[Op], bounds: Bounds) -> list[str]:
    """Return what to say of the first op that differs."""
    for op in ops:
        how = compare(0, op.got, op.want, bounds)
        if not how.agrees:
            place = [f"  at {op.place}"] if op.place else []
            return [f"first op that differs: {op.name}", *place, f"  it differs in {how}"]
    return ["no op differs once its value is a result: it depends on the fusion"]
