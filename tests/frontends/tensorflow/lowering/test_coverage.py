# SPDX-License-Identifier: Apache-2.0
"""The op tables are consistent, and the coverage page is made from them."""

import re
from pathlib import Path

import pytest

from ingot.frontends.tensorflow.lowering import coverage
from ingot.frontends.tensorflow.lowering.walk import rules
from ingot.frontends.tensorflow.lowering.walk.fold import FOLDS
from ingot.frontends.tensorflow.partitioning.op_families import FAMILIES, FAMILY_OF


@pytest.mark.parametrize("name", FAMILIES)
def test_the_list_of_a_familys_ops_is_its_table(name: str):
    assert sorted(FAMILIES[name].split()) == sorted(rules.family(name))


def test_every_module_with_rules_is_a_family():
    folder = Path(coverage.__file__).parent
    named = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if re.search(r"^RULES\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named == set(FAMILIES)


def test_an_op_is_of_one_family():
    assert len(FAMILY_OF) == sum(len(names.split()) for names in FAMILIES.values())


def test_every_row_is_an_op_of_tensorflow():
    from tensorflow.python.framework import op_def_registry

    unknown = [name for name in FAMILY_OF if op_def_registry.get(name) is None]
    assert unknown == []


def test_folded_ops_also_have_a_rule():
    assert set(FOLDS) <= set(FAMILY_OF)


def test_what_tensorflows_own_xla_compiles_has_a_row_or_a_reason():
    wanted = coverage.xla_ops()
    assert len(wanted) == 489
    assert wanted == (wanted & set(FAMILY_OF)) | set(coverage.EXCEPTIONS)


def test_the_page_names_rows_and_exceptions():
    page = coverage.markdown()
    assert "`MatMul`" in page.partition("## Exceptions")[0]
    assert "`XlaSend`" in page.partition("## Exceptions")[2]


def test_an_exception_has_no_row_and_a_reason():
    assert set(coverage.EXCEPTIONS) <= coverage.xla_ops() - set(FAMILY_OF)
    assert all(coverage.EXCEPTIONS.values())
