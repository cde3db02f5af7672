"""Launches: one record per replaced function, filled with compiled variants on demand.

`Launch` is the Python side of an `IngotLaunch` record that the op's kernel reads. The first
execution with inputs that no variant fits calls `_on_miss` (through the GIL), which compiles for
the ranks at hand and publishes the variant; from then on Python is not involved.

Invariants: a record and its variants live as long as the process, because TensorFlow may keep
graphs that hold the op longer than the Python function. A function is compiled once per rank
signature, whatever the number of threads. A failed compilation is remembered and reported again.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ingot.artifact.abi import ProgramInfo
from ingot.frontends.tensorflow import capi
from ingot.frontends.tensorflow.errors import run_error, status_of
from ingot.frontends.tensorflow.launch_records import FAILED, LAUNCH, MISS, VARIABLE, VARIANT
from ingot.support.forking import ForkLock, defers_fork

Ranks = tuple[int, ...]
Sizes = tuple[tuple[int, ...], ...]


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


class Compiled(Protocol):
    """A compiled function (`client.Executable` is one)."""

    @property
    def program(self) -> Program:
        """What the launch op runs."""
        ...

    def as_text(self, stage: str) -> str:
        """Return the program at a stage, for people to read."""
        ...


class LaunchCompiler(Protocol):
    """What a launch asks for programs."""

    def check(self, sizes: Sizes) -> None:
        """Raise IngotError if inputs of these sizes do not fit the function."""
        ...

    def compile(self, sizes: Sizes) -> Compiled:
        """Return the function compiled for inputs of these ranks."""
        ...


@dataclass(slots=True)
class _Variant:
    """One compiled program and the memory that the native record points to."""

    compiled: Compiled
    record: Any
    kept: list[Any] = field(default_factory=list[Any])


@dataclass(frozen=True, slots=True)
class VariableInput:
    """An input of the op that is a variable's handle.

    Attributes:
        input: index of the input.
        result: index of its new value among the program's results, or -1 if it is only read.
        dims: the variable's static sizes.
        type_number: TF_DataType of its elements.
    """

    input: int
    result: int
    dims: tuple[int, ...]
    type_number: int


def _fill_variable(row: Any, variable: VariableInput) -> Any:
    """Fill a row of the native table; return what the row points to."""
    dims = (ctypes.c_int64 * max(1, len(variable.dims)))(*variable.dims)
    row.input, row.result = variable.input, variable.result
    row.rank, row.dims = len(variable.dims), ctypes.addressof(dims)
    row.elements, row.type = math.prod(variable.dims), variable.type_number
    return dims


class Launch:
    """A function that the launch op executes."""

    __slots__ = (
        "_compiler",
        "_errors",
        "_lock",
        "_variants",
        "identifier",
        "kept",
        "name",
        "record",
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
        self.identifier = next(_identifiers)
        self._compiler = compiler
        self._lock = ForkLock()
        self._variants: dict[Ranks, _Variant] = {}
        self._errors: dict[Ranks, tuple[int, str]] = {}
        types = (ctypes.c_int32 * max(1, len(output_types)))(*output_types)
        rows = (ctypes.c_int64 * max(1, num_inputs))(*[-1] * num_inputs)
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
    def programs(self) -> dict[Ranks, Program]:
        """The compiled programs by the ranks of their inputs."""
        return {ranks: item.compiled.program for ranks, item in self._variants.items()}

    @property
    def executables(self) -> tuple[Compiled, ...]:
        """What was compiled, in order."""
        return tuple(item.compiled for item in self._variants.values())

    @defers_fork
    def compile_for(self, sizes: Sizes) -> tuple[int, str] | None:
        """Make sure that there is a variant for inputs of these sizes; return (code, text) if not.

        Called when no variant fits. If there is one for the same ranks, either another thread was
        faster or the sizes are wrong.
        """
        ranks = tuple(len(item) for item in sizes)
        with self._lock:
            failed = self._errors.get(ranks)
            if failed is not None:
                return failed
            try:
                self._compiler.check(sizes)
                if ranks not in self._variants:
                    self._publish(ranks, self._compiler.compile(sizes))
            except BaseException as error:  # nothing may pass through TensorFlow's C++ frames
                report = status_of(error, self.name)
                if ranks not in self._variants:
                    self._errors[ranks] = report
                return report
        return None

    def explain(self, variant: int, dims: Any, code: int) -> tuple[int, str]:
        """Return (status code, text) for the program of a variant that refused its inputs.

        Args:
            variant: address of the native record.
            dims: the sizes of each input.
            code: what the program returned.
        """
        ranks, found = next(
            (ranks, item)
            for ranks, item in self._variants.items()
            if ctypes.addressof(item.record) == variant
        )
        sizes = _input_sizes(ranks, dims, self.record.num_inputs)
        return status_of(run_error(found.compiled.program.info, code, sizes), self.name)

    def _publish(self, ranks: Ranks, compiled: Compiled) -> None:
        record: Any = VARIANT.structure()
        variant = _Variant(compiled, record)
        program = compiled.program
        record.program = program.record_address
        record.ranks = _array(variant, ctypes.c_int64, ranks)
        record.next = self.record.variants
        self._variants[ranks] = variant
        # An aligned 8-byte store is one instruction, and x86 and the interpreter's own locks keep
        # the stores above before it; the kernel loads it with acquire.
        self.record.variants = ctypes.addressof(record)


_identifiers = itertools.count(1)
_launches: dict[int, Launch] = {}


def _array(variant: _Variant, item: Any, values: Sequence[int]) -> int:
    array = (item * max(1, len(values)))(*values)
    variant.kept.append(array)
    return ctypes.addressof(array)


def _input_sizes(ranks: Any, dims: Any, count: int) -> Sizes:
    return tuple(tuple(dims[index][axis] for axis in range(ranks[index])) for index in range(count))


def _on_miss(identifier: int, ranks: Any, dims: Any, status: int) -> None:
    launch = _launches[identifier]
    report = launch.compile_for(_input_sizes(ranks, dims, launch.record.num_inputs))
    if report is not None:
        code, text = report
        capi.function("TF_SetStatus")(status, code, text.encode())


def _on_failure(identifier: int, variant: int, dims: Any, code: int, status: int) -> None:
    kind, text = _launches[identifier].explain(variant, dims, code)
    capi.function("TF_SetStatus")(status, kind, text.encode())


_pointer: Any = ctypes.POINTER
_INTEGERS: Any = _pointer(ctypes.c_int64)
_ROWS: Any = _pointer(_INTEGERS)
_ADDRESS = ctypes.c_void_p
_NUMBER = ctypes.c_int64
_TRAMPOLINES: dict[str, Any] = {
    MISS: ctypes.CFUNCTYPE(None, _NUMBER, _INTEGERS, _ROWS, _ADDRESS)(_on_miss),
    FAILED: ctypes.CFUNCTYPE(None, _NUMBER, _ADDRESS, _ROWS, _NUMBER, _ADDRESS)(_on_failure),
}


def trampoline_addresses() -> dict[str, int]:
    """Return the addresses of the functions of Python that machine code calls."""
    return {
        name: ctypes.cast(function, ctypes.c_void_p).value or 0
        for name, function in _TRAMPOLINES.items()
    }
