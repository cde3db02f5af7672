# SPDX-License-Identifier: Apache-2.0
"""Liveness: when each value must be intact, over one line of all scheduled instructions.

The line: every instruction has a position; a `while` has one before its condition and body and one
after them, a `conditional` around its branches, a computation one before and one after its own. The
functions follow one another; a `call` is one instruction.
At position p, operands are read at time 2p and results written at 2p+1. An operand that must stay
intact while the results are written is read until 2p+1; one that may be overwritten as it is read
(`analysis.in_place`) only until 2p.

Loops and branches: a loop state is live from the start of the loop to its last use in the body,
through the whole condition (where the value of the last trip leaves the loop); a value from outside
that branches read is live up to the conditional and, separately, inside each branch that reads it,
so that one branch may overwrite what only another one reads. A donated parameter that must survive
a failure is live until the last point of failure.

`Edge`s are the pairs of values that should share a buffer; `Liveness.edges` lists them in the order
in which to try them: forward ones along the line, then loop ends, then outputs of functions.

Source: xla/hlo/utils/hlo_live_range.cc, hlo_ordering.h.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TypeAlias

from ingot.analysis.aliasing import Aliasing, Path, Value, analyze, at, is_view, leaves
from ingot.analysis.failures import may_fail, may_fail_to_start, surviving_aliases
from ingot.analysis.in_place import shared_operands
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.support.records import fresh, mutable, record
from ingot.support.trampoline import Recursion, run

Schedule: TypeAlias = Mapping[Computation, Sequence[Instruction]]
Segment: TypeAlias = tuple[int, int]  # first and last time, both included

BEFORE = -1
FOREVER = 1 << 60
_NOTHING = ops_with(Trait.LEAF)


class EdgeKind(Enum):
    """Why two values should share a buffer."""

    IN_PLACE = auto()  # operand and output of an in-place update
    INITIAL = auto()  # initial value and state of a loop
    BRANCH = auto()  # what a branch returns and the conditional's result
    LOOP = auto()  # what a body returns and the loop's state
    OUTPUT = auto()  # what a function returns and its output


@record
class Edge:
    """Two values that should share a buffer.

    Attributes:
        kind: why.
        source: the earlier value.
        target: the later one.
        user: the reader of `source`: an instruction, or the root of a computation for BRANCH, LOOP
            and OUTPUT.
        number: operand number of `user` (IN_PLACE, INITIAL).
        path: leaf of that operand, or of the root.
    """

    kind: EdgeKind
    source: Value
    target: Value
    user: Instruction
    number: int
    path: Path


@mutable
class Region:
    """A computation's range on the line; `caller` is None for a function."""

    computation: Computation
    function: Computation
    caller: Instruction | None
    start: int = 0
    end: int = 0


@mutable
class Liveness:
    """When values are live.

    Attributes:
        aliasing: the values.
        position: position of each instruction; for while and conditional the one before.
        after: for while and conditional, the position after.
        regions: range of each computation on the line.
        segments: per value, disjoint sorted times during which its memory must be intact.
        hull_end: per value, until when other buffers must not overlap it (counts as reads until
            2p+1 also those that permit sharing one and the same buffer).
        edges: pairs that should share a buffer, in the order in which to try them.
        together: pairs that are one buffer by definition and never interfere.
        may_share: (operand value, output value) that may be one buffer if they do not interfere.
        outputs: the outputs of each function, per leaf of its root.
        end: last position of the line.
    """

    aliasing: Aliasing
    position: dict[Instruction, int] = fresh(factory=dict)
    after: dict[Instruction, int] = fresh(factory=dict)
    regions: dict[Computation, Region] = fresh(factory=dict)
    segments: dict[Value, list[Segment]] = fresh(factory=dict)
    hull_end: dict[Value, int] = fresh(factory=dict)
    edges: list[Edge] = fresh(factory=list)
    together: list[tuple[Value, Value]] = fresh(factory=list)
    may_share: list[tuple[Value, Value]] = fresh(factory=list)
    outputs: dict[Computation, dict[Path, Value]] = fresh(factory=dict)
    end: int = 0

    def function_of(self, value: Value) -> Computation:
        """Return the function in which a value is made."""
        return self.regions[value.instruction.computation].function


def analyze_liveness(module: Module) -> Liveness:
    """Return when every value of the scheduled module is live."""
    return module.analysis(_analyze)


def forget_liveness(module: Module) -> None:
    """Drop the cached liveness: the schedule changed."""
    module.drop_analysis(_analyze)


def _analyze(module: Module) -> Liveness:
    schedule = module.schedule
    found = Liveness(analyze(module))
    for function in found.aliasing.functions:
        found.outputs[function] = {}
        run(_number(found, Region(function, function, None), schedule))
    found.end -= 1
    _Ranges(found, schedule).run(module)
    return found


def call_levels(liveness: Liveness) -> dict[Computation, int]:
    """Return how many calls lead to each function at most: two of one level never run at once."""
    aliasing = liveness.aliasing
    calls: dict[Computation, dict[Computation, None]] = {}
    for call in aliasing.calls:
        caller = liveness.regions[call.computation].function
        calls.setdefault(caller, {})[call.attributes.to_apply] = None
    levels = dict.fromkeys(aliasing.functions, 0)
    for caller in aliasing.functions:
        for callee in calls.get(caller, ()):
            levels[callee] = max(levels[callee], levels[caller] + 1)
    return levels


def called_by_control_flow(instruction: Instruction) -> tuple[Computation, ...]:
    """Return the computations that the host program runs for an instruction, in line order."""
    if instruction.opcode == "while":
        return (instruction.attributes.condition, instruction.attributes.body)
    if instruction.opcode == "conditional":
        return tuple(instruction.attributes.branch_computations)
    return ()


def _number(found: Liveness, region: Region, schedule: Schedule) -> Recursion[None]:
    """Give positions to a region and to those inside it, from the present end of the line."""
    region.start = found.end
    found.regions[region.computation] = region
    found.end += 1
    for instruction in schedule[region.computation]:
        found.position[instruction] = found.end
        found.end += 1
        called = called_by_control_flow(instruction)
        for inner in called:
            yield _number(found, Region(inner, region.function, instruction), schedule)
        if called:
            found.after[instruction] = found.end
            found.end += 1
    region.end = found.end
    found.end += 1


class _Ranges:
    """Collects uses, then makes segments of them."""

    def __init__(self, found: Liveness, schedule: Schedule) -> None:
        self._found = found
        self._schedule = schedule
        self._aliasing = found.aliasing
        # Per value and region of the line: last time of use there. The home region is where the
        # value is made; others are branches that read it from outside.
        self._last: dict[Value, dict[Computation, int]] = {}
        self._hard: dict[Value, int] = {}
        self._home: dict[Value, Computation] = {}
        self._first: dict[Value, int] = {}
        self._late: list[Edge] = []

    def run(self, module: Module) -> None:
        for value in self._aliasing.values:
            self._define(value)
        for computation, instructions in self._schedule.items():
            if computation not in self._found.regions:
                continue
            for instruction in instructions:
                self._visit(instruction)
            self._visit_root(computation)
        self._keep_until_checked(module)
        self._finish(module)

    # ---- definitions

    def _define(self, value: Value) -> None:
        found, made_by = self._found, value.instruction
        self._home[value] = made_by.computation
        if value.kind in _NOTHING:
            first = BEFORE
        elif value.kind == "state":
            loop = self._aliasing.callers[made_by.computation]
            first = 2 * found.position[loop] + 1
        elif value.kind in ("result", "branches"):
            first = 2 * found.after[made_by] + 1
        else:
            first = 2 * found.position[made_by] + 1
        last = first
        if value.kind == "state":
            loop = self._aliasing.callers[made_by.computation]
            last = 2 * found.regions[loop.attributes.condition].end + 1
        elif value.kind == "constant":
            last = FOREVER
        self._first[value] = first
        self._last[value] = {made_by.computation: last}
        self._hard[value] = last

    # ---- uses

    def _use(self, value: Value, computation: Computation, time: int, hard: int) -> None:
        """Note that `value` is read in `computation` at `time`; until `hard` by other buffers."""
        self._hard[value] = max(self._hard[value], hard)
        last = self._last[value]
        while True:
            known = last.get(computation)
            last[computation] = time if known is None else max(known, time)
            # An earlier read was already noted in the surrounding regions.
            if known is not None or self._is_condition_of(computation, value):
                return
            caller = self._found.regions[computation].caller
            assert caller is not None, f"{value} is used where it is not visible"
            if caller.opcode == "while":
                time = 2 * self._found.after[caller]
            else:
                time = 2 * self._found.position[caller]
            self._hard[value] = max(self._hard[value], time)
            computation = caller.computation

    def _is_condition_of(self, computation: Computation, value: Value) -> bool:
        if value.kind != "state":
            return False
        loop = self._aliasing.callers[value.instruction.computation]
        return computation is loop.attributes.condition

    def _visit(self, instruction: Instruction) -> None:
        if is_view(instruction) or instruction.opcode in _NOTHING:
            return
        if instruction.opcode == "while":
            self._visit_while(instruction)
        elif instruction.opcode == "conditional":
            self._visit_operand(instruction, 0, in_place=False)
        else:
            self._visit_kernel(instruction)

    def _visit_operand(self, instruction: Instruction, number: int, *, in_place: bool) -> None:
        position = self._found.position[instruction]
        hard = 2 * position + 1
        soft = 2 * position if in_place else hard
        for _, value in leaves(self._aliasing.trees[instruction.operands[number]]):
            self._use(value, instruction.computation, soft, hard)

    def _visit_kernel(self, instruction: Instruction) -> None:
        results = self._aliasing.trees[instruction]
        must, may = shared_operands(instruction)
        updated = must.values()
        for number, operand in enumerate(instruction.operands):
            shared = number in may and number not in updated
            self._visit_operand(instruction, number, in_place=shared or number in updated)
            source = self._aliasing.trees[operand]
            if shared and isinstance(source, Value):
                size = source.shape.bytes
                self._found.may_share += [
                    (source, result) for _, result in leaves(results) if result.shape.bytes == size
                ]
        for path, number in must.items():
            self._edge(EdgeKind.IN_PLACE, instruction, number, (), at(results, path))

    def _visit_while(self, loop: Instruction) -> None:
        position = self._found.position[loop]
        for path, state, result in self._aliasing.states[loop]:
            self._found.together.append((state, result))
            source = at(self._aliasing.trees[loop.operands[0]], path)
            assert isinstance(source, Value)
            self._use(source, loop.computation, 2 * position, 2 * position)
            self._edge(EdgeKind.INITIAL, loop, 0, path, state)

    def _visit_root(self, computation: Computation) -> None:
        region = self._found.regions[computation]
        caller, root = region.caller, computation.root
        time = 2 * region.end
        tree = self._aliasing.trees[root]
        if caller is None:
            self._visit_outputs(root, time)
        elif caller.opcode == "conditional":
            for path, merged in self._aliasing.merges[caller]:
                self._return(EdgeKind.BRANCH, root, path, merged, time)
        elif computation is caller.attributes.body:
            for path, state, _ in self._aliasing.states[caller]:
                self._return(EdgeKind.LOOP, root, path, state, time)
        else:
            assert isinstance(tree, Value)
            self._use(tree, computation, time + 1, time + 1)

    def _return(
        self, kind: EdgeKind, root: Instruction, path: Path, target: Value, time: int
    ) -> None:
        source = at(self._aliasing.trees[root], path)
        assert isinstance(source, Value)
        self._use(source, root.computation, time, time)
        self._edge(kind, root, 0, path, target)

    def _visit_outputs(self, root: Instruction, time: int) -> None:
        for path, value in leaves(self._aliasing.trees[root]):
            outputs = self._found.outputs[root.computation]
            number = len(self._aliasing.values) + len(outputs)
            output = Value("output", root, path, value.shape, number)
            outputs[path] = output
            self._found.segments[output] = [(time + 1, FOREVER)]
            self._found.hull_end[output] = FOREVER
            self._return(EdgeKind.OUTPUT, root, path, output, time)

    def _edge(
        self, kind: EdgeKind, user: Instruction, number: int, path: Path, target: object
    ) -> None:
        taken = user.operands[number] if kind in (EdgeKind.IN_PLACE, EdgeKind.INITIAL) else user
        source = at(self._aliasing.trees[taken], path)
        assert isinstance(source, Value)
        assert isinstance(target, Value)
        self._late.append(Edge(kind, source, target, user, number, path))

    # ---- failures

    def _keep_until_checked(self, module: Module) -> None:
        """Let instructions that may fail read the parameters that survive a failure."""
        surviving = surviving_aliases(module)
        times = self._last_failures(module) if surviving else {}
        for alias in surviving:
            value = self._aliasing.value(module.entry.parameters[alias.parameter], alias.path)
            assert value is not None, "a donated value has elements"
            for computation, time in times.items():
                self._use(value, computation, time, time)

    def _last_failures(self, module: Module) -> dict[Computation, int]:
        """Return until when the entry, and what its loops and branches run, may fail."""
        found = self._found
        own = [region for region in found.regions.values() if region.function is module.entry]
        refused = may_fail_to_start(module) if len(own) > 1 else set[Computation]()
        known: dict[Computation, bool] = {}
        times: dict[Computation, int] = {}
        for region in own:
            last = 2 * region.start if region.computation in refused else BEFORE
            for instruction in region.computation.calls_and_effects:
                inner = called_by_control_flow(instruction)
                if not inner and may_fail(instruction, known):
                    last = max(last, 2 * found.position[instruction] + 1)
            if last > BEFORE:
                times[region.computation] = last
        return times

    # ---- segments

    def _finish(self, module: Module) -> None:
        donated = self._donated(module)
        for value in self._aliasing.values:
            if value.kind == "parameter" and value not in donated:
                self._found.segments[value] = [(BEFORE, FOREVER)]
                self._found.hull_end[value] = FOREVER
                continue
            self._found.segments[value] = self._segments(value)
            self._found.hull_end[value] = max(self._hard[value], self._found.segments[value][-1][1])
        self._found.edges = sorted(self._late, key=self._edge_order)

    def _donated(self, module: Module) -> set[Value]:
        """Return parameters that an output takes over, each joined with that output."""
        found: set[Value] = set()
        for alias in module.aliases:
            parameter = module.entry.parameters[alias.parameter]
            value = self._aliasing.value(parameter, alias.path)
            output = self._found.outputs[module.entry].get(alias.output)
            if value is not None and output is not None and value not in found:
                self._found.together.append((value, output))
                found.add(value)
        return found

    def _segments(self, value: Value) -> list[Segment]:
        regions, home = self._found.regions, self._home[value]
        parts: list[Segment] = []
        for computation, last in self._last[value].items():
            outside = computation is not home and not self._is_condition_of(computation, value)
            first = 2 * regions[computation].start if outside else self._first[value]
            parts.append((first, last))
        parts.sort()
        merged = [parts[0]]
        for first, last in parts[1:]:
            if first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        return merged

    def _edge_order(self, edge: Edge) -> tuple[int, int]:
        backward = {EdgeKind.LOOP: 1, EdgeKind.OUTPUT: 2}.get(edge.kind, 0)
        if edge.kind in (EdgeKind.IN_PLACE, EdgeKind.INITIAL):
            return backward, self._found.position[edge.user]
        return backward, self._found.regions[edge.user.computation].end
