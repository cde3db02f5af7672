# SPDX-License-Identifier: Apache-2.0
"""`ingot.diff`: comparison of a compiled function with its framework without compilation.

JAX runs the function op by op (`jax.disable_jit`), TensorFlow as Python, PyTorch eagerly. If
results differ, the values of all ops are compared, as results of a function that returns them all;
then the module that Ingot got is compared with the evaluator (`differences`). A framework is
imported only if the program has imported it.
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
from ingot.tools.diffs.differences import SECONDS, Diff, all_agree, allowed, diff_case
from ingot.tools.programs.cases import Case
from ingot.tools.programs.comparing import Bounds, compare
from ingot.tools.programs.inputs import random_inputs, symbols
from ingot.tools.programs.options import DEFAULT_SIZE


@record
class Op:
    """An op of a framework: its name, the user's line (may be empty), and both of its values."""

    name: str
    location: str
    got: Array
    want: Array


@record
class Function:
    """A function that was run with and without compilation.

    Attributes:
        title: its name.
        reference: the text that names the reference.
        got, want: its results, compiled and not.
        ops: returns every op in order, with its values; None if they cannot be observed.
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
    """Compare a compiled program with its reference; find the cause of a difference.

    An element of a result differs if its error is over both `absolute` and `relative`.

    Args:
        program: a function of `jax.jit`, compared with JAX without it; a
            `tf.function(jit_compile=True)`, compared with TensorFlow without it; a module of
            PyTorch, or the result of `torch.compile`, compared with PyTorch run eagerly; or a
            module, HLO or StableHLO as text or bytes, or a path, compared with the evaluator.
        args: the program's arguments; for a module one value for each parameter.
        absolute: the allowed absolute error.
        relative: the allowed error relative to the reference's value.
        seconds: the time for making a reproducer smaller.
        kwargs: keyword arguments of a function.

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
    """Run a function of a framework with and without compilation."""
    torch: Any = sys.modules.get("torch")
    is_module = torch is not None and isinstance(program, torch.nn.Module)
    homes = [home for name, home in _HOMES.items() if callable(program) and hasattr(program, name)]
    for home in [_TORCH] if is_module else homes:
        run: Callable[..., Function] = importlib.import_module(home).run_both
        return run(program, args, kwargs)
    raise ArgumentError(
        f"the program is of type {type(program).__name__}, which diff cannot run uncompiled",
        hint="give jax.jit(f), a tf.function(jit_compile=True), a torch.nn.Module, HLO, or a path",
    )


_TORCH = "ingot.tools.diffs.torch_diff"
_HOMES = {
    "_torchdynamo_orig_callable": _TORCH,
    "get_concrete_function": "ingot.tools.diffs.tensorflow_diff",
    "trace": "ingot.tools.diffs.jax_diff",
}
"""An attribute that only functions of a framework have -> the module that runs them both ways."""


def on_random_inputs(module: Module) -> Case:
    """Return a module with random inputs, since only its front end knows its arguments."""
    sizes = dict.fromkeys(symbols(module), DEFAULT_SIZE)
    return Case(module, tuple(random_inputs(module, 0, sizes)))


def diff_function(function: Function, bounds: Bounds, seconds: float = SECONDS) -> Diff:
    """Compare both results of a function; find the op that differs, then the cause in Ingot."""
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
    """Return the text about the first op that differs."""
    for op in ops:
        how = compare(0, op.got, op.want, bounds)
        if not how.agrees:
            location = [f"  at {op.location}"] if op.location else []
            return [f"first op that differs: {op.name}", *location, f"  it differs in {how}"]
    return ["no op differs once its value is a result: it depends on the fusion"]
