# SPDX-License-Identifier: Apache-2.0
"""Statements of native functions as blocks.

It is above `calls`. A name that is assigned once is the value itself; one that is assigned again is
a slot of the stack, which LLVM's SROA turns back into values; a number that translation knows stays
one. A name that a branch or a loop assigns is defined after it only if every path assigns it.
Invariant: after each statement the builder is in an open block, or the function has returned and
nothing follows.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from ingot.llvm.types import I8, I64
from ingot.llvm.values import Value
from ingot.native.calls import Calls
from ingot.native.expressions import Typed, Variable
from ingot.native.operations import likely, unlikely
from ingot.native.types import BOOL, INT64, NativeType, llvm_type, resolve


class _Loop(NamedTuple):
    following: str
    done: str


class Statements(Calls):
    """The statements of one function."""

    def translate(self, definition: ast.FunctionDef) -> None:
        """Write the whole function."""
        f = self.f
        self._loops: list[_Loop] = []
        self._variables: dict[str, Variable] = {}
        self._is_decided = False  # whether a known `if` left the function: what follows is dropped
        self._assigned = _stores(definition.body)
        for (name, of), value in zip(self.function.params, f.params, strict=True):
            if self._assigned[name]:
                self._assigned[name] += 1
            self._assign_name(definition, name, Typed(of, value), None)
        self._block(definition.body)
        if not f.terminated:
            if self.function.result is not None:
                self.refuse(definition, "an end without a result", "`return value` on every way")
            f.ret()

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            if self.f.terminated:
                if self._is_decided:
                    return
                self.refuse(node, "a statement that control never reaches", "none there")
            case = self._STATEMENTS.get(type(node))
            if case is None:
                names = ", ".join(sorted(each.__name__ for each in self._STATEMENTS))
                self.refuse(node, f"a statement {type(node).__name__}", f"one of {names}")
            self._is_decided = False
            case(self, node)

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.expression(node.value)

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self.refuse(node, "an assignment to several targets", "one target")
        self._store(node.targets[0], node.value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.refuse(node, f"`{ast.unparse(node)}`", "`name: type = value`")
        of = resolve(ast.unparse(node.annotation), self.names)
        value = Typed(of, self.value(node.value, of))
        self._assign_name(node, node.target.id, value, of)

    def _store(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            known = self.scope.get(target.id)
            of = known.type if isinstance(known, Variable) else None
            made: Any = self.expression(value)
            typed = self.run_time(value, made) if of is None else None
            if of is not None:
                typed = Typed(of, self.as_value(value, made, of))
            if typed is None and isinstance(made, int) and self._assigned[target.id] == 1:
                self.scope[target.id] = made
                return
            if typed is None:
                self.refuse(target, f"'{target.id}' gets no type", f"`{target.id}: i64 = ...`")
            self._assign_name(target, target.id, typed, None)
            return
        of, address = self._address(target)
        self.f.store(self.value(value, of), address)

    def _address(self, target: ast.expr) -> tuple[NativeType, Value]:
        """Return type and address of a field or an item."""
        if isinstance(target, ast.Attribute):
            struct = self.typed(target.value)
            found = self.field(target, struct)
            if self.is_row(target, struct):
                self.refuse(target, f"an assignment to the array '{target.attr}'", "to its items")
            return found
        if isinstance(target, ast.Subscript):
            of, address = self.element(target, self.expression(target.value))
            if isinstance(address, Value):
                return of, address
        self.refuse(target, f"an assignment to `{ast.unparse(target)}`", "names, fields, items")

    def _assign_name(self, node: ast.AST, name: str, made: Typed, of: NativeType) -> None:
        if self._assigned[name] <= 1:
            self.scope[name] = made
            return
        found = self._variables.get(name)
        if found is None:
            of = made.type if of is None else of
            memory = self.f.alloca(I8 if of == BOOL else llvm_type(of))
            found = self._variables[name] = Variable(of, memory)
        value = self.as_value(node, made, found.type)
        self.f.store(self.f.zext(value, I8) if found.type == BOOL else value, found.address)
        self.scope[name] = found

    def _augmented(self, node: ast.AugAssign) -> None:
        row = self.binary_of(node.op)
        if row is None:
            self.refuse(node, f"`{ast.unparse(node)}`", "+= -= *= //= %= &= |= ^= <<= >>=")
        if isinstance(node.target, ast.Name):
            before = self.expression(ast.Name(node.target.id, ast.Load()))
            of = before.type if isinstance(before, Typed) else None
            made = self.binary(node, row, before, self.expression(node.value))
            self._assign_name(node, node.target.id, Typed(of, self.as_value(node, made, of)), None)
            return
        of, address = self._address(node.target)
        before = Typed(of, self.f.load(llvm_type(of), address))
        made = self.binary(node, row, before, self.expression(node.value))
        self.f.store(self.as_value(node, made, of), address)

    def _if(self, node: ast.If) -> None:
        condition, is_likely = self._test(node.test)
        if isinstance(condition, bool):
            self._block(node.body if condition else node.orelse)
            self._is_decided = self.f.terminated
            return
        before = self.scope
        ends: list[dict[str, Typed | Variable | int]] = [] if node.orelse else [before]

        def branch(body: list[ast.stmt]) -> Callable[[], None]:
            def emit() -> None:
                self.scope = dict(before)
                self._block(body)
                if not self.f.terminated:
                    ends.append(self.scope)

            return emit

        other = branch(node.orelse) if node.orelse else None
        self.f.if_(condition, branch(node.body), other, likely=is_likely)
        first = ends[0] if ends else before
        self.scope = {
            name: value
            for name, value in first.items()
            if all(scope.get(name) is value for scope in ends)
        }

    def _test(self, node: ast.expr) -> tuple[Value | bool, bool | None]:
        """Emit the condition of an `if`; return it and whether it is likely."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            hint = self.names.get(node.func.id)
            if hint is likely or hint is unlikely:
                return self.condition(node.args[0]), hint is likely
        return self.condition(node), None

    def _while(self, node: ast.While) -> None:
        f = self.f
        header, inside, done = f.block("while"), f.block("do"), f.block("done")
        f.br(header)
        f.open_block(header)
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            if not condition or any(isinstance(each, ast.Break) for each in ast.walk(node)):
                self.refuse(
                    node, "a `while` whose condition is known", "`while True` without break"
                )
        else:
            f.cond_br(condition, inside, done)
            f.open_block(inside)
        self._loop(node, _Loop(header, done))
        if not f.terminated:
            f.br(header)
        if not isinstance(condition, bool):
            f.open_block(done)

    def _for(self, node: ast.For) -> None:
        """Emit `for index in range(...)`, with the test at the end and one before the loop."""
        f = self.f
        low, high, step = self._range(node)
        header, following, done = f.block("loop"), f.block("next"), f.block("done")
        counter = f.alloca(I64)
        f.store(low, counter)
        f.cond_br(f.icmp("slt", low, high), header, done)
        f.open_block(header)
        index = f.load(I64, counter)
        before = dict(self.scope)
        assert isinstance(node.target, ast.Name)
        self._assign_name(node, node.target.id, Typed(INT64, index), None)
        self._loop(node, _Loop(following, done))
        self.scope = before
        if not f.terminated:
            f.br(following)
        f.open_block(following)
        after = f.add(index, step)
        f.store(after, counter)
        f.cond_br(f.icmp("slt", after, high), header, done)
        f.open_block(done)

    def _range(self, node: ast.For) -> tuple[Value, Value, Value]:
        """Return the bounds of a loop and its step."""
        call = node.iter
        if not (
            isinstance(node.target, ast.Name)
            and isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and 1 <= len(call.args) <= 3
        ):
            self.refuse(
                node, f"a loop over `{ast.unparse(call)}`", "range(end) or range(start, end, step)"
            )
        given = [self.value(each, INT64) for each in call.args]
        if len(given) == 1:
            given.insert(0, self.f.const(I64, 0))
        if len(given) == 2:
            given.append(self.f.const(I64, 1))
        low, high, step = given
        return low, high, step

    def _loop(self, node: ast.While | ast.For, loop: _Loop) -> None:
        if node.orelse:
            self.refuse(node.orelse[0], "an `else` of a loop", "none")
        before = dict(self.scope)
        self._loops.append(loop)
        self._block(node.body)
        self._loops.pop()
        self.scope = before

    def _break(self, node: ast.Break) -> None:
        self.f.br(self._loops[-1].done)

    def _continue(self, node: ast.Continue) -> None:
        self.f.br(self._loops[-1].following)

    def _return(self, node: ast.Return) -> None:
        of = self.function.result
        if of is None:
            if node.value is not None:
                self.refuse(node, "a result", "`return`")
            self.f.ret()
            return
        if node.value is None:
            self.refuse(node, "`return` without a result", "`return value`")
        self.f.ret(self.value(node.value, of))

    def _pass(self, node: ast.stmt) -> None:
        """Emit nothing: for `pass`, and for `assert`, which is for plain Python and pyright."""

    _STATEMENTS: ClassVar[dict[type[ast.stmt], Callable[[Any, Any], None]]] = {
        ast.Expr: _expression,
        ast.Assign: _assign,
        ast.AnnAssign: _annotated,
        ast.AugAssign: _augmented,
        ast.If: _if,
        ast.While: _while,
        ast.For: _for,
        ast.Break: _break,
        ast.Continue: _continue,
        ast.Return: _return,
        ast.Pass: _pass,
        ast.Assert: _pass,
    }


def _stores(body: Sequence[ast.stmt]) -> Counter[str]:
    """Return how many statements assign each name."""
    found: Counter[str] = Counter()
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For)):
            targets = [node.target]
        found.update(each.id for each in targets if isinstance(each, ast.Name))
        if isinstance(node, (ast.If, ast.While, ast.For)):
            waiting += node.body
            waiting += node.orelse
    return found
