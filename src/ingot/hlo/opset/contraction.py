# SPDX-License-Identifier: Apache-2.0
"""Contractions: `dot` with batch and contracting dimensions, `convolution`.

Source: StableHLO specification `dot_general`, `convolution` (labels as there); XLA's text names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import C64, C128, F32, F64, DType, Kind
from ingot.hlo.interfaces import FusionClass, Trait
from ingot.hlo.opdef import Codec, OpView, attribute, define, require
from ingot.hlo.opset.windows import require_window
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window
from ingot.support.diagnostics import VerifyError
from ingot.support.records import record
from ingot.support.regex import regex

if TYPE_CHECKING:
    from ingot.hlo.instruction import Instruction

FAMILY = "contraction"
# In the order of XLA's numbers in the proto, from 0 and from 1.
PRECISIONS = ("default", "high", "highest", "packed_nibble")
DOT_ALGORITHMS = (
    "dot_any_f8_any_f8_f32", "dot_any_f8_any_f8_f32_fast_accum", "dot_f16_f16_f16",
    "dot_f16_f16_f32", "dot_bf16_bf16_bf16", "dot_bf16_bf16_f32", "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6", "dot_tf32_tf32_f32", "dot_tf32_tf32_f32_x3", "dot_f32_f32_f32",
    "dot_f64_f64_f64", "dot_bf16_bf16_f32_x9",
)  # fmt: skip
_LABELS = regex(r"(\w+)_(\w+)->(\w+)")


@record
class DotAttributes:
    """Attributes of `dot`; the result is batch dims, then lhs free dims, then rhs free dims."""

    lhs_batch_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    lhs_contracting_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    rhs_batch_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    rhs_contracting_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    operand_precision: tuple[str, ...] = attribute(Codec.NAMES, (), names=PRECISIONS)
    algorithm: str = attribute(Codec.NAME, "", names=DOT_ALGORITHMS)

    def lhs_free_dims(self, rank: int) -> tuple[int, ...]:
        """Return the lhs dimensions that go to the result, of an operand of `rank`."""
        taken = (*self.lhs_batch_dims, *self.lhs_contracting_dims)
        return tuple(dimension for dimension in range(rank) if dimension not in taken)

    def rhs_free_dims(self, rank: int) -> tuple[int, ...]:
        """Return the rhs dimensions that go to the result, of an operand of `rank`."""
        taken = (*self.rhs_batch_dims, *self.rhs_contracting_dims)
        return tuple(dimension for dimension in range(rank) if dimension not in taken)


@record
class ConvolutionLabels:
    """The role of each dimension of a convolution's operands and result, in XLA's letters.

    Digits are spatial dimensions; b batch, f feature of input and output; i, o of the kernel.
    """

    lhs: str
    rhs: str
    output: str

    @staticmethod
    def parse(text: str) -> ConvolutionLabels:
        """Return the labels of XLA's text `b01f_01io->b01f`.

        Raises:
            VerifyError: INGOT0212 `text` has another form.
        """
        match = _LABELS.fullmatch(text)
        if match is None:
            raise VerifyError(f"not dimension labels: '{text}'", code="INGOT0212")
        return ConvolutionLabels(*match.groups())

    def __str__(self) -> str:
        return f"{self.lhs}_{self.rhs}->{self.output}"

    def dimensions(self, which: str, letters: str) -> tuple[int, ...]:
        """Return the dimensions of `letters[0]`, of the spatial ones in order, of `letters[1]`."""
        spatial = "".join(str(number) for number in range(len(which) - 2))
        return tuple(which.index(letter) for letter in letters[0] + spatial + letters[1])


@record(kw_only=True)
class ConvolutionAttributes:
    """Attributes of `convolution`; without `window` there are no spatial dimensions."""

    window: Window = attribute(Codec.WINDOW, ())
    dim_labels: str = attribute(Codec.DIM_LABELS)
    feature_group_count: int = attribute(Codec.INT, 1)
    batch_group_count: int = attribute(Codec.INT, 1)
    operand_precision: tuple[str, ...] = attribute(Codec.NAMES, (), names=PRECISIONS)

    @property
    def labels(self) -> ConvolutionLabels:
        """The dimension labels, read."""
        return ConvolutionLabels.parse(self.dim_labels)


def _check_dims(
    labels: tuple[str, str, str], batch: tuple[int, ...], contracting: tuple[int, ...], shape: Shape
) -> None:
    unique, *ranges = labels
    for label, dimensions in zip(ranges, (batch, contracting), strict=True):
        if not all(0 <= dimension < shape.rank for dimension in dimensions):
            require(
                False,
                f"dot_general_{label}",
                f"{shape} does not have all of the dimensions {dimensions}",
            )
    dimensions = (*batch, *contracting)
    if len(set(dimensions)) != len(dimensions):
        require(False, f"dot_general_{unique}", f"dimension numbers {dimensions} repeat")


_RANK = {Kind.PRED: 0, Kind.UNSIGNED: 1, Kind.SIGNED: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}


def _higher(left: DType, right: DType) -> DType:
    """Return the more general of two types: complex over float over integer, then the wider one."""
    order = [(_RANK[element.kind], element.bits) for element in (left, right)]
    return right if order[1] > order[0] else left


def summed_type(left: DType, right: DType, result: DType) -> DType:
    """Return the type that products of `left` and `right` are summed in where `result` is wanted.

    It is `result`, unless the operands' kind of number is more general: then the sum is made in
    the operands' type and converted once. Floats are summed in f32 at least.
    """
    higher = _higher(left, right)
    if _RANK[higher.kind] <= _RANK[result.kind]:
        return result
    wide = F64 in (left, right) or C128 in (left, right)
    if higher.is_complex:
        return C128 if wide else C64
    if higher.is_float:
        return F64 if wide else F32
    return higher


def _infer_dot(view: OpView) -> Shape:
    lhs, rhs = view.operands
    given = view.as_(DotAttributes)
    require(
        len(given.lhs_batch_dims) == len(given.rhs_batch_dims),
        "dot_general_c1",
        "as many lhs as rhs batch dimensions",
    )
    require(
        len(given.lhs_contracting_dims) == len(given.rhs_contracting_dims),
        "dot_general_c2",
        "as many lhs as rhs contracting dimensions",
    )
    _check_dims(("c3", "c5", "c6"), given.lhs_batch_dims, given.lhs_contracting_dims, lhs)
    _check_dims(("c4", "c7", "c8"), given.rhs_batch_dims, given.rhs_contracting_dims, rhs)
    for left, right in zip(given.lhs_batch_dims, given.rhs_batch_dims, strict=True):
        require(
            lhs.dims[left] == rhs.dims[right],
            "dot_general_c9",
            f"the batch dimensions of {lhs} and {rhs} differ",
        )
    for left, right in zip(given.lhs_contracting_dims, given.rhs_contracting_dims, strict=True):
        require(
            lhs.dims[left] == rhs.dims[right],
            "dot_general_c10",
            f"the contracted dimensions of {lhs} and {rhs} differ",
        )
    dims = (
        *(lhs.dims[dimension] for dimension in given.lhs_batch_dims),
        *(lhs.dims[dimension] for dimension in given.lhs_free_dims(lhs.rank)),
        *(rhs.dims[dimension] for dimension in given.rhs_free_dims(rhs.rank)),
    )
    return Shape.array(product_type(view), dims)


def product_type(view: OpView) -> DType:
    """Return the element type of sums of products: the declared one, any type of array.

    Sums are made in the type of `summed_type` and converted (XLA's `preferred_element_type`).
    """
    lhs, rhs = view.operands[:2]
    if view.declared is None or not view.declared.is_array:
        return _higher(lhs.dtype, rhs.dtype)
    return view.declared.dtype


def _require_labels(lhs: Shape, rhs: Shape, given: ConvolutionAttributes) -> None:
    labels, spatial = given.labels, len(given.window)
    digits = "".join(str(number) for number in range(spatial))
    require(
        lhs.rank == rhs.rank,
        "convolution_c1",
        f"convolution takes operands of one rank, got {lhs} and {rhs}",
    )
    message = f"a window of {spatial} dimensions does not fit {lhs} and {rhs}"
    require(lhs.rank == spatial + 2, "convolution_c2", message)
    require_window("convolution", given.window, ("", "c3", "c6", "c8"))
    for text, letters, label in (
        (labels.lhs, "bf", "convolution_c13"),
        (labels.rhs, "io", "convolution_c18"),
        (labels.output, "bf", "convolution_c20"),
    ):
        require(
            sorted(text) == sorted(digits + letters),
            label,
            f"dimension labels {labels} do not name each dimension once",
        )


def _infer_convolution(view: OpView) -> Shape:
    lhs, rhs = view.operands
    given = view.as_(ConvolutionAttributes)
    _require_labels(lhs, rhs, given)
    labels, groups, batches = given.labels, given.feature_group_count, given.batch_group_count
    require(groups > 0, "convolution_c21", f"feature_group_count is {groups}, not 1 or more")
    require(batches > 0, "convolution_c22", f"batch_group_count is {batches}, not 1 or more")
    require(
        groups == 1 or batches == 1,
        "convolution_c23",
        "feature_group_count and batch_group_count are both greater than 1",
    )
    batch, *spatial, feature = (
        lhs.dims[dimension] for dimension in labels.dimensions(labels.lhs, "bf")
    )
    inner, *kernel, outer = (
        rhs.dims[dimension] for dimension in labels.dimensions(labels.rhs, "io")
    )
    require(
        dim.mod(batch, batches) == 0,
        "convolution_c10",
        f"batch_group_count {batches} does not divide the batch of {lhs}",
    )
    require(
        dim.mod(feature, groups) == 0,
        "convolution_c11",
        f"feature_group_count {groups} does not divide the features of {lhs}",
    )
    require(
        dim.floordiv(feature, groups) == inner,
        "convolution_c14",
        f"the input features of {lhs} and of the kernel {rhs} differ",
    )
    require(
        dim.mod(outer, batches) == 0,
        "convolution_c15",
        f"batch_group_count {batches} does not divide the features of {rhs}",
    )
    require(
        dim.mod(outer, groups) == 0,
        "convolution_c16",
        f"feature_group_count {groups} does not divide the features of {rhs}",
    )
    sizes = [one.size for one in given.window]
    require(
        kernel == sizes,
        "convolution_c25",
        f"the sizes of window {given.window} are not those of the kernel {rhs}",
    )
    windows = [one.count(size) for one, size in zip(given.window, spatial, strict=True)]
    found = (dim.floordiv(batch, batches), *windows, outer)
    order = labels.dimensions(labels.output, "bf")
    dims = tuple(found[order.index(dimension)] for dimension in range(len(found)))
    return Shape.array(product_type(view), dims)


def _dot_flops(dot: Instruction) -> int | Dim:
    lhs = dot.operands[0].shape
    contracted = dot.as_(DotAttributes).lhs_contracting_dims
    return 2 * dot.shape.size * dim.product(lhs.dims[dimension] for dimension in contracted)


def _convolution_flops(convolution: Instruction) -> int | Dim:
    labels = convolution.as_(ConvolutionAttributes).labels.rhs
    kernel = convolution.operands[1].shape.dims
    summed = (size for label, size in zip(labels, kernel, strict=True) if label != "o")
    return 2 * convolution.shape.size * dim.product(summed)


define("dot", family=FAMILY, arity=2, infer=_infer_dot, attributes=DotAttributes,
       results="c12", spec="dot_general",
       traits={Trait.CONTRACTION}, fusion=FusionClass.CONTRACTION, flops=_dot_flops,
       doc="sums of products over contracting dimensions")  # fmt: skip
define("convolution", family=FAMILY, arity=2, infer=_infer_convolution,
       results="c25", attributes=ConvolutionAttributes,
       traits={Trait.CONTRACTION}, fusion=FusionClass.CONTRACTION,
       flops=_convolution_flops, doc="sums of products over windows")  # fmt: skip
