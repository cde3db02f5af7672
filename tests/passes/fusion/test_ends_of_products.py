# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops between a product and a reduction: computed where the product is made."""

from __future__ import annotations

from tests.passes.fusion.programs import kernels_of

PRODUCT = """x = f32[9,16] parameter(0)
  w = f32[16,33] parameter(1)
  b = f32[33] parameter(2)
  zero = f32[] constant(0)
  d = f32[9,33] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[9,33] broadcast(b), dimensions={1}
  """


def test_a_sum_that_a_normalization_reads_ends_the_product() -> None:
    text = f"""{PRODUCT}z = f32[9,33] parameter(3)
      h = f32[9,33] add(d, bb)
      s = f32[9,33] add(h, z)
      t = f32[9] reduce(s, zero), dimensions={{1}}, to_apply=add
      tb = f32[9,33] broadcast(t), dimensions={{0}}
      ROOT n = f32[9,33] subtract(s, tb)"""
    product, normalization = kernels_of(text)
    assert sorted(product) == ["add", "add", "broadcast", "dot"]
    assert sorted(normalization) == ["broadcast", "reduce", "subtract"]


def test_a_sum_that_several_kernels_read_ends_the_product() -> None:
    text = f"""{PRODUCT}z = f32[9,33] parameter(3)
      s = f32[9,33] add(d, z)
      t = f32[9] reduce(s, zero), dimensions={{1}}, to_apply=add
      c = f32[33] reduce(s, zero), dimensions={{0}}, to_apply=add
      ROOT r = (f32[9], f32[33]) tuple(t, c)"""
    assert kernels_of(text)[0] == ("dot", "add")
    assert [kernel.count("add") for kernel in kernels_of(text)[1:]] == [0, 0]


def test_a_scale_alone_stays_with_the_reduction() -> None:
    """It saves no read, and the product's kernel would be longer."""
    text = f"""{PRODUCT}two = f32[] constant(2)
      tb = f32[9,33] broadcast(two), dimensions={{}}
      s = f32[9,33] multiply(d, tb)
      ROOT t = f32[9] reduce(s, zero), dimensions={{1}}, to_apply=add"""
    assert kernels_of(text)[0] == ("dot",)


def test_a_wider_value_stays_out_of_the_product() -> None:
    """It would be written, and read, in twice as many bytes."""
    text = """x = bf16[9,16] parameter(0)
      w = bf16[16,33] parameter(1)
      zero = f32[] constant(0)
      d = bf16[9,33] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      s = f32[9,33] convert(d)
      ROOT t = f32[9] reduce(s, zero), dimensions={1}, to_apply=add"""
    assert kernels_of(text) == [("dot",), ("convert", "reduce")]


def test_a_value_that_a_reduction_scales_stays_with_it() -> None:
    """The kernel that holds both reductions would wait for the product, which waits for it."""
    text = f"""{PRODUCT}z = f32[9,33] parameter(3)
      q = f32[9] reduce(z, zero), dimensions={{1}}, to_apply=add
      e = f32[9] exponential(q)
      qb = f32[9,33] broadcast(e), dimensions={{0}}
      s = f32[9,33] multiply(d, qb)
      t = f32[9] reduce(s, zero), dimensions={{1}}, to_apply=add
      tb = f32[9,33] broadcast(t), dimensions={{0}}
      ROOT n = f32[9,33] subtract(s, tb)"""
    product, rest = kernels_of(text)
    assert product == ("dot",)
    assert rest.count("reduce") == 2
