# SPDX-License-Identifier: Apache-2.0
"""Batch normalization: training, inference and gradient.

Source: StableHLO specification `batch_norm_training`, `batch_norm_inference`, `batch_norm_grad`
(labels as there).
"""

from __future__ import annotations

import struct

from ingot.hlo.opdef import Codec, OpView, attribute, define, label_prefix, require
from ingot.hlo.shape import Shape
from ingot.support.records import record

FAMILY = "normalization"


@record
class BatchNormAttributes:
    """Attributes of the batch-norm ops: the number added to variances, the feature dimension."""

    epsilon: float = attribute(Codec.FLOAT)
    feature_index: int = attribute(Codec.INT)

    @property
    def exact_epsilon(self) -> float:
        """The number that is added: XLA holds `epsilon` in an f32."""
        return struct.unpack("f", struct.pack("f", self.epsilon))[0]


def _require_features(view: OpView, vectors: tuple[Shape, ...], labels: str) -> Shape:
    """Check that `vectors` have one element per feature; return the shape of the first.

    `labels` are the numbers of their constraints. Their float type may differ from the operand's.
    """
    operand = view.operands[0]
    label = label_prefix(view.opcode)
    dim: int = view.attributes.feature_index
    require(
        0 <= dim < operand.rank, f"{label}_c1", f"feature_index {dim} is no dimension of {operand}"
    )
    require(operand.dtype.is_float, f"{label}_i1", f"{view.opcode} takes floats, not {operand}")
    features = (operand.dims[dim],)
    for vector, number in zip(vectors, labels, strict=True):
        if vector.dims != features or not vector.dtype.is_float:
            message = f"{view.opcode} of {operand} takes vectors of {features[0]} floats"
            require(False, f"{label}_c{number}", f"{message}, not {vector}")
    return vectors[0]


def _infer_training(view: OpView) -> Shape:
    operand, *vectors = view.operands
    scale = _require_features(view, tuple(vectors), "34")
    return Shape.tuple((operand, scale, scale))


def _infer_inference(view: OpView) -> Shape:
    operand, *vectors = view.operands
    _require_features(view, tuple(vectors), "3456")
    return operand


def _infer_grad(view: OpView) -> Shape:
    operand, scale, mean, variance, gradient = view.operands
    vector = _require_features(view, (scale, mean, variance), "544")
    require(
        operand.compatible(gradient),
        "batch_norm_grad_c3",
        f"gradient {gradient} does not have the shape of {operand}",
    )
    return Shape.tuple((operand, vector, vector))


define("batch-norm-training", family=FAMILY, arity=3, infer=_infer_training,
       attributes=BatchNormAttributes, results="c7",
       doc="operand normalized with its own mean and variance, and those")  # fmt: skip
define("batch-norm-inference", family=FAMILY, arity=5, infer=_infer_inference,
       attributes=BatchNormAttributes, results="c7",
       doc="operand normalized with given mean and variance")  # fmt: skip
define("batch-norm-grad", family=FAMILY, arity=5, infer=_infer_grad,
       attributes=BatchNormAttributes, results="c3",
       doc="gradients of batch-norm-training for operand, scale and offset")  # fmt: skip
