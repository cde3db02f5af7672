# SPDX-License-Identifier: Apache-2.0
"""Launches: one record per replaced function, filled with compiled variants on demand.

`Launch` is the Python side of an `IngotLaunch` record that the op's kernel reads. The first
execution with inputs that no variant fits calls `_on_miss` (through the GIL), which compiles for
the ranks at hand, and for values and sizes where the function must be specialised on them, and
publishes the variant; from then on Python is not involved.

Invariants: a record lives as long as the process, because TensorFlow may keep graphs that hold the
op longer than the Python function; its variants live as long as the function or a kernel that may
run them (`dropped_launches`). A function is compiled once per `Key`, whatever the number of
threads. A failed compilation is remembered and reported again.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from typing import Any, Protocol

from ingot.artifact.abi import ProgramInfo
from ingot.artifact.device_code import DEVICE_FAILED
from ingot.client.options import Stage
from ingot.frontends.tensorflow.api import capi
from ingot.frontends.tensorflow.api.errors import run_error, status_of
from ingot.frontends.tensorflow.launches.launch_records import (
    DONE,
    GUARD,
    LAUNCH,
    NO_VARIANT,
    TRY_EXACT,
    TRY_ROOM,
    VARIABLE,
    VARIANT,
)
from ingot.frontends.tensorflow.launches.trampolines import FAILED, MISS, REQUEST
from ingot.frontends.tensorflow.variants.list_rooms import ListRooms, Rooms, may_lack_room
from ingot.frontends.tensorflow.variants.recompilations import report_recompilation
from ingot.frontends.tensorflow.variants.specialisation import (
    MOST_ELEMENTS,
    CallArguments,
    Key,
    Reader,
    Reason,
    Sizes,
)
from ingot.runtime.arguments.c_arrays import int64_array
from ingot.runtime.executor.execute import FIRST_CONSTRAINT, OUT_OF_MEMORY
from ingot.runtime.programs.staged import StagedProgram
from ingot.support.diagnostics import Diagnostic, ExecutionError, IngotError, UnsupportedError
from ingot.support.forking import ForkLock, defers_fork
from ingot.support.records import fresh, mutable, record

_MOST_FAILURES = 64
_MOST_VALUES = 2
"""Programs for values of one argument, before sizes that follow from it are computed."""
_EXACT = Reason("size: the program for open sizes does not take these")


class Program(Protocol):
    """What a launch needs of a compiled program (`runtime.program.Program` is one)."""

    @property
    def info(self) -> ProgramInfo:
        """The program's parameters, outputs and messages."""
        ...

    @property
    def record_address(self) -> int:
        """Address of its `IngotProgram` record."""
        ...

    def error_of(self, status: int, /) -> IngotError:
        """Return the exception for what an execution returned."""
        ...


class Compiled(Protocol):
    """A compiled function (`client.Executable` is one)."""

    @property
    def program(self) -> Program:
        """What the launch op runs."""
        ...

    def as_text(self, stage: Stage, *, operand_shapes: bool = False) -> str:
        """Return the program at a stage, for people to read; HLO may say its operands' shapes."""
        ...


class Requester(Protocol):
    """Decides when a launch that has a fallback is compiled."""

    def __call__(self, sizes: Sizes, read: Reader) -> None:
        """Take note that there is no program for a call; `read` is valid until this returns."""
        ...


class LaunchCompiler(Protocol):
    """What a launch asks for programs."""

    def check(self, sizes: Sizes) -> None:
        """Raise IngotError if inputs of these sizes do not fit the function."""
        ...

    def compile(self, arguments: CallArguments) -> tuple[Compiled, Key]:
        """Return the function compiled for a call, and which calls the result is for."""
        ...


@mutable(eq=False)
class _Variant:
    """One compiled program, the calls it is for, and the memory that its record points to."""

    compiled: Compiled
    key: Key
    record: Any
    rooms: Rooms
    kept: list[Any] = fresh(factory=list)

    @property
    def address(self) -> int:
        """Address of the native record."""
        return ctypes.addressof(self.record)

    @property
    def is_open(self) -> bool:
        """Whether it takes inputs of several sizes, or arguments that vary."""
        return bool(self.key.varying) or is_open(self.compiled)

    def fits(self, sizes: Sizes, read: Reader | None) -> bool:
        """Whether the kernel would run it on inputs of these sizes and values."""
        return self.key.fits(sizes, read) and all(
            want is None or want == have
            for param, given in zip(self.compiled.program.info.params, sizes, strict=True)
            for want, have in zip(param.dims, given, strict=True)
        )


@record
class VariableInput:
    """An input of the op that is a variable's handle.

    Attributes:
        input: index of the input.
        result: index of its new value among the program's results, or -1 if it is only read.
        dims: the variable's static sizes.
        type_number: TF_DataType of its elements.
        item_bytes: size of an element, or 0 if its value is never needed at compile time.
    """

    input: int
    result: int
    dims: tuple[int, ...]
    type_number: int
    item_bytes: int = 0


def _fill_variable(row: Any, variable: VariableInput) -> Any:
    """Fill a row of the native table; return what the row points to."""
    dims = int64_array(variable.dims)
    elements = math.prod(variable.dims)
    copy = None
    if elements <= MOST_ELEMENTS and variable.item_bytes:
        copy = ctypes.create_string_buffer(max(1, elements * variable.item_bytes))
        row.copy, row.copy_bytes = ctypes.addressof(copy), elements * variable.item_bytes
    row.input, row.result = variable.input, variable.result
    row.rank, row.dims = len(variable.dims), ctypes.addressof(dims)
    row.elements, row.type = elements, variable.type_number
    return dims, copy


class Launch:
    """A function that the launch op executes.

    Attributes:
        refusal: why the function could not be compiled for a call, the last one.
    """

    __slots__ = (
        "_compiler",
        "_failures",
        "_lock",
        "_rooms",
        "_specialised",
        "_variants",
        "identifier",
        "kept",
        "name",
        "record",
        "refusal",
        "requester",
    )

    def __init__(
        self,
        name: str,
        num_inputs: int,
        output_types: Sequence[int],
        compiler: LaunchCompiler,
        variables: Sequence[VariableInput] = (),
    ) -> None:
        """Make the record.

        Args:
            name: the function's name, for messages.
            num_inputs: inputs of the op.
            output_types: TF_DataType of each output of the op.
            compiler: makes the variants.
            variables: the inputs that are handles, which the op reads and writes itself.
        """
        self.name = name
        self.requester: Requester | None = None
        self.refusal: Diagnostic | None = None
        self.identifier = next(_identifiers)
        self._compiler = compiler
        self._lock = ForkLock()
        self._rooms = ListRooms()
        self._specialised: set[int] = set()
        self._variants: list[_Variant] = []
        self._failures: list[tuple[Key, tuple[int, str]]] = []
        types = (ctypes.c_int32 * max(1, len(output_types)))(*output_types)
        rows = int64_array([-1] * num_inputs)
        table = (VARIABLE.structure * max(1, len(variables)))()
        self.kept: list[Any] = [types, rows, table]
        for at, variable in enumerate(variables):
            rows[variable.input] = at
            self.kept.append(_fill_variable(table[at], variable))
        self.record: Any = LAUNCH.structure()
        self.record.identifier = self.identifier
        self.record.num_inputs = num_inputs
        self.record.num_outputs = len(output_types)
        self.record.output_types = ctypes.addressof(types)
        self.record.rows = ctypes.addressof(rows)
        self.record.num_variables = len(variables)
        self.record.variables = ctypes.addressof(table)
        _launches[self.identifier] = self

    @property
    def address(self) -> int:
        """Address of the native record; an attribute of the op."""
        return ctypes.addressof(self.record)

    @property
    def variants(self) -> tuple[tuple[Compiled, Key], ...]:
        """What was compiled, in order, and for which calls."""
        return tuple((item.compiled, item.key) for item in self._variants)

    @defers_fork
    def release(self) -> bool:
        """Let go of what was compiled, if no kernel may run it; return whether that was so.

        For a launch whose function is gone. A kernel that TensorFlow makes after all, from a graph
        that nobody saw, asks the compiler, which says so.
        """
        with self._lock:
            if self.record.kernels:
                return False
            self.record.variants = 0
            self._variants, self._failures, self._rooms = [], [], ListRooms()
        return True

    def find(self, sizes: Sizes, read: Reader | None) -> tuple[Compiled, Key]:
        """Return what `compile_for` has made for inputs of these sizes and values."""
        found = self._find(sizes, read, False)
        assert found is not None, "nothing is compiled for these inputs"
        return found.compiled, found.key

    def _find(self, sizes: Sizes, read: Reader | None, exact: bool) -> _Variant | None:
        # As the kernel looks: a variant for exact sizes is younger than the open one.
        for variant in reversed(self._variants):
            if variant.fits(sizes, read) and not (exact and variant.is_open):
                return variant
        return None

    @defers_fork
    def compile_for(
        self, sizes: Sizes, read: Reader | None = None, wanted: int = NO_VARIANT
    ) -> tuple[int, str] | None:
        """Make sure that there is a variant for these inputs; return (code, text) if not.

        Called when no variant fits. If there is one, another thread was faster.

        Args:
            sizes: the inputs' dimensions.
            read: gives the inputs' memory.
            wanted: `TRY_EXACT`: a variant with open sizes is not enough; `TRY_ROOM`: one whose
                lists have the usual room is not.
        """
        with self._lock:
            known = self._find(sizes, read, wanted == TRY_EXACT)
            rooms = self._rooms.latest
            # Where one for open sizes did not do, one with more room is for these sizes too.
            lacks_room = known is not None and wanted == TRY_ROOM and known.rooms != rooms
            is_exact = wanted == TRY_EXACT or (known is not None and not known.is_open)
            arguments = CallArguments(sizes, read, _EXACT if is_exact else None, rooms)
            try:
                self._compiler.check(sizes)
                if known is not None and not lacks_room:
                    return None
                for key, failed in self._failures:
                    if key.fits(sizes, read):
                        return failed
                self._take_over(arguments)
                compiled, key = self._compiler.compile(arguments)
                self._specialised |= arguments.refused
                self._publish(compiled, key, rooms)
            except BaseException as error:  # nothing may pass through TensorFlow's C++ frames
                report = status_of(error, self.name)
                if isinstance(error, UnsupportedError):
                    self.refusal = error.diagnostic
                self._failures = [*self._failures, (arguments.key(), report)][-_MOST_FAILURES:]
                return report
        return None

    def _take_over(self, arguments: CallArguments) -> None:
        """Ask at once for the values that variants for the same ranks were specialised on.

        Not for those of arguments that vary, unless the program is for exactly this call.
        """
        ranks = tuple([len(item) for item in arguments.sizes])
        found = [
            item
            for variant in self._variants
            if variant.key.ranks == ranks
            for item in variant.key.values
        ]
        if arguments.exact is None:
            values: dict[int, set[bytes]] = {}
            for item in found:
                values.setdefault(item.parameter, set()).add(item.data)
            many = {number for number, seen in values.items() if len(seen) >= _MOST_VALUES}
            arguments.varying = frozenset(many - self._specialised)
        for item in found:
            if item.parameter not in arguments.varying:
                arguments.value(item.parameter, item.name, item.array.dtype, item.reason)

    def explain(self, variant: int, dims: Any, code: int) -> tuple[int, str]:
        """Return (status code, text) for the program of a variant that refused its inputs.

        Args:
            variant: address of the native record.
            dims: the sizes of each input.
            code: what the program returned.
        """
        found = self._at(variant)
        program = found.compiled.program
        if isinstance(program, StagedProgram):
            return status_of(_staged_error(program, code), self.name, has_run=True)
        if code == DEVICE_FAILED:
            return status_of(program.error_of(code), self.name, has_run=True)
        sizes = _input_sizes(found.key.ranks, dims, self.record.num_inputs)
        return status_of(run_error(program.info, code, sizes), self.name, has_run=True)

    def may_be_exact(self, variant: int, code: int) -> bool:
        """Whether a variant for exact sizes may run where this one returned `code`."""
        found = self._at(variant)
        if found.key.varying:
            return code != DEVICE_FAILED
        is_staged = isinstance(found.compiled.program, StagedProgram)
        is_refusal = DEVICE_FAILED < code <= FIRST_CONSTRAINT
        return is_refusal and not is_staged and found.is_open

    def makes_room(self, variant: int, code: int) -> bool:
        """Whether a list had too little room: the next variant has more."""
        found = self._at(variant)
        text = _run_error_text(found.compiled.program, code)
        with self._lock:
            return self._rooms.learn(text, found.rooms)

    def _at(self, address: int) -> _Variant:
        return next(item for item in self._variants if item.address == address)

    def _publish(self, compiled: Compiled, key: Key, rooms: Rooms) -> None:
        record: Any = VARIANT.structure()
        variant = _Variant(compiled, key, record, rooms)
        program = compiled.program
        record.program = program.record_address
        record.ranks = _array(variant, ctypes.c_int64, key.ranks)
        record.shared = getattr(compiled, "shared_memory", 0)
        record.runs_again = int(bool(key.varying) or may_lack_room(program.info.run_errors))
        if isinstance(program, StagedProgram):
            _fill_staged(variant, program)
        record.num_guards, record.guards = len(key.values), _guards(variant)
        report_recompilation(self.name, [item.key for item in self._variants], key)
        # Behind those for single values, which are faster.
        varying = sum(bool(item.key.varying) for item in self._variants)
        at = varying if key.varying else len(self._variants)
        record.next = self._variants[at - 1].address if at else 0
        self._variants.insert(at, variant)
        # An aligned 8-byte store is one instruction, and x86 and the interpreter's own locks keep
        # the stores above before it; the kernel loads it with acquire.
        if at + 1 == len(self._variants):
            self.record.variants = variant.address
        else:
            self._variants[at + 1].record.next = variant.address


_identifiers = itertools.count(1)
_launches: dict[int, Launch] = {}


def _array(variant: _Variant, item: Any, values: Sequence[int]) -> int:
    array = (item * max(1, len(values)))(*values)
    variant.kept.append(array)
    return ctypes.addressof(array)


def _fill_staged(variant: _Variant, program: StagedProgram) -> None:
    """Say in the record of a variant where a program in stages has its parameters and results."""
    record, code = variant.record, program.code
    record.staged = program.staged_address
    offsets = [program.offset(slot) for slot in code.parameters]
    record.num_parameters = len(offsets)
    record.parameters = _array(variant, ctypes.c_int64, offsets)
    rows = [row for slot in code.results for row in program.slot_row(slot)]
    record.num_results = len(code.results)
    record.results = _array(variant, ctypes.c_int64, rows)


def _guards(variant: _Variant) -> int:
    """Return the address of the native guards of a variant."""
    rows, kept = guard_rows(variant.key)
    variant.kept.append((rows, kept))
    return ctypes.addressof(rows)


def guard_rows(key: Key) -> tuple[Any, Any]:
    """Return the native guards (`IngotGuard[]`) of a key, and what they point to."""
    rows = (GUARD.structure * max(1, len(key.values)))()
    kept = [ctypes.create_string_buffer(item.data, max(1, len(item.data))) for item in key.values]
    for row, item, data in zip(rows, key.values, kept, strict=False):
        row.input, row.bytes = item.parameter, len(item.data)
        row.data = ctypes.addressof(data)
    return rows, kept


def is_open(compiled: Compiled) -> bool:
    """Whether a program takes inputs of several sizes."""
    return any(None in param.dims for param in compiled.program.info.params)


def _staged_error(program: StagedProgram, code: int) -> IngotError:
    """Return the error of a program in stages, in its own words where it has some."""
    error, text = program.error_of(code), program.run_error(code)
    if not text or not error.diagnostic.message.endswith(text):
        return error
    # Without the name of the program, which is not the function's.
    own = ExecutionError(text, code=error.diagnostic.code, notes=error.diagnostic.notes)
    own.status = error.status if isinstance(error, ExecutionError) else ""
    return own


def _run_error_text(program: Program, code: int) -> str:
    """Return the program's own text for what it returned; "" if it has none."""
    if isinstance(program, StagedProgram):
        return program.run_error(code)
    return program.info.run_errors[code - 1] if code > 0 else ""


def _input_sizes(ranks: Any, dims: Any, count: int) -> Sizes:
    return tuple(tuple(dims[index][axis] for axis in range(ranks[index])) for index in range(count))


def _on_miss(identifier: int, ranks: Any, dims: Any, data: Any, wanted: int, status: int) -> None:
    launch = _launches[identifier]
    sizes = _input_sizes(ranks, dims, launch.record.num_inputs)
    report = launch.compile_for(sizes, _reader(data), wanted)
    if report is not None:
        code, text = report
        capi.function("TF_SetStatus")(status, code, text.encode())


def _on_request(identifier: int, ranks: Any, dims: Any, data: Any) -> None:
    launch = _launches[identifier]
    if launch.requester is not None:
        launch.requester(_input_sizes(ranks, dims, launch.record.num_inputs), _reader(data))


def _reader(data: Any) -> Reader:
    """Return what reads the memory of an execution's inputs."""

    def read(parameter: int, count: int) -> bytes | None:
        address = data[parameter]
        if count and not address:
            return None
        return ctypes.string_at(address, count) if count else b""

    return read


def _on_failure(identifier: int, variant: int, dims: Any, code: int, status: int) -> int:
    launch = _launches[identifier]
    has_memory = ctypes.c_int32(code).value != OUT_OF_MEMORY
    if has_memory and launch.may_be_exact(variant, code):
        capi.function("TF_SetStatus")(status, capi.OK, b"")
        return TRY_EXACT
    if has_memory and launch.makes_room(variant, code):
        capi.function("TF_SetStatus")(status, capi.OK, b"")
        return TRY_ROOM
    kind, text = launch.explain(variant, dims, code)
    capi.function("TF_SetStatus")(status, kind, text.encode())
    return DONE


_pointer: Any = ctypes.POINTER
_INTEGERS: Any = _pointer(ctypes.c_int64)
_ROWS: Any = _pointer(_INTEGERS)
_ADDRESS = ctypes.c_void_p
_ADDRESSES: Any = _pointer(ctypes.c_void_p)
_NUMBER = ctypes.c_int64
_TRAMPOLINES: dict[str, Any] = {
    MISS: ctypes.CFUNCTYPE(None, _NUMBER, _INTEGERS, _ROWS, _ADDRESSES, _NUMBER, _ADDRESS)(
        _on_miss
    ),
    FAILED: ctypes.CFUNCTYPE(ctypes.c_int32, _NUMBER, _ADDRESS, _ROWS, _NUMBER, _ADDRESS)(
        _on_failure
    ),
    REQUEST: ctypes.CFUNCTYPE(None, _NUMBER, _INTEGERS, _ROWS, _ADDRESSES)(_on_request),
}


def trampoline_addresses() -> dict[str, int]:
    """Return the addresses of the functions of Python that machine code calls."""
    return {
        name: ctypes.cast(function, ctypes.c_void_p).value or 0
        for name, function in _TRAMPOLINES.items()
    }
