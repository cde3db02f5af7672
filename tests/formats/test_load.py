# SPDX-License-Identifier: Apache-2.0
"""`load` and `dump`: the format is found in the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingot.formats.hlo_proto import Snapshot, print_snapshot
from ingot.formats.hlo_text import parse_hlo, print_module
from ingot.formats.load import dump, load, sniff
from ingot.support.diagnostics import ParseError, UnsupportedError

HLO = "HloModule m ENTRY main { x = f32[2] parameter(0) ROOT y = f32[2] abs(x) }"
MLIR = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (HLO, "hlo_text"),
        ("// a comment\n" + HLO, "hlo_text"),
        ("ENTRY main { ROOT x = f32[2] parameter(0) }", "hlo_text"),
        (MLIR, "mlir"),
        ("// a comment\nmodule @m { " + MLIR + " }", "mlir"),
        ('#loc = loc("a")\nmodule {}', "mlir"),
        ('"builtin.module"() ({}) : () -> ()', "mlir"),
    ],
)
def test_text_is_told_apart(text: str, format: str) -> None:
    assert sniff(text.encode()) == format


def test_bytes_are_told_apart(tmp_path: Path) -> None:
    binding = pytest.importorskip("ingot.formats.stablehlo.binding")
    pytest.importorskip("jaxlib")
    module = parse_hlo(HLO)
    mlir = binding.parse_mlir(MLIR)
    with mlir.context:
        artifact = binding.mlir().stablehlo.serialize_portable_artifact(mlir, "1.0.0")
    files = {
        "hlo_text": HLO.encode(),
        "mlir": MLIR.encode(),
        "stablehlo": artifact,
        "hlo_proto": dump(module, "hlo_proto"),
    }
    for format, data in files.items():
        assert sniff(data) == format
        path = tmp_path / "module.bin"
        path.write_bytes(data)
        for source in (data, path, str(path)):
            assert load(source).entry.name == "main"
        assert load(data, format).entry.name == "main"
    snapshot = print_snapshot(Snapshot(module))
    assert print_module(load(snapshot)) == print_module(module)


@pytest.mark.parametrize("format", ["hlo_text", "hlo_proto", "hlo_snapshot"])
def test_written_modules_are_read_back(format: str) -> None:
    module = parse_hlo(HLO)
    assert print_module(load(dump(module, format))) == print_module(module)


def test_formats_that_do_not_exist() -> None:
    with pytest.raises(UnsupportedError, match="hlo_txt") as caught:
        load(HLO, "hlo_txt")
    assert "hlo_text" in caught.value.diagnostic.hint
    with pytest.raises(UnsupportedError, match="write"):
        dump(parse_hlo(HLO), "mlir")


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ParseError) as caught:
        load(tmp_path / "nothing.hlo")
    assert caught.value.diagnostic.code == "INGOT0124"
    with pytest.raises(ParseError, match=r"(?s)'hello world'.*HLO text begins with 'HloModule'"):
        load("hello world")
    with pytest.raises(ParseError, match="the program is empty"):
        load("")
