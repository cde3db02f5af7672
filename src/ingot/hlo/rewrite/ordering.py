# SPDX-License-Identifier: Apache-2.0
"""Ordering constraints of pipelines: which pass comes before which, with the reason.

A pipeline is a literal tuple; the text `ORDER` beside it gives the reasons for its order. A test
checks each pipeline against its text (`tests/passes/test_order.py`), so a pass that is moved fails
with the reason, and no program spends time on it.

Example:
    >>> orders('''
    ...     cse, dce < fusion: kernels compute
    ...         nothing twice
    ... ''')[1]
    Order(first='dce', then='fusion', why='kernels compute nothing twice')
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

from ingot.hlo.rewrite.pass_base import Step, passes_of
from ingot.support.diagnostics import InternalError
from ingot.support.records import record


@record
class Order:
    """Pass `first` runs before pass `then`, because of `why`."""

    first: str
    then: str
    why: str


def orders(text: str) -> tuple[Order, ...]:
    """Return the orders of a table with lines `first < then: why`.

    Each side may be several names, separated by commas. Lines that are indented more than the first
    one continue those before them.
    """
    rows = dedent(text).strip("\n").replace("\n    ", " ").splitlines()
    found: list[Order] = []
    for row in rows:
        names, why = row.split(": ", 1)
        firsts, thens = (side.split(", ") for side in names.split(" < "))
        found += [Order(first, then, why) for first in firsts for then in thens]
    return tuple(found)


def check_order(step: Step, orders: tuple[Order, ...]) -> None:
    """Check that the first run of each pass obeys `orders`.

    Raises:
        InternalError: INGOT0916 a pass comes before one that must precede it, or an order names a
            pass that `step` does not have, and so would never be checked.
    """
    check_names(step.name, [entry.name for entry in passes_of(step)], orders)


def check_names(pipeline: str, names: Sequence[str], orders: tuple[Order, ...]) -> None:
    """Check the names of a pipeline's passes; `check_order` is the same for a step.

    Args:
        pipeline: the name of the pipeline, for the message.
        names: the names of its passes, in the order in which they run.
        orders: the constraints on the first run of each pass.

    Raises:
        InternalError: INGOT0916 a pass comes before one that must precede it, or an order names a
            pass that the pipeline does not have.
    """
    for order in orders:
        for name in (order.first, order.then):
            if name not in names:
                raise InternalError(
                    f"an order of {pipeline} names {name}, which is no pass of it",
                    code="INGOT0916",
                    notes=(order.why,),
                )
        if names.index(order.first) > names.index(order.then):
            raise InternalError(
                f"{order.then} runs before {order.first} in {pipeline}",
                code="INGOT0916",
                notes=(order.why,),
            )
