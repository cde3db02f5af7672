# SPDX-License-Identifier: Apache-2.0
"""Log lines: levels, form, and that what is not asked for is not computed."""

import logging

import pytest

from ingot.support import flags
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
