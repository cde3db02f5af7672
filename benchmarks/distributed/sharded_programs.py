# SPDX-License-Identifier: Apache-2.0
"""Programs divided over the devices of one process, as `benchmarks.distributed.devices` times them.

Each function returns a jitted function and its arguments. Data, tensor and fully sharded data
parallelism, sequences, experts, images divided by rows, vocabularies, stencils and sums: by
annotations, or by hand in `shard_map`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

Program = tuple[Callable[..., Any], tuple[Any, ...]]
_SECONDS, _MOST_CALLS = 0.8, 300
_RATE = 0.1
"""Of gradient descent."""


class World:
    """A mesh of all devices, and random arrays on it."""

    def __init__(self) -> None:
        self.count = len(jax.devices())
        self.mesh = jax.make_mesh((self.count,), ("x",), axis_types=(AxisType.Auto,))
        self._rng = np.random.default_rng(0)

    def on(self, *axes: Any) -> NamedSharding:
        """Return the sharding of dimensions over mesh axes."""
        return NamedSharding(self.mesh, P(*axes))

    def normal(self, *axes: Any, dims: tuple[int, ...], scale: float = 1) -> Any:
        """Return an array of normal numbers, divided."""
        data = self._rng.standard_normal(dims, np.float32) * np.float32(scale)
        return jax.device_put(data, self.on(*axes))

    def integers(self, *axes: Any, dims: tuple[int, ...], limit: int) -> Any:
        """Return an array of numbers below `limit`, divided."""
        return jax.device_put(self._rng.integers(0, limit, dims), self.on(*axes))

    def by_hand(self, function: Any, ins: Any, outs: Any) -> Any:
        """Return a jitted function of each device's parts."""
        return jax.jit(
            jax.shard_map(function, mesh=self.mesh, in_specs=ins, out_specs=outs, check_vma=False)
        )


def _fully_sharded_step(w: World) -> Program:
    weights = [w.normal("x", dims=(512, 512), scale=0.05) for _ in range(4)]
    x = w.normal("x", dims=(64 * w.count, 512))

    def loss(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = jax.nn.gelu(x @ weight)
        return (x**2).mean()

    def step(weights: Any, x: Any) -> Any:
        slopes = jax.grad(loss)(weights, x)
        return [weight - _RATE * slope for weight, slope in zip(weights, slopes, strict=True)]

    return jax.jit(step, out_shardings=[w.on("x")] * 4), (weights, x)


def _tensor_parallel_block(w: World) -> Program:
    width = 256
    x = w.normal(dims=(4, 128, width))
    into, out = (
        w.normal(*axes, dims=dims, scale=0.05)
        for axes, dims in (((None, "x"), (width, 3 * width)), (("x",), (width, width)))
    )
    up, down = (
        w.normal(*axes, dims=dims, scale=0.05)
        for axes, dims in (((None, "x"), (width, 4 * width)), (("x",), (4 * width, width)))
    )

    def block(x: Any, into: Any, out: Any, up: Any, down: Any) -> Any:
        z = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        q, k, v = jnp.moveaxis((z @ into).reshape(4, 128, 3, 8, 32), 2, 0)
        scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 5.6, -1)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(4, 128, width)
        x = x + mixed @ out
        return x + jax.nn.gelu(x @ up) @ down

    return jax.jit(block, out_shardings=w.on()), (x, into, out, up, down)


def _ring_attention(w: World) -> Program:
    q, k, v = (w.normal(None, "x", dims=(2, 512, 4, 32)) for _ in range(3))
    ring = [(device, (device + 1) % w.count) for device in range(w.count)]

    def attend(q: Any, k: Any, v: Any) -> Any:
        batch, rows, heads, _ = q.shape

        def turn(_: Any, state: Any) -> Any:
            most, total, out, k, v = state
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(32)
            higher = jnp.maximum(most, scores.max(-1))
            p, old = jnp.exp(scores - higher[..., None]), jnp.exp(most - higher)
            out = out * old.transpose(0, 2, 1)[..., None] + jnp.einsum("bhqk,bkhd->bqhd", p, v)
            k, v = (lax.ppermute(each, "x", ring) for each in (k, v))
            return higher, total * old + p.sum(-1), out, k, v

        least, none = jnp.full((batch, heads, rows), -1e30), jnp.zeros((batch, heads, rows))
        state = lax.fori_loop(0, w.count, turn, (least, none, jnp.zeros_like(q), k, v))
        return state[2] / state[1].transpose(0, 2, 1)[..., None]

    return w.by_hand(attend, P(None, "x"), P(None, "x")), (q, k, v)


def _attention_by_sequence(w: World) -> Program:
    q, k, v = (w.normal(None, None, "x", dims=(2, 8, 512, 32)) for _ in range(3))
    causal = jnp.tril(jnp.ones((512, 512), bool))

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 5.6
        chosen = jax.nn.softmax(jnp.where(causal, scores, -1e9), -1)
        return jnp.einsum("bhqk,bhkd->bhqd", chosen, v)

    return jax.jit(attend), (q, k, v)


def _experts(w: World) -> Program:
    x, gate = w.normal("x", dims=(w.count * 256, 128)), w.normal(dims=(128, w.count))
    up = w.normal("x", dims=(w.count, 128, 256), scale=0.1)
    down = w.normal("x", dims=(w.count, 256, 128), scale=0.1)

    def route(x: Any, up: Any, down: Any, gate: Any) -> Any:
        room = x.shape[0] // w.count * 2
        expert = jnp.argmax(x @ gate, -1)
        chosen = jax.nn.one_hot(expert, w.count)
        slot = (jnp.cumsum(chosen, 0) * chosen).sum(-1).astype(jnp.int32) - 1
        kept = slot < room
        sent = jnp.zeros((w.count, room, 128))
        sent = sent.at[expert, jnp.where(kept, slot, room)].set(x, mode="drop")
        got = lax.all_to_all(sent, "x", 0, 0, tiled=True)
        back = lax.all_to_all(jax.nn.relu(got @ up[0]) @ down[0], "x", 0, 0, tiled=True)
        return back[expert, jnp.where(kept, slot, 0)] * kept[:, None] + x

    return w.by_hand(route, (P("x"), P("x"), P("x"), P()), P("x")), (x, up, down, gate)


def _language_model_step(w: World) -> Program:
    table, weight = w.normal("x", dims=(8000, 128), scale=0.1), w.normal(dims=(128, 128), scale=0.1)
    tokens = w.integers(dims=(8, 64), limit=8000)

    def loss(table: Any, weight: Any, tokens: Any) -> Any:
        scores = jnp.tanh(table[tokens] @ weight)[:, :-1] @ table.T
        chosen = jnp.take_along_axis(scores, tokens[:, 1:, None], -1)[..., 0]
        return (jax.nn.logsumexp(scores, -1) - chosen).mean()

    def step(table: Any, weight: Any, tokens: Any) -> Any:
        value, slopes = jax.value_and_grad(loss, (0, 1))(table, weight, tokens)
        return table - _RATE * slopes[0], weight - _RATE * slopes[1], value

    return jax.jit(step), (table, weight, tokens)


def _embedding_lookup(w: World) -> Program:
    table, tokens = w.normal("x", dims=(50000, 64)), w.integers(dims=(64, 32), limit=50000)
    return jax.jit(lambda table, tokens: table[tokens].sum(1)), (table, tokens)


def _convolved(x: Any, weight: Any) -> Any:
    names = ("NHWC", "HWIO", "NHWC")
    return jax.nn.relu(lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=names))


def _image_rows(w: World) -> Program:
    x = w.normal(None, "x", dims=(4, 64, 64, 32))
    weight = w.normal(dims=(3, 3, 32, 32), scale=0.1)
    return jax.jit(lambda x, weight: _convolved(_convolved(x, weight), weight)), (x, weight)


def _image_rows_gradient(w: World) -> Program:
    x = w.normal(None, "x", dims=(4, 64, 64, 16))
    weights = [w.normal(dims=(3, 3, 16, 16), scale=0.1) for _ in range(3)]

    def loss(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = _convolved(x, weight)
        return (x**2).mean()

    return jax.jit(jax.grad(loss)), (weights, x)


def _pooled_rows(w: World) -> Program:
    x = w.normal(None, "x", dims=(8, 64, 64, 32))
    pool = partial(
        lax.reduce_window, init_value=-jnp.inf, computation=lax.max,
        window_dimensions=(1, 3, 3, 1), window_strides=(1, 2, 2, 1), padding="SAME",
    )  # fmt: skip
    return jax.jit(pool), (x,)


def _stencil_by_rolls(w: World) -> Program:
    def step(_: Any, u: Any) -> Any:
        around = (jnp.roll(u, shift, axis) for axis in (0, 1) for shift in (1, -1))
        return u + 0.1 * (sum(around) - 4 * u)

    return jax.jit(lambda u: lax.fori_loop(0, 20, step, u)), (w.normal("x", dims=(512, 512)),)


def _stencil_by_hand(w: World) -> Program:
    up = [(device, (device + 1) % w.count) for device in range(w.count)]
    down = [(target, source) for source, target in up]

    def step(_: Any, u: Any) -> Any:
        before, after = lax.ppermute(u[-1:], "x", up), lax.ppermute(u[:1], "x", down)
        rows = jnp.concatenate([before, u, after])
        return 0.2 * (rows[2:] + rows[:-2] + u + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1))

    loop = w.by_hand(lambda u: lax.fori_loop(0, 50, step, u), P("x"), P("x"))
    return loop, (w.normal("x", dims=(512, 512)),)


def _stencil_of_the_interior(w: World) -> Program:
    def step(_: Any, u: Any) -> Any:
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        return u.at[1:-1, 1:-1].add(0.1 * (around - 4 * u[1:-1, 1:-1]))

    loop = jax.jit(lambda u: lax.fori_loop(0, 20, step, u), out_shardings=w.on("x"))
    return loop, (w.normal("x", dims=(512, 512)),)


def _differences(w: World) -> Program:
    def variation(u: Any) -> Any:
        return jnp.abs(jnp.diff(u, axis=0)).sum() + jnp.abs(jnp.diff(u, axis=1)).sum()

    gradient = jax.jit(jax.grad(variation), out_shardings=w.on("x"))
    return gradient, (w.normal("x", dims=(2048, 512)),)


def _loss_of_next_tokens(w: World) -> Program:
    def loss(logits: Any, tokens: Any) -> Any:
        scores = jax.nn.log_softmax(logits[:, :-1])
        return -jnp.take_along_axis(scores, tokens[:, 1:, None], -1).mean()

    logits = w.normal(None, "x", dims=(4, 512, 1000))
    return jax.jit(jax.grad(loss)), (logits, w.integers(None, "x", dims=(4, 512), limit=1000))


def _decoding_with_a_divided_cache(w: World) -> Program:
    def decode(cache: Any, query: Any) -> Any:
        def turn(at: Any, state: Any) -> Any:
            cache, query = state
            cache = lax.dynamic_update_slice(cache, query[:, None], (0, at, 0))
            scores = jnp.einsum("btd,bd->bt", cache, query) / 8
            scores = jnp.where(jnp.arange(cache.shape[1]) <= at, scores, -jnp.inf)
            return cache, jnp.einsum("bt,btd->bd", jax.nn.softmax(scores), cache)

        return lax.fori_loop(0, 16, turn, (cache, query))[1]

    cache, query = w.normal(None, "x", dims=(8, 2048, 64)), w.normal(dims=(8, 64))
    return jax.jit(decode), (cache, query)


def _two_views(w: World) -> Program:
    views = [w.normal("x", dims=(512, 128)) for _ in range(2)]

    def loss(first: Any, second: Any) -> Any:
        both = jnp.concatenate([first, second])
        both /= jnp.linalg.norm(both, axis=1, keepdims=True)
        count = len(both)
        scores = both @ both.T / 0.1 - 1e9 * jnp.eye(count)
        other = jnp.roll(jnp.arange(count), count // 2)
        return (jax.nn.logsumexp(scores, 1) - scores[jnp.arange(count), other]).mean()

    return jax.jit(jax.value_and_grad(loss, (0, 1))), tuple(views)


def _greatest_of_rows(w: World) -> Program:
    x = w.normal("x", dims=(4096, 512))
    return jax.jit(lambda x: (jnp.argmax(x, 0), jnp.max(x, 0))), (x,)


def _mixed_halves(w: World) -> Program:
    def mix(x: Any, share: Any) -> Any:
        return share * x + (1 - share) * jnp.concatenate([x[128:], x[:128]])

    return jax.jit(mix), (w.normal("x", dims=(256, 64, 64, 3)), jnp.float32(0.3))


def _transform_2d(w: World) -> Program:
    f = jax.jit(lambda x: jnp.abs(jnp.fft.fft2(x)), out_shardings=w.on("x"))
    return f, (w.normal("x", dims=(512, 512)),)


def _clusters(w: World) -> Program:
    points, centres = w.normal("x", dims=(20000, 16)), w.normal(dims=(32, 16))

    def refine(points: Any, centres: Any) -> Any:
        def turn(_: Any, centres: Any) -> Any:
            distances = ((points[:, None] - centres[None]) ** 2).sum(-1)
            chosen = jax.nn.one_hot(jnp.argmin(distances, -1), 32)
            return (chosen.T @ points) / jnp.maximum(chosen.sum(0), 1)[:, None]

        return lax.fori_loop(0, 10, turn, centres)

    return jax.jit(refine, out_shardings=w.on()), (points, centres)


def _transposed(w: World) -> Program:
    f = jax.jit(lambda x: x.T * 2, out_shardings=w.on("x"))
    return f, (w.normal("x", dims=(1024, 1024)),)


def _norm_of_divided_features(w: World) -> Program:
    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    return jax.jit(norm), (w.normal(None, "x", dims=(2048, 512)),)


PROGRAMS: dict[str, Callable[[World], Program]] = {
    "MLP step, fully sharded": _fully_sharded_step,
    "transformer block, tensor parallel": _tensor_parallel_block,
    "attention around a ring": _ring_attention,
    "attention, sequences divided": _attention_by_sequence,
    "mixture of experts": _experts,
    "language model step, vocabulary divided": _language_model_step,
    "rows of a divided table": _embedding_lookup,
    "convolutions, rows divided": _image_rows,
    "gradients of convolutions, rows divided": _image_rows_gradient,
    "max-pool, rows divided": _pooled_rows,
    "stencil by rolls": _stencil_by_rolls,
    "stencil by hand": _stencil_by_hand,
    "stencil of the interior": _stencil_of_the_interior,
    "differences of neighbours": _differences,
    "loss of next tokens, sequences divided": _loss_of_next_tokens,
    "decoding, cache divided": _decoding_with_a_divided_cache,
    "contrastive loss of two views": _two_views,
    "argmax along divided rows": _greatest_of_rows,
    "mixed halves of a batch": _mixed_halves,
    "2-D transform": _transform_2d,
    "k-means": _clusters,
    "transpose": _transposed,
    "layer norm, features divided": _norm_of_divided_features,
}


def seconds_of_programs(devices: int) -> dict[str, float]:
    """Return the median seconds of a call of each program on so many devices of this process."""
    jax.config.update("jax_num_cpu_devices", devices)
    world = World()
    found: dict[str, float] = {}
    for name, make in PROGRAMS.items():
        call, arguments = make(world)
        jax.block_until_ready(call(*arguments))
        times: list[float] = []
        end = time.perf_counter() + _SECONDS
        while time.perf_counter() < end and len(times) < _MOST_CALLS:
            start = time.perf_counter()
            jax.block_until_ready(call(*arguments))
            times.append(time.perf_counter() - start)
        found[name] = float(np.median(times))
    return found
