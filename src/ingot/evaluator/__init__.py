# SPDX-License-Identifier: Apache-2.0
"""The meaning of every op, in NumPy: the reference for passes and backends.

Same family file names as `hlo/opset`. Written to be verified by reading; used by tests and constant
folding, never by a compiled program.
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
