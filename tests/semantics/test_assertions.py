# SPDX-License-Identifier: Apache-2.0
"""Assertions: text and back, evaluated, and compiled."""

import numpy as np
import pytest

import ingot
from ingot.evaluator.interpreter import evaluate
from ingot.formats.hlo_text import print_module
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.semantics.assertions import assertion_text, assertions, emit_assertion
from ingot.support.diagnostics import ExecutionError


def positive(status: str = "") -> Module:
    builder = Builder("main")
    x = builder.parameter(0, "f32[]")
    flag = builder.emit("compare", x, builder.constant(np.float32(0)), direction="GT")
    emit_assertion(builder, flag, 'x must be "positive"', status)
    return Module.of("positive", builder.build(builder.add(x, x)))


def test_the_text_survives_printing():
    module = ingot.parse_hlo(print_module(positive()))
    assert [assertion_text(item) for item in assertions(module)] == ['x must be "positive"']


RUNS = [lambda m, x: evaluate(m, [x]), lambda m, x: ingot.compile(m)(x)]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("status", ["", "OUT_OF_RANGE"])
def test_a_failure_has_the_class_that_the_front_end_gave_it(run, status):
    module = ingot.parse_hlo(print_module(positive(status)))
    with pytest.raises(ExecutionError, match='x must be "positive"') as error:
        run(module, np.float32(-2))
    assert error.value.status == status


@pytest.mark.parametrize("run", RUNS)
def test_a_false_assertion_ends_the_program(run):
    assert run(positive(), np.float32(2)) == 4
    with pytest.raises(ExecutionError, match="must be") as error:
        run(positive(), np.float32(-2))
    assert error.value.diagnostic.code == "INGOT0505"
