# SPDX-License-Identifier: Apache-2.0
"""Sizes: the `S_sizes` function, and how symbolic sizes are bound from parameter shapes.

A symbolic size takes its value from the first parameter dimension that is just its name. Every
other dimension that has symbols is a constraint. Each call checks the constraints and what ops
demand of sizes (`analysis.size_demands`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from ingot.analysis.size_demands import Demand, size_demands
from ingot.artifact.abi import SLOT_BYTES, OutputInfo, ParamInfo, ProgramInfo
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.sizes import SizeEmitter
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.host.size_limits import SizeLimit, emit_limits
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.index import Condition
from ingot.passes.buffers.buffer_table import BufferAssignment
from ingot.semantics.assertions import assertion_status, assertion_text, assertions
from ingot.semantics.foreign_calls import foreign_calls, target_name
from ingot.semantics.run_errors import with_origin
from ingot.support.diagnostics import Diagnostic, UnsupportedError
from ingot.support.records import record

_PARAMS = [("in_dims", lt.PTR), ("sizes", lt.PTR), ("constants", lt.PTR)]


@record
class Binding:
    """Where a symbolic size comes from: dimension `dim` of flattened parameter `parameter`."""

    name: str
    parameter: int
    dim: int


@record
class Constraint:
    """Dimension `dim` of flattened parameter `parameter` must be `size`; else `message` is said."""

    parameter: int
    dim: int
    size: int | Dim
    message: str


@record
class Margin:
    """`size` must not be negative; `message` is the error if it is."""

    size: int | Dim
    message: str


@record
class SizePlan:
    """How sizes are bound and checked.

    Attributes:
        bindings: where each symbolic size comes from.
        constraints: what parameters' dimensions must be.
        margins: what the entry's ops demand.
        regions: what the ops of loops and branches demand when they run.
    """

    bindings: tuple[Binding, ...]
    constraints: tuple[Constraint, ...]
    margins: tuple[Margin, ...]
    regions: dict[Computation, tuple[Margin, ...]]

    @property
    def symbols(self) -> tuple[str, ...]:
        """Size names in ABI order."""
        return tuple(binding.name for binding in self.bindings)

    @property
    def checked(self) -> tuple[int | Dim, ...]:
        """The sizes that are checked."""
        return tuple(check.size for check in (*self.constraints, *self.margins))

    @property
    def messages(self) -> tuple[str, ...]:
        """What to say when a check fails, in the order of the checks."""
        return tuple(check.message for check in (*self.constraints, *self.margins))


def parameter_leaves(module: Module) -> list[tuple[str, Shape]]:
    """Return (name, shape) of every flattened entry parameter."""
    return [
        (".".join((_name_of(parameter), *map(str, path))), shape)
        for parameter in module.entry.parameters
        for path, shape in parameter.shape.leaves()
    ]


def _name_of(parameter: Instruction) -> str:
    """Return what messages call a parameter: the name that the user gave it, if that is known."""
    origin = parameter.metadata
    return parameter.name if origin.op_type else origin.op_name or parameter.name


def plan_sizes(module: Module) -> SizePlan:
    """Return how the module's symbolic sizes are bound.

    Raises:
        UnsupportedError: INGOT0331, a size is in no parameter dimension by its bare name.
    """
    leaves = parameter_leaves(module)
    bindings: dict[str, Binding] = {}
    for number, (_, shape) in enumerate(leaves):
        for dim, size in enumerate(shape.dims):
            if isinstance(size, Dim) and size.is_symbol and size.text not in bindings:
                bindings[size.text] = Binding(size.text, number, dim)
    parameters = [
        parameter for parameter in module.entry.parameters for _ in parameter.shape.leaves()
    ]
    constraints: list[Constraint] = []
    for number, (name, shape) in enumerate(leaves):
        for dim, size in enumerate(shape.dims):
            if isinstance(size, int):
                continue
            bound = bindings.get(size.text)
            if bound is not None and (bound.parameter, bound.dim) == (number, dim):
                continue
            where = _sources(size.symbols, bindings, leaves)
            message = f"dimension {dim} of '{name}' must be {size} ({where})"
            refusal = _refusal(message, parameters[number])
            constraints.append(Constraint(number, dim, size, refusal))
            require_bound(size, bindings, f"'{name}' has shape {shape}")
    _require_results(module, bindings)

    def margins(demands: Iterable[Demand]) -> tuple[Margin, ...]:
        return tuple(
            Margin(demand.margin, _unmet(demand, bindings, leaves))
            for demand in demands
            if symbols_of((demand.margin,)) <= bindings.keys()
        )

    # The verifier has checked demands on static sizes.
    demands = size_demands(module) if bindings else {}
    regions = {region: margins(found) for region, found in demands.items()}
    entry = regions.pop(module.entry, ())
    return SizePlan(tuple(bindings.values()), tuple(constraints), entry, regions)


def _unmet(demand: Demand, bindings: dict[str, Binding], leaves: list[tuple[str, Shape]]) -> str:
    """Return the text of a demand that does not hold, with the op that makes it."""
    where = _sources(symbols_of((demand.margin,)), bindings, leaves)
    message = f"{demand.op.opcode} needs {demand.least} <= {demand.size} ({where})"
    return with_origin(message, demand.op, "pass arguments that are as large as the op needs")


def _refusal(message: str, parameter: Instruction) -> str:
    """Return the text of a constraint, with the op that demands it if the front end recorded it."""
    origin = parameter.metadata
    found = Diagnostic(
        message,
        op_type=origin.op_type,
        op_name=origin.op_name if origin.op_type else "",
        location=origin.location,
        hint="pass arguments whose sizes agree",
    )
    return found.render_facts()


def _sources(
    symbols: Iterable[str], bindings: dict[str, Binding], leaves: list[tuple[str, Shape]]
) -> str:
    """Return the text that says which parameter dimensions `symbols` are bound to."""
    known = [bindings[symbol] for symbol in sorted(symbols) if symbol in bindings]
    return ", ".join(
        f"{binding.name} is dimension {binding.dim} of '{leaves[binding.parameter][0]}'"
        for binding in known
    )


def _require_results(module: Module, bindings: dict[str, Binding]) -> None:
    for _, shape in module.result_shape.leaves():
        for size in shape.dims:
            require_bound(size, bindings, f"a result has shape {shape}")


def require_bound(size: int | Dim, known: Container[str], where: str) -> None:
    """Refuse a size whose symbols are not all `known`.

    Args:
        size: the size.
        known: names of the sizes that are bound.
        where: names the value with that size, for the message.

    Raises:
        UnsupportedError: INGOT0331.
    """
    free = [] if isinstance(size, int) else sorted(n for n in size.symbols if n not in known)
    if free:
        raise UnsupportedError(
            f"symbolic size {', '.join(free)} cannot be found from the parameters",
            code="INGOT0331",
            notes=(where,),
            hint="let one parameter have a dimension that is just this size",
        )


def program_info(module: Module, plan: SizePlan, assignment: BufferAssignment) -> ProgramInfo:
    """Return the ABI description of a module."""
    params = tuple(
        ParamInfo(shape.dtype.name, _dims(shape), name) for name, shape in parameter_leaves(module)
    )
    leaves = module.result_shape.leaves()
    checks = assertions(module)
    statuses = tuple(map(assertion_status, checks))
    takeovers = _takeovers(module)
    outputs = tuple(
        OutputInfo(shape.dtype.name, _dims(shape), takeovers.get(path)) for path, shape in leaves
    )
    return ProgramInfo(
        "program",
        params,
        outputs,
        len(plan.bindings),
        constraints=plan.messages,
        run_errors=(
            *map(assertion_text, checks),
            *map(_call_failure, foreign_calls(module)),
            *(margin.message for region in plan.regions.values() for margin in region),
        ),
        largest=_largest(assignment),
        run_statuses=statuses if any(statuses) else (),
    )


def _largest(assignment: BufferAssignment) -> str:
    """Return the text of the largest buffer that a call allocates."""
    value = assignment.largest()
    if value is None:
        return ""
    return f"%{value.instruction.name}'s {value.shape}, {value.shape.bytes} bytes"


def _call_failure(call: Instruction) -> str:
    """Return the message of a foreign call that fails; the runtime appends the target's own."""
    is_call = call.opcode == "custom-call"
    what = f"custom call '{target_name(call)}'" if is_call else target_name(call)
    return with_origin(f"{what} failed", call)


def _dims(shape: Shape) -> tuple[int | None, ...]:
    return tuple(size if isinstance(size, int) else None for size in shape.dims)


def _takeovers(module: Module) -> dict[tuple[int, ...], int]:
    """Return output path -> flattened parameter whose buffer that output takes over."""
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    for parameter, instruction in enumerate(module.entry.parameters):
        for path, _ in instruction.shape.leaves():
            numbers[parameter, path] = len(numbers)
    return {alias.output: numbers[alias.parameter, alias.path] for alias in module.aliases}


def computed_sizes(module: Module, assignment: BufferAssignment) -> list[int | Dim]:
    """Return what `S_sizes` computes, in the order of `SizesLayout` without its symbols.

    These are the arena's bytes, the bytes of each output, then all outputs' dimensions.
    """
    shapes = [shape for _, shape in module.result_shape.leaves()]
    dims = (size for shape in shapes for size in shape.dims)
    return [assignment.arena_bytes, *(shape.bytes for shape in shapes), *dims]


def emit_sizes(
    builder: ModuleBuilder,
    plan: SizePlan,
    info: ProgramInfo,
    computed: Sequence[int | Dim],
    limits: Sequence[SizeLimit],
) -> None:
    """Emit `S_sizes`, which binds, checks and computes sizes.

    Args:
        builder: the host program's module.
        plan: how sizes are bound and checked.
        info: the program, for the symbol and the numbers of statuses.
        computed: the `computed_sizes`.
        limits: sizes that must not be too large.
    """
    f = builder.function(info.sizes_symbol, lt.I32, _PARAMS)
    in_dims, sizes, _ = f.params

    def dimension(parameter: int, dim: int) -> IndexValue:
        dims = f.load(lt.PTR, f.gep(in_dims, parameter * SLOT_BYTES), 8)
        return f.load(lt.I64, f.gep(dims, dim * SLOT_BYTES), 8)

    def check(number: int, fails: Condition) -> None:
        f.if_(fails, lambda: f.ret(f.const(lt.I32, number + 1)), likely=False)

    names: dict[str, IndexValue] = {
        binding.name: dimension(binding.parameter, binding.dim) for binding in plan.bindings
    }
    emit_limits(builder, f, info, limits, names)
    emitter = SizeEmitter(f, names)
    for number, constraint in enumerate(plan.constraints):
        actual = dimension(constraint.parameter, constraint.dim)

        check(number, f.ine(actual, emitter.index(constraint.size)))
    for number, margin in enumerate(plan.margins, len(plan.constraints)):
        check(number, f.ilt(emitter.index(margin.size), 0))
    symbols = [names[binding.name] for binding in plan.bindings]
    arena, *results = map(emitter.index, computed)
    for slot, value in enumerate((arena, *symbols, *results)):
        f.store(f.as_value(value), f.gep(sizes, slot * SLOT_BYTES), 8)
    f.ret(f.const(lt.I32, 0))
