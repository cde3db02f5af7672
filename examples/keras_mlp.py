# SPDX-License-Identifier: Apache-2.0
"""A Keras model with dropout and Adam: fit, evaluate and predict, all compiled.

Plain Keras, with real handwritten digits. The last batch of an epoch is smaller than the others.
Run it with `python` (TensorFlow's own XLA) or `python -m ingot` (Ingot).
"""

import keras

import digits

EPOCHS = 12
BATCH = 64  # 1437 training images: 22 whole batches and one of 29


def make_model(jit_compile=True, seed=0):
    """Return the compiled model; `seed` decides initial weights, dropout and shuffling."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.Input([digits.IMAGE_SIZE]),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(digits.CLASSES),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=jit_compile,
    )
    return model


def main():
    data = digits.load()
    model = make_model()
    history = model.fit(
        data.train_images, data.train_labels, batch_size=BATCH, epochs=EPOCHS, verbose=0
    )
    loss, accuracy = model.evaluate(data.test_images, data.test_labels, batch_size=BATCH, verbose=0)
    guesses = model.predict(data.test_images, batch_size=BATCH, verbose=0).argmax(axis=1)
    print("training loss of the first and last epoch: ", end="")
    print(", ".join(f"{history.history['loss'][epoch]:.4f}" for epoch in (0, -1)))
    print(f"held-out loss: {loss:.4f}, accuracy: {accuracy:.4f}")
    difference = abs((guesses == data.test_labels).mean() - accuracy)
    print(f"predict agrees with evaluate: {difference < 1e-6}")


if __name__ == "__main__":
    main()
