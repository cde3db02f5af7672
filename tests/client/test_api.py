# SPDX-License-Identifier: Apache-2.0
"""The public entry points: forms of programs, options, analyses, serialized executables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import ingot
from ingot.client.executables.container import pack
from ingot.client.executables.threads import started_workers

TEXT = "HloModule m ENTRY e { x = f32[?n,4] parameter(0) ROOT y = f32[?n,4] add(x, x) }"
MLIR = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}"""
ALIASED = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] add(x, x) }"""
SIZED = """HloModule m
ENTRY e {
  count = s32[] parameter(0)
  n = pred[?n] custom-call(count), custom_call_target="ingot.size"
  size = s32[] get-dimension-size(n), dimensions={0}
  i = s32[?n] iota(), iota_dimension=0
  ROOT r = (s32[?n], s32[]) tuple(i, size)
}"""
X = np.ones((3, 4), np.float32)


def test_text_data_path_and_module_are_programs(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    for program in (TEXT, ingot.parse_hlo(TEXT), path, str(path), TEXT.encode()):
        assert ingot.compile(program)(X).sum() == 24
        assert ingot.evaluate(program, X).sum() == 24
    assert ingot.compile(MLIR)([1, 2]).tolist() == [2, 4]


def test_the_error_of_an_invalid_program_names_valid_ones(tmp_path: Path) -> None:
    program: Any = X
    with pytest.raises(ingot.ArgumentError, match=r"ndarray[^\n]*\n  hint: give a module, HLO"):
        ingot.compile(program)
    with pytest.raises(ingot.ParseError, match="cannot read"):
        ingot.compile(str(tmp_path / "missing.hlo"))


def test_the_modes_of_fp_are_those_of_the_setting() -> None:
    exact, fast = (ingot.compile(TEXT, fp=mode) for mode in ("exact", "fast"))
    assert exact is not fast
    assert ingot.compile(TEXT, fp="exact") is exact
    with ingot.config(fp="exact"):
        assert ingot.compile(TEXT) is exact
    for mode in get_args(ingot.FpMode):
        assert ingot.compile(TEXT, fp=mode)(X).sum() == 24
    wrong: Any = "quick"
    with pytest.raises(ingot.FlagError, match="fp='quick'"):
        ingot.compile(TEXT, fp=wrong)


def test_dumps_go_where_the_call_says(tmp_path: Path) -> None:
    ingot.compile(TEXT, dump_to=tmp_path)
    assert any(path.name.endswith("before_optimizations.txt") for path in tmp_path.iterdir())


def test_an_option_is_given_once() -> None:
    from ingot.client.compilation import default_context

    with pytest.raises(ingot.ArgumentError, match="context says that already"):
        ingot.compile(TEXT, fp="exact", context=default_context())


def test_threads_of_an_executable_are_its_own() -> None:
    many = np.ones((200_000, 4), np.float32)
    shared, one, three = (ingot.compile(TEXT, threads=n) for n in (None, 1, 3))
    assert isinstance(three, ingot.Executable)
    expected = shared(many)
    for executable in (one, three):
        assert np.array_equal(executable(many), expected)
        assert np.array_equal(executable.call(many), expected)
    assert (started_workers(1), started_workers(3)) == (0, 2)
    assert (shared.threads, one.threads, three.threads) == (None, 1, 3)  # pyright: ignore
    assert np.array_equal(three(many.copy(), donate=[0]), expected)
    with pytest.raises(ingot.UnsupportedError, match="INGOT0362"):
        three.run(many, cancellation=ingot.Cancellation())
    with pytest.raises(ingot.UnsupportedError, match="INGOT0362"):
        three.execute_replicated([[many]])


@pytest.mark.parametrize("threads", [0, -1, True, 1 << 20, "2"])
def test_wrong_numbers_of_threads_are_refused(threads: Any) -> None:
    with pytest.raises(ingot.ArgumentError, match="threads is"):
        ingot.compile(TEXT, threads=threads)


def test_avals_have_shapes_and_types() -> None:
    executable = ingot.compile(TEXT)
    assert list(map(str, executable.in_avals)) == ["float32[n,4]"]
    assert list(map(str, executable.out_avals)) == ["float32[n,4]"]
    static = ingot.compile(MLIR)
    assert static.in_avals == (ingot.Aval((2,), np.dtype(np.float32)),)


def test_costs_and_memory_have_the_names_and_numbers_of_jax() -> None:
    executable = ingot.compile(ALIASED)
    assert executable.cost_analysis() == {
        "flops": 8.0,
        "transcendentals": 0.0,
        "bytes accessed": 64.0,
        "bytes accessed output": 32.0,
    }
    found = executable.memory_analysis()
    assert found.generated_code_size_in_bytes > 0
    assert (found.argument_size_in_bytes, found.output_size_in_bytes) == (32, 32)
    assert (found.alias_size_in_bytes, found.peak_memory_in_bytes) == (32, 32)


def test_costs_of_symbolic_sizes_are_expressions() -> None:
    executable = ingot.compile(TEXT)
    assert str(executable.cost_analysis()["flops"]) == "4*n"
    assert str(executable.memory_analysis().argument_size_in_bytes) == "16*n"


def test_stages_have_one_spelling() -> None:
    from ingot.tools.opt import XLA_STAGES

    executable = ingot.compile(TEXT)
    assert isinstance(executable, ingot.Executable)
    assert executable.stages() == get_args(ingot.Stage)
    assert set(XLA_STAGES.values()) <= set(get_args(ingot.Stage))
    for stage in executable.stages():
        assert isinstance(executable.as_text(stage), str)


def test_a_serialized_executable_keeps_its_options() -> None:
    saved = ingot.compile(TEXT, threads=2, fp="exact").serialize()
    loaded = ingot.load_executable(saved)
    assert isinstance(loaded, ingot.Executable)
    assert loaded(X).sum() == 24
    assert loaded.threads == 2
    assert loaded.serialize() == saved


def test_a_serialized_executable_loads_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "m.ingot"
    path.write_bytes(ingot.compile(TEXT).serialize())
    code = (
        "import sys, pathlib, numpy, ingot;"
        "run = ingot.load_executable(pathlib.Path(sys.argv[1]).read_bytes());"
        "print(run(numpy.ones((3, 4), numpy.float32)).sum())"
    )
    command = [sys.executable, "-c", code, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert result.stdout.strip() == "24.0"


def test_programs_that_compute_sizes_have_the_same_api() -> None:
    executable = ingot.compile(SIZED)
    assert isinstance(executable, ingot.StagedExecutable)
    assert list(map(str, executable.out_avals)) == ["int32[n]", "int32[]"]
    assert ingot.load_executable(executable.serialize())(np.int32(3))[0].tolist() == [0, 1, 2]
    assert "flops" in executable.cost_analysis()
    for refused in (executable.memory_analysis, lambda: executable.with_threads(2)):
        with pytest.raises(ingot.UnsupportedError, match="INGOT0361"):
            refused()


def test_bytes_that_are_not_whole_are_refused() -> None:
    data = ingot.compile(TEXT).serialize()
    older = pack(b"INGOTEXEC1", (b"0.0.1", b"{}", b""))
    cases = {
        "is none of Ingot": b"ELF",
        "checksum is wrong": data[:-1],
        "another version": b"INGOTEXEC0" + data[10:],
        "serialized by Ingot 0.0.1": older,
        "parts of wrong lengths": pack(b"INGOTEXEC1", (b"a",)),
    }
    for words, given in cases.items():
        with pytest.raises(ingot.ParseError, match=words) as caught:
            ingot.load_executable(given)
        assert caught.value.diagnostic.code == "INGOT0128"
    wrong: Any = 3
    with pytest.raises(ingot.ArgumentError):
        ingot.load_executable(wrong)


def test_front_ends_are_attributes_without_their_framework() -> None:
    code = (
        "import sys, ingot; ingot.jax.initialize; 'tensorflow' in dir(ingot) or sys.exit(3);"
        "print('jax' in sys.modules, 'numpy' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False", "False"]


def test_every_class_of_error_is_public() -> None:
    from ingot.support import diagnostics

    classes = [item for item in vars(diagnostics).values() if isinstance(item, type)]
    errors = [item for item in classes if issubclass(item, diagnostics.IngotError)]
    assert [item for item in errors if getattr(ingot, item.__name__, None) is not item] == []
