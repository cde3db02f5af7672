# SPDX-License-Identifier: Apache-2.0
"""The classic compiled training step: forward, loss, gradients and update in one function.

Plain TensorFlow, as in its XLA guide, with real handwritten digits. Run it with `python`
(TensorFlow's own XLA) or `python -m ingot` (Ingot).
"""

import tensorflow as tf

import digits

STEPS = 1000
BATCH = 100


class Network:
    """Two dense layers: images `f32[n, 64]` to logits `f32[n, 10]`."""

    def __init__(self, hidden=32, seed=0):
        initializer = tf.keras.initializers.GlorotUniform(seed=seed)
        self.variables = [
            tf.Variable(initializer([digits.IMAGE_SIZE, hidden]), name="hidden_kernel"),
            tf.Variable(tf.zeros([hidden]), name="hidden_bias"),
            tf.Variable(initializer([hidden, digits.CLASSES]), name="output_kernel"),
            tf.Variable(tf.zeros([digits.CLASSES]), name="output_bias"),
        ]

    def __call__(self, images):
        hidden_kernel, hidden_bias, output_kernel, output_bias = self.variables
        hidden = tf.nn.relu(tf.matmul(images, hidden_kernel) + hidden_bias)
        return tf.matmul(hidden, output_kernel) + output_bias


def make_train_step(network, optimizer, jit_compile=True):
    """Return the compiled step: (images, labels) -> mean loss; it updates the network."""

    @tf.function(jit_compile=jit_compile)
    def train_step(images, labels):
        images = tf.cast(images, tf.float32)
        labels = tf.cast(labels, tf.int32)
        with tf.GradientTape() as tape:
            logits = network(images)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, network.variables)
        optimizer.apply_gradients(zip(gradients, network.variables, strict=True))
        return loss

    return train_step


def batches(data, steps=STEPS, batch=BATCH, seed=0):
    """Yield `steps` shuffled batches of `batch` images, the same ones at each call."""
    dataset = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
    dataset = dataset.shuffle(len(data.train_labels), seed=seed).repeat()
    return dataset.batch(batch, drop_remainder=True).take(steps)


def accuracy(network, images, labels):
    """Return the share of `images` that the network reads right."""
    guesses = tf.argmax(network(tf.constant(images)), axis=1)
    return float(tf.reduce_mean(tf.cast(guesses == labels, tf.float32)))


def train(steps=STEPS, jit_compile=True):
    """Train for `steps` steps; return the network and the losses."""
    data = digits.load()
    network = Network()
    optimizer = tf.keras.optimizers.Adam(learning_rate=0.003)
    optimizer.build(network.variables)
    train_step = make_train_step(network, optimizer, jit_compile)
    losses = [float(train_step(images, labels)) for images, labels in batches(data, steps)]
    return network, losses


def main():
    data = digits.load()
    network, losses = train()
    held_out = accuracy(network, data.test_images, data.test_labels)
    print(f"loss after 1, 100 and {STEPS} steps: ", end="")
    print(", ".join(f"{losses[step - 1]:.4f}" for step in (1, 100, STEPS)))
    print(f"held-out accuracy: {held_out:.4f}")


if __name__ == "__main__":
    main()
