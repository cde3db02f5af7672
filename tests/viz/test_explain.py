# SPDX-License-Identifier: Apache-2.0
"""Reports: the data says what the executable says, and each form shows it."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.__main__ import main
from ingot.client.roofline import measured_machine
from ingot.support.observing import COMPILED_AGAIN, Observation
from ingot.support.records import replace
from ingot.viz.flame import Bar, execution_flame, flame_of
from ingot.viz.graph import MOST_BOXES, picture_of
from ingot.viz.layout import layers

PRODUCT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
TEXT = f"""HloModule two

ENTRY main {{
  x = f32[64,32] parameter(0)
  w = f32[32,16] parameter(1)
  one = f32[] constant(1)
  ones = f32[64,16] broadcast(one), dimensions={{}}
  d = f32[64,16] dot(x, w), {PRODUCT}, metadata={{source_file="a<b.py" source_line=4}}
  m = f32[64,16] multiply(d, ones)
  t = f32[64,16] tanh(m), metadata={{source_file="a<b.py" source_line=5}}
  v = f32[16,8] parameter(2)
  ROOT y = f32[64,8] dot(t, v), {PRODUCT}, metadata={{source_file="a<b.py" source_line=6}}
}}
"""


@pytest.fixture(scope="module")
def report() -> ingot.Report:
    return ingot.explain(TEXT)


def test_the_data_is_that_of_the_executable(report: ingot.Report) -> None:
    executable = ingot.compile(TEXT)
    (program,) = report.programs
    rows = [(k.name, k.instruction, k.opcodes, k.flops, k.lines) for k in program.kernels]
    assert rows == [(k.name, k.fusion, k.opcodes, k.flops, k.lines) for k in executable.kernels]
    assert len(program.kernels) == 2
    assert program.instructions_before == executable.source.instruction_count
    assert [r.rule for r in program.rewrites] == [s.split()[0] for s in executable.rewrites]
    assert len(program.fusions) == len(executable.fusion_log)
    assert all(row.reason in "\n".join(executable.fusion_log) for row in program.fusions)
    assert program.memory["argument_size_in_bytes"] == 4 * (64 * 32 + 32 * 16 + 16 * 8)
    assert program.compile_seconds > 0
    assert {row.name for row in program.passes} >= {"algsimp", "fusion"}


def test_kernels_know_whom_they_feed_and_their_lines(report: ingot.Report) -> None:
    first, second = report.programs[0].kernels
    assert first.feeds == (second.number,)
    assert second.feeds == ()
    lines = {line.location: line.kernels for line in report.programs[0].lines}
    assert lines == {"a<b.py:4": (0,), "a<b.py:5": (0,), "a<b.py:6": (1,)}


def test_what_a_loop_makes_feeds_the_kernels_behind_it() -> None:
    text = f"""HloModule loop
    body {{ p = (s32[], f32[8,8]) parameter(0)
      n = s32[] get-tuple-element(p), index=0
      x = f32[8,8] get-tuple-element(p), index=1
      one = s32[] constant(1)
      more = s32[] add(n, one)
      y = f32[8,8] dot(x, x), {PRODUCT}
      ROOT t = (s32[], f32[8,8]) tuple(more, y) }}
    condition {{ p = (s32[], f32[8,8]) parameter(0)
      n = s32[] get-tuple-element(p), index=0
      limit = s32[] constant(1000)
      ROOT less = pred[] compare(n, limit), direction=LT }}
    ENTRY e {{ x = f32[8,8] parameter(0)
      before = f32[8,8] dot(x, x), {PRODUCT}
      zero = s32[] constant(0)
      start = (s32[], f32[8,8]) tuple(zero, before)
      end = (s32[], f32[8,8]) while(start), condition=condition, body=body
      got = f32[8,8] get-tuple-element(end), index=1
      ROOT after = f32[8,8] dot(got, x), {PRODUCT} }}"""
    (program,) = ingot.explain(text).programs
    products = [kernel for kernel in program.kernels if "dot" in kernel.opcodes]
    assert len(products) == 3
    last = next(kernel for kernel in products if not kernel.feeds)
    assert all(last.number in kernel.feeds for kernel in products if kernel is not last)


def test_each_kernel_has_its_code(report: ingot.Report) -> None:
    for kernel in report.programs[0].kernels:
        assert "ROOT" in kernel.hlo
        assert "contraction over" in kernel.kernel_ir
        assert kernel.schedule.startswith(kernel.strategy)
        assert re.search(r"^define ", kernel.llvm_ir, re.MULTILINE)
    assert "tanh" in report.programs[0].kernels[0].hlo
    assert "tanh" not in report.programs[0].kernels[1].hlo


def test_live_memory_holds_what_goes_from_kernel_to_kernel(report: ingot.Report) -> None:
    first, second = report.programs[0].kernels
    between, result = 4 * 64 * 16, 4 * 64 * 8
    assert first.live_bytes >= between
    assert second.live_bytes >= between + result
    (kept,) = [b for b in report.programs[0].buffers if b.size == between]
    assert (kept.first, kept.last) == (0, 1)


def test_the_text_names_each_kernel(report: ingot.Report) -> None:
    text = str(report)
    assert "two: " in text
    assert "#0 " in text
    assert "feeds #1" in text
    assert "multiply_one" in text


def test_json_holds_every_field(report: ingot.Report) -> None:
    content = json.loads(report.to_json())
    kernels = content["programs"][0]["kernels"]
    assert [k["opcodes"] for k in kernels] == [list(k.opcodes) for k in report.programs[0].kernels]
    assert content["schema"] == 2


class Outline(HTMLParser):
    """Collects the tags of a page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_needs_nothing_else(report: ingot.Report) -> None:
    outline = Outline()
    page = report.to_html()
    outline.feed(page)
    for tag, attributes in outline.tags:
        assert tag not in ("link", "img", "iframe")
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"url\(|@import|fetch\(|https?://", page)


def test_the_page_can_be_used_by_keyboard_and_is_labelled(report: ingot.Report) -> None:
    outline = Outline()
    outline.feed(report.to_html())
    boxes = [a for tag, a in outline.tags if tag == "g" and "box" in a.get("class", "")]
    assert len(boxes) == 2
    assert all(a["tabindex"] == "0" and a["role"] == "button" and a["aria-label"] for a in boxes)
    ids = {a["id"] for _, a in outline.tags if "id" in a}
    assert {a["aria-labelledby"] for _, a in outline.tags if "aria-labelledby" in a} <= ids


def test_the_page_escapes_what_the_program_says(report: ingot.Report) -> None:
    page = report.to_html()
    assert "a<b.py" not in page
    assert "a&lt;b.py" in page
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data
    assert json.loads(data[1])[0]["lines"][0]["location"] == "a<b.py:4"


def test_arguments_give_times() -> None:
    sizes = [(64, 32), (32, 16), (16, 8)]
    report = ingot.explain(TEXT, *(np.ones(size, np.float32) for size in sizes))
    assert all(kernel.seconds for kernel in report.programs[0].kernels)
    assert ">Time<" in report.to_html()


def test_the_last_execution_is_a_flame() -> None:
    sizes = [(64, 32), (32, 16), (16, 8)]
    report = ingot.explain(TEXT, *(np.ones(size, np.float32) for size in sizes))
    (program,) = report.programs
    # Three executions were recorded; the last of them has each kernel once, in order.
    assert [event.kernel for event in program.execution] == [0, 1]
    first, second = program.execution
    assert first.start == 0
    assert second.start >= first.seconds
    assert program.execution_seconds == second.start + second.seconds
    assert [bar.name for bar in execution_flame(program)] == [
        f"#{n} {kernel.instruction}" for n, kernel in enumerate(program.kernels)
    ]
    outline = Outline()
    outline.feed(report.to_html())
    bars = [a for tag, a in outline.tags if tag == "g" and a.get("class") == "event"]
    assert [(bar["role"], bar["tabindex"], bar["data-kernels"]) for bar in bars] == [
        ("button", "0", "0"),
        ("button", "0", "1"),
    ]
    assert "Last execution" not in ingot.explain(TEXT).to_html()


def test_what_a_loop_runs_lies_beneath_it() -> None:
    text = """HloModule loop
    test { s = (s32[], f32[30000]) parameter(0) i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(5) ROOT c = pred[] compare(i, n), direction=LT }
    turn { s = (s32[], f32[30000]) parameter(0) i = s32[] get-tuple-element(s), index=0
      x = f32[30000] get-tuple-element(s), index=1 y = f32[30000] cosine(x)
      z = f32[30000] reverse(y), dimensions={0} k = s32[] constant(1) j = s32[] add(i, k)
      ROOT t = (s32[], f32[30000]) tuple(j, z) }
    ENTRY e { x = f32[30000] parameter(0) zero = s32[] constant(0)
      start = (s32[], f32[30000]) tuple(zero, x)
      end = (s32[], f32[30000]) while(start), condition=test, body=turn
      ROOT r = f32[30000] get-tuple-element(end), index=1 }"""
    (program,) = ingot.explain(text, np.ones(30000, np.float32)).programs
    (loop,) = (event for event in program.execution if event.kind == "loop")
    inside = [event for event in program.execution if event.depth == 1]
    assert len(inside) >= 5
    for event in inside:
        assert event.kernel is not None
        assert loop.start <= event.start
        assert event.start + event.seconds <= loop.start + loop.seconds + 1e-9


def test_symbolic_sizes_are_expressions() -> None:
    text = "HloModule m\nENTRY e { x = f32[?n] parameter(0)\n ROOT y = f32[?n] tanh(x) }"
    report = ingot.explain(text)
    assert report.programs[0].kernels[0].bytes_read == "4*n"
    assert "4*n" in str(report)
    assert "4*n" in report.to_html()


def test_many_kernels_are_folded() -> None:
    count = 2 * MOST_BOXES + 10
    rows = [f"d{n} = f32[2,2] dot(d{n - 1}, d{n - 1}), lhs_contracting_dims={{1}}, "
            f'rhs_contracting_dims={{0}}, metadata={{source_file="a.py" source_line={n // 4}}}'
            for n in range(1, count)]  # fmt: skip
    rows[-1] = f"ROOT {rows[-1]}"
    body = "\n".join(["d0 = f32[2,2] parameter(0)", *rows])
    (program,) = ingot.explain(f"HloModule m\nENTRY e {{ {body} }}").programs
    picture = picture_of(program)
    assert len(program.kernels) > MOST_BOXES
    assert len(picture.boxes) <= MOST_BOXES
    assert "folded by source line" in picture.remark
    assert sorted(n for box in picture.boxes for n in box.kernels) == list(range(count - 1))


def test_equal_kernels_without_lines_are_folded() -> None:
    count = MOST_BOXES + 10
    rows = [f"d{n} = f32[2,2] dot(d{n - 1}, d{n - 1}), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}" for n in range(1, count)]  # fmt: skip
    rows[-1] = f"ROOT {rows[-1]}"
    body = "\n".join(["d0 = f32[2,2] parameter(0)", *rows])
    report = ingot.explain(f"HloModule m\nENTRY e {{ {body} }}")
    (program,) = report.programs
    (box,) = picture_of(program).boxes
    assert box.kernels == tuple(range(count - 1))
    assert box.lines[:2] == (f"{count - 1} kernels", "dot")
    (data,) = json.loads(re.findall(r'id="data">(.*?)</script>', report.to_html(), re.DOTALL)[0])
    assert len(data["texts"]) < 3 * count  # their code is kept once
    shown = data["texts"][data["kernels"][-1]["kernel_ir"]]
    assert shown == program.kernels[-1].kernel_ir


def test_the_largest_program_comes_first() -> None:
    small = ingot.compile(
        "HloModule small ENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] negate(x) }"
    )
    programs = (*ingot.explain(small).programs, *ingot.explain(TEXT).programs)
    assert [program.name for program in programs] == ["small", "two"]
    html = replace(ingot.explain(TEXT), programs=programs).to_html()
    assert re.findall(r'<h1 id="program-(\d)">(\w+)</h1>', html) == [("1", "two"), ("0", "small")]
    assert re.findall(r'<a href="#program-(\d)">', html) == ["1", "0"]
    assert "<title>two:" in html


def test_layers_stand_below_what_they_need() -> None:
    assert layers([(), (), (0,), (1, 2)]) == [[0, 1], [2], [3]]
    assert layers([]) == []


def test_other_things_are_refused() -> None:
    with pytest.raises(ingot.ArgumentError, match="the program is of type int"):
        ingot.explain(3)
    with pytest.raises(ingot.ArgumentError, match="no arguments by name"):
        ingot.explain(TEXT, x=3)


def test_a_jitted_function_of_jax() -> None:
    jax = pytest.importorskip("jax")
    x = jax.ShapeDtypeStruct((4, 4), np.float32)
    (program,) = ingot.explain(jax.jit(lambda x: jax.numpy.tanh(x @ x)), x).programs
    assert any("dot" in kernel.opcodes for kernel in program.kernels)
    assert any(Path(__file__).name in line.location for line in program.lines)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, page = tmp_path / "two.hlo", tmp_path / "two.html"
    module.write_text(TEXT)
    assert main(["explain", str(module)]) == 0
    assert "two: " in capsys.readouterr().out
    assert main(["explain", str(module), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == 2
    assert main(["explain", str(module), "-o", str(page)]) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_the_command_runs_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, ingot\n"
        "def run():\n"
        f"    ingot.compile('''{TEXT}''')\n"
        "if __name__ == '__main__':\n"
        "    run()\n"
        "    sys.exit(int(sys.argv[1]))\n"
    )
    command = [sys.executable, "-m", "ingot", "explain", str(program)]
    done = subprocess.run([*command, "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "two: " in done.stdout
    done = subprocess.run([*command, "3"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "exit status 3" in done.stderr


def test_a_program_that_runs_is_timed_if_asked(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import ingot, numpy as np\n"
        f"step = ingot.compile('''{TEXT}''')\n"
        "for _ in range(3):\n"
        "    step(*(np.ones(s, np.float32) for s in [(64, 32), (32, 16), (16, 8)]))\n"
    )
    for options, count in (["--times"], 2), ([], 0):
        output = tmp_path / "report.json"
        ingot.clear_caches()  # else the second program shares what the first compiled
        assert main(["explain", str(tmp_path / "program.py"), *options, "-o", str(output)]) == 0
        (program,) = json.loads(output.read_text())["programs"]
        assert len(program["execution"]) == count
        assert all((kernel["seconds"] is not None) == bool(count) for kernel in program["kernels"])


def test_timed_kernels_say_their_share_of_the_roofline() -> None:
    report = ingot.explain("""HloModule m ENTRY e { x = f32[256,256] parameter(0)
      ROOT y = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
      np.ones((256, 256), np.float32))  # fmt: skip
    (kernel,) = report.programs[0].kernels
    assert kernel.seconds is not None
    assert kernel.roofline is not None
    assert kernel.roofline == measured_machine().share(3 * 4 * 256**2, 2 * 256**3, kernel.seconds)
    assert "of the roofline)" in str(report)
    assert "Roofline" in report.to_html()


def test_without_a_run_there_is_no_roofline(report: ingot.Report) -> None:
    assert all(kernel.roofline is None for kernel in report.programs[0].kernels)
    assert "roofline" not in str(report)
    assert "Roofline" not in report.to_html()


def test_the_flame_has_every_long_phase_and_pass(report: ingot.Report) -> None:
    (program,) = report.programs
    bars = flame_of(program)
    total = program.compile_seconds
    longest = max(program.passes, key=lambda row: row.seconds)
    for row in (*program.phases, longest):
        if row.seconds > total / 100:
            assert any(bar.name == row.name and bar.seconds == row.seconds for bar in bars)
    for depth in {bar.depth for bar in bars}:
        line = sorted((bar for bar in bars if bar.depth == depth), key=lambda bar: bar.left)
        for left, right in itertools.pairwise(line):
            assert left.left + left.width <= right.left + 1e-9
    for bar in bars:
        above = [one for one in bars if one.depth == bar.depth - 1]
        assert not bar.depth or any(_within(bar, one) for one in above)
    assert 'class="flame"' in report.to_html()


def _within(inner: Bar, outer: Bar) -> bool:
    end = outer.left + outer.width + 1e-9
    return outer.left - 1e-9 <= inner.left and inner.left + inner.width <= end


def test_what_was_compiled_again_is_in_every_form(report: ingot.Report) -> None:
    item = Observation(COMPILED_AGAIN, "f <lambda>", ("x was f32[3]", "called at a.py:1"))
    made = replace(report, observations=(item,))
    assert str(made).splitlines()[-3:] == [
        "f <lambda>: compiled again", "  x was f32[3]", "  called at a.py:1"
    ]  # fmt: skip
    assert json.loads(made.to_json())["observations"][0]["reasons"] == list(item.reasons)
    page = made.to_html()
    assert "f &lt;lambda&gt;" in page
    assert "x was f32[3]<br>called at a.py:1" in page
    assert "Compiled again" not in report.to_html()
