# SPDX-License-Identifier: Apache-2.0
"""Whole PyTorch programs, as users write them: the rows of `benchmarks.with_torch.whole`.

A row has a model, its inputs, and the loss that it is trained with. Models have the same weights on
every engine, for they come from the same seed; nothing is downloaded. Dropout is off, as the
compilers draw other random numbers than PyTorch does, so results could not be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.common.programs import Samples
from benchmarks.with_torch import models

Inputs = dict[str, Tensor]
Optimizer = Callable[[Any], torch.optim.Optimizer]


def _sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def _tiny_sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-8, momentum=0.9)


def _adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4, fused=True)


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=1e-3)


def classification(output: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits f32[..., classes] and labels s64[...]."""
    return functional.cross_entropy(output.flatten(0, -2), labels.flatten())


def _own_loss(output: Any, labels: Tensor) -> Tensor:
    """Return the loss that a model of `transformers` computes from the labels among its inputs."""
    del labels
    return output.loss


@dataclass(frozen=True, slots=True)
class Whole:
    """One row, for each of its steps.

    Attributes:
        name: of the row.
        make: makes the model.
        inputs: makes the arguments of its `forward` from a batch size and numbers; "labels" are
            for the loss.
        batch: the batch size.
        loss: of the model's output and the labels; None if there is no training step.
        optimizer: makes the optimizer; its step is PyTorch's own.
        compiles_optimizer: whether its step is compiled as well.
        labels_go_in: whether the model takes the labels, and computes the loss itself.
        tolerance: largest difference of a result of the first two calls, relative to its largest
            element.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int, Samples], Inputs]
    batch: int
    loss: Callable[[Any, Tensor], Tensor] | None = classification
    optimizer: Optimizer = field(default=_adamw)
    compiles_optimizer: bool = False
    labels_go_in: bool = False
    tolerance: float = 1e-3

    def kinds(self) -> list[str]:
        """Return which of the two steps it has."""
        return ["infer", "train"] if self.loss is not None else ["infer"]


def _tokens(samples: Samples, high: int, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(samples.integers(high, shape)).long()


def _normal(samples: Samples, *shape: int) -> Tensor:
    return torch.from_numpy(samples(shape))


def _images(batch: int, samples: Samples, size: int) -> Inputs:
    return {"x": _normal(samples, batch, 3, size, size), "labels": _tokens(samples, 10, (batch,))}


def _image_row(name: str, make: Callable[[], nn.Module], size: int, batch: int) -> Whole:
    # So small a rate, because with few images to a batch norm gradients are large and, in f32, a
    # thousandth away from those in f64, PyTorch's too: a second step would multiply that.
    inputs = partial(_images, size=size)
    return Whole(name, make, inputs, batch, optimizer=_tiny_sgd, tolerance=1e-2)


def _torchvision(name: str, **options: Any) -> nn.Module:
    return getattr(models.torchvision().models, name)(num_classes=10, **options)


def _convnext() -> nn.Module:
    models.torchvision()
    import timm

    return timm.create_model("convnext_tiny", num_classes=10)


def _text(batch: int, samples: Samples, length: int, vocab: int) -> Inputs:
    words = _tokens(samples, vocab, (batch, length))
    return {"input_ids": words, "labels": words}


def _text_row(name: str, make: Callable[[], nn.Module], batch: int, length: int = 128) -> Whole:
    inputs = partial(_text, length=length, vocab=2048)
    return Whole(name, make, inputs, batch, _own_loss, labels_go_in=True)


def _transformer(model: str, config: str, **options: Any) -> nn.Module:
    models.torchvision()
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**options))


_LLAMA = {
    "vocab_size": 2048,
    "hidden_size": 512,
    "intermediate_size": 1376,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 256,
    "use_cache": False,
}
_T5 = {
    "vocab_size": 2048,
    "d_model": 256,
    "d_kv": 32,
    "d_ff": 1024,
    "num_layers": 2,
    "num_heads": 8,
    "dropout_rate": 0.0,
    "decoder_start_token_id": 0,
    "use_cache": False,
}
_WHISPER = {
    "vocab_size": 2048,
    "d_model": 256,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 1024,
    "decoder_ffn_dim": 1024,
    "num_mel_bins": 80,
    "max_source_positions": 200,
    "max_target_positions": 64,
    "dropout": 0.0,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}


def _speech(batch: int, samples: Samples) -> Inputs:
    return {
        "input_features": _normal(samples, batch, 80, 400),
        "decoder_input_ids": _tokens(samples, 2048, (batch, 32)),
        "labels": _tokens(samples, 2048, (batch, 32)),
    }


def _translation(batch: int, samples: Samples) -> Inputs:
    return {
        "input_ids": _tokens(samples, 2048, (batch, 128)),
        "decoder_input_ids": _tokens(samples, 2048, (batch, 64)),
        "labels": _tokens(samples, 2048, (batch, 64)),
    }


def _unet() -> nn.Module:
    models.torchvision()
    from diffusers import UNet2DModel

    return UNet2DModel(
        sample_size=32, in_channels=3, out_channels=3, layers_per_block=1,
        block_out_channels=(64, 128, 128), norm_num_groups=32,
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip


def _noisy(batch: int, samples: Samples) -> Inputs:
    shape = (batch, 3, 32, 32)
    return {
        "sample": _normal(samples, *shape),
        "timestep": _tokens(samples, 1000, (batch,)),
        "labels": _normal(samples, *shape),
    }


def _denoising(output: Any, labels: Tensor) -> Tensor:
    return functional.mse_loss(output.sample, labels)


def _clicks(batch: int, samples: Samples) -> Inputs:
    return {
        "dense": _normal(samples, batch, 13),
        "sparse": _tokens(samples, 20_000, (batch, 8, 4)),
        "labels": _tokens(samples, 2, (batch,)).float(),
    }


def _graph(batch: int, samples: Samples) -> Inputs:
    """A graph of `batch` nodes with eight edges each."""
    return {
        "x": _normal(samples, batch, 128),
        "source": _tokens(samples, batch, (8 * batch,)),
        "target": _tokens(samples, batch, (8 * batch,)),
        "labels": _tokens(samples, 10, (batch,)),
    }


def _named(name: str, make: Callable[[int, Samples], Tensor], classes: int) -> Any:
    """Return what makes one input and a label for each of the batch."""

    def inputs(batch: int, samples: Samples) -> Inputs:
        return {name: make(batch, samples), "labels": _tokens(samples, classes, (batch,))}

    return inputs


def _words(batch: int, samples: Samples) -> Inputs:
    words = _tokens(samples, 2048, (batch, 128))
    return {"tokens": words, "labels": words}


WHOLE: tuple[Whole, ...] = (
    Whole(
        "MLP with Adam, compiled step",
        models.mlp,
        _named("input", lambda batch, samples: _normal(samples, batch, 784), 10),
        128,
        optimizer=_adam,
        compiles_optimizer=True,
    ),
    _image_row("ResNet-18", partial(_torchvision, "resnet18"), 96, 4),
    _image_row("ResNet-50", partial(_torchvision, "resnet50"), 96, 4),
    _image_row(
        "MobileNetV3 small", partial(_torchvision, "mobilenet_v3_small", dropout=0.0), 96, 4
    ),
    _image_row("ViT-B/16: 64x64", partial(_torchvision, "vit_b_16", image_size=64), 64, 4),
    _image_row("ConvNeXt-T", _convnext, 96, 2),
    Whole("nanoGPT: 4 layers, 256", lambda: models.GPT(2048, 128, 256, 4, 0.0), _words, 4),
    _text_row(
        "GPT-2: 2 layers, 768",
        partial(
            _transformer,
            "GPT2LMHeadModel",
            "GPT2Config",
            vocab_size=2048,
            n_layer=2,
            n_positions=128,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
        ),
        1,
    ),
    _text_row(
        "BERT: 2 layers, 768",
        partial(
            _transformer,
            "BertForMaskedLM",
            "BertConfig",
            vocab_size=2048,
            num_hidden_layers=2,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ),
        1,
    ),
    _text_row(
        "Llama: 4 layers, 512",
        partial(_transformer, "LlamaForCausalLM", "LlamaConfig", **_LLAMA),
        1,
    ),
    _text_row(
        "Mixtral: 2 layers, 8 experts",
        partial(
            _transformer,
            "MixtralForCausalLM",
            "MixtralConfig",
            **{**_LLAMA, "num_hidden_layers": 2, "num_local_experts": 8},
        ),
        1,
        64,
    ),
    Whole(
        "T5: 2+2 layers, 256",
        partial(_transformer, "T5ForConditionalGeneration", "T5Config", **_T5),
        _translation,
        2,
        _own_loss,
        labels_go_in=True,
    ),
    Whole(
        "Whisper: 2+2 layers, 256",
        partial(_transformer, "WhisperForConditionalGeneration", "WhisperConfig", **_WHISPER),
        _speech,
        2,
        _own_loss,
        labels_go_in=True,
    ),
    Whole("U-Net of diffusers: 32x32", _unet, _noisy, 2, _denoising),
    Whole(
        "DLRM",
        lambda: models.Recommender(20_000, 8, 13, 64),
        _clicks,
        256,
        functional.binary_cross_entropy_with_logits,
        _sgd,
    ),
    Whole(
        "PointNet: 512 points",
        lambda: models.PointNet(10),
        _named("points", lambda batch, samples: _normal(samples, batch, 3, 512), 10),
        8,
        tolerance=1e-2,
    ),
    Whole(
        "LSTM: 2 layers, 32 steps",
        lambda: models.Recurrent(128, 10),
        _named("x", lambda batch, samples: _normal(samples, batch, 32, 128), 10),
        16,
    ),
    Whole("graph network: 2,048 nodes", lambda: models.GraphNetwork(128, 10), _graph, 2048),
)
