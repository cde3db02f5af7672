"""What `ingot serve` answers: programs and arrays by number, one method for each request.

Above the client, below the pipe: `Session.answer` takes a message and gives one, whatever happens.
Invariant: a request that fails changes nothing, and its answer has the whole diagnostic.

Example:
    >>> session = Session()
    >>> session.answer(Message({"op": "free", "values": [7], "id": "a"})).header["error"]["message"]
    'there is no value 7'
"""

from __future__ import annotations

import itertools
import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from ingot import __version__
from ingot.artifact.abi import OutputInfo, ParamInfo
from ingot.client import Executable, compile
from ingot.formats.load import load, sniff
from ingot.hlo.device_groups import Grid, grid_of
from ingot.hlo.dtype import DTYPES
from ingot.llvm.target import TargetSpec
from ingot.passes.spmd.partitioner import partition
from ingot.passes.spmd.sharding import Sharding
from ingot.runtime.native import native_runtime
from ingot.support.diagnostics import Diagnostic, IngotError
from ingot.support.text import did_you_mean
from ingot.tools.framing import Message, bad_request

Array = np.ndarray[Any, Any]
T = TypeVar("T")
Header = dict[str, Any]
_GLOBAL_FORMATS = ("mlir", "stablehlo")
"""Programs in these are over global shapes; those in XLA's formats may be of one device already."""


class Session:
    """The programs and arrays of one host.

    Attributes:
        over: whether the host has asked to end.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.over = False
        self._numbers = itertools.count(1)
        self._executables: dict[int, Executable] = {}
        self._values: dict[int, Array] = {}
        self._requests: dict[str, Callable[[Message], Message]] = {
            "compile": self.compile,
            "execute": self.execute,
            "put": self.put,
            "get": self.get,
            "free": self.free,
            "devices": self.devices,
            "shutdown": self.shutdown,
        }

    def answer(self, request: Message) -> Message:
        """Return the answer to a request; an error is an answer too."""
        try:
            result = self._find(request.header)(request)
            header: Header = {"ok": True, **result.header}
        except Exception as problem:
            result, header = Message({}), failure(problem)
        if "id" in request.header:
            header["id"] = request.header["id"]
        return Message(header, result.payload)

    def _find(self, header: Header) -> Callable[[Message], Message]:
        name = _field(header, "op", str)
        if name not in self._requests:
            hint = did_you_mean(name, self._requests) or f"one of: {', '.join(self._requests)}"
            raise bad_request(f"there is no request '{name}'", hint)
        return self._requests[name]

    def compile(self, request: Message) -> Message:
        """Compile the program in `program` (text) or in the payload (any format)."""
        start = time.perf_counter()
        text = _field(request.header, "program", str, "")
        source = text.encode("utf-8", "surrogateescape") or request.payload
        if not source:
            raise bad_request('there is no program, neither in "program" nor as payload')
        form = _field(request.header, "format", str, "") or sniff(source)
        module = load(source, form)
        grid = grid_of(module)
        is_global = _field(request.header, "partition", bool, form in _GLOBAL_FORMATS)
        # One device has the whole of everything, and may have tuples of tuples.
        division = partition(module, grid.partitions) if is_global and grid.partitions > 1 else None
        executable = compile(module)
        number = next(self._numbers)
        self._executables[number] = executable
        info = executable.artifact.info
        parameters = _rows(info.params, division.parameters if division else ())
        results = _rows(info.outputs, division.results if division else ())
        return Message(
            {
                "executable": number,
                "name": executable.module.name,
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
        """Run a program on arrays, of the payload or kept here."""
        header = request.header
        executable = self._known(self._executables, "executable", header.get("executable"))
        given = _list(header, "arguments", [])
        arguments = self._arrays(given, request.payload)
        start = time.perf_counter()
        results = _run(executable, arguments, self._donated(header, given))
        seconds = time.perf_counter() - start
        for number in _list(header, "donate", []):
            del self._values[number]
        if _field(header, "keep", bool, False):
            kept = [{"value": self._keep(array), **_described(array)} for array in results]
            return Message({"results": kept, "seconds": seconds})
        return _arrays_message(results, {"seconds": seconds})

    def _donated(self, header: Header, given: Sequence[Any]) -> list[int]:
        """Return which arguments are kept arrays that the program may take over."""
        rows = [cast(Header, row) if isinstance(row, dict) else {} for row in given]
        numbers = [row.get("value") for row in rows]
        donated: list[int] = []
        for number in _list(header, "donate", []):
            if numbers.count(number) != 1:
                raise bad_request(
                    f"value {number!r} cannot be donated: it is {numbers.count(number)} arguments",
                    'give each number of "donate" as one argument',
                )
            donated.append(numbers.index(number))
        return donated

    def put(self, request: Message) -> Message:
        """Keep arrays of the payload; answer with their numbers."""
        arrays = self._arrays(_list(request.header, "arrays"), request.payload)
        return Message({"values": [self._keep(array.copy()) for array in arrays]})

    def get(self, request: Message) -> Message:
        """Answer with kept arrays."""
        numbers = _list(request.header, "values")
        return _arrays_message([self._known(self._values, "value", one) for one in numbers], {})

    def free(self, request: Message) -> Message:
        """Forget programs and arrays."""
        tables: tuple[tuple[str, str, dict[int, Any]], ...] = (
            ("executables", "executable", self._executables),
            ("values", "value", self._values),
        )
        rows = [(kind, table, _list(request.header, name, [])) for name, kind, table in tables]
        for kind, table, numbers in rows:
            for number in numbers:
                self._known(table, kind, number)
        for _, table, numbers in rows:
            for number in numbers:
                table.pop(number, None)
        return Message({})

    def devices(self, request: Message) -> Message:
        """Say what there is to run on."""
        device = {
            "id": 0,
            "platform": "cpu",
            "kind": TargetSpec.host().cpu,
            "threads": native_runtime().num_threads,
        }
        return Message({"devices": [device], "version": __version__, "types": _types()})

    def shutdown(self, request: Message) -> Message:
        """End after this answer."""
        self.over = True
        return Message({})

    def _keep(self, array: Array) -> int:
        number = next(self._numbers)
        self._values[number] = array
        return number

    def _known(self, table: Mapping[int, T], kind: str, number: object) -> T:
        if not isinstance(number, int) or number not in table:
            raise bad_request(
                f"there is no {kind} {number!r}", f"known: {', '.join(map(str, table)) or 'none'}"
            )
        return table[number]

    def _arrays(self, rows: Sequence[Any], payload: bytes) -> list[Array]:
        """Return the arrays that rows of a header name; the payload has those without a number."""
        arrays: list[Array] = []
        at = 0
        for row in rows:
            if not isinstance(row, dict):
                raise bad_request(f"an array is an object with dtype and shape, not {row!r}")
            fields = cast(Header, row)
            if "value" in fields:
                arrays.append(self._known(self._values, "value", fields["value"]))
                continue
            array, at = _take(fields, payload, at)
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


def _run(executable: Executable, arguments: list[Array], donated: list[int]) -> list[Array]:
    """Return the results; of several devices one device's after the other's."""
    grid: Grid = grid_of(executable.module)
    if grid.devices == 1:
        return _several(executable(*arguments, donate=donated))
    each = len(executable.artifact.info.params)
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
    """Return what a host must know of parameters or results; what is divided says how."""
    found: list[Header] = [{"dtype": row.dtype, "shape": list(row.dims)} for row in rows]
    for fields, sharding in zip(found, shardings, strict=False):
        if not sharding.is_replicated:
            fields["sharding"] = sharding.text()
    return found


def _types() -> dict[str, int]:
    """Return the element types that arrays may have, with their bytes."""
    rows = DTYPES.values()
    return {row.name: row.bytes for row in rows if row.storage is not None}


def _described(array: Array) -> Header:
    return {"dtype": _NAMES[array.dtype], "shape": list(array.shape)}


_NAMES = {row.storage: row.name for row in DTYPES.values() if row.storage is not None}


def _arrays_message(arrays: Sequence[Array], header: Header) -> Message:
    """Return a message with arrays as its payload."""
    rows = [_described(array) for array in arrays]
    return Message({"results": rows, **header}, b"".join(array.tobytes() for array in arrays))


def _take(row: Header, payload: bytes, at: int) -> tuple[Array, int]:
    """Return the array of a row that begins at byte `at` of the payload, and where it ends."""
    name, shape = _field(row, "dtype", str), _list(row, "shape")
    found = DTYPES.get(name)
    if found is None or found.storage is None:
        hint = did_you_mean(name, _types()) or "the request devices lists the types"
        raise bad_request(f"there is no element type '{name}'", hint)
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise bad_request(f"a shape is a list of sizes, not {shape}")
    count = math.prod(shape)
    end = at + count * found.bytes
    if end > len(payload):
        raise bad_request(f"{name}{shape} ends at byte {end} of a payload of {len(payload)}")
    return np.frombuffer(payload, found.storage, count, at).reshape(shape), end


_REQUIRED: Any = object()


def _field(header: Header, name: str, kind: type[T], default: T = _REQUIRED) -> T:
    """Return a field of a header, which must have this type."""
    value = header.get(name, default)
    if value is _REQUIRED:
        raise bad_request(f'there is no "{name}"')
    if not isinstance(value, kind):
        raise bad_request(f'"{name}" is {value!r}, not of JSON\'s type for {kind.__name__}')
    return value


def _list(header: Header, name: str, default: list[Any] = _REQUIRED) -> list[Any]:
    """Return a field of a header that is a list."""
    return _field(header, name, list, default)
