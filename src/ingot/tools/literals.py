"""Literals in files: inputs that are given, outputs that are kept.

`.npz` has one array per leaf, in order; `.npy` one array; any other file is text with one literal
per line as HLO text writes it (`f32[2] {1, 2}`), `#` beginning a comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ingot.evaluator import Value
from ingot.formats.hlo_text import parse
from ingot.formats.hlo_text.literal_text import write_literal
from ingot.hlo.literal import Array, Literal
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import ExecutionError
from ingot.tools.loading import read_bytes


def read_literals(path: str) -> list[Array]:
    """Return the arrays in a file.

    Raises:
        ParseError: a line is not a literal.
        ResourceError: the file cannot be read.
    """
    if path.endswith(".npz"):
        with np.load(path) as file:
            return [file[name] for name in file.files]
    if path.endswith(".npy"):
        return [np.load(path)]
    lines = read_bytes(path).decode("utf-8").splitlines()
    return [read_literal(line, path) for line in lines if line.strip() and not line.startswith("#")]


def read_literal(line: str, name: str = "<literal>") -> Array:
    """Return the array that `f32[2] {1, 2}` says."""
    shape, _, value = line.strip().partition(" ")
    text = f"HloModule literal\nENTRY main {{\n  ROOT c = {shape} constant({value})\n}}\n"
    literal: Literal = parse(text, name).entry.root.attributes.literal
    return literal.value


def write_literals(path: str, values: list[Array]) -> None:
    """Write arrays to a file of the kind that its ending says."""
    if path.endswith(".npz"):
        np.savez(path, *values)
    elif path.endswith(".npy"):
        np.save(path, values[0])
    else:
        Path(path).write_text("".join(f"{literal_text(value)}\n" for value in values), "utf-8")


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
    # NumPy files know no bf16 and the like: their bytes come back as raw ones.
    if value.dtype.kind == "V" and value.dtype.itemsize == shape.dtype.bytes:
        return value.view(shape.dtype.numpy)
    return value
