# SPDX-License-Identifier: Apache-2.0
"""Linear algebra: the factorization and the solver that have HLO opcodes.

Everything else (LU, QR, eigenvalues, singular values) reaches HLO as custom calls.

Source: StableHLO specification `cholesky`, `triangular_solve` (labels as there); XLA's text.
"""

from __future__ import annotations

from ingot.hlo.opdef import Codec, OpView, attribute, define, require
from ingot.hlo.shape import Shape
from ingot.support.records import record

FAMILY = "linalg"
TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


@record
class CholeskyAttributes:
    """Attributes of `cholesky`: `lower` says which triangle is read and which factor given."""

    lower: bool = attribute(Codec.BOOL, False)


@record(kw_only=True)
class TriangularSolveAttributes:
    """Attributes of `triangular-solve`: op(a) x = b, or x op(a) = b unless `left_side`.

    `transpose_a` has no default: XLA's text must have it.
    """

    left_side: bool = attribute(Codec.BOOL, False)
    lower: bool = attribute(Codec.BOOL, False)
    unit_diagonal: bool = attribute(Codec.BOOL, False)
    transpose_a: str = attribute(Codec.NAME)


def _require_matrices(operand: Shape, labels: tuple[str, str, str]) -> None:
    element = operand.dtype
    require(
        element.is_float or element.is_complex,
        labels[0],
        f"the elements of the matrices are {element.name}, not floats or complex numbers",
    )
    require(operand.rank >= 2, labels[1], f"{operand} has no matrices: its rank is below 2")
    square = operand.dims[-1] == operand.dims[-2]
    require(square, labels[2], f"the matrices of {operand} are not square")


def _infer_cholesky(view: OpView) -> Shape:
    (operand,) = view.operands
    _require_matrices(operand, ("cholesky_i1", "cholesky_c2", "cholesky_c3"))
    return operand


def _infer_triangular_solve(view: OpView) -> Shape:
    a, b = view.operands
    given = view.as_(TriangularSolveAttributes)
    known = given.transpose_a in TRANSPOSES
    require(known, "triangular_solve_i6", f"transpose_a {given.transpose_a} is not known")
    labels = ("triangular_solve_i1", "triangular_solve_c2", "triangular_solve_c3")
    _require_matrices(a, labels)
    require(a.dtype is b.dtype, "triangular_solve_c1", f"triangular-solve of {a} and {b}")
    require(a.rank == b.rank, "triangular_solve_c2", f"triangular-solve of {a} and {b}")
    side = -2 if given.left_side else -1
    fits = a.dims[:-2] == b.dims[:-2] and a.dims[-1] == b.dims[side]
    require(fits, "triangular_solve_c3", f"triangular-solve of {a} and {b}")
    return b


define("cholesky", family=FAMILY, arity=1, infer=_infer_cholesky, attributes=CholeskyAttributes,
       doc="triangular factor of positive definite matrices; NaN if they are not")  # fmt: skip
define("triangular-solve", family=FAMILY, arity=2, infer=_infer_triangular_solve,
       attributes=TriangularSolveAttributes, results="c4",
       doc="solution of linear equations with triangular matrices")  # fmt: skip
