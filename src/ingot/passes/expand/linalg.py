# SPDX-License-Identifier: Apache-2.0
"""`cholesky` and `triangular-solve` as LAPACK calls.

Both pass their rows to LAPACK as columns, so no element moves: the lower triangle of a matrix is
the upper one of its transpose, `a x = b` is `x' a' = b'`. Floats under 32 bits are computed in f32.

Source: xla/service/cholesky_expander.cc, triangular_solve_expander.cc for what comes out: zeros in
the other triangle, NaN throughout where a matrix is not positive definite.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.linalg import TriangularSolveAttributes
from ingot.hlo.rewrite.op_pass import Expander
from ingot.hlo.shape import Shape
from ingot.passes.expand.lapack_calls import Dims, lapack_call, lapack_element, succeeded
from ingot.support.records import record


def _cholesky(op: Instruction, build: Builder, module: Module) -> Instruction:
    lower: bool = op.attributes.lower
    element = lapack_element(op.shape.dtype)
    a = build.convert_to(op.operands[0], element)
    info_shape = Shape.array(S32, a.shape.dims[:-2])
    factor, info = lapack_call(
        build, "potrf", [a], [a.shape.with_dims(a.shape.dims), info_shape],
        {"uplo": "U" if lower else "L"}, aliases="{{0}: (0, {})}", columns=False,
    )  # fmt: skip
    dims = a.shape.dims
    zero, nan = build.full(0, factor.shape), build.full(float("nan"), factor.shape)
    factor = build.select(triangle(build, dims, lower=lower), factor, zero)
    # LAPACK may not notice NaN; a NaN of the operand has reached the diagonal.
    whole = build.compare(factor, factor, direction="EQ")
    true = build.constant(True)
    dimensions = tuple(range(len(dims) - 2, len(dims)))
    both = module.take(scalar_computation("and", PRED))
    sound = build.reduce(whole, true, dimensions=dimensions, to_apply=both)
    sound = build.broadcast_to(sound, dims, tuple(range(len(dims) - 2)))
    ok = build.and_(sound, succeeded(build, info, dims))
    return build.convert_to(build.select(ok, factor, nan), op.shape.dtype)


def _triangular_solve(op: Instruction, build: Builder, module: Module) -> Instruction:
    given = op.as_(TriangularSolveAttributes)
    element = lapack_element(op.shape.dtype)
    a, b = (build.convert_to(operand, element) for operand in op.operands)
    characters = {
        "side": "R" if given.left_side else "L",
        "uplo": "U" if given.lower else "L",
        "trans_x": {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}[given.transpose_a],
        "diag": "U" if given.unit_diagonal else "N",
    }
    results = [b.shape.with_dims(b.shape.dims)]
    aliases = "{{}: (1, {})}"
    (x,) = lapack_call(build, "trsm", [a, b], results, characters, aliases=aliases, columns=False)
    return build.convert_to(x, op.shape.dtype)


def triangle(build: Builder, dims: Dims, *, lower: bool) -> Instruction:
    """Add the mask, a pred[`dims`], of a triangle of matrices, the diagonal included.

    The last two dimensions are rows and columns; `lower`: the triangle below the diagonal.
    """
    shape = Shape.array(S32, dims)
    rows = build.iota(shape=shape, iota_dimension=len(dims) - 2)
    columns = build.iota(shape=shape, iota_dimension=len(dims) - 1)
    return build.compare(rows, columns, direction="GE" if lower else "LE")


_EXPANSIONS: dict[str, Callable[[Instruction, Builder, Module], Instruction]] = {
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
}


@record
class LinalgExpander(Expander):
    """Rewrites the ops of linear algebra to custom calls of LAPACK targets."""

    name = "linalg-expander"

    concerns = frozenset(_EXPANSIONS)

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the call and the ops on its result."""
        return _EXPANSIONS[op.opcode](op, build, module)
