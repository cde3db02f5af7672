# SPDX-License-Identifier: Apache-2.0
"""Modules as DOT graphs and as pages: everything is there, and every link leads somewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from ingot.formats.hlo_dot import print_dot
from ingot.formats.hlo_html import print_html
from ingot.formats.hlo_text import parse

TEXT = """HloModule shown
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
one { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }
two { q = f32[4] parameter(0)  ROOT s = f32[4] sine(q) }
ENTRY main {
  x = f32[4] parameter(0)
  i = s32[] parameter(1)
  chosen = f32[4] conditional(i, x, x), branch_computations={one, two}
  zero = f32[] constant(0), metadata={op_name="a<b>&\\"c\\"" source_file="model.py" source_line=3}
  add = f32[] reduce(chosen, zero), dimensions={0}, to_apply=add
  ROOT t = (f32[], f32[4]) tuple(add, x), control-predecessors={chosen}
}
"""
_NODE = re.compile(r'^    "((?:[^"\\]|\\.)*)" \[label="', re.MULTILINE)
_EDGE = re.compile(r'^  "([^"]*)" -> "([^"]*)"(.*);$', re.MULTILINE)


def test_a_graph_has_every_instruction_and_use() -> None:
    module = parse(TEXT)
    text = print_dot(module)
    names = {item.name for one in module.computations.values() for item in one.instructions}
    assert set(_NODE.findall(text)) == names
    edges = _EDGE.findall(text)
    for computation in module.computations.values():
        for item in computation.instructions:
            for operand in item.operands:
                assert any((operand.name, item.name) == edge[:2] for edge in edges)
    dashed = {edge[:2] for edge in edges if "dashed" in edge[2]}
    root = module.computations["add"].root.name
    assert {("n", "chosen"), ("s", "chosen")} < dashed
    assert (root, module.entry.root.operands[0].name) in dashed
    assert {edge[:2] for edge in edges if "dotted" in edge[2]} == {("chosen", "t")}
    assert text.count("{") == text.count("}")
    assert 'label="ENTRY main"' in text
    assert "model.py:3" in text


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_says_what_the_text_says_and_its_links_lead_somewhere() -> None:
    module = parse(TEXT)
    page = _Page()
    page.feed(print_html(module))
    assert len(page.ids) == len(set(page.ids))
    names = {item.name for one in module.computations.values() for item in one.instructions}
    assert {f"i-{name}" for name in names} <= set(page.ids)
    assert {f"c-{name}" for name in module.computations} <= set(page.ids)
    assert set(page.links) <= {f"#{name}" for name in page.ids}
    assert "#c-add" in page.links
    assert {"#c-one", "#c-two"} <= set(page.links)
    assert 'op_name="a<b>&' in page.text
    assert "src=" not in print_html(module)
