# SPDX-License-Identifier: Apache-2.0
"""StableHLO read in a child process: the same modules, and no data that ends this process."""

from __future__ import annotations

import io
import os
import pickle
import signal
import threading
import time
from pathlib import Path

import pytest
from tests.support.module_equality import assert_equal

from ingot.formats.hlo_text import parse_hlo
from ingot.formats.load import load
from ingot.formats.packed import pack, unpack
from ingot.formats.stablehlo import isolated, parse_stablehlo
from ingot.formats.stablehlo.binding import parse_mlir
from ingot.formats.stablehlo.isolated import Reader, parse_isolated
from ingot.support.diagnostics import IngotError, ParseError, ResourceError, UnsupportedError
from ingot.support.flags import ISOLATED_READER, override

PROGRAM = """
module @step attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<?x3xf32> {tf.aliasing_output = 0 : i32}, %n: tensor<i32>)
      -> (tensor<?x3xf32>, tensor<i32>) {
    %c = stablehlo.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>
    %y = stablehlo.add %x, %x : tensor<?x3xf32> loc("a.py":3:1)
    %r:2 = stablehlo.while(%i = %n, %s = %y) : tensor<i32>, tensor<?x3xf32>
      cond {
        %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        stablehlo.return %i, %s : tensor<i32>, tensor<?x3xf32>
      }
    return %r#1, %r#0 : tensor<?x3xf32>, tensor<i32>
  }
}
"""
DATA = Path(__file__).parent / "data"


def test_the_same_module() -> None:
    assert_equal(load(PROGRAM), load(PROGRAM, isolated=False))


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        (PROGRAM.replace("stablehlo.add", "stablehlo.plus"), ParseError, "INGOT0120"),
        ("func.func @main() { %0 = arith.constant 1 : i32 return }", UnsupportedError, "INGOT0352"),
        ("module {\n func.func private @a()\n}", ParseError, "INGOT0121"),
    ],
)
def test_the_same_errors(text: str, kind: type[IngotError], code: str) -> None:
    found: list[str] = []
    for is_isolated in (True, False):
        with pytest.raises(kind) as error:
            load(text, "mlir", isolated=is_isolated)
        found.append(str(error.value))
    assert found[0] == found[1]
    assert code in found[0]


def bytecode() -> bytes:
    """Return a program as MLIR bytecode."""
    buffer = io.BytesIO()
    parse_mlir(PROGRAM).operation.write_bytecode(buffer)
    return buffer.getvalue()


@pytest.mark.slow
def test_data_that_ends_mlir() -> None:
    damaged = bytecode().replace(b"builtin", b"\xff\xfeiltin")
    for _ in range(2):
        with pytest.raises(ParseError, match="it ended its process with SIGABRT") as error:
            load(damaged)
        assert error.value.diagnostic.code == "INGOT0120"
        assert any("nanobind" in note for note in error.value.diagnostic.notes)
    assert load(PROGRAM).name == load(bytecode()).name == "step"


@pytest.mark.parametrize("name", [b"main", b"step"])
def test_names_that_are_no_text(name: bytes) -> None:
    damaged = bytecode().replace(name, b"\xff\xfe" + name[2:])
    for is_isolated in (True, False):
        with pytest.raises(ParseError, match="not UTF-8") as error:
            load(damaged, isolated=is_isolated)
        assert error.value.diagnostic.code == "INGOT0120"


def test_a_child_that_ended_meanwhile_is_no_error() -> None:
    load(PROGRAM)
    worker = isolated._reader._worker
    assert worker is not None
    os.kill(worker.pid, signal.SIGKILL)
    assert load(PROGRAM).name == "step"
    assert isolated._reader._worker is not worker


@pytest.mark.slow
def test_a_child_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    load(PROGRAM)
    worker = isolated._reader._worker
    assert worker is not None
    os.kill(worker.pid, signal.SIGSTOP)
    monkeypatch.setattr(isolated, "time_limit", lambda size: 0.2)
    with pytest.raises(ResourceError, match="takes longer than") as error:
        load(PROGRAM)
    assert error.value.diagnostic.code == "INGOT0414"
    monkeypatch.undo()
    assert load(PROGRAM).name == "step"


@pytest.mark.slow
def test_a_child_that_cannot_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(ResourceError, match="no process can be started") as error:
        Reader().read(PROGRAM.encode())
    assert error.value.diagnostic.code == "INGOT0413"


@pytest.mark.slow
def test_threads_take_turns() -> None:
    found: list[str] = []

    def read(number: int) -> None:
        found.append(load(PROGRAM.replace("@step", f"@m{number}")).name)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [f"m{number}" for number in range(8)]


@pytest.mark.slow
def test_a_fork_has_a_child_of_its_own() -> None:
    load(PROGRAM)
    worker = isolated._reader._worker
    assert worker is not None
    pid = os.fork()
    if not pid:
        is_right = isolated._reader._worker is None and parse_isolated(PROGRAM.encode())
        os._exit(0 if is_right else 1)
    deadline = time.monotonic() + 60
    ended, status = os.waitpid(pid, os.WNOHANG)
    while not ended and time.monotonic() < deadline:
        time.sleep(0.05)
        ended, status = os.waitpid(pid, os.WNOHANG)
    assert ended
    assert status == 0
    assert load(PROGRAM).name == "step"
    assert isolated._reader._worker is worker


def test_the_switch() -> None:
    with override(ISOLATED_READER, False):
        before = isolated._reader._worker
        load(PROGRAM)
        assert isolated._reader._worker is before


@pytest.mark.parametrize("name", ["all_ops.hlo", "device_ops.hlo", "symbolic.hlo"])
def test_packed_modules(name: str) -> None:
    module = parse_hlo((DATA / name).read_text())
    assert_equal(unpack(pack(module)), module)


def test_packed_modules_of_programs() -> None:
    module = parse_stablehlo(PROGRAM)
    assert_equal(unpack(pack(module)), module)


class _Foreign:
    def __reduce__(self) -> tuple[object, ...]:
        return os.getpid, ()


@pytest.mark.parametrize("value", [_Foreign(), 3, ((), (), ()), ParseError("x")])
def test_invalid_packed_modules_are_refused(value: object) -> None:
    with pytest.raises(ParseError, match="not a packed module") as error:
        unpack(pickle.dumps(value))
    assert error.value.diagnostic.code == "INGOT0127"


def test_damaged_packed_modules() -> None:
    data = pack(parse_stablehlo(PROGRAM))
    for end in range(0, len(data), 7):
        with pytest.raises(IngotError):
            unpack(data[:end])
