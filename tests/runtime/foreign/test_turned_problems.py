# SPDX-License-Identifier: Apache-2.0
"""Triangular solves in programs: by rows or by columns, the solution solves the system."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.runtime.foreign.calls import adjoint, assert_close, matrices

import ingot
from ingot.hlo.dtype import dtype

TEXT = """
HloModule solve

ENTRY main {{
  a = {element}[{matrix}] parameter(0)
  b = {element}[{sides}] parameter(1)
  x = {element}[{matrix}] {operand}
  ROOT y = {element}[{sides}]{columns} custom-call(x, b), custom_call_target="lapack_{letter}trsm_ffi", operand_layout_constraints={{{element}[{matrix}]{columns}, {element}[{sides}]{columns}}}, output_to_operand_aliasing={{{{}}: (1, {{}})}}, api_version=API_VERSION_TYPED_FFI, backend_config={{diag = 78 : ui8, side = {side} : ui8, trans_x = {trans} : ui8, uplo = {uplo} : ui8}}
}}
"""  # noqa: E501
LETTERS = {"f32": "s", "c64": "c", "f64": "d", "c128": "z"}


@pytest.mark.parametrize("element", LETTERS)
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_solutions(element: str, batch: tuple[int, ...], is_transposed: bool) -> None:
    n, other = 5, 2
    rank = len(batch) + 2
    swap = ",".join(map(str, (*range(rank - 2), rank - 1, rank - 2)))
    columns = "{" + ",".join(map(str, (rank - 2, rank - 1, *range(rank - 3, -1, -1)))) + "}"
    given = matrices(element, (*batch, n, n)) + 4 * np.eye(n, dtype=dtype(element).numpy)
    matrix = np.swapaxes(given, -1, -2) if is_transposed else given
    for side, uplo, trans in product("LR", "LU", "NTC"):
        dims = (*batch, n, other) if side == "L" else (*batch, other, n)
        b = matrices(element, dims, 1)
        text = TEXT.format(
            element=element,
            letter=LETTERS[element],
            matrix=",".join(map(str, given.shape)),
            sides=",".join(map(str, dims)),
            columns=columns,
            operand=f"transpose(a), dimensions={{{swap}}}" if is_transposed else "copy(a)",
            **{
                key: ord(value)
                for key, value in {"side": side, "uplo": uplo, "trans": trans}.items()
            },
        )
        x = np.asarray(ingot.compile(ingot.parse_hlo(text))(given, b))
        factor = np.tril(matrix) if uplo == "L" else np.triu(matrix)
        factor = {"N": factor, "T": np.swapaxes(factor, -1, -2), "C": adjoint(factor)}[trans]
        assert_close(element, factor @ x if side == "L" else x @ factor, b)
