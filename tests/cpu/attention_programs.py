# SPDX-License-Identifier: Apache-2.0
"""Attention as HLO: products, what a mask makes of the scores, a softmax, products with values."""

from __future__ import annotations

import numpy as np

from ingot.evaluator.registry import Array
from ingot.hlo.dtype import dtype

HEADS = 2

MASKS = {
    "none": "",
    "causal": "seen = pred[{s}] compare(columns, rows), direction=LE",
    "reversed": "seen = pred[{s}] compare(rows, columns), direction=LT",
    "window": "before = pred[{s}] compare(columns, rows), direction=LE\n"
    "  width = s32[] constant(40)  widths = s32[{s}] broadcast(width), dimensions={{}}\n"
    "  ends = s32[{s}] add(columns, widths)\n"
    "  within = pred[{s}] compare(ends, rows), direction=GT\n"
    "  seen = pred[{s}] and(before, within)",
    "never": "far = s32[] constant(1000)  fars = s32[{s}] broadcast(far), dimensions={{}}\n"
    "  later = s32[{s}] subtract(columns, fars)\n"
    "  seen = pred[{s}] compare(later, rows), direction=GE",
    "flags": "seen = pred[{s}] broadcast(mask), dimensions={{1,2}}",
    "bias": "",
}
"""How each mask says which scores are seen, from `rows`, `columns` and the parameter `mask`."""


def attention(
    sizes: tuple[int, int, int, int],
    element: str = "f32",
    mask: str = "none",
    *,
    masked: str = "-inf",
    further: str = "",
) -> str:
    """Return a program of `HEADS` heads; with a parameter for the mask where that is data.

    Args:
        sizes: queries, keys, depth of queries and keys, width of values.
        element: element type of operands, scores and result.
        mask: a key of `MASKS`.
        masked: what scores become that are not seen.
        further: results besides the attention, with commas before.
    """
    m, n, k, e = sizes
    s, r = f"{HEADS},{m},{n}", f"{HEADS},{m}"
    seen = MASKS[mask].format(s=s)
    scores = "scaled"
    if mask == "bias":
        seen = f"spread = {element}[{s}] broadcast(mask), dimensions={{1,2}}"
        seen += f"\n  scores = {element}[{s}] add(scaled, spread)"
        scores = "scores"
    elif seen:
        sides = "lows, scaled" if mask == "reversed" else "scaled, lows"
        seen += f"\n  scores = {element}[{s}] select(seen, {sides})"
        scores = "scores"
    kind = element if mask == "bias" else "pred"
    has_mask = mask in ("bias", "flags")
    shape = f"{element}[{HEADS},{m},{e}]"
    is_root, last = "" if further else "ROOT ", ""
    if further:
        parts = [shape, *[f"{element}[{r}]"] * further.count(",")]
        last = f"\n  ROOT all = ({', '.join(parts)}) tuple(result{further})"
    return f"""HloModule m

larger {{ a = {element}[] parameter(0)  b = {element}[] parameter(1)
  ROOT c = {element}[] maximum(a, b) }}

sum {{ a = {element}[] parameter(0)  b = {element}[] parameter(1)
  ROOT c = {element}[] add(a, b) }}

ENTRY e {{
  queries = {element}[{HEADS},{m},{k}] parameter(0)
  keys = {element}[{HEADS},{n},{k}] parameter(1)
  values = {element}[{HEADS},{n},{e}] parameter(2)
  {f"mask = {kind}[{m},{n}] parameter(3)" if has_mask else ""}
  products = {element}[{s}] dot(queries, keys), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  scale = {element}[] constant(0.375)  scales = {element}[{s}] broadcast(scale), dimensions={{}}
  scaled = {element}[{s}] multiply(products, scales)
  rows = s32[{s}] iota(), iota_dimension=1
  columns = s32[{s}] iota(), iota_dimension=2
  masked = {element}[] constant({masked})  lows = {element}[{s}] broadcast(masked), dimensions={{}}
  {seen}
  lowest = {element}[] constant(-inf)  zero = {element}[] constant(0)
  greatest = {element}[{r}] reduce({scores}, lowest), dimensions={{2}}, to_apply=larger
  shifts = {element}[{s}] broadcast(greatest), dimensions={{0,1}}
  shifted = {element}[{s}] subtract({scores}, shifts)
  powers = {element}[{s}] exponential(shifted)
  total = {element}[{r}] reduce(powers, zero), dimensions={{2}}, to_apply=sum
  totals = {element}[{s}] broadcast(total), dimensions={{0,1}}
  weights = {element}[{s}] divide(powers, totals)
  {is_root}result = {shape} dot(weights, values), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}{last}
}}
"""


def operands(
    sizes: tuple[int, int, int, int], element: str, mask: str, *, seed: int = 0
) -> list[Array]:
    """Return arguments of `attention`; the flags leave no key to the second row."""
    m, n, k, e = sizes
    draw = np.random.default_rng(seed)
    shapes = ((HEADS, m, k), (HEADS, n, k), (HEADS, n, e))
    found = [draw.standard_normal(shape).astype(dtype(element).numpy) for shape in shapes]
    if mask == "bias":
        found.append(draw.standard_normal((m, n)).astype(dtype(element).numpy))
    elif mask == "flags":
        flags = draw.random((m, n)) < 0.5
        flags[1] = False
        found.append(flags)
    return found
