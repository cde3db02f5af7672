# SPDX-License-Identifier: Apache-2.0
"""Structured control flow of the text IR builder: loops with carried values, `if_` with results.

A mixin over the builder. Values that change across a loop or a branch are passed and returned, so
phis are exact and nothing goes through the stack. The raw forms (`br`, `cond_br`, `phi`) are for
the few unstructured graphs.

Invariant: after each structured form the stream is in a new open block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.llvm.index import Condition, Index, IndexArithmetic
from ingot.llvm.types import I1, I64, VOID, Type
from ingot.llvm.values import Value, const
from ingot.support.diagnostics import InternalError

Body = Callable[[Value, list[Value]], Sequence[Value] | None]
Branch = Callable[[], Sequence[Value] | None]


def _phi_text(result: Value, incoming: Sequence[tuple[Value, str]]) -> str:
    edges = ", ".join([f"[ {value.text}, %{label} ]" for value, label in incoming])
    return f"  {result.text} = phi {result.type.text} {edges}"


class Control(IndexArithmetic):
    """Blocks, branches, loops; a mixin of `FunctionBuilder`."""

    __slots__ = ()

    def ret(self, value: Value | None = None) -> None:
        """Return from the function."""
        if (VOID if value is None else value.type) is not self.return_type:
            raise self.ill_typed(f"ret of {self.return_type.text}", *([value] if value else []))
        self.terminate("ret void" if value is None else f"ret {value.type.text} {value.text}")

    def unreachable(self) -> None:
        """Mark the end of the block as unreachable."""
        self.terminate("unreachable")

    def br(self, label: str) -> None:
        """Jump to the block `label`."""
        self.terminate(f"br label %{label}")

    def cond_br(
        self, condition: Value, then: str, else_: str, likely: bool | None = None, extra: str = ""
    ) -> None:
        """Branch; `likely` says which side is hot (None: unknown), `extra` is more metadata."""
        if condition.type is not I1:
            raise self.ill_typed("br", condition)
        text = f"br i1 {condition.text}, label %{then}, label %{else_}{extra}"
        if likely is not None:
            weights = "i32 2000, i32 1" if likely else "i32 1, i32 2000"
            node = self.module.metadata('!{!"branch_weights", ' + weights + "}")
            text += f", !prof {node}"
        self.terminate(text)

    def phi(self, type: Type, incoming: Sequence[tuple[Value, str]]) -> Value:
        """Return the phi of one value per edge; only at the start of a block."""
        result = self.reserve(type)
        if any(value.type is not type for value, _ in incoming):
            raise self.ill_typed(f"phi {type.text}", *(value for value, _ in incoming))
        self.lines.append(_phi_text(result, incoming))
        return result

    def loop(
        self,
        lo: Index,
        hi: Index,
        step: Index,
        carried: Sequence[Value],
        body: Body,
        *,
        unroll: int | None = None,
        at_least_once: bool = False,
        index_type: Type = I64,
    ) -> list[Value]:
        """Run `body(i, values) -> values` for i in range(lo, hi, step), step > 0; return values.

        `unroll`: 1 forbids unrolling, n asks for n copies (when a pass that unrolls runs).
        `at_least_once`: the caller knows lo < hi, so no guard is emitted.
        Static bounds with one iteration emit the body alone; with none, nothing.
        """
        if isinstance(lo, int) and isinstance(hi, int):
            if lo >= hi:
                return list(carried)
            if isinstance(step, int) and lo + step >= hi:
                return self._results(body(const(index_type, lo), list(carried)), carried)
            at_least_once = True
        start, end = self.as_value(lo, index_type), self.as_value(hi, index_type)
        stride = self.as_value(step, start.type)
        if stride.type is not start.type or start.type.kind != "integer":
            raise self.ill_typed("loop", start, end, stride)
        header, done = self.block("loop"), self.block("done")
        before = self.block_name
        if at_least_once:
            self.br(header)
        else:
            self.cond_br(self.icmp("slt", start, end), header, done)
        self.open_block(header)
        slot = len(self.lines)
        self.lines.append("")
        index = self.reserve(start.type)
        values = [self.reserve(item.type) for item in carried]
        results = self._results(body(index, list(values)), carried)
        # No nuw: a negative lower bound wraps as an unsigned number.
        increment = f"add nsw {start.type.text} {index.text}, {stride.text}"
        following = self.define(start.type, increment)
        again = self.icmp("slt", following, end)
        latch = self.block_name
        self.cond_br(again, header, done, extra=self._unroll_metadata(unroll))
        phis = [_phi_text(index, [(start, before), (following, latch)])]
        for value, initial, result in zip(values, carried, results, strict=True):
            phis.append(_phi_text(value, [(initial, before), (result, latch)]))
        self.lines[slot] = "\n".join(phis)
        self.open_block(done)
        if at_least_once:
            return results
        return [
            self.phi(result.type, [(initial, before), (result, latch)])
            for initial, result in zip(carried, results, strict=True)
        ]

    def for_range(
        self,
        end: Index,
        body: Callable[[Value], object],
        *,
        start: Index = 0,
        step: Index = 1,
        unroll: int | None = None,
        at_least_once: bool = False,
        index_type: Type = I64,
    ) -> None:
        """Run `body(i)` for i in range(start, end, step), step > 0; as `loop`, nothing carried."""

        def run(index: Value, _: list[Value]) -> None:
            body(index)

        self.loop(
            start,
            end,
            step,
            (),
            run,
            unroll=unroll,
            at_least_once=at_least_once,
            index_type=index_type,
        )

    def _unroll_metadata(self, unroll: int | None) -> str:
        if unroll is None:
            return ""
        wish = (
            '!{!"llvm.loop.unroll.disable"}'
            if unroll == 1
            else f'!{{!"llvm.loop.unroll.count", i32 {unroll}}}'
        )
        node = self.module.metadata(wish)
        loop_node = self.module.distinct_metadata("distinct !{{self}, " + node + "}")
        return f", !llvm.loop {loop_node}"

    def _results(self, given: Sequence[Value] | None, like: Sequence[Value]) -> list[Value]:
        results = list(given or ())
        if [item.type for item in results] != [item.type for item in like]:
            raise InternalError(
                f"a body in '{self.name}' returned {results}, but carried values are {list(like)}"
            )
        return results

    def while_(
        self,
        carried: Sequence[Value],
        condition: Callable[[list[Value]], Value],
        body: Callable[[list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """While `condition(values)` holds, values = `body(values)`; return the last values."""
        header, inside, done = self.block("while"), self.block("do"), self.block("done")
        before = self.block_name
        self.br(header)
        self.open_block(header)
        slot = len(self.lines)
        self.lines.append("")
        values = [self.reserve(item.type) for item in carried]
        self.cond_br(condition(list(values)), inside, done)
        self.open_block(inside)
        results = self._results(body(list(values)), carried)
        latch = self.block_name
        self.br(header)
        self.lines[slot] = (
            "\n".join(
                _phi_text(value, [(initial, before), (result, latch)])
                for value, initial, result in zip(values, carried, results, strict=True)
            )
            or "  ; no carried values"
        )
        self.open_block(done)
        return values

    def if_(
        self,
        condition: Condition,
        then: Branch,
        else_: Branch | None = None,
        *,
        otherwise: Sequence[Value] = (),
        likely: bool | None = None,
    ) -> list[Value]:
        """Run one branch and return its values; without `else_`, `otherwise` if not taken.

        A branch that ends in `ret` or `unreachable` joins nothing. A Python bool picks the branch
        now. If both branches end, the stream is left terminated.
        """
        if isinstance(condition, bool):
            chosen = then if condition else else_
            return list(otherwise) if chosen is None else list(chosen() or ())
        yes, join = self.block("then"), self.block("join")
        no = join if else_ is None else self.block("else")
        before = self.block_name
        self.cond_br(condition, yes, no, likely)
        edges: list[tuple[list[Value], str]] = []
        self._branch(yes, then, join, edges)
        if else_ is None:
            edges.append((list(otherwise), before))
        else:
            self._branch(no, else_, join, edges)
        if not edges:
            return []
        self.open_block(join)
        return self._merge(edges)

    def _branch(
        self, label: str, emit: Branch, join: str, edges: list[tuple[list[Value], str]]
    ) -> None:
        self.open_block(label)
        results = list(emit() or ())
        if not self.terminated:
            edges.append((results, self.block_name))
            self.br(join)

    def _merge(self, edges: list[tuple[list[Value], str]]) -> list[Value]:
        first = edges[0][0]
        for values, _ in edges[1:]:
            if [item.type for item in values] != [item.type for item in first]:
                raise InternalError(f"branches in '{self.name}' return {first} and {values}")
        if len(edges) == 1:
            return first
        return [
            self.phi(item.type, [(values[at], label) for values, label in edges])
            for at, item in enumerate(first)
        ]
