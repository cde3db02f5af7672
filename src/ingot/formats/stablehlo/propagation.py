# SPDX-License-Identifier: Apache-2.0
"""Shardy's own passes over a module that several devices share, before it becomes HLO.

Shardy (in jaxlib's MLIR) propagates the user's shardings to every value, adds a reshard wherever an
op's operands are not divided as the op needs them, and splits each reshard into steps that are one
collective each. Ingot's partitioner (`passes/spmd`) then finds every value annotated and makes the
program of one device.

That last step is not Shardy's. All of 3,461 programs that JAX's own tests compile for several
devices went through the passes below; `sdy-convert-global-to-local` of jaxlib 0.10.2 refuses 360 of
them (loops over divided arrays, slices, CHLO, summands) and ends the process on 43. So that pass is
not run (`tests/formats/test_shardy_partitioning.py`). Modules of open sizes, which nothing runs on
several devices, and modules that come to very many ops with all calls in place are left to the
partitioner as they are. What comes from outside is read in a child process (`isolated`), which a
pass may end.

Invariant: a module for one device, or without a mesh, is not changed.

Source: shardy/dialect/sdy/transforms (propagation_pipeline.cc, export/passes.td).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

from ingot.formats.stablehlo.attributes import shardy
from ingot.formats.stablehlo.binding import inline_call, mlir, run_passes
from ingot.support.flags import IngotWarning

_PARTITIONS = "mhlo.num_partitions"
_RULE = "sdy.sharding_rule"
_DIALECTS = ("chlo", "mhlo")
"""Of whose ops all with operands and results of one shape are elementwise, but `_OTHERS`."""
_OTHERS = frozenset({"constant_like", "ragged_dot", "scan"})
_PASSES = (
    "sdy-propagation-pipeline",
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
)
"""Only this order works: the reshards' other version leaves products without their sum."""
MOST_OPS = 200_000
"""Ops with all calls inlined; a larger program is left to the partitioner."""


def is_divided(mlir_module: Any) -> bool:
    """Whether several devices of a mesh share the program."""
    attributes = mlir_module.operation.attributes
    if _PARTITIONS not in attributes or getattr(attributes[_PARTITIONS], "value", 1) == 1:
        return False
    operations = [view.operation for view in mlir_module.body.operations]
    has_mesh = any(
        op.name == "sdy.mesh" and len(shardy(op.attributes["mesh"], "MeshAttr").axes)
        for op in operations
    )
    functions = [op for op in operations if op.name == "func.func"]
    if not has_mesh or any("?" in str(op.attributes["function_type"]) for op in functions):
        return False
    count = _Calls(functions).ops_in_place()
    if count > MOST_OPS:
        warnings.warn(
            f"a program of more than {MOST_OPS} ops is divided only by the shardings that it says: "
            "Shardy's propagation would take too long",
            IngotWarning,
            stacklevel=2,
        )
    return count <= MOST_OPS


class _Calls:
    """The functions of a module and their calls."""

    def __init__(self, functions: Iterable[Any]) -> None:
        self.functions = {op.attributes["sym_name"].value: op for op in functions}
        self.calls: dict[str, list[Any]] = {name: [] for name in self.functions}
        self.ops = dict.fromkeys(self.functions, 0)
        for name, op in self.functions.items():
            op.walk(partial(self._note, name))

    def _note(self, name: str, op: Any) -> Any:
        self.ops[name] += 1
        if op.name == "func.call":
            self.calls[name].append(op)
        return mlir().ir.WalkResult.ADVANCE

    def callees_first(self) -> list[str]:
        """Return the functions in order; CycleError if one calls itself."""
        called = {name: map(_callee, calls) for name, calls in self.calls.items()}
        return list(TopologicalSorter(called).static_order())

    def ops_in_place(self) -> int:
        """Return the number of ops of the largest function with all calls inlined."""
        total: dict[str, int] = {}
        try:
            for name in self.callees_first():
                total[name] = self.ops.get(name, 0)
                total[name] += sum(total[_callee(call)] for call in self.calls.get(name, ()))
        except CycleError:
            return MOST_OPS + 1
        return max(total.values(), default=0)

    def put_in_place(self) -> None:
        """Replace each call by the body of its function."""
        for name in self.callees_first():
            for call in self.calls.get(name, ()):
                callee = self.functions.get(_callee(call))
                if callee is not None:
                    inline_call(call, callee)


def _callee(call: Any) -> str:
    return call.attributes["callee"].value


def propagate(mlir_module: Any) -> None:
    """Annotate every value of a module with its sharding by Shardy; the module is changed.

    Raises:
        ParseError: INGOT0120, a pass refuses it.
    """
    operations = [view.operation for view in mlir_module.body.operations]
    with mlir_module.context:
        # Shardy sums unreduced values on both sides of a call.
        _Calls(op for op in operations if op.name == "func.func").put_in_place()
        mlir_module.operation.walk(_give_rule)
    run_passes(mlir_module, _PASSES)


def _give_rule(op: Any) -> Any:
    """Annotate an op that Shardy does not know with the dimensions that correspond."""
    name: str = op.name
    if name == "stablehlo.composite":
        name = op.attributes["name"].value
    dialect, _, plain = name.partition(".")
    if dialect in _DIALECTS and plain not in _OTHERS and _RULE not in op.attributes:
        shapes = [tuple(value.type.shape) for value in (*op.operands, *op.results)]
        if plain == "top_k" or all(shape == shapes[-1] for shape in shapes):
            alike = len(shapes[0]) - (plain == "top_k")
            op.attributes[_RULE] = _rule(shapes, len(op.operands), alike)
    return mlir().ir.WalkResult.ADVANCE


def _rule(shapes: Sequence[tuple[int, ...]], operands: int, batch: int) -> Any:
    """Return the rule of values whose first `batch` dimensions correspond; others are whole."""
    sdy = mlir().sdy
    sizes = list(shapes[0][:batch])
    rows: list[Any] = []
    for shape in shapes:
        axes = [*range(batch), *range(len(sizes), len(sizes) + len(shape) - batch)]
        sizes += shape[batch:]
        dimensions = [sdy.DimMappingAttr.get([dim]) for dim in axes]
        rows.append(sdy.TensorMappingAttr.get(dimensions))
    whole = list(range(batch, len(sizes)))
    return sdy.OpShardingRuleAttr.get(
        sizes, rows[:operands], rows[operands:], need_replication_factors=whole
    )
