# SPDX-License-Identifier: Apache-2.0
"""Sequence models as TensorFlow's tutorials write them: text, time series, attention."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tests.frontends.tensorflow.programs.beside import check, numbers

pytestmark = pytest.mark.slow


def test_text_classification_with_embeddings():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 100, (60, 20))
    labels = (words < 30).sum(axis=1) > 6

    def program(jit):
        model = keras.Sequential(
            [
                layers.Embedding(100, 16),
                layers.Dropout(0.2),
                layers.GlobalAveragePooling1D(),
                layers.Dropout(0.2),
                layers.Dense(1, activation="sigmoid"),
            ]
        )
        model.compile(
            loss=keras.losses.BinaryCrossentropy(),
            optimizer="adam",
            metrics=[keras.metrics.BinaryAccuracy(threshold=0.5)],
            jit_compile=bool(jit),
        )
        history = model.fit(words, labels, batch_size=16, epochs=3, verbose=0).history
        return history, model.evaluate(words, labels, verbose=0)

    check(program)


def test_time_series_forecasting_with_an_lstm():
    series = np.sin(np.arange(120) / 5.0)[:, None] + 0.1 * numbers(120, 3)
    windows = np.stack([series[n : n + 12] for n in range(100)])
    targets = np.stack([series[n + 1 : n + 13, :1] for n in range(100)])

    def program(jit):
        model = keras.Sequential([layers.LSTM(8, return_sequences=True), layers.Dense(units=1)])
        model.compile(
            loss=keras.losses.MeanSquaredError(),
            optimizer=keras.optimizers.Adam(),
            metrics=[keras.metrics.MeanAbsoluteError()],
            jit_compile=bool(jit),
        )
        history = model.fit(windows, targets, epochs=2, verbose=0).history
        return history, model.predict(windows[:7], verbose=0)

    check(program)


def test_transformer_block():
    ids = np.random.default_rng(0).integers(0, 50, (32, 10))
    labels = ids[:, 0] % 2

    def program(jit):
        class TransformerBlock(layers.Layer):
            def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1):
                super().__init__()
                self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
                self.ffn = keras.Sequential(
                    [layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)]
                )
                self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
                self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
                self.dropout1, self.dropout2 = layers.Dropout(rate), layers.Dropout(rate)

            def call(self, inputs, training=None):
                attn_output = self.dropout1(self.att(inputs, inputs), training=training)
                out1 = self.layernorm1(inputs + attn_output)
                ffn_output = self.dropout2(self.ffn(out1), training=training)
                return self.layernorm2(out1 + ffn_output)

        class TokenAndPositionEmbedding(layers.Layer):
            def __init__(self, maxlen, vocab_size, embed_dim):
                super().__init__()
                self.token_emb = layers.Embedding(vocab_size, embed_dim)
                self.pos_emb = layers.Embedding(maxlen, embed_dim)

            def call(self, x):
                positions = self.pos_emb(keras.ops.arange(0, keras.ops.shape(x)[-1]))
                return self.token_emb(x) + positions

        inputs = layers.Input(shape=(10,))
        x = TransformerBlock(8, 2, 16)(TokenAndPositionEmbedding(10, 50, 8)(inputs))
        x = layers.Dropout(0.1)(layers.GlobalAveragePooling1D()(x))
        model = keras.Model(inputs, layers.Dense(2, activation="softmax")(x))
        loss = "sparse_categorical_crossentropy"
        model.compile("adam", loss, metrics=["accuracy"], jit_compile=bool(jit))
        return model.fit(ids, labels, batch_size=12, epochs=2, verbose=0).history

    check(program)


def test_transformer_tutorial_pieces():
    """Positional encoding, the learning-rate schedule, masked loss and accuracy."""

    class CustomSchedule(keras.optimizers.schedules.LearningRateSchedule):
        def __init__(self, d_model, warmup_steps=40):
            super().__init__()
            self.d_model, self.warmup_steps = tf.cast(d_model, tf.float32), warmup_steps

        def __call__(self, step):
            step = tf.cast(step, dtype=tf.float32)
            arg1, arg2 = tf.math.rsqrt(step), step * (self.warmup_steps**-1.5)
            return tf.math.rsqrt(self.d_model) * tf.math.minimum(arg1, arg2)

    def positional_encoding(length, depth):
        depth = depth / 2
        positions = np.arange(length)[:, np.newaxis]
        depths = np.arange(depth)[np.newaxis, :] / depth
        angle_rads = positions / (10000**depths)
        encoding = np.concatenate([np.sin(angle_rads), np.cos(angle_rads)], axis=-1)
        return tf.cast(encoding, dtype=tf.float32)

    def masked_loss(label, pred):
        mask = label != 0
        loss_object = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
        loss = loss_object(label, pred)
        mask = tf.cast(mask, dtype=loss.dtype)
        return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask)

    def masked_accuracy(label, pred):
        pred = tf.argmax(pred, axis=2)
        label = tf.cast(label, pred.dtype)
        mask = label != 0
        match = tf.cast((label == pred) & mask, dtype=tf.float32)
        return tf.reduce_sum(match) / tf.reduce_sum(tf.cast(mask, dtype=tf.float32))

    ids = np.random.default_rng(0).integers(0, 12, (24, 6))

    def program(jit):
        inputs = keras.Input((6,), dtype="int32")
        x = layers.Embedding(12, 8)(inputs) * 8.0**0.5 + positional_encoding(6, 8)[None]
        x = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
        model = keras.Model(inputs, layers.Dense(12)(x))
        optimizer = keras.optimizers.Adam(CustomSchedule(8), beta_2=0.98, epsilon=1e-9)
        options = {"metrics": [masked_accuracy], "jit_compile": bool(jit)}
        model.compile(loss=masked_loss, optimizer=optimizer, **options)
        return model.fit(ids, ids, batch_size=10, epochs=2, verbose=0).history

    check(program)


def test_word2vec_skip_grams():
    rng = np.random.default_rng(0)
    targets = rng.integers(1, 40, (64,))
    contexts = rng.integers(1, 40, (64, 5))
    labels = np.zeros((64, 5), np.int64)
    labels[:, 0] = 1

    class Word2Vec(keras.Model):
        def __init__(self, vocab_size, embedding_dim):
            super().__init__()
            self.target_embedding = layers.Embedding(vocab_size, embedding_dim)
            self.context_embedding = layers.Embedding(vocab_size, embedding_dim)

        def call(self, pair):
            target, context = pair
            if len(target.shape) == 2:
                target = tf.squeeze(target, axis=1)
            word_emb = self.target_embedding(target)
            context_emb = self.context_embedding(context)
            return tf.einsum("be,bce->bc", word_emb, context_emb)

    def program(jit):
        word2vec = Word2Vec(40, 8)
        word2vec.compile(
            "adam",
            keras.losses.CategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            jit_compile=bool(jit),
        )
        dataset = tf.data.Dataset.from_tensor_slices(((targets, contexts), labels))
        dataset = dataset.shuffle(64, seed=1).batch(16, drop_remainder=True)
        return word2vec.fit(dataset, epochs=3, verbose=0).history

    check(program)


def test_sampled_softmax():
    def program(jit):
        weights = tf.Variable(numbers(30, 8) * 0.1)
        biases = tf.Variable(tf.zeros([30]))

        @tf.function(jit_compile=jit)
        def step(inputs, labels, sampled):
            with tf.GradientTape() as tape:
                true_w = tf.nn.embedding_lookup(weights, labels)
                true_b = tf.gather(biases, labels)
                true_logits = tf.reduce_sum(inputs * true_w, axis=1) + true_b
                sampled_w = tf.gather(weights, sampled)
                noise = tf.matmul(inputs, sampled_w, transpose_b=True) + tf.gather(biases, sampled)
                positive = tf.nn.sigmoid_cross_entropy_with_logits(
                    labels=tf.ones_like(true_logits), logits=true_logits
                )
                negative = tf.nn.sigmoid_cross_entropy_with_logits(
                    labels=tf.zeros_like(noise), logits=noise
                )
                loss = tf.reduce_mean(positive) + tf.reduce_mean(tf.reduce_sum(negative, axis=1))
            grads = tape.gradient(loss, [weights, biases])
            for v, g in zip([weights, biases], grads, strict=True):
                v.scatter_sub(tf.IndexedSlices(0.5 * g.values, g.indices))
            return loss

        rng = np.random.default_rng(0)
        found = [
            step(numbers(16, 8, seed=n), rng.integers(0, 30, 16), rng.integers(0, 30, 5))
            for n in range(6)
        ]
        return found, weights

    check(program)


@pytest.mark.parametrize("teacher_forcing", [True, False])
def test_sequence_to_sequence_with_attention(teacher_forcing):
    def program(jit):
        encoder = layers.GRU(8, return_sequences=True, return_state=True)
        embedding, cell, out = layers.Embedding(12, 8), layers.GRUCell(8), layers.Dense(12)
        optimizer = keras.optimizers.Adam(1e-2)
        source = np.random.default_rng(0).integers(0, 12, (6, 5))
        target = source[:, ::-1].copy()

        def forward(source, target):
            memory, state = encoder(embedding(source))
            token = tf.zeros([6], tf.int32)
            loss = 0.0
            for t in range(5):
                scores = tf.einsum("bsd,bd->bs", memory, state)
                context = tf.einsum("bs,bsd->bd", tf.nn.softmax(scores), memory)
                step_input = tf.concat([embedding(token), context], axis=-1)
                output, (state,) = cell(step_input, [state])
                logits = out(output)
                loss += tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(target[:, t], logits)
                )
                token = target[:, t] if teacher_forcing else tf.argmax(logits, 1, tf.int32)
            return loss / 5.0

        target = tf.constant(target, tf.int32)
        forward(source, target)
        parts = (encoder, embedding, cell, out)
        variables = [v for part in parts for v in part.trainable_variables]
        optimizer.build(variables)

        @tf.function(jit_compile=jit)
        def train_step(source, target):
            with tf.GradientTape() as tape:
                loss = forward(source, target)
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        return [train_step(source, target) for _ in range(4)]

    check(program)
