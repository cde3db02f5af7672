# SPDX-License-Identifier: Apache-2.0
"""Files and options that commands cannot take: an error of Ingot's or of the command line."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ingot.tools.cli import main

ODD = b'HloModule m\nENTRY e { x = f32[2] parameter(0), metadata={op_name="\xff"} \
ROOT y = f32[2] add(x, x), frontend_attributes={a="\xff"} }\n'


def saved(value: object) -> bytes:
    """Return the bytes of an .npy file."""
    block = io.BytesIO()
    np.save(block, np.asarray(value), allow_pickle=True)
    return block.getvalue()


def zipped(name: str, content: str) -> bytes:
    """Return the bytes of an .npz file with one member."""
    block = io.BytesIO()
    with zipfile.ZipFile(block, "w") as archive:
        archive.writestr(name, content)
    return block.getvalue()


ONES = saved(np.ones(2, np.float32))
LITERALS = {
    "huge.npy": ONES.replace(b"(2,), }    ", b"(99999999999,), }")[: len(ONES)],
    "header.npy": ONES.replace(b"(2,)", b"(2<<"),
    "short.npy": ONES[:-3],
    "empty.npy": b"",
    "objects.npy": saved(np.array([{}], object)),
    "archive.npy": zipped("a.npy", "text"),
    "text.npz": zipped("hello", "world"),
    "broken.npz": zipped("a.npy", "text")[:-30],
    "lines": b"f32[2] {1, 2\n",
    "bytes": b"\xff\xfe\n",
    "tuple": b"(f32[]) (1)\n",
    "junk.pb": b"\x0a\x02\x08\x01",
}


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "odd.hlo"
    path.write_bytes(ODD)
    return str(path)


@pytest.mark.parametrize("name", LITERALS)
def test_files_of_literals(
    name: str, module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(LITERALS[name])
    assert main(["run", module, "--input-literals-file", str(path)]) == 1
    assert "error[INGOT" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--size", "n=²"],
        ["--size", f"n={'1' * 5000}"],
        ["--random-seed=-1"],
        ["--num-replicas=1099511627776"],
        ["--num-partitions=1099511627776"],
    ],
)
def test_options(options: list[str], module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", module, *options]) == 2
    assert options[0].partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize("command", [["opt"], ["opt", "--split-input-file"], ["translate"]])
def test_bytes_that_are_no_utf8_go_through(command: list[str], module: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert main([*command, module, "-o", str(output)]) == 0
    assert b'a="\xff"' in output.read_bytes()
