# SPDX-License-Identifier: Apache-2.0
"""`pack` and `unpack`: a module as bytes for another process of the same Ingot.

Complete, with symbolic sizes and names unchanged, and fifteen times as fast as a proto. It is no
file format: other versions of Ingot need not read it. Computations and instructions are rows that
refer to others by number, so depth costs no recursion; only values of `hlo` are pickled: `unpack`
calls nothing but their classes, whatever the bytes are.

Example:
    >>> from ingot.formats.hlo_text import parse_hlo
    >>> module = parse_hlo("HloModule m ENTRY e { ROOT x = f32[?n] parameter(0) }")
    >>> unpack(pack(module)).entry.root
    %x = f32[?n]{0} parameter()
"""

from __future__ import annotations

import io
import pickle
from typing import Any, cast

import numpy as np

from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType, dtype, from_numpy
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import find
from ingot.support.collector import collector_paused
from ingot.support.diagnostics import IngotError, ParseError

_PACKAGE = "ingot.hlo."
_MAKES_DIMS = Dim.symbol("n").__reduce__()[0]


def pack(module: Module) -> bytes:
    """Return a module as bytes for `unpack`."""
    numbers = {computation: n for n, computation in enumerate(module.computations.values())}
    out = io.BytesIO()
    packer = _Packer(out, numbers)
    header = (module.name, module.aliases, module.extra, numbers[module.entry])
    names = (module.names, module.computation_names)
    with collector_paused():
        packer.dump((header, names, [_rows(computation) for computation in numbers]))
    return out.getvalue()


def _rows(computation: Computation) -> tuple[Any, ...]:
    order = computation.instructions
    numbers = {instruction: number for number, instruction in enumerate(order)}
    rows = [
        (
            one.name,
            one.opcode,
            [numbers[operand] for operand in one.operands],
            one.shape,
            one.attributes,
            one.metadata,
            one.extra,
            [numbers[before] for before in one.control_predecessors],
        )
        for one in order
    ]
    return computation.name, numbers[computation.root], rows


class _Packer(pickle.Pickler):
    """Pickles values of `hlo`; what has identity is named."""

    def __init__(self, out: io.BytesIO, numbers: dict[Computation, int]) -> None:
        super().__init__(out, 5)
        self._numbers = numbers

    def persistent_id(self, obj: Any) -> Any:
        """Return the name of an element type, a computation or an array; None for values."""
        if isinstance(obj, DType):
            return "type", obj.name
        if isinstance(obj, Computation):
            return "computation", self._numbers[obj]
        if isinstance(obj, np.ndarray):
            array = cast("np.ndarray[Any, Any]", obj)
            return "array", from_numpy(array.dtype).name, array.shape, array.tobytes()
        return None


def unpack(data: bytes) -> Module:
    """Return the module that `pack` wrote.

    Raises:
        ParseError: INGOT0127, the bytes are not what `pack` writes.
    """
    try:
        with collector_paused():
            return _Unpacker(io.BytesIO(data)).module()
    except IngotError:
        raise
    except Exception as error:  # Damaged bytes make any step fail, in any way.
        raise ParseError(
            f"this is not a packed module: {type(error).__name__}: {error}",
            code="INGOT0127",
            hint="read the program again; if this comes back, read it with isolated=False",
        ) from error


class _Unpacker(pickle.Unpickler):
    """Makes the computations first, empty, so that attributes can refer to them."""

    def __init__(self, source: io.BytesIO) -> None:
        super().__init__(source)
        self._computations: dict[int, Computation] = {}

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """Return a class of `hlo`.

        Raises:
            UnpicklingError: it is something else.
        """
        if module_name.startswith(_PACKAGE) and "." not in global_name:
            found: Any = super().find_class(module_name, global_name)
            if found is _MAKES_DIMS or (
                isinstance(found, type) and found.__module__ == module_name
            ):
                return found
        raise pickle.UnpicklingError(f"{module_name}.{global_name} is not a value of modules")

    def persistent_load(self, pid: Any) -> Any:
        """Return what `persistent_id` named."""
        kind, *facts = pid
        if kind == "type":
            return dtype(facts[0])
        if kind == "computation":
            return self._computations.setdefault(facts[0], Computation(""))
        name, dims, data = facts
        return np.frombuffer(data, dtype(name).numpy).reshape(dims)

    def module(self) -> Module:
        """Return the module."""
        (name, aliases, extra, entry), (names, computation_names), computations = self.load()
        module = Module(name)
        module.aliases, module.extra = aliases, extra
        module.names, module.computation_names = names, computation_names
        for number, (title, root, rows) in enumerate(computations):
            computation = self._computations.setdefault(number, Computation(""))
            computation.name = title
            computation.module = module
            _fill(computation, root, rows)
            module.computations[title] = computation
        module.set_entry(self._computations[entry])
        return module


def _fill(computation: Computation, root: int, rows: list[tuple[Any, ...]]) -> None:
    """Add the instructions to a computation, in order; operands may come later."""
    made = [
        Instruction(name, find(opcode), (), shape, attributes, metadata)
        for name, opcode, _, shape, attributes, metadata, _, _ in rows
    ]
    for one, (_, _, operands, _, _, _, extra, before) in zip(made, rows, strict=True):
        one.operands = _several(made, operands)
        one.extra = extra
        one.run_after(_several(made, before))
        computation.insert(one)
    computation.set_root(made[root])


def _several(made: list[Instruction], numbers: list[int]) -> tuple[Instruction, ...]:
    return tuple([made[number] for number in numbers])
