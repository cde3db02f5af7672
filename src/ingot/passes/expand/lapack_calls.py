# SPDX-License-Identifier: Apache-2.0
"""Custom calls of LAPACK targets, and `cholesky` and `triangular-solve` as such calls.

LAPACK's matrices are column-major. A pass that needs a matrix as it is written passes `columns`:
the call is then surrounded by transposes. One that can solve the transposed problem (a triangular
factor is the other factor of the transpose) passes the rows as columns, so no element moves. Either
way the call has the form that `custom-call-layouts` gives to others.

`cholesky` and `triangular-solve` pass their rows to LAPACK as columns: the lower triangle of a
matrix is the upper one of its transpose, `a x = b` is `x' a' = b'`. Floats under 32 bits are
computed in f32.

Source: xla/service/cholesky_expander.cc, triangular_solve_expander.cc for what comes out: zeros in
the other triangle, NaN throughout where a matrix is not positive definite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, PRED, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.linalg import TriangularSolveAttributes
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.semantics.call_layouts import Order, note_orders, physical_dims, row_major
from ingot.semantics.custom_calls import set_config

_LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
Dims = tuple[int | Dim, ...]


def lapack_element(element: DType) -> DType:
    """Return the element type in which LAPACK computes for `element`."""
    return element if element.name in _LETTERS else F32


def lapack_call(
    build: Builder,
    routine: str,
    operands: Sequence[Instruction],
    results: Sequence[Shape],
    attributes: Mapping[str, str | int] | None = None,
    *,
    aliases: str = "",
    columns: bool = True,
) -> list[Instruction]:
    """Add a call of `lapack_<letter><routine>_ffi` and return its results.

    Args:
        build: the builder to add to.
        routine: LAPACK's name without the type's letter.
        operands: the operands.
        results: shapes of the results, as they are in HLO.
        attributes: attribute -> character, or integer.
        aliases: `output_to_operand_aliasing`.
        columns: LAPACK gets the matrices as HLO has them; otherwise it gets their rows as columns,
            which is the transpose.
    """
    rank = max(operand.shape.rank for operand in operands)
    if columns:
        operands = [_swapped(build, operand, rank) for operand in operands]
        results = [
            shape.with_dims(physical_dims(shape.dims, _order(shape, rank))) for shape in results
        ]
    shapes = [operand.shape for operand in operands]
    call = build.custom_call(
        *operands,
        shape=results[0] if len(results) == 1 else Shape.tuple(tuple(results)),
        custom_call_target=f"lapack_{_LETTERS[shapes[0].dtype.name]}{routine}_ffi",
        operand_layout_constraints="{" + ", ".join(map(str, shapes)) + "}",
        output_to_operand_aliasing=aliases,
        api_version="API_VERSION_TYPED_FFI",
    )
    if attributes:
        inner = ", ".join(f"{name} = {_literal(x)}" for name, x in sorted(attributes.items()))
        set_config(call, "{" + inner + "}")
    note_orders(call, [_order(s, rank) for s in shapes], [_order(s, rank) for s in results])
    found = build.elements_of(call)
    return [_swapped(build, item, rank) for item in found] if columns else found


def _literal(value: str | int) -> str:
    return f"{value} : i32" if isinstance(value, int) else f"{ord(value)} : ui8"


def succeeded(build: Builder, info: Instruction, dims: Dims) -> Instruction:
    """Add `info == 0` of each matrix, broadcast over its elements to `dims`."""
    ok = build.compare(info, 0, direction="EQ")
    return build.broadcast_to(ok, dims, tuple(range(info.shape.rank)))


def _order(shape: Shape, rank: int) -> Order:
    if shape.rank < rank:
        return row_major(shape.rank)
    return (rank - 2, rank - 1, *range(rank - 3, -1, -1))


def _swapped(build: Builder, matrix: Instruction, rank: int) -> Instruction:
    """Return the transposes of matrices, and vectors unchanged."""
    if matrix.shape.rank < rank:
        return matrix
    return build.transpose(matrix, dimensions=(*range(rank - 2), rank - 1, rank - 2))


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


@expander("linalg-expander", *_EXPANSIONS)
def linalg_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites the ops of linear algebra to custom calls of LAPACK targets."""
    return _EXPANSIONS[op.opcode](op, build, module)
