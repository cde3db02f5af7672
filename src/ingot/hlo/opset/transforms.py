# SPDX-License-Identifier: Apache-2.0
"""Transforms of whole dimensions: `fft`, and `scan`, which carries a state along a dimension.

Source: StableHLO specification `fft` (labels as there); xla/hlo/ir/hlo_instructions.cc (scan).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import COMPLEX_OF, REAL_OF
from ingot.hlo.interfaces import FusionClass, RegionKind
from ingot.hlo.opdef import Codec, OpView, attribute, define, require
from ingot.hlo.shape import Shape
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.hlo.instruction import Instruction

FAMILY = "transforms"
KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")


@record
class FftAttributes:
    """Attributes of `fft`: FFT IFFT RFFT IRFFT, and the sizes of the last dimensions."""

    fft_type: str = attribute(Codec.NAME)
    fft_length: tuple[int, ...] = attribute(Codec.INTS)


@record(kw_only=True)
class ScanAttributes:
    """Attributes of `scan`: from inputs and initial carries to outputs and carries.

    A single output or carry may be an array instead of a tuple.
    """

    dimensions: tuple[int, ...] = attribute(Codec.INTS)
    num_carries: int = attribute(Codec.INT, 0)
    is_reverse: bool = attribute(Codec.BOOL, False)
    is_associative: str = attribute(Codec.NAME, "", names=("true", "false"))
    to_apply: Computation = attribute(Codec.COMPUTATION)


def _infer_fft(view: OpView) -> Shape:
    (operand,) = view.operands
    kind, lengths = view.attributes.fft_type, view.attributes.fft_length
    require(kind in KINDS, "fft_i2", f"fft_type {kind} is not known")
    require(min(lengths, default=0) >= 0, "fft_i3", f"fft of length {lengths}")
    require(1 <= len(lengths) <= 3, "fft_c3", f"fft over {len(lengths)} dimensions")
    require(len(lengths) <= operand.rank, "fft_c1", f"fft of length {lengths} of {operand}")
    element = operand.dtype
    real = kind == "RFFT"
    require(element in (COMPLEX_OF if real else REAL_OF), "fft_c2", f"{kind} of {operand}")
    if kind in ("FFT", "IFFT"):
        return operand  # as in XLA: surplus elements are cut off, missing ones are zeros
    last = operand.dims[operand.rank - len(lengths) :]
    half = (*lengths[:-1], lengths[-1] // 2 + 1 if lengths[-1] else 0)
    require(last == (half if kind == "IRFFT" else lengths), "fft_c4", f"{kind} of {operand}")
    kept = operand.dims[: operand.rank - len(lengths)]
    if real:
        return Shape.array(COMPLEX_OF[element], (*kept, *half))
    return Shape.array(REAL_OF[element], (*kept, *lengths))


def _infer_scan(view: OpView) -> Shape:
    given = view.as_(ScanAttributes)
    count = given.num_carries
    require(0 <= count <= len(view.operands), "scan_c1", f"{count} carries")
    first = len(view.operands) - count
    inputs, carries = view.operands[:first], view.operands[first:]
    require(len(given.dimensions) == 1, "scan_c2", "scan goes along one dimension")
    (dimension,) = given.dimensions
    for value in inputs:
        require(0 <= dimension < value.rank, "scan_c2", f"dimension {dimension} of {value}")
        same = value.dims[dimension] == inputs[0].dims[dimension]
        require(same, "scan_c3", f"scan of {value} and {inputs[0]}")
    called = given.to_apply
    wanted = (*(_without(value, dimension) for value in inputs), *carries)
    have = tuple(parameter.shape for parameter in called.parameters)
    require(
        len(have) == len(wanted)
        and all(a.compatible(b) for a, b in zip(have, wanted, strict=True)),
        "scan_c4",
        f"computation {called.name} does not take one step of the operands",
    )
    root = called.root.shape
    results = (root,) if root.is_array else root.elements
    require(len(results) >= count, "scan_c5", f"computation {called.name} gives {root}")
    outputs = (
        _with(
            step, dimension, inputs[0].dims[dimension] if inputs else _given_size(view, dimension)
        )
        for step in results[: len(results) - count]
    )
    found = (*outputs, *carries)
    declared = view.declared
    alone = root.is_array if declared is None else declared.is_array
    return found[0] if alone and len(found) == 1 else Shape.tuple(found)


def _given_size(view: OpView, dimension: int) -> int | dim.Dim:
    """Return the number of steps of a scan without inputs."""
    given = view.given()
    return (given if given.is_array else given.elements[0]).dims[dimension]


def _without(shape: Shape, dimension: int) -> Shape:
    return shape.with_dims((*shape.dims[:dimension], *shape.dims[dimension + 1 :]))


def _with(shape: Shape, dimension: int, size: int | dim.Dim) -> Shape:
    return shape.with_dims((*shape.dims[:dimension], size, *shape.dims[dimension:]))


def _fft_flops(transform: Instruction) -> int | Dim:
    """Return those of radix-2 transforms, 5 n log2 n of n complex numbers, half if real."""
    given = transform.as_(FftAttributes)
    shapes = (transform.shape, transform.operands[0].shape)
    real = [shape for shape in shapes if not shape.dtype.is_complex]
    levels = sum((length - 1).bit_length() for length in given.fft_length)
    return real[0].size * levels * 5 // 2 if real else shapes[0].size * levels * 5


define("fft", family=FAMILY, arity=1, infer=_infer_fft, attributes=FftAttributes,
       results=("c5", "c2"), fusion=FusionClass.OPAQUE, flops=_fft_flops,
       doc="discrete Fourier transform of the last dimensions")  # fmt: skip
define("scan", family=FAMILY, arity=(1, None), infer=_infer_scan, attributes=ScanAttributes,
       results="c6", regions=RegionKind.SCAN,
       doc="a computation applied step by step along a dimension, with a state")  # fmt: skip
