# SPDX-License-Identifier: Apache-2.0
"""Transfer ops: asynchronous pairs, copies in flight, send and recv, infeed and outfeed.

An asynchronous op is a chain start, update*, done; the computation that runs meanwhile is the
attribute `calls` of the start. XLA's text writes `add-start(x)` for a start that wraps one op; the
parser makes the computation, the printer writes the long form, which XLA reads too.

Source: xla/hlo/ir/hlo_instructions.cc, StableHLO specification `send`, `recv`, `infeed`, `outfeed`.
"""

from __future__ import annotations

from functools import partial

from ingot.hlo.computation import Computation
from ingot.hlo.dtype import TOKEN, U32
from ingot.hlo.interfaces import RegionKind
from ingot.hlo.opdef import Codec, OpView, Trait, attribute, define, require
from ingot.hlo.shape import Shape
from ingot.support.records import record

FAMILY = "transfer"
_EFFECT = {Trait.SIDE_EFFECT}
_GIVEN = {Trait.SIDE_EFFECT, Trait.NEEDS_SHAPE}


@record(kw_only=True)
class AsyncStartAttributes:
    """Attributes of `async-start`."""

    async_group_id: int | None = attribute(Codec.INT, None)
    async_execution_thread: str = attribute(Codec.STRING, "")
    calls: Computation = attribute(Codec.COMPUTATION)


@record(kw_only=True)
class AsyncAttributes:
    """Attributes of `async-update` and `async-done`; the start has the called computation."""

    async_group_id: int | None = attribute(Codec.INT, None)
    async_execution_thread: str = attribute(Codec.STRING, "")
    calls: Computation | None = attribute(Codec.COMPUTATION, None)


@record(kw_only=True)
class CopyStartAttributes:
    """Attributes of `copy-start`."""

    cross_program_prefetch_index: int | None = attribute(Codec.INT, None)


@record(kw_only=True)
class ChannelAttributes:
    """Attributes of `send`, `recv` and their done."""

    channel_id: int | None = attribute(Codec.INT, None)
    is_host_transfer: bool = attribute(Codec.BOOL, False)


@record(kw_only=True)
class InfeedAttributes:
    """Attributes of `infeed`."""

    infeed_config: str = attribute(Codec.STRING, "")


@record(kw_only=True)
class OutfeedAttributes:
    """Attributes of `outfeed`."""

    outfeed_shape: str = attribute(Codec.SHAPES, "")
    outfeed_config: str = attribute(Codec.STRING, "")


def _infer_async_start(view: OpView) -> Shape:
    called: Computation = view.attributes.calls
    given = view.given()
    parameters = tuple(parameter.shape for parameter in called.parameters)
    require(
        len(parameters) == len(view.operands)
        and all(a.compatible(b) for a, b in zip(parameters, view.operands, strict=True)),
        "async_start_c3",
        f"computation {called.name} takes other operands than {view.opcode}",
    )
    require(
        given.is_tuple
        and len(given.elements) >= 2
        and given.elements[0].compatible(Shape.tuple(view.operands))
        and given.elements[1].compatible(called.root.shape),
        "async_start_c4",
        f"async-start gives operands, result and contexts, not {given}",
    )
    return given


def _require_chain(view: OpView) -> Shape:
    (before,) = view.operands
    require(
        before.is_tuple and len(before.elements) >= 2 and before.elements[0].is_tuple,
        "async_c1",
        f"{view.opcode} takes what async-start gives, not {before}",
    )
    return before


def _infer_async_done(view: OpView) -> Shape:
    return _require_chain(view).elements[1]


def _infer_copy_start(view: OpView) -> Shape:
    (operand,) = view.operands
    given = view.declared
    if given is None:
        return Shape.tuple((operand, operand, Shape.array(U32, ())))
    require(
        given.is_tuple
        and len(given.elements) >= 2
        and all(element.compatible(operand) for element in given.elements[:2]),
        "copy_start_c1",
        f"copy-start of {operand} does not give {given}",
    )
    return given


def _infer_copy_done(view: OpView) -> Shape:
    (start,) = view.operands
    count = len(start.elements)
    require(
        count >= 2,
        "copy_done_c1",
        f"copy-done takes what copy-start gives, not {start}",
    )
    return start.elements[0]


def _require_token(view: OpView, number: int) -> None:
    operand = view.operands[number]
    label = f"{view.opcode}_i{number + 1}"
    require(operand.dtype is TOKEN, label, f"{view.opcode} takes a token: {operand}")


def _infer_send(view: OpView) -> Shape:
    _require_token(view, 1)
    return Shape.tuple((view.operands[0], Shape.array(U32, ()), Shape.token()))


def _infer_recv(view: OpView) -> Shape:
    given = view.given()
    _require_token(view, 0)
    require(
        given.is_tuple
        and len(given.elements) == 3
        and given.elements[1].compatible(Shape.array(U32, ()))
        and given.elements[2].dtype is TOKEN,
        "recv_o1",
        f"recv gives data, a context and a token, not {given}",
    )
    return given


def _started(view: OpView) -> Shape:
    (start,) = view.operands
    require(
        start.is_tuple and len(start.elements) == 3 and start.elements[2].dtype is TOKEN,
        f"{view.opcode.replace('-', '_')}_c1",
        f"{view.opcode} takes what its start gives, not {start}",
    )
    return start


def _infer_send_done(view: OpView) -> Shape:
    return _started(view).elements[2]


def _infer_recv_done(view: OpView) -> Shape:
    return Shape.tuple((_started(view).elements[0], Shape.token()))


def _infer_infeed(view: OpView) -> Shape:
    given = view.given()
    _require_token(view, 0)
    require(
        given.is_tuple and len(given.elements) == 2 and given.elements[1].dtype is TOKEN,
        "infeed_c3",
        f"infeed gives data and a token, not {given}",
    )
    return given


def _infer_outfeed(view: OpView) -> Shape:
    _require_token(view, 1)
    return Shape.token()


_define = partial(define, family=FAMILY, takes_arrays=False, results="o1")

_define("async-start", arity=(0, None), infer=_infer_async_start,
       attributes=AsyncStartAttributes, traits=_GIVEN, regions=RegionKind.CALL,
       doc="begins a computation that runs beside others")  # fmt: skip
_define("async-update", arity=1, infer=_require_chain, attributes=AsyncAttributes,
       traits=_EFFECT, regions=RegionKind.ASYNC, doc="a point between start and done")  # fmt: skip
_define("async-done", arity=1, results="c1", infer=_infer_async_done, attributes=AsyncAttributes,
       traits=_EFFECT, regions=RegionKind.ASYNC, doc="the value of an async-start")  # fmt: skip
_define("copy-start", arity=1, infer=_infer_copy_start,
       attributes=CopyStartAttributes, doc="begins a copy")  # fmt: skip
_define("copy-done", arity=1, infer=_infer_copy_done,
       doc="the value of a copy-start")  # fmt: skip
_define("send", arity=2, infer=_infer_send, attributes=ChannelAttributes,
       traits=_EFFECT, doc="begins to give a value to another device")  # fmt: skip
_define("send-done", arity=1, infer=_infer_send_done, attributes=ChannelAttributes,
       traits=_EFFECT, doc="waits for a send")  # fmt: skip
_define("recv", arity=1, infer=_infer_recv, attributes=ChannelAttributes,
       traits=_GIVEN, doc="begins to take a value from another device")  # fmt: skip
_define("recv-done", arity=1, infer=_infer_recv_done, attributes=ChannelAttributes,
       traits=_EFFECT, doc="the value of a recv")  # fmt: skip
_define("infeed", arity=1, infer=_infer_infeed, attributes=InfeedAttributes,
       traits=_GIVEN, doc="the next value that the host has given")  # fmt: skip
_define("outfeed", arity=2, infer=_infer_outfeed, attributes=OutfeedAttributes,
       traits=_EFFECT, doc="gives a value to the host")  # fmt: skip
