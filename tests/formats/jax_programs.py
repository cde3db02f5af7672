# SPDX-License-Identifier: Apache-2.0
"""JAX programs of every family of ops, for the tests of the StableHLO reader.

`PROGRAMS[name]` is a function and its arguments; JAX itself gives the expected results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Program = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: dict[str, Program] = {}
_RANDOM = np.random.default_rng(7)


def _array(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return (_RANDOM.standard_normal(shape) * 2).astype(dtype)


def _integers(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> Any:
    return _RANDOM.integers(low, high, shape).astype(dtype)


def _add(name: str, function: Callable[..., Any], *arguments: Any) -> None:
    assert name not in PROGRAMS, name
    PROGRAMS[name] = (function, arguments)


X, Y, V = _array(3, 4), _array(3, 4), _array(7)
POSITIVE = np.abs(_array(3, 4)) + np.float32(0.5)
UNIT = np.tanh(_array(3, 4)) * np.float32(0.9)
N = _integers(3, 4)
MASK = X > 0

_UNARY_ANY = (
    "abs cbrt ceil cos exp exp2 expm1 floor is_finite logistic neg round sign sin square tan tanh "
    "sinh cosh asinh atan erf erfc"
)
for _name in _UNARY_ANY.split():
    _add(_name, getattr(lax, _name), X)
for _name in ["log", "log1p", "rsqrt", "sqrt", "lgamma", "digamma", "bessel_i0e", "bessel_i1e"]:
    _add(_name, getattr(lax, _name), POSITIVE)
for _name in ["asin", "acos", "atanh", "erf_inv"]:
    _add(_name, getattr(lax, _name), UNIT)
_add("acosh", lax.acosh, POSITIVE + 1)
for _name in ["add", "atan2", "div", "max", "min", "mul", "nextafter", "rem", "sub"]:
    _add(_name, getattr(lax, _name), X, Y)
_add("pow", lax.pow, POSITIVE, Y)
_add("integer_pow", lambda x: lax.integer_pow(x, 5) + lax.integer_pow(x, -2), POSITIVE)
for _name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
    _add(_name, getattr(lax, _name), N, N.T.reshape(3, 4))
for _name in ["shift_left", "shift_right_arithmetic", "shift_right_logical"]:
    _add(_name, getattr(lax, _name), N, np.abs(N))
for _name in ["bitwise_not", "population_count", "clz"]:
    _add(_name, getattr(lax, _name), N)
for _name in ["eq", "ne", "ge", "gt", "le", "lt"]:
    _add(_name, getattr(lax, _name), N, N.T.reshape(3, 4))
_add("compare_unsigned", lambda x: x < np.uint32(5), N.astype(np.uint32))
_add("clamp", lambda x: lax.clamp(np.float32(-1), x, np.float32(1)), X)
_add("select", lambda m, x, y: lax.select(m, x, y), MASK, X, Y)
_add("select_n", lambda n, *xs: lax.select_n(n, *xs), np.abs(N) % 3, X, Y, X * 2)
_add("reduce_precision", lambda x: lax.reduce_precision(x, 5, 7), X)
_add("convert", lambda x: (x.astype(jnp.bfloat16), x.astype(jnp.int8), x.astype(bool)), X)
_add("bitcast_same", lambda x: lax.bitcast_convert_type(x, jnp.uint32), X)
_add("bitcast_narrow", lambda x: lax.bitcast_convert_type(x, jnp.uint8), X)
_add("bitcast_wide", lambda x: lax.bitcast_convert_type(x, jnp.float32), N.astype(np.int16)[:, :2])
_add("complex_parts", lambda x, y: (lax.real(lax.complex(x, y)), lax.imag(lax.complex(x, y))), X, Y)
_add("complex_multiply", lambda x, y: jnp.abs(lax.complex(x, y) * (2 + 3j)), X, Y)

# ---- shaping
_add("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3, 5, 4), (1, 3)), X)
_add("broadcast_widen", lambda x: jnp.broadcast_to(x, (2, 3, 4)), X[:, :1])
_add("reshape", lambda x: x.reshape(2, 6), X)
_add("transpose", lambda x: x.T, X)
_add("reverse", lambda x: lax.rev(x, (1,)), X)
_add("slice", lambda x: lax.slice(x, (0, 1), (3, 4), (2, 2)), X)
_add("pad", lambda x: lax.pad(x, np.float32(1), ((1, 2, 0), (-1, 0, 2))), X)
_add("concatenate", lambda x, y: jnp.concatenate([x, y, x], 1), X, Y)
_add("iota", lambda x: x + lax.broadcasted_iota(jnp.float32, (3, 4), 1), X)
_add("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 2)), X, np.int32(5))
_add(
    "dynamic_update_slice",
    lambda x, i: lax.dynamic_update_slice(x, x[:2, :2], (i, i)),
    X,
    np.int32(1),
)
_add("squeeze_expand", lambda x: jnp.squeeze(x[:1])[None, :, None], X)
_add("tile_roll", lambda x: jnp.roll(jnp.tile(x, (2, 1)), 2, 0), X)

# ---- contractions
_add("dot", lambda x, y: x @ y.T, X, Y)
_add("dot_vector", lambda x, y: jnp.dot(x[0], y[0]), X, Y)
_add("dot_batch", lambda x, y: jnp.einsum("bij,bkj->bki", x, y), _array(2, 3, 4), _array(2, 5, 4))
_add("dot_precision", lambda x, y: lax.dot(x, y.T, precision=lax.Precision.HIGHEST), X, Y)
_add(
    "dot_wider", lambda x: lax.dot(x, x.T, preferred_element_type=jnp.float32), X.astype("bfloat16")
)
_add("dot_integers", lambda x: x @ x.T, N)
_add("tensordot", lambda x, y: jnp.tensordot(x, y, 2), _array(2, 3, 4), _array(3, 4, 5))


def _convolution(**settings: Any) -> Callable[..., Any]:
    def convolve(x: Any, kernel: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        given = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": numbers}
        return lax.conv_general_dilated(x, kernel, **(given | settings))

    return convolve


_IMAGE = _array(2, 6, 5, 4)
_add("conv", _convolution(), _IMAGE, _array(3, 3, 4, 6))
_add(
    "conv_stride", _convolution(window_strides=(2, 1), padding="VALID"), _IMAGE, _array(3, 2, 4, 6)
)
_add(
    "conv_dilated",
    _convolution(rhs_dilation=(2, 1), lhs_dilation=(1, 2), padding=((1, 0), (2, 1))),
    _IMAGE,
    _array(3, 3, 4, 6),
)
_add("conv_groups", _convolution(feature_group_count=2), _IMAGE, _array(3, 3, 2, 6))
_add("conv_batch_groups", _convolution(batch_group_count=2), _IMAGE, _array(3, 3, 4, 6))
_add("conv_1d", lambda x, k: jnp.convolve(x, k), V, V[:3])
_add("conv_gradient", jax.grad(lambda k, x: _convolution()(x, k).sum()), _array(3, 3, 4, 6), _IMAGE)

# ---- reductions
for _name in ["sum", "prod", "max", "min", "mean", "std", "argmax", "argmin", "any", "all"]:
    _add(f"reduce_{_name}", lambda x, _op=_name: getattr(jnp, _op)(x, 1), X)
_add("reduce_all_dims", lambda x: x.sum(), X)
_add(
    "reduce_bits",
    lambda x: (lax.reduce_or(x, (0,)), lax.reduce_and(x, (1,)), lax.reduce_xor(x, (0,))),
    N,
)
_add("reduce_custom", lambda x: lax.reduce(x, np.float32(1), lambda a, b: a + b - 1, (1,)), X)
_add(
    "reduce_several",
    lambda x, y: lax.reduce(
        (x, y), (np.float32(0), np.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)
    ),
    X,
    Y,
)
_add("logsumexp_softmax", lambda x: (jax.nn.logsumexp(x, 1), jax.nn.softmax(x)), X)
for _name in ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]:
    _add(_name, getattr(lax, _name), X)
_add(
    "reduce_window",
    lambda x: lax.reduce_window(x, np.float32(0), lax.add, (2, 2), (1, 2), "SAME"),
    X,
)
_add(
    "max_pool",
    lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    _IMAGE,
)
_add(
    "max_pool_gradient",
    jax.grad(
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()
    ),
    _IMAGE,
)

# ---- indexing and sorting
_add("sort", lambda x: jnp.sort(x, 1), X)
_add("argsort", lambda x: jnp.argsort(x, 0), X)
_add("sort_pairs", lambda x, y: lax.sort((x, y), dimension=1, num_keys=2), N.astype(np.float32), Y)
_add("top_k", lambda x: lax.top_k(x, 2), X)
_add("median_quantile", lambda x: (jnp.median(x), jnp.quantile(x, 0.3)), X)
_add("gather_rows", lambda x, i: x[i], X, np.array([2, 0, 2, 7], np.int32))
_add("gather_pairs", lambda x, i: x[i, i + 1], X, np.array([2, 0, -1], np.int32))
_add(
    "take_along_axis",
    lambda x, i: jnp.take_along_axis(x, i, 1),
    X,
    np.array([[1], [0], [3]], np.int32),
)
_add("scatter_set", lambda x, i: x.at[i].set(1.0), X, np.array([2, 0], np.int32))
_add("scatter_add", lambda x, i: x.at[:, i].add(2.0), X, np.array([2, 0, 2], np.int32))
_add(
    "scatter_max_drop", lambda x, i: x.at[i, i].max(0.5, mode="drop"), X, np.array([2, 9], np.int32)
)
_add("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, 3), X, np.array([2, 0, 2], np.int32))
_add("searchsorted", lambda v, x: jnp.searchsorted(jnp.sort(v), x), V, X)
_add("bincount", lambda n: jnp.bincount(n, length=4), np.abs(N.reshape(-1)) % 4)
_add("where_unique", lambda n: jnp.unique(n, size=4), np.abs(N.reshape(-1)) % 4)

# ---- control flow


def _scan(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        return jnp.tanh(carry @ x.T @ x + row), (carry.sum(), row * 2)

    return lax.scan(step, jnp.zeros(4), x)


def _lstm(weights: Any, inputs: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([h, row]) @ weights, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (jnp.zeros(2), jnp.zeros(2)), inputs)[1]


_add("scan", _scan, X)
_add("scan_reverse", lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x, reverse=True), X)
_add("lstm", _lstm, _array(6, 8), X)
_add("lstm_gradient", jax.grad(lambda w, x: _lstm(w, x).sum()), _array(6, 8), X)
_add(
    "while",
    lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.1), (0, x)),
    X,
)
_add(
    "while_captures",
    lambda x, n: lax.while_loop(lambda v: v.sum() < n, lambda v: v + x[0].max(), jnp.abs(x)),
    POSITIVE,
    np.float32(90),
)
_add("fori", lambda x: lax.fori_loop(0, 4, lambda i, v: v.at[i % 3].add(i * v[0]), x), X)
_add("fori_dynamic", lambda x, n: lax.fori_loop(0, n, lambda i, v: v + i, x), X, np.int32(6))
_add("cond", lambda p, x, y: lax.cond(p, lambda: x @ y.T, lambda: (y @ y.T) * 2), np.True_, X, Y)
_add(
    "cond_several",
    lambda p, x: lax.cond(p, lambda v: (v, v + 1), lambda v: (v * 2, v), x),
    np.False_,
    X,
)
_add("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda v: v * 3], x), np.int32(2), X)
_add(
    "cond_in_scan",
    lambda x: lax.scan(
        lambda c, r: (lax.cond(r[0] > 0, lambda: c + r, lambda: c - x[0]), c), x[0], x
    ),
    X,
)
_add(
    "while_in_cond",
    lambda p, x: lax.cond(p, lambda: lax.fori_loop(0, 3, lambda i, v: v + x, x), lambda: x),
    np.True_,
    X,
)
_add("map", lambda x: lax.map(lambda r: r @ x.T, x), X)
_add("associative_scan", lambda x: lax.associative_scan(jnp.multiply, x, axis=1), X)
_add(
    "nested_jit",
    lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.sin)(x * 2) + jax.jit(lambda v: (v, v))(x)[1],
    X,
)
_add(
    "vmap_while",
    jax.vmap(lambda v: lax.while_loop(lambda s: s < 3, lambda s: s * 2 + 1, v)),
    POSITIVE[:, 0],
)
_add("checkpoint", jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())), X)
_add("custom_jvp", jax.grad(lambda x: jax.nn.relu(x).sum() + jax.nn.gelu(x).sum()), X)
_add("optimization_barrier", lambda x: lax.optimization_barrier((x, x * 2)), X)
_add("no_results", lambda x: (), X)
_add("several_results", lambda x: {"a": x, "b": (x + 1, x.sum())}, X)
_add("unused_argument", lambda x, y: x * 2, X, Y)

# ---- whole programs


def _loss(parameters: Any, x: Any, labels: Any) -> Any:
    for weights, bias in parameters[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    logits = x @ parameters[-1][0] + parameters[-1][1]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, 3), 1))


def _train(parameters: Any, x: Any, labels: Any) -> Any:
    loss, gradient = jax.value_and_grad(_loss)(parameters, x, labels)
    return loss, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)


_PARAMETERS = [(_array(4, 8), _array(8)), (_array(8, 3), _array(3))]
_add("mlp_train", _train, _PARAMETERS, X, np.array([0, 2, 1], np.int32))


def _attention(x: Any, weights: Any) -> Any:
    query, key, value = jnp.split(x @ weights, 3, -1)
    scores = jnp.einsum("btd,bsd->bts", query, key) / 2
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    shares = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    mixed = x + shares @ value
    return (mixed - mixed.mean(-1, keepdims=True)) * lax.rsqrt(mixed.var(-1, keepdims=True) + 1e-5)


_add("attention", _attention, _array(2, 5, 4), _array(4, 12))
_add(
    "attention_gradient",
    jax.grad(lambda w, x: _attention(x, w).sum()),
    _array(4, 12),
    _array(2, 5, 4),
)
_add("hessian", jax.hessian(lambda v: jnp.sum(jnp.sin(v) * v[0])), V)
_add("random_bits", lambda k: jax.random.bits(k, (5,)), jax.random.key_data(jax.random.key(3)))
_add(
    "random_uniform", lambda k: jax.random.uniform(k, (5,)), jax.random.key_data(jax.random.key(3))
)
_add("random_normal", lambda k: jax.random.normal(k, (5,)), jax.random.key_data(jax.random.key(3)))
_add(
    "rng_bit_generator",
    lambda k: lax.rng_bit_generator(k, (6,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY),
    np.array([1, 2, 3, 4], np.uint32),
)
_add("interpolate", lambda x, v: jnp.interp(x, jnp.sort(v), v), X, V)
_add("polynomial", lambda v, x: jnp.polyval(v, x), V, X)
_add(
    "game_of_life",
    lambda m: sum(jnp.roll(m, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)),
    MASK.astype(np.int8),
)
_add("bfloat16", lambda x: jnp.tanh(x) @ x.T + 1, X.astype("bfloat16"))
_add("float16", lambda x: jnp.exp(x) * 0.5, X.astype("float16"))
_add("constants", lambda x: x + np.arange(12, dtype=np.float32).reshape(3, 4) + np.float32(2.5), X)
_add("constant_special", lambda x: x + np.array([np.nan, np.inf, -np.inf, -0.0], np.float32), X)
_add(
    "constant_bfloat16", lambda x: x + jnp.asarray(np.arange(4), jnp.bfloat16), X.astype("bfloat16")
)
_add("constant_bools", lambda x: jnp.where(np.array([True, False, False, True]), x, 0), X)
_add("constant_large", lambda x: x @ np.sin(np.arange(800, dtype=np.float32)).reshape(4, 200), X)
_add("empty", lambda x: jnp.concatenate([x[:0], x[:0] * 2]), X)

# ---- linear algebra, transforms, complex numbers, narrow types
_SQUARE = _array(4, 4)
_POSITIVE_DEFINITE = _SQUARE @ _SQUARE.T + 4 * np.eye(4, dtype=np.float32)
_COMPLEX = (_array(3, 4) + 1j * _array(3, 4)).astype(np.complex64)
_add("cholesky", jnp.linalg.cholesky, _POSITIVE_DEFINITE)
_add(
    "triangular_solve",
    lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True, trans=1),
    np.tril(_POSITIVE_DEFINITE),
    _SQUARE,
)
_add("solve", jnp.linalg.solve, _POSITIVE_DEFINITE, _SQUARE)
_add("inverse_determinant", lambda a: (jnp.linalg.inv(a), jnp.linalg.det(a)), _POSITIVE_DEFINITE)
_add("qr", lambda a: jnp.abs(jnp.linalg.qr(a)[1]), _SQUARE)
_add("eigenvalues", lambda a: jnp.linalg.eigvalsh(a), _POSITIVE_DEFINITE)
_add("singular_values", lambda a: jnp.linalg.svd(a, compute_uv=False), _array(4, 3))
_add("fft", lambda x: jnp.fft.fft(x), _COMPLEX)
_add("fft_real", lambda x: (jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x), 4)), X)
_add("fft_2d", lambda x: jnp.fft.ifft2(jnp.fft.fft2(x)), _COMPLEX)
_add(
    "complex_functions", lambda z: (jnp.exp(z), jnp.sqrt(z), jnp.sin(z), z**2, jnp.abs(z)), _COMPLEX
)
_add("complex_matmul", lambda z: z @ z.T.conj(), _COMPLEX)
_add("complex_constant", lambda z: z * np.complex64(1 + 2j) + np.ones(4, np.complex64), _COMPLEX)
_add("float8", lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32) * 2, X)
_add("int4", lambda n: (n.astype(jnp.int4) + 1).astype(jnp.int32), N % 4)
_add("unsigned", lambda n: (n // 3, n % 3, n.astype(jnp.float32)), np.abs(N).astype(np.uint8))
_add("batch_norm_inference", lambda x: jax.nn.standardize(x, axis=0), X)
