# SPDX-License-Identifier: Apache-2.0
"""The Python function that runs a compiled graph: `Wrapper(...).function`, and its `source`.

It takes the graph's arguments as one list, which it empties (PyTorch's boxed convention), takes
outputs from PyTorch's allocator, passes addresses to compiled programs, calls PyTorch's kernels for
host nodes in their order, and drops each tensor after its last use.

Invariant: everything that a call does is a line of `source`; a call looks nothing up by name.

Example of a source:
    def call(args):
        arg0, arg1 = args
        args.clear()
        out0 = empty_strided((4, 8), (8, 1), f32)
        check(launch0, run0(arg0.data_ptr(), arg1.data_ptr(), out0.data_ptr()))
        return (out0,)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch._C._dynamo import guards as _native
from torch.fx.experimental.symbolic_shapes import CallMethodKey, ConvertIntKey, DivideByKey
from torch.utils._pytree import (
    MappingKey,
    SequenceKey,
    tree_flatten,
    tree_leaves,
    tree_unflatten,
)
from torch.utils._sympy.printers import PythonPrinter

from ingot.frontends.torch.fx.layout import MemoryLayout, layout_of
from ingot.frontends.torch.fx.locations import metadata_of
from ingot.frontends.torch.fx.nodes import (
    Node,
    arguments,
    attribute_of,
    bindings_of,
    known_values,
)
from ingot.frontends.torch.fx.sizes import Size, Sizes, definitions_of, is_float_symbol, size_of
from ingot.frontends.torch.launches.errors import TorchExecutionError
from ingot.frontends.torch.launches.launch import Launch
from ingot.frontends.torch.launches.masks import open_masks
from ingot.frontends.torch.passes.writing_ops import calling, is_writing_op
from ingot.hlo.dim import Dim, symbols_of
from ingot.support.diagnostics import InternalError

Step = Launch | Node

_PRINTER: Any = PythonPrinter()
_UNREAD = "1"
"""The address of a parameter of which only the sizes are read; 0 would mean no memory."""


class Wrapper:
    """The function of one graph.

    Attributes:
        function: takes a list of arguments, returns a list of results.
        source: its text.
    """

    __slots__ = (
        "_constants",
        "_deferred",
        "_defined",
        "_definitions",
        "_lines",
        "_names",
        "_namespace",
        "_uses",
        "_views",
        "function",
        "source",
    )

    def __init__(
        self,
        graph: Any,
        steps: Sequence[Step],
        views: Mapping[Node, Node],
        restored: Collection[Node] = (),
    ) -> None:
        """Write and compile the function that runs `steps` for an ATen graph.

        Args:
            graph: the graph.
            steps: its programs and host nodes, in order.
            views: tensors that are made as views, each with the tensor that it is a view of.
            restored: arguments with other strides than traced, which are copied to the traced ones.
        """
        self._views: dict[Node, list[Node]] = {}
        for view, root in views.items():
            self._views.setdefault(root, []).append(view)
        self._deferred: list[tuple[Node, Node]] = []
        self._names: dict[Node, str] = {}
        self._lines: list[str] = []
        self._constants: dict[int, str] = {}
        self._namespace: dict[str, Any] = {
            "empty_strided": cast("Any", _native)._empty_strided_cpu,
            "fail": _fail,
            "floordiv": _floordiv,
            "math": math,
            "mod": _mod,
            "scalar_tensor": torch.scalar_tensor,
            "torch": torch,
            "unflatten": tree_unflatten,
        }
        self._defined: set[str] = set()
        self._definitions = definitions_of(_symbolic_sizes(graph))
        results = next(node for node in graph.nodes if node.op == "output").args[0]
        self._uses = _last_uses(steps, results)
        self._bind(graph, restored)
        for number, step in enumerate(steps):
            if isinstance(step, Launch):
                self._launch(number, step)
            else:
                self._host(step)
            self._drop(number)
        given = ", ".join([self._text(item) for item in results])
        self._lines.append(f"return [{given}]")
        self.source = "def call(args):\n" + "".join(f"    {line}\n" for line in self._lines)
        exec(compile(self.source, "<ingot>", "exec"), self._namespace)
        self.function: Callable[[list[Any]], list[Any]] = self._namespace["call"]
        setattr(self.function, "_boxed_call", True)  # noqa: B010 - PyTorch's mark on functions

    # ---- arguments

    def _bind(self, graph: Any, restored: Collection[Node]) -> None:
        """Name the arguments, and the sizes that they define."""
        arguments: list[str] = []
        symbols: dict[str, str] = {}
        for node in graph.nodes:
            if node.op == "get_attr":
                self._names[node] = self._constant(attribute_of(node))
            elif node.op == "placeholder":
                name = self._names[node] = f"arg{len(arguments)}"
                arguments.append(name)
                _note_symbols(symbols, node.meta.get("val"), name)
        if arguments:
            self._lines.append(f"{', '.join(arguments)}, = args")
        self._lines.append("args.clear()")
        self._lines.extend(f"{symbol} = {source}" for symbol, source in symbols.items())
        self._defined.update(symbols)
        for node in restored:
            name, layout = self._names[node], layout_of(node)
            strided = f"{self._tuple(layout.sizes)}, {self._tuple(layout.strides)}, {name}.dtype"
            self._lines.append(f"{name} = empty_strided({strided}).copy_({name})")
        for node in list(self._names):
            self._look(node)

    # ---- steps

    def _launch(self, number: int, launch: Launch) -> None:
        """Write the call of a program."""
        piece = launch.piece
        addresses: list[str] = []
        for node, layout in zip(launch.nodes, launch.inputs, strict=True):
            addresses.append(f"{self._input(node, layout)}.data_ptr()")
        for symbol in launch.numbers:
            held = f"number{len(self._lines)}"
            is_float = is_float_symbol(symbol)
            kind = self._constant(torch.float64 if is_float else torch.int64, "dtype")
            text = self._size(Dim.symbol(symbol))
            self._lines.append(f"{held} = scalar_tensor({text}, dtype={kind})")
            addresses.append(f"{held}.data_ptr()")
        addresses.extend(_UNREAD for _ in launch.sizes)
        copies: list[str] = []
        for node, layout in zip(piece.outputs, launch.outputs, strict=True):
            if node in piece.mutations:
                made = self._names[node] = self._names[node.args[0]]
            else:
                made = self._output(node, layout, copies)
            addresses.append(f"{made}.data_ptr()")
        addresses.extend([self._size(size) for size in launch.open_sizes])
        for mask in open_masks(piece.nodes):
            have, want = self._tuple(mask.mask), self._tuple(mask.sizes)
            part = self._tuple(mask.sizes[mask.begin : mask.begin + len(mask.mask)])
            call = f"{self._constant(mask.refuse, 'refuse')}({have}, {want})"
            self._lines.append(f"if {have} != {part}: {call}")
        run, status = self._constant(launch.run, "run"), f"status{number}"
        self._lines.append(f"{status} = {run}({', '.join(addresses)})")
        self._lines.append(f"if {status}: fail({self._constant(launch, 'launch')}, {status})")
        self._lines.extend(copies)
        for node in piece.outputs:
            self._look(node)

    def _look(self, root: Node) -> None:
        """Write the views of a tensor in memory; views with sizes not known yet are deferred."""
        self._deferred.extend((root, view) for view in self._views.get(root, ()))
        self._write_views()

    def _write_views(self) -> None:
        """Write the deferred views whose sizes are known."""
        waiting, self._deferred = self._deferred, []
        for root, view in waiting:
            value, sizes = view.meta["val"], layout_of(view)
            shift = size_of(value.storage_offset()) - size_of(root.meta["val"].storage_offset())
            if not self._is_known((*sizes.sizes, *sizes.strides, shift)):
                self._deferred.append((root, view))
                continue
            source = self._names[root]
            name = self._names[view] = f"view{len(self._names)}"
            offset = f"{source}.storage_offset()" + (f" + {self._size(shift)}" if shift else "")
            parts = f"{self._tuple(sizes.sizes)}, {self._tuple(sizes.strides)}"
            self._lines.append(f"{name} = {source}.as_strided({parts}, {offset})")

    def _is_known(self, sizes: Sequence[Size]) -> bool:
        """Whether the lines so far define all named sizes in `sizes`, or more lines can."""
        return self._order(symbols_of(sizes)) is not None

    def _order(self, symbols: Iterable[str]) -> list[str] | None:
        """Return the named sizes that are not defined, in an order in which they can be.

        None if one of them has no definition, or depends on itself.
        """
        order: list[str] = []
        waiting: list[str] = []
        pending = sorted(symbols, reverse=True)
        while pending:
            symbol = pending[-1]
            if symbol in self._defined or symbol in order:
                pending.pop()
            elif symbol not in self._definitions:
                return None
            else:
                parts = [
                    part
                    for part in sorted(self._definitions[symbol][1], reverse=True)
                    if part not in self._defined and part not in order
                ]
                if any(part in waiting or part == symbol for part in parts):
                    return None
                if parts:
                    waiting.append(symbol)
                    pending.extend(parts)
                    continue
                order.append(symbol)
                pending.pop()
                if waiting and waiting[-1] == symbol:
                    waiting.pop()
        return order

    def _input(self, node: Node, layout: MemoryLayout) -> str:
        """Return the expression of the tensor that is the array in memory."""
        name, value = self._names[node], node.meta["val"]
        if value.is_conj() or value.is_neg():
            kept = f"resolved{len(self._lines)}"
            self._lines.append(f"{kept} = {name}.resolve_conj().resolve_neg()")
            name = kept
        if layout.order is None:
            kept = f"dense{len(self._lines)}"
            self._lines.append(f"{kept} = {name}.contiguous()")
            name = kept
        return name

    def _output(self, node: Node, layout: MemoryLayout, copies: list[str]) -> str:
        """Write the allocation of an output; return the tensor that the program fills.

        `copies` gets lines to run after the call: a tensor with gaps is filled then.
        """
        name = self._names[node] = f"t{len(self._names)}"
        kind = self._constant(node.meta["val"].dtype, "dtype")
        sizes, strides = self._tuple(layout.sizes), self._tuple(layout.strides)
        if layout.order is None:
            made, dense = f"dense{len(self._lines)}", self._tuple(_row_major(layout.sizes))
            self._lines.append(f"{made} = empty_strided({sizes}, {dense}, {kind})")
            self._lines.append(f"{name} = empty_strided({sizes}, {strides}, {kind})")
            # Of elements with one address, the first is written.
            pairs = zip(layout.sizes, layout.strides, strict=True)
            once = [":1" if size != 1 and step == 0 else ":" for size, step in pairs]
            part = f"[{', '.join(once)}]" if ":1" in once else ""
            copies.append(f"{name}{part}.copy_({made}{part})")
            return made
        if layout.repeats:
            ones = [1 if axis in layout.repeats else size for axis, size in enumerate(layout.sizes)]
            made = f"empty_strided({self._tuple(ones)}, {strides}, {kind})"
            self._lines.append(f"{name} = {made}.expand({sizes})")
        else:
            self._lines.append(f"{name} = empty_strided({sizes}, {strides}, {kind})")
        return name

    def _host(self, node: Node) -> None:
        """Write the call of one of PyTorch's ops, and the sizes that its result defines."""
        name = f"t{len(self._names)}"
        if node.target is operator.getitem:
            self._lines.append(f"{name} = {self._text(node.args[0])}[{node.args[1]}]")
        elif node.target is torch.ops.aten.empty_strided.default:
            layout, kind = layout_of(node), self._constant(node.meta["val"].dtype, "dtype")
            parts = f"{self._tuple(layout.sizes)}, {self._tuple(layout.strides)}, {kind}"
            self._lines.append(f"{name} = empty_strided({parts})")
        else:
            given = [self._text(item) for item in node.args]
            given.extend(f"{key}={self._text(item)}" for key, item in node.kwargs.items())
            target = calling(node) if is_writing_op(node) else node.target
            self._lines.append(f"{name} = {self._constant(target, 'op')}({', '.join(given)})")
        self._names[node] = name
        for symbol, path in bindings_of(node).items():
            self._lines.append(f"{symbol} = {_path_text(name, path)}")
            self._defined.add(symbol)
        for symbol, expression in known_values(node).items():
            known, fails = self._size(size_of(expression)), partial(_differ, node, symbol)
            call = f"{self._constant(fails, 'differ')}({symbol}, {known})"
            self._lines.append(f"if {symbol} != {known}: {call}")
        self._write_views()
        self._look(node)

    def _drop(self, number: int) -> None:
        """Write the deletion of tensors that are not needed after a step."""
        held = {root for root, _ in self._deferred}
        uses = [node for node in self._uses.get(number, ()) if node not in held]
        gone = [self._names[node] for node in uses if node in self._names]
        if gone:
            self._lines.append(f"del {', '.join(gone)}")

    # ---- values

    def _text(self, items: Any) -> str:
        """Return an argument of a node as Python text."""
        leaves, structure = tree_flatten(items)
        if structure.is_leaf():
            return self._leaf(items)
        texts = ", ".join([self._leaf(part) for part in leaves])
        if len(leaves) == len(items) and all(
            structure.child(n).is_leaf() for n in range(len(items))
        ):
            if isinstance(items, list):
                return f"[{texts}]"
            if type(items) is tuple:
                return f"({texts}{',' if len(leaves) == 1 else ''})"
        return f"unflatten([{texts}], {self._constant(structure, 'structure')})"

    def _leaf(self, item: Any) -> str:
        value = item.meta.get("val") if isinstance(item, torch.fx.Node) else item
        if isinstance(value, torch.SymInt):
            return self._size(size_of(value))
        if isinstance(value, torch.SymFloat | torch.SymBool):
            return f"({_PRINTER.doprint(self._expression(cast('Any', value).node))})"
        if isinstance(item, torch.fx.Node):
            return self._names[item] if item in self._names else repr(value)
        if item is None or isinstance(item, bool | int | str):
            return repr(item)
        return self._constant(item)

    def _expression(self, node: Any) -> Any:
        """Return the SymPy expression of a number or truth value of sizes.

        It is the traced one if its symbols are known: PyTorch simplifies the check that a number is
        3 to true, by the check itself.
        """
        traced = node._expr
        if all(str(symbol) in self._defined for symbol in traced.free_symbols):
            return traced
        return node.shape_env.replace(node.expr)

    def _size(self, size: Size) -> str:
        """Return a size as Python text; write the lines that define expressions in it."""
        if isinstance(size, int):
            return str(size)
        for symbol in sorted(symbols_of((size,))):
            self._define(symbol)
        return str(size)

    def _define(self, symbol: str) -> None:
        """Write the lines that define a named size which is an expression, if they can be."""
        for each in self._order([symbol]) or []:
            self._lines.append(f"{each} = {self._definitions[each][0]}")
            self._defined.add(each)

    def _tuple(self, items: Sequence[Size]) -> str:
        texts = [self._size(item) for item in items]
        return f"({', '.join(texts)}{',' if len(items) == 1 else ''})"

    def _constant(self, value: Any, kind: str = "constant") -> str:
        """Return the name of a value that the function holds."""
        if id(value) not in self._constants:
            name = f"{kind}{len(self._constants)}"
            self._constants[id(value)] = name
            self._namespace[name] = value
        return self._constants[id(value)]


def _floordiv(left: int, right: int) -> int:
    return left // right


def _mod(left: int, right: int) -> int:
    return left % right


def _fail(launch: Launch, status: int) -> None:
    raise launch.fail(status)


def _differ(node: Node, name: str, value: object, known: object) -> None:
    """Raise the error for a size that differs from PyTorch's checks."""
    raise TorchExecutionError(
        f"the check of a size failed: {name} is {value}, and it was compiled as {known}",
        code="INGOT0504",
        op_type=str(node.target),
        op_name=node.name,
        location=metadata_of(node).location,
        hint="torch._check says what the size is; give data for which that is true",
    )


def _path_text(name: str, path: Sequence[Any]) -> str:
    """Return the text for a part of a value: the path of a named size, by PyTorch."""
    text = name
    for key in path:
        match key:
            case SequenceKey():
                text = f"{text}[{key.idx}]"
            case MappingKey():
                text = f"{text}[{cast('Any', key).key!r}]"
            case CallMethodKey():
                text = f"{text}.{key.name}()"
            case DivideByKey():
                text = f"({text} // {key.divisor})"
            case ConvertIntKey():
                text = f"int({text})"
            case _:
                raise InternalError(f"a size is at {path} of a result")
    return text


def _symbolic_sizes(graph: Any) -> list[Any]:
    """Return the symbolic sizes of a graph: of tensors, of arguments, and as values."""
    found: list[Any] = []
    for node in graph.nodes:
        leaves = [*tree_leaves(node.meta.get("val")), *arguments(node)]
        for leaf in leaves:
            items = (*leaf.shape, *leaf.stride()) if _has_sizes(leaf) else (leaf,)
            found.extend(item for item in items if isinstance(item, torch.SymInt))
    return found


def _has_sizes(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _note_symbols(symbols: dict[str, str], value: Any, name: str) -> None:
    """Record the source of each named size: an argument, or a dimension of one.

    A name that a guard replaces by another has a source, too: PyTorch's numbers use it.
    """
    if isinstance(value, torch.SymInt):
        # A number has no name.
        symbols.update(dict.fromkeys(_names_of(value), name))
    elif isinstance(value, torch.Tensor):
        for axis, part in enumerate(value.shape):
            for symbol in _names_of(part):
                symbols.setdefault(symbol, f"{name}.size({axis})")


def _names_of(size: Any) -> list[str]:
    """Return the names of a size of PyTorch: its own, and the one that Ingot uses."""
    if not isinstance(size, torch.SymInt):
        return []
    traced, known = cast("Any", size).node.expr, size_of(size)
    found = [str(traced)] if traced.is_Symbol else []
    if not isinstance(known, int) and known.is_symbol:
        found.append(str(known))
    return found


def _last_uses(steps: Sequence[Step], results: Sequence[Any]) -> dict[int, list[Node]]:
    """Return the tensors that each step is the last to use."""
    last: dict[Node, int] = {}
    for number, step in enumerate(steps):
        used = step.nodes if isinstance(step, Launch) else step.all_input_nodes
        made = step.piece.outputs if isinstance(step, Launch) else (step,)
        last.update(dict.fromkeys(map(_written, (*used, *made)), number))
    gone: dict[int, list[Node]] = {}
    kept = {_written(node) for node in results if isinstance(node, torch.fx.Node)}
    for node, number in last.items():
        if node not in kept and node.op != "get_attr":
            gone.setdefault(number, []).append(node)
    return gone


def _written(node: Node) -> Node:
    """Return the tensor of a node; for a write into an argument, the argument."""
    while node.op == "call_function" and node.target is torch.ops.aten.copy_.default:
        node = node.args[0]
    return node


def _row_major(sizes: Sizes) -> list[Size]:
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step = step * size
    return strides
