# SPDX-License-Identifier: Apache-2.0
"""Diagnostics: what users see, and that every error class carries the facts with a stable code."""

import pickle

import pytest

from ingot.support import diagnostics
from ingot.support.diagnostics import Diagnostic, IngotError, SourceLocation, Span

ERROR_CLASSES = [
    value
    for value in vars(diagnostics).values()
    if isinstance(value, type) and issubclass(value, IngotError)
]


def test_everything_known_is_shown_in_order():
    diagnostic = Diagnostic(
        "no such thing",
        code="INGOT0123",
        span=Span(3, 5, "  x = foo()", "step.hlo"),
        instruction="%x",
        op_type="Foo",
        op_name="model/foo",
        location=SourceLocation("train.py", 12),
        pass_name="algsimp",
        notes=("first", "second"),
        hint="write bar",
    )
    assert diagnostic.render().splitlines() == [
        "error[INGOT0123]: no such thing",
        "  --> step.hlo:3:5",
        "   |   x = foo()",
        "   |     ^",
        "  instruction: %x",
        "  op: Foo (node 'model/foo')",
        "  at: train.py:12",
        "  pass: algsimp",
        "  note: first",
        "  note: second",
        "  hint: write bar",
    ]


def test_caret_stands_under_the_column_even_after_tabs():
    source_line = "\tadd(\tx)"
    text = Diagnostic("bad", span=Span(1, 7, source_line)).render().splitlines()
    shown, caret = text[2], text[3]
    assert caret.expandtabs().index("^") == shown.expandtabs().index("x")


def test_plain_message_is_one_line():
    assert str(IngotError("broken")) == "error[INGOT0001]: broken"


def test_an_op_without_a_node_name_does_not_show_an_empty_one():
    assert "node" not in Diagnostic("bad", op_type="Foo").render()


@pytest.mark.parametrize("error_class", ERROR_CLASSES)
def test_classes_have_codes_of_their_own(error_class):
    error = error_class("broken", hint="mend it", notes=("why",))
    assert error.diagnostic.code == error_class.default_code
    assert error.diagnostic.hint == "mend it"
    assert error.diagnostic.notes == ("why",)
    assert str(error) == error.diagnostic.render()
    codes = [other.default_code for other in ERROR_CLASSES]
    assert codes.count(error_class.default_code) == 1


def test_whole_diagnostic_is_carried_as_it_is():
    diagnostic = Diagnostic("broken", code="INGOT0777")
    assert IngotError(diagnostic).diagnostic is diagnostic


def test_errors_survive_pickling_with_their_facts():
    error = diagnostics.VerifyError("broken", instruction="%x", hint="mend it")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is diagnostics.VerifyError
    assert copy.diagnostic == error.diagnostic
