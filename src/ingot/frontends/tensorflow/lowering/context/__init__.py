# SPDX-License-Identifier: Apache-2.0
"""What a rule sees of its node, and what one lowering knows while it walks a function.

A rule gets an `Op`: its node, operands as `values`, the builder of the computation's `Frame`. A
`Program` is shared by all computations of one lowering: it holds what the walk has learnt of
symbolic sizes and of the call.

* `values`: what a tensor of the captured function is while it is lowered;
* `loop_counters`: loop variables that count: from a number, by a number, while they are less than a
  number;
* `sizes`: sizes that must be equal: how symbolic sizes of different inputs turn out to be one;
* `program`: what one lowering shares over all its computations;
* `tensors`: the builder of TensorFlow's rules, which learns which sizes must be equal;
* `frame`: one HLO computation being built, with the state of variables and sizes in it;
* `computed_sizes`: sizes that only run time knows: an integer of the program becomes a size of its
  shapes;
* `constants`: values that the lowering needs at compile time: found by evaluation, or asked of the
  arguments;
* `op`: what the rule of a TensorFlow op sees of its node, and the errors that it can give;
* `specialiser`: what one lowering has learnt before each attempt: equal sizes, and values and sizes
  of the call;
* `affine`: integer scalars as sums of products: what begin and end of a slice have in common;
* `quotients`: quotients and remainders of symbolic sizes, some of which may be negative.
"""
