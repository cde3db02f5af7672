# SPDX-License-Identifier: Apache-2.0
"""XLA's own custom calls on Ingot: factors put together again, against NumPy and the evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.runtime.foreign.calls import (
    ELEMENTS,
    TOLERANCE,
    adjoint,
    assert_close,
    dtype_name,
    matrices,
    real_of,
)
from tests.support.against_evaluator import agrees

import ingot
from ingot.evaluator import evaluate

pytestmark = pytest.mark.fast_share(4)


def run(text: str, *inputs: Any) -> Any:
    """Return what the CPU gives, which is what the evaluator gives."""
    tolerance = TOLERANCE[dtype_name(inputs[0])]
    return agrees(ingot.parse_hlo(text), inputs, rtol=tolerance, atol=tolerance).results


@pytest.mark.parametrize("element", ELEMENTS)
def test_qr(element: str) -> None:
    a = matrices(element, (2, 5, 3))
    text = f"""
HloModule m

ENTRY main {{
  a = {element}[2,5,3] parameter(0)
  qr = ({element}[2,5,3], {element}[2,3]) custom-call(a), custom_call_target="Qr"
  packed = {element}[2,5,3] get-tuple-element(qr), index=0
  taus = {element}[2,3] get-tuple-element(qr), index=1
  q = {element}[2,5,3] custom-call(packed, taus),
    custom_call_target="ProductOfElementaryHouseholderReflectors"
  ROOT both = ({element}[2,5,3], {element}[2,5,3]) tuple(packed, q)
}}
"""
    packed, q = run(text, a)
    assert_close(element, q @ np.triu(packed)[:, :3], a)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("lower", [0, 1])
def test_eigh(element: str, lower: int) -> None:
    a = matrices(element, (2, 4, 4))
    a = (a + adjoint(a)) / 2
    text = f"""
HloModule m

ENTRY main {{
  a = {element}[2,4,4] parameter(0)
  ROOT vw = ({element}[2,4,4], {real_of(element)}[2,4]) custom-call(a),
    custom_call_target="Eigh", backend_config="{lower},1,100,0.000001"
}}
"""
    module = ingot.parse_hlo(text)
    # Eigenvectors have any sign.
    for factors in (ingot.compile(module), lambda given: evaluate(module, [given])):
        v, w = factors(np.tril(a) if lower else np.triu(a))
        assert_close(element, (v * w[..., None, :]) @ adjoint(v), a)
        assert (np.diff(w) >= 0).all()
        v, w = factors(np.full_like(a, np.nan))
        assert np.isnan(w).all()


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize(("m", "n"), [(4, 4), (5, 3), (3, 5)])
def test_lu(element: str, m: int, n: int) -> None:
    a, k = matrices(element, (2, m, n)), min(m, n)
    text = f"""
HloModule m

ENTRY main {{
  a = {element}[2,{m},{n}] parameter(0)
  ROOT lu = ({element}[2,{m},{n}], s32[2,{k}], s32[2,{m}]) custom-call(a),
    custom_call_target="LuDecomposition"
}}
"""
    lu, pivots, order = run(text, a)
    product = (np.tril(lu[..., :k], -1) + np.eye(m, k)) @ np.triu(lu[:, :k])
    assert_close(element, product, np.take_along_axis(a, order[..., None], axis=1))
    assert pivots.min() >= 0


@pytest.mark.parametrize("direction", ["GT", "LT"])
def test_topk(direction: str) -> None:
    text = f"""
HloModule m

first {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction={direction}
}}

ENTRY main {{
  x = f32[2,9] parameter(0)
  ROOT y = (f32[2,3], s32[2,3]) custom-call(x), custom_call_target="TopK",
    called_computations={{first}}
}}
"""
    x = matrices("f32", (2, 9))
    values, indices = run(text, x)
    order = np.argsort(-x if direction == "GT" else x, axis=-1)[:, :3]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis=-1))


def test_approximate_topk_is_exact() -> None:
    text = """
HloModule m

greater {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=GT
}

ENTRY main {
  a = f32[3,50] parameter(0)
  i = s32[3,50] iota(), iota_dimension=1
  least = f32[] constant(-inf)
  nowhere = s32[] constant(-1)
  ROOT best = (f32[3,4], s32[3,4]) custom-call(a, i, least, nowhere),
    custom_call_target="ApproxTopK", called_computations={greater},
    backend_config="{top_k = 4 : i64, reduction_dim = 1 : i64}"
}
"""
    a = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    values, places = run(text, a)
    assert (values == -np.sort(-a)[:, :4]).all()
    assert (np.take_along_axis(a, places, 1) == values).all()
