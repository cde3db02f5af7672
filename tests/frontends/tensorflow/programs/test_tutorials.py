"""Training programs as TensorFlow's tutorials write them, with `jit_compile=True` on the step."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tests.frontends.tensorflow.programs.beside import check


def numbers(*dims, seed=0):
    return np.random.default_rng([seed, *dims]).normal(size=dims).astype(np.float32)


def digits():
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))
    import digits

    return digits.load()


def test_linear_regression_from_scratch():
    def program(jit):
        x = tf.linspace(-2.0, 2.0, 201)
        y = x**2 + 2 * x - 5 + tf.random.stateless_normal(x.shape, seed=[1, 2])

        class Model(tf.Module):
            def __init__(self):
                rand = tf.random.stateless_uniform([3], [3, 4], minval=0.0, maxval=5.0)
                self.w_q = tf.Variable(rand[0])
                self.w_l = tf.Variable(rand[1])
                self.b = tf.Variable(rand[2])

            @tf.function(jit_compile=jit)
            def __call__(self, x):
                return self.w_q * (x**2) + self.w_l * x + self.b

        model = Model()
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(201, seed=1).batch(32)
        losses = []
        for _ in range(5):
            for x_batch, y_batch in dataset:
                with tf.GradientTape() as tape:
                    batch_loss = tf.reduce_mean(tf.square(model(x_batch) - y_batch))
                grads = tape.gradient(batch_loss, model.variables)
                for g, v in zip(grads, model.variables, strict=True):
                    v.assign_sub(0.01 * g)
            losses.append(tf.reduce_mean(tf.square(model(x) - y)))
        return losses, model.variables

    check(program)


def test_logistic_regression_core_apis():
    def program(jit):
        data = digits()
        x, y = data.train_images, (data.train_labels % 2).astype(np.float32)

        class Normalize(tf.Module):
            def __init__(self, x):
                self.mean = tf.Variable(tf.math.reduce_mean(x, axis=0))
                self.std = tf.Variable(tf.math.reduce_std(x, axis=0) + 1e-3)

            def norm(self, x):
                return (x - self.mean) / self.std

        norm = Normalize(x)

        class LogisticRegression(tf.Module):
            def __init__(self):
                self.built = False

            @tf.function(jit_compile=jit)
            def __call__(self, x, train=True):
                if not self.built:
                    rand_w = tf.random.stateless_uniform([x.shape[-1], 1], [1, 1]) * 0.1
                    self.w = tf.Variable(rand_w)
                    self.b = tf.Variable(tf.zeros([]))
                    self.built = True
                z = tf.squeeze(tf.add(tf.matmul(norm.norm(x), self.w), self.b), axis=1)
                return z if train else tf.sigmoid(z)

        model = LogisticRegression()
        losses = []
        for _ in range(5):
            for start in range(0, 512, 64):
                xs, ys = x[start : start + 64], y[start : start + 64]
                with tf.GradientTape() as tape:
                    ce = tf.nn.sigmoid_cross_entropy_with_logits(labels=ys, logits=model(xs))
                    loss = tf.reduce_mean(ce)
                grads = tape.gradient(loss, model.variables)
                for g, v in zip(grads, model.variables, strict=True):
                    v.assign_sub(0.1 * g)
            losses.append(loss)
        return losses, model(x[:50], train=False)

    check(program)


def test_custom_training_loop_with_metrics():
    """The guide "Writing a training loop from scratch"."""

    def program(jit):
        data = digits()
        inputs = keras.Input(shape=(64,), name="digits")
        x1 = layers.Dense(64, activation="relu")(inputs)
        x2 = layers.Dense(64, activation="relu")(x1)
        model = keras.Model(inputs=inputs, outputs=layers.Dense(10, name="predictions")(x2))
        optimizer = keras.optimizers.SGD(learning_rate=1e-1)
        optimizer.build(model.trainable_variables)
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        train_acc = keras.metrics.SparseCategoricalAccuracy()
        val_acc = keras.metrics.SparseCategoricalAccuracy()

        @tf.function(jit_compile=jit)
        def train_step(x, y):
            with tf.GradientTape() as tape:
                logits = model(x, training=True)
                loss_value = loss_fn(y, logits)
            grads = tape.gradient(loss_value, model.trainable_weights)
            optimizer.apply_gradients(zip(grads, model.trainable_weights, strict=True))
            train_acc.update_state(y, logits)
            return loss_value

        @tf.function(jit_compile=jit)
        def test_step(x, y):
            val_acc.update_state(y, model(x, training=False))

        train = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
        train = train.shuffle(1024, seed=3).batch(64).take(10)
        test = tf.data.Dataset.from_tensor_slices((data.test_images, data.test_labels)).batch(64)
        found = []
        for _ in range(2):
            found.extend(train_step(x, y) for x, y in train)
            found.append(train_acc.result())
            train_acc.reset_state()
            for x, y in test:
                test_step(x, y)
            found.append(val_acc.result())
            val_acc.reset_state()
        return found

    check(program)


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


def test_autoencoder():
    def program(jit):
        data = digits()

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
        data = digits()

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
        data = digits().train_images[:128]
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


def test_deep_q_learning_step():
    rng = np.random.default_rng(0)
    states, next_states = numbers(64, 4), numbers(64, 4, seed=1)
    actions = rng.integers(0, 2, 64).astype(np.int32)
    rewards = rng.normal(size=64).astype(np.float32)
    done = rng.integers(0, 2, 64).astype(bool)

    def program(jit):
        def q_network():
            return keras.Sequential(
                [layers.Input((4,)), layers.Dense(24, activation="relu"), layers.Dense(2)]
            )

        model, target = q_network(), q_network()
        target.set_weights(model.get_weights())
        optimizer = keras.optimizers.Adam(1e-2, clipnorm=1.0)
        optimizer.build(model.trainable_variables)
        loss_function = keras.losses.Huber()

        @tf.function(jit_compile=jit)
        def update(states, actions, rewards, next_states, done):
            future = tf.reduce_max(target(next_states), axis=1)
            updated = rewards + 0.99 * future
            updated = tf.where(done, -tf.ones_like(updated), updated)
            masks = tf.one_hot(actions, 2)
            with tf.GradientTape() as tape:
                q_values = model(states)
                q_action = tf.reduce_sum(tf.multiply(q_values, masks), axis=1)
                loss = loss_function(updated, q_action)
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            best = tf.argmax(q_values, axis=1, output_type=tf.int32)
            return loss, tf.gather_nd(q_values, tf.stack([tf.range(64), best], axis=1))

        @tf.function(jit_compile=jit)
        def soften(rate):
            for old, new in zip(target.variables, model.variables, strict=True):
                old.assign((1.0 - rate) * old + rate * new)

        found = []
        for _ in range(10):
            found.append(update(states, actions, rewards, next_states, done))
            soften(0.1)
        return found

    check(program)


def test_actor_critic_returns():
    """Expected returns by a reversed scan, as the CartPole tutorial computes them."""

    def program(jit):
        @tf.function(jit_compile=jit)
        def get_expected_return(rewards, gamma=0.99, standardize=True):
            n = tf.shape(rewards)[0]
            returns = tf.TensorArray(dtype=tf.float32, size=n)
            rewards = tf.cast(rewards[::-1], dtype=tf.float32)
            discounted_sum = tf.constant(0.0)
            discounted_sum_shape = discounted_sum.shape
            for i in tf.range(n):
                reward = rewards[i]
                discounted_sum = reward + gamma * discounted_sum
                discounted_sum.set_shape(discounted_sum_shape)
                returns = returns.write(i, discounted_sum)
            returns = returns.stack()[::-1]
            if standardize:
                mean, std = tf.math.reduce_mean(returns), tf.math.reduce_std(returns)
                returns = (returns - mean) / (std + 1e-7)
            return returns

        return [get_expected_return(tf.constant(numbers(n))) for n in (3, 20)]

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


def test_matrix_factorisation():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 20, 200), rng.integers(0, 15, 200)
    ratings = rng.uniform(1, 5, 200).astype(np.float32)

    def program(jit):
        user_table, item_table = (
            tf.Variable(numbers(20, 4) * 0.1),
            tf.Variable(numbers(15, 4) * 0.1),
        )
        optimizer = keras.optimizers.Adagrad(0.1)
        optimizer.build([user_table, item_table])

        @tf.function(jit_compile=jit)
        def step(users, items, ratings):
            with tf.GradientTape() as tape:
                u, v = tf.gather(user_table, users), tf.gather(item_table, items)
                error = tf.reduce_sum(u * v, axis=1) + 3.0 - ratings
                penalty = tf.nn.l2_loss(user_table) + tf.nn.l2_loss(item_table)
                loss = tf.reduce_mean(error**2) + 0.01 * penalty
            grads = tape.gradient(loss, [user_table, item_table])
            optimizer.apply_gradients(zip(grads, [user_table, item_table], strict=True))
            return tf.sqrt(loss)

        return [step(users, items, ratings) for _ in range(10)], user_table

    check(program)


def test_neural_ode_by_a_while_loop():
    def program(jit):
        w1, w2 = tf.Variable(numbers(2, 16) * 0.5), tf.Variable(numbers(16, 2) * 0.5)

        def field(y):
            return tf.matmul(tf.tanh(tf.matmul(y**3, w1)), w2)

        def rk4(y, h):
            k1 = field(y)
            k2 = field(y + h / 2 * k1)
            k3 = field(y + h / 2 * k2)
            k4 = field(y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        @tf.function(jit_compile=jit)
        def step(start, wanted):
            with tf.GradientTape() as tape:
                _, y = tf.while_loop(
                    lambda t, y: t < 0.95,
                    lambda t, y: (t + 0.1, rk4(y, 0.1)),
                    [tf.constant(0.0), start],
                    maximum_iterations=20,
                )
                loss = tf.reduce_mean(tf.abs(y - wanted))
            grads = tape.gradient(loss, [w1, w2])
            for v, g in zip([w1, w2], grads, strict=True):
                v.assign_sub(0.05 * g)
            return loss

        start = tf.constant(numbers(8, 2))
        return [step(start, start * 0.5) for _ in range(5)], w1, w2

    check(program)


def test_physics_loops():
    def program(jit):
        @tf.function(jit_compile=jit)
        def heat(u, steps):
            for _ in tf.range(steps):
                around = tf.roll(u, 1, 0) + tf.roll(u, -1, 0) + tf.roll(u, 1, 1) + tf.roll(u, -1, 1)
                u = u + 0.1 * (around - 4.0 * u)
            return u

        @tf.function(jit_compile=jit)
        def bodies(position, velocity, mass, steps):
            for _ in tf.range(steps):
                between = position[None, :, :] - position[:, None, :]
                distance = tf.reduce_sum(between**2, axis=-1) + 0.01
                force = between * (mass[None, :, None] / distance[:, :, None] ** 1.5)
                velocity += 0.01 * tf.reduce_sum(force, axis=1)
                position += 0.01 * velocity
            energy = 0.5 * tf.reduce_sum(mass * tf.reduce_sum(velocity**2, axis=1))
            return position, velocity, energy

        @tf.function(jit_compile=jit)
        def life(board, steps):
            for _ in tf.range(steps):
                count = tf.zeros_like(board)
                for dx in (-1, 0, 1):
                    for dy in (-1, 0, 1):
                        if dx or dy:
                            count += tf.roll(board, [dx, dy], [0, 1])
                alive = (count == 3) | ((board == 1) & (count == 2))
                board = tf.cast(alive, tf.int32)
            return board

        @tf.function(jit_compile=jit)
        def mandelbrot(re, im):
            x, y, count = re, im, tf.zeros_like(re, tf.int32)
            for _ in tf.range(30):
                x, y = x * x - y * y + re, 2.0 * x * y + im
                count += tf.cast(x * x + y * y < 4.0, tf.int32)
            return count

        board = np.random.default_rng(0).integers(0, 2, (12, 12)).astype(np.int32)
        grid = tf.meshgrid(tf.linspace(-2.0, 0.5, 20), tf.linspace(-1.0, 1.0, 16))
        mass = tf.abs(tf.constant(numbers(5)))
        return (
            heat(tf.constant(numbers(10, 12)), tf.constant(20)),
            bodies(tf.constant(numbers(5, 3)), tf.zeros([5, 3]), mass, tf.constant(20)),
            life(tf.constant(board), tf.constant(10)),
            mandelbrot(*grid),
        )

    check(program)


def test_monte_carlo_and_random_numbers():
    def program(jit):
        @tf.function(jit_compile=jit)
        def estimate(seed):
            points = tf.random.stateless_uniform([2, 5000], seed, -1.0, 1.0)
            inside = tf.reduce_sum(points**2, axis=0) < 1.0
            return 4.0 * tf.reduce_mean(tf.cast(inside, tf.float32))

        generator = tf.random.Generator.from_seed(3)

        @tf.function(jit_compile=jit)
        def walk():
            steps = generator.normal([200])
            choice = generator.uniform([3], 0, 10, tf.int32)
            return tf.cumsum(steps), choice, tf.random.uniform([4]), tf.random.normal([3], seed=5)

        return estimate(tf.constant([1, 2])), walk(), walk(), walk()

    check(program)


def test_mnist_beginner():
    """The very first tutorial."""

    def program(jit):
        data = digits()
        model = keras.models.Sequential(
            [
                layers.Input((8, 8)),
                layers.Flatten(),
                layers.Dense(32, activation="relu"),
                layers.Dropout(0.2),
                layers.Dense(10),
            ]
        )
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss_fn, metrics=["accuracy"], jit_compile=bool(jit))
        images = data.train_images.reshape(-1, 8, 8)[:500]
        history = model.fit(images, data.train_labels[:500], epochs=2, verbose=0).history
        probability_model = keras.Sequential([model, layers.Softmax()])
        tests = data.test_images.reshape(-1, 8, 8)
        return (
            history,
            probability_model(tests[:5]),
            model.evaluate(tests, data.test_labels, verbose=0),
        )

    check(program)


def test_convolutional_network():
    def program(jit):
        data = digits()
        model = keras.models.Sequential(
            [
                layers.Input((8, 8, 1)),
                layers.Conv2D(8, (3, 3), activation="relu"),
                layers.MaxPooling2D((2, 2)),
                layers.Conv2D(8, (3, 3), activation="relu", padding="same"),
                layers.Flatten(),
                layers.Dense(10),
            ]
        )
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss_fn, metrics=["accuracy"], jit_compile=bool(jit))
        images = data.train_images.reshape(-1, 8, 8, 1)[:200]
        return model.fit(images, data.train_labels[:200], epochs=2, verbose=0).history

    check(program)


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
