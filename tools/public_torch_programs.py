# SPDX-License-Identifier: Apache-2.0
"""Train public programs that nobody here wrote, with PyTorch's kernels and with Ingot.

    python tools/public_torch_programs.py FOLDER [NAME ...] [--backend inductor] [--steps 20]

FOLDER has checkouts of the repositories that `PROGRAMS` names, by their names (nanoGPT, examples).
Each program runs in a process and a folder of its own, on synthetic data that `prepare` writes; of
its text only the lines in `edits` are changed, which add `torch.compile(..., backend="ingot")`.
Every loss that it calls `backward` on is noted, and the losses of both runs are compared. Dropout
and noise stay on: random numbers are PyTorch's on both sides. No text of these programs is kept
here.

Training multiplies what rounding leaves. `--backend nudged` is PyTorch without compilation whose
weights are moved by their last bit after the first loss: where its losses are as far from eager's
as a compiler's are, those say nothing about the compiler.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import json
import os
import pickle
import random
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RESULT = "losses.json"
TOLERANCE = 1e-4
"""Of a loss, relative: what issue 18 asks for."""
EAGER, NUDGED = "eager", "nudged"
"""What runs without compilation."""


@dataclass(frozen=True, slots=True)
class Program:
    """A public program.

    Attributes:
        name: what it is called here.
        folder: below the folder of checkouts; it is copied.
        script: the script in it that is run.
        arguments: of the command line; `BACKEND` in them is the name of the backend.
        edits: texts of the script and what takes their place; each stands there once.
        prepare: writes data into the copied folder.
        absent: modules that only draw or download, replaced by mocks.
    """

    name: str
    folder: str
    script: str
    arguments: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    prepare: Callable[[Path], None] = lambda folder: None
    absent: tuple[str, ...] = ()


def _compiled(line: str, model: str) -> tuple[tuple[str, str], ...]:
    """Return the edit that compiles `model`, the right side of an assignment."""
    return ((line, line.replace(model, f"torch.compile({model}, backend=BACKEND)")),)


# ---- synthetic data


def _characters(folder: Path) -> None:
    data = folder / "data" / "shakespeare_char"
    data.mkdir(parents=True, exist_ok=True)
    for name in ("train", "val"):
        np.random.default_rng(0).integers(0, 65, 4096).astype(np.uint16).tofile(
            data / f"{name}.bin"
        )
    (data / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 65}))


def _words(folder: Path) -> None:
    data = folder / "data" / "wikitext-2"
    data.mkdir(parents=True, exist_ok=True)
    numbers = np.random.default_rng(0).integers(0, 200, 8000)
    for name in ("train", "valid", "test"):
        lines = (" ".join(f"w{n}" for n in row) for row in numbers.reshape(-1, 20))
        (data / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")


def _waves(folder: Path) -> None:
    import torch

    steps = np.arange(41) + np.random.default_rng(0).integers(-80, 80, 12).reshape(12, 1)
    torch.save(np.sin(steps / 20.0), folder / "traindata.pt")


def _citations(folder: Path) -> None:
    """A graph in the format of Cora: 1,700 papers of 64 words in 7 classes."""
    data = folder / "cora"
    data.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    words = generator.integers(0, 2, (1700, 64))
    classes = generator.integers(0, 7, 1700)
    lines = (f"{n} {' '.join(map(str, row))} c{classes[n]}" for n, row in enumerate(words))
    (data / "cora.content").write_text("\n".join(lines), encoding="utf-8")
    # Each edge once.
    edges = np.unique(generator.integers(0, 1700, (5000, 2)), axis=0)
    (data / "cora.cites").write_text("\n".join(f"{a} {b}" for a, b in edges), encoding="utf-8")


def _pictures(folder: Path) -> None:
    from PIL import Image

    (folder / "images" / "all").mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for number in range(16):
        pixels = generator.integers(0, 256, (64, 64, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "images" / "all" / f"{number}.png")


def _results(folder: Path) -> None:
    (folder / "results").mkdir(exist_ok=True)


def _vision_transformer(folder: Path) -> None:
    """A loop around the model as the README of vit-pytorch builds it, but smaller."""
    text = """\
import torch
from vit_pytorch import ViT
model = ViT(image_size=64, patch_size=16, num_classes=10, dim=128, depth=2, heads=4, mlp_dim=256,
            dropout=0.1, emb_dropout=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
while True:
    images, labels = torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,))
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
"""
    (folder / "train_vit.py").write_text(text, encoding="utf-8")


def _stories(folder: Path) -> None:
    """Tokens as llama2.c keeps them: one file to test with, one to train on."""
    data = folder / "data" / "tok64"
    data.mkdir(parents=True, exist_ok=True)
    for number in range(2):
        tokens = np.random.default_rng(number).integers(0, 64, 8192).astype(np.uint16)
        tokens.tofile(data / f"{number}.bin")


def _image_folders(folder: Path) -> None:
    """Images of four classes, a folder each, to train on and to validate with."""
    from PIL import Image

    generator = np.random.default_rng(0)
    for part, count in (("train", 16), ("val", 2)):
        for name in "abcd":
            images = folder / "images" / part / name
            images.mkdir(parents=True)
            for number in range(count):
                pixels = generator.integers(0, 256, (72, 72, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(images / f"{number}.png")


def _diffusion(folder: Path) -> None:
    """A loop around the model as the README of denoising-diffusion-pytorch builds it, but small."""
    text = """\
import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet
model = Unet(dim=16, dim_mults=(1, 2), flash_attn=True, dropout=0.1)
diffusion = GaussianDiffusion(model, image_size=32, timesteps=1000)
optimizer = torch.optim.Adam(diffusion.parameters(), lr=1e-3)
while True:
    optimizer.zero_grad()
    diffusion(torch.rand(4, 3, 32, 32)).backward()
    optimizer.step()
"""
    (folder / "train_diffusion.py").write_text(text, encoding="utf-8")


PROGRAMS = (
    Program(
        "nanoGPT",
        "nanoGPT",
        "train.py",
        (
            "config/train_shakespeare_char.py", "--device=cpu", "--dtype=float32", "--eval_iters=1",
            "--n_layer=2", "--n_head=4", "--n_embd=128", "--block_size=64", "--batch_size=4",
        ),
        (("torch.compile(model)", "torch.compile(model, backend=BACKEND)"),),
        _characters,
    ),
    Program(
        "minGPT: adder",
        "minGPT",
        "projects/adder/adder.py",
        ("--model.model_type=gpt-nano", "--trainer.num_workers=0", "--data.ndigit=1"),
        _compiled("model = GPT(config.model)", "GPT(config.model)"),
    ),
    Program(
        "mnist",
        "examples/mnist",
        "main.py",
        (),
        _compiled("model = Net().to(device)", "Net().to(device)"),
    ),
    Program(
        "mnist_rnn",
        "examples/mnist_rnn",
        "main.py",
        (),
        _compiled("model = Net().to(device)", "Net().to(device)"),
    ),
    Program(
        "vae",
        "examples/vae",
        "main.py",
        (),
        _compiled("model = VAE().to(device)", "VAE().to(device)"),
        _results,
    ),
    Program(
        "word_language_model: LSTM",
        "examples/word_language_model",
        "main.py",
        ("--bptt=8", "--emsize=64", "--nhid=64"),
        (("criterion = nn.NLLLoss()",
          "model = torch.compile(model, backend=BACKEND); criterion = nn.NLLLoss()"),),
        _words,
    ),
    Program(
        "word_language_model: transformer",
        "examples/word_language_model",
        "main.py",
        ("--model=Transformer", "--lr=5", "--emsize=64", "--nhid=64"),
        (("criterion = nn.NLLLoss()",
          "model = torch.compile(model, backend=BACKEND); criterion = nn.NLLLoss()"),),
        _words,
    ),
    Program(
        "dcgan",
        "examples/dcgan",
        "main.py",
        ("--dataset=fake", "--workers=0", "--manualSeed=0", "--batchSize=4", "--ngf=8", "--ndf=8"),
        (("criterion = nn.BCELoss()",
          "netG, netD = (torch.compile(net, backend=BACKEND) for net in (netG, netD)); "
          "criterion = nn.BCELoss()"),),
    ),
    Program(
        "time_sequence_prediction",
        "examples/time_sequence_prediction",
        "train.py",
        (),
        (("seq.double()", "seq.double(); seq = torch.compile(seq, backend=BACKEND)"),),
        _waves,
        ("matplotlib", "matplotlib.pyplot"),
    ),
    Program(
        "fast_neural_style",
        "examples/fast_neural_style",
        "neural_style/neural_style.py",
        (
            "train", "--dataset=images", "--style-image=images/all/0.png", "--save-model-dir=.",
            "--epochs=9", "--batch-size=2", "--image-size=64",
        ),
        _compiled("transformer = TransformerNet().to(device)", "TransformerNet().to(device)")
        + _compiled("vgg = Vgg16(requires_grad=False).to(device)",
                    "Vgg16(requires_grad=False).to(device)"),
        _pictures,
    ),
    Program(
        "gcn",
        "examples/gcn",
        "main.py",
        (),
        (("criterion = nn.NLLLoss()",
          "gcn = torch.compile(gcn, backend=BACKEND); criterion = nn.NLLLoss()"),),
        _citations,
        ("requests", "tarfile"),
    ),
    Program(
        "gat",
        "examples/gat",
        "main.py",
        ("--hidden-dim=16", "--num-heads=2"),
        (("criterion = nn.NLLLoss()",
          "gat_net = torch.compile(gat_net, backend=BACKEND); criterion = nn.NLLLoss()"),),
        _citations,
        ("requests", "tarfile"),
    ),
    Program(
        "vit-pytorch",
        "vit-pytorch",
        "train_vit.py",
        (),
        (("optimizer = ", "model = torch.compile(model, backend=BACKEND); optimizer = "),),
        _vision_transformer,
    ),
    Program(
        "makemore: transformer",
        "makemore",
        "makemore.py",
        ("--num-workers=0", "--n-layer=2"),
        (("    model.to(args.device)\n",
          "    model.to(args.device); model = torch.compile(model, backend=BACKEND)\n"),),
        absent=("torch.utils.tensorboard",),
    ),
    Program(
        "makemore: GRU",
        "makemore",
        "makemore.py",
        ("--num-workers=0", "--type=gru"),
        (("    model.to(args.device)\n",
          "    model.to(args.device); model = torch.compile(model, backend=BACKEND)\n"),),
        absent=("torch.utils.tensorboard",),
    ),
    Program(
        "llama2.c",
        "llama2.c",
        "train.py",
        (
            "--device=cpu", "--dtype=float32", "--eval_iters=1", "--vocab_source=custom",
            "--vocab_size=64", "--dim=64", "--n_layers=2", "--n_heads=4", "--n_kv_heads=2",
            "--max_seq_len=32", "--batch_size=4", "--gradient_accumulation_steps=2",
            "--dropout=0.1",
        ),
        (("model = torch.compile(model)", "model = torch.compile(model, backend=BACKEND)"),),
        _stories,
        ("sentencepiece", "requests"),
    ),
    Program(
        "pytorch-image-models: MobileViT",
        "pytorch-image-models",
        "train.py",
        (
            "--data-dir=images", "--model=mobilevitv2_050", "--num-classes=4", "--workers=1",
            "--no-prefetcher", "--batch-size=4", "--drop=0.1", "--mixup=0.2", "--device=cpu",
            "--input-size", "3", "64", "64", "--torchcompile=BACKEND",
        ),
        (),
        _image_folders,
    ),
    Program(
        "denoising-diffusion-pytorch",
        "denoising-diffusion-pytorch",
        "train_diffusion.py",
        (),
        (("optimizer = ",
          "diffusion = torch.compile(diffusion, backend=BACKEND); optimizer = "),),
        _diffusion,
    ),
    Program(
        "imagenet: ResNet-18",
        "examples/imagenet",
        "main.py",
        ("--dummy", "--batch-size=4", "--workers=0", "--arch=resnet18", "--lr=0.001"),
        (("    criterion = nn.CrossEntropyLoss().to(device)",
          "    model = torch.compile(model, backend=BACKEND)\n"
          "    criterion = nn.CrossEntropyLoss().to(device)"),),
    ),
)  # fmt: skip


# ---- the process of one run


class Enough(BaseException):
    """The program made as many steps as are wanted."""


@dataclass(slots=True)
class Record:
    """What one run said.

    Attributes:
        losses: each loss that `backward` was called on.
        seconds: between one loss and the next; the first from the start of the script.
        host: what Ingot warned about.
    """

    losses: list[float] = field(default_factory=list[float])
    seconds: list[float] = field(default_factory=list[float])
    host: list[str] = field(default_factory=list[str])


def fake_mnist() -> type:
    """Return a class that stands in for `torchvision.datasets.MNIST`, with random pictures."""
    import torch

    class MNIST(torch.utils.data.Dataset[Any]):
        def __init__(self, *_: Any, transform: Any, **__: Any) -> None:
            self.transform = transform

        def __len__(self) -> int:
            return 2048

        def __getitem__(self, index: int) -> tuple[Any, int]:
            pixels = np.random.default_rng(index).integers(0, 256, (28, 28)).astype(np.uint8)
            return self.transform(pixels), index % 10

    return MNIST


def stand_ins(absent: tuple[str, ...]) -> None:
    """Replace what downloads: data sets, weights, and modules that only draw or download."""
    sys.modules.update({name: MagicMock() for name in absent})
    if importlib.util.find_spec("torchvision") is None:
        return
    from benchmarks.with_torch.models import torchvision

    vision = torchvision()
    vision.datasets.MNIST = fake_mnist()
    vgg16 = vision.models.vgg16
    vision.models.vgg16 = lambda **_: vgg16()


def nudge_parameters() -> None:
    """Move each parameter of this process by its last bit, up or down."""
    import torch

    generator = torch.Generator().manual_seed(0)
    for item in gc.get_objects():
        if isinstance(item, torch.nn.Parameter) and item.requires_grad:
            signs = torch.randn(item.shape, generator=generator).sign()
            item.data.mul_(1 + signs * torch.finfo(item.dtype).eps)


def note_losses(record: Record, steps: int, *, is_nudged: bool) -> None:
    """Note each loss, move the weights after the first if asked; end the program after so many."""
    import torch

    backward = torch.Tensor.backward
    since = time.perf_counter()

    def noted(loss: Any, *given: Any, **named: Any) -> None:
        nonlocal since
        backward(loss, *given, **named)
        now = time.perf_counter()
        record.losses.append(loss.item())
        record.seconds.append(now - since)
        since = now
        if len(record.losses) >= steps:
            raise Enough
        if is_nudged and len(record.losses) == 1:
            nudge_parameters()

    torch.Tensor.backward = noted  # type: ignore[method-assign]


def run_here(given: list[str], backend: str, steps: int) -> None:
    """Run a program, whose folder is the current one; write what it said to a file.

    Args:
        given: script, arguments and absent modules of a `Program`, each as a JSON text.
        backend: what the script finds as `BACKEND`.
        steps: after so many losses it ends.
    """
    import warnings

    import torch

    script, arguments, absent = map(json.loads, given)
    sys.path[:0] = [str(ROOT), str(Path(script).resolve().parent), str(Path.cwd())]
    stand_ins(absent)
    record = Record()
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    torch.set_num_threads(1)
    note_losses(record, steps, is_nudged=backend == NUDGED)
    sys.argv = [script, *arguments]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.suppress(Enough):
            runpy.run_path(script, {"BACKEND": EAGER if backend == NUDGED else backend}, "__main__")
    record.host = [str(each.message) for each in caught if "IngotWarning" in str(each.category)]
    content = {"losses": record.losses, "seconds": record.seconds, "host": record.host}
    Path(RESULT).write_text(json.dumps(content), encoding="utf-8")


# ---- the comparison


def run_apart(program: Program, checkouts: Path, backend: str, steps: int) -> Record:
    """Run a program in a process and a folder of its own.

    Raises:
        RuntimeError: it failed; the message has its last lines.
        ValueError: a text to edit is not there once.
    """
    with tempfile.TemporaryDirectory(prefix="ingot-public-") as made:
        folder = Path(made) / "program"
        shutil.copytree(checkouts / program.folder, folder)
        program.prepare(folder)
        script = folder / program.script
        text = script.read_text(encoding="utf-8")
        for old, new in program.edits:
            if text.count(old) != 1:
                raise ValueError(f"{script} has {text.count(old)} times: {old}")
            text = text.replace(old, new)
        script.write_text(text, encoding="utf-8")
        paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        # `prepare` wrote what is loaded; some programs load more than weights.
        environment["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
        if backend in (EAGER, NUDGED):
            environment["TORCHDYNAMO_DISABLE"] = "1"
        name = EAGER if backend == NUDGED else backend
        command = [sys.executable, str(Path(__file__).resolve())]
        command += ["--backend", backend, "--steps", str(steps), "--child"]
        given = [text.replace("BACKEND", name) for text in program.arguments]
        command += map(json.dumps, (program.script, given, program.absent))
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if ran.returncode or not (folder / RESULT).exists():
            raise RuntimeError("\n".join((ran.stdout + ran.stderr).splitlines()[-25:]))
        return Record(**json.loads((folder / RESULT).read_text(encoding="utf-8")))


def compare(program: Program, checkouts: Path, backend: str, steps: int) -> bool:
    """Run a program both ways; print and return whether all losses agree."""
    try:
        reference = run_apart(program, checkouts, EAGER, steps)
        found = run_apart(program, checkouts, backend, steps)
    except (RuntimeError, ValueError) as error:
        print(f"{program.name}: FAILED\n{error}", flush=True)
        return False
    worst = farthest(found.losses, reference.losses)
    agrees = worst <= TOLERANCE
    eager, ours = (1e3 * min(run.seconds[1:] or run.seconds) for run in (reference, found))
    print(
        f"{program.name}: {'agrees' if agrees else 'DIFFERS'}: {len(found.losses)} losses, "
        f"{reference.losses[0]:.5g} to {reference.losses[-1]:.5g}, the farthest {worst:.1e} away; "
        f"eager {eager:.1f} ms a step, {backend} {ours:.1f} ms after {found.seconds[0]:.1f} s",
        flush=True,
    )
    for text in found.host:
        print(f"    {text}", flush=True)
    return agrees


def farthest(found: list[float], expected: list[float]) -> float:
    """Return the largest relative difference of two lists of losses; NaN where one is NaN."""
    pairs = zip(found, expected, strict=True)
    return float(np.max([abs(ours - theirs) / max(abs(theirs), 1e-30) for ours, theirs in pairs]))


def main() -> int:
    """Run; return 1 if a program failed or its losses differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="?", type=Path, help="folder of the repositories")
    parser.add_argument("names", nargs="*", help="only programs whose names have one of these")
    parser.add_argument(
        "--backend", default="ingot", help="what is compared with eager: a backend, or nudged"
    )
    parser.add_argument("--steps", type=int, default=20, help="losses of each program")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_here(options.child, options.backend, options.steps)
        return 0
    if options.checkouts is None:
        parser.error("name the folder with the checkouts")
    chosen = [
        program
        for program in PROGRAMS
        if not options.names or any(name in program.name for name in options.names)
    ]
    agreed = [compare(each, options.checkouts, options.backend, options.steps) for each in chosen]
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    sys.exit(main())
