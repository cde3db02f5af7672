# SPDX-License-Identifier: Apache-2.0
"""Literals in files, for inputs and outputs.

`.npz` has one array per leaf, in order; `.npy` one array; any other file is text with one literal
per line as HLO text writes it (`f32[2] {1, 2}`), `#` beginning a comment. `.pb` is the proto that
XLA's run_hlo_module reads and writes (`RunHloModuleLiterals`), or a snapshot with its arguments.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from ingot.evaluator import Value
from ingot.formats.hlo_proto.literals import IterationLiterals, parse_literals, print_literals
from ingot.formats.hlo_text import parse
from ingot.formats.hlo_text.literal_text import write_literal
from ingot.hlo.literal import Array, Literal
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import ExecutionError, ParseError
from ingot.tools.programs.loading import read_bytes, write_bytes


def read_iterations(path: str) -> list[list[Array]]:
    """Return the arrays in a file for each iteration; only protos have more than one.

    Raises:
        ParseError: as `read_literals`; or it is no such proto (INGOT0122).
        ResourceError: INGOT0411 the file cannot be read.
    """
    if not path.endswith(".pb"):
        return [read_literals(path)]
    return [
        [leaf for literal in row.arguments for leaf in leaves(literal)]
        for row in parse_literals(read_bytes(path))
    ]


def write_iterations(path: str, rows: list[IterationLiterals]) -> None:
    """Write arguments and results of iterations to a `.pb` file."""
    write_bytes(print_literals(rows), path)


def leaves(literal: Literal) -> Iterator[Array]:
    """Yield the arrays of a literal, tuples flattened."""
    if literal.shape.is_tuple:
        for element in literal.elements:
            yield from leaves(element)
    else:
        yield literal.value


def as_literal(value: Value) -> Literal:
    """Return a value as a literal, tuples nested."""
    if isinstance(value, tuple):
        return Literal.tuple(tuple(map(as_literal, value)))
    return Literal.of(value)


def read_literals(path: str) -> list[Array]:
    """Return the arrays in a file.

    Raises:
        ParseError: a line is not a literal, or the file is not NumPy's (INGOT0124).
        ResourceError: INGOT0411 the file cannot be read.
    """
    data = read_bytes(path, "give a file of arrays: .npz, .npy, .pb, or a literal on each line")
    if path.endswith((".npz", ".npy")):
        return _read_numpy(data, path)
    lines = data.decode("utf-8", "surrogateescape").splitlines()
    return [read_literal(line, path) for line in lines if line.strip() and not line.startswith("#")]


def _read_numpy(data: bytes, path: str) -> list[Array]:
    try:
        found = np.load(io.BytesIO(data))
        rows = [found[name] for name in found.files] if path.endswith(".npz") else [found]
    except Exception as error:  # NumPy passes on exceptions of zipfile, zlib, tokenize and others.
        raise _not_numpy(path, str(error)) from error
    if not all(isinstance(row, np.ndarray) for row in rows):
        raise _not_numpy(path, "what it holds is no array")
    return rows


def _not_numpy(path: str, why: str) -> ParseError:
    return ParseError(
        f"{path} is not a file of arrays written by NumPy: {why}",
        code="INGOT0124",
        hint="write it with numpy.savez (.npz) or numpy.save (.npy)",
    )


def read_literal(line: str, name: str = "<literal>") -> Array:
    """Return the array of a literal such as `f32[2] {1, 2}`."""
    shape, _, value = line.strip().partition(" ")
    text = f"HloModule literal\nENTRY main {{\n  ROOT c = {shape} constant({value})\n}}\n"
    literal: Literal = parse(text, name).entry.root.attributes.literal
    return literal.value


def write_literals(path: str, values: list[Array]) -> None:
    """Write arrays to a file, in the format of its suffix.

    Raises:
        ExecutionError: INGOT0521 a .npy file holds one array, and there are more or none.
        ResourceError: INGOT0411 the file cannot be written.
    """
    block = io.BytesIO()
    if path.endswith(".npz"):
        np.savez(block, *values)
    elif path.endswith(".npy"):
        if len(values) != 1:
            raise ExecutionError(
                f"{path} can hold one array, and there are {len(values)}",
                code="INGOT0521",
                hint="give a file that ends in .npz, or in anything else for text",
            )
        np.save(block, values[0])
    else:
        block.write("".join(f"{literal_text(value)}\n" for value in values).encode())
    write_bytes(block.getvalue(), path)


def literal_text(value: Array) -> str:
    """Return an array as HLO text writes it, with its shape."""
    literal = Literal.of(value)
    return f"{literal.shape.to_string(with_layout=False)} {write_literal(literal)}"


def as_arguments(module: Module, arrays: list[Array], path: str) -> list[Value]:
    """Return arrays as values of the entry's parameters, tuples nested.

    Raises:
        ExecutionError: INGOT0521 there are more or fewer than the parameters have leaves.
    """
    wanted = sum(len(shape.leaves()) for shape in module.parameter_shapes)
    if len(arrays) != wanted:
        raise ExecutionError(
            f"{path} has {len(arrays)} arrays, the parameters have {wanted}",
            code="INGOT0521",
            hint="give one array per leaf of every parameter, in order",
        )
    following = iter(arrays)
    return [_nest(shape, following) for shape in module.parameter_shapes]


def _nest(shape: Shape, following: Iterator[Array]) -> Value:
    if shape.is_tuple:
        return tuple(_nest(element, following) for element in shape.elements)
    value: Any = next(following)
    # NumPy files lack bf16 and similar types: such arrays are read as raw bytes.
    if value.dtype.kind == "V" and value.dtype.itemsize == shape.dtype.bytes:
        return value.view(shape.dtype.numpy)
    return value
