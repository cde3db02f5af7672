# SPDX-License-Identifier: Apache-2.0
"""Reads `tests/ops/<op>.hlo`: programs with their inputs and expected outputs in comments.

A file holds cases divided by lines `// -----`. A case is a module and, in comments before it:

    // TOLERANCE: 2 ulp                (else outputs are equal bit for bit; any NaN equals any NaN)
    // XLA: why real XLA gives something else   (the case is not run on real XLA)
    // INPUT: f32[3] [1, nan, -0.0]    (one per entry parameter, in order)
    // EXPECT: f32[3] [1, nan, -0.0]   (one per leaf of the result, in order)

An INPUT after an EXPECT starts another run of the same module, so that one module with symbolic
sizes runs at several. Values are JSON with `nan` and `inf`; floats are read as the nearest number
of their type. Values of 8-bit and narrower floats are written as they are, like every other type.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ingot.hlo.dtype import dtype, from_numpy

Array = np.ndarray[Any, np.dtype[Any]]
_COMMENT = re.compile(r"//\s*(INPUT|EXPECT|TOLERANCE|XLA):\s*(.*)")
_VALUE = re.compile(r"(\w+)\[([\d,]*)\]\s+(.*)")


@dataclass
class Run:
    """Inputs and what they must give."""

    inputs: list[Array] = field(default_factory=list)
    outputs: list[Array] = field(default_factory=list)


@dataclass
class Case:
    """A module and its runs."""

    name: str
    text: str = ""
    runs: list[Run] = field(default_factory=list)
    ulps: int = 0
    differs_from_xla: str = ""


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file."""
    parts = re.split(r"^// -----.*$", path.read_text(), flags=re.MULTILINE)
    return [_read_case(f"{path.stem}-{number}", part) for number, part in enumerate(parts)]


def _read_case(name: str, text: str) -> Case:
    case = Case(name, text)
    for line in text.splitlines():
        match = _COMMENT.match(line)
        if match is None:
            continue
        word, rest = match.groups()
        if word == "TOLERANCE":
            case.ulps = int(rest.removesuffix("ulp"))
        elif word == "XLA":
            case.differs_from_xla = rest
        elif word == "INPUT":
            if not case.runs or case.runs[-1].outputs:
                case.runs.append(Run())
            case.runs[-1].inputs.append(read_value(rest))
        else:
            if not case.runs:
                case.runs.append(Run())
            case.runs[-1].outputs.append(read_value(rest))
    return case


def read_value(text: str) -> Array:
    """Return the array that `f32[2] [1, nan]` says."""
    match = _VALUE.match(text)
    assert match is not None, f"not a value: {text}"
    element, dims, data = match.groups()
    data = re.sub(r"\bnan\b", "NaN", re.sub(r"\binf\b", "Infinity", data))
    shape = tuple(int(size) for size in dims.split(",") if size)
    values = json.loads(data)
    if dtype(element).is_integer:
        return np.array(values, object).astype(dtype(element).numpy).reshape(shape)
    return np.array(values, np.float64).astype(dtype(element).numpy).reshape(shape)


def difference(got: Array, want: Array, ulps: int) -> str:
    """Return what is different, or nothing: NaN for NaN, -0 only for -0, else within `ulps`."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"is {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    if not dtype_is_float(want):
        return "" if np.array_equal(got, want) else f"is {got.tolist()}, not {want.tolist()}"
    wide, other = got.astype(np.float64), want.astype(np.float64)
    nan = np.isnan(other)
    with np.errstate(all="ignore"):
        error = np.abs(wide - other)
        allowed = ulps * _spacing(want)
        near = (wide == other) | (error <= allowed)
    same_sign = (other != 0) | (wide != 0) | (np.signbit(wide) == np.signbit(other))
    good = np.where(nan, np.isnan(wide), near & same_sign)
    if good.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~good)[0])
    return f"is {wide[place]!r} at {place}, not {other[place]!r}"


def dtype_is_float(value: Array) -> bool:
    """Whether elements are real floats, ml_dtypes' too."""
    return from_numpy(value.dtype).is_float


def _spacing(value: Array) -> Array:
    element = from_numpy(value.dtype)
    _, exponent = np.frexp(np.abs(value.astype(np.float64)))
    least = {"f64": -1022, "f16": -14}.get(element.name, -126)
    return np.ldexp(1.0, np.maximum(exponent - 1, least) - element.mantissa)


def flat(value: Any) -> list[Any]:
    """Return the arrays of a value, whose tuples may be nested."""
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in flat(item)]
    return [np.asarray(value)]
