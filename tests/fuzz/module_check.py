# SPDX-License-Identifier: Apache-2.0
"""What holds of every module that a reader accepts: it prints, reads back, and runs as it means.

A reader may refuse data with one of Ingot's own errors; an `InternalError`, or an error that names
no place in a text, is a finding. What it accepts is written as text and as a proto, which give the
same module again. A marked mutant is compiled too and held against the evaluator.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.differential.comparison import difference
from tests.support.module_equality import differences

import ingot
from ingot.client.compilation import default_context
from ingot.evaluator import evaluate
from ingot.formats.hlo_proto import parse_hlo_proto, print_hlo_proto
from ingot.formats.hlo_text import parse_hlo, print_module
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DTYPES, PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.shape import Shape
from ingot.hlo.verifier import verify
from ingot.support.diagnostics import IngotError, InternalError

LARGEST = 1 << 12
"""Elements of any array of a module that is run."""
STEPS = 200
"""Iterations of all loops of a module that is run."""
ULPS = 8.0
_NAME = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
_PLACE = re.compile(r'File "[^"]*/ingot/([^"]*)", line \d+, in (\w+)')
_MOST_INSTRUCTIONS = 200
_FOLDS = frozenset({"reduce", "reduce-window", "scatter"})
_ASSOCIATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})
# What two runs need not agree on, or what waits for the world outside.
NOT_COMPARED = frozenset(
    {
        "rng", "rng-get-and-update-state", "infeed", "outfeed", "send", "send-done", "recv",
        "recv-done", "custom-call", "partition-id", "replica-id", "all-reduce", "all-gather",
        "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute",
        "collective-broadcast", "all-reduce-start", "all-gather-start", "async-start",
        "collective-permute-start", "set-dimension-size",
    }
)  # fmt: skip


def checked(read: Callable[[], Module], *, runs: bool) -> str:
    """Return what is wrong with the module that `read` gives, or with its refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = read()
        except InternalError as error:
            return f"internal error: {first_line(error)}"
        except IngotError as error:
            hung = error.diagnostic.code == "INGOT0414"
            return f"the child that reads hung: {first_line(error)}" if hung else ""
        return _written(module) or (_run(module) if runs else "")


def verified(module: Module) -> Module:
    """Return a module that was read from MLIR, whose reader does not ask what ops demand."""
    verify(module)
    return module


def first_line(error: IngotError) -> str:
    """Return an error's class, the first line of its text, and where another process failed."""
    places = _PLACE.findall("".join(error.diagnostic.notes))
    where = " at {}:{}".format(*places[-1]) if places else ""
    return f"{type(error).__name__}: {error}".split("\n", 1)[0][:300] + where


def _written(module: Module) -> str:
    """Return what the module's text and proto lose; constants are small enough to be written."""
    if any(map(_is_large_constant, _instructions(module))):
        return ""
    text = print_module(module)
    try:
        again = parse_hlo(text)
    except IngotError as error:
        return f"the printed text is refused: {first_line(error)}"
    if print_module(again) != text:
        return "the printed text is printed otherwise"
    if _keeps_names(module):
        for found in differences(module, again):
            return f"the printed text says something else: {found}"
    if any(_is_symbolic(instruction.shape) for instruction in _instructions(module)):
        return ""
    try:
        data = print_hlo_proto(module)
    except InternalError as error:
        return f"internal error in the proto: {first_line(error)}"
    except IngotError:  # A sharding that is none, sizes and numbers that no proto has.
        return ""
    try:
        parse_hlo_proto(data)
    except IngotError as error:
        return f"the written proto is refused: {first_line(error)}"
    return ""


def _instructions(module: Module) -> list[Instruction]:
    return [i for computation in module.computations.values() for i in computation.instructions]


def _is_large_constant(instruction: Instruction) -> bool:
    return instruction.opcode == "constant" and instruction.attributes.literal.nbytes > LARGEST * 16


def _keeps_names(module: Module) -> bool:
    """Whether every name is one that XLA reads: the printer changes others."""
    names = [module.name, *module.computations]
    names += [instruction.name for instruction in _instructions(module)]
    return all(_NAME.fullmatch(name) and name not in DTYPES for name in names)


def _is_symbolic(shape: Shape) -> bool:
    return any(isinstance(size, Dim) for _, leaf in shape.leaves() for size in leaf.dims)


def _run(module: Module) -> str:
    """Return how the compiled module differs from the evaluator."""
    instructions = _instructions(module)
    if len(instructions) > _MOST_INSTRUCTIONS or any(map(_too_large, instructions)):
        return ""
    context = default_context()
    context.fp = Fp.EXACT
    try:
        executable = ingot.compile(module, context=context)
    except InternalError as error:
        return f"internal error: {first_line(error)}"
    except IngotError:
        return ""
    if any(i.opcode in NOT_COMPARED or not is_defined(i) for i in instructions):
        return ""
    inputs = [_input(number, p.shape) for number, p in enumerate(module.entry.parameters)]
    if any(value is None for value in inputs):
        return ""
    return _compared(executable, module, inputs)


def is_defined(instruction: Instruction) -> bool:
    """Whether what an op computes does not depend on the order in which it calls.

    A fold's operation must be associative, and an order of a sort strict, else anything may come.
    Which of a window's elements is selected follows from a comparison, whatever is grouped first:
    the first of the greatest, say.
    """
    roots = [called.root for called in instruction.called_computations]
    if instruction.opcode == "select-and-scatter":
        given = instruction.attributes
        return _orders(given.select.root) and _folds(given.scatter.root)
    if instruction.opcode == "sort":
        order = ("LT", "GT")
        return all(r.opcode == "compare" and r.attributes.direction in order for r in roots)
    return instruction.opcode not in _FOLDS or all(map(_folds, roots))


def _folds(root: Instruction) -> bool:
    """Whether a computation is one associative op of its parameters."""
    return root.opcode in _ASSOCIATIVE and _takes_parameters(root)


def _orders(root: Instruction) -> bool:
    """Whether a computation compares its two parameters, first with second."""
    return (
        root.opcode == "compare"
        and root.attributes.direction in ("LT", "LE", "GT", "GE")
        and _takes_parameters(root)
        and [item.attributes.number for item in root.operands] == [0, 1]
    )


def _takes_parameters(root: Instruction) -> bool:
    return all(item.opcode == "parameter" for item in root.operands)


def _compared(executable: Any, module: Module, inputs: list[Any]) -> str:
    try:
        wanted = _flat(evaluate(module, inputs, step_limit=STEPS))
    except InternalError as error:
        return f"internal error of the evaluator: {first_line(error)}"
    except IngotError:
        return ""  # A loop without an end is not run.
    try:
        found = _flat(executable(*inputs))
    except InternalError as error:
        return f"internal error: {first_line(error)}"
    except IngotError as error:
        return f"the program fails, the evaluator does not: {first_line(error)}"
    leaves = [leaf for _, leaf in module.result_shape.leaves()]
    if len(found) == len(leaves):  # Native code has something in the place of a token too.
        found = [value for value, leaf in zip(found, leaves, strict=True) if leaf.is_array]
    if len(found) != len(wanted):
        return f"{len(found)} results, the evaluator has {len(wanted)}"
    for number, (mine, other) in enumerate(zip(found, wanted, strict=True)):
        differs = difference(np.asarray(mine), other, ULPS)
        if differs:
            return f"result {number} {differs}"
    return ""


def _too_large(instruction: Any) -> bool:
    return any(
        _is_symbolic(leaf) or math.prod(leaf.static_dims) > LARGEST
        for _, leaf in instruction.shape.leaves()
        if leaf.is_array
    )


def _input(number: int, shape: Shape) -> Any:
    """Return small whole numbers of an array shape; None where arguments are something else."""
    if not shape.is_array or shape.bounded:
        return None
    draw = np.random.default_rng(number)
    if shape.dtype is PRED:
        return draw.integers(0, 2, shape.static_dims).astype(np.bool_)
    values = draw.integers(0, 4, shape.static_dims)
    return values.astype(shape.dtype.numpy)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in _flat(item)]  # pyright: ignore
    return [value]
