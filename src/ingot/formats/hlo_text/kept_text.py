# SPDX-License-Identifier: Apache-2.0
"""Attributes in HLO text that Ingot keeps as text and prints back, and the form of some of them.

Attributes that XLA prints for any op and that affect no result are kept unchanged. Where a proto or
a pass parses the text later, its form is checked when it is read.
"""

from __future__ import annotations

from ingot.formats.hlo_text.reader import Reader
from ingot.support.regex import regex

# Attributes of any instruction that change no value: kept as text, printed back.
KEPT_BEFORE_METADATA = (
    "sharding",
    "frontend_attributes",
    "parameter_replication",
    "origin",
    "statistics",
    "original_value",
)
KEPT_AFTER_METADATA = ("backend_config",)
# Attributes of single ops that say how, not what: kept too.
KEPT_OF_OPS = (
    "operand_precision",
    "result_accuracy",
    "algorithm",
    "schedule",
    "outer_dimension_partitions",
    "constrain_layout",
    "is_host_transfer",
    "cross_program_prefetch_index",
    "output_to_operand_aliasing",
    "indices_are_sorted",
    "unique_indices",
    "mhlo_attributes",
    "custom_call_has_side_effect",
    "is_composite",
    "inferred_dimension",
    "convolution_kind",
    "literal",
    "padding_type",
    "sparsity_config",
)
KEPT = frozenset((*KEPT_BEFORE_METADATA, *KEPT_AFTER_METADATA, *KEPT_OF_OPS))
PADDING_TYPES = ("PADDING_INVALID", "PADDING_VALID", "PADDING_SAME")
SCHEDULES = ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
_NUMBER = r"(?:-?\d{1,19}(?:\.\d*+)?(?:e[+\-]?\d{1,3})?|-?inf|nan)"
_PATH = r"\{[\d,\s]*+\}"
_ALIAS = rf"\s*+{_PATH}\s*+:\s*+\(\s*+\d{{1,9}}\s*+,\s*+{_PATH}(?:\s*+,\s*+[\w\-]++)?\s*+\)\s*+"
# How values that are kept as text look, where protos or passes take them apart.
FORMS = {
    "result_accuracy": regex(
        rf"\{{(?:mode=\w+|tolerance=\{{\s*(?:(?:atol|rtol|ulps)={_NUMBER}[\s,]*)*\}})\}}"
    ),
    "output_to_operand_aliasing": regex(rf"\{{(?:{_ALIAS}(?:,{_ALIAS})*+)?\s*+\}}"),
    "parameter_replication": regex(r"\{\s*(?:(?:true|false)[\s,]*)*\}"),
    "padding_type": regex("|".join(PADDING_TYPES)),
    "schedule": regex("|".join(SCHEDULES)),
}


def read_kept(reader: Reader, name: str) -> str:
    """Take the value of an attribute that is kept as text."""
    at = reader.skip()
    value = reader.raw_value()
    if name == "literal" and not value.startswith("("):  # a shape, then the elements
        return f"{value} {reader.raw_value()}"
    form = FORMS.get(name)
    if form is not None and form.fullmatch(value) is None:
        reader.fail(f"'{value}' is no {name}", at=at)
    return value
