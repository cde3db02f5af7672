# SPDX-License-Identifier: Apache-2.0
"""One program for sentences of every length: a transformer layer whose sizes are left open.

With `dynamic=True` batch and length are sizes without a number; nothing is compiled again when they
change. Run it with `python`.
"""

import torch
from torch import nn
from torch.nn import functional


class Tagger(nn.Module):
    """Causal attention over words: s64[batch, length] to logits f32[batch, length, 7]."""

    def __init__(self, vocabulary=100, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(vocabulary, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, 7)

    def forward(self, tokens):
        x = self.words(tokens)
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(x + mixed.transpose(1, 2).flatten(2))


def main():
    torch.manual_seed(0)
    model = Tagger().eval()
    compiled = torch.compile(model, backend="ingot", dynamic=True)
    with torch.no_grad():
        for batch, length in ((2, 5), (3, 17), (4, 64), (7, 31)):
            tokens = torch.randint(0, 100, (batch, length))
            agrees = torch.allclose(compiled(tokens), model(tokens), atol=1e-5)
            print(f"{batch} sentences of {length} words: agrees with eager: {agrees}")
    print(f"graphs compiled: {torch._dynamo.utils.counters['stats']['unique_graphs']}")


if __name__ == "__main__":
    main()
