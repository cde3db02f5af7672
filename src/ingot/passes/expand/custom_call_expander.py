# SPDX-License-Identifier: Apache-2.0
"""Custom calls of known meaning, as ops and LAPACK calls.

`call-meanings` replaces those that mean an ordinary computation (`semantics/call_meanings`), so
that none of them is left. It runs before `dynamic_padder`: TensorFlow's windows over dimensions of
dynamic size become ops on such dimensions, which that pass rewrites.

`custom-call-expander` takes those of XLA's client library. XLA's builders write decompositions
without an opcode as custom calls without a layout: `Qr`,
`ProductOfElementaryHouseholderReflectors`, `Eigh`, `LuDecomposition`, `TopK`, `ApproxTopK`. XLA
expands them in its own passes, so a program that contains one needs no registration.

Source: xla/hlo/builder/lib/{qr,self_adjoint_eig,lu_decomposition,approx_topk}.cc,
xla/hlo/transforms/expanders/{qr_expander,eigh_expander}.cc.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import F64, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.passes.expand.lapack_calls import lapack_call, lapack_element, succeeded
from ingot.passes.inline import inline
from ingot.semantics.call_meanings import meaning_of
from ingot.semantics.custom_calls import config_text, reduced_dimension, wants_largest


@expander("custom-call-expander", "custom-call")
def custom_call_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites the custom calls of XLA's client library."""
    rule = _EXPANSIONS.get(op.attributes.custom_call_target)
    return op if rule is None else _shaped(op.shape, rule(op, build), build)


def _shaped(shape: Shape, parts: list[Instruction], build: Builder) -> Instruction:
    """Return the parts in the element types of the call's result."""
    if not shape.is_tuple:
        return build.convert_to(parts[0], shape.dtype)
    pairs = zip(parts, shape.elements, strict=True)
    return build.tuple(*(build.convert_to(part, element.dtype) for part, element in pairs))


def _operand(call: Instruction, build: Builder, number: int = 0) -> Instruction:
    operand = call.operands[number]
    return build.convert_to(operand, lapack_element(operand.shape.dtype))


def _qr(call: Instruction, build: Builder) -> list[Instruction]:
    """Householder vectors below R, and their factors."""
    a = _operand(call, build)
    shapes = [a.shape, a.shape.with_dims(call.shape.elements[1].dims)]
    return lapack_call(build, "geqrf", [a], shapes, aliases="{{0}: (0, {})}")


def _householder_product(call: Instruction, build: Builder) -> list[Instruction]:
    a, taus = (_operand(call, build, number) for number in (0, 1))
    routine = "ungqr" if a.shape.dtype.is_complex else "orgqr"
    return lapack_call(build, routine, [a, taus], [a.shape], aliases="{{}: (0, {})}")


def _eigh(call: Instruction, build: Builder) -> list[Instruction]:
    """Eigenvectors and ascending eigenvalues; the config begins with whether `lower` is read."""
    a = _operand(call, build)
    dims = a.shape.dims
    is_complex = a.shape.dtype.is_complex
    real = {"c64": "f32", "c128": "f64"}.get(a.shape.dtype.name, a.shape.dtype.name)
    lower = config_text(call).split(",")[0].strip() != "0"
    v, w, info = lapack_call(
        build, "heevd" if is_complex else "syevd", [a],
        [a.shape, Shape.array(real, dims[:-1]), Shape.array(S32, dims[:-2])],
        {"mode": "V", "uplo": "L" if lower else "U"}, aliases="{{0}: (0, {})}",
    )  # fmt: skip
    return [build.select(succeeded(build, info, x.shape.dims), x, float("nan")) for x in (v, w)]


def _lu(call: Instruction, build: Builder) -> list[Instruction]:
    """L below U, the exchanges of rows (from 0), and the order of the rows that they give."""
    a = _operand(call, build)
    batch = a.shape.dims[:-2]
    pivots_shape = Shape.array(S32, call.shape.elements[1].dims)
    shapes = [a.shape, pivots_shape, Shape.array(S32, batch)]
    lu, pivots, _ = lapack_call(build, "getrf", [a], shapes, aliases="{{0}: (0, {})}")
    columns = Shape.array(F64, (*batch, a.shape.dims[-2], 1))
    rows = build.iota(shape=columns, iota_dimension=len(batch))
    exchanges = {"order": "F"}
    (exchanged,) = lapack_call(
        build, "laswp", [rows, pivots], [columns], exchanges, aliases="{{}: (0, {})}"
    )
    order = build.reshape_to(build.convert_to(exchanged, S32), columns.dims[:-1])
    return [lu, build.subtract(pivots, 1), order]


def _topk(call: Instruction, build: Builder) -> list[Instruction]:
    """The `topk` opcode."""
    k = call.shape.elements[0].dims[-1]
    found = build.topk(call.operands[0], k=k, largest=wants_largest(call))
    return [build.element_of(found, number) for number in (0, 1)]


def _pad_to_static(call: Instruction, build: Builder) -> list[Instruction]:
    """An array of no dynamic size, and its sizes (`dynamic_padder` takes the others)."""
    (operand,) = call.operands
    return [operand, *(build.constant(size, S32) for size in operand.shape.static_dims)]


def _approximate_topk(call: Instruction, build: Builder) -> list[Instruction]:
    """An exact result is a valid approximate one: the first elements of the sorted operand.

    The second half of the operands are initial values, which are not needed here.
    """
    values = call.operands[: len(call.operands) // 2]
    (comparator,) = call.attributes.called_computations
    axis = reduced_dimension(call)
    result = build.sort(*values, dimensions=(axis,), is_stable=True, to_apply=comparator)
    dims = call.shape.elements[0].dims
    return [build.leading(part, dims) for part in build.elements_of(result)]


_EXPANSIONS: dict[str, Callable[[Instruction, Builder], list[Instruction]]] = {
    "ApproxTopK": _approximate_topk,
    "Eigh": _eigh,
    "LuDecomposition": _lu,
    "PadToStatic": _pad_to_static,
    "ProductOfElementaryHouseholderReflectors": _householder_product,
    "Qr": _qr,
    "TopK": _topk,
}


@expander("call-meanings", "custom-call")
def call_meanings(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Replaces custom calls by the computations that they mean."""
    meaning = meaning_of(op)
    if meaning is None:
        return op
    for called in {c for i in meaning.instructions for c in i.called_computations}:
        module.take(called)
    return inline(op.computation, meaning, op.operands)
