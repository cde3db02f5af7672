# SPDX-License-Identifier: Apache-2.0
"""What a rule sees of its op, and what the lowering knows of named sizes.

A rule gets an `Op` (`op`), which has the `builder` of the computation. The rules of a family stand
in a `table`.

* `op`: the context of an ATen op's rule, besides the op's arguments;
* `builder`: `GraphBuilder`: an `ArrayBuilder` that knows the run-time values of named sizes;
* `bounds`: upper bounds of symbolic sizes that vary little: `greatest_value(size)`;
* `numbers`: floats computed from named sizes: a `SymFloat` of PyTorch as a run-time number;
* `table`: `RuleTable`: the rules of one family of ops, by the names of PyTorch's overloads;
* `guards`: sizes that PyTorch knows by its guards, while HLO's shape rules have an expression;
* `symbols`: the named sizes that occur in nodes, and in the bodies of their higher-order ops.
"""
