# SPDX-License-Identifier: Apache-2.0
"""Training with dropout and AdamW on real handwritten digits: model, loss and optimizer compiled.

Dropout draws from PyTorch's own generator, so a compiled run and an eager one with the same seed
drop the same elements, and their losses agree. Run it with `python`.
"""

import torch
from torch import nn
from torch.nn import functional

import digits

EPOCHS = 12
BATCH = 96


def network():
    """Return a convnet: f32[n, 64] to logits f32[n, 10]."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(16 * 16, digits.CLASSES),
    )


def train(images, labels, epochs, backend=None):
    """Train a new network; return it and the loss of each step."""
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def loss_of(x, y):
        return functional.cross_entropy(model(x), y)

    update = optimizer.step
    if backend is not None:
        loss_of = torch.compile(loss_of, backend=backend)
        update = torch.compile(update, backend=backend)
    losses = []
    for _ in range(epochs):
        order = torch.randperm(len(labels))
        for rows in order.split(BATCH)[:-1]:
            optimizer.zero_grad()
            loss = loss_of(images[rows], labels[rows])
            loss.backward()
            update()
            losses.append(loss.item())
    return model, losses


def main():
    data = digits.load()
    images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
    model, losses = train(images, labels, EPOCHS, backend="ingot")
    print(f"training loss: {losses[0]:.3f} -> {losses[-1]:.3f}")
    _, eager = train(images, labels, 1)
    pairs = zip(losses, eager, strict=False)
    print(f"first epoch as eager's: {all(abs(x - y) < 1e-4 * y for x, y in pairs)}")
    with torch.no_grad():
        guesses = model.eval()(torch.from_numpy(data.test_images)).argmax(1)
    right = float((guesses == torch.from_numpy(data.test_labels)).float().mean())
    print(f"held-out accuracy: {right:.3f}")


if __name__ == "__main__":
    main()
