# SPDX-License-Identifier: Apache-2.0
"""The Keras MNIST convnet on 8 by 8 digits: convolutions, pooling, dropout, all compiled.

The model of Keras's "Simple MNIST convnet", made smaller for smaller images.
Run it with `python` (TensorFlow's own XLA) or `python -m ingot` (Ingot).
"""

import keras

import digits

EPOCHS = 8
BATCH = 64  # the last batch of an epoch is smaller


def make_model(jit_compile=True, seed=0):
    """Return the compiled model; `seed` decides initial weights, dropout and shuffling."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.Input([digits.IMAGE_SIZE]),
            keras.layers.Reshape([8, 8, 1]),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
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
    print("training loss of the first and last epoch: ", end="")
    print(", ".join(f"{history.history['loss'][epoch]:.4f}" for epoch in (0, -1)))
    print(f"held-out loss: {loss:.4f}, accuracy: {accuracy:.4f}")


if __name__ == "__main__":
    main()
