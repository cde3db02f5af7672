# SPDX-License-Identifier: Apache-2.0
"""Emits the code of one LAPACK call: from a frame to a loop over the batch that calls LAPACK.

One function `i32 call(ptr frame)` per call site, from its row of the table: copy operands into the
results that LAPACK overwrites (unless they share memory already), then for each part of the batch
ask LAPACK how much workspace it wants, allocate it, and call the routine for each matrix. Large
batches of small matrices are cut into parts that threads share. No Python and no lock at run time.

Invariant: characters and attributes are in the code, sizes in the frame may be symbolic; LAPACK is
called with leading dimensions of at least 1, as it demands of empty matrices too.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.hlo.shape import Shape
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.index import Condition, Index
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import F32, F64, I8, I32, I64, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value
from ingot.runtime.foreign.attributes import Attribute
from ingot.runtime.foreign.frames import Argument, read_frame
from ingot.runtime.foreign.lapack.expressions import emit_size
from ingot.runtime.foreign.lapack.lanes.groups import (
    HALF_ROWS,
    IN_LANES,
    MOST_ROWS,
    emit_groups,
    group_size,
    scratch_bytes,
)
from ingot.runtime.foreign.lapack.one_thread import (
    add_functions,
    emit_enter,
    emit_leave,
    thread_imports,
)
from ingot.runtime.foreign.lapack.routines import Routine
from ingot.runtime.foreign.lapack.vectors import emit_all_finite, emit_exchanges, emit_unpack
from ingot.runtime.foreign.site import NO_MEMORY, SYMBOL, TOO_LARGE
from ingot.runtime.records import RUNTIME
from ingot.semantics.custom_calls import WHOLE_BATCH, CallSite
from ingot.support.diagnostics import InternalError
from ingot.support.records import fresh, mutable

_MOST = (1 << 31) - 1  # the largest of LAPACK's integers.
# Parts of a batch cost about 2 us each; from this many elements on LAPACK may thread by itself.
_WORK_OF_A_CHUNK, _WORK_IN_LANES = 100_000, 25_000
_MOST_CHUNKS = 64
_WORKSPACES = ("work", "rwork", "iwork")
_LENGTHS = ("lwork", "lrwork", "liwork")


@mutable
class Adapter:
    """The function under construction; `emit_adapter` is the caller."""

    f: FunctionBuilder
    call: CallSite
    routine: Routine
    function: str
    attributes: dict[str, Attribute]
    runtime: Value
    arrays: dict[str, Argument]
    slots: dict[str, Value] = fresh(factory=dict)
    scratch: dict[str, Value] = fresh(factory=dict)

    @property
    def words(self) -> list[str]:
        """The arguments of the LAPACK routine."""
        row = self.routine
        special = row.complex_arguments if self.is_complex else ""
        return (special or row.arguments).split()

    @property
    def element(self) -> Shape:
        """The shape of the routine's matrices."""
        return self.arrays[self.routine.matrix].shape

    @property
    def is_complex(self) -> bool:
        """Whether the routine is one on complex numbers."""
        return self.element.dtype.is_complex

    @property
    def real(self) -> Type:
        """The type of real numbers."""
        return F64 if self.element.dtype.name in ("f64", "c128") else F32

    @property
    def batch_rank(self) -> int:
        """How many dimensions come before those of a matrix."""
        return self.element.rank - 2

    def size(self, text: str) -> Index:
        """Emit an expression of the table."""
        return emit_size(self.f, text, self._name)

    def _name(self, name: str) -> Index:
        matrix = self.arrays[self.routine.matrix].dims
        known = {"m": matrix[-2], "n": matrix[-1]}
        if name in known:
            return known[name]
        if name == "k":
            return self.f.imin(*matrix[-2:])
        array, _, which = name.partition(".")
        return self.arrays[array].dims[-2 if which == "rows" else -1]

    # ---- arguments

    def integer(self, text: str) -> Value:
        """Emit the address of a 32-bit integer."""
        slot = self.slots.get("=" + text)
        if slot is None:
            slot = self.slots["=" + text] = self.f.alloca(I32)
            value = self.f.as_value(self.size(text))
            self.f.store(self.f.trunc(value, I32), slot)
        return slot

    def character(self, text: str) -> Value:
        """Emit the address of a character."""
        slot = self.f.alloca(I8)
        self.f.store(self.f.const(I8, ord(text)), slot)
        return slot

    def constant(self, word: str) -> Value:
        """Emit the address of an argument that is the same for every matrix."""
        slot = self.slots.get(word)
        if slot is None:
            slot = self.slots[word] = self._constant(word)
        return slot

    def _constant(self, word: str) -> Value:
        mark, text = word[0], word[1:]
        if mark == "@":
            return self.character(chr(self.attributes[text].value))
        if mark == "!":
            name, _, choices = text.partition(":")
            return self.character(choices[0 if self.attributes[name].value else 1])
        if mark == "#":
            return self.integer(str(self.attributes[text].value))
        if mark == "^":
            return self.integer(f"max(1,{text})")
        if mark == "=":
            return self.integer(text)
        if word == "one":
            slot = self.f.alloca(self.real, 2)
            self.f.store(self.f.const(self.real, 1.0), slot)
            self.f.store(self.f.zero(self.real), self.f.gep(slot, 1, self.real))
            return slot
        raise InternalError(f"the table of LAPACK routines has no argument '{word}'")

    def argument(self, word: str, number: Value) -> Value:
        """Emit one argument of the call for matrix `number` of the batch."""
        if word == "null":
            return self.f.zero(PTR)
        if word in self.scratch:
            return self.scratch[word]
        name, _, offset = word.partition("+")
        if name in self.arrays:
            at = self.matrix(name, number)
            return self.f.gep(at, int(offset or 0) * self.arrays[name].shape.dtype.bytes)
        workspace = word.partition("[")[0]
        if workspace in _WORKSPACES:
            return self.scratch[workspace]
        if word == "info":
            return self.slots.setdefault(word, self.f.alloca(I32))
        return self.slots[word] if word in _LENGTHS else self.constant(word)

    def matrix(self, name: str, number: Value) -> Value:
        """Emit the address of matrix `number` of an operand or result."""
        array = self.arrays[name]
        step = array.bytes(self.f, self.batch_rank)
        return self.f.gep(array.data, self.f.as_value(self.f.imul(number, step)))

    # ---- workspace

    def scratch_type(self, name: str) -> int:
        """Return the bytes of an element of a workspace or scratch matrix."""
        if name == "iwork":
            return I32.bytes
        return self.real.bytes if name == "rwork" else self.element.dtype.bytes

    def query(self) -> dict[str, Index]:
        """Emit LAPACK's workspace query; return lengths in elements."""
        f = self.f
        asked = [word for word in self.words if word in _LENGTHS]
        lengths: dict[str, Index] = {
            word.partition("[")[0]: self.size(word.partition("[")[2].removesuffix("]"))
            for word in self.words
            if "[" in word
        }
        if not asked:
            return lengths
        for word in asked:
            self.slots[word] = f.alloca(I32)
            f.store(f.const(I32, -1), self.slots[word])
        for name in _WORKSPACES:
            # Some routines write into the workspace even if they are only queried.
            self.scratch[name] = f.alloca(I64, 2)
        for name in self.scratch_matrices():
            self.scratch[name] = self.scratch["work"]
        self.invoke(f.const(I64, 0))
        for word in asked:
            name = word[1:]
            self._refuse_more(length := f.as_value(self._answer(name)))
            lengths[name] = f.imax(length, 1)
            f.store(f.trunc(f.as_value(lengths[name]), I32), self.slots[word])
        return lengths

    def _refuse_more(self, length: Value) -> None:
        """Emit the failure of the call if a length does not fit 32 bits."""
        too_large = self.f.icmp("ugt", length, self.f.const(I64, _MOST))
        self.f.if_(too_large, lambda: self.f.ret(self.f.const(I32, TOO_LARGE)), likely=False)

    def check_workspace(self) -> None:
        """Emit the check of workspace lengths that LAPACK's query would silently overflow."""
        row = self.routine
        text = row.complex_workspace if self.is_complex else row.workspace
        if text and chr(self.attributes["mode"].value) != "N":
            self._refuse_more(self.f.as_value(self.size(text)))

    def _answer(self, name: str) -> Index:
        f = self.f
        if name == "iwork":
            return f.sext(f.load(I32, self.scratch[name]), I64)
        number = f.load(self.real, self.scratch[name])
        # Floats cannot represent every large number: LAPACK may have rounded it down.
        number = f.fma(number, f.const(self.real, 1 + 2.0**-20), f.const(self.real, 0.5))
        return f.fptosi(number, I64)

    def scratch_matrices(self, *, copies: bool = False) -> dict[str, str]:
        """Return scratch matrix -> the operand that gives its size; or only the copies."""
        row = self.routine
        words = (row.complex_scratch if self.is_complex else row.scratch).split()
        found = (word.partition("=") for word in words if ":=" in word or not copies)
        return {name.removesuffix(":"): operand for name, _, operand in found}

    def allocate(self, lengths: dict[str, Index]) -> Value:
        """Emit one block for all workspaces; return it (null if nothing is needed)."""
        f = self.f
        offsets: dict[str, Index] = {}
        total: Index = 0
        sizes = {n: f.imul(length, self.scratch_type(n)) for n, length in lengths.items()}
        for name, like in self.scratch_matrices().items():
            sizes[name] = self.arrays[like].bytes(f, self.batch_rank)
        for name, size in sizes.items():
            offsets[name] = total
            total = f.imul(f.iceildiv(f.iadd(f.iadd(total, size), 1), LINE_BYTES), LINE_BYTES)
        if not sizes:
            return f.zero(PTR)
        block = self._block(total)
        for name, offset in offsets.items():
            self.scratch[name] = f.gep(block, f.as_value(offset))
        return block

    def _block(self, size: Index) -> Value:
        """Emit the allocation of memory; without it the call fails."""
        f = self.f
        allocate = RUNTIME.load(f, self.runtime, "allocate")
        block = f.call_indirect(allocate, PTR, [I64], [f.as_value(size)])
        f.if_(
            f.icmp("eq", block, f.zero(PTR)), lambda: f.ret(f.const(I32, NO_MEMORY)), likely=False
        )
        return block

    def _end(self, block: Value) -> None:
        """Emit the end of the work on a part of the batch."""
        f = self.f
        f.call_indirect(RUNTIME.load(f, self.runtime, "free"), VOID, [PTR], [block])
        f.ret(f.const(I32, 0))

    # ---- the call

    def invoke(self, number: Value) -> None:
        """Emit the call of LAPACK for matrix `number`."""
        f = self.f
        if self.routine.is_own:
            self.exchange_rows(number)
            return
        arguments = [self.argument(word, number) for word in self.words]
        function = f.module.declare(self.function, VOID, [PTR] * len(arguments))
        f.call(function, arguments)

    def exchange_rows(self, number: Value) -> None:
        """Emit the exchanges of the rows of matrix `number`."""
        x = self.arrays["x_out"].dims
        emit_exchanges(
            self.f,
            (self.real, 2 if self.is_complex else 1),
            self.matrix("x_out", number),
            (x[-2], x[-1]),
            self.matrix("ipiv", number),
            self.arrays["ipiv"].dims[-1],
            backward=chr(self.attributes["order"].value) == "B",
        )

    def one_matrix(self, number: Value) -> None:
        """Emit the work on one matrix of the batch."""
        f, row = self.f, self.routine
        for name, like in self.scratch_matrices(copies=True).items():
            size = f.as_value(self.arrays[like].bytes(f, self.batch_rank))
            f.memcpy(self.scratch[name], self.matrix(like, number), size)

        def run() -> None:
            self.invoke(number)
            for scratch, result in () if self.is_complex else row.unpack:
                if not self.is_unused(result):
                    emit_unpack(
                        f, self.real, self.size("n"), self.matrix("wi", number),
                        self.scratch[scratch], self.matrix(result, number),
                    )  # fmt: skip

        if not row.finite:
            run()
            return
        count = self.arrays[row.matrix].size(f, self.batch_rank)
        count = f.imul(count, 2 if self.is_complex else 1)
        asked = self.scratch.get(row.finite) or self.matrix(row.finite, number)
        finite = emit_all_finite(f, self.real, asked, count)
        info = self.matrix("info", number)
        f.if_(finite, run, lambda: f.store(f.const(I32, -4), info))

    def is_unused(self, result: str) -> bool:
        """Whether LAPACK leaves a result alone."""
        name = self.routine.unused.get(result)
        return name is not None and chr(self.attributes[name].value) == "N"

    def begin_results(self, copies: dict[str, str]) -> None:
        """Emit the copies of operands into results, and the zeros of unused results."""
        f = self.f
        for result, operand in copies.items():
            target, source = self.arrays[result], self.arrays[operand]
            size = f.as_value(target.bytes(f))
            differ = f.icmp("ne", target.data, source.data)
            f.if_(differ, lambda t=target, s=source, n=size: f.memcpy(t.data, s.data, n))
        for result in filter(self.is_unused, self.routine.unused):
            array = self.arrays[result]
            f.memset(array.data, 0, f.as_value(array.bytes(f)))

    def batch(self) -> Index:
        """Emit the number of matrices."""
        count: Index = 1
        for size in self.arrays[self.routine.matrix].dims[:-2]:
            count = self.f.imul(count, size)
        return count

    def chunks(self) -> Index:
        """Emit the number of parts that the batch is cut into; it depends on sizes alone.

        Matrices that LAPACK itself may give to several threads are not shared out.
        """
        f = self.f
        batch, rows, columns = self.batch(), self.size("m"), self.size("n")
        work = f.imul(f.imul(batch, f.imul(rows, columns)), f.imin(rows, columns))

        def parts(most: Index, each: int) -> Index:
            return f.imax(f.imin(f.imin(f.idiv(work, each), most), _MOST_CHUNKS), 1)

        usual = f.iselect(self.is_small(), parts(batch, _WORK_OF_A_CHUNK), 1)
        return f.iselect(self.fits_lanes(), parts(self.groups(), _WORK_IN_LANES), usual)

    def in_one_thread(self, emit: Callable[[], object]) -> None:
        """Emit calls of LAPACK, which shall not share out small matrices."""
        if not thread_imports():
            emit()
            return
        is_small = self.is_small()
        self.f.if_(is_small, lambda: emit_enter(self.f))
        emit()
        self.f.if_(is_small, lambda: emit_leave(self.f))

    def is_small(self) -> Condition:
        """Emit whether a matrix is so small that one thread is as fast as several."""
        return self.f.ile(self.f.imin(self.size("m"), self.size("n")), self.routine.one_thread)

    def some_matrices(self, chunk: Index, chunks: Index) -> None:
        """Emit the work on one part of the batch; returns one of `STATUS`."""
        f = self.f

        def share(count: Index) -> tuple[Index, Index]:
            first = f.idiv(f.imul(count, chunk), chunks)
            return first, f.idiv(f.imul(count, f.iadd(chunk, 1)), chunks)

        f.if_(self.fits_lanes(), lambda: self.in_lanes(*share(self.groups())))
        if f.terminated:
            return
        first, last = share(self.batch())
        f.if_(f.ieq(first, last), lambda: f.ret(f.const(I32, 0)))
        if f.terminated:
            return
        self.check_workspace()
        block = self.allocate(self.query())
        self.in_one_thread(lambda: f.for_range(last, self.one_matrix, start=first))
        self._end(block)

    # ---- matrices side by side

    def groups(self) -> Index:
        """Emit how many groups of matrices the batch makes."""
        return self.f.iceildiv(self.batch(), group_size(self.real))

    def fits_lanes(self) -> Condition:
        """Emit whether matrices are small, and enough to be worth a group; by sizes alone.

        Of a batch that devices share the whole counts.
        """
        f = self.f
        if self.is_complex or self.routine.name not in IN_LANES:
            return False
        most, lanes = f.imax(self.size("m"), self.size("n")), group_size(self.real)
        least = f.iselect(f.ile(most, HALF_ROWS), lanes // 2, lanes)
        divided = self.attributes.get(WHOLE_BATCH)
        count = self.batch() if divided is None else divided.value
        return f.land(f.ile(most, MOST_ROWS), f.ige(count, least))

    def in_lanes(self, first: Index, last: Index) -> None:
        """Emit the work on groups `first` to `last`."""
        f = self.f
        block = self._block(scratch_bytes(f, self.size("m"), self.size("n")))
        characters = {
            name: chr(found.value) for name, found in self.attributes.items() if name != WHOLE_BATCH
        }
        routine = self.routine.name, self.real, self.batch_rank
        matrices = [f.imul(group, group_size(self.real)) for group in (first, last)]
        end = f.imin(matrices[1], self.batch())
        emit_groups(f, routine, (self.arrays, characters), (matrices[0], end), block)
        self._end(block)


def result_names(row: Routine, is_complex: bool) -> dict[str, str]:
    """Return result -> the operand that it begins as, or an empty text."""
    text = (row.complex_results if is_complex else "") or row.results
    return {name: source for name, _, source in (word.partition("=") for word in text.split())}


def emit_adapter(
    call: CallSite, row: Routine, function: str, attributes: dict[str, Attribute]
) -> str:
    """Return the module's text; it imports `function` and defines `SYMBOL`."""
    module = ModuleBuilder(f"{call.target}.adapter")
    if thread_imports():
        add_functions(module)
    names = result_names(row, call.operands[0].dtype.is_complex)

    def begin(f: FunctionBuilder, frame: Value) -> Adapter:
        runtime, operands, results = read_frame(f, frame, call)
        arrays = dict(zip((*row.operands.split(), *names), (*operands, *results), strict=True))
        return Adapter(f, call, row, function, attributes, runtime, arrays)

    part = _emit_part(module, begin)
    f = module.function(SYMBOL, I32, [("frame", PTR)])
    (frame,) = f.params
    whole = begin(f, frame)
    whole.begin_results({result: operand for result, operand in names.items() if operand})
    chunks = f.as_value(whole.chunks())
    alone = f.icmp("eq", chunks, f.const(I64, 1))
    zero = f.const(I64, 0)
    f.if_(alone, lambda: f.ret(f.call(part, [frame, zero, chunks])))
    environment = f.alloca(I64, 3)
    for slot, value in enumerate((frame, chunks, zero)):
        f.store(value, f.gep(environment, slot, I64))
    parallel = RUNTIME.load(f, whole.runtime, "parallel")
    arguments = [
        RUNTIME.load(f, whole.runtime, "pool"),
        _emit_chunk(module, part).address,
        environment,
        chunks,
    ]
    f.call_indirect(parallel, VOID, [PTR, PTR, PTR, I64], arguments)
    f.ret(f.trunc(f.load(I64, f.gep(environment, 2, I64)), I32))
    return module.text()


def _emit_part(
    module: ModuleBuilder, begin: Callable[[FunctionBuilder, Value], Adapter]
) -> FunctionRef:
    """Emit `i32 part(frame, chunk, chunks)`: one part of the batch."""
    parameters = [("frame", PTR), ("chunk", I64), ("chunks", I64)]
    f = module.function("part", I32, parameters, linkage="internal")
    frame, chunk, chunks = f.params
    begin(f, frame).some_matrices(chunk, chunks)
    return f.reference


def _emit_chunk(module: ModuleBuilder, part: FunctionRef) -> FunctionBuilder:
    """Emit a chunk of the pool: environment {frame, chunks, the status of a part that failed}."""
    f = module.function("chunk", VOID, [("env", PTR), ("chunk", I64)], linkage="internal")
    environment, chunk = f.params
    frame = f.load(PTR, environment)
    status = f.call(part, [frame, chunk, f.load(I64, f.gep(environment, 1, I64))])
    failed = f.gep(environment, 2, I64)
    f.if_(
        f.icmp("ne", status, f.zero(I32)),
        lambda: f.atomic_store(f.zext(status, I64), failed, "monotonic"),
    )
    f.ret()
    return f
