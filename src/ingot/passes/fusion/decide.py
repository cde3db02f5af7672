"""Decisions: which instructions share a kernel, and the reason for each edge.

Instructions are visited consumers first. A producer is pulled into the kernels of all its consumers
when that is legal and recomputing is cheaper than a trip through memory; otherwise it is a result,
of a consumer's kernel if it is computed there anyway (multi-output fusion), else of its own.

Costs are counted in bytes and recomputed expensive ops, as XLA's `InstructionFusion` does; the
legality rules are those of `kernel.loops` and `kernel.contraction`.
"""

from __future__ import annotations

from ingot.analysis.frames import ONE, Frame, grid_of
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, product
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait
from ingot.passes.fusion.groups import Decision, Group, Grouping, GroupKind

MAX_MEMBERS = 400
"""Instructions per kernel: beyond, compile time grows faster than memory traffic shrinks."""

MAX_COPIES = 3
"""Kernels that may each recompute a cheap producer."""

SMALL_GRID = 16
"""Grids below this leave threads idle: a whole-array reduction stays apart from its big users."""

SMALL_WORK = 32_768
"""Elements below which idle threads do not matter."""

_SHAPING = frozenset(
    {
        "broadcast", "reshape", "transpose", "slice", "pad", "concatenate", "reverse", "iota",
        "dynamic-slice", "gather", "bitcast", "get-dimension-size",
    }
)  # fmt: skip
IN_PLACE = frozenset({"dynamic-update-slice", "scatter"})
PROLOGUE = frozenset({"convert", "transpose", "reshape", "broadcast", "constant", "slice", "copy"})
EPILOGUE_DEPTH = 16
_MASKING = frozenset({"pad", "concatenate"})


def decide(computation: Computation) -> Grouping:
    """Return the groups of `computation`."""
    grouping = Grouping()
    order = computation.post_order()
    for instruction in reversed(order):
        _visit(grouping, instruction)
    return grouping


def is_fusible(instruction: Instruction) -> bool:
    """Whether an instruction can be computed inside a kernel."""
    opcode = instruction.opcode
    if not instruction.shape.is_array and opcode not in ("reduce", "scatter"):
        return False
    if opcode == "constant":
        return bool(instruction.attributes.literal.is_splat)
    if opcode == "bitcast-convert":
        return instruction.shape.dtype.bytes == instruction.operands[0].shape.dtype.bytes
    return (
        opcode in _SHAPING
        or opcode in IN_PLACE
        or opcode in ("reduce", "dot")
        or instruction.has(Trait.ELEMENTWISE)
    )


def _visit(grouping: Grouping, producer: Instruction) -> None:
    if not is_fusible(producer) or (not producer.users and not producer.is_root):
        return
    outside = producer.is_root
    consumers: dict[Group, None] = {}
    for user in producer.users:
        groups = grouping.groups_with(user)
        outside = outside or not groups
        for group in groups:
            if _reads_from_memory(group, user, producer):
                outside = True
            else:
                consumers[group] = None
    if producer.opcode == "constant":
        if consumers:
            _pull(grouping, producer, list(consumers))
        return
    for group in consumers:
        _note_frame(grouping, group, producer)
    reasons = {group: why_not(grouping, producer, group) for group in consumers}
    legal = [group for group, reason in reasons.items() if not reason]
    if _may_pull_everywhere(producer, consumers, legal, outside):
        _pull(grouping, producer, legal)
        for group in legal:
            _record(grouping, producer, group, True, _pull_reason(legal))
        return
    if producer.opcode in ("reshape", "bitcast") and outside and not legal:
        _forget(consumers, producer)
        return
    _materialize(grouping, producer, consumers, reasons)


def _reads_from_memory(group: Group, user: Instruction, producer: Instruction) -> bool:
    """Whether `user` takes the producer from memory even inside its own kernel.

    In-place ops update their first operands where they lie. Contractions read each operand element
    many times, so only what moves or casts elements is done on the way in.
    """
    if user.opcode == "dot":
        return producer.opcode not in PROLOGUE
    if group.kind is not GroupKind.IN_PLACE or user is not group.main:
        return False
    count = len(user.operands) // 2 if user.opcode == "scatter" else 1
    return producer in user.operands[:count]


def _note_frame(grouping: Grouping, group: Group, producer: Instruction) -> None:
    for user in producer.users:
        if group not in grouping.groups_with(user):
            continue
        frames = group.frames.operand_frames(user)
        for operand, frame in zip(user.operands, frames, strict=True):
            if operand is producer:
                group.frames.note(producer, frame)


def _forget(groups: dict[Group, None], producer: Instruction) -> None:
    for group in groups:
        if producer not in group.members:
            group.frames.frames.pop(producer, None)


def _may_pull_everywhere(
    producer: Instruction, consumers: dict[Group, None], legal: list[Group], outside: bool
) -> bool:
    if outside or not consumers or len(legal) < len(consumers):
        return False
    if len(consumers) == 1:
        return True
    if producer.opcode in ("reduce", "dot", "gather") or producer.has(Trait.EXPENSIVE):
        return False
    return len(consumers) <= MAX_COPIES or producer.opcode in ("broadcast", "iota")


def _pull_reason(groups: list[Group]) -> str:
    if len(groups) == 1:
        return "its only consumer: the value never reaches memory"
    return f"cheap: recomputed in {len(groups)} kernels instead of a trip through memory"


def _pull(grouping: Grouping, producer: Instruction, groups: list[Group]) -> None:
    grouping.pulled_by.setdefault(producer, []).extend(groups)
    for group in groups:
        group.members[producer] = None
        _adopt(group, producer)


def _adopt(group: Group, member: Instruction) -> None:
    """Note what a new member makes of its group."""
    if member.opcode == "reduce":
        frame = group.frames.frames.get(member) or ()
        group.grid = grid_of(frame)
        if group.kind is GroupKind.LOOP:
            group.kind = GroupKind.REDUCTION
    elif member.opcode == "dot":
        group.dot = member
        group.kind = GroupKind.CONTRACTION


def _materialize(
    grouping: Grouping,
    producer: Instruction,
    consumers: dict[Group, None],
    reasons: dict[Group, str],
) -> None:
    """Make the producer a result: of one of its consumers' kernels, or of a kernel of its own."""
    home: Group | None = None
    for group in consumers:
        reason = reasons[group] or why_not_output(grouping, producer, group)
        if home is None and not reason:
            home = group
            _record(grouping, producer, group, True, "computed there anyway: an extra result")
        else:
            reason = reason or "read from memory: it is already a result of another kernel"
            _record(grouping, producer, group, False, reason)
    _forget({g: None for g in consumers if g is not home}, producer)
    if home is None:
        home = _new_group(producer)
    else:
        home.roots.append(producer)
    home.members[producer] = None
    grouping.group_of[producer] = home
    _adopt(home, producer)


def _new_group(root: Instruction) -> Group:
    group = Group([root])
    frames = group.frames
    if root.opcode in IN_PLACE:
        group.kind = GroupKind.IN_PLACE
        frames.frames[root] = None
    elif root.shape.is_tuple:
        frame = frames.axes_for(root.shape.elements[0].dims)
        frames.main_axes = tuple(axis for axis in frame if axis != ONE)
        frames.frames[root] = frame
    else:
        frames.start(root)
    return group


def _record(
    grouping: Grouping, producer: Instruction, group: Group, fused: bool, reason: str
) -> None:
    grouping.decisions.append(Decision(producer.name, group.main.name, fused, reason))


# ---- legality and cost: the empty string means yes


def why_not(grouping: Grouping, producer: Instruction, group: Group) -> str:
    """Return why `producer` cannot (or should not) be computed inside `group`; empty if it can."""
    if producer.shape.is_tuple:
        return "its result is a tuple"
    if len(group.members) >= MAX_MEMBERS:
        return f"the kernel already has {MAX_MEMBERS} instructions"
    if producer.opcode in IN_PLACE:
        return "it updates its operand in place"
    frame = group.frames.frames.get(producer)
    if producer.opcode == "reduce":
        return _why_not_reduce(producer, group, frame)
    if producer.opcode == "dot":
        return _why_not_dot(grouping, producer, group, frame)
    if producer.has(Trait.EXPENSIVE):
        return _why_not_expensive(producer, group, frame)
    if producer.opcode == "gather" and any(u.opcode in _MASKING for u in producer.users):
        return "a gather under a pad or concatenate would read for every element"
    return ""


def _why_not_reduce(producer: Instruction, group: Group, frame: Frame | None) -> str:
    if group.kind in (GroupKind.CONTRACTION, GroupKind.IN_PLACE):
        return f"a {group.kind.value} kernel holds no reduction"
    if frame is None:
        return "it is read at other places than it is computed at"
    grid = grid_of(frame)
    if group.grid is not None and grid != group.grid:
        return "it varies along other axes than the reductions already there"
    main = group.frames.main_axes
    if not grid <= set(main):
        return "its result varies along a reduced axis"
    if any(grid_of(group.frames.frames[r] or ()) < grid for r in group.roots):
        return "a result of the kernel does not vary along its axes"
    rest = [axis for axis in main if axis not in grid]
    if not rest:
        return ""
    kept = [axis for axis in main if axis in grid]
    if list(main) != kept + rest:
        return "it reduces outer axes: rows of its consumer could not be finished in turn"
    rows = product(group.frames.extents[axis] for axis in kept)
    if isinstance(rows, int) and rows < SMALL_GRID and not _is_small(group.points):
        return f"only {rows} rows: too few to share between threads"
    return ""


def _is_small(size: int | Dim) -> bool:
    return isinstance(size, int) and size <= SMALL_WORK


def _why_not_dot(
    grouping: Grouping, producer: Instruction, group: Group, frame: Frame | None
) -> str:
    if group.kind is not GroupKind.LOOP or group.dot is not None:
        return f"a {group.kind.value} kernel holds no further contraction"
    if frame is None or tuple(a for a in frame if a != ONE) != group.main_frame:
        return "the epilogue does not read the product element by element"
    if any(group.frame_without_ones(root) != group.main_frame for root in group.roots):
        return "a result of the kernel has another shape"
    if len(grouping.groups_with(producer)) > 0:
        return "the product has several consumers"
    return ""


def _why_not_expensive(producer: Instruction, group: Group, frame: Frame | None) -> str:
    if group.kind is GroupKind.IN_PLACE:
        return ""
    if frame is None:
        return "expensive, and read at other places than it is computed at"
    axes = {axis for axis in frame if axis != ONE}
    main = group.frames.main_axes
    missing = [number for number, axis in enumerate(main) if axis not in axes]
    present = [number for number, axis in enumerate(main) if axis in axes]
    if missing and present and min(missing) < max(present):
        return "expensive, and would be recomputed for every row"
    return ""


def why_not_output(grouping: Grouping, producer: Instruction, group: Group) -> str:
    """Return why `producer` cannot be a further result of `group`; empty if it can."""
    if group.kind is GroupKind.IN_PLACE:
        return "an in-place kernel has one result"
    frame = group.frame_without_ones(producer)
    if frame is None:
        return "it is read at other places than it is computed at"
    if group.main.shape.is_tuple:
        return "a kernel with a variadic reduction has no further results"
    grid = set(frame) if producer.opcode == "reduce" else group.grid
    by_row = grid is not None and set(frame) == grid
    if frame != group.main_frame and not (by_row and list(frame) == sorted(frame)):
        return "its shape is not that of the kernel's results"
    if producer.opcode in _SHAPING:
        return "writing it only moves elements"
    if _ends_contraction(producer):
        return "it is better computed where the product is made"
    if grouping.would_cycle(producer, group):
        return "the kernel would wait for itself"
    return ""


def _ends_contraction(producer: Instruction) -> bool:
    """Whether an elementwise chain leads up from `producer` to a dot that could take it over."""
    item = producer
    for _ in range(EPILOGUE_DEPTH):
        if item.opcode == "dot":
            return True
        same = [o for o in item.operands if o.shape.dims == item.shape.dims and o.use_count == 1]
        chain = [o for o in same if o.opcode == "dot" or o.has(Trait.ELEMENTWISE)]
        if not item.has(Trait.ELEMENTWISE) or not chain:
            return False
        item = next((o for o in chain if o.opcode == "dot"), chain[0])
    return False
