# SPDX-License-Identifier: Apache-2.0
"""`ingot diff` and ingot.diff: where a compiled program departs from its reference, and why.

* `function_hooks`: compares the functions that a program compiles when it first calls them;
* `jax_diff`, `tensorflow_diff`, `torch_diff`: a framework's function, compiled by Ingot and run by
  the framework without compilation;
* `function_diff`: ingot.diff: one comparison for functions of every framework;
* `differences`: the result: whether a program agrees, and the facts about a difference;
* `first_difference`: the first instruction whose compiled value differs from the evaluator's.
"""
