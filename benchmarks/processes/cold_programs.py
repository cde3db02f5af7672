# SPDX-License-Identifier: Apache-2.0
"""Short scripts as users write them, each a process of its own in `benchmarks.processes.cold`.

`MODE` is the engine's: for TensorFlow `plain`, `jit` or `ingot`, for PyTorch the name of a backend
or nothing. `ingot.tensorflow` is imported first, as the README says and as sorted imports are: it
imports TensorFlow without collections of garbage.
"""

from __future__ import annotations

JAX = {
    "one line": """
import jax, jax.numpy as jnp
print(float(jax.jit(lambda x: (jnp.sin(x) * 2).sum())(jnp.ones((64, 64)))))
""",
    "training step of an MLP": """
import jax, jax.numpy as jnp, numpy as np
rng = np.random.default_rng(0)
sizes = [64, 128, 128, 10]
weights = [(rng.standard_normal(pair).astype("f") * 0.1, np.zeros(pair[1], "f"))
           for pair in zip(sizes, sizes[1:])]

def loss(weights, x, y):
    for matrix, bias in weights[:-1]:
        x = jax.nn.relu(x @ matrix + bias)
    matrix, bias = weights[-1]
    return -jnp.mean(jax.nn.log_softmax(x @ matrix + bias)[jnp.arange(len(y)), y])

@jax.jit
def step(weights, x, y):
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

x, y = rng.standard_normal((32, 64)).astype("f"), rng.integers(0, 10, 32)
for _ in range(20):
    weights, value = step(weights, x, y)
print(float(value))
""",
    "six layers of a transformer": """
import jax, jax.numpy as jnp, numpy as np
rng = np.random.default_rng(0)
width, heads = 128, 4
def matrix(*shape):
    return rng.standard_normal(shape).astype("f") * 0.05
layers = [[matrix(width, width) for _ in range(4)] + [matrix(width, 512), matrix(512, width)]
          for _ in range(6)]

def norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

def layer(x, weights):
    q, k, v, out, up, down = weights
    split = lambda y: y.reshape(*y.shape[:2], heads, -1).transpose(0, 2, 1, 3)
    h = norm(x)
    scores = jnp.einsum("bhid,bhjd->bhij", split(h @ q), split(h @ k)) / 5.7
    mixed = jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(scores), split(h @ v))
    x = x + mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ out
    return x + jax.nn.gelu(norm(x) @ up) @ down

@jax.jit
def model(layers, x):
    for weights in layers:
        x = layer(x, weights)
    return x

print(float(model(layers, matrix(2, 32, width)).sum()))
""",
}

TENSORFLOW = {
    "calls of a Keras MLP": """
if MODE == "ingot":
    import ingot.tensorflow
import tensorflow as tf
if MODE == "ingot":
    ingot.tensorflow.enable()
tf.keras.utils.set_random_seed(0)
model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(256, "relu"),
                             tf.keras.layers.Dense(10)])
call = tf.function(model, jit_compile=MODE != "plain")
x = tf.ones((32, 64))
for _ in range(100):
    y = call(x)
print(float(tf.reduce_sum(y)))
""",
    "fit of a Keras MLP": """
if MODE == "ingot":
    import ingot.tensorflow
import numpy as np, tensorflow as tf
if MODE == "ingot":
    ingot.tensorflow.enable()
tf.keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x, y = rng.standard_normal((2048, 64)).astype("f"), rng.integers(0, 10, 2048)
model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(256, "relu"),
                             tf.keras.layers.Dense(10)])
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, jit_compile=MODE != "plain")
print(model.fit(x, y, epochs=3, verbose=0).history["loss"][-1])
""",
}

TORCH = {
    "calls of an MLP": """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
call = torch.compile(model, backend=MODE) if MODE else model
with torch.no_grad():
    for _ in range(100):
        y = call(torch.ones(32, 64))
print(float(y.sum()))
""",
}
