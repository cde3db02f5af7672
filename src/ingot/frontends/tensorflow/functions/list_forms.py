# SPDX-License-Identifier: Apache-2.0
"""Lists of lists that compiled code made, for functions that TensorFlow runs itself.

A compiled function gives a list of lists as a list of tensors, the rows of a list each
(`launch_writer`): the function that takes it is mostly compiled too. Where that one is not, because
it takes lists of lists of lists, say, TensorFlow's kernels want a list of lists: `as_lists` makes
it in front of them. Which of the two a list is, shows when the function runs: for TensorFlow the
elements of a list of lists are scalars or of any shape, and rows of tensors have one axis or more.

Invariant: a function that TensorFlow runs itself takes both, and gives lists of lists.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ingot.frontends.tensorflow.api.modules import tensorflow
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, TensorRef
from ingot.frontends.tensorflow.graphs.list_types import ListTypes
from ingot.frontends.tensorflow.launches.body import Body, type_number
from ingot.support.records import record

raw: Any = tensorflow.raw_ops


@record
class Converter:
    """A function of TensorFlow's that takes a list and gives a list of lists.

    Attributes:
        name: its name.
        kept: what keeps them registered.
    """

    name: str
    kept: Any


def as_lists(body: Body, function: CapturedFunction, types: ListTypes) -> None:
    """Write the conversion of each list of lists that a function is given; change the arguments.

    Args:
        body: the body of the function, with no node yet.
        function: the function.
        types: what its lists hold.
    """
    taken = {ref for node in function.nodes for ref in node.inputs}
    for number, item in enumerate(function.inputs):
        ref = TensorRef(item.name)
        if item.type.dtype != "variant" or ref not in taken:
            continue
        dtype = types.of_elements(function, ref)
        if dtype is None and not types.has_unknown_lists(function, ref):
            continue
        made = _converter(dtype)
        node = body.add_node(f"ingot_lists_{number}", "PartitionedCall", [body.arguments[number]])
        node.attr["f"].func.name = made.name
        node.attr["Tin"].list.type.append(type_number("variant"))
        node.attr["Tout"].list.type.append(type_number("variant"))
        body.arguments[number] = f"{node.name}:output:0"


@cache
def _converter(dtype: str | None) -> Converter:
    """Return the converter of lists of lists of `dtype`; None: nobody reads the inner lists."""

    def convert(given: Any) -> Any:
        return _converted(given, dtype)

    with tensorflow.init_scope():
        traced = tensorflow.function(convert, autograph=False)
        made = traced.get_concrete_function(tensorflow.TensorSpec([], tensorflow.variant))
    return Converter(made.name, made)


def _converted(given: Any, dtype: str | None) -> Any:
    """Return `given` as a list of lists: it may hold the rows of each list in a tensor."""
    shape = raw.TensorListElementShape(input_handle=given, shape_type=tensorflow.int32)
    has_rows = tensorflow.rank(shape) * tensorflow.size(shape) > 0

    def put(number: Any, lists: Any) -> tuple[Any, Any]:
        inner = _empty() if dtype is None else _list_of(given, number, dtype)
        return number + 1, raw.TensorListPushBack(input_handle=lists, tensor=inner)

    def made() -> Any:
        count = raw.TensorListLength(input_handle=given)

        def goes_on(number: Any, _: Any) -> Any:
            return number < count

        return tensorflow.while_loop(goes_on, put, [0, _empty()])[1]

    return tensorflow.cond(has_rows, made, lambda: given)


def _empty() -> Any:
    return raw.EmptyTensorList(
        element_shape=tensorflow.zeros([0], tensorflow.int32),
        max_num_elements=-1,
        element_dtype=tensorflow.variant,
    )


def _list_of(given: Any, number: Any, dtype: str) -> Any:
    """Return the list of the rows of a tensor in a list."""
    rows = raw.TensorListGetItem(
        input_handle=given, index=number, element_shape=-1, element_dtype=dtype
    )
    return raw.TensorListFromTensor(tensor=rows, element_shape=tensorflow.shape(rows)[1:])
