# SPDX-License-Identifier: Apache-2.0
"""The op tables are consistent, and the coverage page is made from them."""

from ingot.frontends.tensorflow.lowering import coverage, rules
from ingot.frontends.tensorflow.lowering.fold import FOLDS


def test_every_row_is_an_op_of_tensorflow():
    from tensorflow.python.framework import op_def_registry

    unknown = [name for name in rules.table() if op_def_registry.get(name) is None]
    assert unknown == []


def test_folded_ops_also_have_a_rule():
    assert set(FOLDS) <= set(rules.table())


def test_what_tensorflows_own_xla_compiles_has_a_row_or_a_reason():
    wanted = coverage.xla_ops()
    assert len(wanted) == 489
    assert wanted == (wanted & set(rules.table())) | set(coverage.EXCEPTIONS)


def test_the_page_names_rows_and_exceptions():
    page = coverage.markdown()
    assert "`MatMul`" in page.partition("## Exceptions")[0]
    assert "`XlaSend`" in page.partition("## Exceptions")[2]


def test_an_exception_has_no_row_and_a_reason():
    assert set(coverage.EXCEPTIONS) <= coverage.xla_ops() - set(rules.table())
    assert all(coverage.EXCEPTIONS.values())
