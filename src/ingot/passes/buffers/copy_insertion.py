"""Copy insertion: afterwards all that must share a buffer can.

In-place updates, loops, conditionals and the program's outputs want values in given buffers
(`liveness.Edge`). Every edge that coalescing cannot join gets a `copy`; then it is tried again,
until all join. Copies that a module came with are dropped first: a copy is the same value, and
where its own buffer is needed it comes back.

A copy of an operand goes right before its user. Copies of what a computation returns go to its
end, and are moves that happen together: when a move's buffer is still the source of another (a
swap), its value is first saved by a second copy before all moves, and the move becomes the last.
That always ends: an edge has at most two copies, and with two there is nothing left that could
interfere.

Invariant: after it every edge joins, in the order of `Liveness.edges`; the schedule holds exactly
the module's instructions.

Source: xla/service/copy_insertion.cc (what needs a copy); coalesce.py (how they are avoided).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from ingot.analysis.aliasing import Path
from ingot.analysis.liveness import Edge, EdgeKind, analyze_liveness
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.structural import IndexAttributes
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.buffers.coalesce import Classes, join_edges
from ingot.passes.buffers.flatten import FLAT
from ingot.passes.schedule.scheduler import SCHEDULED
from ingot.support.diagnostics import InternalError

COPIES = "copies-inserted"
_AT_OPERAND = (EdgeKind.IN_PLACE, EdgeKind.INITIAL)


@dataclass(frozen=True, slots=True)
class CopyInsertion(Pass):
    """Adds the copies without which some buffer would be overwritten too early."""

    name: ClassVar[str] = "copy-insertion"
    requires: ClassVar[frozenset[str]] = frozenset({FLAT, SCHEDULED})
    ensures: ClassVar[frozenset[str]] = frozenset({COPIES})
    limit: int = 64

    def run(self, module: Module, context: PassContext) -> bool:
        """Drop copies, then add what is needed until every edge joins."""
        changed = drop_copies(module)
        moves = _Moves()
        open_edges: list[Edge] = []
        for _ in range(self.limit):
            liveness = analyze_liveness(module, module.schedule)
            open_edges = join_edges(Classes(liveness), liveness)
            if not open_edges:
                return changed
            _Inserter(module, moves).insert(open_edges)
            changed = True
        raise InternalError(
            f"copy insertion still needs {len(open_edges)} copies after {self.limit} rounds",
            notes=tuple(str(edge) for edge in open_edges[:8]),
        )


def drop_copies(module: Module) -> bool:
    """Remove the copies of scheduled computations; return whether there were any."""
    changed = False
    for computation, order in module.schedule.items():
        pinned = {p for i in order for p in i.control_predecessors}
        for instruction in order:
            free = instruction not in pinned and not instruction.control_predecessors
            if instruction.opcode == "copy" and free:
                computation.replace_all_uses(instruction, instruction.operands[0])
                computation.remove(instruction)
                changed = True
        order[:] = [instruction for instruction in order if instruction.parent is computation]
    return changed


@dataclass(slots=True)
class _Moves:
    """Copies at the ends of computations, over all rounds.

    Attributes:
        stored: every copy that moves a result into its place; True when its value was saved.
        saves: copies that save a value before all moves.
    """

    stored: dict[Instruction, bool] = field(default_factory=dict[Instruction, bool])
    saves: set[Instruction] = field(default_factory=set[Instruction])


@dataclass(slots=True)
class _Edits:
    """What changes in the schedule of one computation in one round."""

    before: dict[Instruction, list[Instruction]] = field(
        default_factory=dict[Instruction, "list[Instruction]"]
    )
    after: dict[Instruction, list[Instruction]] = field(
        default_factory=dict[Instruction, "list[Instruction]"]
    )
    elements: dict[tuple[Instruction, int], Instruction] = field(
        default_factory=dict["tuple[Instruction, int]", Instruction]
    )
    at_end: list[Instruction] = field(default_factory=list[Instruction])


class _Inserter:
    """Adds copies for the edges of one round."""

    def __init__(self, module: Module, moves: _Moves) -> None:
        self._module = module
        self._moves = moves
        self._edits: dict[Computation, _Edits] = {}

    def insert(self, edges: list[Edge]) -> None:
        groups: dict[tuple[Instruction, int, bool], set[Path]] = {}
        for edge in edges:
            key = (edge.user, edge.number, edge.kind in _AT_OPERAND)
            groups.setdefault(key, set()).add(edge.path)
        for (user, number, at_operand), paths in groups.items():
            self._edits.setdefault(user.computation, _Edits())
            if at_operand:
                self._at_operand(user, number, paths)
            else:
                self._at_end(user, paths)
        for computation, edits in self._edits.items():
            self._reschedule(computation, edits)

    def _at_operand(self, user: Instruction, number: int, paths: set[Path]) -> None:
        computation, operand = user.computation, user.operands[number]
        made: list[Instruction] = []
        new = self._rebuild(operand, paths, made)
        self._edits[computation].before.setdefault(user, []).extend(made)
        computation.replace_operand(user, number, new)
        computation.remove_dead(operand)

    def _at_end(self, root: Instruction, paths: set[Path]) -> None:
        computation = root.computation
        edits = self._edits[computation]
        fresh: set[Path] = set()
        for path in paths:
            leaf = _leaf(root, path)
            if leaf in self._moves.stored:
                self._save(leaf, edits)
            else:
                fresh.add(path)
        if fresh:
            made: list[Instruction] = []
            new = self._rebuild(root, fresh, made)
            self._moves.stored.update((i, False) for i in made if i.opcode == "copy")
            edits.at_end.extend(made)
            computation.set_root(new)
            computation.remove_dead(root)

    def _save(self, move: Instruction, edits: _Edits) -> None:
        """Let `move` copy a saved value, as one of the last moves."""
        if self._moves.stored[move]:
            raise InternalError("a copy that was saved still interferes", instruction=repr(move))
        source = move.operands[0]
        save = move.computation.add("copy", (source,), name="save", metadata=move.metadata)
        move.computation.replace_operand(move, 0, save)
        self._moves.stored[move] = True
        self._moves.saves.add(save)
        edits.at_end.append(save)

    def _rebuild(
        self, source: Instruction, paths: set[Path], made: list[Instruction]
    ) -> Instruction:
        """Return `source` with copies at leaves `paths`; what is new goes to `made`, in order."""
        computation = source.computation
        if () in paths:
            copy = computation.add("copy", (source,), metadata=source.metadata)
            made.append(copy)
            return copy
        inner: dict[int, set[Path]] = {}
        for path in paths:
            inner.setdefault(path[0], set()).add(path[1:])
        elements: list[Instruction] = []
        for number in range(len(source.shape.elements)):
            element = self._element(source, number)
            if number in inner:
                element = self._rebuild(element, inner[number], made)
            elements.append(element)
        rebuilt = computation.add("tuple", elements, metadata=source.metadata)
        made.append(rebuilt)
        return rebuilt

    def _element(self, source: Instruction, number: int) -> Instruction:
        """Return an element that stands right after its tuple in the schedule."""
        if source.opcode == "tuple":
            return source.operands[number]
        edits = self._edits[source.computation]
        element = edits.elements.get((source, number))
        if element is None:
            element = source.computation.add(
                "get-tuple-element", (source,), IndexAttributes(number), metadata=source.metadata
            )
            edits.elements[(source, number)] = element
            edits.after.setdefault(source, []).append(element)
        return element

    def _reschedule(self, computation: Computation, edits: _Edits) -> None:
        order = self._module.schedule[computation]
        moves = self._moves
        ours = [i for i in (*order, *edits.at_end) if i in moves.saves or i in moves.stored]
        # Saves before all moves, moves of saved values after all others, then what holds them.
        ours.sort(key=lambda i: 0 if i in moves.saves else 1 + moves.stored[i])
        ends = [*ours, *_holders(computation.root, set(ours))]
        at_end = {*ends, *edits.at_end}
        made: list[Instruction] = []
        for instruction in order:
            if instruction not in at_end:
                made.extend(_with_after(edits.before.get(instruction, ()), edits))
                made.extend(_with_after((instruction,), edits))
        made.extend(ends)
        self._module.schedule[computation] = [i for i in made if i.parent is computation]


def _with_after(instructions: Iterable[Instruction], edits: _Edits) -> Iterator[Instruction]:
    for instruction in instructions:
        yield instruction
        yield from _with_after(edits.after.get(instruction, ()), edits)


def _holders(root: Instruction, moved: set[Instruction]) -> list[Instruction]:
    """Return the tuples at the root that hold `moved`, inner ones first."""
    found: list[Instruction] = []

    def visit(item: Instruction) -> bool:
        if item.opcode != "tuple":
            return item in moved
        holds = [visit(operand) for operand in item.operands]
        if any(holds) and item not in found:
            found.append(item)
        return any(holds)

    visit(root)
    return found


def _leaf(root: Instruction, path: Path) -> Instruction:
    """Return the instruction that a leaf of nested tuple instructions is, as far as they go."""
    for number in path:
        if root.opcode != "tuple":
            break
        root = root.operands[number]
    return root
