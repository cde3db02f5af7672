# SPDX-License-Identifier: Apache-2.0
"""Shape constraints of the custom calls that XLA itself defines.

XLA's client library and its dynamic padder write computations without an opcode as custom calls
without a layout. Ingot implements these targets itself (`evaluator/own_targets.py`,
`custom-call-expander`), so their shapes are checked like those of ops; other targets check their
own.

Source: xla/hlo/builder/lib/{qr,self_adjoint_eig,lu_decomposition,approx_topk}.cc;
xla/service/dynamic_padder.cc; xla/hlo/transforms/expanders.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED, REAL_OF, S32
from ingot.hlo.opdef import OpView, require
from ingot.hlo.shape import Shape

SIZE = "ingot.size"
"""The target that defines a size (`hlo.size_definitions`)."""


def require_known(view: OpView, given: Shape) -> None:
    """Check a custom call of a target that Ingot knows; `given` is its declared shape."""
    check = _CHECKS.get(view.attributes.custom_call_target)
    if check is not None:
        check(view, given)


def _operands(view: OpView, name: str, count: int) -> tuple[Shape, ...]:
    """Return the operands, `count` arrays."""
    fits = len(view.operands) == count and all(operand.is_array for operand in view.operands)
    if not fits:
        message = f"{view.attributes.custom_call_target} takes {count} arrays"
        require(False, f"{name}_arity", f"{message}, got {len(view.operands)} operands")
    return view.operands


def _matrices(view: OpView, name: str, count: int = 1) -> tuple[Shape, ...]:
    """Return the operands; the first one holds matrices of floats or complex numbers."""
    operands = _operands(view, name, count)
    element = operands[0].dtype
    if not (element.is_float or element.is_complex) or operands[0].rank < 2:
        message = f"{view.attributes.custom_call_target} takes matrices of floats"
        require(False, f"{name}_i1", f"{message}, not {operands[0]}")
    return operands


def _require_result(view: OpView, name: str, given: Shape, wanted: Shape) -> None:
    if not given.compatible(wanted):
        message = f"{view.attributes.custom_call_target} gives {wanted}, declared as {given}"
        require(False, f"{name}_c1", message)


def _qr(view: OpView, given: Shape) -> None:
    (a,) = _matrices(view, "qr")
    *batch, rows, columns = a.dims
    factors = a.with_dims((*batch, _least(rows, columns)))
    _require_result(view, "qr", given, Shape.tuple((a, factors)))


def _least(left: int | Dim, right: int | Dim) -> int | Dim:
    return left if left == right else dim.minimum(left, right)


def _householder_product(view: OpView, given: Shape) -> None:
    a, factors = _matrices(view, "householder_product", 2)
    fits = factors.dtype is a.dtype and factors.dims[:-1] == a.dims[:-2] and factors.rank
    count = factors.dims[-1] if factors.rank else 0
    few = isinstance(count, Dim) or isinstance(a.dims[-1], Dim) or count <= a.dims[-1]
    if not fits or not few:
        require(
            False, "householder_product_i2", f"the factors {factors} do not fit the vectors of {a}"
        )
    _require_result(view, "householder_product", given, a)


def _eigh(view: OpView, given: Shape) -> None:
    (a,) = _matrices(view, "eigh")
    if a.dims[-1] != a.dims[-2]:
        require(False, "eigh_i1", f"the matrices of {a} are not square")
    values = a.with_dims(a.dims[:-1]).with_dtype(REAL_OF.get(a.dtype, a.dtype))
    _require_result(view, "eigh", given, Shape.tuple((a, values)))


def _lu(view: OpView, given: Shape) -> None:
    (a,) = _matrices(view, "lu_decomposition")
    *batch, rows, columns = a.dims
    pivots = Shape.array(S32, (*batch, _least(rows, columns)))
    order = Shape.array(S32, (*batch, rows))
    _require_result(view, "lu_decomposition", given, Shape.tuple((a, pivots, order)))


def _topk(view: OpView, given: Shape) -> None:
    (values,) = _operands(view, "top_k", 1)
    if not values.rank or values.dtype.is_complex:
        require(False, "top_k_i1", f"TopK takes rows of numbers, not {values}")
    parts = given.elements
    fits = (
        len(parts) == 2
        and parts[0].rank == values.rank
        and parts[0].dims[:-1] == values.dims[:-1]
        and _within(parts[0].dims[-1], values.dims[-1])
    )
    count = parts[0].dims[-1] if fits else values.dims[-1]
    found = values.with_dims((*values.dims[:-1], count))
    _require_result(view, "top_k", given, Shape.tuple((found, found.with_dtype(S32))))


def _within(part: int | Dim, whole: int | Dim) -> bool:
    return isinstance(part, Dim) or isinstance(whole, Dim) or part <= whole


def _approximate_topk(view: OpView, given: Shape) -> None:
    count = len(view.operands) // 2
    operands = _operands(view, "approx_top_k", max(2 * count, 2))
    values, starts = operands[:count], operands[count:]
    for value, start in zip(values, starts, strict=True):
        if value.dims != values[0].dims or start.dims or start.dtype is not value.dtype:
            require(False, "approx_top_k_i1", f"ApproxTopK of {value} cannot start from {start}")
    called = view.attributes.called_computations
    takes = [parameter.shape for parameter in called[0].parameters] if len(called) == 1 else []
    pairs = [Shape.array(value.dtype, ()) for value in values for _ in range(2)]
    fits = len(takes) == len(pairs) and all(map(Shape.compatible, takes, pairs))
    if not fits or not called[0].root.shape.compatible(Shape.array(PRED, ())):
        require(False, "approx_top_k_i2", "ApproxTopK takes a comparator of its operands")
    parts = given.elements or (given,)
    fits = len(parts) == count and all(
        part.dtype is value.dtype
        and part.dims == parts[0].dims
        and part.rank == value.rank
        and all(map(_within, part.dims, value.dims))
        for part, value in zip(parts, values, strict=True)
    )
    if not fits:
        require(False, "approx_top_k_c1", f"ApproxTopK of {values[0]} does not give {given}")


def _pad_to_static(view: OpView, given: Shape) -> None:
    (array,) = _operands(view, "pad_to_static", 1)
    results = given.elements or (given,)
    _require_bound(view, "pad_to_static", array, results[0], results[1:])


def _slice_to_dynamic(view: OpView, given: Shape) -> None:
    array, *sizes = _operands(view, "slice_to_dynamic", given.rank + 1)
    _require_bound(view, "slice_to_dynamic", array, given, tuple(sizes))


def _require_bound(
    view: OpView, name: str, array: Shape, result: Shape, sizes: tuple[Shape, ...]
) -> None:
    """Check an array and its static form at its bound, and that each dimension has a size."""
    target = view.attributes.custom_call_target
    same = array.dtype is result.dtype and array.rank == result.rank
    # A symbolic size stands for the size that the call gets.
    fits = same and all(
        one == other or not (isinstance(one, int) and isinstance(other, int))
        for one, other in zip(array.dims, result.dims, strict=True)
    )
    require(fits, f"{name}_c1", f"{target} of {array} does not give {result}")
    counted = len(sizes) == array.rank and all(one.is_scalar and one.dtype is S32 for one in sizes)
    require(
        counted, f"{name}_c2", f"{target} of {array} takes or gives an s32 size for each dimension"
    )


def _size(view: OpView, given: Shape) -> None:
    (count,) = _operands(view, "size", 1)
    if not count.is_scalar or not count.dtype.is_integer:
        require(False, "size_i1", f"the number of elements is an integer, not {count}")
    is_bare = len(given.dims) == 1 and isinstance(given.dims[0], Dim) and given.dims[0].is_symbol
    if given.dtype is not PRED or not is_bare:
        require(False, "size_c1", f"a definition of a size gives pred[?name], not {given}")


_CHECKS: dict[str, Callable[[OpView, Shape], None]] = {
    "ApproxTopK": _approximate_topk,
    "Eigh": _eigh,
    "LuDecomposition": _lu,
    "PadToStatic": _pad_to_static,
    "ProductOfElementaryHouseholderReflectors": _householder_product,
    "Qr": _qr,
    "SliceToDynamic": _slice_to_dynamic,
    "TopK": _topk,
    SIZE: _size,
}
