# SPDX-License-Identifier: Apache-2.0
"""Programs on the disk: what a later process finds, and when it compiles anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingot
from ingot.client import clear_caches, stored
from ingot.client.executables.executable import Executable
from ingot.llvm.cache import default_cache
from ingot.support.sources import sources_stamp

X = np.random.default_rng(5).standard_normal((16, 24)).astype(np.float32)
PROGRAMS: dict[str, tuple[str, tuple[np.ndarray, ...]]] = {
    "steps": (
        "x = f32[16,24] parameter(0) y = f32[16,24] tanh(x) ROOT r = f32[16,24] add(x, y)",
        (X,),
    ),
    "a part of the library": (
        "x = f32[16,24] parameter(0) y = f32[24,16] transpose(x), dimensions={1,0} "
        "ROOT r = f32[16,16] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        (X,),
    ),
    "tables": (
        "x = f32[16,24] parameter(0) ROOT r = c64[16,13] fft(x), fft_type=RFFT, fft_length={24}",
        (X,),
    ),
    "a constant": (
        "x = f32[4] parameter(0) c = f32[4] constant({1, -0, nan, 4}) "
        "ROOT r = f32[4] multiply(x, c)",
        (X[0, :4],),
    ),
    # More bytes of constants than programs have that the process shares.
    "a table of constants": (
        "x = f32[2000] parameter(0) "
        f"c = f32[2000] constant({{{', '.join(map(str, range(2000)))}}}) "
        "ROOT r = f32[2000] multiply(x, c)",
        (np.resize(X, 2000),),
    ),
    "a symbolic size": ("x = f32[?n,24] parameter(0) ROOT r = f32[?n,24] negate(x)", (X,)),
    "several results": (
        "x = f32[16,24] parameter(0) y = f32[16,24] exponential(x) "
        "ROOT r = (f32[16,24], f32[16,24]) tuple(y, x)",
        (X,),
    ),
}
LOOP = """HloModule loop
condition { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7) ROOT more = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[5] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[5] sine(x) ROOT t = (s32[], f32[5]) tuple(j, y) }
ENTRY e { x = f32[5] parameter(0) zero = s32[] constant(0) s = (s32[], f32[5]) tuple(zero, x)
  w = (s32[], f32[5]) while(s), condition=condition, body=body
  ROOT r = f32[5] get-tuple-element(w), index=1 }"""


def on_disk(folder: Path) -> dict[str, str]:
    """Return the variables by which programs are kept in a folder."""
    return {"INGOT_CACHE_DIR": str(folder), "INGOT_CACHE": "1", "INGOT_PROGRAM_CACHE": "1"}


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache on the disk, in which programs are kept."""
    for name, value in on_disk(tmp_path).items():
        monkeypatch.setenv(name, value)
    # Sources that changed a moment ago have no stamp, and a developer runs tests.
    monkeypatch.setattr(stored, "sources_stamp", lambda packages: "now")
    return tmp_path


def again(text: str, **options: Any) -> Executable:
    """Compile as a later process does."""
    clear_caches()
    found = ingot.compile(ingot.parse_hlo(text), **options)
    assert isinstance(found, Executable)
    return found


def is_from_disk(executable: Executable) -> bool:
    return "passes" not in executable.timer.root.children["compile"].children


def text_of(name: str) -> str:
    return f"HloModule m ENTRY e {{ {PROGRAMS[name][0]} }}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_later_process_finds_the_program(name: str, disk: Path) -> None:
    arguments = PROGRAMS[name][1]
    first, second = again(text_of(name)), again(text_of(name))
    assert not is_from_disk(first)
    assert is_from_disk(second)
    for got, want in zip(_leaves(second(*arguments)), _leaves(first(*arguments)), strict=True):
        np.testing.assert_array_equal(got, want)
    assert second.memory_analysis() == first.memory_analysis()
    assert second.cost_analysis() == first.cost_analysis()
    assert second._inspection is None


def _leaves(found: object) -> tuple[np.ndarray, ...]:
    return found if isinstance(found, tuple) else (found,)  # type: ignore[return-value]


def test_a_loop_is_found(disk: Path) -> None:
    first, second = again(LOOP), again(LOOP)
    assert is_from_disk(second)
    assert second.has_loop
    np.testing.assert_array_equal(second(X[0, :5]), first(X[0, :5]))


def test_its_stages_are_made_when_somebody_looks(disk: Path) -> None:
    text = text_of("a part of the library")
    first, second = again(text), again(text)
    stages = ("hlo_before", "hlo", "kernel", "llvm", "buffers")
    assert [second.as_text(stage) for stage in stages] == [first.as_text(stage) for stage in stages]
    assert [row.strategy for row in second.kernels] == [row.strategy for row in first.kernels]


def test_its_stages_are_made_with_the_settings_of_then(disk: Path) -> None:
    text = text_of("steps")
    with ingot.config(fp="exact"):
        again(text)
        second = again(text)
    assert is_from_disk(second)
    assert second.notes.fp.name == "EXACT"


def test_a_profile_names_its_kernels(disk: Path) -> None:
    again(text_of("steps"))
    found = again(text_of("steps")).profile(X)
    assert [row.site.kind for row in found.rows()] == ["kernel"]


def test_other_settings_are_another_program(disk: Path) -> None:
    again(text_of("steps"))
    assert not is_from_disk(again(text_of("steps"), fp="exact"))
    assert not is_from_disk(again(text_of("steps").replace("tanh", "sine")))


def test_changed_sources_are_another_compiler(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again(text_of("steps"))
    monkeypatch.setattr(stored, "sources_stamp", lambda packages: "later")
    assert not is_from_disk(again(text_of("steps")))
    monkeypatch.setattr(stored, "sources_stamp", lambda packages: "")
    again(text_of("steps"))
    assert not is_from_disk(again(text_of("steps")))


@pytest.mark.parametrize(
    "content", [b"", b"no pickle", b"\x80\x05K\x01."], ids=["empty", "text", "other"]
)
def test_invalid_stored_programs_are_compiled_again(content: bytes, disk: Path) -> None:
    module = ingot.parse_hlo(text_of("steps"))
    from ingot.llvm.target import TargetSpec
    from ingot.support.xla_flags import current_xla_flags

    name = stored.name_of(module, TargetSpec.host(), current_xla_flags())
    default_cache().put(name, content)
    assert not is_from_disk(again(text_of("steps")))


def test_a_program_with_large_constants_has_no_name(disk: Path) -> None:
    size = stored.MOST_CONSTANT_BYTES // 4 + 1
    program = f"x = f32[{size}] parameter(0) c = f32[{size}] constant({{0, 1{', 2' * (size - 2)}}})"
    text = f"HloModule m ENTRY e {{ {program} ROOT r = f32[{size}] add(x, c) }}"
    again(text)
    assert not is_from_disk(again(text))


def test_a_program_that_calls_outside_is_not_stored(disk: Path) -> None:
    ingot.register_custom_call_target("stored_twice", lambda x: x * 2)
    text = (
        "HloModule m ENTRY e { x = f32[16,24] parameter(0) "
        'ROOT r = f32[16,24] custom-call(x), custom_call_target="stored_twice" }'
    )
    again(text)
    second = again(text)
    assert not is_from_disk(second)
    np.testing.assert_array_equal(second(X), 2 * X)


def test_a_program_of_kernels_that_two_others_share(disk: Path) -> None:
    # Kernels of one form are one function in the object of each program that has several.
    def transposes(*sizes: tuple[int, int]) -> str:
        lines = [
            f"x{n} = f32[{a},{b}] parameter({n}) "
            f"t{n} = f32[{b},{a}] transpose(x{n}), dimensions={{1,0}}"
            for n, (a, b) in enumerate(sizes)
        ]
        # What no other program has, so that the objects differ.
        own = f"f32[{sum(map(sum, sizes))}]"
        lines.append(f"y = {own} parameter({len(sizes)}) z = {own} sine(y)")
        names = ", ".join([*(f"t{n}" for n in range(len(sizes))), "z"])
        shapes = ", ".join([*(f"f32[{b},{a}]" for a, b in sizes), own])
        return f"HloModule m ENTRY e {{ {' '.join(lines)} ROOT r = ({shapes}) tuple({names}) }}"

    first, second, third, fourth = (640, 352), (672, 384), (704, 416), (736, 448)
    kept = [ingot.compile(transposes(*pair)) for pair in ((first, second), (third, fourth))]
    text = transposes(first, third)
    inputs = [np.random.default_rng(3).random(size, np.float32) for size in (first, third)]
    inputs.append(np.ones(2112, np.float32))
    expected = ingot.compile(text)(*inputs)
    del kept
    clear_caches()
    found = ingot.compile(text)(*inputs)
    for left, right, x in zip(found, expected, [*inputs[:2], np.sin(inputs[2]).T], strict=True):
        np.testing.assert_array_equal(left, right)
        np.testing.assert_allclose(left, x.T, rtol=1e-6)


def test_a_kernel_that_lies_beside_one_that_needs_more_of_the_library(disk: Path) -> None:
    sine = "x = f32[1511] parameter(0) s = f32[1511] sine(x)"
    alone = f"HloModule m ENTRY e {{ {sine} ROOT r = (f32[1511], f32[1511]) tuple(s, x) }}"
    with_transpose = (
        f"HloModule m ENTRY e {{ {sine} y = f32[640,352] parameter(1) "
        "t = f32[352,640] transpose(y), dimensions={1,0} "
        "ROOT r = (f32[1511], f32[352,640]) tuple(s, t) }"
    )
    kept = ingot.compile(with_transpose)
    x = np.linspace(0, 9, 1511, dtype=np.float32)
    expected = ingot.compile(alone)(x)
    del kept
    found = again(alone)
    assert is_from_disk(found)
    np.testing.assert_array_equal(found(x)[0], expected[0])


def test_without_the_switch_nothing_is_stored(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_PROGRAM_CACHE", "0")
    again(text_of("steps"))
    assert not is_from_disk(again(text_of("steps")))


LATER = """
import json, sys
import numpy, ingot
f = ingot.compile(ingot.parse_hlo(sys.argv[1]))
y = f(numpy.ones((16, 24), "f"))
print(json.dumps([float(y.sum()), [name for name in sys.modules if name.startswith("ingot.")]]))
"""
COMPILER = (
    "ingot.passes",
    "ingot.kernel",
    "ingot.cpu",
    "ingot.emit",
    "ingot.evaluator",
    "ingot.analysis",
)


def test_a_later_process_imports_nothing_of_the_compiler(tmp_path: Path) -> None:
    if not sources_stamp(stored.SOURCES):
        pytest.skip("sources changed a moment ago")
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", LATER, text_of("a part of the library")],
            env={**os.environ, **on_disk(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=200,
        )
        found.append(json.loads(done.stdout))
    assert found[0][0] == found[1][0] == 16 * 16 * 24
    assert any(name.startswith(COMPILER) for name in found[0][1])
    assert [name for name in found[1][1] if name.startswith(COMPILER)] == []
