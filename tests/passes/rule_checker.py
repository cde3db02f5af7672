# SPDX-License-Identifier: Apache-2.0
"""The random rule checker: makes programs on which a rule fires and compares before and after.

A pattern says by itself what to build: captures become parameters, constants become broadcasts,
comparisons get a direction. Rules on ops with other attributes carry examples instead. Each
instance is evaluated on special values (signed zeros, infinities, NaN, extremes) before and after;
what may differ is what the rule's licence says. The same instances with every inner instruction
used elsewhere too must not get dearer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from ml_dtypes import finfo

from ingot.formats.hlo_text import parse
from ingot.hlo import dim
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED, DType, Kind, dtype, greatest, least
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import Trait, find
from ingot.hlo.opset.elementwise import SWAPPED
from ingot.hlo.rewrite.driver import apply_rules, touches_floats
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.pattern import Capture, Op, Pattern, Splat
from ingot.hlo.rewrite.rule import Rule, RuleSet
from ingot.hlo.shape import Shape
from ingot.hlo.verifier import verify
from ingot.support.diagnostics import ParseError, VerifyError

ELEMENTS = ("f32", "s32", "pred", "f64", "u32", "bf16", "s8", "c64", "u16")
_DIMS: tuple[tuple[int | Dim, ...], ...] = ((3, 4), (Dim.symbol("n"), 4))
_SIZES = re.compile(r"(?<=\w)\[([\d,]+)\]")
_PARAMETER = re.compile(r"(\([^()]*\)|\w+\[[\d,]*\]) (\w+)(?=[,)])")
_CONSTANTS = (0, -0.0, 1, 2, 3, -1, -2, 0.5, 4, 64, float("inf"), float("-inf"), True, False)
_PRELUDE = """
add_f32 { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
max_f32 { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
add_s32 { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] add(a, b) }
less_f32 {
  a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
""".replace("  ", "\n")


@dataclass(frozen=True)
class Instance:
    """A program and a word on where it comes from."""

    module: Module
    origin: str
    size: int = 3  # the value of the symbolic size n


def from_example(text: str) -> Instance:
    """Return the program of an example, its parameters declared."""
    shapes = {name: shape for shape, name in _PARAMETER.findall(text)}
    parameters = [
        f"{name} = {shape} parameter({number})"
        for number, (name, shape) in enumerate(shapes.items())
    ]
    body = "\n".join((*parameters, text))
    return Instance(parse(f"HloModule m\n{_PRELUDE}\nENTRY e {{\n{body}\n}}"), "example")


class _Instantiator:
    def __init__(self, element: DType, seed: int) -> None:
        self.element = element
        self.random = random.Random(seed)
        self.builder = Builder("main")
        self.bound: dict[str, Instruction] = {}
        self.dims = _DIMS[seed % 2]

    def make(self, pattern: Pattern, element: DType) -> Instruction:
        if isinstance(pattern, Capture):
            return self._parameter(pattern.name, element)
        if isinstance(pattern, Splat):
            made = self._splat(pattern, element)
        else:
            assert isinstance(pattern, Op)
            made = self._op(pattern, element)
        name = pattern.name
        return self.bound.setdefault(name, made) if name else made

    def _parameter(self, name: str, element: DType) -> Instruction:
        if name not in self.bound:
            number = len(self.builder.computation.parameters)
            self.bound[name] = self.builder.parameter(number, Shape.array(element, self.dims))
        return self.bound[name]

    def _splat(self, pattern: Splat, element: DType) -> Instruction:
        extremes = (least(element), greatest(element)) if element.is_integer else ()
        choices = [pattern.value] if pattern.value is not None else [*_CONSTANTS, *extremes]
        self.random.shuffle(choices)
        for value in choices:
            try:
                with np.errstate(all="ignore"):
                    scalar = np.array(value).astype(element.numpy)[()]
                fits = pattern.where is None or pattern.where(scalar)
            except (OverflowError, ValueError, TypeError):
                continue
            if fits:
                return self.builder.full(scalar, Shape.array(element, self.dims))
        raise VerifyError("no constant fits")

    def _op(self, pattern: Op, element: DType) -> Instruction:
        if pattern.operands is None:
            raise VerifyError("operands are not known")
        opcode = self.random.choice(pattern.opcodes)
        elements = [element] * len(pattern.operands)
        if opcode == "select":
            elements[0] = PRED
        if opcode in ("real", "imag") and self.random.random() < 0.5:
            elements = [dtype("c64")]
        attributes = dict(pattern.attributes)
        if opcode == "compare":
            elements = [self.element] * 2
            attributes.setdefault("direction", self.random.choice(tuple(SWAPPED)))
        operands = [self.make(p, e) for p, e in zip(pattern.operands, elements, strict=True)]
        if pattern.operands and not pattern.ordered and self.random.random() < 0.5:
            operands = self._swapped(opcode, operands)
        return self.builder.emit(opcode, *operands, **attributes)

    def _swapped(self, opcode: str, operands: list[Instruction]) -> list[Instruction]:
        return operands[::-1] if find(opcode).has(Trait.COMMUTATIVE) else operands


def _symbolic(entry: Rule, text: str) -> Iterator[Instance]:
    """Yield the example with one of its sizes made symbolic throughout, where that is valid."""
    sizes = {size for match in _SIZES.finditer(text) for size in match.group(1).split(",")}
    for size in sorted(sizes - {"0", "1"}):

        def renamed(match: re.Match[str], size: str = size) -> str:
            parts = ("?n" if part == size else part for part in match.group(1).split(","))
            return "[" + ",".join(parts) + "]"

        try:
            instance = from_example(_SIZES.sub(renamed, text))
            verify(instance.module)
        except (VerifyError, ParseError):
            continue
        computation = instance.module.entry
        if entry.match(computation.root) is not None:
            anchor = Builder(computation)  # a parameter gives the size its value
            anchor.parameter(len(computation.parameters), "f32[?n]", "anchor")
            yield replace(instance, size=int(size))


def instances(entry: Rule, seeds: int = 4) -> Iterator[Instance]:
    """Yield the rule's examples and programs made from its pattern, for every element type."""
    for text in entry.examples:
        yield from_example(text)
        yield from _symbolic(entry, text)
    for name in ELEMENTS:
        for seed in range(seeds):
            maker = _Instantiator(dtype(name), seed)
            try:
                root = maker.make(entry.pattern, dtype(name))
                module = Module.of("m", maker.builder.build(root))
                verify(module)
            except (VerifyError, TypeError):
                continue
            if root.opcode != "parameter" and entry.match(root) is not None:
                yield Instance(module, f"{name}, seed {seed}")


def random_inputs(module: Module, size: int, licence: Fp, seed: int) -> list[object]:
    generator = np.random.default_rng(seed)
    return [_random_array(shape, size, licence, generator) for shape in module.parameter_shapes]


def _random_array(shape: Shape, size: int, licence: Fp, generator: np.random.Generator) -> object:
    if shape.is_tuple:
        return tuple(_random_array(element, size, licence, generator) for element in shape.elements)
    storage = shape.dtype.numpy
    dims = tuple(dim.evaluate(given, {"n": size}) for given in shape.dims)
    if shape.dtype is PRED:
        return generator.integers(0, 2, dims).astype(storage)
    if shape.dtype.is_integer:
        extremes = np.iinfo(storage)
        values = [0, 1, 2, 3, 5, extremes.min, extremes.max, -1 % (extremes.max + 1)]
        return generator.choice(np.array(values, dtype=storage), dims)
    moderate = generator.uniform(0.5, 2.0, dims)
    if licence < Fp.REASSOCIATE:
        special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.7, -0.3, 1e-3, 2.5]
        if licence < Fp.CONTRACT:
            special += [3e38, -3e38, 2e-38, 1e-40]
        chosen = generator.choice(np.array(special), dims)
        moderate = np.where(generator.random(dims) < 0.7, chosen, moderate)
    else:
        moderate = np.where(generator.random(dims) < 0.1, np.nan, moderate)
    if shape.dtype.kind is Kind.COMPLEX:
        return (moderate + 1j * generator.uniform(-1, 1, dims)).astype(storage)
    with np.errstate(all="ignore"):
        return moderate.astype(storage)


def assert_same(before: object, after: object, licence: Fp, what: str) -> None:
    """Assert that two results agree as far as the licence asks."""
    if isinstance(before, tuple):
        assert isinstance(after, tuple)
        for a, b in zip(before, after, strict=True):
            assert_same(a, b, licence, what)
        return
    left, right = np.asarray(before), np.asarray(after)
    assert left.dtype == right.dtype, what
    assert left.shape == right.shape, what
    if left.dtype.kind in "biu" or left.dtype.name.startswith(("int", "uint")):
        assert (left == right).all(), f"{what}\n{left}\n{right}"
        return
    parts = (
        [(left.real, right.real), (left.imag, right.imag)]
        if left.dtype.kind == "c"
        else [(left, right)]
    )
    for a, b in parts:
        _assert_floats(a, b, licence, what)


def _assert_floats(left: np.ndarray, right: np.ndarray, licence: Fp, what: str) -> None:
    epsilon = float(finfo(left.dtype).eps)
    wide = left.astype(np.float64), right.astype(np.float64)
    message = f"{what}\n{left}\n{right}"
    assert (np.isnan(wide[0]) == np.isnan(wide[1])).all(), message
    real = ~np.isnan(wide[0])
    a, b = wide[0][real], wide[1][real]
    if licence <= Fp.SIGNED_ZERO:
        assert (a == b).all(), message
        if licence is Fp.EXACT:
            assert (np.signbit(a) == np.signbit(b)).all(), message
        return
    ulps = 8 if licence is Fp.CONTRACT else 64
    absolute = 0.0 if licence is Fp.CONTRACT else 4 * epsilon
    np.testing.assert_allclose(b, a, rtol=ulps * epsilon, atol=absolute, err_msg=message)


def licence_of(entry: Rule, module: Module) -> Fp:
    """Return what the rule may do here: floats under its licence, all else exactly."""
    floats = any(touches_floats(instruction) for instruction in module.entry.instructions)
    return entry.fp if floats else Fp.EXACT


def fire(entry: Rule, module: Module) -> bool:
    context = PassContext(fp=Fp.REASSOCIATE, debug=1)
    apply_rules(module, RuleSet([entry]), context)
    verify(module)
    return bool(context.log)


def shared(module: Module) -> Module:
    """Return a copy in which every inner instruction is a result too."""
    copy = module.clone()
    entry = copy.entry
    inner = [i for i in entry.post_order() if i.opcode not in ("parameter", "constant")]
    entry.set_root(entry.add("tuple", (*inner, entry.root)))
    return copy


_FREE = frozenset(
    ("parameter", "constant", "broadcast", "reshape", "iota", "tuple", "get-tuple-element", "copy")
)


def cost(module: Module, size: int) -> int:
    """Return a crude count of work: elements or operations, times ten for transcendentals."""
    total = 0
    live = {module.entry.root}
    for instruction in reversed(module.entry.post_order()):
        if instruction not in live:
            continue
        live.update(instruction.operands)
        if instruction.opcode in _FREE:
            continue
        weight = 10 if instruction.has(Trait.EXPENSIVE) else 1
        weight = 4 if instruction.opcode in ("divide", "sqrt", "rsqrt") else weight
        weight = 2 if instruction.opcode == "gather" else weight  # each element has an address
        counts = (instruction.shape.size, instruction.definition.flops(instruction))
        total += weight * max(dim.evaluate(given, {"n": size}) for given in counts)
    return total
