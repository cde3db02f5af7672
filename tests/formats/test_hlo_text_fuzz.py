# SPDX-License-Identifier: Apache-2.0
"""HLO text: any text gives a module or a diagnostic; sizes, shapes and strings read back."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.module_equality import differences

from ingot.formats.hlo_text import parse, print_module
from ingot.formats.hlo_text.reader import Reader, escape, unescape
from ingot.formats.hlo_text.shape_text import ShapeReader
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.module import Module
from ingot.hlo.shape import Layout, Shape, size_text
from ingot.support.diagnostics import IngotError

pytestmark = pytest.mark.fast_share(4)

DATA = Path(__file__).parent / "data"
TEXTS = [
    (DATA / name).read_text()
    for name in ("symbolic.hlo", "xla/while_loop.before.hlo", "xla/mlp_step.before.hlo")
]
PIECES = re.compile(r"\w+|\s+|.")
ODD = [
    *'{}()[],=%-:?"\\*x',
    *("0", "-1", "9999999999999", "f32[]", "token[]", "(f32[2])", "?n", "<=", "parameter(0)"),
    *("ROOT", "ENTRY", "tuple", "constant", "while", "/*", "*/", "nan(0x1)", "{...}", "λ", "\0"),
]


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    """A valid text with pieces deleted, repeated, replaced, added or swapped."""
    pieces = PIECES.findall(draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(pieces) - 1))
        action = draw(st.integers(0, 4))
        if action == 0:
            del pieces[place : place + draw(st.integers(1, 6))]
        elif action == 1:
            pieces[place:place] = pieces[place : place + draw(st.integers(1, 20))]
        elif action == 2:
            pieces[place] = draw(st.sampled_from(ODD))
        elif action == 3:
            pieces.insert(place, draw(st.sampled_from(ODD)))
        else:
            other = draw(st.integers(0, len(pieces) - 1))
            pieces[place], pieces[other] = pieces[other], pieces[place]
    return "".join(pieces)


@settings(max_examples=300)
@given(damaged_texts())
def test_a_damaged_text_is_a_module_or_a_diagnostic(text: str):
    module, error = outcome(text)
    if module is not None:
        assert list(differences(module, parse(print_module(module)))) == []
    if error is not None:
        assert error.diagnostic.span is not None
        assert 1 <= error.diagnostic.span.line <= text.count("\n") + 1


def outcome(text: str) -> tuple[Module | None, IngotError | None]:
    """Return the module or the diagnostic that `text` gives; anything else is a failure."""
    try:
        return parse(text), None
    except IngotError as error:
        return None, error


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_any_text_is_a_module_or_a_diagnostic(text: str):
    for whole in (text, "HloModule m\n" + text, "HloModule m ENTRY e { x = f32[2] " + text):
        with pytest.raises(IngotError) as caught:
            parse(whole)
        assert caught.value.diagnostic.span is not None


@given(st.text())
def test_strings_read_back(text: str):
    assert unescape(escape(text)) == text
    assert escape(text).isascii()


def sizes() -> st.SearchStrategy[int | Dim]:
    """Sizes built from numbers and names with every function of sizes."""
    leaves = st.integers(0, 9) | st.sampled_from(["n", "m", "batch.1"]).map(Dim.symbol)

    def combined(inner: st.SearchStrategy[int | Dim]) -> st.SearchStrategy[int | Dim]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda both: both[0] + both[1]),
            pair.map(lambda both: both[0] - both[1]),
            pair.map(lambda both: both[0] * both[1]),
            pair.map(lambda both: dim.maximum(*both)),
            pair.map(lambda both: dim.minimum(*both)),
            st.tuples(inner, st.integers(1, 5)).map(lambda both: dim.floordiv(*both)),
            st.tuples(inner, st.integers(1, 5)).map(lambda both: dim.mod(*both)),
        )

    return st.recursive(leaves, combined, max_leaves=6)


@given(sizes())
def test_sizes_read_back(size: int | Dim):
    reader = Reader(size_text(size))
    assert ShapeReader(reader).size() == size
    assert reader.position == len(reader.text)


@st.composite
def shapes(draw: st.DrawFn, depth: int = 2) -> Shape:
    """Arrays with any layout, tokens, and tuples of them."""
    if depth and draw(st.booleans()):
        return Shape.tuple(tuple(draw(st.lists(shapes(depth=depth - 1), max_size=7))))
    if draw(st.integers(0, 9)) == 0:
        return Shape.token()
    dims = tuple(draw(st.lists(st.integers(0, 5) | st.just(Dim.symbol("n")), max_size=4)))
    order = tuple(draw(st.permutations(range(len(dims)))))
    suffix = draw(st.sampled_from(["", "T(8,128)", "T(8,128)(2,1)S(3)"])) if dims else ""
    element = draw(st.sampled_from(["f32", "pred", "bf16", "s4", "c128", "f8e4m3fn"]))
    return Shape.array(element, dims, Layout(order, suffix))


@given(shapes())
def test_shapes_read_back(shape: Shape):
    reader = Reader(str(shape))
    assert ShapeReader(reader).shape() == shape
    assert reader.position == len(reader.text)


def test_the_time_is_linear_in_the_text():
    """Twice the text takes about twice the steps: counted as reader moves, not as seconds."""

    class Counting(Reader):
        __slots__ = ("moves",)

        def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
            self.moves = getattr(self, "moves", 0) + 1
            return super().take(pattern)

    def moves(count: int) -> int:
        from ingot.formats.hlo_text.parser import ModuleParser

        lines = "\n".join(f"  %y.{i} = f32[2]{{0}} add(%x, %x)" for i in range(count))
        text = f"HloModule m\nENTRY %e {{\n  %x = f32[2]{{0}} parameter(0)\n{lines}\n}}\n"
        reader = Counting(text)
        assert len(ModuleParser(reader).parse().entry) == count + 1
        return reader.moves

    assert moves(2000) <= 2 * moves(1000) + 10


def test_half_a_surrogate_pair_is_no_crash():
    text = 'HloModule m ENTRY e { ROOT x = f32[] parameter(0), metadata={op_name="\\n\ud800"} }'
    assert parse(text).entry.root.metadata.op_name == "\n?"
