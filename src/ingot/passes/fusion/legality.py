# SPDX-License-Identifier: Apache-2.0
"""Legality: which ops may be computed inside a kernel, and the reason when one may not.

`why_not_each` and `why_not_output` return one sentence for people; the empty string means yes. The
rules are those that `kernel.loop.build`, `kernel.loop.update` and `kernel.contraction.build` can
build, together with the few cases where a kernel could be built but would be slower than two.

Invariant: a group that these rules allow has a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.analysis.epilogues import ends_contraction
from ingot.analysis.frames import ONE, Frame, grid_of
from ingot.analysis.in_place import reads_in_time
from ingot.analysis.scans import is_scan, scan_under
from ingot.hlo.dim import Dim, product
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.hlo.opset.shaping import DimensionsAttributes, PadAttributes
from ingot.hlo.opset.structural import ConstantAttributes
from ingot.llvm.machine_model import ENOUGH_UNITS, L2_BYTES
from ingot.passes.fusion.groups import Group, Grouping, GroupKind
from ingot.passes.fusion.kept_apart import breaks_strides, copies_more, folds_window
from ingot.passes.fusion.products import (
    CONTRACTIONS,
    IN_PRODUCT,
    REDUCTIONS,
    is_end_of_product,
    is_number,
    is_prologue,
    reads_operand_from_memory,
    why_not_dot,
)
from ingot.passes.fusion.recompute import (
    FUSIBLE,
    LITERALS,
    MASKING,
    RESHAPE_MOVES,
    STEPS,
    chooses_in_gathers,
    gathers,
    indices_in,
    is_costly_at,
    is_gathered_often,
    is_index_of_rows,
    is_repeated,
    is_spread,
    moves_to,
    read_of,
)

MAX_INDICES = 4
"""Indices, relative to one point, at which a kernel recomputes the same cheap value, at most."""

MAX_SPREADS = 1
"""Nested pads with gaps between their elements, at most: each halves the share that is used."""

MAX_MEMBERS = 400
"""Instructions per kernel: beyond, compile time grows faster than memory traffic shrinks."""

MAX_LEAVES = 800
"""Further instructions beyond MAX_MEMBERS, of those that only read an array and scalar constants:
left out, their result would itself be an array that the kernel reads."""

MAX_MOVES = 48
"""Nested slices, transposes, pads ... through which an index of a kernel is computed, at most."""

MAX_PARTS = 64
"""Operands of a concatenation at most; wider ones are split (`wide_concatenates`)."""

SMALL_WORK = 32_768
"""Elements below which idle threads do not matter."""

TINY = 32
"""Up to this many rows of this many elements, summing them anew is faster than computing an
expensive function row by row."""

MANY_STEPS = 256
"""Elements from which on reading them one by one takes longer than a kernel of their own: 512x512
of f32 took 541 us in one kernel, and 24 in two (AVX-512, one thread, 2026-11-28)."""


_SHAPING = ops_with(FusionClass.INJECTIVE)
IN_PLACE = ops_with(FusionClass.IN_PLACE)
ALONE = ops_with(FusionClass.OPAQUE)
"""Ops that are kernels of their own, with nothing fused into them."""

NARROW_PART = 4
"""Elements of rows that fill a part of a vector at most."""

_SLOW = ops_with(Trait.LONG_LATENCY)
"""Ops that are one slow instruction: not recomputed for every row of a large result."""


_VARIADIC = ops_with(FusionClass.REDUCTION, FusionClass.OPAQUE, also=("scatter",))
"""Ops whose kernels may have a tuple as result."""


def is_fusible(instruction: Instruction) -> bool:
    """Whether an instruction can be computed inside a kernel."""
    opcode = instruction.opcode
    if not instruction.shape.is_array and opcode not in _VARIADIC:
        return False
    if opcode == "constant":
        given = instruction.as_(ConstantAttributes)
        return given.literal.is_splat
    if opcode == "bitcast":
        # A bitcast between complex and real numbers reads memory.
        return instruction.operands[0].shape.dtype.is_complex == instruction.shape.dtype.is_complex
    return opcode in FUSIBLE


def is_full(group: Group) -> bool:
    """Whether a kernel has the maximal number of instructions."""
    return len(group.members) >= MAX_MEMBERS


def _is_leaf_with_room(group: Group, producer: Instruction) -> bool:
    """Whether a full kernel still takes an op that reads at most one array and scalar constants."""
    if len(group.members) >= MAX_MEMBERS + MAX_LEAVES:
        return False
    if producer.opcode not in STEPS:
        return False
    read = [one for one in producer.operands if not is_number(one)]
    return len(read) <= 1 and not any(map(is_fusible, read))


def reads_from_memory(group: Group, user: Instruction, producer: Instruction) -> bool:
    """Whether `user` takes the producer from memory even inside its own kernel.

    In-place ops update their first operands where they lie. Contractions read each operand element
    many times, so only ops that move or cast elements are fused into their operands.
    """
    if user.opcode in ALONE:
        return True
    if is_scan(user):
        return False
    if is_prologue(group, user):
        assert group.dot is not None, "a prologue leads to a contraction"
        return reads_operand_from_memory(group.dot, producer)
    if group.kind is not GroupKind.IN_PLACE or user is not group.main:
        return False
    return producer in user.destinations


def why_not_each(
    grouping: Grouping, producer: Instruction, groups: Iterable[Group]
) -> dict[Group, str]:
    """Return why `producer` cannot (or should not) be computed inside each group; empty if it can.

    The conditions on the producer alone look at all of its users, so they are asked once: a value
    that many kernels read would take users times kernels.
    """
    parts = _why_not_parts(producer)
    groups = list(groups)
    reasons = {group: _why_not(grouping, producer, group, parts) for group in groups}
    holds_none = any(len(groups) > 1 or group.kind is not GroupKind.LOOP for group in groups)
    if holds_none and is_end_of_product(producer):
        return {group: reason or IN_PRODUCT for group, reason in reasons.items()}
    return reasons


def _why_not(grouping: Grouping, producer: Instruction, group: Group, parts: str) -> str:
    reason = _why_not_kind(producer)
    if reason or is_scan(producer):
        return reason or _why_not_scan(producer, group)
    reason = _why_not_size(producer, group) or _why_not_in_place(producer, group)
    if reason:
        return reason
    dot = group.dot
    if dot is not None and any(breaks_strides(producer, user, dot) for user in group.prologue):
        return "the product would read its elements at no constant steps"
    frame = group.frames.frames.get(producer)
    if producer.opcode in REDUCTIONS:
        return _why_not_reduce(producer, group, frame)
    if producer.opcode in CONTRACTIONS:
        return why_not_dot(grouping, producer, group, frame)
    if is_repeated(group, producer):
        return "a reduction would compute it again for each of its results"
    if folds_window(group, producer):
        return "a fold would ask for each element of a window whether it lies inside"
    if producer.has(Trait.EXPENSIVE) or producer.opcode in _SLOW:
        return _why_not_expensive(producer, group, frame)
    if frame is not None and is_index_of_rows(group, producer) and _why_not_every_row(group, frame):
        return "positions of a gather, and would be computed again for every row"
    return parts or _why_not_indices(producer, group)


def _why_not_kind(producer: Instruction) -> str:
    if producer.shape.is_tuple:
        return "its result is a tuple"
    return f"{producer.opcode} is a kernel of its own" if producer.opcode in ALONE else ""


def _why_not_scan(producer: Instruction, group: Group) -> str:
    """Return why a scan does not join the kernel of its epilogue; empty if it does."""
    reads_once = group.frame_without_ones(producer) == group.main_frame
    if not group.is_plain or not reads_once:
        return "only what is computed from a scan's result element by element ends its kernel"
    if scan_under(*group.roots) is not producer:
        return (
            "it ends with little arithmetic on its result and scalars: other arrays are read later"
        )
    return ""


def _why_not_parts(producer: Instruction) -> str:
    """Parts of a kernel are computed where others are, too, or in as few lanes as they have."""
    if producer.opcode == "gather" and any(u.opcode in MASKING for u in producer.users):
        return "a gather under a pad or concatenate would read for every element"
    is_part = _is_narrow(producer) and any(_is_last_part(u, producer) for u in producer.users)
    if is_part and gathers(producer):
        return "narrow parts beside each other would be gathered a few lanes at a time"
    return ""


def _is_narrow(producer: Instruction) -> bool:
    """Whether a value is many short rows."""
    *outer, width = producer.shape.dims or (0,)
    rows = product(outer)
    if not isinstance(width, int) or not isinstance(rows, int):
        return False
    return width <= NARROW_PART < rows


def _is_last_part(user: Instruction, part: Instruction) -> bool:
    """Whether `user` puts rows beside those of others."""
    if user.opcode != "concatenate":
        return False
    return user.as_(DimensionsAttributes).dimensions == (part.shape.rank - 1,)


def _why_not_size(producer: Instruction, group: Group) -> str:
    if is_full(group) and not _is_leaf_with_room(group, producer):
        return f"the kernel already has {MAX_MEMBERS} instructions"
    may_exceed = len(group.members) * RESHAPE_MOVES > MAX_MOVES
    if may_exceed and moves_to(group, producer) > MAX_MOVES:
        return "too many moves, one inside the other, lie between it and the kernel's result"
    if producer.opcode == "concatenate" and any(_is_wide(u, producer) for u in producer.users):
        return f"together they would put {MAX_PARTS} arrays or more beside each other"
    return ""


def _is_wide(user: Instruction, part: Instruction) -> bool:
    """Whether a concatenation and one of its operands have too many operands for one kernel."""
    if user.opcode != "concatenate" or user.attributes.dimensions != part.attributes.dimensions:
        return False
    return len(user.operands) + len(part.operands) > MAX_PARTS


def _why_not_in_place(producer: Instruction, group: Group) -> str:
    """The updated operand shares memory with the result: a later reader would need a copy of it."""
    if producer.opcode in IN_PLACE:
        return "it updates its operand in place"
    update = group.main
    if group.kind is not GroupKind.IN_PLACE or update.opcode not in IN_PLACE:
        return ""
    updated = update.destinations
    if not any(operand in updated for operand in producer.operands):
        late = copies_more(producer, update)
        return "it reads several other parts of an array that is updated in place" if late else ""
    in_time = reads_in_time(producer, update, {producer, update, *group.members})
    return "" if in_time else "it reads other elements of an array that is updated in place"


def _why_not_indices(producer: Instruction, group: Group) -> str:
    """A scan by doubling reads each step at two indices of the next: 2^n indices after n steps."""
    if producer.opcode in LITERALS:
        return ""
    indices = indices_in(group, producer)
    spreads = max(map(_spreads, indices), default=0)
    if spreads > MAX_SPREADS:
        return "broadcast twice, most of its values would be computed in vain"
    if spreads and _is_assembled(producer):
        return "spread out twice, its lanes would be put together element by element"
    if is_gathered_often(indices, producer):
        return "gathers would compute it for each element that they read, from several arrays"
    if chooses_in_gathers(indices, producer):
        return "gathers would choose among its parts for each piece that they read"
    count = len(indices)
    if count > MAX_INDICES or is_costly_at(indices, producer):
        return f"it would be computed at {count} indices for each point"
    return ""


def _spreads(index: object) -> int:
    """Return how many pads with gaps lie between an index and the kernel's point."""
    count = 0
    while read := read_of(index):
        user, _, index = read
        count += _has_gaps(user)
    return count


def _has_gaps(item: Instruction) -> bool:
    return item.opcode == "pad" and any(gap for _, _, gap in item.as_(PadAttributes).padding)


def _is_assembled(item: Instruction) -> bool:
    """Whether lanes along the last dimension come from several arrays, or from gaps."""
    last = item.shape.rank - 1
    if item.opcode == "concatenate":
        return item.as_(DimensionsAttributes).dimensions == (last,)
    parts = item.operands if item.has(Trait.ELEMENTWISE) else (item,)
    return any(
        part.opcode == "pad" and part.as_(PadAttributes).padding[last][2] > 0 for part in parts
    )


def _why_not_reduce(producer: Instruction, group: Group, frame: Frame | None) -> str:
    if group.kind in (GroupKind.CONTRACTION, GroupKind.IN_PLACE):
        return f"a {group.kind.value} kernel holds no reduction"
    if frame is None:
        return "it is read at other indices than it is computed at"
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
        reason = _why_not_across(producer, group, rest) or _why_not_tiny_rows(producer, group)
        return reason or _why_not_long_rows(producer, group)
    outer = [axis for axis in main if axis in grid]
    if list(main) != outer + rest:
        return "it reduces outer axes: rows of its consumer could not be finished in turn"
    reason = _why_not_across(producer, group, rest)
    if reason:
        return reason
    rows = product(group.frames.extents[axis] for axis in outer)
    if isinstance(rows, int) and rows < ENOUGH_UNITS and not _is_small(group.points):
        return f"only {rows} rows: too few to share between threads"
    return ""


def _why_not_across(producer: Instruction, group: Group, rest: list[int]) -> str:
    """A kernel has one axis of lanes: of rows and columns, one would be read element by element."""
    by_columns = _is_by_columns(producer)
    if by_columns is None:
        return ""
    others = {_is_by_columns(one) for one in group.members if one.opcode in REDUCTIONS}
    if rest:
        others.add(False)
    if (not by_columns) not in others:
        return ""
    return "lanes run along its results, and in the rest of the kernel along another axis"


def _is_by_columns(fold: Instruction) -> bool | None:
    """Whether a fold leaves the dimension whose elements lie side by side; None: it is too small.

    A transpose, with nothing but elementwise ops in between, turns rows into columns.
    """
    if fold.opcode != "reduce":
        return None
    operand = fold.operands[0]
    size, last = operand.shape.size, operand.shape.rank - 1
    if isinstance(size, int) and size < MANY_STEPS:
        return None
    is_kept = last not in fold.attributes.dimensions
    source = operand
    while source.has(Trait.ELEMENTWISE) and len(source.operands) == 1:
        source = source.operands[0]
    moves = source.opcode == "transpose" and source.as_(DimensionsAttributes).dimensions[-1] != last
    return None if moves else is_kept


def _why_not_tiny_rows(producer: Instruction, group: Group) -> str:
    """Ops after a row's reduction are computed one row at a time, so not in vectors."""
    if producer.opcode != "reduce":
        return ""
    dims = producer.operands[0].shape.dims
    reduced: tuple[int, ...] = producer.attributes.dimensions
    size = product(dims[dim] for dim in reduced)
    tiny = all(isinstance(one, int) and one <= TINY for one in (size, group.points))
    if len(dims) - 1 not in reduced or not tiny:
        return ""
    if any(one.has(Trait.EXPENSIVE) for one in group.members):
        return "expensive, and tiny rows leave no time to compute it one by one"
    return ""


def _why_not_long_rows(producer: Instruction, group: Group) -> str:
    """Reductions of a row that need each other's results run in one thread, in one kernel.

    Several rows are shared, and are better kept where a near cache holds one: the second reduction
    then does not read it from memory again. In kernels of their own, with two threads the standard
    deviation of 1,000,000 elements took 0.28 of the time, of 250,000 0.8, of 5x1,000,000 0.85,
    their logsumexp 0.4 and 0.6; on one thread 0.96 to 1.04. Of 3x333,333, kept, it would take 1.4
    times as long on one (Sapphire Rapids, 2026-12-01).
    """
    rows, operand = group.points, producer.operands[0].shape
    if not isinstance(rows, int) or not isinstance(operand.size, int) or rows >= ENOUGH_UNITS:
        return ""
    is_kept = rows > 1 and operand.size * operand.dtype.bits <= 2 * 8 * L2_BYTES * rows
    if is_kept or _is_small(operand.size) or not _feeds_reduction(producer, group):
        return ""
    return "another reduction needs it, and there are too few rows to share between threads"


def _feeds_reduction(producer: Instruction, group: Group) -> bool:
    """Whether another reduction of the group needs the result of `producer`."""
    found, left = {producer}, [producer]
    while left:
        for user in left.pop().users:
            if user in group.members and user not in found:
                if user.opcode in REDUCTIONS:
                    return True
                found.add(user)
                left.append(user)
    return False


def _is_small(size: int | Dim) -> bool:
    return isinstance(size, int) and size <= SMALL_WORK


def _why_not_expensive(producer: Instruction, group: Group, frame: Frame | None) -> str:
    if producer.opcode in _SLOW:
        if frame is None or _is_small(group.points):
            return _why_not_indices(producer, group)
        return _why_not_every_row(group, frame) or _why_not_indices(producer, group)
    if group.kind is GroupKind.IN_PLACE:
        return "expensive, and a scan goes element by element" if group.scan is not None else ""
    if frame is None:
        return "expensive, and read at other indices than it is computed at"
    if is_spread(group, producer):
        return "expensive, and would be computed for each element that it is broadcast to"
    return _why_not_every_row(group, frame)


def _why_not_every_row(group: Group, frame: Frame) -> str:
    axes = {axis for axis in frame if axis != ONE}
    main = group.frames.main_axes
    missing = [number for number, axis in enumerate(main) if axis not in axes]
    present = [number for number, axis in enumerate(main) if axis in axes]
    if missing and present and min(missing) < max(present):
        return "expensive, and would be recomputed for every row"
    return ""


def why_not_output(grouping: Grouping, producer: Instruction, group: Group) -> str:
    """Return why `producer` cannot be a further result of `group`; empty if it can."""
    if group.kind is GroupKind.IN_PLACE or producer.opcode in ALONE or is_scan(producer):
        return "an in-place kernel has one result, and so has a scan, sort, topk or fft"
    frame = group.frame_without_ones(producer)
    if frame is None:
        return "it is read at other indices than it is computed at"
    if group.main.shape.is_tuple:
        return "a kernel with a variadic reduction has no further results"
    grid = set(frame) if producer.opcode in REDUCTIONS else group.grid
    by_row = grid is not None and set(frame) == grid
    if frame != group.main_frame and not (by_row and list(frame) == sorted(frame)):
        return "its shape is not that of the kernel's results"
    if producer.opcode in _SHAPING:
        return "writing it only moves elements"
    if ends_contraction(producer):
        return IN_PRODUCT
    if grouping.would_cycle(producer, group):
        return "the kernel would wait for itself"
    return ""
