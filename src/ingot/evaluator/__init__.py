# SPDX-License-Identifier: Apache-2.0
"""The meaning of every op, in NumPy: the reference for passes and backends.

Same family file names as `hlo/opset`. Written to be verified by reading; used by tests and constant
folding, never by a compiled program.

* `collective`: evaluates collective ops: one exchange of operands among a group's devices each;
* `contraction`: evaluates contractions: dot as one matrix product, convolution as one per kernel
  element;
* `control`: evaluates control ops: call, while, conditional;
* `dots`: evaluates ragged and scaled dots: a dot for each group, a dot of products with scales;
* `elementwise`: evaluates elementwise ops other than transcendental functions;
* `linalg`: evaluates linear algebra by textbook algorithms, one row or column at a time;
* `normalization`: evaluates batch normalization in f64, rounded once;
* `random`: evaluates random ops with XLA's exact bits: Philox 4x32-10 and Threefry 2x32-20;
* `replicated`: evaluates a program on several devices: one thread for each;
* `shaping`: evaluates shaping ops: they move elements and compute nothing;
* `structural`: evaluates structural ops: constants, tuples, fusions, barriers, tokens;
* `transfer`: evaluates transfer ops: asynchronous ones at once, feeds from the device's queues;
* `transforms`: evaluates fft in c128, rounded once, and scan step by step;
* `interpreter`: evaluates modules, computations and single instructions;
* `own_targets`: evaluates the custom calls that XLA itself defines: no target is registered for
  them;
* `reduction`: evaluates reductions and map;
* `rounding`: evaluates mulhi and `stochastic-convert`: results that need more bits than the
  operands have;
* `transcendental`: evaluates transcendental functions, sqrt and power;
* `complex_numbers`: complex arithmetic where NumPy's is not C99's: quotients, powers, angles,
  signs;
* `devices`: devices of an evaluation, and the board where they exchange values;
* `dynamic`: evaluates ops on dynamic dimensions: arrays have their actual sizes;
* `factors`: evaluates the factorizations that XLA's client library writes as custom calls;
* `indexing`: evaluates indexing ops: gather and scatter by coordinates, sort by merging;
* `windows`: the padded array that they slide over, and the elements that they read;
* `pointwise`: applies a scalar computation at every element, for reduce, map, scatter and sort;
* `stored`: elements beyond the sizes of dynamic arrays: each is the first part of an array at its
  bound;
* `numbers`: number formats: exact conversions between element types, their bits, and where rules
  compute;
* `registry`: the registry of rules by opcode, and the context that a rule gets.
"""

from ingot.evaluator.interpreter import evaluate, evaluate_computation, evaluate_instruction
from ingot.evaluator.registry import Array, Context, Value, evaluated_opcodes
from ingot.evaluator.replicated import evaluate_replicated

__all__ = [
    "Array",
    "Context",
    "Value",
    "evaluate",
    "evaluate_computation",
    "evaluate_instruction",
    "evaluate_replicated",
    "evaluated_opcodes",
]
