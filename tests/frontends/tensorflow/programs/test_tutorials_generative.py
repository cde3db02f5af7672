# SPDX-License-Identifier: Apache-2.0
"""Generative models as TensorFlow's tutorials write them: autoencoders, adversaries, images."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tests.frontends.tensorflow.programs.beside import check, numbers

import digits

pytestmark = pytest.mark.slow


def test_autoencoder():
    def program(jit):
        data = digits.load()

        class Autoencoder(keras.Model):
            def __init__(self, latent_dim, shape):
                super().__init__()
                self.encoder = keras.Sequential(
                    [layers.Flatten(), layers.Dense(latent_dim, activation="relu")]
                )
                self.decoder = keras.Sequential(
                    [layers.Dense(int(np.prod(shape)), activation="sigmoid"), layers.Reshape(shape)]
                )

            def call(self, x):
                return self.decoder(self.encoder(x))

        images = data.train_images[:200].reshape(-1, 8, 8)
        autoencoder = Autoencoder(16, (8, 8))
        autoencoder.compile("adam", keras.losses.MeanSquaredError(), jit_compile=bool(jit))
        options = {"epochs": 3, "shuffle": True, "verbose": 0}
        history = autoencoder.fit(images, images, validation_data=(images, images), **options)
        return history.history, autoencoder.encoder(images[:4]).numpy()

    check(program)


def test_variational_autoencoder():
    def program(jit):
        data = digits.load()

        class Sampling(layers.Layer):
            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                self.seed_generator = keras.random.SeedGenerator(1337)

            def call(self, inputs):
                z_mean, z_log_var = inputs
                shape = keras.ops.shape(z_mean)
                epsilon = keras.random.normal(shape=shape, seed=self.seed_generator)
                return z_mean + keras.ops.exp(0.5 * z_log_var) * epsilon

        inputs = keras.Input((64,))
        x = layers.Dense(16, activation="relu")(inputs)
        z_mean, z_log_var = layers.Dense(2)(x), layers.Dense(2)(x)
        z = Sampling()([z_mean, z_log_var])
        encoder = keras.Model(inputs, [z_mean, z_log_var, z])
        decoder = keras.Sequential([layers.Input((2,)), layers.Dense(64, activation="sigmoid")])

        class VAE(keras.Model):
            def __init__(self, encoder, decoder, **kwargs):
                super().__init__(**kwargs)
                self.encoder, self.decoder = encoder, decoder
                self.total = keras.metrics.Mean(name="total_loss")
                self.kl = keras.metrics.Mean(name="kl_loss")

            @property
            def metrics(self):
                return [self.total, self.kl]

            def train_step(self, data):
                with tf.GradientTape() as tape:
                    z_mean, z_log_var, z = self.encoder(data)
                    losses = keras.losses.binary_crossentropy(data, self.decoder(z))
                    reconstruction_loss = tf.reduce_mean(losses)
                    kl = -0.5 * (1 + z_log_var - tf.square(z_mean) - tf.exp(z_log_var))
                    kl_loss = tf.reduce_mean(tf.reduce_sum(kl, axis=1))
                    total_loss = reconstruction_loss + kl_loss
                grads = tape.gradient(total_loss, self.trainable_weights)
                self.optimizer.apply_gradients(zip(grads, self.trainable_weights, strict=True))
                self.total.update_state(total_loss)
                self.kl.update_state(kl_loss)
                return {"loss": self.total.result(), "kl_loss": self.kl.result()}

        vae = VAE(encoder, decoder)
        vae.compile(optimizer=keras.optimizers.Adam(), jit_compile=bool(jit))
        return vae.fit(data.train_images[:300], epochs=2, batch_size=64, verbose=0).history

    check(program)


def test_gan_step():
    def program(jit):
        data = digits.load().train_images[:128]
        generator = keras.Sequential(
            [
                layers.Input((8,)),
                layers.Dense(32, use_bias=False),
                layers.BatchNormalization(),
                layers.LeakyReLU(),
                layers.Dense(64, activation="sigmoid"),
            ]
        )
        discriminator = keras.Sequential(
            [
                layers.Input((64,)),
                layers.Dense(32),
                layers.LeakyReLU(),
                layers.Dropout(0.3),
                layers.Dense(1),
            ]
        )
        cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
        generator_optimizer = keras.optimizers.Adam(1e-3)
        discriminator_optimizer = keras.optimizers.Adam(1e-3)
        generator_optimizer.build(generator.trainable_variables)
        discriminator_optimizer.build(discriminator.trainable_variables)

        @tf.function(jit_compile=jit)
        def train_step(images):
            noise = tf.random.normal([images.shape[0], 8])
            with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
                generated = generator(noise, training=True)
                real_output = discriminator(images, training=True)
                fake_output = discriminator(generated, training=True)
                gen_loss = cross_entropy(tf.ones_like(fake_output), fake_output)
                real_loss = cross_entropy(tf.ones_like(real_output), real_output)
                disc_loss = real_loss + cross_entropy(tf.zeros_like(fake_output), fake_output)
            gen_grads = gen_tape.gradient(gen_loss, generator.trainable_variables)
            disc_grads = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
            generator_optimizer.apply_gradients(
                zip(gen_grads, generator.trainable_variables, strict=True)
            )
            discriminator_optimizer.apply_gradients(
                zip(disc_grads, discriminator.trainable_variables, strict=True)
            )
            return gen_loss, disc_loss

        return [train_step(data[n % 4 * 32 : n % 4 * 32 + 32]) for n in range(8)]

    check(program, rtol=1e-3)


def test_neural_style_losses_and_clipping():
    """Gradients on an image, as the style transfer and DeepDream tutorials take them."""

    def program(jit):
        features = tf.constant(numbers(16, 12) * 0.3)
        image = tf.Variable(tf.sigmoid(numbers(1, 4, 4)))
        optimizer = keras.optimizers.Adam(learning_rate=0.02, beta_1=0.99, epsilon=1e-1)
        optimizer.build([image])

        @tf.function(jit_compile=jit)
        def train_step(image):
            with tf.GradientTape() as tape:
                outputs = tf.nn.relu(tf.reshape(image, [1, 16]) @ features)
                gram = tf.linalg.einsum("bi,bj->bij", outputs, outputs) / 12.0
                x_deltas, y_deltas = (
                    image[:, :, 1:] - image[:, :, :-1],
                    image[:, 1:] - image[:, :-1],
                )
                variation = tf.reduce_sum(tf.abs(x_deltas)) + tf.reduce_sum(tf.abs(y_deltas))
                loss = tf.reduce_mean((gram - 0.1) ** 2) + 0.01 * variation
            grad = tape.gradient(loss, image)
            grad /= tf.math.reduce_std(grad) + 1e-8
            optimizer.apply_gradients([(grad, image)])
            image.assign(tf.clip_by_value(image, 0.0, 1.0))
            return loss

        return [train_step(image) for _ in range(6)], image

    check(program)
