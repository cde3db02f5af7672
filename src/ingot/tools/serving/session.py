# SPDX-License-Identifier: Apache-2.0
"""The requests of `ingot serve`: programs and arrays by number, one method for each request.

It is above the client and below the pipe: `Session.answer` takes a message and always returns one.
It runs in a process that may be ended and replaced (`supervisor`): the replacement continues the
numbers, so that none is used twice.

Invariants: a request that fails changes nothing, and its answer has the whole diagnostic; invalid
requests give INGOT0522.

Example:
    >>> session = Session()
    >>> session.answer(Message({"op": "free", "values": [7], "id": "a"})).header["error"]["message"]
    'there is no value 7'
"""

from __future__ import annotations

import itertools
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from ingot.artifact.abi import OutputInfo, ParamInfo
from ingot.client import Executable, compile
from ingot.client.executables.staged import StagedExecutable
from ingot.formats.load import READERS, has_global_shapes, load, sniff
from ingot.hlo.dtype import DTYPES
from ingot.llvm.target import TargetSpec
from ingot.passes.spmd.partition import partition
from ingot.passes.spmd.sharding import Sharding
from ingot.runtime.native import native_runtime
from ingot.semantics.device_groups import Grid, grid_of
from ingot.support.diagnostics import Diagnostic, ExecutionError, IngotError
from ingot.support.text import did_you_mean
from ingot.support.versions import VERSION
from ingot.tools.serving.fields import (
    choice_field,
    element_types,
    field,
    is_whole,
    list_field,
    shortened,
    take_array,
    text_field,
)
from ingot.tools.serving.framing import Message, bad_request
from ingot.tools.serving.interrupts import interruptible

Array = np.ndarray[Any, Any]
T = TypeVar("T")
Header = dict[str, Any]
SUPERVISED = ("cancel", "shutdown")
"""Requests that the supervisor answers."""
CANCELLED = "INGOT0523"
_LISTED = 20
"""The most numbers that the error for an unknown one names."""


class Session:
    """The programs and arrays of one host.

    Attributes:
        next_number: the number of the next program or array.
    """

    def __init__(self, first: int = 1) -> None:
        """Start empty; numbers under `first` are those of an earlier process."""
        self._first = self.next_number = first
        self._executables: dict[int, Executable | StagedExecutable] = {}
        self._values: dict[int, Array] = {}
        self._requests: dict[str, Callable[[Message], Message]] = {
            "compile": self.compile,
            "execute": self.execute,
            "put": self.put,
            "get": self.get,
            "free": self.free,
            "devices": self.devices,
        }

    def answer(self, request: Message) -> Message:
        """Return the answer to a request; an error is an answer too."""
        try:
            result = self._find(request.header)(request)
            header: Header = {"ok": True, **result.header}
        except (Exception, KeyboardInterrupt) as problem:
            result, header = Message({}), failure(problem)
        if "id" in request.header:
            header["id"] = request.header["id"]
        return Message(header, result.payload)

    def _find(self, header: Header) -> Callable[[Message], Message]:
        name = field(header, "op", str)
        if name not in self._requests:
            known = (*self._requests, *SUPERVISED)
            hint = did_you_mean(name, known) or f"one of: {', '.join(known)}"
            raise bad_request(f"there is no request {shortened(name)}", hint)
        return self._requests[name]

    def compile(self, request: Message) -> Message:
        """Compile the program in `program` (text) or in the payload (any format)."""
        start = time.perf_counter()
        source = text_field(request.header, "program") or bytes(request.payload)
        if not source:
            raise bad_request('there is no program, neither in "program" nor as payload')
        source_format = choice_field(request.header, "format", READERS) or sniff(source)
        is_global = field(request.header, "partition", bool, has_global_shapes(source_format))
        with interruptible():
            module = load(source, source_format)
            grid = grid_of(module)
            # One device has whole values, and may have nested tuples.
            is_divided = is_global and grid.partitions > 1
            division = partition(module, grid.partitions) if is_divided else None
            executable = compile(module)
        number = self._new_number()
        self._executables[number] = executable
        info = executable.program.info
        parameters = _rows(info.params, division.parameters if division else ())
        results = _rows(info.outputs, division.results if division else ())
        return Message(
            {
                "executable": number,
                "name": executable.source.name,
                "devices": grid.devices,
                "parameters": [
                    {"name": row.name, **fields}
                    for row, fields in zip(info.params, parameters, strict=True)
                ],
                "results": results,
                "kernels": len(executable.kernels),
                "seconds": time.perf_counter() - start,
            }
        )

    def execute(self, request: Message) -> Message:
        """Run a program on arrays of the payload, or on kept ones."""
        header = request.header
        executable = self._known(self._executables, "executable", header.get("executable"))
        given, donate = list_field(header, "arguments", []), list_field(header, "donate", [])
        keep = field(header, "keep", bool, False)
        arguments = self._arrays(given, request.payload)
        donated = self._donated(donate, given)
        start = time.perf_counter()
        with interruptible():
            results = _run(executable, arguments, donated)
        seconds = time.perf_counter() - start
        for number in donate:
            del self._values[number]
        if keep:
            kept = [{"value": self._keep(array), **_described(array)} for array in results]
            return Message({"results": kept, "seconds": seconds})
        return _arrays_message(results, {"seconds": seconds})

    def _donated(self, donate: Sequence[Any], given: Sequence[Any]) -> list[int]:
        """Return which arguments are kept arrays that the program may take over."""
        rows = [cast(Header, row) if isinstance(row, dict) else {} for row in given]
        numbers = [row.get("value") for row in rows]
        donated: list[int] = []
        for number in donate:
            self._known(self._values, "value", number)
            if numbers.count(number) != 1 or donate.count(number) != 1:
                raise bad_request(
                    f"value {number} cannot be donated: it is {numbers.count(number)} arguments",
                    'give each number of "donate" once, and as one argument',
                )
            donated.append(numbers.index(number))
        return donated

    def put(self, request: Message) -> Message:
        """Keep arrays of the payload; answer with their numbers."""
        arrays = self._arrays(list_field(request.header, "arrays"), request.payload)
        return Message({"values": [self._keep(array.copy()) for array in arrays]})

    def get(self, request: Message) -> Message:
        """Answer with kept arrays."""
        numbers = list_field(request.header, "values")
        return _arrays_message([self._known(self._values, "value", one) for one in numbers], {})

    def free(self, request: Message) -> Message:
        """Drop programs and arrays."""
        tables: tuple[tuple[str, str, dict[int, Any]], ...] = (
            ("executables", "executable", self._executables),
            ("values", "value", self._values),
        )
        rows = [(kind, table, list_field(request.header, name, [])) for name, kind, table in tables]
        for kind, table, numbers in rows:
            for number in numbers:
                self._known(table, kind, number)
        for _, table, numbers in rows:
            for number in numbers:
                table.pop(number, None)
        return Message({})

    def devices(self, request: Message) -> Message:
        """Answer with the devices."""
        device = {
            "id": 0,
            "platform": "cpu",
            "kind": TargetSpec.host().cpu,
            "threads": native_runtime().num_threads,
        }
        return Message({"devices": [device], "version": VERSION, "types": element_types()})

    def _new_number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    def _keep(self, array: Array) -> int:
        number = self._new_number()
        self._values[number] = array
        return number

    def _known(self, table: Mapping[int, T], kind: str, number: object) -> T:
        if not is_whole(number) or number not in table:
            if is_whole(number) and 0 < number < self._first:
                raise ExecutionError(
                    f"{kind} {number} is gone with the process that held it",
                    code="INGOT0525",
                    hint="compile the programs and put the arrays again",
                )
            known = ", ".join(map(str, itertools.islice(table, _LISTED))) or "none"
            raise bad_request(f"there is no {kind} {shortened(number)}", f"known: {known}")
        return table[number]

    def _arrays(self, rows: Sequence[Any], payload: bytes | memoryview) -> list[Array]:
        """Return the arrays that rows of a header name; the payload has those without a number."""
        arrays: list[Array] = []
        at = 0
        for row in rows:
            if not isinstance(row, dict):
                raise bad_request(
                    f"an array is an object with dtype and shape, not {shortened(row)}"
                )
            fields = cast(Header, row)
            if "value" in fields:
                arrays.append(self._known(self._values, "value", fields["value"]))
                continue
            array, at = take_array(fields, payload, at)
            arrays.append(array)
        if at != len(payload):
            raise bad_request(f"the arrays take {at} bytes, the payload has {len(payload)}")
        return arrays


def failure(problem: BaseException) -> Header:
    """Return the header that answers a request which failed."""
    if isinstance(problem, IngotError):
        facts = problem.diagnostic
    elif isinstance(problem, MemoryError):
        facts = Diagnostic("out of memory", code="INGOT0401")
    elif isinstance(problem, KeyboardInterrupt):
        facts = Diagnostic("the request was cancelled", code=CANCELLED)
    else:
        trace = "".join(traceback.format_exception(problem))
        facts = Diagnostic(f"Ingot failed: {problem}", code="INGOT0900", notes=(trace,))
    error: Header = {"code": facts.code, "message": facts.message, "text": facts.render()}
    if facts.hint:
        error["hint"] = facts.hint
    if facts.span is not None:
        error["line"], error["column"] = facts.span.line, facts.span.column
    if facts.location is not None:
        error["location"] = str(facts.location)
    return {"ok": False, "error": error}


def _run(
    executable: Executable | StagedExecutable, arguments: list[Array], donated: list[int]
) -> list[Array]:
    """Return the results; for several devices those of all devices, one after the other."""
    grid: Grid = grid_of(executable.source)
    if grid.devices == 1:
        return _several(executable(*arguments, donate=donated))
    each = len(executable.program.info.params)
    if len(arguments) != each * grid.devices:
        raise bad_request(
            f"{grid.devices} devices with {each} parameters take {each * grid.devices} arguments, "
            f"not {len(arguments)}"
        )
    parts = [arguments[index * each : (index + 1) * each] for index in range(grid.devices)]
    found = executable.execute_replicated(parts)
    return [array for result in found for array in _several(result)]


def _several(result: Any) -> list[Array]:
    """Return the results of a program as a list."""
    return [*cast(tuple[Array, ...], result)] if isinstance(result, tuple) else [result]


def _rows(rows: Sequence[ParamInfo | OutputInfo], shardings: Sequence[Sharding]) -> list[Header]:
    """Return the descriptions of parameters or results for a host, with shardings."""
    found: list[Header] = [{"dtype": row.dtype, "shape": list(row.dims)} for row in rows]
    for fields, sharding in zip(found, shardings, strict=False):
        if not sharding.is_replicated:
            fields["sharding"] = sharding.text()
    return found


def _described(array: Array) -> Header:
    return {"dtype": _NAMES[array.dtype], "shape": list(array.shape)}


_NAMES = {row.storage: row.name for row in DTYPES.values() if row.storage is not None}


def _arrays_message(arrays: Sequence[Array], header: Header) -> Message:
    """Return a message with arrays as its payload."""
    rows = [_described(array) for array in arrays]
    return Message({"results": rows, **header}, b"".join(array.tobytes() for array in arrays))
