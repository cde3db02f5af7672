# SPDX-License-Identifier: Apache-2.0
"""Operators of native functions: arithmetic, comparisons, `and or not`, `a if c else b`.

It is above `expressions`. Invariant: an operator on known operands is computed at translation, and
costs no instruction.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, ClassVar

from ingot.llvm.types import I1
from ingot.llvm.values import Value
from ingot.native.expressions import Cases, Expressions, Typed
from ingot.native.pointers import Pointer
from ingot.native.types import BOOL, INT64, IntegerType, NativeType, type_text

_OPCODES: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.FloorDiv: ("udiv", lambda a, b: a // b),
    ast.Mod: ("urem", operator.mod),
    ast.BitAnd: ("and", lambda a, b: a & b),
    ast.BitOr: ("or", lambda a, b: a | b),
    ast.BitXor: ("xor", lambda a, b: a ^ b),
    ast.LShift: ("shl", lambda a, b: a << b),
    ast.RShift: ("ashr", lambda a, b: a >> b),
}
_PREDICATES: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
    ast.Is: ("eq", operator.is_),
    ast.IsNot: ("ne", operator.is_not),
    ast.Lt: ("slt", operator.lt),
    ast.LtE: ("sle", operator.le),
    ast.Gt: ("sgt", operator.gt),
    ast.GtE: ("sge", operator.ge),
}


class Operators(Expressions):
    """Expressions with operators."""

    def _binary(self, node: ast.BinOp) -> object:
        row = _OPCODES.get(type(node.op))
        if row is None:
            self.refuse(node, f"the operator of `{ast.unparse(node)}`", "+ - * // % & | ^ << >>")
        return self.binary(node, row, self.expression(node.left), self.expression(node.right))

    def binary(
        self, node: ast.AST, row: tuple[str, Callable[[Any, Any], Any]], left: object, right: object
    ) -> object:
        """Emit an operator on two emitted expressions."""
        opcode, compute = row
        if not isinstance(left, Typed) and not isinstance(right, Typed):
            return compute(left, right)
        if isinstance(left, Typed) and not isinstance(left.type, IntegerType):
            offset = self.as_value(node, right, INT64)
            if opcode == "add" and isinstance(left.type, type):
                return Typed(Pointer, self.f.gep(left.value, offset))
            self.refuse(node, f"{opcode} of a {type_text(left.type)}", "pointer + bytes")
        of = _type_of(left, right)
        a, b = self.as_value(node, left, of), self.as_value(node, right, of)
        return Typed(of, self.f.binary(opcode, a, b))

    def binary_of(self, op: ast.operator) -> tuple[str, Callable[[Any, Any], Any]] | None:
        """Return the opcode of an operator, and the function that computes it at translation."""
        return _OPCODES.get(type(op))

    def _unary(self, node: ast.UnaryOp) -> object:
        made: Any = self.expression(node.operand)
        known = not isinstance(made, Typed)
        if isinstance(node.op, ast.Not):
            condition = self.condition(node.operand) if known else self.as_value(node, made, BOOL)
            if isinstance(condition, bool):
                return not condition
            return Typed(BOOL, self.f.xor(condition, self.f.const(I1, True)))
        if isinstance(node.op, ast.USub):
            return -made if known else Typed(made.type, self.f.neg(made.value))
        if isinstance(node.op, ast.Invert):
            return ~made if known else Typed(made.type, self.f.not_(made.value))
        self.refuse(node, f"`{ast.unparse(node)}`", "not, -, ~")

    def _compare(self, node: ast.Compare) -> object:
        left = self.expression(node.left)
        result: object = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.expression(right_node)
            one = self._compare_two(node, op, left, right)
            result = one if result is True else self._both(node, result, one)
            left = right
        return result

    def _both(self, node: ast.AST, one: object, other: object) -> Typed:
        values = self.as_value(node, one, BOOL), self.as_value(node, other, BOOL)
        return Typed(BOOL, self.f.and_(*values))

    def _compare_two(self, node: ast.AST, op: ast.cmpop, left: object, right: object) -> object:
        row = _PREDICATES.get(type(op))
        if row is None:
            self.refuse(node, "a membership test", "== != < <= > >= is, is not")
        predicate, compute = row
        if not isinstance(left, Typed) and not isinstance(right, Typed):
            return compute(left, right)
        of = _type_of(left, right)
        is_pointer = not isinstance(of, IntegerType)
        if is_pointer and predicate not in ("eq", "ne"):
            self.refuse(node, f"an order of {type_text(of)}", "orders of numbers")
        if not is_pointer and isinstance(op, (ast.Is, ast.IsNot)):
            self.refuse(node, "`is` of numbers", "==")
        a, b = self.as_value(node, left, of), self.as_value(node, right, of)
        return Typed(BOOL, self.f.icmp(predicate, a, b))

    def _bool_op(self, node: ast.BoolOp) -> object:
        ends_with = isinstance(node.op, ast.Or)
        result = self.condition(node.values[0])
        for following in node.values[1:]:
            if isinstance(result, bool):
                result = result if result is ends_with else self.condition(following)
            else:
                result = self._short_circuit(result, following, ends_with)
        return result if isinstance(result, bool) else Typed(BOOL, result)

    def _short_circuit(self, first: Value, following: ast.expr, is_or: bool) -> Value:
        """Emit the second operand of `and` or `or`, which runs if the first one does not decide."""
        f = self.f

        def second() -> list[Value]:
            return [f.as_condition(self.condition(following))]

        if not any(
            isinstance(each, (ast.Attribute, ast.Call, ast.Subscript))
            for each in ast.walk(following)
        ):
            (other,) = second()
            return f.or_(first, other) if is_or else f.and_(first, other)
        decided = [f.const(I1, is_or)]
        if is_or:
            return f.if_(first, lambda: decided, second)[0]
        return f.if_(first, second, otherwise=decided)[0]

    def _if_expression(self, node: ast.IfExp) -> object:
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            return self.expression(node.body if condition else node.orelse)
        made: list[Typed] = []

        def one() -> list[Value]:
            found = self.run_time(node.body, self.expression(node.body))
            if found is None:
                self.refuse(node, f"`{ast.unparse(node)}`", "a first choice with a type: i64(...)")
            made.append(found)
            return [found.value]

        def other() -> list[Value]:
            return [self.value(node.orelse, made[0].type)]

        (value,) = self.f.if_(condition, one, other)
        return Typed(made[0].type, value)

    cases: ClassVar[Cases] = {
        **Expressions.cases,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.Compare: _compare,
        ast.BoolOp: _bool_op,
        ast.IfExp: _if_expression,
    }


def _type_of(left: object, right: object) -> NativeType:
    """Return the common type of two operands."""
    typed = left if isinstance(left, Typed) else right
    assert isinstance(typed, Typed)
    return typed.type
