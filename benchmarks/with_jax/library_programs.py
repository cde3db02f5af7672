# SPDX-License-Identifier: Apache-2.0
"""Programs of the libraries that JAX users build on: the table of names, functions and arguments.

Models, optimizers, solvers and samplers come from the libraries as they are, and are used as their
documentation shows. They need the extra `jax-libraries`; `benchmarks.with_jax.whole --libraries`
runs them. Nothing is downloaded.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import blackjax
import diffrax
import e3nn_jax
import equinox
import flax.linen as nn
import haiku
import jax
import jax.numpy as jnp
import jraph
import mctx
import numpy as np
import numpyro
import optax
import optimistix
import tinygp
from flax import nnx
from numpyro import distributions
from numpyro.infer import NUTS
from numpyro.infer.util import initialize_model

from benchmarks.common.programs import Samples
from benchmarks.with_jax.whole_programs import Arguments, Whole

KEY = jax.random.key(0)


def class_loss(logits, labels):
    """Mean cross-entropy of class numbers."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


# Flax's Linen: a small language model.


class Block(nn.Module):
    """A layer of a transformer whose normalization comes first."""

    dtype: Any

    @nn.compact
    def __call__(self, words, mask):
        """Return f32[batch, length, 256]."""
        inner = nn.LayerNorm(dtype=self.dtype)(words)
        attention = nn.MultiHeadDotProductAttention(8, dtype=self.dtype, use_bias=False)
        words = words + attention(inner, mask=mask)
        inner = nn.LayerNorm(dtype=self.dtype)(words)
        inner = nn.gelu(nn.Dense(1024, dtype=self.dtype)(inner))
        return words + nn.Dense(256, dtype=self.dtype)(inner)


class LanguageModel(nn.Module):
    """Three layers with causal attention."""

    dtype: Any

    @nn.compact
    def __call__(self, tokens):
        """Return logits f32[batch, length, 1000]."""
        words = nn.Embed(1000, 256, dtype=self.dtype)(tokens)
        words += self.param("positions", nn.initializers.normal(0.02), (*tokens.shape[1:], 256))
        for _ in range(3):
            words = Block(self.dtype)(words, nn.make_causal_mask(tokens))
        return nn.Dense(1000)(nn.LayerNorm()(words))


def language_model(dtype) -> Whole:
    """Return the row of a training step, with matrix products in `dtype`."""
    model = LanguageModel(dtype)
    schedule = optax.warmup_cosine_decay_schedule(0, 1e-3, 10, 100)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))

    def loss(parameters, tokens):
        return class_loss(model.apply(parameters, tokens)[:, :-1], tokens[:, 1:])

    def step(parameters, state, tokens):
        value, gradients = jax.value_and_grad(loss)(parameters, tokens)
        updates, state = optimizer.update(gradients, state, parameters)
        return value, optax.apply_updates(parameters, updates), state

    def arguments(make: Samples) -> Arguments:
        tokens = make.integers(1000, (4, 128))
        parameters = model.init(KEY, tokens)
        return parameters, optimizer.init(parameters), tokens

    name = f"Flax: transformer train step, {jnp.dtype(dtype).name}"
    return Whole(name, step, arguments, 1e-3 if dtype == jnp.float32 else 5e-2)


# Flax's NNX: a small convolutional network.


class Convolutional(nnx.Module):
    """Two convolutions, batch normalization, dropout, two dense layers."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        """Draw the parameters."""
        self.first = nnx.Conv(1, 32, (3, 3), use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(32, rngs=rngs)
        self.second = nnx.Conv(32, 64, (3, 3), rngs=rngs)
        self.dropout = nnx.Dropout(0.025, rngs=rngs)
        self.hidden = nnx.Linear(3136, 256, rngs=rngs)
        self.out = nnx.Linear(256, 10, rngs=rngs)

    def __call__(self, images):
        """Return logits f32[batch, 10]."""
        images = nnx.avg_pool(nnx.relu(self.norm(self.first(images))), (2, 2), (2, 2))
        images = nnx.avg_pool(nnx.relu(self.second(images)), (2, 2), (2, 2))
        images = images.reshape(images.shape[0], -1)
        return self.out(nnx.relu(self.dropout(self.hidden(images))))


@cache
def _convolutional():
    return nnx.split(Convolutional(nnx.Rngs(0)))


def convolutional_step(state, images, labels):
    """Return the loss, and the model's state after gradient descent."""
    definition, _ = _convolutional()
    model = nnx.merge(definition, state)
    value, gradients = nnx.value_and_grad(lambda m: class_loss(m(images), labels))(model)
    parameters = nnx.state(model, nnx.Param)
    nnx.update(model, jax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradients))
    return value, nnx.state(model, nnx.Param)


# Haiku: its ResNet-18.

RESNET = haiku.transform_with_state(
    lambda images: haiku.nets.ResNet18(10, resnet_v2=True)(images, is_training=True)
)


def resnet_step(parameters, state, images, labels):
    """Return the loss, and parameters and state after gradient descent."""

    def loss(parameters):
        logits, new = RESNET.apply(parameters, state, None, images)
        return class_loss(logits, labels), new

    (value, state), gradients = jax.value_and_grad(loss, has_aux=True)(parameters)
    return value, jax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradients), state


def _resnet(make: Samples) -> Arguments:
    images = make((8, 32, 32, 3))
    return *jax.jit(RESNET.init)(KEY, images), images, make.integers(10, 8)


# Equinox and Diffrax: a neural differential equation. Diffrax: a stiff one.


@cache
def _field():
    field = equinox.nn.MLP(2, 2, 64, 2, activation=jax.nn.softplus, key=KEY)
    return equinox.partition(field, equinox.is_array)


def neural_equation(parameters, paths):
    """Return loss and gradients of fitting paths f32[batch, 20, 2]."""
    _, static = _field()
    times = jnp.linspace(0, 1, 20)
    controller = diffrax.PIDController(1e-3, 1e-6)

    def solve(start, field):
        term = diffrax.ODETerm(lambda time, y, _: field(y))
        saved = diffrax.SaveAt(ts=times)
        found = diffrax.diffeqsolve(
            term, diffrax.Tsit5(), 0, 1, 0.05, start, saveat=saved, stepsize_controller=controller
        )
        return found.ys

    def loss(parameters):
        field = equinox.combine(parameters, static)
        return ((jax.vmap(lambda path: solve(path[0], field))(paths) - paths) ** 2).mean()

    return jax.value_and_grad(loss)(parameters)


def robertson(start):
    """Return concentrations f32[3] after 100 seconds of Robertson's reaction."""

    def rates(_, y, __):
        first, second, third = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return jnp.array([second - first, first - second - third, third])

    controller = diffrax.PIDController(1e-4, 1e-6)
    solver = diffrax.Kvaerno5()
    return diffrax.diffeqsolve(
        diffrax.ODETerm(rates), solver, 0, 100, 2e-4, start,
        stepsize_controller=controller, max_steps=None,
    ).ys  # fmt: skip


def fit_curve(start, times, values):
    """Return three coefficients fitted by Levenberg and Marquardt's method (Optimistix)."""

    def residuals(unknown, _):
        return unknown[0] * jnp.exp(-unknown[1] * times) + unknown[2] - values

    solver = optimistix.LevenbergMarquardt(1e-5, 1e-5)
    return optimistix.least_squares(residuals, solver, start, throw=False).value


# Optax: optimizers by themselves.


def quasi_newton(start):
    """Return the values of 20 steps of L-BFGS with a line search on Rosenbrock's function."""

    def value_of(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    optimizer = optax.lbfgs()
    value_and_gradient = optax.value_and_grad_from_state(value_of)

    def step(carried, _):
        x, state = carried
        value, gradient = value_and_gradient(x, state=state)
        updates, state = optimizer.update(
            gradient, state, x, value=value, grad=gradient, value_fn=value_of
        )
        return (optax.apply_updates(x, updates), state), value

    return jax.lax.scan(step, (start, optimizer.init(start)), length=20)[1]


MUON = optax.contrib.muon(1e-2)


def _muon(make: Samples) -> Arguments:
    weights = [make((256, 256)) for _ in range(4)]
    return [make((256, 256)) for _ in range(4)], MUON.init(weights), weights


# NumPyro and BlackJAX: samplers.


def regression(inputs, labels):
    """Logistic regression: classes bool[n] by inputs f32[n, 10]."""
    weights = numpyro.sample("weights", distributions.Normal(0, 1).expand([10]))
    numpyro.sample("labels", distributions.Bernoulli(logits=inputs @ weights), obs=labels)


def _regression(make: Samples) -> tuple[np.ndarray, np.ndarray]:
    return make((1000, 10)), make.integers(2, 1000)


def potential(weights, inputs, labels):
    """Return potential and gradient of the regression at some weights."""
    data = (inputs, labels)
    model = initialize_model(KEY, regression, model_args=data, dynamic_args=True)
    energy = model.potential_fn(*data)
    return jax.value_and_grad(energy)({"weights": weights})


def numpyro_chain(inputs, labels):
    """Return the mean weights of 20 transitions of NumPyro's NUTS."""
    kernel, data = NUTS(regression, adapt_step_size=False, step_size=0.05), (inputs, labels)
    state = kernel.init(KEY, 0, None, data, {})

    def step(state, _):
        state = kernel.sample(state, data, {})
        return state, state.z["weights"]

    return jax.lax.scan(step, state, length=20)[1].mean(0)


def blackjax_chain(precision):
    """Return 100 positions of BlackJAX's Hamiltonian sampler, of a Gaussian of 20 dimensions."""
    sampler = blackjax.hmc(lambda x: -0.5 * x @ precision @ x, 1e-2, jnp.ones(20), 10)

    def step(state, key):
        state, _ = sampler.step(key, state)
        return state, state.position

    return jax.lax.scan(step, sampler.init(jnp.ones(20)), jax.random.split(KEY, 100))[1]


def _precision(make: Samples) -> Arguments:
    root = make((20, 20))
    return (root @ root.T / 20 + np.eye(20, dtype=np.float32),)


# Mctx: a tree search. e3nn: an equivariant layer. Jraph: messages. tinygp: a Gaussian process.


def tree_search(embedding, weights):
    """Return the action weights f32[batch, 8] of a Gumbel MuZero search."""
    batch = embedding.shape[0]

    def model(_, __, action, state):
        state = jnp.tanh(state @ weights + 0.1 * action[:, None])
        output = mctx.RecurrentFnOutput(
            reward=state[:, 0],
            discount=jnp.full(batch, 0.9),
            prior_logits=state[:, :8],
            value=state[:, 9],
        )
        return output, state

    root = mctx.RootFnOutput(
        prior_logits=jnp.zeros((batch, 8)), value=jnp.zeros(batch), embedding=embedding
    )
    return mctx.gumbel_muzero_policy((), KEY, root, model, 32).action_weights


def equivariant(features, directions):
    """Return value and gradient of a tensor product with spherical harmonics."""
    irreps = e3nn_jax.Irreps("16x0e+8x1o+4x2e")
    harmonics = e3nn_jax.spherical_harmonics("1x0e+1x1o+1x2e", directions, normalize=True)

    def total(features):
        product = e3nn_jax.tensor_product(e3nn_jax.IrrepsArray(irreps, features), harmonics)
        return e3nn_jax.norm(product).array.sum()

    return jax.value_and_grad(total)(features)


def graph_network(parameters, graph):
    """Return loss and gradients of two rounds of messages."""

    def node(nodes, sent, received, shared):
        return jax.nn.relu(jnp.concatenate([nodes, sent, received, shared], -1) @ parameters[0])

    def edge(edges, sent, received, shared):
        return jnp.tanh(jnp.concatenate([edges, sent, received, shared], -1) @ parameters[1])

    def loss(parameters):
        network = jraph.GraphNetwork(update_node_fn=node, update_edge_fn=edge)
        return (network(network(graph)).nodes ** 2).mean()

    return jax.value_and_grad(loss)(parameters)


def _graph(make: Samples) -> Arguments:
    nodes, edges = 2000, 8000
    graph = jraph.GraphsTuple(
        nodes=make((nodes, 64)),
        edges=make((edges, 16)),
        senders=make.integers(nodes, edges),
        receivers=make.integers(nodes, edges),
        n_node=np.array([nodes]),
        n_edge=np.array([edges]),
        globals=np.ones((1, 4), np.float32),
    )
    return (make((100, 64), 0.1), make((148, 16), 0.1)), graph


def gaussian_process(parameters, times, values):
    """Return likelihood and gradient of a Matern process over f32[n] times."""

    def likelihood(parameters):
        scale, length, noise = jnp.exp(parameters)
        kernel = scale * tinygp.kernels.Matern52(length)
        return tinygp.GaussianProcess(kernel, times, diag=noise).log_probability(values)

    return jax.value_and_grad(likelihood)(parameters)


def _process(make: Samples) -> Arguments:
    times = np.sort(make.uniform(0, 5, 300))
    return np.array([0, 0, -2], np.float32), times, np.sin(times)


def _curve(make: Samples) -> Arguments:
    times = np.linspace(0, 4, 200, dtype=np.float32)
    return np.ones(3, np.float32), times, 2.5 * np.exp(-1.3 * times) + 0.5 + make(200, 0.01)


PROGRAMS = (
    language_model(jnp.float32),
    language_model(jnp.bfloat16),
    Whole(
        "Flax NNX: CNN train step",
        convolutional_step,
        lambda make: (_convolutional()[1], make((32, 28, 28, 1)), make.integers(10, 32)),
        1e-3,
    ),
    Whole("Haiku: ResNet-18 train step, 8x32x32", resnet_step, _resnet, 2e-2),
    Whole(
        "Equinox, Diffrax: neural ODE, gradients",
        neural_equation,
        lambda make: (_field()[0], make((32, 20, 2))),
        1e-3,
    ),
    Whole("Diffrax: stiff equation", robertson, lambda _: (np.float32([1, 0, 0]),)),
    Whole("Optimistix: Levenberg-Marquardt", fit_curve, _curve, 1e-3),
    Whole("Optax: L-BFGS, 20 steps of 1,000", quasi_newton, lambda _: (jnp.zeros(1000),)),
    Whole("Optax: Muon, 4 of 256x256", MUON.update, _muon),
    Whole("NumPyro: regression, gradient", potential, lambda make: (make(10), *_regression(make))),
    Whole("NumPyro: NUTS, 20 transitions", numpyro_chain, _regression, 1e-2),
    Whole("BlackJAX: HMC, 100 transitions", blackjax_chain, _precision, 1e-2),
    Whole(
        "Mctx: Gumbel search, 16 roots",
        tree_search,
        lambda make: (make((16, 64)), make((64, 64), 0.1)),
    ),
    Whole(
        "e3nn: tensor product, gradient",
        equivariant,
        lambda make: (make((256, 60)), make((256, 3))),
    ),
    Whole("Jraph: graph network, gradients", graph_network, _graph),
    Whole("tinygp: Matern process, gradient", gaussian_process, _process, 1e-2),
)
