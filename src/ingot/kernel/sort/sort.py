# SPDX-License-Identifier: Apache-2.0
"""From a fused `sort` to a `SortKernel`; how its rows are divided; sorts by one key.

Few long rows are cut into parts. If there is one key, the records of the parts are distributed to
buckets, which are sorted separately; else parts are sorted and merged pairwise, each merge in
pieces of the length of a part. The cut depends on sizes alone, and so does the result.

A comparator that puts key(left) before key(right) is an order of one key. Sorts of the same key,
direction and element types differ only in their sizes, so they share code.
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, product
from ingot.hlo.dtype import PRED, DType
from ingot.hlo.opset.indexing import SortAttributes
from ingot.kernel import expr as ex
from ingot.kernel.driver_parameters import ROW_CHUNKS, Chunks
from ingot.kernel.elemental.rules import combiner_exprs
from ingot.kernel.expr import Expr, walk
from ingot.kernel.ir import Buffer, SortKernel
from ingot.kernel.loop.build import buffers_of
from ingot.kernel.rewrite import substitute
from ingot.kernel.sort.keys import RecordKind, shared_keys
from ingot.kernel.text import fingerprint
from ingot.native.pointers import Struct
from ingot.native.types import i64
from ingot.support.records import record

CHUNK_ELEMENTS = 4096
"""Elements per chunk at least: some ten microseconds."""

PART = 16_384
"""Elements of a part of a long row, at least: a quarter of a millisecond."""

MAX_PARTS = 16
LEVELS = (MAX_PARTS - 1).bit_length()
"""How often parts are merged, at most."""

BLOCK = 128
"""Parts have a multiple of this many elements, so that no two share a cache line. This many may be
read behind a row in scratch."""


@record
class SortSchedule:
    """How a sort kernel runs.

    Attributes:
        rows: rows in all.
        grain: rows in each of `chunks`, where rows are sorted whole.
        chunks: chunks then.
        parts: parts of a row; 1: rows are sorted whole.
        part: elements of a part; the last may have fewer.
    """

    rows: int | Dim
    grain: int | Dim
    chunks: int | Dim
    parts: int | Dim
    part: int | Dim

    @property
    def areas(self) -> int | Dim:
        """Rows that scratch must have room for."""
        cut = self._more_than(1)
        return self.chunks * (1 - cut) + self.rows * cut

    @property
    def whole_chunks(self) -> int | Dim:
        """Chunks of the phase that sorts whole rows."""
        return self.chunks * (1 - self._more_than(1))

    @property
    def part_chunks(self) -> int | Dim:
        """Chunks of the phase that sorts parts."""
        return self.rows * self.parts * self._more_than(1)

    def merge_chunks(self, level: int) -> int | Dim:
        """Return the chunks of the phase that merges runs of 2^level parts."""
        return self.rows * self.parts * self._more_than(1 << level)

    def _more_than(self, number: int) -> int | Dim:
        """Return 1 if there are more parts than this, else 0."""
        return dim.minimum(dim.floordiv(self.parts - 1, number), 1)


def build_sort_kernel(fused: Computation) -> SortKernel:
    """Return the kernel of a fused computation that is one `sort`."""
    root = fused.root
    given = root.as_(SortAttributes)
    (dimension,) = given.dimensions
    dims = root.operands[0].shape.dims
    arguments = {
        parameter: ex.argument(number, parameter.shape.dtype)
        for number, parameter in enumerate(given.to_apply.parameters)
    }
    (comparator,) = combiner_exprs(given.to_apply.root, arguments)
    numbers = [fused.parameters.index(operand) for operand in root.operands]
    buffers = buffers_of(fused)
    return SortKernel(
        product(dims[:dimension]),
        dims[dimension],
        product(dims[dimension + 1 :]),
        comparator,
        buffers,
        tuple(numbers),
    )


def schedule_sort(kernel: SortKernel) -> SortSchedule:
    """Return the schedule of a sort kernel."""
    rows, length = kernel.outer * kernel.inner, kernel.length
    least = dim.maximum(dim.floordiv(CHUNK_ELEMENTS, dim.maximum(length, 1)), 1)
    shared = Chunks.of(rows, ROW_CHUNKS, least)
    few = dim.floordiv(MAX_PARTS, dim.maximum(rows, 1))
    parts = dim.maximum(dim.minimum(dim.floordiv(length, PART), few), 1)
    part = dim.ceil_div(length, parts * BLOCK) * BLOCK
    return SortSchedule(rows, shared.grain, shared.count, parts, part)


class SortNumbers(Struct, is_constant=True):
    """Numbers of a sort in the order of its env: see `SortKernel`, `SortSchedule`.

    `area` is the bytes of an area of scratch, which holds a row: one word of its records for sorts
    by one key, whole elements for merge sorts.
    """

    length: i64
    inner: i64
    rows: i64
    grain: i64
    part: i64
    parts: i64
    area: i64


BUCKET_SAMPLES = 16
"""Records of a row that each bucket of it is chosen by."""

MAX_KEY_NODES = 16
"""Longer keys are compiled with their program: they are nobody else's."""

MAX_POSITION = 1 << 32
"""Positions below this lie in the lower half of a record."""


@record
class KeyedVariant:
    """The properties that sorts by one key must share to use one code.

    Attributes:
        key: the compared expression, of argument 0: an integer, a truth value or an ordered float.
        descending: whether greater keys come first.
        elements: element types of the operands; the first holds the keys.
        record: the values that are sorted for each element.
    """

    key: Expr
    descending: bool
    elements: tuple[DType, ...]
    record: RecordKind

    @property
    def name(self) -> str:
        """A name that says all of it."""
        buffers = tuple(Buffer(element, 1, False) for element in self.elements)
        kernel = SortKernel(1, 1, 1, self.key, buffers, tuple(range(len(buffers))))
        return f"{fingerprint(kernel)}_{'down' if self.descending else 'up'}_{self.record.value}"

    @property
    def gives_back(self) -> bool:
        """Whether elements follow from their keys, but for `shared_keys`."""
        return shared_keys(self.key, self.elements[0]) is not None

    @property
    def shared_keys(self) -> tuple[int, ...]:
        """The keys that several elements have, as they are sorted."""
        found = shared_keys(self.key, self.elements[0]) or ()
        return tuple(~key for key in found) if self.descending else found


def keyed_variant(kernel: SortKernel) -> KeyedVariant | str:
    """Return the form of a sort by one key, or why the comparator is no such order."""
    compare = kernel.comparator
    if compare.op != "compare" or compare.payload.direction not in ("LT", "GT"):
        return "its comparator is not one comparison, less or greater"
    left, right = compare.args
    element = kernel.elements[0]
    given = [ex.argument(number, element) for number in (0, 1)]
    descending = compare.payload.direction == "GT"
    if given[1] in walk((left,)):
        left, right, descending = right, left, not descending
    if substitute(left, {given[0]: given[1]}) is not right or not _is_key(left, given[0]):
        return "its comparator does not compare one simple key of the first operand"
    if left.dtype.is_float and compare.payload.type != "TOTALORDER":
        return "its order of floats is partial"
    return KeyedVariant(left, descending, kernel.elements, _record_of(kernel, left))


def _record_of(kernel: SortKernel, key: Expr) -> RecordKind:
    is_short = key.dtype.bits <= 32
    if len(kernel.elements) == 1 and shared_keys(key, kernel.elements[0]) is not None:
        return RecordKind.KEY_32 if is_short else RecordKind.KEY_64
    has_room = isinstance(kernel.length, int) and kernel.length < MAX_POSITION
    return RecordKind.WORD if is_short and has_room else RecordKind.PAIR


def _is_key(key: Expr, given: Expr) -> bool:
    """Whether this is a number that `given` alone determines, simply."""
    nodes = list(walk((key,)))
    arguments = [node for node in nodes if node.op == "argument"]
    if len(nodes) > MAX_KEY_NODES or arguments != [given]:
        return False
    element = key.dtype
    is_whole = element.is_integer and element.bits >= 8
    return element is PRED or is_whole or (element.is_float and element.bits > 8)
