# SPDX-License-Identifier: Apache-2.0
"""Typed arithmetic of the text IR builder: one name per operation, int or float by operand type.

A mixin over `Lanes`. Every op works on scalars and on vectors of any lane count.
Invariants: ill-typed operands are refused where the op is emitted; integer ops carry no
`nsw`/`nuw`, so overflow wraps as HLO requires; float ops carry no fast-math flags, so LLVM keeps
each rounding. The ops that may be rounded together are named `contracted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ingot.llvm.folding import combined, compared
from ingot.llvm.lanes import Lanes
from ingot.llvm.types import I1, I64, Type, vector
from ingot.llvm.values import Scalar, Value, const, undef, zero
from ingot.support.diagnostics import InternalError

_TREE_REDUCTIONS = {"add": "fadd", "mul": "fmul"}
_INTRINSIC_REDUCTIONS = frozenset(
    ["add", "mul", "and", "or", "xor", "smax", "smin", "umax", "umin"]
)
_FLOAT_REDUCTIONS = {"maximum": "fmaximum", "minimum": "fminimum"}
_ORDERS = ("eq", "ne", "lt", "le", "gt", "ge")
_PREDICATES = {
    "icmp": frozenset(("eq", "ne", *(s + o for s in "su" for o in ("lt", "le", "gt", "ge")))),
    "fcmp": frozenset(("ord", "uno", *(s + o for s in "ou" for o in _ORDERS))),
}
_COMPARED = {"icmp": ("integer", "pointer"), "fcmp": ("float",)}
# Opcode: kinds of the operand and of the result; 1: the result has more bits, -1: fewer.
_CASTS = {
    "trunc": ("integer", "integer", -1),
    "zext": ("integer", "integer", 1),
    "sext": ("integer", "integer", 1),
    "fptrunc": ("float", "float", -1),
    "fpext": ("float", "float", 1),
    "fptosi": ("float", "integer", 0),
    "fptoui": ("float", "integer", 0),
    "sitofp": ("integer", "float", 0),
    "uitofp": ("integer", "float", 0),
    "ptrtoint": ("pointer", "integer", 0),
    "inttoptr": ("integer", "pointer", 0),
}


class Arithmetic(Lanes):
    """Binary and unary ops, comparisons, casts, fields, reductions of one vector."""

    __slots__ = ()

    def const(self, type: Type, value: Scalar | Sequence[Scalar]) -> Value:
        """Return a constant; see `values.const`."""
        return const(type, value)

    def zero(self, type: Type) -> Value:
        """Return the all-zero constant."""
        return zero(type)

    def undef(self, type: Type) -> Value:
        """Return a value that is never used."""
        return undef(type)

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        """Emit `opcode type a, b`; both operands must have one type."""
        type = a.type
        kind = "float" if opcode[0] == "f" else "integer"
        if type is not b.type or type.lane_kind != kind:
            raise self.ill_typed(opcode, a, b)
        if a.text[0] != "%" and (known := combined(opcode, a, b)) is not None:
            return known
        return self.define_once(type, f"{opcode} {type.text} {a.text}, {b.text}")

    def add(self, a: Value, b: Value) -> Value:
        """Return a + b."""
        return self.binary("fadd" if a.type.is_float else "add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """Return a - b."""
        return self.binary("fsub" if a.type.is_float else "sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """Return a * b."""
        return self.binary("fmul" if a.type.is_float else "mul", a, b)

    def div(self, a: Value, b: Value) -> Value:
        """Return the float quotient a / b."""
        return self.binary("fdiv", a, b)

    def frem(self, a: Value, b: Value) -> Value:
        """Return LLVM's frem: a libm call per lane; `math.remainder` has our own."""
        return self.binary("frem", a, b)

    def sdiv(self, a: Value, b: Value) -> Value:
        """Return the signed quotient, towards zero; b = 0 and MIN / -1 are undefined."""
        return self.binary("sdiv", a, b)

    def udiv(self, a: Value, b: Value) -> Value:
        """Return the unsigned quotient; b = 0 is undefined."""
        return self.binary("udiv", a, b)

    def srem(self, a: Value, b: Value) -> Value:
        """Return the signed remainder, with a's sign; b = 0 and MIN % -1 are undefined."""
        return self.binary("srem", a, b)

    def urem(self, a: Value, b: Value) -> Value:
        """Return the unsigned remainder; b = 0 is undefined."""
        return self.binary("urem", a, b)

    def neg(self, a: Value) -> Value:
        """Return -a; for floats the sign bit is flipped, NaN included."""
        if a.type.is_float:
            return self.define(a.type, f"fneg {a.type.text} {a.text}")
        return self.binary("sub", zero(a.type), a)

    def abs(self, a: Value) -> Value:
        """Return |a|; the integer minimum stays itself."""
        if a.type.is_float:
            return self.intrinsic("llvm.fabs", a.type, [a])
        return self.intrinsic("llvm.abs", a.type, [a, const(I1, False)])

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c, rounded once; a libm call where the CPU has no FMA."""
        return self.intrinsic("llvm.fma", a.type, [a, b, c])

    def contractible_mul(self, a: Value, b: Value) -> Value:
        """Return a * b, which a `contracted_add` or `contracted_sub` may round with its sum."""
        product = self.mul(a, b)
        if self.module.contracts:
            self._factors[product.text] = (a, b)
        return product

    def rounded(self, a: Value) -> Value:
        """Return a value: if it is a product, from now on it is rounded before it is added."""
        self._factors.pop(a.text, None)
        return a

    def contracted_add(self, a: Value, b: Value) -> Value:
        """Return a + b, one operation with the product that a or else b is.

        It depends on how the operands were computed alone. LLVM's own contraction also depends on
        the other users of the product, so that a value which two kernels compute may differ.
        """
        if (factors := self._factors.get(a.text)) is not None:
            return self._multiply_add(*factors, b)
        if (factors := self._factors.get(b.text)) is not None:
            return self._multiply_add(*factors, a)
        return self.add(a, b)

    def contracted_sub(self, a: Value, b: Value) -> Value:
        """Return a - b, one operation with the product that a or else b is."""
        if (factors := self._factors.get(a.text)) is not None:
            return self._multiply_add(*factors, self.neg(b))
        if (factors := self._factors.get(b.text)) is not None:
            return self._multiply_add(factors[0], self.neg(factors[1]), a)
        return self.sub(a, b)

    def _multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c: rounded once where the target has FMA, else twice."""
        return self.intrinsic("llvm.fmuladd", a.type, [a, b, c])

    def and_(self, a: Value, b: Value) -> Value:
        """Return the bitwise and."""
        made = self.binary("and", a, b)
        if a.type.scalar is I1:
            pairs = zip(self.lanes_off(a), self.lanes_off(b), strict=True)
            self._note_off(made, tuple([one or other for one, other in pairs]))
        return made

    def or_(self, a: Value, b: Value) -> Value:
        """Return the bitwise or."""
        made = self.binary("or", a, b)
        if a.type.scalar is I1 and self._off:
            pairs = zip(self.lanes_off(a), self.lanes_off(b), strict=True)
            self._note_off(made, tuple([one and other for one, other in pairs]))
        return made

    def xor(self, a: Value, b: Value) -> Value:
        """Return the bitwise exclusive or."""
        return self.binary("xor", a, b)

    def not_(self, a: Value) -> Value:
        """Return the bitwise complement."""
        return self.binary("xor", a, const(a.type, -1))

    def shl(self, a: Value, b: Value) -> Value:
        """Return a << b; b must be below the width."""
        return self.binary("shl", a, b)

    def lshr(self, a: Value, b: Value) -> Value:
        """Return a >> b, filling zeros; b must be below the width."""
        return self.binary("lshr", a, b)

    def ashr(self, a: Value, b: Value) -> Value:
        """Return a >> b, filling the sign; b must be below the width."""
        return self.binary("ashr", a, b)

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Compare integers or pointers: eq ne slt sle sgt sge ult ule ugt uge."""
        return self._compare("icmp", predicate, a, b)

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Compare floats: oeq ogt oge olt ole one ord, ueq ... une uno (true on NaN)."""
        return self._compare("fcmp", predicate, a, b)

    def _compare(self, opcode: str, predicate: str, a: Value, b: Value) -> Value:
        type = a.type
        if (
            type is not b.type
            or type.lane_kind not in _COMPARED[opcode]
            or predicate not in _PREDICATES[opcode]
        ):
            raise self.ill_typed(f"{opcode} {predicate}", a, b)
        if opcode == "icmp" and a.text[0] != "%":
            known = compared(predicate, a, b)
            if known is not None:
                return known
        text = f"{opcode} {predicate} {type.text} {a.text}, {b.text}"
        return self.define(vector(I1, type.lanes), text)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Return a where `condition` (one i1, or one per lane) holds, else b."""
        chosen, of = condition.type, a.type
        fits = chosen is I1 or (of.kind == "vector" and chosen is vector(I1, of.lanes))
        if of is not b.type or not fits:
            raise self.ill_typed("select", condition, a, b)
        type = a.type.text
        chooser = f"{condition.type.text} {condition.text}"
        return self.define(a.type, f"select {chooser}, {type} {a.text}, {type} {b.text}")

    def cast(self, opcode: str, a: Value, type: Type) -> Value:
        """Emit the cast `opcode a to type`; a cast to a's own type is a."""
        if a.type is type:
            return a
        if not _is_cast(opcode, a.type, type):
            raise self.ill_typed(f"{opcode} to {type.text}", a)
        return self.define(type, f"{opcode} {a.type.text} {a.text} to {type.text}")

    def trunc(self, a: Value, type: Type) -> Value:
        """Drop the high bits of an integer."""
        return self.cast("trunc", a, type)

    def zext(self, a: Value, type: Type) -> Value:
        """Widen an unsigned integer."""
        return self.cast("zext", a, type)

    def sext(self, a: Value, type: Type) -> Value:
        """Widen a signed integer."""
        return self.cast("sext", a, type)

    def fptrunc(self, a: Value, type: Type) -> Value:
        """Round a float to a narrower type (f16, bf16: see `math.half` where no CPU support)."""
        return self.cast("fptrunc", a, type)

    def fpext(self, a: Value, type: Type) -> Value:
        """Widen a float, exactly."""
        return self.cast("fpext", a, type)

    def fptosi(self, a: Value, type: Type) -> Value:
        """Convert towards zero; NaN and out of range are undefined (see `math.saturating`)."""
        return self.cast("fptosi", a, type)

    def fptoui(self, a: Value, type: Type) -> Value:
        """Convert towards zero; NaN and out of range are undefined (see `math.saturating`)."""
        return self.cast("fptoui", a, type)

    def sitofp(self, a: Value, type: Type) -> Value:
        """Convert a signed integer, rounding to nearest even."""
        return self.cast("sitofp", a, type)

    def uitofp(self, a: Value, type: Type) -> Value:
        """Convert an unsigned integer, rounding to nearest even."""
        return self.cast("uitofp", a, type)

    def bitcast(self, a: Value, type: Type) -> Value:
        """Read the same bits as another type."""
        return self.cast("bitcast", a, type)

    def ptrtoint(self, a: Value, type: Type = I64) -> Value:
        """Return a pointer's address."""
        return self.cast("ptrtoint", a, type)

    def inttoptr(self, a: Value, type: Type) -> Value:
        """Return an address as a pointer."""
        return self.cast("inttoptr", a, type)

    def extract_value(self, aggregate: Value, index: int) -> Value:
        """Return one field of a struct value."""
        fields = aggregate.type.fields
        if not 0 <= index < len(fields):
            raise self.ill_typed(f"extractvalue {index}", aggregate)
        return self.define(fields[index], f"extractvalue {aggregate!r}, {index}")

    def insert_value(self, aggregate: Value, field: Value, index: int) -> Value:
        """Return a struct value with one field replaced."""
        fields = aggregate.type.fields
        if not 0 <= index < len(fields) or fields[index] is not field.type:
            raise self.ill_typed(f"insertvalue {index}", aggregate, field)
        return self.define(aggregate.type, f"insertvalue {aggregate!r}, {field!r}, {index}")

    def reduce(self, kind: str, a: Value) -> Value:
        """Reduce all lanes to one scalar; the order is fixed: halves are combined, then halved.

        Kinds: add mul (both), and or xor smax smin umax umin (integers, i1), maximum minimum
        (floats, NaN wins, -0 < +0). Float add and mul take a power of two of lanes.

        Raises:
            InternalError: there is no such reduction of these lanes.
        """
        if not a.type.is_vector:
            return a
        if a.type.is_float and kind in _TREE_REDUCTIONS:
            return self._reduce_tree(_TREE_REDUCTIONS[kind], a)
        if a.type.is_float and kind in _FLOAT_REDUCTIONS:
            name = f"llvm.vector.reduce.{_FLOAT_REDUCTIONS[kind]}"
            return self.intrinsic(name, a.type.element, [a])
        if a.type.is_float or kind not in _INTRINSIC_REDUCTIONS:
            raise InternalError(f"there is no '{kind}' reduction of {a.type.text}")
        return self.intrinsic(f"llvm.vector.reduce.{kind}", a.type.element, [a])

    def _reduce_tree(self, opcode: str, a: Value) -> Value:
        lanes = a.type.lanes
        while lanes > 1:
            if lanes % 2:
                raise InternalError(f"a float reduction needs a power of two, not {a.type.lanes}")
            lanes //= 2
            low, high = self.slice_lanes(a, 0, lanes), self.slice_lanes(a, lanes, lanes)
            a = self.binary(opcode, low, high)
        return a


@lru_cache(maxsize=4096)
def _is_cast(opcode: str, source: Type, target: Type) -> bool:
    """Whether LLVM casts one type to another by this opcode."""
    if opcode == "bitcast":
        is_value = bool(source.lane_kind and target.lane_kind) and source.bits == target.bits
        return is_value and (source.lane_kind == "pointer") == (target.lane_kind == "pointer")
    of, to, growth = _CASTS[opcode]
    gained = target.bits - source.bits
    return (
        (source.lane_kind, target.lane_kind) == (of, to)
        and (source.is_vector, source.lanes) == (target.is_vector, target.lanes)
        and (growth == 0 or gained * growth > 0)
    )
