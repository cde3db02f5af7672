# SPDX-License-Identifier: Apache-2.0
"""Runs many cases at once on the evaluator, on Ingot's CPU and on real XLA, and compares.

A batch is one module whose entry has every case's parameters and returns every case's leaves. When
a batch does not compile somewhere, it is halved until the case that is to blame stands alone.

Example:
    for result in run_cases(cases): print(result.case.name, result.cpu, result.xla)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.differential.case import ALONE, Array, Case
from tests.differential.comparison import denormal, difference
from tests.support.real_xla import run_hlo_text
from tests.support.real_xla_devices import XlaOnDevices

import ingot
from ingot.evaluator import evaluate
from ingot.evaluator.replicated import evaluate_replicated
from ingot.formats.hlo_text import print_module
from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.semantics.device_groups import grid_of
from ingot.support.diagnostics import UnsupportedError

BATCH = 40
"""Cases per module: compile time of real XLA is mostly per module."""

Leaves = list[Array]
Runner = Callable[[Module, list[Array]], Leaves]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a case has no result on an engine."""

    text: str
    unsupported: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What came out for one case.

    Attributes:
        case: the case.
        evaluator: why the evaluator has no result, or nothing.
        cpu: how Ingot's CPU differs from the evaluator, or nothing.
        xla: how the evaluator differs from real XLA, or nothing.
        unsupported: engines that say that they cannot, with their reason.
    """

    case: Case
    evaluator: str = ""
    cpu: str = ""
    xla: str = ""
    unsupported: tuple[tuple[str, str], ...] = ()


def module_of(cases: Sequence[Case]) -> tuple[Module, list[Array], list[int]]:
    """Return the module of some cases, its inputs, and the number of leaves of each case."""
    builder, inputs, leaves, counts = Builder("main"), [], [], []
    grid = cases[0].grid
    for case in cases:
        parameters = []
        for array in case.inputs:
            literal = ingot.hlo.literal.Literal.of(array if grid == ALONE else array[0])
            parameters.append(builder.parameter(len(inputs), literal.shape))
            inputs.append(array)
        found = list(_leaves(builder, case.build(builder, parameters)))
        leaves.extend(found)
        counts.append(len(found))
    module = Module.of("cases", builder.build(builder.tuple(*leaves)))
    if grid != ALONE:
        module.extra["replica_count"], module.extra["num_partitions"] = map(str, grid)
    return module, inputs, counts


def _leaves(builder: Builder, value: Instruction) -> Iterator[Instruction]:
    if not value.shape.is_tuple:
        yield value
        return
    for number in range(len(value.shape.elements)):
        yield from _leaves(builder, builder.get_tuple_element(value, index=number))


def on_evaluator(module: Module, inputs: list[Array]) -> Leaves:
    """Run on the evaluator."""
    if grid_of(module).devices > 1:
        return _side_by_side(evaluate_replicated(module, _by_device(module, inputs)))
    return [np.asarray(leaf) for leaf in _flat(evaluate(module, inputs))]


def on_cpu(module: Module, inputs: list[Array]) -> Leaves:
    """Run natively."""
    if grid_of(module).devices > 1:
        run = ingot.compile(module).execute_replicated
        return _side_by_side(run(_by_device(module, inputs)))
    return [np.asarray(leaf) for leaf in _flat(ingot.compile(module)(*inputs))]


def on_xla(module: Module, inputs: list[Array]) -> Leaves:
    """Run on real XLA."""
    grid = grid_of(module)
    if grid.devices > 1:
        rows = [[*array] for array in inputs]
        if grid.partitions > 1:
            _say_manual(module)
        found = XlaOnDevices.running().run(print_module(module), rows, grid)
        return _side_by_side(found)
    return [np.asarray(leaf) for leaf in run_hlo_text(print_module(module), inputs)]


def _say_manual(module: Module) -> None:
    """Say of every instruction that it is written for one partition, as XLA wants to know."""
    for instruction in module.entry.instructions:
        leaves = ["{manual}" for _ in instruction.shape.leaves()]
        text = f"{{{', '.join(leaves)}}}" if instruction.shape.is_tuple else "{manual}"
        instruction.extra = {**instruction.extra, "sharding": text}


def _by_device(module: Module, inputs: list[Array]) -> list[list[Array]]:
    """Return the arguments of each device."""
    return [[array[n] for array in inputs] for n in range(grid_of(module).devices)]


def _side_by_side(results: Sequence[Any]) -> Leaves:
    """Return each leaf of all devices, the device first."""
    devices = [_flat(result) for result in results]
    return [np.stack([np.asarray(leaf) for leaf in leaves]) for leaves in zip(*devices)]  # noqa: B905


def _flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def run_cases(
    cases: Sequence[Case],
    *,
    xla: bool = True,
    native: Runner | None = None,
    is_refused: Callable[[Case], bool] = lambda case: False,
) -> Iterator[Result]:
    """Run cases in batches; yield their results in order.

    `native` runs them in the place of Ingot's CPU.

    Cases that XLA is known to refuse go to it alone: they would take their module with them.
    """
    for batch in _batches(cases):
        evaluated = _run(batch, on_evaluator)
        natives = _run(batch, native or on_cpu)
        real: list[Leaves | Failure | None] = [None] * len(batch)
        if xla:
            refused = [place for place, case in enumerate(batch) if is_refused(case)]
            others = [place for place in range(len(batch)) if place not in refused]
            for places in (others, *([place] for place in refused)):
                outcomes = _run([batch[place] for place in places], on_xla) if places else []
                for place, outcome in zip(places, outcomes, strict=True):
                    real[place] = outcome
        for case, want, got, other in zip(batch, evaluated, natives, real, strict=True):
            yield _result(case, want, got, other)


def _batches(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Yield runs of cases of one grid, `BATCH` at most."""
    for _, run in itertools.groupby(cases, lambda case: case.grid):
        rest = list(run)
        for start in range(0, len(rest), BATCH):
            yield rest[start : start + BATCH]


def _run(batch: list[Case], runner: Runner) -> list[Leaves | Failure]:
    """Return each case's leaves, or why there are none."""
    try:
        module, inputs, counts = module_of(batch)
        leaves = runner(module, inputs)
    except Exception as error:
        if len(batch) > 1:
            half = len(batch) // 2
            return _run(batch[:half], runner) + _run(batch[half:], runner)
        text = f"{type(error).__name__}: {error}".strip().splitlines()
        return [Failure(" ".join(text[:3])[:300], isinstance(error, UnsupportedError))]
    found, place = [], 0
    for count in counts:
        found.append(leaves[place : place + count])
        place += count
    return found


def _result(
    case: Case,
    want: Leaves | Failure,
    got: Leaves | Failure,
    other: Leaves | Failure | None,
) -> Result:
    if isinstance(want, Failure):
        return Result(case, evaluator=want.text)
    unsupported, texts = [], {"cpu": "", "xla": ""}
    for name, leaves in (("cpu", got), ("xla", other)):
        if isinstance(leaves, Failure):
            if leaves.unsupported:
                unsupported.append((name, leaves.text))
            else:
                texts[name] = leaves.text
        elif leaves is not None:
            texts[name] = _compare(case, name, leaves, want)
    return Result(case, "", texts["cpu"], texts["xla"], tuple(unsupported))


def _compare(case: Case, engine: str, got: Leaves, want: Leaves) -> str:
    ulps = case.nearness.ulps if engine == "cpu" else case.nearness.xla_ulps
    for number, (mine, other) in enumerate(zip(got, want, strict=True)):
        # XLA's CPU client flushes denormals to zero while it runs.
        leave_out = _denormals(case, other) if engine == "xla" else None
        text = difference(
            mine, other, ulps, of_largest=case.nearness.of_largest, leave_out=leave_out
        )
        if text:
            return f"leaf {number} {text}{_operands(case, mine, other, text)}"
    return ""


def _denormals(case: Case, want: Array) -> Any:
    mask = denormal(want)
    if case.elementwise:
        for array in case.inputs:
            if array.shape == want.shape:
                mask = mask | denormal(array)
    return mask


def _operands(case: Case, got: Array, want: Array, text: str) -> str:
    """Return the inputs of the first element that differs, of an elementwise case."""
    if not case.elementwise or not text.startswith("at ["):
        return ""
    place = tuple(int(n) for n in text[4 : text.index("]")].split(",") if n.strip())
    fitting = [a[place] for a in case.inputs if a.shape == want.shape == got.shape]
    return f" of {', '.join(map(str, fitting))}"
