# SPDX-License-Identifier: Apache-2.0
"""Options by name: those of XLA_FLAGS do here what they do there, the others are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.client.pjrt.host import Host, PjrtError

from ingot.client.pjrt.compile_options import read_compile_options
from ingot.client.pjrt.debug_options import DEBUG_OPTIONS
from ingot.client.pjrt.errors import PjrtError as SlotError
from ingot.formats.hlo_proto.wire import encode
from ingot.formats.load import load
from ingot.support import xla_flags

PROGRAM = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def options(**values: Any) -> bytes:
    """Return a CompileOptionsProto with these options, each in the field of its type."""
    fields = {bool: "bool_field", int: "int_field", float: "double_field", str: "string_field"}
    rows = [{"key": name, "value": {fields[type(value)]: value}} for name, value in values.items()]
    return encode({"env_option_overrides": rows}, "CompileOptionsProto")


def test_option_values_become_text() -> None:
    given = options(
        xla_dump_to="/x", xla_cpu_enable_fast_math=False, xla_backend_optimization_level=0
    )
    assert dict(read_compile_options(given).overrides) == {
        "xla_dump_to": "/x",
        "xla_cpu_enable_fast_math": "false",
        "xla_backend_optimization_level": "0",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"invalid": 3}, "No such compile option: 'invalid'"),
        ({"xla_dump_too": "/x"}, "No such compile option: 'xla_dump_too'; did you mean"),
        ({"xla_dump_to": 3}, "While setting option xla_dump_to, '3' is not a valid string value."),
        ({"xla_cpu_enable_fast_math": "maybe"}, "'maybe' is not a valid bool value"),
        ({"xla_cpu_enable_fast_math": 1}, "'1' is not a valid bool value"),
        ({"xla_backend_optimization_level": "x"}, "'x' is not a valid int32 value"),
        ({"xla_backend_optimization_level": True}, "'true' is not a valid int32 value"),
        ({"xla_gpu_autotune_gemm_rtol": "high"}, "'high' is not a valid float value"),
    ],
)
def test_invalid_options_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SlotError, match=message.replace("?", r"\?")):
        read_compile_options(options(**given))


@pytest.mark.parametrize("value", [True, "true", "0"])
def test_spellings_of_booleans(value: object) -> None:
    assert read_compile_options(options(xla_cpu_enable_fast_math=value)).overrides


def test_all_flags_of_the_environment_are_options() -> None:
    known = {f"xla_{name}" for name in xla_flags.XlaFlags.__dataclass_fields__}
    assert known <= DEBUG_OPTIONS.keys()


def test_options_of_dumps_apply_to_one_compilation(tmp_path: Path) -> None:
    pytest.importorskip("jaxlib", reason="it reads MLIR")
    host = Host()
    given = options(
        xla_dump_to=str(tmp_path), xla_dump_hlo_pass_re="fusion", xla_dump_hlo_as_proto=True
    )
    host.compile(host.client(), PROGRAM, given)
    suffixes = {path.name.split(".", 2)[2] for path in tmp_path.iterdir()}
    assert {"before_optimizations.txt", "kernels.txt", "ir-no-opt.ll"} <= suffixes
    assert any("after_fusion" in suffix for suffix in suffixes)
    (written,) = tmp_path.glob("*.cpu_after_optimizations.hlo.pb")
    assert load(written).entry.root.shape.is_array
    count = len(suffixes)
    host.compile(host.client(), PROGRAM)
    assert len([*tmp_path.iterdir()]) == count
    with pytest.raises(PjrtError, match="No such compile option"):
        host.compile(host.client(), PROGRAM, options(invalid=1))
