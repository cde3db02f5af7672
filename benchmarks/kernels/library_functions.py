# SPDX-License-Identifier: Apache-2.0
"""What the kernels of `library_rows` are in JAX, PyTorch, NumPy and SciPy.

JAX's are functions of arrays. A library's entry gets its arrays and returns what is called again
and again; what a careful user would prepare once (layouts of weights) is prepared there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Functions = dict[str, Callable[..., Any]]
Call = Callable[[], Any]


def jax_functions() -> Functions:
    """Return each kernel as a function of JAX arrays."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def convolution(image, taps, stride, groups):
        return lax.conv_general_dilated(
            image,
            taps,
            (stride, stride),
            [(size // 2, size // 2) for size in taps.shape[:2]],
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )

    def linear(x, weights, bias):
        return jax.nn.gelu(x @ weights + bias, approximate=False)

    def attention(query, keys, values):
        scores = jnp.einsum("bhqd,bhkd->bhqk", query, keys) * query.shape[-1] ** -0.5
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), values)

    def layer_norm(x, scale, shift):
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift

    return {
        "sort": jnp.sort,
        "argsort": jnp.argsort,
        "top": lambda x, k: lax.top_k(x, k),
        "fft": jnp.fft.fft,
        "rfft": jnp.fft.rfft,
        "fft2": jnp.fft.fft2,
        "convolution": convolution,
        "product": jnp.matmul,
        "product of bytes": lambda x, y: jnp.matmul(x, y, preferred_element_type=jnp.int32),
        "linear": linear,
        "attention": attention,
        "exponential": jnp.exp,
        "logarithm": jnp.log,
        "tanh": jnp.tanh,
        "erf": jax.scipy.special.erf,
        "sum": jnp.sum,
        "sum of columns": lambda x: x.sum(0),
        "softmax": lambda x: jax.nn.softmax(x, -1),
        "layer norm": layer_norm,
        "cumulative sum": lambda x: jnp.cumsum(x, -1),
        "transpose": lambda x: x.T,
        "rows": lambda x, indices: x[indices],
        "cholesky": lambda x, _: jnp.linalg.cholesky(x),
        "solve": jnp.linalg.solve,
        "singular values": lambda x: jnp.linalg.svd(x, compute_uv=False),
        "eigenvalues": lambda x, _: jnp.linalg.eigvalsh(x),
    }


def torch_functions() -> Functions:
    """Return each kernel as what makes a call of PyTorch."""
    import torch
    from torch.nn import functional as nn

    def convolution(image, taps, stride, groups):
        image = image.permute(0, 3, 1, 2)
        taps = taps.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        padding = [size // 2 for size in taps.shape[2:]]

        def call() -> Any:
            found = nn.conv2d(image, taps, None, stride, padding, groups=groups)
            return found.permute(0, 2, 3, 1)

        return call

    def linear(x, weights, bias):
        weights = weights.T.contiguous()
        return lambda: nn.gelu(nn.linear(x, weights, bias))

    def layer_norm(x, scale, shift):
        return lambda: nn.layer_norm(x, x.shape[-1:], scale, shift)

    def top(x, k):
        def call() -> Any:
            return tuple(torch.topk(x, k))

        return call

    return {
        "sort": lambda x: lambda: torch.sort(x, -1).values,
        "argsort": lambda x: lambda: torch.argsort(x, dim=-1, stable=True),
        "top": top,
        "fft": lambda x: lambda: torch.fft.fft(x),
        "rfft": lambda x: lambda: torch.fft.rfft(x),
        "fft2": lambda x: lambda: torch.fft.fft2(x),
        "convolution": convolution,
        "product": lambda x, y: lambda: torch.matmul(x, y),
        "product of bytes": lambda x, y: lambda: torch._int_mm(x, y),
        "linear": linear,
        "attention": lambda q, k, v: lambda: nn.scaled_dot_product_attention(q, k, v),
        "exponential": lambda x: lambda: torch.exp(x),
        "logarithm": lambda x: lambda: torch.log(x),
        "tanh": lambda x: lambda: torch.tanh(x),
        "erf": lambda x: lambda: torch.erf(x),
        "sum": lambda x: lambda: torch.sum(x),
        "sum of columns": lambda x: lambda: torch.sum(x, 0),
        "softmax": lambda x: lambda: torch.softmax(x, -1),
        "layer norm": layer_norm,
        "cumulative sum": lambda x: lambda: torch.cumsum(x, -1),
        "transpose": lambda x: lambda: x.T.contiguous(),
        "rows": lambda x, indices: lambda: torch.index_select(x, 0, indices),
        "cholesky": lambda x, _: lambda: torch.linalg.cholesky(x),
        "solve": lambda x, y: lambda: torch.linalg.solve(x, y),
        "singular values": lambda x: lambda: torch.linalg.svdvals(x),
        "eigenvalues": lambda x, _: lambda: torch.linalg.eigvalsh(x),
    }


def numpy_functions() -> Functions:
    """Return the kernels that NumPy or SciPy is good at as what makes a call of them."""
    import scipy.fft
    import scipy.special

    def fourier(name: str) -> Callable[..., Call]:
        function = getattr(scipy.fft, name)
        return lambda x: lambda: function(x, workers=-1)

    return {
        "sort": lambda x: lambda: np.sort(x, axis=-1),
        "argsort": lambda x: lambda: np.argsort(x, axis=-1, stable=True),
        "fft": fourier("fft"),
        "rfft": fourier("rfft"),
        "fft2": fourier("fft2"),
        "product": lambda x, y: lambda: np.matmul(x, y),
        "exponential": lambda x: lambda: np.exp(x),
        "logarithm": lambda x: lambda: np.log(x),
        "tanh": lambda x: lambda: np.tanh(x),
        "erf": lambda x: lambda: scipy.special.erf(x),
        "sum": lambda x: lambda: np.sum(x),
        "sum of columns": lambda x: lambda: np.sum(x, axis=0),
        "cumulative sum": lambda x: lambda: np.cumsum(x, axis=-1),
        "rows": lambda x, indices: lambda: np.take(x, indices, 0),
        "cholesky": lambda x, _: lambda: np.linalg.cholesky(x),
        "solve": lambda x, y: lambda: np.linalg.solve(x, y),
        "singular values": lambda x: lambda: np.linalg.svd(x, compute_uv=False),
        "eigenvalues": lambda x, _: lambda: np.linalg.eigvalsh(x),
    }
