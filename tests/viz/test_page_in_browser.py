# SPDX-License-Identifier: Apache-2.0
"""The page of a report in a real browser: what a click and a key do."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import ingot

CHROMIUM = shutil.which("chromium")
COUNT = 20
PARAMETERS = "\n".join(f"y{n} = f32[64,{n + 1}] parameter({n + 1})" for n in range(COUNT))
PRODUCTS = "\n".join(
    f"d{n} = f32[64,{n + 1}] dot(r, y{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, "
    f'metadata={{source_file="a.py" source_line={n + 1}}}'
    for n in range(COUNT)
)
TEXT = f"""HloModule wide
order {{ a = f32[] parameter(0) b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }}
ENTRY e {{
  x = f32[64,64] parameter(0)
  {PARAMETERS}
  r = f32[64,64] sort(x), dimensions={{1}}, to_apply=order
  {PRODUCTS}
  ROOT t = ({", ".join(f"f32[64,{n + 1}]" for n in range(COUNT))}) tuple({
    ", ".join(f"d{n}" for n in range(COUNT))
})
}}"""
# Runs behind the page's own script; what it writes down is read from the page's title.
SCRIPT = """
const notes = {};
const all = (selector) => [...document.querySelectorAll(selector)];
const named = (selector, start) => all(selector).find((b) => b.textContent.startsWith(start));
const text = (selector) => document.querySelector(selector)?.textContent ?? "";
const press = (node, key) => node.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
notes.first = text(".chosen b");
document.querySelectorAll("tbody .pick")[1].click();
notes.clicked = text(".chosen b");
notes.focus = document.activeElement.className;
notes.hlo = text(".chosen pre");
press(document.querySelector(".tabs [aria-selected=true]"), "ArrowRight");
notes.tab = text(".tabs [aria-selected=true]");
notes.kernel = text(".chosen pre");
press(all(".box").at(-1), "Enter");
notes.pressed = all(".box[aria-pressed=true]").length;
document.querySelector("tbody .pick").click();
const more = named(".chosen button", "and ");
notes.more = more?.textContent ?? "";
const before = all(".chosen .links button").length;
more?.click();
notes.added = all(".chosen .links button").length - before;
const heading = named(".sortable th button", "FLOPs");
heading.click(); heading.click();
notes.sorted = heading.parentElement.getAttribute("aria-sort");
notes.flops = all(".sortable tbody tr").map((row) => Number(row.cells[4].dataset.value));
document.title = JSON.stringify(notes);
"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_clicks_and_keys(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    report = ingot.explain(TEXT)
    (program,) = report.programs
    page = tmp_path / "page.html"
    page.write_text(report.to_html().replace("</body>", f"<script>{SCRIPT}</script></body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000"]
    done = subprocess.run(
        [CHROMIUM, *flags, "--dump-dom", f"file://{page}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    title = re.findall("<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title, done.stderr
    notes = json.loads(html.unescape(title[0]))
    kernels = program.kernels
    assert notes["first"] == f"#0 {kernels[0].instruction}"
    assert notes["clicked"] == f"#1 {kernels[1].instruction}"
    assert notes["focus"] == "detail"
    assert notes["hlo"] == kernels[1].hlo
    assert (notes["tab"], notes["kernel"]) == ("Kernel IR", kernels[1].kernel_ir)
    assert notes["pressed"] == 1
    users = len(kernels[0].feeds)
    assert users > 12, "what is folded is tested"
    assert (notes["more"], notes["added"]) == (f"and {users - 12} more", users - 12 - 1)
    assert notes["sorted"] == "descending"
    assert notes["flops"] == sorted((kernel.flops for kernel in kernels), reverse=True)
