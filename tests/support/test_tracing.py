# SPDX-License-Identifier: Apache-2.0
"""Log lines: levels, form, and that what is not asked for is not computed."""

import ast
import logging
from pathlib import Path

import pytest

from ingot.support import flags, tracing
from ingot.support.tracing import Level, enabled, log, log_text


def test_line_has_event_and_fields(capsys):
    with flags.override(flags.DEBUG, 2):
        log(Level.PASS, "pass.run", name="dce", changed=True, note="two words", empty="")
    line = capsys.readouterr().err
    assert line.startswith("[ingot ")
    assert line.endswith("] pass.run name=dce changed=True note='two words' empty=''\n")


@pytest.mark.parametrize("level", Level)
def test_level_is_printed_from_its_number_on(level, capsys):
    with flags.override(flags.DEBUG, level - 1):
        assert not enabled(level)
        log(level, "quiet")
    with flags.override(flags.DEBUG, int(level)):
        assert enabled(level)
        log(level, "told")
    assert capsys.readouterr().err.count("\n") == 1


def test_fields_and_texts_are_computed_only_when_asked_for(capsys):
    calls = []

    def text():
        calls.append(1)
        return "HloModule m"

    log(Level.REWRITE, "rewrite", module=text)
    log_text(Level.PROGRAM, "module", text)
    assert calls == []
    with flags.override(flags.DEBUG, 4):
        log_text(Level.PROGRAM, "module", text)
    assert capsys.readouterr().err.endswith("module\nHloModule m\n")
    assert calls == [1]


def test_lines_are_records_of_the_logger(caplog, capsys):
    caplog.set_level(logging.DEBUG, logger="ingot")
    log(Level.COMPILATION, "compiled", module="m")
    log_text(Level.PASS, "pass.run", lambda: "text")
    log(Level.REWRITE, "rewrite")
    found = [(row.name, row.levelname, row.getMessage()) for row in caplog.records]
    assert found == [
        ("ingot.compiler", "INFO", "compiled module=m"),
        ("ingot.compiler", "DEBUG", "pass.run\ntext"),
    ]
    assert capsys.readouterr().err == ""


def test_every_event_is_in_the_table_under_its_level():
    """What is logged is documented: the first argument of each call of `log` and `log_text`."""
    root = Path(tracing.__file__).parents[1]
    logged: dict[str, set[str]] = {}
    for path in root.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "Level." in source else ():
            if _is_call_of_log(node):
                level, event = node.args[:2]
                text = event.values[0] if isinstance(event, ast.JoinedStr) else event
                logged.setdefault(level.attr, set()).add(text.value.split()[0])
    table = {level.name: set(events) for level, events in tracing.EVENTS.items()}
    assert logged == table


def _is_call_of_log(node):
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("log", "log_text")
        and len(node.args) > 1
        and isinstance(node.args[0], ast.Attribute)
        and isinstance(node.args[0].value, ast.Name)
        and node.args[0].value.id == "Level"
    )
