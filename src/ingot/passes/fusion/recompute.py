# SPDX-License-Identifier: Apache-2.0
"""Recomputation: how much work it takes to compute a value inside a kernel.

A producer with several consumers may be computed in each of them, so that it never reaches memory.
That pays while its computation is short; random bits, for example, are a hundred operations per
element and one byte as a mask. The count follows the operands that would be fused, up to a limit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import cast

from ingot.analysis.frames import grid_of
from ingot.hlo import dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, RegionKind, Trait, ops_with
from ingot.hlo.opset.indexing import GatherAttributes
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.llvm.machine_model import TRANSCENDENTAL_FLOPS
from ingot.passes.fusion.groups import Group
from ingot.support.graphs import reachable

MAX_RECOMPUTED = 12
"""Operations per element that are cheaper than writing a value and reading it again."""

MAX_SELECTED_PARTS = 12
"""Choices among parts of concatenations that several kernels make for each element, at most. Three
that read 9 stacked arrays, 8 of them rolled, took 3.0 times as long as with the stack in memory, 7
of them 4.6 times (64x128) and 2.2 (256x256); of 5 (8 choices) 1.1 and 0.8, of 2 (2 choices) 0.8 and
0.6 (AVX-512, one thread, 2026-11-29)."""

MAX_REPEATED = 2
"""Operations per element that a reduction may repeat for each of its results."""

MIN_REPETITIONS = 32
"""Results below which repeating them is cheaper than one more kernel."""

LEAST_SPREAD, LEAST_TIMES = 128, 4
"""Elements of an expensive function, and points that each is broadcast to, from which on it is a
kernel of its own: for 8000x28 elements an exponential in theirs took 2.3 to 3.5 times as long, for
1000x8 1.2 to 1.9, for 64x28 1.1, for 8000x3 0.9 to 1.5 (AVX-512, one thread, 2026-11-28)."""

LEAST_INDICES = 1024
"""Positions of gathers from which on they are computed before, not for each of their rows.
`grid_sample` of images of 64x64 with 16 channels then took 0.83 of the time to the nearest element,
0.98 with linear weights and 0.61 with cubics; of 128x128 with 64 channels 0.66, 0.78 and 0.67
(AVX-512, one thread, 2026-12-01)."""

MAX_DEPTH = 16
"""Ops between a reduction and its user, at most."""

MIN_GATHERED = 2
"""Times that gathers read each element of a value, from which on several arrays are not gathered to
compute it each time."""

MOST_CHOSEN, LEAST_RUN = 4, 64
"""How many times as large as what gathers read a concatenation or padded array may be that is
computed before, if what they read in one piece has less than LEAST_RUN elements. Otherwise each
piece asks at run time which part it lies in. Against that windows of 32x32 pixels out of 32 padded
images took 0.17 of the time, 4096 numbers out of two arrays of 1024 0.74; 512 rows of 64 out of
1024 took 1.35 (AVX2, one thread, 2026-11-29). Sizes in between were not measured."""

RESHAPE_MOVES = 8
"""Moves that a reshape counts as: six nested ones give 2^6 divisions."""


LITERALS = ops_with(Trait.CONSTANT_LIKE, also=("broadcast",))
"""Ops that cost no memory traffic: their result is a constant, or repeats elements."""

RESHAPES = ops_with(Trait.RESHAPE_LIKE)
STEPS = ops_with(Trait.ELEMENTWISE, also=("broadcast",))
"""Ops that a kernel computes at a point from the operands at that point."""

MASKING = frozenset({"pad", "concatenate"})
"""Ops whose elements are chosen by their position."""

_REDUCTIONS = ops_with(FusionClass.REDUCTION)
_SAME_INDEX = ops_with(Trait.ELEMENTWISE, Trait.RESHAPE_LIKE)
_COMPUTED = ops_with(Trait.ELEMENTWISE, Trait.SHAPING)
FUSIBLE = ops_with(*(set(FusionClass) - {FusionClass.NONE}))
"""Ops that kernels compute; the results of others are in memory."""

_FROM_MEMORY = ops_with(RegionKind.BRANCH, Trait.TUPLE, also=("dot",))
"""Ops that take their operands from memory."""


def is_cheap_to_recompute(producer: Instruction, most: int = MAX_RECOMPUTED) -> bool:
    """Whether computing `producer` takes at most `most` operations per element."""
    return not _takes_more(producer, most, _is_computed)


def chooses_often(producer: Instruction) -> bool:
    """Whether computing `producer` chooses among parts more than MAX_SELECTED_PARTS times."""
    cone = _cone(producer, _is_computed)
    joined = (one for one in cone if one.opcode == "concatenate")
    return sum(len(one.operands) - 1 for one in joined) > MAX_SELECTED_PARTS


def reads_what_is_there(producer: Instruction) -> bool:
    """Whether computing `producer` reads no more memory than reading it would.

    That is so if it is computed from smaller arrays and at most one array of its size, which is in
    memory anyway: a value less the mean of its row.
    """
    cone = set(_cone(producer, _is_computed_as_often))
    read = {
        operand
        for item in cone
        for operand in item.operands
        if operand not in cone and not _is_smaller(operand, producer)
    }
    return len(read) <= 1 and all(_is_in_memory(item, cone) for item in read)


def _cone(
    producer: Instruction, follows: Callable[[Instruction, Instruction], bool]
) -> Iterator[Instruction]:
    """Return `producer` and the operands that computing it computes too, as `follows` says."""
    return reachable([producer], lambda item: [o for o in item.operands if follows(o, producer)])


def _is_in_memory(item: Instruction, cone: set[Instruction]) -> bool:
    """Whether a value is read from memory, by others than `cone` if something computes it."""
    if item.opcode not in FUSIBLE or any(user.opcode in _FROM_MEMORY for user in item.users):
        return True
    return item.opcode not in _COMPUTED and any(user not in cone for user in item.users)


def is_gathered_often(indices: frozenset[object], producer: Instruction) -> bool:
    """Whether gathers would compute `producer` often, each time from elements of several arrays.

    Each of those is a gather, of which one from memory saves the others.
    """
    if not _is_gathered(producer, _gathers_at(indices), MIN_GATHERED):
        return False
    return producer.has(Trait.ELEMENTWISE) and _arrays_read(producer) > 1


def chooses_in_gathers(indices: frozenset[object], producer: Instruction) -> bool:
    """Whether gathers would choose among the parts of `producer` for each of many short pieces."""
    if producer.opcode not in MASKING:
        return False
    short = [gather for gather in _gathers_at(indices) if _run(gather) < LEAST_RUN]
    return _is_gathered(producer, short, 1 / MOST_CHOSEN)


def _gathers_at(indices: frozenset[object]) -> list[Instruction]:
    """Return the gathers that read a value at some of its indices, reshaped or not."""
    found: list[Instruction] = []
    for index in indices:
        read = read_of(index)
        while read and read[0].opcode in RESHAPES:
            read = read_of(read[2])
        if read is not None and read[0].opcode == "gather" and read[1] == 0:
            found.append(read[0])
    return found


def _is_gathered(producer: Instruction, readers: list[Instruction], least: float) -> bool:
    """Whether one of some gathers reads at least `least` times as many elements as there are."""
    most = max((dim.nominal(gather.shape.size) for gather in readers), default=0)
    return 0 < most >= least * dim.nominal(producer.shape.size)


def _run(gather: Instruction) -> int:
    """Return how many elements a gather reads in one piece, at least."""
    sizes, run = gather.as_(GatherAttributes).slice_sizes, 1
    for size, whole in zip(reversed(sizes), reversed(gather.operands[0].shape.dims), strict=True):
        if size != whole or not isinstance(size, int):
            break
        run *= size
    return run


def gathers(producer: Instruction) -> bool:
    """Whether computing `producer` gathers elements that are of no result of their own."""
    cone = _cone(producer, _is_computed)
    return any(operand.opcode == "gather" for item in cone for operand in item.operands)


def _arrays_read(producer: Instruction) -> int:
    """Return how many arrays computing `producer` reads, as many numbers as it has or fewer."""

    def is_array(operand: Instruction) -> bool:
        return operand.opcode not in LITERALS and bool(operand.shape.dims)

    cone = set(_cone(producer, lambda one, of: is_array(one) and _is_computed(one, of)))
    return len({one for item in cone for one in item.operands if is_array(one)} - cone)


def is_costly_at(indices: frozenset[object], producer: Instruction) -> bool:
    """Whether computing `producer` at several indices for each point is dearer than a read of it.

    Operands with fewer elements are not counted: each is decided by itself, so that the smallest
    value that saves the work goes through memory.
    """
    if not producer.has(Trait.ELEMENTWISE):
        return False
    times = _times_computed(indices)
    return times > 1 and _takes_more(producer, MAX_RECOMPUTED // (times - 1), _is_computed_as_often)


def _times_computed(indices: frozenset[object]) -> int:
    """Return at how many of the indices a value is computed for a point, at most.

    A point lies in one part of a concatenation, and computes what that part reads.
    """
    parts: dict[object, Counter[object]] = defaultdict(Counter)
    for index in indices:
        joined, part = index, None
        while read := read_of(index):
            reader, _, position = read
            if reader.opcode == "concatenate":
                joined, part = (reader, position), index
            index = position
        parts[joined][part] += 1
    return sum(max(counts.values()) for counts in parts.values())


def _takes_more(
    producer: Instruction, most: int, follows: Callable[[Instruction, Instruction], bool]
) -> bool:
    """Whether `producer` takes more than `most` operations, with the operands that are followed."""
    total = 0
    for item in _cone(producer, follows):
        total += _operations(item)
        if total > most:
            return True
    return False


def _operations(item: Instruction) -> int:
    if item.has(Trait.EXPENSIVE):
        return TRANSCENDENTAL_FLOPS
    return 1 if item.has(Trait.ELEMENTWISE) else 0


def _is_computed(operand: Instruction, producer: Instruction) -> bool:
    """Whether a kernel that `producer` is fused into would compute `operand` for each element too.

    Smaller values are computed once and broadcast; values that others read from memory are there.
    """
    if operand.opcode not in _COMPUTED:
        return False
    if not operand.shape.dims and producer.shape.dims:
        return False
    return not any(user.opcode in _FROM_MEMORY for user in operand.users)


def _is_computed_as_often(operand: Instruction, producer: Instruction) -> bool:
    return not _is_smaller(operand, producer) and _is_computed(operand, producer)


def _is_smaller(operand: Instruction, producer: Instruction) -> bool:
    size, whole = operand.shape.size, producer.shape.size
    return isinstance(size, int) and isinstance(whole, int) and size < whole


def is_repeated(group: Group, producer: Instruction) -> bool:
    """Whether a reduction would repeat more than a little work of `producer` for each result.

    That is so if the producer does not vary along an axis of the grid: for example, each row of a
    matrix-vector product reads the whole vector. A transpose of rows is no work, but its columns
    would be gathered for each result.
    """
    moves = producer.opcode == "transpose" and moves_last(producer)
    if group.grid is None or not (moves or _is_work(producer)):
        return False
    repeated = group.grid.difference(_axes_in(group, producer))
    times = dim.product(group.frames.extents[axis] for axis in repeated)
    if isinstance(times, int) and times < MIN_REPETITIONS:
        return False
    return moves or not is_cheap_to_recompute(producer, MAX_REPEATED)


def is_spread(group: Group, producer: Instruction) -> bool:
    """Whether elements of `producer`, an expensive function, are each broadcast to several points.

    Broadcast along rows it is computed row by row, without lanes, along columns again for each row.
    Ops that follow a row's fold stay in the fold's kernel.
    """
    extents = group.frames.extents
    axes = grid_of(group.frames.frames.get(producer) or ())
    size = dim.product(extents[axis] for axis in axes)
    if isinstance(size, int) and size < LEAST_SPREAD:
        return False
    if group.grid in (None, axes) and _follows_reduction(producer):
        return False
    frames = group.frames.frames

    def readers(item: Instruction) -> list[Instruction]:
        return [user for user in _users_in(group, item) if frames.get(user) is not None]

    def is_read_often(reader: Instruction) -> bool:
        times = dim.product(extents[axis] for axis in grid_of(frames[reader] or ()) - axes)
        return not isinstance(times, int) or times >= LEAST_TIMES

    return any(map(is_read_often, reachable(readers(producer), readers)))


def is_index_of_rows(group: Group, producer: Instruction) -> bool:
    """Whether `producer` holds positions that take long, and gathers read at each of them often."""
    size, points = producer.shape.size, group.points
    if not isinstance(size, int) or not isinstance(points, int):
        return False
    if size < LEAST_INDICES or points < LEAST_TIMES * size:
        return False
    moved = reachable(
        [producer],
        lambda item: [user for user in _users_in(group, item) if user.opcode in RESHAPES],
    )
    is_position = any(
        user.opcode == "gather" and item in user.operands[1:]
        for item in moved
        for user in _users_in(group, item)
    )
    return is_position and _takes_more(producer, MAX_RECOMPUTED, _is_computed_as_often)


def _follows_reduction(producer: Instruction) -> bool:
    """Whether a value is computed from a reduction's result by ops on elements."""
    seen, level = set[Instruction](), [producer]
    for _ in range(MAX_DEPTH):
        level = list({o: None for item in level for o in item.operands if o not in seen})
        if any(item.opcode in _REDUCTIONS for item in level):
            return True
        seen.update(level)
        level = [item for item in level if item.opcode in _SAME_INDEX]
    return False


def moves_last(transpose: Instruction) -> bool:
    """Whether a transpose makes another dimension the last one."""
    last = transpose.shape.rank - 1
    return transpose.as_(DimensionsAttributes).dimensions[last] != last


def _is_work(producer: Instruction) -> bool:
    """Whether a kernel computes something for a value, or chooses one of its parts."""
    return producer.has(Trait.ELEMENTWISE) or producer.opcode == "concatenate"


def _axes_in(group: Group, producer: Instruction) -> frozenset[object]:
    """Return the axes of a kernel that a value varies along, at most.

    A value that is read at an index of its own (a part of a concatenation) varies along no other
    axes than its readers.
    """
    found: set[object] = set()
    seen, stack = {producer}, [producer]
    while stack:
        item = stack.pop()
        frame = group.frames.frames.get(item)
        if frame is not None:
            found.update(frame)
            continue
        more = [user for user in _users_in(group, item) if user not in seen]
        seen.update(more)
        stack += more
    return frozenset(found)


def indices_in(group: Group, producer: Instruction) -> frozenset[object]:
    """Return the indices, relative to a point of the kernel, at which it would compute `producer`.

    An elementwise consumer reads it at its own index; any other one reads it at a new index.
    """
    frame = group.frames.frames.get(producer)
    if frame is not None:
        return frozenset((frame,))
    found: set[object] = set()
    for user in _users_in(group, producer):
        of_user = group.indices.get(user, _HERE)
        if user.has(Trait.ELEMENTWISE):
            found |= of_user
            continue
        reads = [n for n, operand in enumerate(user.operands) if operand is producer]
        found |= {(user, number, index) for number in reads for index in of_user}
    return frozenset(found)


def moves_to(group: Group, producer: Instruction) -> int:
    """Return how many moves of elements lie between a kernel's point and `producer`.

    A reshape counts as several: its index holds that of its result once for each dimension.
    """
    # In the order in which they were fused: users first.
    for member in islice(group.indices, len(group.moves), None):
        group.moves[member] = _farthest(group, member)
    return _farthest(group, producer)


def _farthest(group: Group, producer: Instruction) -> int:
    most = 0
    for user in _users_in(group, producer):
        moves = group.moves.get(user, 0)
        if not user.has(Trait.ELEMENTWISE):
            moves += _weight(user, producer)
        if moves > most:
            most = moves
    return most


def _weight(user: Instruction, producer: Instruction) -> int:
    if user.opcode not in RESHAPES:
        return 1
    given, wanted = ([size for size in one.shape.dims if size != 1] for one in (producer, user))
    return 1 if given == wanted else RESHAPE_MOVES


def read_of(index: object) -> tuple[Instruction, int, object] | None:
    """Return the reader of an index of `indices_in`, as which operand, and the reader's index.

    None for the kernel's point.
    """
    found = cast("tuple[object, ...]", index) if isinstance(index, tuple) else ()
    if len(found) != 3 or not isinstance(found[0], Instruction):
        return None
    return found[0], cast("int", found[1]), found[2]


def _users_in(group: Group, producer: Instruction) -> list[Instruction]:
    """Return the members that use `producer`; a constant may have users in thousands of groups."""
    users, members = producer.users, group.members
    if len(users) <= len(members):
        return [user for user in users if user in members]
    return [member for member in members if producer in member.operands]


_HERE: frozenset[object] = frozenset(("here",))
