# SPDX-License-Identifier: Apache-2.0
"""The ops of `every_op_programs` in JAX."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.ops.every_op_programs import CONVERTED, DTYPES

_NAMED = (
    "exp expm1 log log1p sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh sqrt rsqrt "
    "cbrt logistic erf erfc erf_inv lgamma digamma bessel_i0e bessel_i1e floor round sign neg abs "
    "is_finite real imag conj add sub mul div rem max min pow atan2 nextafter igamma igammac zeta "
    "bitwise_and shift_left shift_right_arithmetic population_count clz bitwise_not"
)


def _pool(x, combine, window, strides, padding="SAME"):
    return lax.reduce_window(x, np.zeros((), x.dtype), combine, window, strides, padding)


def _max_pool(x, size, padding):
    least = np.array(-np.inf, x.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else np.array(
        0, x.dtype)  # fmt: skip
    window, strides = (1, size, size, 1), (1, 2, 2, 1)
    return lax.reduce_window(x, least, lax.max, window, strides, padding)


def _gradient(function):
    return lambda x, g: jax.vjp(function, x)[1](g)[0]


def _convolution(x, w, strides=(1, 1), padding="SAME", **rest):
    layouts = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=layouts, **rest)


def _random(draw):
    return lambda key: draw(jax.random.wrap_key_data(key))


_LINE = (1 << 18,)


def _sum_pool_gradient(gradient):
    batch, height, width, features = gradient.shape
    images = jnp.zeros((batch, 2 * height, 2 * width, features), gradient.dtype)

    def pooled(x):
        return _pool(x, lax.add, (1, 3, 3, 1), (1, 2, 2, 1))

    return jax.vjp(pooled, images)[1](gradient)[0]


FUNCTIONS = {
    **{name: getattr(lax, name) for name in _NAMED.split()},
    "shift_left": lambda x, n: lax.shift_left(x, n.astype(x.dtype)),
    "shift_right_arithmetic": lambda x, n: lax.shift_right_arithmetic(x, n.astype(x.dtype)),
    **{f"to_{name}": partial(lax.convert_element_type, new_dtype=DTYPES[name])
       for name in CONVERTED},
    "reduce_precision": lambda x: lax.reduce_precision(x, 5, 7),
    "select": jnp.where,
    "less": lax.lt,
    "clamp_between": lambda x, y: lax.clamp(x.dtype.type(0), x, y),
    "reverse": lambda x: x[::-1],
    "reverse_both": lambda x: x[::-1, ::-1],
    "strided_slice": lambda x: x[::2] * x.dtype.type(2),
    "slice_inner": lambda x: x[1:-1, 1:-1] * x.dtype.type(2),
    "iota": lambda x: x + jnp.arange(x.size).astype(x.dtype),
    "outer_sum": lambda x, y: x[:, None] + y,
    "cumsum": jnp.cumsum,
    "cumprod": jnp.cumprod,
    "cummax": lax.cummax,
    "cumsum_columns": lambda x: jnp.cumsum(x, 0),
    "roll": lambda x: jnp.roll(x, 3, 1),
    "tril": jnp.tril,
    "diagonal": jnp.diagonal,
    "transpose": jnp.transpose,
    "transpose_021": lambda x: x.transpose(0, 2, 1),
    "pad": lambda x: jnp.pad(x, ((1, 2), (3, 4))),
    "repeat": lambda x: jnp.repeat(x, 3, 1),
    "tile": lambda x: jnp.tile(x, (3, 2)),
    "sort": jnp.sort,
    "argsort": jnp.argsort,
    "sort_rows": jnp.sort,
    "sort_columns": lambda x: jnp.sort(x, 0),
    "median": lambda x: jnp.median(x, 1),
    "top_10": lambda x: lax.top_k(x, 10),
    **{f"sum_{axis}": partial(lambda x, axis: x.sum(axis, dtype=x.dtype), axis=axis)
       for axis in (0, 1)},
    **{f"max_{axis}": partial(jnp.max, axis=axis) for axis in (0, 1)},
    **{f"argmax_{axis}": partial(jnp.argmax, axis=axis) for axis in (0, 1)},
    **{f"sum3_{axis}": partial(lambda x, axis: x.sum(axis, dtype=x.dtype), axis=axis)
       for axis in (0, 1, 2)},
    "sum_all": lambda x: x.sum(dtype=x.dtype),
    "max_all": jnp.max,
    "prod_1": lambda x: x.prod(1, dtype=x.dtype),
    "argmax_all": jnp.argmax,
    "gather_rows": lambda x, i: x[i],
    "gather_columns": lambda x, i: x[:, i],
    "take_along": lambda x, i: jnp.take_along_axis(x, i, 1),
    "scatter_add_rows": lambda x, i, u: x.at[i].add(u),
    "scatter_set_rows": lambda x, i, u: x.at[i].set(u),
    "scatter_max": lambda x, i, u: x.at[i].max(u),
    "scatter_add_columns": lambda x, i, u: x.at[:, i].add(u),
    "dynamic_update_slice": lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)),
    "dynamic_slice": lambda x, i: lax.dynamic_slice(x, (i, i), (256, 256)),
    "concatenate_0": lambda x, y: jnp.concatenate([x, y, x], 0),
    "concatenate_1": lambda x, y: jnp.concatenate([x, y], 1),
    "stack": lambda x, y: jnp.stack([x, y], -1),
    "interior_pad": lambda x: lax.pad(x, np.zeros((), x.dtype), ((0, 0, 1), (0, 0, 1))),
    "window_max": lambda x: _pool(x, lax.max, (9, 9), (1, 1)),
    "max_pool_2": lambda x: _max_pool(x, 2, "VALID"),
    "max_pool_3": lambda x: _max_pool(x, 3, "SAME"),
    "sum_pool_nchw": lambda x: _pool(x, lax.add, (1, 1, 3, 3), (1, 1, 2, 2)),
    "max_pool_2_gradient": _gradient(lambda x: _max_pool(x, 2, "VALID")),
    "max_pool_3_gradient": _gradient(lambda x: _max_pool(x, 3, "SAME")),
    "sum_pool_gradient": _sum_pool_gradient,
    "softmax": jax.nn.softmax,
    "softmax_0": lambda x: jax.nn.softmax(x, 0),
    "logsumexp": lambda x: jax.nn.logsumexp(x, 1),
    "var_0": lambda x: jnp.var(x, 0),
    "var_all": jnp.var,
    "norm": lambda x: jnp.sqrt((x * x).sum()),
    "batch_norm": lambda x: (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-3),
    "dot": jnp.matmul,
    "dot_tn": lambda x, y: x.T @ y,
    "dot_nt": lambda x, y: x @ y.T,
    "matvec": jnp.matmul,
    "vecmat": lambda x, y: y @ x,
    "batched_small": jnp.matmul,
    "batched": jnp.matmul,
    "inner": jnp.dot,
    "outer": jnp.outer,
    "attention_scores": partial(jnp.einsum, "bihd,bjhd->bhij"),
    "convolution": _convolution,
    "convolution_stride_2": partial(_convolution, strides=(2, 2)),
    "convolution_dilated": partial(_convolution, rhs_dilation=(2, 2)),
    "convolution_transposed": partial(
        _convolution, padding=((1, 2), (1, 2)), lhs_dilation=(2, 2)),
    "convolution_depthwise": partial(_convolution, feature_group_count=32),
    "convolution_nchw": lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
    "convolution_1d": lambda x, w: lax.conv_general_dilated(
        x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
    "convolution_3d": lambda x, w: lax.conv_general_dilated(
        x, w, (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")),
    "convolve": jnp.convolve,
    "fft": jnp.fft.fft,
    "ifft": jnp.fft.ifft,
    "fft_of_1000": jnp.fft.fft,
    "fft_of_1021": jnp.fft.fft,
    "fft_2d": jnp.fft.fft2,
    "rfft": jnp.fft.rfft,
    "irfft": jnp.fft.irfft,
    "random_uniform": _random(lambda key: jax.random.uniform(key, _LINE, np.float32)),
    "random_normal": _random(lambda key: jax.random.normal(key, _LINE, np.float32)),
    "random_bits": _random(lambda key: jax.random.bits(key, _LINE)),
    "random_integers": _random(lambda key: jax.random.randint(key, _LINE, 0, 100)),
    "random_permutation": _random(lambda key: jax.random.permutation(key, 1 << 16)),
    "random_categorical": _random(
        lambda key: jax.random.categorical(key, jnp.zeros((1024, 64), np.float32))),
    "random_bernoulli": _random(lambda key: jax.random.bernoulli(key, 0.3, _LINE)),
    "cholesky": jnp.linalg.cholesky,
    "inverse": jnp.linalg.inv,
    "determinant": lambda x: jnp.linalg.slogdet(x)[1],
    "lu": lambda x: jax.scipy.linalg.lu_factor(x)[0],
    "eigenvalues": jnp.linalg.eigvalsh,
    "triangular_solve": partial(lax.linalg.triangular_solve, left_side=True, lower=True),
    "solve": jnp.linalg.solve,
    "qr_r": lambda x: jnp.abs(jnp.linalg.qr(x)[1]),
    "singular_values": lambda x: jnp.linalg.svd(x, compute_uv=False),
}  # fmt: skip
