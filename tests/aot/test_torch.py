# SPDX-License-Identifier: Apache-2.0
"""`ingot aot` of a file of `torch.export.save`: C programs and Python agree with eager."""

import shutil
import subprocess

import numpy as np
import pytest
import torch
from torch.export import Dim, export

import ingot
from ingot.aot.build import compile_aot
from ingot.tools.cli import main

GCC = shutil.which("gcc")
pytestmark = pytest.mark.slow  # PyTorch takes seconds to load

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

int main(int count, char** arguments) {
#ifdef NET_WEIGHTS_BYTES
  if (net_load_weights(NULL) != 0) return 3;
#endif
  int64_t rows = atoi(arguments[1]), image[] = {rows, 1, 8, 8}, sizes[NET_NUM_SIZES];
  const int64_t* dims[] = {image, NULL};
  float *x = malloc(rows * 64 * 4 + 1), *logits = malloc(rows * 5 * 4 + 1), scale = 2;
  int64_t* label = malloc(rows * 8 + 1);
  for (int64_t i = 0; i < rows * 64; ++i) x[i] = (float)(i * 7 % 31) / 31;
  const void* args[] = {x, &scale};
  void* results[] = {logits, label};
  int32_t status = net_prepare(dims, sizes);
  if (status == 0) status = net_execute(args, results, sizes);
  if (status != 0) return puts(net_error_msg(status)), count;
  for (int64_t i = 0; i < rows * 5; ++i) printf("%.9g\n", logits[i]);
  for (int64_t i = 0; i < rows; ++i) printf("%d\n", (int)label[i]);
  return 0;
}
"""


class Net(torch.nn.Module):
    """A convnet; its scale is an argument by keyword, its results a dictionary."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.dense = torch.nn.Linear(4 * 16, 5)

    def forward(self, image, *, scale):
        pooled = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(image))), 2)
        logits = self.dense(pooled.flatten(1)) * scale
        return {"logits": logits, "label": logits.argmax(1)}


@pytest.fixture(scope="module")
def net():
    """Return the model in evaluation mode."""
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def program(net):
    """Return the model exported for batches of 1 to 100."""
    dims = {"image": {0: Dim("batch", max=100)}, "scale": None}
    images, scale = torch.randn(2, 1, 8, 8), torch.tensor(2.0)
    return export(net, (images,), {"scale": scale}, dynamic_shapes=dims)


def images(rows):
    """Return what the C program makes."""
    return torch.arange(rows * 64).mul(7).remainder(31).float().div(31).reshape(rows, 1, 8, 8)


@pytest.fixture(scope="module", params=["inside", "beside"])
def folder(request, program, tmp_path_factory):
    """Return a folder with the artifact, and the C program built."""
    place = tmp_path_factory.mktemp("torch")
    torch.export.save(program, place / "net.pt2")
    options = ["-o", str(place / "net"), "--level=plain,avx2", f"--weights={request.param}"]
    assert main(["aot", str(place / "net.pt2"), *options]) == 0
    assert (place / "net.weights").exists() == (request.param == "beside")
    (place / "main.c").write_text(SOURCE)
    return place


@pytest.mark.skipif(GCC is None, reason="no gcc on this machine")
def test_a_c_program_agrees_with_eager(net, folder):
    command = [GCC, "-Wall", "-Wextra", "-Werror", "-O1", "main.c", "net.o", "-lm", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    for rows in (1, 17):
        done = subprocess.run(
            ["./main", str(rows)], cwd=folder, capture_output=True, text=True, check=True
        )
        printed = [float(line) for line in done.stdout.split()]
        want = net(images(rows), scale=torch.tensor(2.0))
        logits = want["logits"].detach().numpy().ravel()
        np.testing.assert_allclose(printed[: rows * 5], logits, rtol=1e-5, atol=1e-5)
        assert printed[rows * 5 :] == want["label"].tolist()
    refused = subprocess.run(["./main", "101"], cwd=folder, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "dimension 0 of 'image' must be at most 100" in refused.stdout


def test_weights_come_from_the_caller(net, program, tmp_path):
    made = compile_aot(ingot.load(program), "net", "avx2", weights="caller")
    assert len(made.weights) > 4 * 64 * 5
    (tmp_path / "libnet.so").write_bytes(made.library)
    (tmp_path / "w").write_bytes(made.weights)
    run = ingot.load_executable(tmp_path / "libnet.so", weights=tmp_path / "w")
    assert [param.name for param in run.metadata.params] == ["image", "scale"]
    logits, label = run(images(3).numpy(), np.float32(2))
    want = net(images(3), scale=torch.tensor(2.0))
    np.testing.assert_allclose(logits, want["logits"].detach(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(label, want["label"])


def test_a_file_that_torch_cannot_read_names_it(tmp_path, capsys):
    (tmp_path / "bad.pt2").write_bytes(b"PK")
    assert main(["aot", str(tmp_path / "bad.pt2"), "-o", str(tmp_path / "net")]) == 1
    assert "bad.pt2 cannot be read" in capsys.readouterr().err


def test_the_commands_take_the_file_as_a_module(program, tmp_path, capsys):
    torch.export.save(program, tmp_path / "net.pt2")
    assert main(["run", str(tmp_path / "net.pt2")]) == 0
    assert "cpu and evaluator agree" in capsys.readouterr().out
