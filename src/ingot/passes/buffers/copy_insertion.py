# SPDX-License-Identifier: Apache-2.0
"""Copy insertion: adds copies until all values that must share a buffer can share it.

In-place updates, loops, conditionals and the program's outputs need values in given buffers
(`liveness.Edge`). Every edge that coalescing cannot join gets a `copy`; this repeats until all
edges join. Loops usually start from constants and arguments, which must not be overwritten: they
get their copies first. Copies that a module came with are dropped before that: a copy is the same
value, and where it needs its own buffer it is added again.

A copy of an operand goes right before its user. Copies of results of a computation go to its
end, and are parallel moves: each comes after those that read the buffer that it writes. In a cycle
(a swap), a second copy saves the value of one before all moves, and its move becomes the last. A
move that still interferes in the next round is saved too. That always ends: an edge has at most two
copies, and with two nothing can interfere.

Invariant: after it every edge joins, in the order of `Liveness.edges`; the schedule holds exactly
the module's instructions.

Source: xla/service/copy_insertion.cc (what needs a copy); coalesce.py (how they are avoided).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ingot.analysis.aliasing import Path, Value, analyze
from ingot.analysis.liveness import Edge, EdgeKind, Liveness, analyze_liveness
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.structural import IndexAttributes
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.buffers.coalesce import Classes, join_edges
from ingot.support.diagnostics import InternalError
from ingot.support.graphs import needs_first
from ingot.support.records import fresh, mutable, record

COPIES = "copies-inserted"
_AT_OPERAND = (EdgeKind.IN_PLACE, EdgeKind.INITIAL)


@record
class CopyInsertion(Pass):
    """Adds the copies without which some buffer would be overwritten too early."""

    name = "copy-insertion"
    requires = frozenset({"flat-call-graph", "updates-split", "scheduled"})
    ensures = frozenset({COPIES})
    limit: int = 64

    def run(self, module: Module, context: PassContext) -> bool:
        """Drop copies, then add those that are needed until every edge joins.

        Raises:
            InternalError: edges still need copies after `limit` rounds.
        """
        changed = drop_copies(module)
        moves = _Moves()
        fixed = list(_fixed_starts(module))
        if fixed:
            _Inserter(module, moves).copy_operands(fixed)
            changed = True
        open_edges: list[Edge] = []
        for _ in range(self.limit):
            liveness = analyze_liveness(module)
            classes = Classes(liveness)
            open_edges = join_edges(classes, liveness)
            if not open_edges:
                return changed
            _Inserter(module, moves).insert(open_edges, liveness, classes)
            changed = True
        raise InternalError(
            f"copy insertion still needs {len(open_edges)} copies after {self.limit} rounds",
            notes=tuple(str(edge) for edge in open_edges[:8]),
        )


def _fixed_starts(module: Module) -> Iterator[Edge]:
    """Yield the edges to states of loops from constants and from arguments that stay the caller's.

    These edges never join: such a value is live throughout.
    """
    loops = [one for order in module.schedule.values() for one in order if one.opcode == "while"]
    given = {(alias.parameter, alias.path) for alias in module.aliases}
    if not loops:
        return
    aliasing = analyze(module)
    for loop in loops:
        for path, state, _ in aliasing.states[loop]:
            source = aliasing.value(loop.operands[0], path)
            assert source is not None, "states hold elements"
            stays = source.kind == "constant" or (
                source.kind == "parameter"
                and (
                    source.instruction.computation is not module.entry
                    or (source.instruction.attributes.number, source.path) not in given
                )
            )
            if stays:
                yield Edge(EdgeKind.INITIAL, source, state, loop, 0, path)


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


@mutable
class _Moves:
    """Copies at the ends of computations, over all rounds.

    Attributes:
        stored: every copy that moves a result into its buffer; True when its value was saved.
        saves: copies that save a value before all moves.
    """

    stored: dict[Instruction, bool] = fresh(factory=dict)
    saves: set[Instruction] = fresh(factory=set)

    def save(self, move: Instruction) -> None:
        """Let `move` copy a saved value, as one of the last moves."""
        if self.stored[move]:
            raise InternalError("a copy that was saved still interferes", instruction=repr(move))
        source, computation = move.operands[0], move.computation
        saved = computation.add("copy", (source,), name="save", metadata=move.metadata)
        computation.replace_operand(move, 0, saved)
        self.stored[move] = True
        self.saves.add(saved)


@record
class _Move:
    """A copy at an end: the class of buffers that it reads, and the one that it writes."""

    copy: Instruction
    reads: Value
    writes: Value


def order_moves(moves: Sequence[_Move], save: Callable[[Instruction], None]) -> list[Instruction]:
    """Return moves in an order in which each comes after the readers of its target.

    In a cycle of moves, `save` is called for one of them, and it comes last.
    """
    readers: dict[Value, int] = {}
    writers: dict[Value, list[_Move]] = {}
    for move in moves:
        readers[move.reads] = readers.get(move.reads, 0) + 1
        writers.setdefault(move.writes, []).append(move)
    ready = [move for move in moves if not _awaited(move, readers)]
    waiting = dict.fromkeys(move for move in moves if _awaited(move, readers))
    order: list[Instruction] = []
    saved: list[Instruction] = []
    while ready or waiting:
        if ready:
            done = ready.pop()
            order.append(done.copy)
        else:
            done = next(iter(waiting))
            del waiting[done]
            save(done.copy)
            saved.append(done.copy)
        readers[done.reads] -= 1
        for move in writers.get(done.reads, ()):
            if move in waiting and not _awaited(move, readers):
                del waiting[move]
                ready.append(move)
    return order + saved


def _awaited(move: _Move, readers: dict[Value, int]) -> bool:
    return readers.get(move.writes, 0) > (move.reads is move.writes)


@mutable
class _Edits:
    """Edits of the schedule of one computation in one round."""

    before: dict[Instruction, list[Instruction]] = fresh(factory=dict)
    after: dict[Instruction, list[Instruction]] = fresh(factory=dict)
    elements: dict[tuple[Instruction, int], Instruction] = fresh(factory=dict)
    at_end: list[Instruction] = fresh(factory=list)


class _Inserter:
    """Adds copies for the edges of one round."""

    def __init__(self, module: Module, moves: _Moves) -> None:
        self._module = module
        self._moves = moves
        self._edits: dict[Computation, _Edits] = {}
        # Moves whose buffers are known: those of this round, and those of earlier ones.
        self._ends: dict[Computation, list[_Move]] = {}

    def insert(self, edges: list[Edge], liveness: Liveness, classes: Classes) -> None:
        groups: dict[tuple[Instruction, int, bool], list[Edge]] = {}
        for edge in edges:
            key = (edge.user, edge.number, edge.kind in _AT_OPERAND)
            groups.setdefault(key, []).append(edge)
        failed = {edge.source.instruction for edge in edges if edge.kind not in _AT_OPERAND}
        for (user, number, at_operand), group in groups.items():
            self._edits.setdefault(user.computation, _Edits())
            if at_operand:
                self._at_operand(user, number, {edge.path for edge in group})
            else:
                self._at_end(user, group, classes)
        self._place_earlier_moves(failed, liveness, classes)
        self._reschedule_edited()

    def copy_operands(self, edges: list[Edge]) -> None:
        """Add copies at operands, before liveness is known."""
        groups: dict[tuple[Instruction, int], set[Path]] = {}
        for edge in edges:
            groups.setdefault((edge.user, edge.number), set()).add(edge.path)
        for (user, number), paths in groups.items():
            self._edits.setdefault(user.computation, _Edits())
            self._at_operand(user, number, paths)
        self._reschedule_edited()

    def _reschedule_edited(self) -> None:
        for computation, edits in self._edits.items():
            self._reschedule(computation, edits)

    def _place_earlier_moves(
        self, failed: set[Instruction], liveness: Liveness, classes: Classes
    ) -> None:
        """Note what earlier rounds' moves read and write; save those that still interfere."""
        for edge in liveness.edges:
            move = edge.source.instruction
            if edge.kind in _AT_OPERAND or self._moves.stored.get(move) is not False:
                continue
            if move in failed:
                self._moves.save(move)
            elif move in liveness.position:
                source = liveness.aliasing.value(move.operands[0])
                assert source is not None
                self._place(move, source, edge.target, classes)

    def _place(self, move: Instruction, source: Value, target: Value, classes: Classes) -> None:
        moves = self._ends.setdefault(move.computation, [])
        moves.append(_Move(move, classes.find(source), classes.find(target)))

    def _at_operand(self, user: Instruction, number: int, paths: set[Path]) -> None:
        computation, operand = user.computation, user.operands[number]
        made: list[Instruction] = []
        new = self._rebuild(operand, paths, made)
        self._edits[computation].before.setdefault(user, []).extend(made)
        computation.replace_operand(user, number, new)
        computation.remove_dead(operand)

    def _at_end(self, root: Instruction, group: list[Edge], classes: Classes) -> None:
        computation = root.computation
        edits = self._edits[computation]
        fresh = {
            edge.path: edge for edge in group if _leaf(root, edge.path) not in self._moves.stored
        }
        if not fresh:
            return
        made: list[Instruction] = []
        new = self._rebuild(root, set(fresh), made)
        edits.at_end.extend(made)
        computation.set_root(new)
        computation.remove_dead(root)
        for path, edge in fresh.items():
            move = _leaf(new, path)
            self._moves.stored[move] = False
            self._place(move, edge.source, edge.target, classes)

    def _rebuild(
        self, source: Instruction, paths: set[Path], made: list[Instruction]
    ) -> Instruction:
        """Return `source` with copies at leaves `paths`; new instructions are added to `made`."""
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
        """Return an element that is scheduled right after its tuple."""
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
        unsaved = order_moves(self._ends.get(computation, ()), moves.save)
        saved = [i for i in order if moves.stored.get(i) and i not in unsaved]
        stored = [*unsaved, *saved]
        saves = [i.operands[0] for i in stored if moves.stored[i]]
        ends = [*saves, *stored, *_holders(computation.root, set(stored))]
        at_end = {*ends, *edits.at_end}
        made: list[Instruction] = []
        for instruction in order:
            if instruction not in at_end:
                made.extend(_with_after(edits.before.get(instruction, ()), edits))
                made.extend(_with_after((instruction,), edits))
        made.extend(ends)
        self._module.schedule[computation] = [i for i in made if i.parent is computation]


def _with_after(instructions: Iterable[Instruction], edits: _Edits) -> Iterator[Instruction]:
    stack = [iter(instructions)]
    while stack:
        instruction = next(stack[-1], None)
        if instruction is None:
            stack.pop()
        else:
            yield instruction
            stack.append(iter(edits.after.get(instruction, ())))


def _holders(root: Instruction, moved: set[Instruction]) -> list[Instruction]:
    """Return the tuples at the root that hold `moved`, inner ones first."""

    def elements(item: Instruction) -> tuple[Instruction, ...]:
        return item.operands if item.opcode == "tuple" else ()

    holds: dict[Instruction, bool] = {}
    for item in needs_first([root], elements):
        inner = elements(item)
        holds[item] = any(holds[one] for one in inner) if inner else item in moved
    return [item for item, held in holds.items() if held and item.opcode == "tuple"]


def _leaf(root: Instruction, path: Path) -> Instruction:
    """Return the instruction at a leaf, through nested tuple instructions as deep as they go."""
    for number in path:
        if root.opcode != "tuple":
            break
        root = root.operands[number]
    return root
